//! Boxes within tensors.

use ckpt_api::{Region, Shape};

/// The box that is all of a shape.
pub(crate) fn whole_box(shape: &Shape) -> Region {
    Region { start: vec![0; shape.rank()], shape: shape.clone() }
}

/// What two boxes have in common; `None` if that is nothing.
pub(crate) fn intersection(a: &Region, b: &Region) -> Option<Region> {
    let mut start = Vec::with_capacity(a.start.len());
    let mut len = Vec::with_capacity(a.start.len());
    for k in 0..a.start.len() {
        let first = a.start[k].max(b.start[k]);
        let end = (a.start[k] + a.shape[k]).min(b.start[k] + b.shape[k]);
        len.push(end.checked_sub(first).filter(|len| *len > 0)?);
        start.push(first);
    }
    Some(Region { start, shape: Shape::new(len).ok()? })
}
