//! The pickle of a plain state dict: an `OrderedDict` from names to tensors, as `module.state_dict()` returns.

use super::pickle::{Items, Memo, Pickle, Protocol};
use crate::format::{BYTE, Element};
use ckpt_api::{MetadataMap, Shape};

/// A tensor of a state dict.
pub(crate) struct Item<'a> {
    pub(crate) name: &'a str,
    pub(crate) element: Element,
    pub(crate) shape: &'a Shape,
    /// Number of its storage; storages are numbered by first use.
    pub(crate) storage: usize,
    /// Bytes of that storage.
    pub(crate) len: u64,
}

/// Returns the pickle of a state dict of these tensors. `modules` has what PyTorch records of each module, by its path.
pub(crate) fn pickle(items: &[Item<'_>], modules: Option<&MetadataMap>) -> Vec<u8> {
    let mut pickle = Pickle::new(Protocol::Two);
    let mut keys = Vec::new();
    let mut batches = pickle.begin_items(Items::OrderedDict, items.len());
    for item in items {
        pickle.before_item(&mut batches);
        match item.name {
            // Constants of PyTorch, of which Python has one object.
            "cpu" | "storage" => pickle.text(item.name),
            name => drop(pickle.own_text(name)),
        }
        tensor(&mut pickle, item, &mut keys);
    }
    pickle.end_items(&mut batches);
    if let Some(modules) = modules {
        attributes(&mut pickle, modules);
    }
    pickle.finish()
}

/// Returns the pickle of one tensor.
pub(crate) fn alone(item: &Item<'_>) -> Vec<u8> {
    let mut pickle = Pickle::new(Protocol::Two);
    tensor(&mut pickle, item, &mut Vec::new());
    pickle.finish()
}

/// Writes a tensor. `keys` has the memo of the keys of the storages so far.
fn tensor(pickle: &mut Pickle, item: &Item<'_>, keys: &mut Vec<Memo>) {
    let class = item.element.storage_class();
    let (function, arguments) = match class {
        Some(_) => ("_rebuild_tensor_v2", 6),
        None => ("_rebuild_tensor_v3", 7),
    };
    pickle.global("torch._utils", function);
    pickle.begin_tuple(arguments);
    match class {
        Some((module, name)) => storage(pickle, item, (module, name, item.element.bytes), keys),
        None => storage(pickle, item, ("torch.storage", "UntypedStorage", BYTE.bytes), keys),
    }
    pickle.size(0);
    pickle.sizes(item.shape);
    pickle.sizes(&strides(item.shape));
    // It requires no gradient, and has no hooks.
    pickle.boolean(false);
    pickle.ordered_dict();
    if class.is_none() {
        pickle.global("torch", item.element.name);
    }
    pickle.end_tuple(arguments);
    pickle.reduce();
}

/// Writes the id of a tensor's storage. Of the class it is given module, name, and the bytes of an element.
fn storage(pickle: &mut Pickle, item: &Item<'_>, class: (&'static str, &str, u64), keys: &mut Vec<Memo>) {
    let (module, name, bytes) = class;
    pickle.begin_tuple(5);
    pickle.text("storage");
    pickle.global(module, name);
    match keys.get(item.storage).copied() {
        Some(memo) => pickle.again(memo),
        None => keys.push(pickle.own_text(&item.storage.to_string())),
    }
    pickle.text("cpu");
    pickle.size(item.len / bytes.max(1));
    pickle.end_tuple(5);
    pickle.persistent();
}

/// Returns the strides of a row-major tensor as PyTorch states them, in elements.
fn strides(shape: &Shape) -> Vec<u64> {
    let mut stride = 1u64;
    let mut strides: Vec<u64> = shape
        .iter()
        .rev()
        .map(|len| {
            let own = stride;
            stride = stride.saturating_mul((*len).max(1));
            own
        })
        .collect();
    strides.reverse();
    strides
}

/// Sets the attribute `_metadata` of the dict.
fn attributes(pickle: &mut Pickle, modules: &MetadataMap) {
    let mut outer = pickle.begin_items(Items::Dict, 1);
    pickle.before_item(&mut outer);
    pickle.text("_metadata");
    let mut all = pickle.begin_items(Items::OrderedDict, modules.len());
    for (path, module) in modules.iter() {
        pickle.before_item(&mut all);
        pickle.own_text(path);
        let version = module.as_map().and_then(|module| module.get("version")).and_then(|v| v.as_i64());
        let mut own = pickle.begin_items(Items::Dict, usize::from(version.is_some()));
        if let Some(version) = version {
            pickle.before_item(&mut own);
            pickle.text("version");
            pickle.integer(version.into());
        }
        pickle.end_items(&mut own);
    }
    pickle.end_items(&mut all);
    pickle.end_items(&mut outer);
    pickle.build();
}
