//! Pickles as data: a machine over the opcodes of protocols 0 to 5, which calls nothing.
//!
//! ```text
//! Feed (bytes of a file) ──► machine (stack, memo) ──► Tree (arena of values) ──► Value, seen through an Id
//! ```
//!
//! What Python would call becomes an [`Object`]: the callable's name, its arguments, and the state, items and entries
//! that later opcodes gave it. Values refer to each other by [`Id`], so that shared values, cycles and nesting of any
//! depth cost no stack, neither here nor when the tree is dropped.

mod arena;
mod feed;
mod id;
mod list;
mod machine;
mod names;
pub(crate) mod opcode;
mod safety;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod tree;

pub(crate) use feed::Feed;
pub(crate) use id::Id;
pub(crate) use machine::parse;
pub(crate) use names::{Names, shown};
pub(crate) use tree::{Builder, Decoded, Object, Tree, Value};
