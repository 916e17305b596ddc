//! Values that are no tensors, as `torch.save` pickles them.

use super::{DCP, KEY_OBJECTS};
use crate::distributed::metadata::Step;
use crate::format::ID;
use crate::write::nesting::{Entry, Nesting, entries};
use crate::write::pickle::{Batches, Items, Pickle, Protocol};
use crate::write::{KEY_INDEX, KEY_MODULES};
use ckpt_api::{Checkpoint, Loss, LossKind, MetadataMap, MetadataValue};
use std::collections::HashSet;

/// A value that is no tensor.
pub(super) struct Object {
    pub(super) name: String,
    pub(super) pickle: Vec<u8>,
    /// The keys and indexes that lead to it.
    pub(super) steps: Vec<Step>,
}

/// The values of the checkpoint's metadata. One that has a tensor's name is a loss.
pub(super) fn all(checkpoint: &Checkpoint, nesting: &Nesting, losses: &mut Vec<Loss>) -> Vec<Object> {
    let names: HashSet<&str> = checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let kept = checkpoint.metadata.value(DCP, KEY_OBJECTS).and_then(MetadataValue::as_map);
    let own = checkpoint.metadata.namespace(ID).into_iter().flat_map(MetadataMap::iter);
    let mut objects = Vec::new();
    for (name, value) in own.filter(|(name, _)| ![KEY_MODULES, KEY_INDEX].contains(name)) {
        let steps = nesting.steps(name);
        // What a directory had as one value stays one.
        let entries = match super::Kept::is_in(checkpoint) {
            true => vec![Entry { name: name.to_owned(), steps, value }],
            false => entries(name, steps, value),
        };
        for Entry { name, steps, value } in entries {
            if names.contains(name.as_str()) {
                losses.push(Loss::new(LossKind::MetadataDropped, name, "a tensor has its name"));
                continue;
            }
            let kept = kept.and_then(|kept| kept.get(&name)).and_then(MetadataValue::as_bytes);
            let again = kept.filter(|pickle| super::kept::is_of(pickle, value)).map(<[u8]>::to_vec);
            objects.push(Object { name, pickle: again.unwrap_or_else(|| pickle(value)), steps });
        }
    }
    objects
}

/// Values of a list, or keys and values of a dict, that are still to be written.
enum Rest<'a> {
    List(std::slice::Iter<'a, MetadataValue>),
    Map(Box<dyn Iterator<Item = (&'a str, &'a MetadataValue)> + 'a>),
}

/// Returns the pickle of a value.
pub(super) fn pickle(value: &MetadataValue) -> Vec<u8> {
    let mut pickle = Pickle::new(Protocol::Two);
    let mut open: Vec<(Batches, Rest<'_>)> = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next.take() {
            open.extend(begin(&mut pickle, value));
        }
        let Some((batches, rest)) = open.last_mut() else { return pickle.finish() };
        let item = match rest {
            Rest::List(values) => values.next().map(|value| (None, value)),
            Rest::Map(entries) => entries.next().map(|(key, value)| (Some(key), value)),
        };
        match item {
            Some((key, value)) => {
                pickle.before_item(batches);
                if let Some(key) = key {
                    pickle.own_text(key);
                }
                next = Some(value);
            }
            None => {
                pickle.end_items(batches);
                open.pop();
            }
        }
    }
}

/// Writes a value or, of a list or dict, its beginning; then returns what is in it.
fn begin<'a>(pickle: &mut Pickle, value: &'a MetadataValue) -> Option<(Batches, Rest<'a>)> {
    match value {
        MetadataValue::List(values) => {
            return Some((pickle.begin_items(Items::List, values.len()), Rest::List(values.iter())));
        }
        MetadataValue::Map(map) => {
            return Some((pickle.begin_items(Items::Dict, map.len()), Rest::Map(Box::new(map.iter()))));
        }
        MetadataValue::Null => pickle.none(),
        MetadataValue::Bool(value) => pickle.boolean(*value),
        MetadataValue::F32(number) => pickle.float((*number).into()),
        MetadataValue::F64(number) => pickle.float(*number),
        MetadataValue::Text(text) => {
            pickle.own_text(text);
        }
        MetadataValue::Bytes(bytes) => pickle.binary(bytes),
        integer => {
            let signed = integer.as_i64().map(i128::from);
            pickle.integer(signed.or(integer.as_u64().map(i128::from)).unwrap_or(0));
        }
    }
    None
}
