//! Tests of the codec, on models that other programs wrote and on models built byte by byte.

mod build;
mod cases;
mod conformance;
mod control;
mod external;
mod free_axes;
mod graphs;
mod recurrent;
mod truths;
