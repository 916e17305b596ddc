//! Tests of the crate's public interface. Those of the conformance kit, `kit`, measure the memory of their process and are
//! a program of their own.

mod compression;
mod zip;
