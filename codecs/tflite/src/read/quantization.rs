//! How the integers of a tensor stand for numbers.

use crate::flat::Table;
use ckpt_api::{Affine, Error, Quantization, Result};

/// Numbers of the fields of quantization, and of the types of its details.
const SCALE: u64 = 2;
const ZERO_POINT: u64 = 3;
const DETAILS_TYPE: u64 = 4;
const DETAILS: u64 = 5;
const DIMENSION: u64 = 6;
const BLOCKWISE: u8 = 2;

/// What a tensor's integers stand for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scheme {
    /// Themselves.
    Plain,
    /// Numbers with a scale, or one for each index of an axis.
    Affine(Quantization),
    /// Numbers whose scales are another tensor of the subgraph.
    Blocks(Blocks),
}

/// Scales of blocks on the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Number of the tensor of scales.
    pub(crate) scales: i32,
    /// Number of the tensor of zero points; 0 or less if there is none.
    pub(crate) zero_points: i32,
    /// Elements that share a scale.
    pub(crate) size: i32,
    /// The axis that the file names.
    pub(crate) axis: i32,
}

/// Reads the quantization of a tensor of this shape.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for scales that do not fit the shape, which the interpreter refuses;
/// [`ckpt_api::Kind::Unsupported`] for details that are not known.
pub(crate) fn scheme(table: &Table<'_>, shape: &[i32]) -> Result<Scheme> {
    scheme_at(table, shape).map_err(|error| error.offset(table.at).field("quantization"))
}

fn scheme_at(table: &Table<'_>, shape: &[i32]) -> Result<Scheme> {
    let axis = table.i32(DIMENSION, 0)?;
    match table.u8(DETAILS_TYPE, 0)? {
        0 => {}
        BLOCKWISE => {
            let details = table.table(DETAILS)?;
            let details = details.ok_or_else(|| Error::corrupt("blockwise scales have no table"))?;
            let (scales, zero_points) = (details.i32(0, 0)?, details.i32(1, 0)?);
            return Ok(Scheme::Blocks(Blocks { scales, zero_points, size: details.i32(2, 0)?, axis }));
        }
        other => {
            return Err(Error::unsupported("the scales are described in a way that is not supported")
                .found(format!("details of type {other}"))
                .expected("scales and zero points, or blockwise ones"));
        }
    }
    let scales = table.f32s(SCALE)?;
    if scales.is_empty() {
        return Ok(Scheme::Plain);
    }
    let zero_points = table.i64s(ZERO_POINT)?;
    let dimension = usize::try_from(axis).ok().filter(|axis| *axis < shape.len() || shape.is_empty());
    let Some(dimension) = dimension else {
        return Err(Error::corrupt("the scales are on an axis that the tensor does not have")
            .found(format!("axis {axis}"))
            .expected(format!("less than {}", shape.len())));
    };
    let len = shape.get(dimension).copied().unwrap_or(1);
    if scales.len() != 1 && usize::try_from(len).ok() != Some(scales.len()) {
        return Err(Error::corrupt("the scales do not fit the tensor")
            .found(ckpt_api::count(scales.len(), "scale"))
            .expected(format!("1, or {len} for axis {dimension}")));
    }
    if !matches!(zero_points.len(), 0 | 1) && zero_points.len() != scales.len() {
        return Err(Error::corrupt("the zero points do not fit the scales")
            .found(ckpt_api::count(zero_points.len(), "zero point"))
            .expected(format!("none, 1 or {}", scales.len())));
    }
    let zero = |index: usize| zero_points.get(index).or(zero_points.first()).copied().unwrap_or(0);
    let zeros = (0..scales.len()).map(|index| number(zero(index))).collect::<Result<Vec<f64>>>()?;
    let along = (scales.len() > 1).then_some(dimension);
    let scales: Vec<f64> = scales.into_iter().map(f64::from).collect();
    Ok(Scheme::Affine(Affine::new(scales, zeros, along)?.into()))
}

/// A zero point as a number.
fn number(zero_point: i64) -> Result<f64> {
    let exact = i32::try_from(zero_point).map(f64::from);
    exact.map_err(|_| {
        Error::unsupported("a zero point is outside the range of 32 bits")
            .found(zero_point.to_string())
            .expected("an integer of the tensor's type")
    })
}
