//! Tensors and operators of a model.

use crate::operator::{Activation, Operator};
use ckpt_api::DType;

/// The program that runs a model: what it lacks, and how it has kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// TensorFlow Lite. Kernels of dense layers are `[out, in]`, of convolutions `[out, rows, columns, in]`.
    Lite,
    /// TensorFlow.js. Kernels are TensorFlow's: `[in, out]`, and `[rows, columns, in, out]`.
    JavaScript,
}

/// Tensors, and operators in the order in which they run.
#[derive(Debug, Default)]
pub struct Model {
    /// All tensors: operators name them by their places in this list.
    pub tensors: Vec<ModelTensor>,
    /// The operators: each takes what earlier ones make.
    pub steps: Vec<Step>,
    /// The tensors that a caller gives.
    pub inputs: Vec<usize>,
    /// The tensors that a caller gets: each is a result of an operator, and none is there twice.
    pub outputs: Vec<usize>,
}

/// A tensor of a model.
#[derive(Clone, Debug)]
pub struct ModelTensor {
    /// The name of the layer that makes it, of the input, or of the checkpoint's tensor. Several may have one name.
    pub name: String,
    /// Lengths as they are stored; 1 for a free one.
    pub shape: Vec<i32>,
    /// The same with −1 for free ones, if there are any.
    pub signature: Option<Vec<i32>>,
    /// What its elements are: `f32`, `i32` or `bool`, and `f16` for a weight of [`Operator::Widen`].
    pub dtype: DType,
    /// Where its elements come from.
    pub content: Content,
}

/// Where the elements of a tensor come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An operator makes them, or a caller gives them.
    Made,
    /// A few numbers, row-major and little-endian.
    Bytes(Vec<u8>),
    /// A tensor of the checkpoint, its axes in this order.
    Tensor {
        /// Its place among the checkpoint's tensors.
        id: usize,
        /// The checkpoint's axes in the order in which the model stores them.
        order: Vec<usize>,
    },
}

/// One use of an operator.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it computes.
    pub operator: Operator,
    /// What it takes; `None` for an input that is left out.
    pub inputs: Vec<Option<usize>>,
    /// What it makes.
    pub outputs: Vec<usize>,
    /// What is applied to its result.
    pub activation: Activation,
    /// Whether it may still get an activation.
    pub(crate) is_open: bool,
}
