//! JSON values without their contents.

use serde_json::Number;

/// A JSON value without its contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Summary {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Array(Elements),
    Object(Elements),
}

/// What the elements of an array, or the values of an object, have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Elements {
    pub(crate) is_empty: bool,
    pub(crate) all_numbers: bool,
    pub(crate) all_texts: bool,
}

impl Elements {
    pub(crate) const NONE: Elements = Elements { is_empty: true, all_numbers: true, all_texts: true };

    pub(crate) fn add(&mut self, value: &Summary) {
        self.is_empty = false;
        self.all_numbers &= matches!(value, Summary::Number(_));
        self.all_texts &= matches!(value, Summary::Text(_));
    }
}
