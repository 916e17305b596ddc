//! Operators that are read as several nodes: they follow from others, so that every device has them.

mod attention;
mod contributed;
pub(super) mod floats;
mod images;
pub(super) mod integers;
mod learned;
mod losses;
mod microsoft;
mod normalization;
mod parts;
mod quantized;
mod regions;
mod signals;
mod simple;
mod states;
mod trees;

use super::values::{Read, Reader};
use crate::format::message::Node;
use ckpt_api::{DType, Op};
use parts::Parts;

impl<'a> Reader<'a> {
    /// Reads an operator of integers of fewer than 32 bits, which wrap around.
    pub(super) fn wrapping(&mut self, node: &'a Node) -> Read<()> {
        Parts { reader: self, node }.wrapping()
    }

    /// Reads a cast.
    pub(super) fn converted(&mut self, node: &'a Node, wanted: DType) -> Read<()> {
        Parts { reader: self, node }.converted(wanted)
    }

    /// Reads a node that becomes several.
    pub(super) fn composed(&mut self, node: &'a Node) -> Read<()> {
        let mut parts = Parts { reader: self, node };
        match node.op.as_str() {
            "Attention" => parts.attention(),
            "RotaryEmbedding" => parts.rotate(),
            "NegativeLogLikelihoodLoss" => parts.negative_likelihood(),
            "SoftmaxCrossEntropyLoss" => parts.cross_entropy(),
            "QuantizeLinear" => parts.quantize(),
            "DequantizeLinear" => parts.dequantize(),
            "DynamicQuantizeLinear" => parts.quantize_dynamically(),
            "MatMulInteger" => parts.multiply_integers(),
            "ConvInteger" => parts.convolve_integers(),
            "QLinearMatMul" => parts.multiply_quantized(),
            "QLinearConv" => parts.convolve_quantized(),
            "LayerNormalization" => parts.normalize_layer(),
            "RMSNormalization" | "SimplifiedLayerNormalization" => parts.normalize_by_size(),
            "InstanceNormalization" => parts.normalize_instances(),
            "GroupNormalization" => parts.normalize_groups(),
            "BatchNormalization" => parts.normalize_batch(),
            "MeanVarianceNormalization" => parts.normalize_mean_and_variance(),
            "Shrink" => parts.shrink(),
            "Mean" => parts.mean(),
            "SwiGLU" => parts.gated(),
            "Hardmax" => parts.hardmax(),
            "OneHot" => parts.one_hot(),
            "EyeLike" => parts.eye(),
            "HannWindow" => parts.window([0.5, 0.5, 0.0]),
            "HammingWindow" => parts.window([25.0 / 46.0, 21.0 / 46.0, 0.0]),
            "BlackmanWindow" => parts.window([0.42, 0.5, 0.08]),
            "CenterCropPad" => parts.center(),
            "ReverseSequence" => parts.reverse_sequences(),
            "LpPool" => parts.pool_norm(),
            "GlobalLpPool" => parts.pool_norm_globally(),
            "Det" => parts.determinant(),
            "Pow" => parts.power(),
            "MaxPool" => parts.pool_integers(),
            "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => parts.of_bits(),
            "BitwiseNot" => parts.complement(),
            "BitShift" => parts.shift(),
            "GridSample" => parts.sample(),
            "AffineGrid" => parts.affine_grid(),
            "Col2Im" => parts.columns_to_images(),
            "MaxUnpool" => parts.unpool(),
            "TensorScatter" => parts.write_cache(),
            "DFT" => parts.transform(),
            "LinearAttention" => parts.attend_linearly(),
            "RoiAlign" => parts.align_regions(),
            "Dropout" => parts.drop_nothing(),
            "Range" => parts.steps(),
            "Compress" => parts.keep_chosen(),
            "OptionalHasElement" => parts.has_element(),
            "CausalConvWithState" => parts.convolve_causally(),
            _ => Err("is not supported".to_owned()),
        }
    }

    /// Reads an operator of `ai.onnx.ml`.
    pub(super) fn learned(&mut self, node: &'a Node) -> Read<()> {
        let mut parts = Parts { reader: self, node };
        match node.op.as_str() {
            "TreeEnsembleRegressor" => parts.regress_by_trees(),
            "TreeEnsembleClassifier" => parts.classify_by_trees(),
            "LinearRegressor" => parts.regress(),
            "LinearClassifier" => parts.classify(),
            "Scaler" => parts.scale(),
            "Normalizer" => parts.normalize_rows(),
            "Binarizer" => parts.binarize(),
            "Imputer" => parts.impute(),
            "LabelEncoder" => parts.look_up(),
            "FeatureVectorizer" => parts.join_features(),
            "ArrayFeatureExtractor" => parts.take_features(),
            "ZipMap" => parts.pass_scores(),
            _ => Err("is not supported".to_owned()),
        }
    }

    /// Reads an operator of `com.microsoft`.
    pub(super) fn contributed(&mut self, node: &'a Node) -> Read<()> {
        let mut parts = Parts { reader: self, node };
        match node.op.as_str() {
            "Attention" => parts.packed_attention(),
            "MultiHeadAttention" => parts.head_attention(),
            "GroupQueryAttention" => parts.group_attention(),
            "RotaryEmbedding" => parts.rotate_by_place(),
            "FusedMatMul" => parts.fused_product(),
            "FusedConv" => parts.activated(Some(3)),
            "FusedGemm" => parts.activated(None),
            "Gelu" | "BiasGelu" => parts.biased_gelu("none"),
            "FastGelu" => parts.biased_gelu("tanh"),
            "QuickGelu" => parts.quick_gelu(),
            "SkipLayerNormalization" => parts.normalize_sum(true),
            "SkipSimplifiedLayerNormalization" => parts.normalize_sum(false),
            "EmbedLayerNormalization" => parts.embed(),
            "QLinearAdd" => parts.combine_quantized(Op::Add),
            "QLinearMul" => parts.combine_quantized(Op::Mul),
            "QLinearSigmoid" => parts.apply_quantized(Op::Sigmoid),
            "QLinearLeakyRelu" => parts.apply_quantized(Op::LeakyRelu),
            "QLinearGlobalAveragePool" => parts.pool_quantized(),
            "QLinearConcat" => parts.join_quantized(),
            "QGemm" => parts.general_product(),
            "DynamicQuantizeMatMul" => parts.real_product(true),
            "MatMulIntegerToFloat" => parts.real_product(false),
            "MatMulNBits" => parts.product_of_blocks(),
            _ => Err("is not supported".to_owned()),
        }
    }
}
