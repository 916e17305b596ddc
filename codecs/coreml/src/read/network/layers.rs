//! Which layers have weights, under which names, and of which shapes.

use super::{Layer, Weights};

/// Numbers of the fields that say what a layer computes.
pub(crate) mod kind {
    pub(crate) const CONVOLUTION: u64 = 100;
    pub(crate) const ACTIVATION: u64 = 130;
    pub(crate) const INNER_PRODUCT: u64 = 140;
    pub(crate) const EMBEDDING: u64 = 150;
    pub(crate) const BATCH_NORM: u64 = 160;
    pub(crate) const SCALE: u64 = 245;
    pub(crate) const BIAS: u64 = 250;
    pub(crate) const LOAD_CONSTANT: u64 = 290;
    pub(crate) const SIMPLE_RECURRENT: u64 = 400;
    pub(crate) const GRU: u64 = 410;
    pub(crate) const LSTM: u64 = 420;
    pub(crate) const BIDIRECTIONAL_LSTM: u64 = 430;
    pub(crate) const CUSTOM: u64 = 500;
    pub(crate) const EMBEDDING_ND: u64 = 1040;
    pub(crate) const BATCHED_MATMUL: u64 = 1045;
    pub(crate) const LOAD_CONSTANT_ND: u64 = 1070;
    pub(crate) const LAYER_NORMALIZATION: u64 = 1350;
    pub(crate) const CONVOLUTION_3D: u64 = 1471;
}

/// What a field of a layer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Weights(&'static str),
    /// A message with further fields.
    Message(&'static [(u64, Holds)]),
}

use Holds::{Message, Weights as Own};

const LSTM_WEIGHTS: &[(u64, Holds)] = &[
    (1, Own("inputGateWeightMatrix")),
    (2, Own("forgetGateWeightMatrix")),
    (3, Own("blockInputWeightMatrix")),
    (4, Own("outputGateWeightMatrix")),
    (20, Own("inputGateRecursionMatrix")),
    (21, Own("forgetGateRecursionMatrix")),
    (22, Own("blockInputRecursionMatrix")),
    (23, Own("outputGateRecursionMatrix")),
    (40, Own("inputGateBiasVector")),
    (41, Own("forgetGateBiasVector")),
    (42, Own("blockInputBiasVector")),
    (43, Own("outputGateBiasVector")),
    (60, Own("inputGatePeepholeVector")),
    (61, Own("forgetGatePeepholeVector")),
    (62, Own("outputGatePeepholeVector")),
];

/// The fields of a kind of layer that hold weights.
pub(super) fn fields(kind: u64) -> &'static [(u64, Holds)] {
    match kind {
        kind::CONVOLUTION => &[(90, Own("weights")), (91, Own("bias"))],
        kind::ACTIVATION => {
            &[(25, Message(&[(1, Own("alpha"))])), (71, Message(&[(1, Own("alpha")), (2, Own("beta"))]))]
        }
        kind::INNER_PRODUCT | kind::EMBEDDING | kind::EMBEDDING_ND => {
            &[(20, Own("weights")), (21, Own("bias"))]
        }
        kind::BATCH_NORM => {
            &[(15, Own("gamma")), (16, Own("beta")), (17, Own("mean")), (18, Own("variance"))]
        }
        kind::SCALE => &[(2, Own("scale")), (5, Own("bias"))],
        kind::BIAS => &[(2, Own("bias"))],
        kind::LOAD_CONSTANT | kind::LOAD_CONSTANT_ND => &[(2, Own("data"))],
        kind::SIMPLE_RECURRENT => {
            &[(30, Own("weightMatrix")), (31, Own("recursionMatrix")), (32, Own("biasVector"))]
        }
        kind::GRU => &[
            (30, Own("updateGateWeightMatrix")),
            (31, Own("resetGateWeightMatrix")),
            (32, Own("outputGateWeightMatrix")),
            (50, Own("updateGateRecursionMatrix")),
            (51, Own("resetGateRecursionMatrix")),
            (52, Own("outputGateRecursionMatrix")),
            (70, Own("updateGateBiasVector")),
            (71, Own("resetGateBiasVector")),
            (72, Own("outputGateBiasVector")),
        ],
        kind::LSTM | kind::BIDIRECTIONAL_LSTM => &[(20, Message(LSTM_WEIGHTS))],
        kind::CUSTOM => &[(20, Own("weights"))],
        kind::BATCHED_MATMUL => &[(8, Own("weights")), (9, Own("bias"))],
        kind::LAYER_NORMALIZATION => &[(3, Own("gamma")), (4, Own("beta"))],
        kind::CONVOLUTION_3D => &[(60, Own("weights")), (61, Own("bias"))],
        _ => &[],
    }
}

/// The shape of weights; `None` if the layer does not say how many there are.
pub(super) fn shape(layer: &Layer, weights: &Weights) -> Option<Vec<u64>> {
    let one = |field| layer.lens(field).first().copied().unwrap_or(0);
    let groups = |field| one(field).max(1);
    let is_bias = weights.name == "bias";
    Some(match layer.kind {
        kind::CONVOLUTION if is_bias => vec![one(1)],
        kind::CONVOLUTION => {
            let mut shape = match layer.is_set(60) {
                true => vec![one(2), one(1) / groups(10)],
                // `kernelChannels` are those of a group.
                false => vec![one(1), one(2)],
            };
            let kernel = layer.lens(20);
            shape.extend(if kernel.is_empty() { vec![3, 3] } else { kernel });
            shape
        }
        kind::CONVOLUTION_3D if is_bias => vec![one(1)],
        kind::CONVOLUTION_3D => {
            let channels = match layer.is_set(86) {
                true => [one(2), one(1) / groups(10)],
                false => [one(1), one(2) / groups(10)],
            };
            channels.into_iter().chain([20, 21, 22].map(one)).collect()
        }
        kind::INNER_PRODUCT | kind::EMBEDDING if is_bias => vec![one(2)],
        kind::INNER_PRODUCT | kind::EMBEDDING => vec![one(2), one(1)],
        kind::EMBEDDING_ND if is_bias => vec![one(2)],
        kind::EMBEDDING_ND => vec![one(2), one(1)],
        kind::BATCH_NORM => vec![one(1)],
        kind::SCALE => layer.lens(if is_bias { 4 } else { 1 }),
        kind::BIAS | kind::LOAD_CONSTANT | kind::LOAD_CONSTANT_ND | kind::LAYER_NORMALIZATION => {
            layer.lens(1)
        }
        kind::BATCHED_MATMUL if is_bias => vec![one(6)],
        kind::BATCHED_MATMUL => vec![one(5), one(6)],
        kind::SIMPLE_RECURRENT | kind::GRU | kind::LSTM | kind::BIDIRECTIONAL_LSTM => {
            let (inputs, outputs) = (one(1), one(2));
            match () {
                () if weights.name.ends_with("ecursionMatrix") => vec![outputs, outputs],
                () if weights.name.ends_with("Vector") => vec![outputs],
                () => vec![outputs, inputs],
            }
        }
        _ => return None,
    })
}

impl Layer {
    /// The lengths of a field.
    pub(crate) fn lens(&self, field: u64) -> Vec<u64> {
        let numbers = self.integers.get(&field).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().map(|number| number.cast_unsigned()).collect()
    }

    /// Whether a field is true.
    pub(crate) fn is_set(&self, field: u64) -> bool {
        self.lens(field).last().is_some_and(|number| *number != 0)
    }
}
