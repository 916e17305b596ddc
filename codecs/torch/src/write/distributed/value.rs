//! Pickles of values that are no tensors, as `torch.save` writes them.

use crate::write::pickle::{Batches, Items, Pickle, Protocol};
use ckpt_api::MetadataValue;

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
