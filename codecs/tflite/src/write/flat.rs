//! Builds a FlatBuffer front to back: tables first, and the bytes of buffers last, of which only the lengths are known.

use ckpt_api::{Error, Result};
use std::collections::{HashMap, VecDeque};

/// Multiples at which the bytes of buffers begin.
pub(super) const ALIGNMENT: u64 = 16;
/// The most bytes that offsets within a FlatBuffer reach.
const MOST_BYTES: u64 = (1 << 31) - 1;

/// A table: fields by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<(u16, Field)>);

/// What a field has.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Flag(bool),
    U8(u8),
    I8(i8),
    I32(i32),
    U32(u32),
    U64(u64),
    F32(f32),
    Table(Table),
    Tables(Vec<Table>),
    Text(String),
    Bytes(Vec<u8>),
    I32s(Vec<i32>),
    I64s(Vec<i64>),
    F32s(Vec<f32>),
    /// Bytes that are written later: their length, and a number by which they are found again.
    Data {
        len: u64,
        number: usize,
    },
}

/// The head of a file, and where the bytes go that are written later.
#[derive(Debug)]
pub(super) struct Built {
    /// All bytes but those, with their offsets in the file.
    pub(super) literals: Vec<(u64, Vec<u8>)>,
    /// The offset of each, by number.
    pub(super) data: HashMap<usize, u64>,
    /// Bytes of the file.
    pub(super) len: u64,
}

impl Table {
    /// The same with a field.
    #[must_use]
    pub(super) fn with(mut self, number: u64, field: Field) -> Self {
        self.0.push((u16::try_from(number).unwrap_or(u16::MAX), field));
        self
    }

    /// The length and the number of the bytes that are written later, if the table has some.
    pub(super) fn data(&self) -> Option<(u64, usize)> {
        self.0.iter().find_map(|(_, field)| match field {
            Field::Data { len, number } => Some((*len, *number)),
            _ => None,
        })
    }
}

impl Field {
    /// Bytes that the field takes in its table.
    fn size(&self) -> usize {
        match self {
            Field::Flag(_) | Field::U8(_) | Field::I8(_) => 1,
            Field::U64(_) => 8,
            _ => 4,
        }
    }
}

/// A vector or table that a reference leads to.
enum Target<'t> {
    Table(&'t Table),
    Tables(&'t [Table]),
    Bytes(&'t [u8], bool),
    Numbers(Vec<u8>, usize, usize),
}

/// Builds the file of a root table.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for more bytes than offsets reach.
pub(super) fn build(root: &Table, identifier: [u8; 4]) -> Result<Built> {
    let mut builder = Builder { bytes: vec![0; 4], lists: HashMap::new(), later: Vec::new() };
    builder.bytes.extend_from_slice(&identifier);
    let mut queue = VecDeque::from([(0, Target::Table(root))]);
    while let Some((reference, target)) = queue.pop_front() {
        builder.put(reference, target, &mut queue)?;
    }
    builder.finish()
}

struct Builder {
    bytes: Vec<u8>,
    /// Where each list of fields is: tables of one form share it.
    lists: HashMap<Vec<u16>, usize>,
    /// References to bytes that are written later: where, how many, and their number.
    later: Vec<(usize, u64, usize)>,
}

impl Builder {
    /// Adds zeros until `after` bytes more end at a multiple of `size`.
    fn align(&mut self, size: usize, after: usize) {
        while !self.bytes.len().wrapping_add(after).is_multiple_of(size) {
            self.bytes.push(0);
        }
    }

    /// Writes the distance from a reference to its target, which is further on.
    fn refer(&mut self, reference: usize, target: usize) -> Result<()> {
        let distance = target.checked_sub(reference).and_then(|distance| u32::try_from(distance).ok());
        let distance =
            distance.filter(|distance| u64::from(*distance) <= MOST_BYTES).ok_or_else(too_large)?;
        if let Some(place) = self.bytes.get_mut(reference..).and_then(|rest| rest.first_chunk_mut()) {
            *place = distance.to_le_bytes();
        }
        Ok(())
    }

    fn put<'t>(
        &mut self,
        reference: usize,
        target: Target<'t>,
        queue: &mut VecDeque<(usize, Target<'t>)>,
    ) -> Result<()> {
        match target {
            Target::Table(table) => return self.table(reference, table, queue),
            Target::Tables(tables) => {
                self.align(4, 0);
                self.refer(reference, self.bytes.len())?;
                self.count(tables.len())?;
                for table in tables {
                    queue.push_back((self.bytes.len(), Target::Table(table)));
                    self.bytes.extend([0; 4]);
                }
            }
            Target::Bytes(bytes, is_text) => {
                self.align(4, 0);
                self.refer(reference, self.bytes.len())?;
                self.count(bytes.len())?;
                self.bytes.extend_from_slice(bytes);
                self.bytes.extend(is_text.then_some(0));
            }
            Target::Numbers(bytes, count, size) => {
                self.align(size, 4);
                self.refer(reference, self.bytes.len())?;
                self.count(count)?;
                self.bytes.extend(bytes);
            }
        }
        Ok(())
    }

    fn count(&mut self, count: usize) -> Result<()> {
        let count = u32::try_from(count).map_err(|_| too_large())?;
        self.bytes.extend(count.to_le_bytes());
        Ok(())
    }

    fn table<'t>(
        &mut self,
        reference: usize,
        table: &'t Table,
        queue: &mut VecDeque<(usize, Target<'t>)>,
    ) -> Result<()> {
        // The largest fields come first, so that none needs a gap; the table begins at 4 below a multiple of 8.
        let mut fields: Vec<&(u16, Field)> = table.0.iter().collect();
        fields.sort_by_key(|(number, field)| (std::cmp::Reverse(field.size()), *number));
        let count =
            fields.iter().map(|(number, _)| usize::from(*number).saturating_add(1)).max().unwrap_or(0);
        let mut slots = vec![0u16; count];
        let mut size = 4usize;
        for (number, field) in &fields {
            if let Some(slot) = slots.get_mut(usize::from(*number)) {
                *slot = u16::try_from(size).map_err(|_| too_large())?;
            }
            size = size.saturating_add(field.size());
        }
        let mut list =
            vec![u16::try_from(slots.len().saturating_mul(2).saturating_add(4)).map_err(|_| too_large())?];
        list.push(u16::try_from(size).map_err(|_| too_large())?);
        list.extend(slots);
        let list_at = match self.lists.get(&list) {
            Some(at) => *at,
            None => {
                self.align(2, 0);
                let at = self.bytes.len();
                self.bytes.extend(list.iter().flat_map(|slot| slot.to_le_bytes()));
                self.lists.insert(list, at);
                at
            }
        };
        self.align(8, 4);
        let at = self.bytes.len();
        self.refer(reference, at)?;
        let back = at.checked_sub(list_at).and_then(|back| i32::try_from(back).ok()).ok_or_else(too_large)?;
        self.bytes.extend(back.to_le_bytes());
        for (_, field) in fields {
            self.field(field, queue);
        }
        Ok(())
    }

    /// Writes a field, or the place for the reference to it.
    fn field<'t>(&mut self, field: &'t Field, queue: &mut VecDeque<(usize, Target<'t>)>) {
        let place = self.bytes.len();
        let mut later = |target| queue.push_back((place, target));
        match field {
            Field::Flag(value) => return self.bytes.push(u8::from(*value)),
            Field::U8(value) => return self.bytes.push(*value),
            Field::I8(value) => return self.bytes.extend(value.to_le_bytes()),
            Field::I32(value) => return self.bytes.extend(value.to_le_bytes()),
            Field::U32(value) => return self.bytes.extend(value.to_le_bytes()),
            Field::U64(value) => return self.bytes.extend(value.to_le_bytes()),
            Field::F32(value) => return self.bytes.extend(value.to_le_bytes()),
            Field::Table(table) => later(Target::Table(table)),
            Field::Tables(tables) => later(Target::Tables(tables)),
            Field::Text(text) => later(Target::Bytes(text.as_bytes(), true)),
            Field::Bytes(bytes) => later(Target::Numbers(bytes.clone(), bytes.len(), 16)),
            Field::I32s(all) => later(numbers(all, 4, |number| number.to_le_bytes())),
            Field::I64s(all) => later(numbers(all, 8, |number| number.to_le_bytes())),
            Field::F32s(all) => later(numbers(all, 4, |number| number.to_le_bytes())),
            Field::Data { len, number } => self.later.push((place, *len, *number)),
        }
        self.bytes.extend([0; 4]);
    }

    /// Places the bytes that are written later behind all else.
    fn finish(mut self) -> Result<Built> {
        let mut at = self.bytes.len() as u64;
        let (mut literals, mut data) = (Vec::new(), HashMap::new());
        for (reference, len, number) in std::mem::take(&mut self.later) {
            let first = at.saturating_add(4).next_multiple_of(ALIGNMENT);
            let vector = first.saturating_sub(4);
            self.refer(reference, usize::try_from(vector).map_err(|_| too_large())?)?;
            let count = u32::try_from(len).map_err(|_| too_large())?;
            literals.push((vector, count.to_le_bytes().to_vec()));
            data.insert(number, first);
            at = first.checked_add(len).filter(|end| *end <= MOST_BYTES).ok_or_else(too_large)?;
        }
        literals.insert(0, (0, self.bytes));
        Ok(Built { literals, data, len: at })
    }
}

fn numbers<'t, T: Copy, const N: usize>(all: &[T], size: usize, bytes: fn(T) -> [u8; N]) -> Target<'t> {
    Target::Numbers(all.iter().flat_map(|number| bytes(*number)).collect(), all.len(), size)
}

pub(super) fn too_large() -> Error {
    Error::unsupported("the model is too large for offsets of 32 bits")
        .expected(format!("at most {MOST_BYTES} bytes before the tensors"))
}
