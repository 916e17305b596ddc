//! Tables and vectors.

use super::bytes::Flat;
use ckpt_api::{Error, Limit, Limits, Result};

/// A table: fields by number, of which any may be absent.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    flat: &'a Flat<'a>,
    /// Offset of the table in the file.
    pub(crate) at: u64,
    /// Offset of the list of its fields' offsets, and how many there are.
    slots: u64,
    count: u64,
}

/// A vector: elements of one size, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Vector<'a> {
    flat: &'a Flat<'a>,
    /// Offset of the first element in the file.
    pub(crate) at: u64,
    pub(crate) len: u64,
}

macro_rules! scalars {
    ($($name:ident: $type:ty;)*) => {
        $(
            /// Returns the field of this number; `default` if it is absent.
            pub(crate) fn $name(&self, number: u64, default: $type) -> Result<$type> {
                match self.field(number)? {
                    Some(at) => self.flat.read(at).map(<$type>::from_le_bytes),
                    None => Ok(default),
                }
            }
        )*
    };
}

impl<'a> Table<'a> {
    /// The table at an offset: it begins with the distance back to the list of its fields.
    pub(super) fn at(flat: &'a Flat<'a>, at: u64) -> Result<Self> {
        let distance = flat.read(at).map(i32::from_le_bytes)?;
        let wrong = |what: &str, offset: u64| Error::corrupt(what).offset(offset);
        let list = at.checked_add_signed(-i64::from(distance)).filter(|list| *list < flat.file.len());
        let list = list.ok_or_else(|| {
            wrong("the list of a table's fields lies outside the file", at)
                .found(format!("{distance} bytes before the table"))
                .expected(format!("an offset below {}", flat.file.len()))
        })?;
        let bytes = flat.u16(list)?;
        if bytes < 4 || bytes % 2 != 0 {
            return Err(wrong("the list of a table's fields has no valid length", list)
                .found(ckpt_api::count(u64::from(bytes), "byte"))
                .expected("an even number of bytes, 4 or more"));
        }
        flat.check_range(list, bytes.into())?;
        let size = flat.u16(list.saturating_add(2))?;
        flat.check_range(at, size.into())?;
        Ok(Table { flat, at, slots: list.saturating_add(4), count: u64::from(bytes).saturating_sub(4) / 2 })
    }

    /// Returns the offset of a field in the file; `None` for one that is absent.
    fn field(&self, number: u64) -> Result<Option<u64>> {
        if number >= self.count {
            return Ok(None);
        }
        let offset = self.flat.u16(self.slots.saturating_add(number.saturating_mul(2)))?;
        Ok((offset > 0).then(|| self.at.saturating_add(offset.into())))
    }

    scalars! {
        u8: u8;
        i8: i8;
        i32: i32;
        u32: u32;
        u64: u64;
        f32: f32;
    }

    /// Returns a truth value; `false` if it is absent.
    pub(crate) fn flag(&self, number: u64) -> Result<bool> {
        Ok(self.u8(number, 0)? != 0)
    }

    /// Returns where a field leads to.
    fn reference(&self, number: u64) -> Result<Option<u64>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        self.flat.follow(at).map(Some)
    }

    /// Returns a table.
    pub(crate) fn table(&self, number: u64) -> Result<Option<Table<'a>>> {
        self.reference(number)?.map(|at| Table::at(self.flat, at)).transpose()
    }

    /// Returns a vector of elements of `size` bytes.
    pub(crate) fn vector(&self, number: u64, size: u64) -> Result<Option<Vector<'a>>> {
        let Some(at) = self.reference(number)? else { return Ok(None) };
        let len = u64::from(self.flat.u32(at)?);
        let first = at.saturating_add(4);
        self.flat.check_range(first, len.saturating_mul(size))?;
        Ok(Some(Vector { flat: self.flat, at: first, len }))
    }

    /// Returns the integers of a vector; none if it is absent.
    pub(crate) fn i32s(&self, number: u64) -> Result<Vec<i32>> {
        let Some(vector) = self.vector(number, 4)? else { return Ok(Vec::new()) };
        let bytes = vector.bytes(4)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect())
    }

    /// Returns the floats of a vector; none if it is absent.
    pub(crate) fn f32s(&self, number: u64) -> Result<Vec<f32>> {
        let Some(vector) = self.vector(number, 4)? else { return Ok(Vec::new()) };
        let bytes = vector.bytes(4)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    /// Returns the integers of 64 bits of a vector; none if it is absent.
    pub(crate) fn i64s(&self, number: u64) -> Result<Vec<i64>> {
        let Some(vector) = self.vector(number, 8)? else { return Ok(Vec::new()) };
        let bytes = vector.bytes(8)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }

    /// Returns a text; an empty one if it is absent.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] for one that is too long; [`ckpt_api::Kind::Corrupt`] if it is not UTF-8.
    pub(crate) fn text(&self, number: u64, limits: &Limits) -> Result<String> {
        let Some(vector) = self.vector(number, 1)? else { return Ok(String::new()) };
        limits.check(Limit::NameBytes, vector.len).map_err(|error| error.offset(vector.at))?;
        String::from_utf8(vector.bytes(1)?).map_err(|error| {
            let valid = error.utf8_error().valid_up_to() as u64;
            Error::corrupt("a text is not UTF-8")
                .offset(vector.at.saturating_add(valid))
                .found(format!("'{}'", String::from_utf8_lossy(error.as_bytes()).escape_debug()))
                .expected("UTF-8")
        })
    }

    /// Returns the vector of tables.
    pub(crate) fn tables(&self, number: u64) -> Result<Option<Vector<'a>>> {
        self.vector(number, 4)
    }
}

impl<'a> Vector<'a> {
    /// Returns the table that element `index` leads to.
    pub(crate) fn table(&self, index: u64) -> Result<Table<'a>> {
        let at = self.at.saturating_add(index.saturating_mul(4));
        Table::at(self.flat, self.flat.follow(at)?)
    }

    /// Returns all elements, which have `size` bytes each.
    pub(crate) fn bytes(&self, size: u64) -> Result<Vec<u8>> {
        self.flat.bytes(self.at, self.len.saturating_mul(size))
    }
}

impl<'a> Flat<'a> {
    /// Returns the root table.
    pub(crate) fn root(&'a self) -> Result<Table<'a>> {
        let offset = self.u32(0)?;
        if offset < 8 {
            return Err(Error::corrupt("the root table begins within the header")
                .offset(0)
                .found(offset.to_string())
                .expected("8 or more"));
        }
        Table::at(self, offset.into())
    }

    /// Returns where the reference at an offset leads to: always further on in the file.
    fn follow(&self, at: u64) -> Result<u64> {
        let distance = u64::from(self.u32(at)?);
        let target = at.checked_add(distance).filter(|target| distance > 0 && *target < self.file.len());
        target.ok_or_else(|| {
            Error::corrupt("an offset leads outside the file")
                .offset(at)
                .found(format!("{distance} bytes further on"))
                .expected(format!("1 to {}", self.file.len().saturating_sub(at)))
        })
    }
}
