//! The numbers of small tensors.

use crate::format::dtype;
use crate::format::message::Tensor;
use crate::read::tensor::shape_of;
use ckpt_api::fields::{le, varint};
use ckpt_api::{DType, Fields, File};

/// Elements of a tensor that is small: of integers, such as a shape, and of others, such as the bounds of a value.
const MOST_ELEMENTS: u64 = 1024;
const MOST_FLOATS: u64 = 16;

/// The numbers of a tensor.
pub(crate) enum Numbers {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

/// The numbers of a small tensor in the model itself, and its shape; `None` for all others.
pub(crate) fn numbers(file: &File, stored: &Tensor) -> Option<(Numbers, Vec<u64>)> {
    let (dtype, shape) = (dtype(stored.data_type)?, shape_of(stored).ok()?);
    let most = if dtype.is_float() { MOST_FLOATS } else { MOST_ELEMENTS };
    if shape.elements() > most || stored.is_external() || !has_numbers(dtype) {
        return None;
    }
    let numbers = match dtype {
        DType::F32 | DType::F64 => Numbers::Floats(floats(file, stored, dtype)?),
        _ => Numbers::Ints(ints(file, stored, dtype)?),
    };
    let found = match &numbers {
        Numbers::Ints(ints) => ints.len(),
        Numbers::Floats(floats) => floats.len(),
    };
    (found as u64 == shape.elements()).then(|| (numbers, shape.to_vec()))
}

/// Whether [`numbers`] reads tensors of this type.
pub(crate) fn has_numbers(dtype: DType) -> bool {
    use DType::{Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32};
    matches!(dtype, Bool | F32 | F64 | I8 | I16 | I32 | I64 | U8 | U16 | U32)
}

/// The stored numbers, and the bytes of the tag before each.
fn fields_of<'a>(file: &'a File, stored: &'a Tensor) -> impl Iterator<Item = Option<(Fields<'a>, u64)>> {
    let raw = stored.raw.iter().map(|range| (range, 0));
    let typed = stored.typed.iter().map(|chunk| (&chunk.range, u64::from(chunk.tag_bytes)));
    raw.chain(typed).map(|(range, tag)| {
        let fields = Fields::range(file, range.start, range.end.saturating_sub(range.start));
        fields.ok().map(|fields| (fields, tag))
    })
}

fn floats(file: &File, stored: &Tensor, dtype: DType) -> Option<Vec<f64>> {
    let mut floats = Vec::new();
    for fields in fields_of(file, stored) {
        let (mut fields, tag) = fields?;
        while fields.remaining() > 0 {
            fields.skip(tag).ok()?;
            floats.push(match dtype {
                DType::F32 => fields.parse(le::<f32>).ok()?.into(),
                _ => fields.parse(le::<f64>).ok()?,
            });
            (floats.len() as u64 <= MOST_ELEMENTS).then_some(())?;
        }
    }
    Some(floats)
}

fn ints(file: &File, stored: &Tensor, dtype: DType) -> Option<Vec<i64>> {
    let mut ints = Vec::new();
    for fields in fields_of(file, stored) {
        let (mut fields, tag) = fields?;
        while fields.remaining() > 0 {
            fields.skip(tag).ok()?;
            ints.push(if stored.raw.is_none() {
                fields.parse(varint).ok()? as i64
            } else {
                match dtype {
                    DType::I64 => fields.parse(le::<i64>).ok()?,
                    DType::I32 => fields.parse(le::<i32>).ok()?.into(),
                    DType::I16 => fields.parse(le::<i16>).ok()?.into(),
                    DType::I8 => fields.parse(le::<i8>).ok()?.into(),
                    DType::U16 => fields.parse(le::<u16>).ok()?.into(),
                    DType::U32 => fields.parse(le::<u32>).ok()?.into(),
                    _ => fields.parse(le::<u8>).ok()?.into(),
                }
            });
            (ints.len() as u64 <= MOST_ELEMENTS).then_some(())?;
        }
    }
    Some(ints)
}

/// The elements of a small tensor in the model itself, little-endian; `None` for all others.
pub(crate) fn elements(file: &File, stored: &Tensor) -> Option<Vec<u8>> {
    let size = usize::try_from(dtype(stored.data_type)?.bytes()?).ok()?;
    Some(match numbers(file, stored)?.0 {
        Numbers::Ints(ints) => {
            ints.into_iter().flat_map(|int| int.to_le_bytes().into_iter().take(size)).collect()
        }
        Numbers::Floats(floats) if size == 8 => floats.into_iter().flat_map(f64::to_le_bytes).collect(),
        Numbers::Floats(floats) => {
            floats.into_iter().flat_map(|float| (float as f32).to_le_bytes()).collect()
        }
    })
}
