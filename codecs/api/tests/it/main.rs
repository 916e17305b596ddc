//! Tests of the crate's public interface.

mod compression;
mod zip;
