//! One tensor: what its entry in the header states.

use crate::format::{self, Entry};
use ckpt_api::{Encoding, Error, Extent, FileId, Name, Packing, Placement, Result, Shape, Tensor, TensorId};

/// The tensor of an entry, and where its bytes are in a file whose data begins at `start`.
pub(super) fn describe(
    id: TensorId,
    file: FileId,
    start: u64,
    name: Name,
    entry: Entry,
) -> Result<(Tensor, Placement)> {
    let Some(dtype) = format::dtype(entry.dtype) else {
        let error = Error::unsupported("the dtype is not supported").field("dtype");
        return Err(error.found(entry.dtype.to_string()).tensor(name));
    };
    let shape = Shape::new(&entry.shape[..]).map_err(|error| error.tensor(&name))?;
    let (from, to) = entry.data_offsets;
    let Some((first, len)) = start.checked_add(from).zip(to.checked_sub(from)) else {
        return Err(Error::corrupt("the tensor lies outside the file").field("data_offsets").tensor(name));
    };
    let extent = Extent::new(file, first, len);
    let tensor = Tensor::new(name, dtype, shape);
    let mut encoding = Encoding::row_major(&tensor);
    if dtype.bits().is_some_and(|bits| bits < 8) {
        encoding.packing = Packing::Bits;
    }
    let placement = Placement::new(id, tensor.name.clone(), extent, encoding);
    Ok((tensor, placement))
}
