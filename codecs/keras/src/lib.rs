//! Keras models: what their configuration says.
//!
//! Keras stores a model as a configuration, which is JSON, and variables, which are HDF5 datasets. [`config`] reads the
//! configuration: it lists the layers and their variables with the paths under which each container stores them, and
//! lowers the layers to a graph.
//!
//! A configuration is data. Code in it (`Lambda`) is reported by the name of its layer, and never decoded.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod config;
