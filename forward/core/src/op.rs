//! Names of the operators beyond ONNX's that the forward pass has kernels for.
//!
//! Any other operator needs a definition ([`Parameters::op`](crate::Parameters::op)), whose reference implementation
//! runs on the CPU.

/// The sum of a sparse input's columns, as `ckpt-bullet` defines it.
///
/// The input lists the indices of the active features, of shape `[N, K]`, padded with −1; `y = b + Σ weight[f]` over
/// them. `weight` has axes out and feature, and bucket if the features come in several sets; then
/// `f = bucket · features + feature`. `factoriser`, which may be absent, has axes out and feature and is added to every
/// bucket's weight. `bias` may be absent. A second input selects the bias's bucket if the bias has this axis.
pub const FEATURE_TRANSFORMER: &str = "ckpt.FeatureTransformer";

/// A matrix product whose parameters are selected for each example, as `ckpt-bullet` defines it.
///
/// Inputs are `x` of shape `[N, in]` and `k` of shape `[N]`; `y = x · weight[k] + bias[k]`. `weight` has axes bucket,
/// in and out, `bias` bucket and out.
pub const BUCKETED_GEMM: &str = "ckpt.BucketedGemm";

/// The features that a renderer computes from an image `[N, 4, H, W]`, as `ckpt-cnn2` defines it.
///
/// The result, `[N, 8, H, W]`, holds red, green, blue and depth, `u = (column + 0.5)/W`, `v = (row + 0.5)/H`,
/// `sin(10·u)`, and 1.
pub const STATIC_FEATURES: &str = "ckpt.StaticFeatures";

/// `x·x`.
pub const SQUARE: &str = "ckpt.Square";

/// `y = x + bias`; the last axis is out. If `bias` has axis bucket, the second input, of shape `[N]`, selects it for
/// each example.
pub const BIAS: &str = "ckpt.Bias";

/// Integers rescaled: `x·multiply / divide`, rounded towards zero. Both attributes are 1 unless given.
pub const SCALE: &str = "ckpt.Scale";

/// Integers as real numbers: `x / divide`.
pub const DEQUANTIZE: &str = "ckpt.Dequantise";
