//! FlatBuffers, read where they are in the file.
//!
//! The readers that schemas are compiled to take the whole file as one slice: a model of 2 GiB would be read to list its
//! tensors. This one reads the pages that tables are on, checks each offset when it follows it, and bounds the bytes
//! that it reads by the file's, because any number of references may lead to one table or vector.

mod bytes;
mod pages;
mod table;

pub(crate) use bytes::Flat;
pub(crate) use table::{Table, Vector};
