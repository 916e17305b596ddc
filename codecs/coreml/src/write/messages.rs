//! Builds the messages of a program.

use crate::format::{MODEL_PATH, WEIGHTS_FILE};
use ckpt_containers::protobuf::{put_bytes, put_int};

/// Numbers of types of elements in programs.
pub(super) mod number {
    pub(crate) const STRING: u64 = 2;
    pub(crate) const F32: u64 = 11;
}

/// A type: a number of elements, and lengths.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Type {
    pub(super) number: u64,
    pub(super) lens: Vec<u64>,
}

/// A value of an attribute or an argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// Bytes of the blob file whose metadata begin here.
    Blob {
        ty: Type,
        offset: u64,
    },
}

/// A message, field by field.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn int(mut self, field: u64, value: u64) -> Self {
        put_int(&mut self.0, field, value.cast_signed());
        self
    }

    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        put_bytes(&mut self.0, field, value);
        self
    }

    pub(super) fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(self, field: u64, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// An entry of a map from texts to messages.
    pub(super) fn entry(self, field: u64, key: &str, value: &Message) -> Self {
        self.message(field, &Message::default().text(1, key).message(2, value))
    }
}

/// The message `ValueType` of a tensor.
pub(super) fn value_type(ty: &Type) -> Message {
    let mut tensor = Message::default().int(1, ty.number);
    if !ty.lens.is_empty() {
        tensor = tensor.int(2, ty.lens.len() as u64);
    }
    for len in &ty.lens {
        tensor = tensor.message(3, &Message::default().message(1, &Message::default().int(1, *len)));
    }
    Message::default().message(1, &tensor)
}

/// The message `NamedValueType`.
pub(super) fn named(name: &str, ty: &Type) -> Message {
    Message::default().text(1, name).message(2, &value_type(ty))
}

/// The message `Value`.
pub(super) fn value(value: &Value) -> Message {
    match value {
        Value::Text(text) => {
            let texts = Message::default().text(1, text);
            immediate(&Type { number: number::STRING, lens: Vec::new() }, 4, &texts)
        }
        Value::Blob { ty, offset } => {
            let blob = Message::default().text(1, &format!("{MODEL_PATH}{WEIGHTS_FILE}")).int(2, *offset);
            Message::default().message(2, &value_type(ty)).message(5, &blob)
        }
    }
}

fn immediate(ty: &Type, field: u64, numbers: &Message) -> Message {
    let tensor = Message::default().message(field, numbers);
    let immediate = Message::default().message(1, &tensor);
    Message::default().message(2, &value_type(ty)).message(3, &immediate)
}

/// The message `Operation` of a constant.
pub(super) fn constant(name: &str, shown: &str, ty: &Type, own: &Value) -> Message {
    Message::default()
        .text(1, "const")
        .message(3, &named(name, ty))
        .entry(5, "name", &value(&Value::Text(shown.to_owned())))
        .entry(5, "val", &value(own))
}
