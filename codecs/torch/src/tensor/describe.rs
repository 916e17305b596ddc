//! What values are, for messages, and the errors of tensors.

use ckpt_api::{Error, Setting, Text, text};
use ckpt_containers::pickle::{Id, Object, Tree, Value, numpy, shown};

/// What a value is, for messages.
pub(crate) fn described(tree: &Tree, id: Id) -> String {
    match tree.value(id) {
        Value::Global(module, name) => shown(module, name),
        Value::Object(object) if tree.attribute(object).is_some() => attribute(tree, object),
        Value::Object(object) => match (numpy::described(tree, object), tree.callable(object)) {
            (Some(array), _) => array,
            (None, Some((module, name))) => format!("a call of {}", shown(module, name)),
            (None, None) => "a call".to_owned(),
        },
        Value::None => "None".to_owned(),
        Value::Bool(_) => "a bool".to_owned(),
        Value::Int(_) | Value::Long(_) => "an integer".to_owned(),
        Value::Float(_) => "a float".to_owned(),
        Value::Text(_) => "a text".to_owned(),
        Value::Bytes(_) | Value::Apart(..) | Value::Buffer => "bytes".to_owned(),
        Value::Tuple(_) => "a tuple".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Set(_) => "a set".to_owned(),
        Value::Dict(_) => "a dict".to_owned(),
        Value::Persistent(_) => "a storage".to_owned(),
    }
}

/// What an attribute is, such as a bound method: its name, and the class that it belongs to.
fn attribute(tree: &Tree, object: Object) -> String {
    let Some((of, name)) = tree.attribute(object) else { return "an attribute".to_owned() };
    let class = tree.object(of).and_then(|owner| tree.callable(owner)).or_else(|| tree.global(of));
    let class = class.map_or("something".to_owned(), |(module, name)| shown(module, name));
    format!("the attribute '{}' of {class}", shown_text(name))
}

pub(super) fn wrong(message: &str) -> Error {
    Error::corrupt(message).help("the pickle was not written by PyTorch, or is damaged")
}

pub(super) fn unsupported(what: &str, instead: &str) -> Error {
    Error::unsupported(format!("{what} is not supported")).help(or_leave_out(instead))
}

pub(super) fn or_leave_out(instead: &str) -> Text {
    text![format!("{instead}, or leave the tensor out with "), Setting::READ_OPTION.of("lenient=true")]
}

/// A text of the file, short and without anything that moves a terminal's cursor.
pub(super) fn shown_text(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}
