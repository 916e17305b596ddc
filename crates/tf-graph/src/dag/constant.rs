//! Tensors that operations have as attributes.

use super::super::node::{attribute, decimal};
use crate::proto::attr_value::Value;
use crate::proto::{NodeDef, TensorProto};
use ckpt_graph::{Integers, Length};

/// Limit on the elements of all constants that the graph holds.
pub(super) const MAX_ELEMENTS: usize = 1 << 20;

/// Numbers of any shape, row by row.
#[derive(Debug)]
pub(super) struct Reals {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

/// Returns the shape of a `Const`.
pub(super) fn shape(node: &NodeDef) -> Option<Vec<usize>> {
    tensor(node).and_then(|tensor| dims(tensor, usize::MAX))
}

/// Returns the integers or truth values of a `Const`, if there are at most `limit`.
pub(super) fn ints(node: &NodeDef, limit: usize) -> Option<Integers> {
    let tensor = tensor(node)?;
    let shape = dims(tensor, limit)?;
    let raw = &tensor.tensor_content;
    let values: Vec<i64> = match tensor.dtype {
        3 if raw.is_empty() => tensor.int_val.iter().map(|value| i64::from(*value)).collect(),
        3 => chunks(raw).map(|bytes| i64::from(i32::from_le_bytes(bytes))).collect(),
        9 if raw.is_empty() => tensor.int64_val.clone(),
        9 => chunks(raw).map(i64::from_le_bytes).collect(),
        10 if raw.is_empty() => tensor.bool_val.iter().map(|value| i64::from(*value)).collect(),
        10 => raw.iter().map(|byte| i64::from(*byte != 0)).collect(),
        4..=6 | 17 if raw.is_empty() => tensor.int_val.iter().map(|value| i64::from(*value)).collect(),
        4 => raw.iter().map(|byte| i64::from(*byte)).collect(),
        5 => chunks(raw).map(|bytes| i64::from(i16::from_le_bytes(bytes))).collect(),
        6 => chunks(raw).map(|bytes| i64::from(i8::from_le_bytes(bytes))).collect(),
        17 => chunks(raw).map(|bytes| i64::from(u16::from_le_bytes(bytes))).collect(),
        _ => return None,
    };
    let values = filled(values, &shape)?.into_iter().map(Length::Known).collect();
    Some(Integers { shape, values })
}

/// Returns the numbers of a `Const` of a floating-point type, if there are at most `limit`.
pub(super) fn reals(node: &NodeDef, limit: usize) -> Option<Reals> {
    let tensor = tensor(node)?;
    let shape = dims(tensor, limit)?;
    let raw = &tensor.tensor_content;
    let values: Vec<f64> = match tensor.dtype {
        1 if raw.is_empty() => tensor.float_val.iter().map(|value| decimal(*value)).collect(),
        1 => chunks(raw).map(|bytes| decimal(f32::from_le_bytes(bytes))).collect(),
        2 if raw.is_empty() => tensor.double_val.clone(),
        2 => chunks(raw).map(f64::from_le_bytes).collect(),
        _ => return None,
    };
    let values = filled(values, &shape)?;
    Some(Reals { shape, values })
}

pub(super) fn tensor(node: &NodeDef) -> Option<&TensorProto> {
    match (attribute(node, "value"), node.op.as_str()) {
        (Some(Value::Tensor(tensor)), "Const") => Some(tensor),
        _ => None,
    }
}

fn chunks<const N: usize>(raw: &[u8]) -> impl Iterator<Item = [u8; N]> {
    raw.chunks_exact(N).filter_map(|bytes| bytes.try_into().ok())
}

/// Returns the lengths of a tensor of at most `limit` elements.
pub(super) fn dims(tensor: &TensorProto, limit: usize) -> Option<Vec<usize>> {
    let Some(shape) = &tensor.tensor_shape else { return Some(Vec::new()) };
    let dims: Option<Vec<usize>> = shape.dim.iter().map(|dim| usize::try_from(dim.size).ok()).collect();
    let dims = dims.filter(|dims| dims.len() <= 32)?;
    let elements = dims.iter().try_fold(1usize, |product, len| product.checked_mul(*len))?;
    (elements <= limit).then_some(dims)
}

/// Repeats the last value if there are fewer than elements; without any, all are 0.
fn filled<T: Copy + Default>(mut values: Vec<T>, shape: &[usize]) -> Option<Vec<T>> {
    let elements = shape.iter().product();
    if values.len() > elements {
        return None;
    }
    let last = values.last().copied().unwrap_or_default();
    values.resize(elements, last);
    Some(values)
}
