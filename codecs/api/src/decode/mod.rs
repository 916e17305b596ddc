//! Compressed bytes, read as if they were stored decompressed: [`crate::Extent::open`].

mod extent;
mod fletcher;
mod in_place;
mod section;
mod stream;
