//! Tensors that are assembled of pieces of others, and taken apart again.

use super::parts;
use super::placed::{PlacedTensor, check_fixed_size, merge, split};
use super::reorder::reorder;
use super::stack::{element, stack};
use super::zeros::zeros;
use crate::recipe::{AxisStep, Join, Piece, Place};
use ckpt_api::{Error, Result};

/// Puts pieces side by side along an axis: sources, or their elements of one index, after the steps.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for pieces that do not fit each other; [`ckpt_api::Kind::Unsupported`] for sources that are
/// stored in parts.
pub(super) fn assembled(
    sources: &[PlacedTensor],
    (axis, index): (usize, Option<u64>),
    pieces: &[Piece],
    steps: &[AxisStep],
) -> Result<PlacedTensor> {
    let piece = |piece: &Piece| {
        let source = sources.get(piece.source).ok_or_else(no_source)?;
        let own = match index {
            // What becomes a slice of another tensor has to be runs of bytes of its own.
            Some(index) if pieces.len() > 1 && source.tensor.quantization.is_none() => {
                check_fixed_size(source, "unstacked")?;
                reorder(parts::cut_out(source, 0, index, 1)?, &[AxisStep::Squeeze(0)])?
            }
            Some(index) => element(source, 0, index)?,
            None => source.clone(),
        };
        let own = reorder(own, steps)?;
        if piece.is_zero { zeros(own) } else { Ok(own) }
    };
    let mut made = pieces.iter().map(piece).collect::<Result<Vec<_>>>()?;
    match made.len() {
        1 => made.pop().ok_or_else(no_source),
        _ => merge(made, axis, None),
    }
}

/// Takes a source back out of what was assembled: the part at one place, for each element if there are several.
///
/// # Errors
/// As [`assembled`].
pub(super) fn disassembled(
    sources: &[PlacedTensor],
    join: &Join,
    place: &Place,
    steps: &[AxisStep],
) -> Result<PlacedTensor> {
    let Join::Disassembled { axis, elements, each, .. } = join else { return Err(no_source()) };
    let taken = |index: u64| {
        let first = usize::try_from(index).ok().and_then(|index| index.checked_mul(*each));
        let source = first.and_then(|first| sources.get(first.checked_add(place.tensor)?));
        reorder(part(source.ok_or_else(no_source)?, *axis, place, elements.is_some())?, steps)
    };
    match elements {
        None => taken(0),
        Some(elements) => stack((0..*elements).map(taken).collect::<Result<_>>()?, 0, None),
    }
}

/// One of the equal parts of an axis. What is stacked next has to be runs of bytes of its own.
fn part(whole: &PlacedTensor, axis: usize, place: &Place, is_stacked: bool) -> Result<PlacedTensor> {
    if place.parts == 1 {
        return Ok(whole.clone());
    }
    check_fixed_size(whole, "split")?;
    let (len, parts) = (whole.axis_len(axis)?, place.parts as u64);
    let own = len.checked_div(parts).filter(|_| len.is_multiple_of(parts)).ok_or_else(|| {
        Error::mapping("the axis cannot be split into equal parts")
            .tensor(&whole.tensor.name)
            .found(format!("axis {axis} of {}", whole.tensor.shape))
            .expected(format!("a multiple of {parts}"))
    })?;
    if is_stacked {
        return parts::cut_out(whole, axis, own.saturating_mul(place.part as u64), own);
    }
    split(whole.clone(), axis, place.part, &vec![own; place.parts])
}

fn no_source() -> Error {
    Error::mapping("a recipe has no source")
}
