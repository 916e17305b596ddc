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
