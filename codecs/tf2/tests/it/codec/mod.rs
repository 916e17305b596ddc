//! Tests of the codec through its public interface.

mod cases;
mod common;
mod conformance;
mod damage;
mod identity;
mod metadata;
mod rules;
mod write;
