//! Recognizes the calls that make a tensor, and takes their arguments.

use super::describe::wrong;
use ckpt_api::{Error, Result};
use ckpt_containers::pickle::{Id, Object, Tree, Value, numpy};
use smallvec::SmallVec;

/// Arguments of a call: no function takes more.
const MOST_ARGUMENTS: usize = 16;

type Arguments = SmallVec<[Id; MOST_ARGUMENTS]>;

/// Whether a call makes a tensor or an array of numbers, as far as its name tells.
pub(crate) fn is_tensor(tree: &Tree, object: Object) -> bool {
    tree.global(object.callable).is_some_and(|(module, name)| rebuilder(module, name).is_some())
        || numpy::is_array(tree, object)
}

#[derive(Clone, Copy)]
pub(super) enum Rebuilder {
    /// Storage, offset, size, stride.
    Plain,
    /// The same with a type.
    Typed,
    Parameter,
    FromType,
    Quantized,
    Meta,
    Sparse,
    Nested,
    /// A subclass, whose tensors are its attributes.
    Wrapper,
    /// A tensor or an array with the values that a device had.
    Device,
    Other(&'static str),
}

pub(super) fn rebuilder(module: &str, name: &str) -> Option<Rebuilder> {
    match (module, name) {
        ("torch._utils", name) => Some(match name {
            "_rebuild_tensor_v2" | "_rebuild_tensor" => Rebuilder::Plain,
            "_rebuild_tensor_v3" => Rebuilder::Typed,
            "_rebuild_parameter" | "_rebuild_parameter_with_state" => Rebuilder::Parameter,
            "_rebuild_qtensor" => Rebuilder::Quantized,
            "_rebuild_meta_tensor_no_storage" => Rebuilder::Meta,
            "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor" => Rebuilder::Sparse,
            "_rebuild_nested_tensor" => Rebuilder::Nested,
            "_rebuild_wrapper_subclass" => Rebuilder::Wrapper,
            "_rebuild_device_tensor_from_numpy"
            | "_rebuild_device_tensor_from_cpu_tensor"
            | "_rebuild_xla_tensor" => Rebuilder::Device,
            _ if name.starts_with("_rebuild_") => Rebuilder::Other("a tensor of an unknown kind"),
            _ => return None,
        }),
        ("torch.nested._internal.nested_tensor", "_rebuild_njt") => Some(Rebuilder::Nested),
        ("torch._tensor" | "torch.tensor", "_rebuild_from_type" | "_rebuild_from_type_v2") => {
            Some(Rebuilder::FromType)
        }
        ("torch.nn.parameter", "Parameter") | ("torch", "Tensor") => {
            Some(Rebuilder::Other("a tensor that was pickled without torch.save"))
        }
        _ => None,
    }
}

pub(super) fn arguments_of(tree: &Tree, id: Id) -> Result<Arguments> {
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) => Ok(tree.items(list).take(MOST_ARGUMENTS).collect()),
        _ => Err(wrong("the arguments of a tensor are no tuple")),
    }
}

pub(super) fn item(items: &[Id], index: usize) -> Result<Id> {
    items
        .get(index)
        .copied()
        .ok_or_else(|| wrong("a tensor has too few arguments").found(items.len().to_string()))
}

/// The value of a key in the attributes of a tensor, if they are a dict. Many tensors may share one: it has to be small.
pub(super) fn field(tree: &Tree, dict: Id, key: &str) -> Result<Option<Id>> {
    const MOST_FIELDS: usize = 256;
    match tree.value(dict) {
        Value::Dict(list) if list.len() / 2 > MOST_FIELDS => {
            Err(Error::limit("a tensor has too many attributes").expected(format!("at most {MOST_FIELDS}")))
        }
        _ => Ok(tree.entry(dict, key)),
    }
}

pub(super) fn natural(tree: &Tree, id: Id) -> Option<u64> {
    tree.int(id).and_then(|number| u64::try_from(number).ok())
}

pub(super) fn naturals(tree: &Tree, id: Id) -> Option<Vec<u64>> {
    const MOST_AXES: usize = 1024;
    let id = match tree.object(id) {
        // torch.Size((2, 3))
        Some(size) if tree.global(size.callable) == Some(("torch", "Size")) => {
            let [sizes] = tree.tuple(size.arguments)?;
            sizes
        }
        _ => id,
    };
    let (Value::Tuple(list) | Value::List(list)) = tree.value(id) else { return None };
    if list.len() > MOST_AXES {
        return None;
    }
    tree.items(list).map(|id| natural(tree, id)).collect()
}
