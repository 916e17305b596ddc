//! Lowers a node of a graph to the kernels that compute it.

mod attributes;
mod elementwise;
mod linear;
mod lowering;
mod moves;
mod normalization;
mod strides;
mod weight;
mod window;

pub(crate) use lowering::{Info, Load, Lowered, Operand, show};
pub(crate) use weight::integer_bits;

use crate::value::Parameters;
use ckpt_api::{Error, Node, Op, Result, Setting};
use lowering::Lowering;

/// Infers the shapes of a node's outputs and lowers it to kernels. `inputs` are the node's; `None` for one that is left
/// out.
///
/// # Errors
/// Naming the node: [`ckpt_api::Kind::Corrupt`] for shapes or tensors that do not fit,
/// [`ckpt_api::Kind::Unsupported`] for computations that are not supported, [`ckpt_api::Kind::Usage`] for information
/// that the source lacks.
pub(crate) fn lower(node: &Node, inputs: &[Option<&Info>], parameters: &dyn Parameters) -> Result<Lowered> {
    let mut lowering = Lowering { node, inputs, parameters, lowered: Lowered::default() };
    let lowered = dispatch(&mut lowering).map_err(|error| error.field(&node.name));
    lowered.map(|()| lowering.lowered)
}

fn dispatch(lowering: &mut Lowering) -> Result<()> {
    match &lowering.node.op {
        Op::Gemm => linear::gemm(lowering),
        Op::BucketedGemm => linear::bucketed_gemm(lowering),
        Op::FeatureTransformer => linear::feature_transformer(lowering),
        Op::Gather => linear::gather(lowering),
        Op::Bias => linear::bias(lowering),
        Op::Conv => window::conv(lowering),
        Op::MaxPool => window::max_pool(lowering),
        Op::AveragePool => window::average_pool(lowering),
        Op::GlobalAveragePool => window::global_average_pool(lowering),
        Op::Concat => moves::concat(lowering),
        Op::Split => moves::split(lowering),
        Op::Slice => moves::slice(lowering),
        Op::Transpose => moves::transpose(lowering),
        Op::Pad => moves::pad(lowering),
        Op::Reshape => moves::reshape(lowering),
        Op::Flatten => moves::flatten(lowering),
        Op::Identity => moves::identity(lowering),
        Op::Add | Op::Mul => elementwise::binary(lowering),
        Op::BatchNormalization => normalization::batch(lowering),
        Op::LayerNormalization => normalization::layer(lowering),
        Op::Softmax | Op::LogSoftmax => normalization::softmax(lowering),
        Op::StaticFeatures => normalization::static_features(lowering),
        Op::Unspecified => {
            Err(Error::usage("the source does not record the activation of this layer").help(format!(
                "state it with {}, or in an architecture file with {}",
                Setting::ReadOption("activations=…"),
                Setting::Architecture
            )))
        }
        _ => elementwise::unary(lowering),
    }
}
