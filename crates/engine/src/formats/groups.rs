//! Weights that several stored tensors describe together.

use ckpt_api::{Contents, DType, Error, Input, Limits, Placement, Result, Tensor, TensorId};
use std::fmt::Debug;

/// Recognizes weights that are stored as several tensors, such as packed integers, scales and zero points.
pub trait TensorGroups: Debug + Send + Sync {
    /// Finds the groups of a checkpoint, which is stored in `input`.
    ///
    /// # Errors
    /// Whatever keeps the files from being read. What is wrong with a group is no error but [`Groups::problem`].
    fn find(&self, contents: &Contents, input: &Input, limits: &Limits) -> Result<Groups>;

    /// Replaces weights by the tensors that a scheme stores for them, in `contents`, whose files are those of `input`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a scheme that is not known; [`ckpt_api::Kind::Unsupported`] for a model without weights
    /// that it is made for.
    fn quantize(
        &self,
        scheme: &str,
        contents: &mut Contents,
        input: &Input,
        limits: &Limits,
    ) -> Result<Quantized> {
        let _ = (contents, input, limits);
        Err(Error::usage("no scheme is known that weights can be quantized by").found(format!("'{scheme}'")))
    }
}

/// What a scheme makes of a checkpoint.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// The JSON of an object, whose fields the configuration of the output gets: what states the scheme.
    pub config: String,
    /// The weights that are quantized.
    pub weights: Vec<String>,
    /// What people call the scheme.
    pub scheme: String,
}

/// The groups of a checkpoint.
#[derive(Debug, Default)]
pub struct Groups {
    /// Those whose numbers can be computed.
    pub groups: Vec<Group>,
    /// Why the numbers of others cannot, if there are any.
    pub problem: Option<Error>,
}

/// A weight that several stored tensors describe together.
#[derive(Clone, Debug)]
pub struct Group {
    /// The weight, of [`DType::F32`].
    pub tensor: Tensor,
    /// Where its numbers are: extents that are computed. The number of the tensor does not matter.
    pub placement: Placement,
    /// The numbers as the library has them in a smaller dtype, if it rounds more than once on the way to them.
    pub rounded: Option<(DType, Placement)>,
    /// The stored tensors.
    pub parts: Vec<TensorId>,
    /// What people call the scheme, such as `gptq int4 g128`.
    pub scheme: String,
}
