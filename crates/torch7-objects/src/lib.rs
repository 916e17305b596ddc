//! The objects of a file of Torch7, which `torch.save` of Lua writes: what it states, as data. Nothing of a file is run, and
//! nothing recurses on it.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod class;
mod decimal;
mod objects;
mod scanner;
mod storage;
mod tag;

pub use decimal::DECIMAL;
pub use objects::{Id, Object, Objects, Value};
pub use scanner::Mode;
pub use storage::{Storage, View};
