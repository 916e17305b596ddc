//! A plain state dict of all tensors: what is written where nothing else was read.

use super::file::Storage;
use super::kind;
use super::state_dict::{self, Item};
use crate::format::keys::KEY_MODULES;
use crate::format::{Element, ID};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, MetadataValue, Placement, Result, Shape, Tensor, TensorId,
};
use std::collections::HashMap;

/// A tensor with the dtype that it is stored with.
pub(super) struct Stored<'a> {
    pub(super) id: TensorId,
    pub(super) tensor: &'a Tensor,
    pub(super) element: Element,
    encoding: Encoding,
    /// Number of its storage among all.
    pub(super) storage: usize,
}

impl<'a> Stored<'a> {
    /// How a box of it is pickled: its shape, the number of its storage, and the bytes of that.
    pub(super) fn item<'b>(&self, shape: &'b Shape, storage: usize, len: u64) -> Item<'b>
    where
        'a: 'b,
    {
        Item { name: &self.tensor.name, element: self.element, shape, storage, len }
    }

    /// The bytes of so many elements.
    pub(super) fn stored_len(&self, elements: u64) -> Option<u64> {
        self.encoding.stored_len(elements)
    }

    /// The tensor in these extents.
    pub(super) fn placement(&self, extents: Vec<Extent>) -> Placement {
        Placement::new(self.id, &self.tensor.name, extents, self.encoding.clone())
    }
}

/// Returns the tensors that PyTorch has a dtype for, in the checkpoint's order, and the bytes of each storage. Ties
/// share one.
pub(super) fn store(checkpoint: &Checkpoint) -> Result<(Vec<Stored<'_>>, Vec<u64>)> {
    let mut stored = Vec::with_capacity(checkpoint.tensors.len());
    let mut storages = Vec::new();
    let mut shared: HashMap<(TensorId, DType, &Shape), usize> = HashMap::new();
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        let Some(element) = kind::holder(tensor.dtype) else { continue };
        let encoding = Encoding::row_major(tensor).with_dtype(element.dtype.unwrap_or(tensor.dtype));
        let unfit = || Error::unsupported("PyTorch cannot hold the tensor").tensor(&tensor.name);
        let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(unfit)?;
        let mut add = || {
            storages.push(len);
            storages.len() - 1
        };
        let id = TensorId(id);
        let storage = match checkpoint.ties.is_empty() || len == 0 {
            true => add(),
            false => {
                let key = (checkpoint.ties.first_of(id), tensor.dtype, &tensor.shape);
                *shared.entry(key).or_insert_with(add)
            }
        };
        stored.push(Stored { id, tensor, element, encoding, storage });
    }
    Ok((stored, storages))
}

/// Returns the pickle of a state dict of these tensors, and its storages. `lens` has the bytes of each storage.
pub(super) fn pickle(
    checkpoint: &Checkpoint,
    tensors: &[Stored<'_>],
    lens: &[u64],
) -> (Vec<u8>, Vec<Storage>) {
    let mut storages: Vec<Storage> = Vec::new();
    for (stored, number) in numbered(tensors, lens.len()) {
        let len = lens.get(stored.storage).copied().unwrap_or(0);
        if number == storages.len() {
            storages.push(Storage { key: number.to_string(), len, tensors: Vec::new() });
        }
        if let Some(storage) = storages.get_mut(number) {
            storage.tensors.push((stored.id, stored.encoding.clone()));
        }
    }
    (state_dict(checkpoint, tensors, lens), storages)
}

/// The pickle of [`pickle`] alone.
pub(super) fn state_dict(checkpoint: &Checkpoint, tensors: &[Stored<'_>], lens: &[u64]) -> Vec<u8> {
    let mut items: Vec<Item<'_>> = Vec::with_capacity(tensors.len());
    for (stored, number) in numbered(tensors, lens.len()) {
        let len = lens.get(stored.storage).copied().unwrap_or(0);
        items.push(stored.item(&stored.tensor.shape, number, len));
    }
    let modules = checkpoint.metadata.value(ID, KEY_MODULES).and_then(MetadataValue::as_map);
    state_dict::pickle(&items, modules)
}

/// Whether a pickle begins as those of [`state_dict`] do: most others need not be compared with one.
pub(super) fn may_be(pickle: &[u8]) -> bool {
    let empty = state_dict::pickle(&[], None);
    let begin = empty.split_last().map_or(&[][..], |(_stop, begin)| begin);
    pickle.starts_with(begin)
}

/// The tensors, each with the number of its storage: they are numbered by first use.
fn numbered<'a, 'b>(
    tensors: &'a [Stored<'b>],
    storages: usize,
) -> impl Iterator<Item = (&'a Stored<'b>, usize)> {
    let mut numbers: Vec<Option<usize>> = vec![None; storages];
    let mut next = 0;
    tensors.iter().map(move |stored| {
        let number = numbers.get_mut(stored.storage).map_or(next, |number| *number.get_or_insert(next));
        next += usize::from(number == next);
        (stored, number)
    })
}
