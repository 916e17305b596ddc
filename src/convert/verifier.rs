//! What runs graphs to verify a conversion.

use super::Computed;
use crate::formats::Formats;
use crate::mapping::Mapping;
use crate::source::Source;
use ckpt_api::{Limits, Result, Vocabulary};
use std::fmt::Debug;

/// Runs the graphs of a source and of what was written of it, and compares what they compute.
///
/// **For implementers.** The engine calls this only for conversions that keep what the model computes: at most, weights are
/// rounded. Both sources have a graph. Their tensors have been compared before.
pub trait Verifier: Debug + Send + Sync {
    /// Compares what both compute on the same inputs.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mismatch`] if they do not agree; what keeps a tensor from being read. That a graph cannot be run is
    /// no error, but [`Computed::NotRun`].
    fn compare(&self, source: &Source, written: &Source, settings: &VerifierSettings<'_>)
    -> Result<Computed>;
}

/// What a [`Verifier`] must keep to.
#[derive(Debug)]
#[non_exhaustive]
pub struct VerifierSettings<'a> {
    /// The formats by which both sides were opened.
    pub formats: &'a Formats,
    /// The mapping from the source's names to those that were written.
    pub mapping: Option<&'a Mapping>,
    /// Bytes of memory for weights and activations.
    pub memory: u64,
    /// Bounds on what is read.
    pub limits: &'a Limits,
    /// How texts name the settings of the interface.
    pub vocabulary: &'a dyn Vocabulary,
}
