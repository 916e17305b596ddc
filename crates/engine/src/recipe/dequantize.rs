//! How quantized elements and their scales become numbers.

use ckpt_api::DType;
use serde::Serialize;

/// How two tensors, of quantized elements and of scales, become one of numbers: in 32-bit floats, each element times the
/// scale of its block, then rounded to `dtype`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Dequantize {
    /// How the tensors store elements and scales.
    pub format: ScaledFormat,
    /// The lengths of a block on the last axes of the elements; the last block on an axis may be shorter. `None`: each
    /// axis of the scales has one scale for all indices, or one for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<Vec<u64>>,
    /// The dtype of the result: [`DType::F32`], [`DType::Bf16`] or [`DType::F16`].
    pub dtype: DType,
    /// The axis along which the numbers are split into equal parts, one for each target; `None` for one target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<usize>,
}

/// How quantized elements and scales are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ScaledFormat {
    /// Elements of a small dtype, such as `f8_e4m3` or `i8`, and scales that are floats.
    Scaled,
    /// MXFP4: bytes `[…, blocks, 16]` that hold two `f4_e2m1` each, the first in the low bits, and bytes `[…, blocks]`
    /// that are the exponents of powers of two (`f8_e8m0`). The result is `[…, 32 · blocks]`.
    Mxfp4,
}

impl ScaledFormat {
    /// Every format.
    pub const ALL: [ScaledFormat; 2] = [ScaledFormat::Scaled, ScaledFormat::Mxfp4];

    /// The name in a mapping.
    pub fn name(self) -> &'static str {
        match self {
            ScaledFormat::Scaled => "scaled",
            ScaledFormat::Mxfp4 => "mxfp4",
        }
    }

    /// Whether a tensor of this dtype holds quantized elements, which mean nothing without scales.
    pub(crate) fn is_quantized(self, dtype: DType) -> bool {
        match self {
            ScaledFormat::Scaled => {
                matches!(dtype, DType::I8 | DType::U8) || (dtype.is_float() && dtype.bytes() == Some(1))
            }
            ScaledFormat::Mxfp4 => dtype == DType::U8,
        }
    }
}

impl Dequantize {
    /// The dtypes that a result can have.
    pub const DTYPES: [DType; 3] = [DType::F32, DType::Bf16, DType::F16];
}

/// In a few words.
impl std::fmt::Display for Dequantize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.format, &self.block) {
            (ScaledFormat::Mxfp4, _) => write!(f, "dequantized from MXFP4")?,
            (_, Some(block)) => write!(f, "dequantized by a scale for each block of {block:?}")?,
            (_, None) => write!(f, "dequantized by scales")?,
        }
        write!(f, " to {}", self.dtype)
    }
}
