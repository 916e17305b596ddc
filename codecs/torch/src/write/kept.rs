//! A pickle that was read and is written again as it was.
//!
//! The pickle of a plain state dict follows from the names of its tensors. Any other one (of a training run, say) has
//! more: dicts within dicts, parameters, values that are no tensors. It is kept in the metadata, if it makes nothing but
//! tensors and plain values, and is written again while its tensors are the checkpoint's.

use super::file::{FOLDER, Storage, is_folder};
use super::fresh;
use super::nesting::Nesting;
use crate::container::{Record, Saved, StorageId};
use crate::format::keys::{KEY_CONTAINERS, KEY_DIFFERENCES, KEY_FOLDER, KEY_PICKLE, ZIP};
use crate::format::{ID, StorageClass, element_named};
use crate::object::walk::{Container, Found, walk};
use crate::roles::pickled as roles;
use crate::tensor::layout;
use crate::tensor::rebuild::made;
use crate::tensor::stored::tensor_quantization;
use crate::tensor::view::{Made, Quantizer, View};
use ckpt_api::{
    Checkpoint, Contents, Encoding, Endian, File, Limits, MetadataValue, Result, Tensor, TensorId, Ties,
    first_few,
};
use ckpt_containers::pickle::opcode as op;
use ckpt_containers::pickle::{Feed, Id, Tree, Value, parse, shown};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
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
/// `tensors` are those that [`walk`] finds below the pickle's root, `containers` what they are in.
///
/// # Errors
/// Those of [`fresh::store`].
pub(crate) fn keep(
    saved: &Saved,
    contents: &mut Contents,
    tensors: &[(String, Id)],
    containers: Vec<(String, Container)>,
    limits: &Limits,
) -> Result<()> {
    let mut differences = saved.differences.clone();
    if let Some(folder) = saved.folder.as_ref().filter(|_| !saved.is_script) {
        if folder != FOLDER {
            contents.checkpoint.metadata.insert(ZIP, KEY_FOLDER, folder.as_str());
        }
        contents.checkpoint.ties = Ties::of(contents);
        let pickle = saved.tree.pickle();
        let kept = match fresh::may_be(pickle) && plain(&contents.checkpoint)? == pickle {
            true => Ok(None),
            false => fit(&saved.tree, tensors, &contents.checkpoint, limits).map(|_| Some(pickle)),
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
        let found = walk(&tree, tree.root(), ID).ok().filter(|_| tree.end() == file.len())?;
        let storages = fit(&tree, &found.tensors, checkpoint, &limits).ok()?;
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

/// Returns the storages of a pickle, if it is harmless, and each storage is filled by tensors of the checkpoint, which
/// are these.
///
/// # Errors
/// The reason why not, as a clause.
fn fit(
    tree: &Tree,
    tensors: &[(String, Id)],
    checkpoint: &Checkpoint,
    limits: &Limits,
) -> std::result::Result<Vec<Storage>, String> {
    check_harmless(tree)?;
    let others = || "its pickle holds other tensors than are read".to_owned();
    if tensors.len() != checkpoint.tensors.len() {
        return Err(others());
    }
    let own = Own::new(checkpoint);
    let mut storages = Storages::of(tree).ok_or("its pickle describes storages as no PyTorch does")?;
    for (number, (name, id)) in tensors.iter().enumerate() {
        let own = own.named(name, number).ok_or_else(others)?;
        let Ok(Made::Tensor(view)) = made(tree, *id) else { return Err(others()) };
        let storage = storages.get_mut(view.storage.key).ok_or_else(others)?;
        let view_of = |what: &str| format!("'{}' {what}", name.escape_debug());
        if view.turned.is_some() {
            return Err(view_of("is a conjugated or negated view, and gets a storage of its own"));
        }
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
    match storages.all.iter().find(is_empty) {
        None => Ok(storages.all),
        Some(storage) => Err(format!("no tensor needs its storage '{}', which is left out", storage.key)),
    }
}

/// The tensors of a checkpoint by name. Most pickles have them in the same order: then no map of them is made.
struct Own<'a> {
    checkpoint: &'a Checkpoint,
    by_name: OnceCell<HashMap<&'a str, TensorId>>,
}

impl<'a> Own<'a> {
    fn new(checkpoint: &'a Checkpoint) -> Self {
        Own { checkpoint, by_name: OnceCell::new() }
    }

    /// The tensor with a name, whose number probably is `number`.
    fn named(&self, name: &str, number: usize) -> Option<TensorId> {
        match self.checkpoint.tensors.get(number) {
            Some(tensor) if tensor.name == name => Some(TensorId(number)),
            _ => self.by_name.get_or_init(|| self.checkpoint.by_name()).get(name).copied(),
        }
    }
}

/// The storages that a pickle describes, in the order of their keys, which are numbers.
struct Storages<'a> {
    all: Vec<Storage>,
    by_key: HashMap<&'a str, usize>,
}

impl<'a> Storages<'a> {
    fn of(tree: &'a Tree) -> Option<Self> {
        let mut found: HashMap<&str, u64> = HashMap::new();
        for id in tree.ids() {
            let Some(id) = tree.persistent(id) else { continue };
            let storage = StorageId::parse(tree, id).ok().filter(|storage| storage.part.is_none())?;
            let is_name = !storage.key.is_empty()
                && storage.key.len() < 1024
                && !storage.key.contains(['/', '\\', '\0', '.']);
            let len = storage.elements.checked_mul(storage.class.element().bytes).filter(|_| is_name)?;
            if *found.entry(storage.key).or_insert(len) != len {
                return None;
            }
        }
        let mut ordered: Vec<(u64, &str, u64)> =
            found.into_iter().map(|(key, len)| (key.parse().unwrap_or(u64::MAX), key, len)).collect();
        ordered.sort_unstable();
        let by_key = ordered.iter().enumerate().map(|(number, (_, key, _))| (*key, number)).collect();
        let storage =
            |(_, key, len): (u64, &str, u64)| Storage { key: key.to_owned(), len, tensors: Vec::new() };
        Some(Storages { all: ordered.into_iter().map(storage).collect(), by_key })
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Storage> {
        self.all.get_mut(*self.by_key.get(key)?)
    }
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
    if view.element.dtype != Some(tensor.dtype) || view.shape != tensor.shape || !has_scale(tensor, view) {
        return None;
    }
    let record = Record { start: 0, len, compression: None, crc: None };
    let (placement, _) = layout::place((id, tensor), view, &record, Endian::Little, limits).ok()?;
    match &placement.extents[..] {
        [extent] if extent.region().is_none() && placement.window().is_none() && extent.len == len => {
            Some(placement.encoding)
        }
        _ => None,
    }
}

/// Whether a tensor has the scale and zero point that the pickle states. Scales of an axis are tensors that no
/// checkpoint lists, so that no such pickle is kept.
fn has_scale(tensor: &Tensor, view: &View<'_>) -> bool {
    let own = tensor.quantization.as_ref();
    match view.quantizer {
        None => own.is_none(),
        Some(Quantizer::Channel { .. }) => false,
        Some(Quantizer::Tensor { scale, zero_point }) => {
            own == tensor_quantization(scale, zero_point).ok().as_ref()
        }
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
