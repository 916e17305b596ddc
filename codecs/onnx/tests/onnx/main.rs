//! Tests of the codec, on models that other programs wrote and on models built byte by byte.

mod build;
mod cases;
mod composed;
mod computed;
mod conformance;
mod control;
mod external;
mod free_axes;
mod functions;
mod graphs;
mod learned;
mod recurrent;
mod truths;
