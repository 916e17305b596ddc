//! A pickle that was read and is written again as it was.
//!
//! The pickle of a plain state dict follows from the names of its tensors. Any other one (of a training run, say) has
//! more: dicts within dicts, parameters, values that are no tensors. It is kept in the metadata, if it makes nothing but
//! tensors and plain values, and is written again while its tensors are the checkpoint's.

use super::file::{FOLDER, Storage};
use super::{KEY_FOLDER, KEY_PICKLE, ZIP, fresh};
use crate::container::{Record, Saved, StorageId};
use crate::format::{ID, StorageClass, element_named};
use crate::pickle::{Feed, Tree, Value, parse};
use crate::read::layout;
use crate::read::rebuild::{Made, View, made};
use crate::read::roles;
use crate::read::walk::{Found, walk};
use ckpt_api::{
    Checkpoint, Contents, Encoding, Endian, File, Limits, MetadataValue, Result, Tensor, TensorId, Ties,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How every pickle that PyTorch writes begins: protocol 2.
const PROTOCOL: [u8; 2] = [0x80, 2];

/// A pickle whose tensors are the checkpoint's.
pub(crate) struct Kept {
    pub(crate) pickle: Vec<u8>,
    /// In the order of the file.
    pub(crate) storages: Vec<Storage>,
    /// Whether reading the pickle gives the tensors the roles and slots that they have.
    pub(crate) has_roles: bool,
}

/// Keeps in the metadata what writing the file again needs.
///
/// # Errors
/// Those of [`fresh::store`].
pub(crate) fn keep(saved: &Saved, contents: &mut Contents, limits: &Limits) -> Result<()> {
    let Some(folder) = saved.folder.as_ref().filter(|_| !saved.is_script) else { return Ok(()) };
    if folder != FOLDER {
        contents.checkpoint.metadata.insert(ZIP, KEY_FOLDER, folder.as_str());
    }
    contents.checkpoint.ties = Ties::of(contents);
    let is_plain = plain(&contents.checkpoint)? == saved.tree.pickle();
    let is_kept = !is_plain && fit(&saved.tree, &contents.checkpoint, limits).is_some();
    contents.checkpoint.ties = Ties::default();
    if is_kept {
        let bytes = MetadataValue::Bytes(saved.tree.pickle().to_vec());
        contents.checkpoint.metadata.insert(ZIP, KEY_PICKLE, bytes);
    }
    Ok(())
}

/// The pickle that writing gives for these tensors alone.
fn plain(checkpoint: &Checkpoint) -> Result<Vec<u8>> {
    let (stored, lens) = fresh::store(checkpoint)?;
    Ok(fresh::state_dict(checkpoint, &stored, &lens))
}

impl Kept {
    /// The pickle that was read, if it still describes the checkpoint.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Option<Kept> {
        let pickle = checkpoint.metadata.value(ZIP, KEY_PICKLE)?.as_bytes()?;
        let limits = Limits::default();
        let file = File::new(Arc::new(pickle.to_vec()), "data.pkl").ok()?;
        let tree = parse(Feed::new(&file, 0, file.len(), &limits)).ok()?;
        let (storages, found) = fit(&tree, checkpoint, &limits).filter(|_| tree.end() == file.len())?;
        let has_roles = has_roles(&tree, &found, checkpoint);
        Some(Kept { pickle: pickle.to_vec(), storages, has_roles })
    }
}

/// Whether reading the pickle gives the tensors the roles and slots that they have.
fn has_roles(tree: &Tree, found: &Found, checkpoint: &Checkpoint) -> bool {
    let by_name = checkpoint.by_name();
    let of_name = |name: &str| by_name.get(name).and_then(|id| checkpoint.tensors.get(id.0));
    let plain = |own: &Tensor| Tensor::new(&own.name, own.dtype, own.shape.clone());
    let own: Vec<&Tensor> = found.tensors.iter().filter_map(|(name, _)| of_name(name)).collect();
    let mut read: Vec<Tensor> = own.iter().map(|own| plain(own)).collect();
    roles::assign(tree, &found.optimizers, &mut read);
    read.iter().zip(own).all(|(read, own)| read.role == own.role && read.slot == own.slot)
}

/// Returns the storages of a pickle and what it holds, if it is harmless, and each storage is filled by tensors of the
/// checkpoint, which has no others.
fn fit(tree: &Tree, checkpoint: &Checkpoint, limits: &Limits) -> Option<(Vec<Storage>, Found)> {
    if !tree.pickle().starts_with(&PROTOCOL) || !is_harmless(tree) {
        return None;
    }
    let found = walk(tree, tree.root(), ID).ok()?;
    if found.tensors.len() != checkpoint.tensors.len() {
        return None;
    }
    let by_name = checkpoint.by_name();
    let mut storages = all_storages(tree)?;
    for (name, id) in &found.tensors {
        let own = *by_name.get(name.as_str())?;
        let Made::Tensor(view) = made(tree, *id).ok()? else { return None };
        let storage = storages.get_mut(&order(view.storage.key))?;
        let encoding = filling(checkpoint, own, &view, storage.len, limits)?;
        if let Some((first, of_first)) = storage.tensors.first().filter(|_| storage.len > 0) {
            let ties = &checkpoint.ties;
            if ties.first_of(*first) != ties.first_of(own) || *of_first != encoding {
                return None;
            }
        }
        storage.tensors.push((own, encoding));
    }
    let is_filled = |storage: &Storage| storage.len == 0 || !storage.tensors.is_empty();
    storages.values().all(is_filled).then(|| (storages.into_values().collect(), found))
}

/// Keys of storages are ordered as numbers.
fn order(key: &str) -> (u64, String) {
    (key.parse().unwrap_or(u64::MAX), key.to_owned())
}

fn all_storages(tree: &Tree) -> Option<BTreeMap<(u64, String), Storage>> {
    let mut storages = BTreeMap::new();
    for id in tree.ids() {
        let Some(id) = tree.persistent(id) else { continue };
        let storage = StorageId::parse(tree, id).ok().filter(|storage| storage.part.is_none())?;
        let is_name = !storage.key.is_empty()
            && storage.key.len() < 1024
            && !storage.key.contains(['/', '\\', '\0', '.']);
        let len = storage.elements.checked_mul(storage.class.element().bytes).filter(|_| is_name)?;
        let own = storages.entry(order(storage.key)).or_insert_with(|| Storage {
            key: storage.key.to_owned(),
            len,
            tensors: Vec::new(),
        });
        if own.len != len {
            return None;
        }
    }
    Some(storages)
}

/// Returns how a tensor fills all bytes of its storage; `None` if it does not, or is another one than the checkpoint's.
fn filling(
    checkpoint: &Checkpoint,
    id: TensorId,
    view: &View<'_>,
    len: u64,
    limits: &Limits,
) -> Option<Encoding> {
    let tensor = checkpoint.tensors.get(id.0)?;
    if view.element.dtype != Some(tensor.dtype) || view.shape != tensor.shape {
        return None;
    }
    let record = Record { start: 0, len, compression: None, crc: None };
    let (placement, _) = layout::place((id, tensor), view, &record, Endian::Little, limits).ok()?;
    match &placement.extents[..] {
        [extent] if extent.region.is_none() && placement.window.is_none() && extent.len == len => {
            Some(placement.encoding)
        }
        _ => None,
    }
}

/// Whether the pickle makes nothing but tensors and plain values: what `torch.load` accepts with `weights_only=True`.
pub(super) fn is_harmless(tree: &Tree) -> bool {
    tree.ids().all(|id| match tree.value(id) {
        Value::Global(module, name) => is_allowed(module, name),
        Value::Buffer => false,
        _ => true,
    })
}

fn is_allowed(module: &str, name: &str) -> bool {
    match module {
        "collections" => matches!(name, "OrderedDict" | "Counter"),
        "torch._utils" => matches!(
            name,
            "_rebuild_tensor_v2"
                | "_rebuild_tensor_v3"
                | "_rebuild_tensor"
                | "_rebuild_parameter"
                | "_rebuild_parameter_with_state"
                | "_rebuild_qtensor"
        ),
        "torch" => {
            let is_plain = matches!(name, "Size" | "device" | "per_tensor_affine" | "strided");
            is_plain || element_named(name).is_some() || StorageClass::named(module, name).is_some()
        }
        "torch.storage" => StorageClass::named(module, name) == Some(StorageClass::Untyped),
        "builtins" | "__builtin__" => matches!(name, "set" | "complex" | "bytearray"),
        "_codecs" => name == "encode",
        _ => false,
    }
}
