//! Chooses how a class of layers is lowered.

use super::arguments::{Arg, Args};
use super::lowering::{Lowering, Site};
use super::values::{Kind, Val};
use crate::layer::Reason;
use crate::model::Layer;
use crate::training;
use ckpt_api::{Attribute, Op};

/// Layers that pass a mask on with their result.
const PASSING: [&str; 36] = [
    "Dense",
    "Dropout",
    "SpatialDropout1D",
    "GaussianDropout",
    "GaussianNoise",
    "AlphaDropout",
    "ActivityRegularization",
    "Activation",
    "ReLU",
    "LeakyReLU",
    "PReLU",
    "ELU",
    "ThresholdedReLU",
    "Identity",
    "Masking",
    "Rescaling",
    "Normalization",
    "LayerNormalization",
    "BatchNormalization",
    "GroupNormalization",
    "UnitNormalization",
    "Add",
    "Subtract",
    "Multiply",
    "Average",
    "Maximum",
    "Minimum",
    "Concatenate",
    "TimeDistributed",
    "Embedding",
    "InputLayer",
    "SyncBatchNormalization",
    "SimpleRNN",
    "LSTM",
    "GRU",
    "RNN",
];

/// Layers that compute something else with a mask.
const MASKED: [&str; 12] = [
    "SimpleRNN",
    "LSTM",
    "GRU",
    "RNN",
    "Bidirectional",
    "ConvLSTM1D",
    "ConvLSTM2D",
    "MultiHeadAttention",
    "Attention",
    "AdditiveAttention",
    "GlobalAveragePooling1D",
    "Softmax",
];

/// Layers that compute with real numbers, and cast integers that they are given.
const REAL: [&str; 12] = [
    "Dense",
    "EinsumDense",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "BatchNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "GroupNormalization",
    "UnitNormalization",
    "PReLU",
    "Activation",
];

impl Lowering {
    /// Runs a layer of Keras, and returns its results.
    pub(super) fn builtin(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let layer = site.layer;
        let class = layer.class.as_str();
        let all = args.args.iter().chain(args.kwargs.values()).flat_map(Arg::all);
        let has_mask = all.into_iter().any(|val| val.tag.has_mask);
        if has_mask && self.outline.is_none() && MASKED.contains(&class) {
            return Err(
                "it leaves out the steps that a mask hides (mask_zero or Masking), which no operator does"
                    .to_owned(),
            );
        }
        let made = self.apply_within(site, args)?;
        let makes_mask = class == "Masking" || class == "Embedding" && layer.flag("mask_zero", false);
        let passes = makes_mask || has_mask && PASSING.contains(&class);
        Ok(made.into_iter().map(|val| Val { tag: Kind { has_mask: passes, ..val.tag }, ..val }).collect())
    }

    /// Runs a layer, whatever the masks.
    pub(super) fn apply_within(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        match site.layer.class.as_str() {
            "LSTM" | "GRU" | "SimpleRNN" | "RNN" => return self.recurrent(site, args),
            "Bidirectional" => return self.bidirectional(site, args),
            "MultiHeadAttention" | "GroupedQueryAttention" | "GroupQueryAttention" => {
                return self.multi_head(site, args);
            }
            "Attention" | "AdditiveAttention" => return self.attention(site, args),
            _ => {}
        }
        let inputs = args.first_values()?;
        if let Some(made) = self.merged(site.layer, &inputs)? {
            return Ok(vec![made]);
        }
        self.single(site, &args.only()?).map(|made| vec![made])
    }

    /// Runs a layer of one value.
    fn single(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let real;
        let x = match REAL.contains(&layer.class.as_str()) {
            true => {
                real = self.as_real(x)?;
                &real
            }
            false => x,
        };
        match layer.class.as_str() {
            "Dense" => self.dense(site, x),
            "EinsumDense" => self.einsum_dense(site, x),
            "Embedding" => self.embedding(site, x),
            "Conv1D" | "Conv2D" | "Conv3D" | "Convolution1D" | "Convolution2D" | "Convolution3D" => {
                self.convolution(site, x)
            }
            "Conv1DTranspose" | "Conv2DTranspose" | "Conv3DTranspose" => self.transposed(site, x),
            "DepthwiseConv1D" | "DepthwiseConv2D" => self.depthwise(site, x),
            "SeparableConv1D" | "SeparableConv2D" => self.separable(site, x),
            "MaxPooling1D" | "MaxPooling2D" | "MaxPooling3D" | "MaxPool1D" | "MaxPool2D" | "MaxPool3D" => {
                self.pool(layer, Op::MaxPool, x)
            }
            "AveragePooling1D" | "AveragePooling2D" | "AveragePooling3D" | "AvgPool1D" | "AvgPool2D"
            | "AvgPool3D" => self.pool(layer, Op::AveragePool, x),
            "GlobalMaxPooling1D" | "GlobalMaxPooling2D" | "GlobalMaxPooling3D" | "GlobalMaxPool1D"
            | "GlobalMaxPool2D" | "GlobalMaxPool3D" => self.global_pool(layer, Op::GlobalMaxPool, x),
            "GlobalAveragePooling1D"
            | "GlobalAveragePooling2D"
            | "GlobalAveragePooling3D"
            | "GlobalAvgPool1D"
            | "GlobalAvgPool2D"
            | "GlobalAvgPool3D" => self.global_pool(layer, Op::GlobalAveragePool, x),
            "BatchNormalization"
            | "SyncBatchNormalization"
            | "BatchNormalizationV1"
            | "BatchNormalizationV2" => self.batch_norm(site, x),
            "LayerNormalization" | "RMSNormalization" => self.layer_norm(site, x),
            "GroupNormalization" => self.group_norm(site, x),
            "UnitNormalization" => self.unit_norm(layer, x),
            "Normalization" => self.standardize(site, x),
            "Rescaling" => self.rescale(layer, x),
            "PReLU" => self.parametric(site, x),
            "TimeDistributed" => self.distributed(site, x),
            "Masking" => self.masking(layer, x),
            class if is_idle(class) => {
                let node = self.values.node(Op::Identity);
                self.values.map(node, x)
            }
            _ => {
                if let Some(made) = self.activation_layer(layer, x)? {
                    return Ok(made);
                }
                let made = self.moved(layer, x)?;
                made.ok_or_else(|| "the layer is not supported".to_owned())
            }
        }
    }

    /// Lowers `Masking`: steps of which all features are the mask's value become zeros.
    fn masking(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        let value = self.values.scalar(layer.float("mask_value", 0.0)?)?;
        let same = self.values.apply(Op::Equal, &[x, &value])?;
        let differs = self.values.apply(Op::Not, &[&same])?;
        let node = self.values.node(Op::Cast).attribute("to", Attribute::Text("float".into()));
        let differs = self.values.map(node, &differs)?;
        let differs = Val { tag: Kind { is_integer: false, ..differs.tag }, ..differs };
        let last = x.resolve(-1)?;
        let any = self.values.reduce(Op::ReduceMax, &differs, &[last], true)?;
        self.values.apply(Op::Mul, &[x, &any])
    }
}

/// Whether a layer passes its input on at inference.
fn is_idle(class: &str) -> bool {
    class == "Identity" || training::LAYERS.contains(&class)
}
