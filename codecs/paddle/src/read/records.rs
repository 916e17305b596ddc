//! Records of tensors, one after the other and without names.
//!
//! ```text
//! u32 version 0 · u64 levels, each u64 bytes and these · u32 version 0 · i32 bytes of a TensorDesc · TensorDesc · elements
//! ```

use crate::format::{MOST_AXES, dtype};
use ckpt_api::fields::{Bytes, count, field, le, varint};
use ckpt_api::{
    Contents, DType, Encoding, Error, Extent, Fields, File, FileId, Limit, Limits, Placement, Result, Shape,
    Tensor, TensorId,
};

/// Bytes of a description, at most.
const LONGEST: i32 = 1 << 10;
/// Bytes before the description of a tensor without levels.
const HEAD: u64 = 20;
/// Memory that each record takes while a file is read.
const EACH_BYTES: u64 = 320;

/// Keys of a TensorDesc: its type, and lengths one by one or packed.
const TYPE: u64 = 0x08;
const LENGTH: u64 = 0x10;
const LENGTHS: u64 = 0x12;

/// Whether a file begins as a record without levels does.
pub(super) fn begins_as_record(file: &File) -> Result<bool> {
    let head = file.bytes(0, file.len().min(HEAD + 3))?;
    let Some((zeros, [len, 0, 0, 0, 8, number, 0x10 | 0x12])) = head.split_at_checked(16) else {
        return Ok(false);
    };
    Ok(zeros.iter().all(|byte| *byte == 0) && (2..=0x7f).contains(len) && dtype((*number).into()).is_some())
}

/// Reads all records; the tensors are called `0`, `1`, ….
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], with the offset, for what Paddle does not read.
pub(super) fn read(file: &File, limits: &Limits) -> Result<Contents> {
    let mut fields = Fields::new(file);
    let mut contents = Contents::default();
    while fields.remaining() > 0 || contents.placements.is_empty() {
        let id = contents.placements.len();
        limits.check(Limit::Tensors, id as u64 + 1)?;
        let at = fields.position();
        let record = record(&mut fields).map_err(|error| {
            let error = error.file(file.name()).tensor(format!("record {id}"));
            if error.context().offset.is_none() { error.offset(at) } else { error }
        })?;
        let tensor = Tensor::new(id.to_string(), record.dtype, record.shape);
        let encoding = Encoding::row_major(&tensor);
        let extent = (record.len > 0).then(|| Extent::new(FileId(0), record.offset, record.len));
        let extents: Vec<Extent> = extent.into_iter().collect();
        contents.placements.push(Placement::new(TensorId(id), &tensor.name, extents, encoding));
        contents.checkpoint.tensors.push(tensor);
    }
    let bytes = EACH_BYTES.saturating_mul(contents.placements.len() as u64);
    Ok(contents.with_working_memory(bytes))
}

struct Record {
    dtype: DType,
    shape: Shape,
    offset: u64,
    len: u64,
}

fn record(fields: &mut Fields<'_>) -> Result<Record> {
    version(fields, "version of the record")?;
    let levels = fields.parse(|input| field("number of levels", count(8, le::<u64>))(input))?;
    for _ in 0..levels {
        let len = fields.parse(|input| field("bytes of a level", count(1, le::<u64>))(input))?;
        fields.skip(len)?;
    }
    version(fields, "version of the tensor")?;
    let at = fields.position();
    let len = fields.parse(|input| field("bytes of the description", le::<i32>)(input))?;
    let size = u64::try_from(len).ok().filter(|_| (1..=LONGEST).contains(&len)).ok_or_else(|| {
        wrong("the description of a tensor has no valid length", at)
            .field("bytes of the description")
            .found(len.to_string())
            .expected(format!("1 to {LONGEST}"))
    })?;
    let at = fields.position();
    let bytes = fields.bytes(size)?;
    let (dtype, shape) = description(&bytes, at)?;
    let offset = fields.position();
    let elements = dtype.bytes().and_then(|bytes| bytes.checked_mul(shape.elements()));
    let len = elements.filter(|len| *len <= fields.remaining()).ok_or_else(|| {
        wrong("the file ends before the tensor does", offset)
            .field("elements")
            .found(format!("{} left", ckpt_api::count(fields.remaining(), "byte")))
            .expected(format!("{shape} of {dtype}"))
    })?;
    fields.skip(len)?;
    Ok(Record { dtype, shape, offset, len })
}

fn version(fields: &mut Fields<'_>, name: &'static str) -> Result<()> {
    let at = fields.position();
    match fields.parse(|input| field(name, le::<u32>)(input))? {
        0 => Ok(()),
        other => {
            Err(wrong("the version is not known", at).field(name).found(other.to_string()).expected("0"))
        }
    }
}

/// The type and the lengths of a TensorDesc.
fn description(bytes: &[u8], at: u64) -> Result<(DType, Shape)> {
    let mut input = Bytes::new(bytes, at);
    let (mut number, mut lens) = (None, Vec::new());
    while input.remaining() > 0 {
        let at = input.offset();
        match input.parse(varint)? {
            TYPE => number = Some((input.parse(varint)?, at)),
            LENGTH => lens.push((input.parse(varint)?, at)),
            LENGTHS => {
                let end = input.parse(|input| count(1, varint)(input))?;
                let end = input.remaining().saturating_sub(end);
                while input.remaining() > end {
                    lens.push((input.parse(varint)?, at));
                }
            }
            other => {
                return Err(wrong("the description of a tensor has an unknown field", at)
                    .found(format!("key {other:#x}"))
                    .expected("a type and lengths"));
            }
        }
        if lens.len() > MOST_AXES {
            return Err(wrong("a tensor has too many axes", at).expected(format!("at most {MOST_AXES}")));
        }
    }
    let (number, place) = number.ok_or_else(|| wrong("a tensor has no type", at).expected("a field 1"))?;
    let dtype = i64::try_from(number).ok().and_then(dtype).ok_or_else(|| {
        wrong("a tensor has an unknown type", place)
            .field("data_type")
            .found(number.to_string())
            .expected("0 to 6, 20 to 24, 32 or 33")
    })?;
    let length = |(len, at): &(u64, u64)| {
        Some(*len).filter(|len| i64::try_from(*len).is_ok()).ok_or_else(|| {
            wrong("an axis has a negative length", *at)
                .field("dims")
                .found(len.cast_signed().to_string())
                .expected("at least 0")
        })
    };
    let lens = lens.iter().map(length).collect::<Result<Vec<u64>>>()?;
    let shape = Shape::new(&lens).map_err(|error| error.offset(at).field("dims"))?;
    Ok((dtype, shape))
}

fn wrong(message: &str, at: u64) -> Error {
    Error::corrupt(message).offset(at)
}
