//! Lowers a node of a graph to the kernels that compute it.

mod attributes;
mod blocks;
mod broadcast;
mod channels;
mod copies;
mod einsum;
mod elementwise;
mod linear;
mod local;
mod lowering;
mod moves;
mod normalization;
mod order;
mod places;
mod products;
mod recurrent;
mod reduce;
mod registered;
mod resize;
mod shapes;
mod strides;
mod table;
mod transposed;
mod weight;
mod window;

pub(crate) use lowering::{Call, IndexCheck, Info, Load, Lowered, Negative, Operand, Task, show};
pub(crate) use weight::integer_bits;

use crate::kernel::{Pairwise, Reduction, Relation};
use crate::op;
use crate::value::Parameters;
use ckpt_api::{Error, Node, Op, Result, Setting, text};
use lowering::{Lowering, unsupported};
use reduce::Summary;

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
        Op::Gather => table::gather(lowering),
        Op::Conv => window::conv(lowering),
        Op::MaxPool => window::max_pool(lowering),
        Op::AveragePool => window::average_pool(lowering),
        Op::GlobalAveragePool => window::global_pool(lowering, Reduction::Mean),
        Op::GlobalMaxPool => window::global_pool(lowering, Reduction::Maximum),
        Op::MatMul => products::mat_mul(lowering),
        Op::ReduceSum => reduce::reduce(lowering, Summary::Plain(Reduction::Sum)),
        Op::ReduceMean => reduce::reduce(lowering, Summary::Plain(Reduction::Mean)),
        Op::ReduceProd => reduce::reduce(lowering, Summary::Plain(Reduction::Product)),
        Op::ReduceMax => reduce::reduce(lowering, Summary::Plain(Reduction::Maximum)),
        Op::ReduceMin => reduce::reduce(lowering, Summary::Plain(Reduction::Minimum)),
        Op::ReduceL1 => reduce::reduce(lowering, Summary::L1),
        Op::ReduceL2 => reduce::reduce(lowering, Summary::L2),
        Op::ReduceSumSquare => reduce::reduce(lowering, Summary::SumSquare),
        Op::ReduceLogSum => reduce::reduce(lowering, Summary::LogSum),
        Op::ReduceLogSumExp => reduce::reduce(lowering, Summary::LogSumExp),
        Op::ArgMax | Op::ArgMin => order::arg_extreme(lowering),
        Op::TopK => order::top_k(lowering),
        Op::CumSum | Op::CumProd => order::cumulative(lowering),
        Op::Trilu => order::triangle(lowering),
        Op::IsNaN => order::is_nan(lowering),
        Op::IsInf => order::is_infinite(lowering),
        Op::GatherND => places::gather_nd(lowering),
        Op::GatherElements => places::gather_elements(lowering),
        Op::ScatterND => places::scatter_nd(lowering),
        Op::ScatterElements => places::scatter_elements(lowering),
        Op::Shape => shapes::lengths(lowering),
        Op::Range => shapes::range(lowering),
        Op::DepthToSpace | Op::SpaceToDepth => blocks::blocks(lowering),
        Op::Resize => resize::resize(lowering),
        Op::Einsum => einsum::einsum(lowering),
        Op::ConvTranspose => transposed::conv_transpose(lowering),
        Op::LSTM | Op::GRU | Op::RNN => recurrent::recurrent(lowering),
        Op::Constant => shapes::constant(lowering),
        Op::Squeeze => shapes::squeeze(lowering),
        Op::Unsqueeze => shapes::unsqueeze(lowering),
        Op::Expand => shapes::expand(lowering),
        Op::Tile => shapes::tile(lowering),
        Op::Concat => moves::concat(lowering),
        Op::Split => moves::split(lowering),
        Op::Slice => moves::slice(lowering),
        Op::Transpose => moves::transpose(lowering),
        Op::Pad => moves::pad(lowering),
        Op::Reshape => moves::reshape(lowering),
        Op::Flatten => moves::flatten(lowering),
        Op::Identity => moves::identity(lowering),
        Op::Add => elementwise::binary(lowering, Pairwise::Add),
        Op::Sub => elementwise::binary(lowering, Pairwise::Subtract),
        Op::Mul => elementwise::binary(lowering, Pairwise::Multiply),
        Op::Div => elementwise::binary(lowering, Pairwise::Divide),
        Op::Pow => elementwise::binary(lowering, Pairwise::Power),
        Op::Mod => elementwise::modulo(lowering),
        Op::Max => elementwise::extreme(lowering, Pairwise::Maximum),
        Op::Min => elementwise::extreme(lowering, Pairwise::Minimum),
        Op::Equal => elementwise::compare(lowering, Relation::Equal, false),
        Op::Less => elementwise::compare(lowering, Relation::Less, false),
        Op::LessOrEqual => elementwise::compare(lowering, Relation::LessOrEqual, false),
        Op::Greater => elementwise::compare(lowering, Relation::Less, true),
        Op::GreaterOrEqual => elementwise::compare(lowering, Relation::LessOrEqual, true),
        Op::And => elementwise::truths(lowering, Pairwise::Minimum),
        Op::Or => elementwise::truths(lowering, Pairwise::Maximum),
        Op::Xor => elementwise::differ(lowering),
        Op::BitwiseAnd => elementwise::binary(lowering, Pairwise::And),
        Op::BitwiseOr => elementwise::binary(lowering, Pairwise::Or),
        Op::BitwiseXor => elementwise::binary(lowering, Pairwise::ExclusiveOr),
        Op::BitShift => elementwise::shift(lowering),
        Op::Where => elementwise::select(lowering),
        Op::PRelu => elementwise::leaky(lowering),
        Op::Cast => elementwise::cast(lowering),
        Op::BatchNormalization => normalization::batch(lowering),
        Op::GroupNormalization | Op::InstanceNormalization => channels::group(lowering),
        Op::RMSNormalization => channels::root_mean_square(lowering),
        Op::LRN => channels::local_response(lowering),
        Op::LpNormalization => channels::unit_norm(lowering),
        Op::LayerNormalization => normalization::layer(lowering),
        Op::Softmax | Op::LogSoftmax => normalization::softmax(lowering),
        Op::Unspecified => {
            Err(Error::usage("the source does not record the activation of this layer").help(text![
                "state it with ",
                Setting::READ_OPTION.of("activations=…"),
                ", or in an architecture file with ",
                Setting::ARCHITECTURE
            ]))
        }
        Op::Custom(name) => custom(lowering, name),
        _ => elementwise::unary(lowering),
    }
}

/// Lowers an operator beyond ONNX's: to kernels if there are any for its name, or else to its reference implementation.
fn custom(lowering: &mut Lowering, name: &str) -> Result<()> {
    match name {
        op::BUCKETED_GEMM => linear::bucketed_gemm(lowering),
        op::FEATURE_TRANSFORMER => linear::feature_transformer(lowering),
        op::BIAS => linear::bias(lowering),
        op::STATIC_FEATURES => normalization::static_features(lowering),
        op::SQUARE | op::SCALE | op::DEQUANTIZE => elementwise::unary(lowering),
        _ => match lowering.parameters.op(name) {
            Some(spec) => registered::registered(lowering, &spec),
            None => Err(unsupported(&lowering.node.op)),
        },
    }
}
