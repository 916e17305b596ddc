//! Writes a new file, in the layout that every version of MXNet since 1.0 reads.

use crate::format::{CPU, MAGIC, MOST_AXES, RESERVED, dtype_number, holder, magic};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, OutputFile, OutputLayout,
    Placement, Result, Shape, Tensor, TensorId, Writer,
};

/// The layout of a new file with the checkpoint's tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for more axes than MXNet allows.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let stored: Vec<(usize, &Tensor, DType)> = checkpoint
        .tensors
        .iter()
        .enumerate()
        .filter_map(|(id, tensor)| Some((id, tensor, holder(tensor.dtype)?)))
        .collect();
    let mut layout = OutputLayout::default();
    let mut header = Writer::new();
    header.numbers(&[MAGIC, RESERVED, stored.len() as u64]);
    let mut at = 0u64;
    for (id, tensor, dtype) in &stored {
        let on_tensor = |error: Error| error.tensor(&tensor.name);
        let shape = array(&mut header, tensor, *dtype).map_err(on_tensor)?;
        let encoding = Encoding::row_major(tensor).with_dtype(*dtype);
        let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(too_large).map_err(on_tensor)?;
        let bytes = std::mem::take(&mut header).into_bytes();
        let offset = at.checked_add(bytes.len() as u64).ok_or_else(too_large)?;
        layout.literals.push(Literal { file: FileId(0), offset: at, bytes });
        at = offset.checked_add(len).ok_or_else(too_large)?;
        let extents = if len == 0 { Vec::new() } else { vec![Extent::new(FileId(0), offset, len)] };
        let placement = Placement::new(TensorId(*id), &tensor.name, extents, encoding);
        layout.placements.push(placement.with_shape(shape));
        layout.losses.extend(loss(tensor));
    }
    header.number(stored.len() as u64);
    for (_, tensor, _) in &stored {
        header.number(tensor.name.len() as u64).bytes(tensor.name.as_bytes());
    }
    let bytes = header.into_bytes();
    let len = at.checked_add(bytes.len() as u64).ok_or_else(too_large)?;
    layout.literals.push(Literal { file: FileId(0), offset: at, bytes });
    layout.files = vec![OutputFile::new(name, len)];
    Ok(layout)
}

/// Writes the header of an array; returns the shape that the file states, if it is another one.
fn array(header: &mut Writer, tensor: &Tensor, dtype: DType) -> Result<Option<Shape>> {
    let rank = tensor.shape.rank() as u64;
    if rank > MOST_AXES {
        return Err(Error::unsupported("the tensor has more axes than MXNet allows")
            .found(rank.to_string())
            .expected(format!("at most {MOST_AXES}")));
    }
    // An array of rank 0 is one without values.
    let stated = (rank == 0).then(|| Shape::new([1u64])).transpose()?;
    let shape = stated.as_ref().unwrap_or(&tensor.shape);
    let count = |number: usize| i32::try_from(number).map_err(|_| too_large());
    header.number(magic::V2).number(0i32).number(count(shape.rank())?);
    for len in shape.iter() {
        header.number(i64::try_from(*len).map_err(|_| too_large())?);
    }
    header.numbers(&[CPU, 0, dtype_number(dtype).unwrap_or_default()]);
    Ok(stated)
}

/// What becomes of a scalar.
fn loss(tensor: &Tensor) -> Option<Loss> {
    let detail = "a scalar gets one axis of length 1: without axes, MXNet reads an array without values";
    (tensor.shape.rank() == 0).then(|| Loss::new(LossKind::MetadataDropped, tensor.name.as_str(), detail))
}

fn too_large() -> Error {
    Error::unsupported("the tensors are too large for a file of MXNet")
}
