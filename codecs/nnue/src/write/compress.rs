//! Has the arrays compressed that a network stores so.

use super::model;
use crate::format::{COMPRESSION, ID, LEB128, Network, Part};
use crate::leb128;
use ckpt_api::{
    Contents, DType, Encoding, Extent, Input, MetadataValue, Options, Placement, Result, Shape, Tensor,
};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Replaces the tensors of arrays that are compressed by their bytes; `None` if no array is. How many these are depends on the
/// values, which are read once; what a file of the format holds compressed is taken as it is.
///
/// A tensor whose integers are computed on the way, such as by a cast, is left as it is.
pub(crate) fn prepare(input: &Input, contents: &Contents, options: &Options) -> Result<Option<Contents>> {
    let Ok(network) = model::network(&contents.checkpoint) else { return Ok(None) };
    let parts = Network::transformer(network.version, &network.inputs, network.l1)?;
    let kept = contents.checkpoint.metadata.value(ID, LEB128).and_then(MetadataValue::as_list);
    let is_wanted = |part: &Part| match (options.text(COMPRESSION), kept) {
        (Some(compression), _) => compression == "leb128",
        (None, Some(kept)) => kept.iter().any(|name| name.as_text() == Some(&part.name)),
        (None, None) => false,
    };
    let wanted: Vec<Part> =
        parts.into_iter().filter(|part| part.is_compressible && is_wanted(part)).collect();
    let names = contents.checkpoint.by_name();
    let mut prepared: Option<Contents> = None;
    for part in &wanted {
        let Some(id) = names.get(part.name.as_str()).copied() else { continue };
        let (tensor, placement) = contents.tensor_at(id)?;
        let Some(extent) = compressed(input, &contents.files, (tensor, placement), part)? else { continue };
        let shape = Shape::new([extent.len])?;
        let name = tensor.name.clone();
        let prepared = prepared.get_or_insert_with(|| contents.clone());
        if let Some(tensor) = prepared.checkpoint.tensors.get_mut(id.0) {
            *tensor = Tensor::new(name, DType::U8, shape);
        }
        if let Some(placement) = prepared.placements.get_mut(id.0) {
            let encoding = Encoding::new(DType::U8, vec![0]);
            *placement = Placement::new(id, placement.name.clone(), vec![extent], encoding);
        }
    }
    if let Some(prepared) = &mut prepared {
        // The shapes of compressed arrays do not tell it.
        network.keep(&mut prepared.checkpoint.metadata);
    }
    Ok(prepared)
}

/// The compressed bytes of a tensor; `None` unless its integers are stored as they are in memory.
fn compressed(
    input: &Input,
    files: &[String],
    (tensor, placement): (&Tensor, &Placement),
    part: &Part,
) -> Result<Option<Extent>> {
    let Some(Some(extent)) = placement.whole_extent(tensor) else { return Ok(None) };
    let is_plain = placement.encoding == Encoding::row_major(tensor) && extent.len == part.bytes();
    if tensor.dtype != part.dtype || !is_plain || tensor.shape != part.shape {
        return Ok(None);
    }
    let Some(width) = part.dtype.bytes() else { return Ok(None) };
    match extent.compression() {
        Some(compression) if leb128::is_decoded(compression) => {
            Ok(Some(Extent::new(extent.file, extent.offset, compression.stored)))
        }
        Some(_) => Ok(None),
        None => {
            let Some(name) = files.get(extent.file.0) else { return Ok(None) };
            let file = extent.open(&input.file(name)?)?;
            let (mut at, mut len) = (0u64, 0u64);
            while at < extent.len {
                let piece = PIECE.min(extent.len - at);
                len = len.saturating_add(leb128::encoded_len(width, &file.bytes(at, piece)?));
                at += piece;
            }
            let stored = leb128::encoded(width, extent.len);
            Ok(Some(Extent::new(extent.file, extent.offset, len).with_compression(stored)))
        }
    }
}
