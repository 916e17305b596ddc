//! A pickle that was read and is written again as it was.
//!
//! The pickle of a plain state dict follows from the names of its tensors. Any other one (of a training run, say) has
//! more: dicts within dicts, parameters, values that are no tensors. It is kept in the metadata, if it makes nothing but
//! tensors and plain values, and is written again while its tensors are the checkpoint's.

use super::file::{FOLDER, Storage, is_folder};
use super::nesting::Nesting;
use super::{KEY_CONTAINERS, KEY_DIFFERENCES, KEY_FOLDER, KEY_PICKLE, ZIP, fresh};
use crate::container::{Record, Saved, StorageId};
use crate::format::{ID, StorageClass, element_named};
use crate::pickle::opcode as op;
use crate::pickle::{Feed, Tree, Value, parse, shown};
use crate::read::layout;
use crate::read::rebuild::{Made, View, made};
use crate::read::roles;
use crate::read::walk::{Container, Found, walk};
use ckpt_api::{
    Checkpoint, Contents, Encoding, Endian, File, Limits, MetadataValue, Result, Tensor, TensorId, Ties,
    first_few,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How every pickle that PyTorch writes begins: protocol 2.
const PROTOCOL: [u8; 2] = [op::PROTO, 2];

/// A pickle whose tensors are the checkpoint's.
pub(crate) struct Kept {
    pub(crate) pickle: Vec<u8>,
    /// In the order of the file.
    pub(crate) storages: Vec<Storage>,
    /// Whether reading the pickle gives the tensors the roles and slots that they have.
    pub(crate) has_roles: bool,
}

/// Keeps in the metadata what writing the file again needs, and how the file that is written will differ.
///
/// # Errors
/// Those of [`fresh::store`].
pub(crate) fn keep(
    saved: &Saved,
    contents: &mut Contents,
    containers: Vec<(String, Container)>,
    limits: &Limits,
) -> Result<()> {
    let mut differences = saved.differences.clone();
    if let Some(folder) = saved.folder.as_ref().filter(|_| !saved.is_script) {
        if folder != FOLDER {
            contents.checkpoint.metadata.insert(ZIP, KEY_FOLDER, folder.as_str());
        }
        contents.checkpoint.ties = Ties::of(contents);
        let kept = match plain(&contents.checkpoint)? == saved.tree.pickle() {
            true => Ok(None),
            false => fit(&saved.tree, &contents.checkpoint, limits).map(|_| Some(saved.tree.pickle())),
        };
        contents.checkpoint.ties = Ties::default();
        match kept {
            Ok(Some(pickle)) => {
                let bytes = MetadataValue::Bytes(pickle.to_vec());
                contents.checkpoint.metadata.insert(ZIP, KEY_PICKLE, bytes);
            }
            Ok(None) => {}
            Err(difference) => differences.push(difference),
        }
        if !is_folder(folder) {
            differences.push("the name of its folder is not safe, and is replaced".to_owned());
        }
        if saved.followed_by > 0 {
            differences
                .push(format!("{} after its end are left out", ckpt_api::count(saved.followed_by, "byte")));
        }
    }
    let nesting = Nesting::new(containers).value();
    if let Some(value) = nesting.filter(|_| contents.checkpoint.metadata.value(ZIP, KEY_PICKLE).is_none()) {
        contents.checkpoint.metadata.insert(ZIP, KEY_CONTAINERS, value);
    }
    if !differences.is_empty() {
        let list = differences.into_iter().map(MetadataValue::from).collect();
        contents.checkpoint.metadata.insert(ZIP, KEY_DIFFERENCES, MetadataValue::List(list));
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
        let (storages, found) = fit(&tree, checkpoint, &limits).ok().filter(|_| tree.end() == file.len())?;
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
///
/// # Errors
/// The reason why not, as a clause.
fn fit(
    tree: &Tree,
    checkpoint: &Checkpoint,
    limits: &Limits,
) -> std::result::Result<(Vec<Storage>, Found), String> {
    check_harmless(tree)?;
    let others = || "its pickle holds other tensors than are read".to_owned();
    let found = walk(tree, tree.root(), ID).map_err(|_| others())?;
    if found.tensors.len() != checkpoint.tensors.len() {
        return Err(others());
    }
    let by_name = checkpoint.by_name();
    let mut storages = all_storages(tree).ok_or("its pickle describes storages as no PyTorch does")?;
    for (name, id) in &found.tensors {
        let own = *by_name.get(name.as_str()).ok_or_else(others)?;
        let Ok(Made::Tensor(view)) = made(tree, *id) else { return Err(others()) };
        let storage = storages.get_mut(&order(view.storage.key)).ok_or_else(others)?;
        let view_of = |what: &str| format!("'{}' {what}", name.escape_debug());
        let encoding = filling(checkpoint, own, &view, storage.len, limits)
            .ok_or_else(|| view_of("is a view of a part of its storage, and gets a storage of its own"))?;
        if let Some((first, of_first)) = storage.tensors.first().filter(|_| storage.len > 0) {
            let ties = &checkpoint.ties;
            if ties.first_of(*first) != ties.first_of(own) || *of_first != encoding {
                return Err(view_of(
                    "is another view of a storage than a tensor before, and gets one of its own",
                ));
            }
        }
        storage.tensors.push((own, encoding));
    }
    let is_empty = |storage: &&Storage| storage.len > 0 && storage.tensors.is_empty();
    match storages.values().find(is_empty) {
        None => Ok((storages.into_values().collect(), found)),
        Some(storage) => Err(format!("no tensor needs its storage '{}', which is left out", storage.key)),
    }
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

/// Names that a text lists.
const SHOWN: usize = 5;

/// Checks that a pickle has the protocol that PyTorch writes, and makes nothing but tensors and plain values.
fn check_harmless(tree: &Tree) -> std::result::Result<(), String> {
    let [.., protocol] = PROTOCOL;
    match tree.pickle() {
        [op::PROTO, own, ..] if *own == protocol => {}
        [op::PROTO, own, ..] => {
            return Err(format!(
                "its pickle has the protocol {own}, and is written with protocol {protocol}"
            ));
        }
        _ => return Err(format!("its pickle states no protocol, and is written with protocol {protocol}")),
    }
    if is_harmless(tree) {
        return Ok(());
    }
    let names = tree.ids().filter_map(|id| match tree.value(id) {
        Value::Global(module, name) if !is_allowed(module, name) => Some(shown(module, name)),
        _ => None,
    });
    let names: BTreeSet<String> = names.collect();
    Err(match names.is_empty() {
        true => "its pickle has buffers outside of it".to_owned(),
        false => format!("its pickle names what a new one does not: {}", first_few(&names, SHOWN)),
    })
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
