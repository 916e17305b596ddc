//! The kinds of values.

/// The number before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Nil,
    Number,
    Text,
    Table,
    Torch,
    Bool,
    /// A function of 2011, which has no index.
    OldFunction,
    Function,
}

impl Tag {
    pub(crate) fn of(number: i32) -> Option<Tag> {
        Some(match number {
            0 => Tag::Nil,
            1 => Tag::Number,
            2 => Tag::Text,
            3 => Tag::Table,
            4 => Tag::Torch,
            5 => Tag::Bool,
            6 => Tag::OldFunction,
            7 | 8 => Tag::Function,
            _ => return None,
        })
    }
}
