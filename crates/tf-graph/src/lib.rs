//! TensorFlow's graphs, as graphs of ONNX operators.
//!
//! [`dag`] reads a function or a main graph, whatever its operations are. [`chain`] makes a graph of layers that follow each
//! other, as other sources state them. Neither needs the values of weights: a [`Catalog`](catalog::Catalog) has their names,
//! dtypes and shapes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod catalog;
pub mod chain;
pub mod dag;
pub mod no_chain;
pub mod node;
pub mod proto;
