//! Patterns of tensor names.
#![doc = include_str!("../../docs/patterns.md")]

mod automaton;
mod expression;
mod hint;
mod inclusion;
mod matching;
mod parse;
mod parts;
mod selector;
mod set;
#[cfg(test)]
mod tests;

pub use expression::Expression;
pub(crate) use hint::hints;
pub(crate) use inclusion::includes;
pub(crate) use parse::is_name;
pub use parts::{Class, Part, Pattern, SEPARATOR};
pub use selector::Selector;
pub use set::PatternSet;
