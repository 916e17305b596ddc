//! The shape that values broadcast to, and how they are read in it.

use super::lowering::{Info, misfit, show};
use super::strides::row_major;
use ckpt_api::Result;

/// Returns the shape that values broadcast to as in ONNX, and the strides of each over it.
pub(super) fn broadcast<const N: usize>(values: [&Info; N]) -> Result<(Vec<usize>, [Vec<usize>; N])> {
    let mut shape = Vec::new();
    for value in values {
        shape = broadcast_pair(&shape, &value.shape)?;
    }
    let strides = values.map(|value| broadcast_strides(&value.shape, &shape));
    Ok((shape, strides))
}

/// Returns the shape that two shapes broadcast to.
pub(super) fn broadcast_pair(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| {
        axis.checked_sub(rank - shape.len()).and_then(|axis| shape.get(axis).copied()).unwrap_or(1)
    };
    let lengths = (0..rank).map(|axis| match (length(a, axis), length(b, axis)) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    });
    let found = lengths.collect::<Option<Vec<_>>>();
    found.ok_or_else(|| misfit(b, format!("a shape that broadcasts to {}", show(a))))
}

/// Returns the strides of a row-major value over the shape that it broadcasts to.
pub(super) fn broadcast_strides(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len() - own.len()];
    strides
        .extend(row_major(own).into_iter().zip(own).map(|(stride, len)| if *len == 1 { 0 } else { stride }));
    strides
}
