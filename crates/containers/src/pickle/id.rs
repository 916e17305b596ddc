//! Ids of values, which hold the most frequent values themselves.

use std::fmt;

/// A value of a [`super::Tree`]. Equal ids are one object in Python; small integers, booleans and `None` have no identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u32);

/// The highest bit marks a value that is stored in the id itself.
const INLINE: u32 = 1 << 31;
/// Within those, this bit marks one of the constants.
const CONSTANT: u32 = 1 << 30;

/// A value that is stored in its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    None,
    Bool(bool),
    Int(i64),
}

impl Id {
    /// Python's `None`.
    pub const NONE: Id = Id(INLINE | CONSTANT);
    /// Python's `True`.
    pub const TRUE: Id = Id(INLINE | CONSTANT | 1);
    /// Python's `False`.
    pub const FALSE: Id = Id(INLINE | CONSTANT | 2);
    /// No value, for tables of ids.
    pub(super) const UNSET: Id = Id(u32::MAX);

    /// The id of the node with this index.
    pub(super) fn node(index: u32) -> Id {
        Id(index)
    }

    /// An integer of 30 bits.
    pub(super) fn small(number: i64) -> Option<Id> {
        let fits = (-(1 << 29)..1 << 29).contains(&number);
        fits.then_some(Id(INLINE | (number as u32 & (CONSTANT - 1))))
    }

    /// The index of its node; `None` for a value that is stored in the id.
    pub(super) fn index(self) -> Option<u32> {
        (self.0 & INLINE == 0).then_some(self.0)
    }

    /// The value that is stored in the id.
    pub(super) fn constant(self) -> Option<Constant> {
        if self.0 & INLINE == 0 {
            return None;
        }
        Some(match self {
            Id::TRUE => Constant::Bool(true),
            Id::FALSE => Constant::Bool(false),
            _ if self.0 & CONSTANT != 0 => Constant::None,
            // The sign is bit 29.
            _ => Constant::Int(i64::from((self.0 << 2) as i32 >> 2)),
        })
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.constant() {
            Some(value) => write!(f, "{value:?}"),
            None => write!(f, "#{}", self.0),
        }
    }
}
