//! Pickles as data: a machine over the opcodes of protocols 0 to 5, which calls nothing.
//!
//! ```text
//! Feed (bytes of a file) ──► machine (stack, memo) ──► Tree (arena of values) ──► Value, seen through an Id
//! ```
//!
//! What Python would call becomes an [`Object`]: the callable's name, its arguments, and the state, items and entries
//! that later opcodes gave it. Values refer to each other by [`Id`], so that shared values, cycles and nesting of any
//! depth cost no stack, neither here nor when the tree is dropped.
//!
//! [`Names`] says what a pickle would call, and [`numpy`] recognizes the arrays of NumPy.
//!
//! ```
//! use ckpt_api::{File, Limits};
//! use ckpt_containers::pickle::{Feed, Value, parse};
//! use std::sync::Arc;
//! // {'rate': 7}
//! let file = File::new(Arc::new(b"\x80\x04}\x8c\x04rateK\x07s.".to_vec()), "p.pkl")?;
//! let tree = parse(Feed::new(&file, 0, u64::MAX, &Limits::default()))?;
//! let rate = tree.entry(tree.root(), "rate").map(|id| tree.value(id));
//! assert_eq!(rate, Some(Value::Int(7)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

mod arena;
mod feed;
mod id;
mod list;
mod machine;
mod names;
pub mod numpy;
pub mod opcode;
mod safety;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use feed::Feed;
pub use id::Id;
pub use list::List;
pub use machine::parse;
pub use names::{Danger, Names, Use, shown};
pub use tree::{Builder, Decoded, Object, Tree, Value};
