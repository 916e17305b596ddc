//! Memory that Python and `ckpt` share: the buffer protocol and DLPack.
//!
//! All `unsafe` code of the Python package is in this crate. Three things need it: handing memory to Python
//! ([`Array`]), reading memory that Python owns ([`View`]), and writing into it ([`ViewMut`]).

#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod array;
mod dlpack;
mod exporter;
mod storage;
mod view;

pub use array::Array;
pub use dlpack::ElementType;
pub use exporter::Exporter;
pub use storage::Storage;
pub use view::{View, ViewMut};
