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

            /// Whether this is an activation function: elementwise or over one axis, with one input.
            pub const fn is_activation(&self) -> bool {
                matches!(
                    self,
                    Op::Relu
                        | Op::LeakyRelu
                        | Op::Elu
                        | Op::Gelu
                        | Op::Softplus
                        | Op::Sigmoid
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

        impl From<String> for Op {
            fn from(name: String) -> Self {
                match name.as_str() { $($name => Op::$variant,)* _ => Op::Custom(Cow::Owned(name)) }
            }
        }
    };
}

ops! {
    /// `y = x · W + b`, batch first. `weight` has axes in and out in any order (the axes say which: there is no
    /// `transB`), `bias` has axis out and may be absent; alpha and beta are 1.
    Gemm = "Gemm";
    /// Convolution (cross-correlation) with ONNX's `strides`, `pads`, `dilations`, `group`; `weight` has axes
    /// out, in, kernel_y, kernel_x in any order.
    Conv = "Conv";
    /// Values one after the other along `axis`, in the order of the inputs.
    Concat = "Concat";
    /// Values around a value: `pads`, all begins before all ends, as an attribute; `mode` as ONNX has it (`edge` repeats
    /// the nearest), or `unspecified` where the source does not state it.
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
    /// `ln(1 + eˣ)`.
    Softplus = "Softplus";
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
    /// Maximum over windows, attributes as ONNX has them.
    MaxPool = "MaxPool";
    /// Mean over windows, attributes as ONNX has them.
    AveragePool = "AveragePool";
    /// Mean over all but batch and channel.
    GlobalAveragePool = "GlobalAveragePool";
    /// Inference-time batch normalization; parameters `scale`, `bias`, `mean`, `variance`, attribute `epsilon`.
    BatchNormalization = "BatchNormalization";
    /// Elementwise sum.
    Add = "Add";
    /// Elementwise product.
    Mul = "Mul";
    /// Parts along `axis`, the first unless given: of the lengths that `split` lists, else as many equal ones as there are outputs.
    Split = "Split";
    /// `x[…, iₐ, …]` for `iₐ` from `starts` to before `ends` in steps of `steps` (1 unless given; at least 1) along `axes` (the
    /// first ones unless given). Negative starts and ends count from the end; those beyond it are the end, as in ONNX.
    Slice = "Slice";
    /// The same elements in the same order in another `shape`, an attribute: 0 keeps the input's length (with `allowzero`
    /// 1 it is 0), and one −1 is what remains.
    Reshape = "Reshape";
    /// Axis `k` of the result is axis `perm[k]`; the reverse order unless given.
    Transpose = "Transpose";
    /// `(x − mean) / √(variance + epsilon) · scale + bias` with mean and variance over `axis` (−1 unless given) and those behind
    /// it; parameters `scale` and `bias`, which may be absent; `epsilon` 1e-5 unless given.
    LayerNormalization = "LayerNormalization";
    /// Rows of a table: an embedding. The input lists indices, of any shape; `weight` has axes feature (the rows) and out,
    /// which becomes the last axis of the result.
    Gather = "Gather";
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
