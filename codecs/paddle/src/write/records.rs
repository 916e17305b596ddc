//! Writes records in the order of their names, as programs refer to them.

use crate::format::{MOST_AXES, dtype_number, holder_in_record};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, OutputFile, OutputLayout,
    Placement, Result, Tensor, TensorId, Writer,
};

/// The layout of new records with the checkpoint's tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for tensors that are too large.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let all = checkpoint.tensors.iter().enumerate();
    let mut stored: Vec<(usize, &Tensor, DType)> =
        all.filter_map(|(id, tensor)| Some((id, tensor, holder_in_record(tensor.dtype)?))).collect();
    if stored.is_empty() {
        return Err(Error::unsupported("a file of records has at least one tensor").found("no tensor"));
    }
    let mut empty = stored.iter().filter(|(_, tensor, _)| tensor.shape.elements() == 0);
    if let (Some(_), Some((_, second, _))) = (empty.next(), empty.next()) {
        return Err(Error::unsupported(
            "records have no names, so that tensors without elements cannot be told apart",
        )
        .tensor(&second.name)
        .found("several tensors without elements")
        .help("write a .pdparams"));
    }
    stored.sort_by(|(_, a, _), (_, b, _)| a.name.as_str().cmp(b.name.as_str()));
    let mut layout = OutputLayout::default();
    let mut at = 0u64;
    for (id, tensor, dtype) in &stored {
        let on_tensor = |error: Error| error.tensor(&tensor.name);
        let bytes = header(tensor, *dtype).map_err(on_tensor)?;
        let encoding = Encoding::row_major(tensor).with_dtype(*dtype);
        let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(too_large).map_err(on_tensor)?;
        let offset = at.checked_add(bytes.len() as u64).ok_or_else(too_large)?;
        layout.literals.push(Literal { file: FileId(0), offset: at, bytes });
        at = offset.checked_add(len).ok_or_else(too_large)?;
        let extents = if len == 0 { Vec::new() } else { vec![Extent::new(FileId(0), offset, len)] };
        layout.placements.push(Placement::new(TensorId(*id), &tensor.name, extents, encoding));
    }
    layout.files = vec![OutputFile::new(name, at)];
    let detail = "records have no names: a program gives them to the records in the order of the names";
    layout.losses.push(Loss::new(LossKind::NamesDropped, "names", detail));
    Ok(layout)
}

fn header(tensor: &Tensor, dtype: DType) -> Result<Vec<u8>> {
    if tensor.shape.rank() > MOST_AXES {
        return Err(Error::unsupported("the tensor has too many axes")
            .found(tensor.shape.rank().to_string())
            .expected(format!("at most {MOST_AXES}")));
    }
    let mut description = Writer::new();
    let number = dtype_number(dtype).and_then(|number| u64::try_from(number).ok());
    description.varint(8).varint(number.unwrap_or_default());
    for len in tensor.shape.iter() {
        description.varint(0x10).varint(*len);
    }
    let description = description.into_bytes();
    let mut header = Writer::new();
    header.number(0u32).number(0u64).number(0u32);
    header.number(i32::try_from(description.len()).map_err(|_| too_large())?).bytes(&description);
    Ok(header.into_bytes())
}

fn too_large() -> Error {
    Error::unsupported("the tensors are too large for a file of PaddlePaddle")
}
