//! A merge as data: which layers of which models become one, and how.

use super::Method;
use super::parameters::Parameters;
use ckpt_engine::source::Source;

/// A merge of models.
#[derive(Debug)]
pub(crate) struct Merge {
    pub(crate) method: Method,
    /// The models. The first one has the files beside the tensors.
    pub(crate) sources: Vec<Source>,
    pub(crate) slices: Vec<Slice>,
    /// Parameters of the whole merge.
    pub(crate) parameters: Parameters,
    pub(crate) seed: u64,
}

/// Layers of the merged model: those of all models, or some.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) inputs: Vec<Input>,
    /// The model that is changed.
    pub(crate) base: Option<usize>,
    pub(crate) parameters: Parameters,
}

/// Layers of one model.
#[derive(Debug)]
pub(crate) struct Input {
    /// Which model.
    pub(crate) source: usize,
    /// The first layer, and the one behind the last; `None` for all.
    pub(crate) layers: Option<[u64; 2]>,
    pub(crate) parameters: Parameters,
}
