//! Merges: adapters into the model that they were trained on, and models with each other.
//!
//! A merge reads no weight, but for what a whole tensor says, such as the size of its k-th largest change. It returns a [`Source`](ckpt_engine::source::Source) whose tensors are computed from those of several
//! checkpoints while they are read, so that a conversion of it is like any other: planned, bounded in memory, resumed and verified.
//! Numbers are computed in 32-bit floats and rounded once, to the dtype of the output.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod adapter;
mod column_scales;
mod config;
mod dialects;
mod extract;
mod lora;
mod matrix;
mod models;
mod names;
mod pairs;
mod pattern;
mod recipe;

pub use adapter::{Adapter, Product};
pub use extract::{ExtractedAdapter, ExtractedTensor, extract_adapter};
pub use lora::merge_adapters;
pub use models::{Method, Model, Settings, merge_models};
pub use recipe::Recipe;
