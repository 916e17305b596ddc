//! The operators of a graph.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// An operator, with ONNX's name and semantics.
        ///
        /// An operator that ONNX lacks is [`Op::Custom`]. The codec whose graphs need it registers an
        /// [`OpSpec`](crate::OpSpec), which defines it.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum Op {
            $($(#[$doc])* $variant,)*
            /// An operator beyond ONNX's: registered by a codec, or unknown. Kept by name.
            Custom(Cow<'static, str>),
        }

        impl Op {
            /// Returns an operator beyond ONNX's. The name is namespaced, such as `bullet.Screlu`.
            pub const fn custom(name: &'static str) -> Self {
                Op::Custom(Cow::Borrowed(name))
            }

            /// Returns the operators of ONNX.
            ///
            /// ```
            /// assert!(ckpt_api::Op::known().any(|op| op.name() == "Gemm"));
            /// ```
            pub fn known() -> impl Iterator<Item = Op> {
                [$(Op::$variant),*].into_iter()
            }

            /// Whether this is an activation function: elementwise or over one axis, with one input.
            pub const fn is_activation(&self) -> bool {
                matches!(
                    self,
                    Op::Relu
                        | Op::LeakyRelu
                        | Op::ThresholdedRelu
                        | Op::Elu
                        | Op::Selu
                        | Op::Celu
                        | Op::Gelu
                        | Op::Softplus
                        | Op::Softsign
                        | Op::Sigmoid
                        | Op::HardSigmoid
                        | Op::HardSwish
                        | Op::Swish
                        | Op::Mish
                        | Op::Tanh
                        | Op::Softmax
                        | Op::LogSoftmax
                )
            }

            /// Returns the operator's name.
            pub fn name(&self) -> &str {
                match self { $(Op::$variant => $name,)* Op::Custom(name) => name }
            }
        }

        impl From<&str> for Op {
            fn from(name: &str) -> Self {
                match name { $($name => Op::$variant,)* _ => Op::Custom(Cow::Owned(name.to_owned())) }
            }
        }

        impl From<String> for Op {
            fn from(name: String) -> Self {
                match name.as_str() { $($name => Op::$variant,)* _ => Op::Custom(Cow::Owned(name)) }
            }
        }
    };
}

ops! {
    /// `y = x · W + b` on the last axis of `x`, which has any rank. `weight` has axes in and out in any order (the axes
    /// say which: there is no `transB`), `bias` has axis out and may be absent; alpha and beta are 1.
    Gemm = "Gemm";
    /// Convolution (cross-correlation) of one to three dimensions, with ONNX's `strides`, `pads`, `dilations`, `group`,
    /// `auto_pad`; `weight` has axes out, in, and kernel_z, kernel_y and kernel_x, the last ones of them, in any order.
    /// One with an axis multiplier in place of out is depthwise. A weight that the graph computes is input 1, with the
    /// axes in this order, and the bias is then input 2.
    Conv = "Conv";
    /// Transposed convolution of one to three dimensions, with ONNX's `strides`, `pads`, `dilations`, `group`,
    /// `auto_pad`, `output_padding`, `output_shape`; `weight` has axes in, out (of each group), and those of the
    /// kernel, in any order. A weight that the graph computes is input 1, with the axes in this order, and the bias is
    /// then input 2.
    ConvTranspose = "ConvTranspose";
    /// Values one after the other along `axis`, in the order of the inputs.
    Concat = "Concat";
    /// Values around a value: `pads`, all begins before all ends, as an attribute; `mode` as ONNX has it: `constant`
    /// (`value`, 0 unless given), `edge`, `reflect`, `wrap`, or `unspecified` where the source does not state it.
    Pad = "Pad";
    /// `min(max(x, min), max)`; `min` and `max` are attributes.
    Clip = "Clip";
    /// `max(x, 0)`.
    Relu = "Relu";
    /// `x < 0 ? alpha·x : x`, `alpha` 0.01 unless given.
    LeakyRelu = "LeakyRelu";
    /// `x < 0 ? alpha·(eˣ − 1) : x`, `alpha` 1 unless given.
    Elu = "Elu";
    /// ONNX Gelu; `approximate` is `none` (erf) or `tanh`.
    Gelu = "Gelu";
    /// `gamma·(x < 0 ? alpha·(eˣ − 1) : x)`, `alpha` 1.6732632 and `gamma` 1.050701 unless given.
    Selu = "Selu";
    /// `x < 0 ? alpha·(e^(x/alpha) − 1) : x`, `alpha` 1 unless given.
    Celu = "Celu";
    /// `x > alpha ? x : 0`, `alpha` 1 unless given.
    ThresholdedRelu = "ThresholdedRelu";
    /// `x < 0 ? slope·x : x`; the second input is the slope, broadcast.
    PRelu = "PRelu";
    /// `ln(1 + eˣ)`.
    Softplus = "Softplus";
    /// `x / (1 + |x|)`.
    Softsign = "Softsign";
    /// `clip(alpha·x + beta, 0, 1)`, `alpha` 0.2 and `beta` 0.5 unless given.
    HardSigmoid = "HardSigmoid";
    /// `x·clip(x/6 + 0.5, 0, 1)`.
    HardSwish = "HardSwish";
    /// `x·sigmoid(alpha·x)`, `alpha` 1 unless given: SiLU.
    Swish = "Swish";
    /// `x·tanh(ln(1 + eˣ))`.
    Mish = "Mish";
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid = "Sigmoid";
    /// Hyperbolic tangent.
    Tanh = "Tanh";
    /// Softmax over `axis`, the last unless given.
    Softmax = "Softmax";
    /// Logarithm of softmax over `axis`, the last unless given.
    LogSoftmax = "LogSoftmax";
    /// `[N, …]` to `[N, ∏]`.
    Flatten = "Flatten";
    /// Passes its input on; what dropout is at inference.
    Identity = "Identity";
    /// Maximum over windows of one to three dimensions, attributes as ONNX has them.
    MaxPool = "MaxPool";
    /// Mean over windows of one to three dimensions, attributes as ONNX has them.
    AveragePool = "AveragePool";
    /// Mean over all but batch and channel.
    GlobalAveragePool = "GlobalAveragePool";
    /// Maximum over all but batch and channel.
    GlobalMaxPool = "GlobalMaxPool";
    /// Inference-time batch normalization; parameters `scale`, `bias`, `mean`, `variance`, attribute `epsilon`.
    BatchNormalization = "BatchNormalization";
    /// Elementwise sum.
    Add = "Add";
    /// Elementwise difference.
    Sub = "Sub";
    /// Elementwise product.
    Mul = "Mul";
    /// Elementwise quotient; integers are rounded towards zero.
    Div = "Div";
    /// What a division leaves, elementwise: with the sign of the divisor, or of the dividend if `fmod` is 1.
    Mod = "Mod";
    /// The first input to the power of the second, elementwise.
    Pow = "Pow";
    /// The greatest of one or more inputs, elementwise; NaN if one is NaN.
    Max = "Max";
    /// The least of one or more inputs, elementwise; NaN if one is NaN.
    Min = "Min";
    /// `|x|`.
    Abs = "Abs";
    /// `−x`.
    Neg = "Neg";
    /// 1, 0 or −1.
    Sign = "Sign";
    /// `1 / x`.
    Reciprocal = "Reciprocal";
    /// Square root.
    Sqrt = "Sqrt";
    /// `eˣ`.
    Exp = "Exp";
    /// Natural logarithm.
    Log = "Log";
    /// Sine.
    Sin = "Sin";
    /// Cosine.
    Cos = "Cos";
    /// Tangent.
    Tan = "Tan";
    /// Inverse sine; NaN outside −1..1.
    Asin = "Asin";
    /// Inverse cosine; NaN outside −1..1.
    Acos = "Acos";
    /// Inverse tangent.
    Atan = "Atan";
    /// Hyperbolic sine.
    Sinh = "Sinh";
    /// Hyperbolic cosine.
    Cosh = "Cosh";
    /// Inverse hyperbolic sine.
    Asinh = "Asinh";
    /// Inverse hyperbolic cosine; NaN below 1.
    Acosh = "Acosh";
    /// Inverse hyperbolic tangent; NaN outside −1..1.
    Atanh = "Atanh";
    /// The error function.
    Erf = "Erf";
    /// The greatest integer of at most `x`.
    Floor = "Floor";
    /// The least integer of at least `x`.
    Ceil = "Ceil";
    /// The nearest integer; halfway, the even one.
    Round = "Round";
    /// `a = b`, elementwise: 1 or 0.
    Equal = "Equal";
    /// `a < b`, elementwise: 1 or 0.
    Less = "Less";
    /// `a ≤ b`, elementwise: 1 or 0.
    LessOrEqual = "LessOrEqual";
    /// `a > b`, elementwise: 1 or 0.
    Greater = "Greater";
    /// `a ≥ b`, elementwise: 1 or 0.
    GreaterOrEqual = "GreaterOrEqual";
    /// Both truth values, elementwise.
    And = "And";
    /// At least one of two truth values, elementwise.
    Or = "Or";
    /// Exactly one of two truth values, elementwise.
    Xor = "Xor";
    /// The other truth value.
    Not = "Not";
    /// The bits that two integers share, elementwise.
    BitwiseAnd = "BitwiseAnd";
    /// The bits that one of two integers has, elementwise.
    BitwiseOr = "BitwiseOr";
    /// The bits that exactly one of two integers has, elementwise.
    BitwiseXor = "BitwiseXor";
    /// The 32 bits of an integer, moved by a number of places, elementwise: `direction` `LEFT` or `RIGHT`, which keeps the
    /// sign.
    BitShift = "BitShift";
    /// `condition ? a : b`, elementwise, from three inputs in this order.
    Where = "Where";
    /// Another type of numbers: `to` is `float`, `int` (rounded towards zero), `bool`, or `float16`, `bfloat16`,
    /// `float8e4m3fn`, `float8e4m3fnuz`, `float8e5m2`, `float8e5m2fnuz` or `float4e2m1`: real numbers, rounded to the
    /// nearest one of so many bits, halfway to the even one. What exceeds one of at most 8 bits becomes its greatest number;
    /// with `saturate` 0, it is infinite, or NaN for a type without infinity.
    Cast = "Cast";
    /// Products of the matrices in the last two axes of two inputs; the axes before are broadcast. A vector is a row of
    /// the first input, a column of the second.
    MatMul = "MatMul";
    /// The sum over `axes`, all unless given, which keep the length 1 unless `keepdims` is 0.
    ReduceSum = "ReduceSum";
    /// The mean over `axes`, as [`Op::ReduceSum`].
    ReduceMean = "ReduceMean";
    /// The product over `axes`, as [`Op::ReduceSum`].
    ReduceProd = "ReduceProd";
    /// The maximum over `axes`, as [`Op::ReduceSum`].
    ReduceMax = "ReduceMax";
    /// The minimum over `axes`, as [`Op::ReduceSum`].
    ReduceMin = "ReduceMin";
    /// `Σ|x|` over `axes`, as [`Op::ReduceSum`].
    ReduceL1 = "ReduceL1";
    /// `√Σx²` over `axes`, as [`Op::ReduceSum`].
    ReduceL2 = "ReduceL2";
    /// `Σx²` over `axes`, as [`Op::ReduceSum`].
    ReduceSumSquare = "ReduceSumSquare";
    /// `ln Σx` over `axes`, as [`Op::ReduceSum`].
    ReduceLogSum = "ReduceLogSum";
    /// `ln Σeˣ` over `axes`, as [`Op::ReduceSum`].
    ReduceLogSumExp = "ReduceLogSumExp";
    /// The place of the greatest element on `axis`, the first unless given, which keeps the length 1 unless `keepdims`
    /// is 0; of equal ones the first, or the last with `select_last_index` 1.
    ArgMax = "ArgMax";
    /// The place of the least element, as [`Op::ArgMax`].
    ArgMin = "ArgMin";
    /// The `k` greatest elements on `axis` (the last unless given), or the least with `largest` 0, in their order, and
    /// their places as a second output.
    TopK = "TopK";
    /// Sums of the elements so far on `axis`; without the element itself with `exclusive` 1, from the last one on with
    /// `reverse` 1.
    CumSum = "CumSum";
    /// Products of the elements so far on `axis`, as [`Op::CumSum`].
    CumProd = "CumProd";
    /// Sums of products along axes that `equation` names with letters: `bij,bjk->bik`. Three points stand for any axes.
    Einsum = "Einsum";
    /// The elements of matrices on diagonal `k` (0 unless given) and above it, or with `upper` 0 below it; 0 elsewhere.
    Trilu = "Trilu";
    /// Whether each element is NaN: 1 or 0.
    IsNaN = "IsNaN";
    /// Whether each element is infinite: 1 or 0. With `detect_negative` 0, −∞ does not count, with `detect_positive` 0,
    /// ∞ does not.
    IsInf = "IsInf";
    /// Images of other `sizes`, or with lengths multiplied by `scales`, one for each axis: `mode` `nearest`, `linear`
    /// or `cubic` (`cubic_coeff_a`, `exclude_outside`), with ONNX's `coordinate_transformation_mode` and
    /// `nearest_mode`.
    Resize = "Resize";
    /// Channels as blocks of `blocksize` by `blocksize` places; `mode` is `DCR` or `CRD`.
    DepthToSpace = "DepthToSpace";
    /// Blocks of `blocksize` by `blocksize` places as channels; those of a place of the block are side by side, or
    /// those of a channel with `mode` `CRD`.
    SpaceToDepth = "SpaceToDepth";
    /// Long short-term memory. Inputs: `x` `[time, batch, features]`, and the first hidden state and the first cell
    /// state, `[directions, batch, hidden]`, which may be absent. Outputs, of which the last ones may be absent: the
    /// hidden state after each step `[time, directions, batch, hidden]`, and both after the last one. With `layout` 1,
    /// the batch comes first, and the first output is `[batch, time, directions, hidden]`.
    ///
    /// Parameters: `weight` and `recurrent_weight` have axes direction (which may be absent), out (the units of each
    /// gate after the other) and in; `bias`, in its stored order, one number for each direction and unit of a gate, or
    /// two: the input's, then the recurrent ones; `recurrent_bias`, likewise, may be a tensor of its own. `gates` is
    /// the order of the gates along out, `iofc` unless given. `hidden_size`, `direction` (`forward`, `reverse`,
    /// `bidirectional`), `activations`, `activation_alpha`, `activation_beta` and `clip` are as in ONNX. Weights that the
    /// graph computes are inputs 3 to 5: `weight`, `recurrent_weight` and `bias`, with ONNX's axes.
    LSTM = "LSTM";
    /// Gated recurrent unit, as [`Op::LSTM`] without cell state; `gates` is `zrh` unless given. With
    /// `linear_before_reset` 1, the reset gate multiplies the product of the hidden state with its weight.
    GRU = "GRU";
    /// Recurrent layer of one gate, as [`Op::LSTM`] without cell state and `gates`.
    RNN = "RNN";
    /// A value without inputs: the tensor of the role `value`, in its stored order of axes, or else `value_float` or
    /// `value_int`, or the lists `value_floats` or `value_ints`, which have one axis unless `shape` is given.
    Constant = "Constant";
    /// The value without `axes` of length 1; all such axes unless given.
    Squeeze = "Squeeze";
    /// The value with new `axes` of length 1, whose positions are those in the result.
    Unsqueeze = "Unsqueeze";
    /// The value broadcast with a `shape`, an attribute; −1 keeps the length of an axis.
    Expand = "Expand";
    /// The value repeated `repeats[k]` times along axis `k`.
    Tile = "Tile";
    /// Parts along `axis`, the first unless given: of the lengths that `split` lists, else as many equal ones as there
    /// are outputs.
    Split = "Split";
    /// `x[…, iₐ, …]` for `iₐ` from `starts` to before `ends` in steps of `steps` (1 unless given; negative ones go
    /// backwards) along `axes` (the first ones unless given). Negative starts and ends count from the end; those beyond
    /// it are the end, as in ONNX.
    Slice = "Slice";
    /// The same elements in the same order in another `shape`, an attribute: 0 keeps the input's length (with
    /// `allowzero` 1 it is 0), and one −1 is what remains.
    Reshape = "Reshape";
    /// Axis `k` of the result is axis `perm[k]`; the reverse order unless given.
    Transpose = "Transpose";
    /// `(x − mean) / √(variance + epsilon) · scale + bias` with mean and variance over `axis` (−1 unless given) and
    /// those behind it; parameters `scale` and `bias`, which may be absent; `epsilon` 1e-5 unless given.
    LayerNormalization = "LayerNormalization";
    /// [`Op::LayerNormalization`] of `num_groups` groups of channels; parameters `scale` and `bias`, one number for
    /// each channel, may be absent.
    GroupNormalization = "GroupNormalization";
    /// [`Op::GroupNormalization`] with a group for each channel.
    InstanceNormalization = "InstanceNormalization";
    /// `x / √(mean(x²) + epsilon) · scale` with the mean over `axis` (−1 unless given) and those behind it; `epsilon`
    /// 1e-5 unless given, parameter `scale`, which may be absent.
    RMSNormalization = "RMSNormalization";
    /// `x / (bias + alpha/size · s)^beta`, where `s` is the sum of the squares of `size` neighboring channels; `alpha`
    /// 1e-4, `beta` 0.75 and `bias` 1 unless given.
    LRN = "LRN";
    /// `x` divided by its norm on `axis` (−1 unless given): `Σ|x|` with `p` 1, `√Σx²` with `p` 2, as unless given. 0
    /// where the norm is 0.
    LpNormalization = "LpNormalization";
    /// Elements by their index, of any shape: with two inputs, those of the first along `axis` (the first unless
    /// given), in whose place the axes of the second one come. With one input of indices and a `weight` of axes feature
    /// (the rows) and out, an embedding: out becomes the last axis of the result. Negative indices count from the end.
    Gather = "Gather";
    /// Slices of the first input: the last axis of the second input, integers, is the place of a slice along the axes
    /// after the first `batch_dims` (0 unless given), which the inputs share. Negative indices count from the end.
    GatherND = "GatherND";
    /// One element for each of the second input's, integers, which are its place on `axis` (the first unless given);
    /// on the other axes, the place is the index's own. Negative indices count from the end.
    GatherElements = "GatherElements";
    /// The first input, in which slices are replaced by those of the third: the last axis of the second input, integers,
    /// is the place of a slice along the first axes. `reduction` `none`, `add`, `mul`, `max` or `min` states what
    /// becomes of an element and its update; the updates of one element come in their order. Negative indices count from
    /// the end.
    ScatterND = "ScatterND";
    /// The first input, in which elements are replaced by those of the third, one for each of the second's, integers,
    /// which are its place on `axis` (the first unless given); otherwise as [`Op::ScatterND`].
    ScatterElements = "ScatterElements";
    /// Integers from `start` to before `limit` in steps of `delta`. They are attributes, or inputs in this order, which
    /// may be real numbers.
    Range = "Range";
    /// The lengths of the axes, from `start` (0 unless given) to before `end` (all unless given), as integers; negative
    /// ones count from the end.
    Shape = "Shape";
    /// One of two graphs: `then_branch` if the input, a truth value, holds, and else `else_branch`. They take no inputs
    /// but the values that exist before the node, and make values of the same shapes, which are the node's.
    If = "If";
    /// The graph `body`, again and again. Inputs: how often at most, a truth value that has to hold at first (either may
    /// be left out), and the values that are carried. The body takes the number of the iteration, the truth value, and
    /// the carried values; it makes the truth value that has to hold for the next iteration, the carried values for it,
    /// in the same shapes, and further values. Outputs: the carried values after the last iteration, and the further
    /// values of all iterations, one after the other on a new first axis. `trip_count` states how often where that is
    /// known; with further values, the loop takes exactly as many.
    Loop = "Loop";
    /// Not ONNX: an elementwise activation that the source does not record. Attribute `layer` names the layer that
    /// applies it. A target that stores a graph refuses it.
    Unspecified = "ckpt.Unspecified";
}

impl From<Op> for String {
    fn from(op: Op) -> Self {
        op.name().to_owned()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
