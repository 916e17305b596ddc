//! Zeros in the place of a tensor.

use super::placed::{PlacedTensor, check_fixed_size};
use ckpt_api::{Compression, Decoder, Encoding, Error, Extent, Extents, Placement, Quantization, Result};

/// Zeros in the shape of a tensor. Nothing is read of it.
pub(super) fn zeros(mut placed: PlacedTensor) -> Result<PlacedTensor> {
    check_fixed_size(&placed, "replaced by zeros")?;
    let PlacedTensor { tensor, placement } = &mut placed;
    let affine = tensor.quantization.as_ref().and_then(Quantization::affine);
    if let Some(own) = affine.filter(|own| own.zero_points().iter().any(|point| *point != 0.0)) {
        return Err(Error::unsupported("a tensor whose zero is another integer cannot be replaced by zeros")
            .tensor(&tensor.name)
            .found(own.to_string()));
    }
    tensor.blocks = None;
    let encoding = Encoding::row_major(tensor);
    let bytes = encoding.stored_len(tensor.shape.elements());
    let bytes =
        bytes.ok_or_else(|| Error::defect("a tensor has elements of no size").tensor(&tensor.name))?;
    let first = placement.extents.first();
    let extent = first.map(|first| {
        Extent::new(first.file, first.offset, bytes).with_compression(Compression::new(Decoder::REPEATED, 0))
    });
    let (id, name) = (placement.tensor, placement.name.clone());
    *placement = Placement::new(id, name, extent.into_iter().collect::<Extents>(), encoding);
    Ok(placed)
}
