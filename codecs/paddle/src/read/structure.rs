//! The file without the elements of its arrays, so that an unmodified one comes back.

use crate::format::NAMESPACE;
use ckpt_api::{Contents, File, Limit, Limits, Result};
use ckpt_containers::structure::Structure;
use std::ops::Range;

/// Keeps the structure in the metadata, if each array has plain bytes of its own.
pub(super) fn keep(contents: &mut Contents, file: &File, limits: &Limits) -> Result<()> {
    let extents = contents.placements.iter().flat_map(|placement| &placement.extents);
    if extents.clone().any(|extent| extent.compression().is_some()) {
        return Ok(());
    }
    let ranges = extents.map(|extent| extent.offset..extent.offset.saturating_add(extent.len));
    let mut data: Vec<Range<u64>> = ranges.filter(|range| !range.is_empty()).collect();
    data.sort_by_key(|range| range.start);
    let is_apart =
        data.windows(2).all(|pair| pair.first().map(|own| own.end) <= pair.last().map(|own| own.start));
    let hidden: u64 = data.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let len = file.len().saturating_sub(hidden);
    if !is_apart || limits.check(Limit::HeaderBytes, len).is_err() {
        return Ok(());
    }
    Structure::of(file, data)?.keep(&mut contents.checkpoint.metadata, NAMESPACE);
    Ok(())
}
