//! Tests of the forward pass: its programs, its kernels, and the kit that every device runs.

mod conformance;
mod products;
mod program;
