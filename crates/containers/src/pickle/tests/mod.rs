//! Rules of the machine, on pickles written opcode by opcode.

mod hostile;
mod opcodes;
mod properties;

use super::{Feed, Id, Tree, Value, parse};
use ckpt_api::{File, Limits, Result};
use std::sync::Arc;

/// Reads a pickle that is a whole file.
pub(crate) fn tree(bytes: &[u8]) -> Result<Tree> {
    let file = File::new(Arc::new(bytes.to_vec()), "p.pkl")?;
    parse(Feed::new(&file, 0, u64::MAX, &Limits::default()))
}

/// What a value is, as text. Shared values are written out each time.
pub(crate) fn shown(tree: &Tree, id: Id) -> String {
    let all = |ids: Vec<Id>| ids.into_iter().map(|id| shown(tree, id)).collect::<Vec<_>>().join(", ");
    let pairs = |list| {
        let pair = |(key, value)| format!("{}: {}", shown(tree, key), shown(tree, value));
        tree.entries(list).map(pair).collect::<Vec<_>>().join(", ")
    };
    match tree.value(id) {
        Value::Tuple(list) => format!("({})", all(tree.items(list).collect())),
        Value::List(list) => format!("[{}]", all(tree.items(list).collect())),
        Value::Set(list) => format!("set({})", all(tree.items(list).collect())),
        Value::Dict(list) => format!("{{{}}}", pairs(list)),
        Value::Global(module, name) => format!("{module}.{name}"),
        Value::Persistent(id) => format!("persistent {}", shown(tree, id)),
        Value::Object(object) => {
            let mut text = format!("{}{}", shown(tree, object.callable), shown(tree, object.arguments));
            if object.keywords != Id::NONE {
                text += &format!(" with {}", shown(tree, object.keywords));
            }
            if !object.items.is_empty() {
                text += &format!(" [{}]", all(tree.items(object.items).collect()));
            }
            if !object.entries.is_empty() {
                text += &format!(" {{{}}}", pairs(object.entries));
            }
            object.state.map_or(text.clone(), |state| format!("{text} state {}", shown(tree, state)))
        }
        Value::Text(text) => format!("'{text}'"),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// What a pickle describes, as text.
fn described(bytes: &[u8]) -> String {
    let tree = tree(bytes).unwrap();
    shown(&tree, tree.root())
}
