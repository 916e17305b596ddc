//! V1 checkpoints: one table of `SavedTensorSlices`, which has the values themselves.
//!
//! The first entry describes all tensors; each of the others has the values of one tensor, or of a slice of one. A block of
//! the table is as large as its largest tensor, so that it is walked, and its checksum verified when the values are read.

mod block;
mod entries;

pub(super) use block::BLOCK;

use super::stored::shape;
use crate::format;
use crate::slices::{check_cover, region};
use ckpt_api::{
    Contents, Encoding, Error, File, Limit, Limits, Loss, LossKind, Placement, Result, Tensor, TensorId,
};
use entries::{Data, Described, Entries};
use std::collections::HashMap;

/// Whether the file is a table whose first entry describes tensors.
pub(crate) fn begins(file: &File) -> Result<bool> {
    Ok(crate::table::has_magic(file)? && entries::describes(file)?)
}

/// Reads the tensors of a checkpoint.
pub(super) fn read(file: &File, limits: &Limits) -> Result<Contents> {
    let Entries { described, data } = entries::read(file, limits)?;
    let mut by_name: HashMap<String, Vec<Data>> = HashMap::new();
    for data in data {
        by_name.entry(data.name.clone()).or_default().push(data);
    }
    let mut contents = Contents::default();
    for tensor in &described {
        let data = by_name.remove(&tensor.name).unwrap_or_default();
        if tensor.is_text() {
            let detail = "its elements are texts, which are not read from V1 checkpoints";
            contents.losses.push(Loss::new(LossKind::WeightDropped, &tensor.name, detail));
            continue;
        }
        let id = TensorId(contents.placements.len());
        let (tensor, placement) =
            place(tensor, &data, id, limits).map_err(|error| error.tensor(tensor.name.as_str()))?;
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    match by_name.into_keys().min() {
        Some(name) => {
            Err(Error::corrupt("the table has values of a tensor that it does not describe").tensor(name))
        }
        None => Ok(contents),
    }
}

/// The tensor, and its place: one extent for each slice.
fn place(described: &Described, data: &[Data], id: TensorId, limits: &Limits) -> Result<(Tensor, Placement)> {
    let dtype = format::dtype_of(described.dtype)?;
    let tensor = Tensor::new(described.name.as_str(), dtype, shape(&described.dims)?);
    limits.check(Limit::Slices, data.len() as u64)?;
    let regions = data.iter().map(|data| region(&data.slice, &tensor.shape)).collect::<Result<Vec<_>>>()?;
    check_cover(&tensor.shape, regions.iter())?;
    let mut extents = Vec::with_capacity(regions.len());
    for (data, region) in data.iter().zip(regions) {
        let elements = region.shape.elements();
        if elements > 0 {
            let is_whole = region.shape == tensor.shape;
            let extent = data.block.extent(&data.values, dtype, elements)?;
            extents.push(extent.with_region((!is_whole).then_some(region)));
        }
    }
    let encoding = Encoding::row_major(&tensor);
    let placement = Placement::new(id, &tensor.name, extents, encoding);
    Ok((tensor, placement))
}
