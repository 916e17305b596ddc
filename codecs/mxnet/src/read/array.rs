//! One array, in any of the four layouts.

use crate::format::{MOST_AXES, Storage, dtype, magic};
use ckpt_api::fields::{field, le};
use ckpt_api::{DType, Error, Fields, File, Result, Shape};

/// An array of the file.
pub(super) struct Array {
    /// Where it begins.
    pub(super) at: u64,
    /// Its values; `None` for an array without a shape.
    pub(super) values: Option<Values>,
}

/// The values of an array, and where they are.
pub(super) struct Values {
    pub(super) shape: Vec<u64>,
    pub(super) dtype: DType,
    pub(super) offset: u64,
    /// Bytes of the values that are stored.
    pub(super) len: u64,
    pub(super) sparse: Option<Sparse>,
}

/// What places the values of a sparse array.
pub(super) struct Sparse {
    pub(super) storage: Storage,
    /// The shape of the values that are stored.
    pub(super) stored: Vec<u64>,
    /// Rows, or where rows begin and columns.
    pub(super) indices: Vec<Indices>,
}

/// Integers behind the values.
pub(super) struct Indices {
    pub(super) dtype: DType,
    pub(super) count: u64,
    pub(super) offset: u64,
}

/// How a layout stores a shape.
#[derive(Clone, Copy)]
enum Form {
    /// Lengths of 32 bits, as many as the first number says.
    Rank(u32),
    /// Lengths of 64 bits; a rank of 0 is no shape.
    Legacy,
    /// Lengths of 64 bits; a rank of −1 is no shape.
    Numpy,
}

impl Array {
    /// Reads the header of an array, and skips its values.
    pub(super) fn read(fields: &mut Fields<'_>, file: &File) -> Result<Self> {
        let at = fields.position();
        let first = fields.parse(|input| field("layout", le::<u32>)(input))?;
        let form = match first {
            magic::V1 | magic::V2 => Form::Legacy,
            magic::V3 => Form::Numpy,
            rank => Form::Rank(rank),
        };
        let storage = match first {
            magic::V2 | magic::V3 => storage(fields)?,
            _ => Storage::Dense,
        };
        let stored = match storage {
            Storage::Dense => None,
            _ => shape(fields, Form::Legacy)?,
        };
        let Some(shape) = shape(fields, form)? else { return Ok(Array { at, values: None }) };
        // The type and the number of the device that the array was on.
        fields.skip(8)?;
        let dtype = element(fields)?;
        let header = Header { file, storage, shape, dtype, stored: stored.unwrap_or_default() };
        Ok(Array { at, values: Some(header.values(fields)?) })
    }
}

/// What precedes the values of an array.
struct Header<'a> {
    file: &'a File,
    storage: Storage,
    shape: Vec<u64>,
    dtype: DType,
    stored: Vec<u64>,
}

impl Header<'_> {
    fn values(self, fields: &mut Fields<'_>) -> Result<Values> {
        let Header { file, storage, shape, dtype, stored } = self;
        let mut indices = Vec::new();
        let count = match storage {
            Storage::Dense => 0,
            Storage::RowSparse => 1,
            Storage::Csr => 2,
        };
        for _ in 0..count {
            let at = fields.position();
            let dtype = element(fields)?;
            if !matches!(dtype, DType::I64 | DType::I32) {
                return Err(Error::unsupported("the indices of a sparse array are not integers")
                    .offset(at)
                    .found(dtype.to_string())
                    .expected("i64 or i32"));
            }
            let shape = self::shape(fields, Form::Legacy)?.unwrap_or_default();
            let [count] = shape[..] else {
                return Err(Error::corrupt("the indices of a sparse array are no list")
                    .offset(at)
                    .found(format!("{shape:?}"))
                    .expected("one axis"));
            };
            indices.push(Indices { dtype, count, offset: 0 });
        }
        let is_dense = storage == Storage::Dense;
        let offset = fields.position();
        let len = bytes(dtype, if is_dense { &shape } else { &stored })?;
        skip(fields, file, len, "values")?;
        for own in &mut indices {
            own.offset = fields.position();
            skip(fields, file, bytes(own.dtype, &[own.count])?, "indices")?;
        }
        let sparse = (!is_dense).then_some(Sparse { storage, stored, indices });
        Ok(Values { shape, dtype, offset, len, sparse })
    }
}

fn storage(fields: &mut Fields<'_>) -> Result<Storage> {
    let at = fields.position();
    let number = fields.parse(|input| field("storage type", le::<i32>)(input))?;
    Storage::of(number).ok_or_else(|| {
        Error::corrupt("an array has an unknown storage type")
            .offset(at)
            .field("storage type")
            .found(number.to_string())
            .expected("0 (default), 1 (row_sparse) or 2 (csr)")
    })
}

fn element(fields: &mut Fields<'_>) -> Result<DType> {
    let at = fields.position();
    let number = fields.parse(|input| field("dtype", le::<i32>)(input))?;
    dtype(number).ok_or_else(|| {
        Error::corrupt("an array has an unknown dtype")
            .offset(at)
            .field("dtype")
            .found(number.to_string())
            .expected("0 to 7, or 12")
    })
}

/// Reads a shape; `None` for an array without one.
fn shape(fields: &mut Fields<'_>, form: Form) -> Result<Option<Vec<u64>>> {
    let at = fields.position();
    let rank = match form {
        Form::Rank(rank) => i64::from(rank),
        Form::Legacy | Form::Numpy => i64::from(fields.parse(|input| field("rank", le::<i32>)(input))?),
    };
    match (form, rank) {
        (Form::Rank(_) | Form::Legacy, 0) | (Form::Numpy, -1) => return Ok(None),
        _ => {}
    }
    let rank = u64::try_from(rank).ok().filter(|rank| *rank <= MOST_AXES).ok_or_else(|| {
        let error = Error::corrupt("an array has an unknown layout, or too many axes").field("rank");
        let at = if matches!(form, Form::Rank(_)) { at.saturating_sub(4) } else { at };
        error.offset(at).found(rank.to_string()).expected(format!("at most {MOST_AXES}"))
    })?;
    let mut dims = Vec::new();
    for axis in 0..rank {
        let at = fields.position();
        let len = match form {
            Form::Rank(_) => i64::from(fields.parse(|input| field("length of an axis", le::<u32>)(input))?),
            _ => fields.parse(|input| field("length of an axis", le::<i64>)(input))?,
        };
        dims.push(u64::try_from(len).map_err(|_| {
            Error::corrupt("an axis has a negative length")
                .offset(at)
                .field(format!("length of axis {axis}"))
                .found(len.to_string())
                .expected("at least 0")
        })?);
    }
    Shape::new(&dims).map_err(|error| error.offset(at).field("shape"))?;
    Ok(Some(dims))
}

/// Bytes of so many elements.
fn bytes(dtype: DType, shape: &[u64]) -> Result<u64> {
    let elements = Shape::new(shape)?.elements();
    let bytes = dtype.bytes().and_then(|bytes| bytes.checked_mul(elements));
    bytes.ok_or_else(|| Error::corrupt("an array has too many bytes").found(format!("{shape:?}")))
}

fn skip(fields: &mut Fields<'_>, file: &File, len: u64, what: &'static str) -> Result<()> {
    let at = fields.position();
    if len > fields.remaining() {
        return Err(Error::corrupt("the file ends before the array does")
            .file(file.name())
            .offset(at)
            .field(what)
            .found(format!("{} left", ckpt_api::count(fields.remaining(), "byte")))
            .expected(ckpt_api::count(len, "byte")));
    }
    fields.skip(len)
}
