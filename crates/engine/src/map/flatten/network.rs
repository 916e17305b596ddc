//! The layers of a model, as far as names and shapes show them.
//!
//! Lengths follow from lengths: pooled images have as many elements as the last convolutions have channels, and a layer
//! whose inputs have a known length makes its outputs known.

use super::convolutions::{Convolutions, MANY};
use super::kernels::{Channels, Kernel, Located, moved_axes};
use super::lengths::{axis_len, layer_of};
use super::steps::{ImageSteps, has_one_order, image_of};
use crate::recipe::AxisStep;
use ckpt_api::{Axis, Contents, Placement, Role, Tensor};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A dense layer, or the input weights of a recurrent one.
#[derive(Clone, Copy)]
pub(super) struct Layer<'m> {
    pub(super) name: &'m str,
    pub(super) inputs: u64,
    /// `None` if its outputs are not the layer's, as the gates of a recurrent one.
    outputs: Option<u64>,
    /// The axis of the source that a step on its inputs has to name, where neither length nor meaning shows it.
    pub(super) axis: Option<usize>,
    /// Whether a step states the order of its inputs.
    is_stated: bool,
}

/// The layers of a model, as far as shapes show them.
#[derive(Default)]
pub(super) struct Network<'m> {
    layers: Vec<Layer<'m>>,
    /// Lengths that tables and recurrent layers make.
    made: BTreeSet<u64>,
}

impl<'m> Network<'m> {
    pub(super) fn new(
        stored: &HashMap<&str, Located<'_>>,
        mapped: &'m Contents,
        to: Channels,
        steps: &ImageSteps,
    ) -> Self {
        let tensors = mapped.checkpoint.tensors.iter().zip(&mapped.placements);
        let weights = tensors.filter(|(tensor, _)| tensor.role == Role::Weight && tensor.shape.rank() == 2);
        let matrices: Vec<Matrix<'m>> =
            weights.filter_map(|now| Some(Matrix::new(*stored.get(now.1.name.as_str())?, now, to))).collect();
        // Keras and PyTorch have the axes of dense layers in opposite orders, and those of tables in one.
        let tells_tables = matrices.iter().any(|matrix| matrix.is_transposed && matrix.tensor.axes.is_none());
        let mut network = Network::default();
        let recurrent: HashSet<&str> = matrices
            .iter()
            .filter(|matrix| matrix.is_recurrent)
            .map(|matrix| layer_of(&matrix.tensor.name))
            .collect();
        let mut units: HashSet<u64> = HashSet::new();
        for matrix in &matrices {
            let name = matrix.tensor.name.as_str();
            match matrix.lens(tells_tables) {
                _ if matrix.is_recurrent => {
                    let own = matrix.tensor.shape.iter().copied().min().unwrap_or(0);
                    if !units.insert(own) {
                        // Both directions, one behind the other.
                        network.made.insert(own.saturating_mul(2));
                    }
                }
                (Some(inputs), outputs) => network.layers.push(Layer {
                    name,
                    inputs,
                    outputs: outputs.filter(|_| !recurrent.contains(layer_of(name))),
                    axis: matrix.ambiguous_axis(),
                    is_stated: steps.of(name).iter().any(|step| matrix.is_ordered_by(step)),
                }),
                (None, made) => network.made.extend(made),
            }
        }
        network.made.extend(units);
        network
    }

    /// Returns the layers whose inputs are likely to be flattened images, without those that have a step.
    pub(super) fn flattened(&self, convolutions: &Convolutions) -> Vec<Layer<'m>> {
        let mut lengths = Lengths::new(&self.layers);
        let pooled: Vec<u64> = convolutions.last.iter().take(MANY).copied().filter(|len| *len > 1).collect();
        lengths.learn(convolutions.last.iter().chain(&self.made).copied());
        let is_suspicious = |layer: &Layer| {
            let may_be_pooled = convolutions.may_grow_to(layer.inputs);
            !layer.is_stated && !may_be_pooled && convolutions.may_flatten_to(layer.inputs)
        };
        let (mut suspicious, others): (Vec<usize>, Vec<usize>) =
            (0..self.layers.len()).partition(|index| self.layers.get(*index).is_some_and(is_suspicious));
        for index in &others {
            lengths.explain(*index);
        }
        suspicious.sort_by_key(|index| std::cmp::Reverse(self.layers.get(*index).map(|layer| layer.inputs)));
        let mut found = Vec::new();
        for index in suspicious {
            let Some(layer) = self.layers.get(index).filter(|_| !lengths.is_explained(index)) else {
                continue;
            };
            if !lengths.is_joined(layer.inputs, &pooled) {
                found.push(*layer);
            }
            lengths.explain(index);
        }
        let is_pooled = |layer: &Layer| {
            let len = layer.inputs;
            pooled.contains(&len) || lengths.is_joined(len, &pooled) || convolutions.may_grow_to(len)
        };
        if found.is_empty() && !self.layers.iter().any(|layer| layer.is_stated || is_pooled(layer)) {
            let least = pooled.first().map(|channels| channels.saturating_mul(2));
            let mixed = others.iter().filter_map(|index| self.layers.get(*index)).filter(|layer| {
                least.is_some_and(|least| layer.inputs >= least) && !lengths.known.contains(&layer.inputs)
            });
            found.extend(mixed.copied());
        }
        found
    }

    /// Another layer without a step that has as many inputs as each of these, by this number.
    pub(super) fn alike(&self, found: &[Layer<'m>]) -> HashMap<u64, &'m str> {
        let names: HashSet<&str> = found.iter().map(|layer| layer.name).collect();
        let others = self.layers.iter().filter(|other| !other.is_stated && !names.contains(other.name));
        others.rev().map(|other| (other.inputs, other.name)).collect()
    }

    /// The lengths of flattened images for which layers have steps, and these, in quotation marks.
    pub(super) fn stated(&self, steps: &ImageSteps) -> BTreeMap<u64, String> {
        let stated = self.layers.iter().filter(|layer| layer.is_stated).filter_map(|layer| {
            let step = steps.of(layer.name).last()?;
            let (image, _) = image_of(step).filter(|(image, _)| !has_one_order(image))?;
            let text = step.to_string();
            let text = format!("'{}'", text.split(" on ").next().unwrap_or_default());
            (image.elements() == Some(layer.inputs)).then_some((layer.inputs, text))
        });
        stated.collect()
    }
}

/// A matrix of the target.
struct Matrix<'m> {
    tensor: &'m Tensor,
    placement: &'m Placement,
    is_transposed: bool,
    is_recurrent: bool,
    is_table: bool,
    /// The axis of the inputs in the source and now, if it is a dense layer.
    inputs: (usize, usize),
}

impl<'m> Matrix<'m> {
    fn new(before: Located<'_>, now: Located<'m>, to: Channels) -> Self {
        let names = [before.0.name.as_str(), now.0.name.as_str()];
        let has = |words: &[&str]| names.iter().any(|name| words.iter().any(|word| name.contains(word)));
        let axes = moved_axes(before, now).unwrap_or_default();
        // Where kernels had their channels last, the source is Keras's, and the first axis is that of the inputs.
        let input = if to == Channels::First { 0 } else { 1 };
        Matrix {
            tensor: now.0,
            placement: now.1,
            is_transposed: axes == [Some(1), Some(0)],
            is_recurrent: has(&["recurrent", "weight_hh"]),
            is_table: has(&["embed"]),
            inputs: (input, axes.get(input).copied().flatten().unwrap_or(input)),
        }
    }

    /// The numbers of inputs and outputs; a table has no inputs. `tells_tables` says whether only dense layers are
    /// transposed.
    fn lens(&self, tells_tables: bool) -> (Option<u64>, Option<u64>) {
        let Matrix { tensor, .. } = self;
        if tensor.axes.is_some() {
            return (axis_len(tensor, Axis::In), axis_len(tensor, Axis::Out));
        }
        let is_table = if tells_tables { !self.is_transposed } else { self.is_table };
        let len = |axis: usize| tensor.shape.get(axis).copied();
        if is_table { (None, len(1)) } else { (len(self.input_axis()), len(1 - self.inputs.1.min(1))) }
    }

    fn input_axis(&self) -> usize {
        let known = self.tensor.axes.as_ref();
        known.and_then(|axes| axes.iter().position(|axis| *axis == Axis::In)).unwrap_or(self.inputs.1)
    }

    fn ambiguous_axis(&self) -> Option<usize> {
        let is_square = self.tensor.shape.first() == self.tensor.shape.last();
        Some(self.inputs.0).filter(|_| is_square && self.tensor.axes.is_none())
    }

    /// Whether a step orders the inputs, and not the outputs.
    fn is_ordered_by(&self, step: &AxisStep) -> bool {
        let has_parts = !self.placement.encoding.tile(self.input_axis()).is_empty();
        has_parts || image_of(step).is_some_and(|(image, _)| has_one_order(image))
    }
}

/// Lengths that are known, and the layers that they explain.
struct Lengths<'a> {
    layers: &'a [Layer<'a>],
    by_inputs: HashMap<u64, Vec<usize>>,
    explained: Vec<bool>,
    known: HashSet<u64>,
    /// Of these, the outputs of layers.
    made: HashSet<u64>,
}

impl<'a> Lengths<'a> {
    fn new(layers: &'a [Layer<'a>]) -> Self {
        let mut by_inputs: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, layer) in layers.iter().enumerate() {
            by_inputs.entry(layer.inputs).or_default().push(index);
        }
        let explained = vec![false; layers.len()];
        Lengths { layers, by_inputs, explained, known: HashSet::new(), made: HashSet::new() }
    }

    /// Adds lengths, and those that follow from them.
    fn learn(&mut self, lens: impl IntoIterator<Item = u64>) {
        let mut new: Vec<u64> = lens.into_iter().collect();
        while let Some(len) = new.pop() {
            if !self.known.insert(len) {
                continue;
            }
            for index in self.by_inputs.get(&len).into_iter().flatten() {
                if let Some(explained) = self.explained.get_mut(*index) {
                    *explained = true;
                }
                let made = self.layers.get(*index).and_then(|layer| layer.outputs);
                self.made.extend(made);
                new.extend(made);
            }
        }
    }

    /// Takes it that the inputs of a layer are what they should be.
    fn explain(&mut self, index: usize) {
        if let Some(explained) = self.explained.get_mut(index).filter(|explained| !**explained) {
            *explained = true;
            let made = self.layers.get(index).and_then(|layer| layer.outputs);
            self.made.extend(made);
            self.learn(made);
        }
    }

    fn is_explained(&self, index: usize) -> bool {
        self.explained.get(index).copied().unwrap_or(false)
    }

    /// Whether this is the length of pooled images together with what a layer makes, and no other takes alone.
    fn is_joined(&self, len: u64, pooled: &[u64]) -> bool {
        let is_unused = |made: &u64| self.made.contains(made) && !self.by_inputs.contains_key(made);
        pooled.iter().filter_map(|channels| len.checked_sub(*channels)).any(|rest| is_unused(&rest))
    }
}

/// Vectors of layers without a matrix, such as a BatchNorm's, that are as long as flattened images.
pub(super) fn vectors<'m>(
    stored: &HashMap<&str, Located<'_>>,
    mapped: &'m Contents,
    lens: &BTreeMap<u64, String>,
    kernels: &[Kernel<'_>],
    steps: &ImageSteps,
) -> Vec<&'m Tensor> {
    // A mapping may rename a part of a layer only: the source's names tell the layers.
    let weights =
        mapped.checkpoint.tensors.iter().zip(&mapped.placements).filter_map(|(tensor, placement)| {
            let (before, _) = stored.get(placement.name.as_str()).filter(|_| tensor.role == Role::Weight)?;
            Some((layer_of(&before.name), tensor))
        });
    let (matrices, vectors): (Vec<_>, Vec<_>) = weights.partition(|(_, tensor)| tensor.shape.rank() > 1);
    let with_matrix: HashSet<&str> = matrices.into_iter().map(|(layer, _)| layer).collect();
    let found: Vec<(&str, &Tensor)> = vectors
        .into_iter()
        .filter(|(layer, tensor)| {
            let is_vector = tensor.shape.rank() == 1 && lens.contains_key(&tensor.shape.elements());
            is_vector && !with_matrix.contains(layer)
        })
        .collect();
    let mut layers: HashMap<u64, HashSet<&str>> = HashMap::new();
    for (layer, tensor) in &found {
        layers.entry(tensor.shape.elements()).or_default().insert(layer);
    }
    let mut convolutions: HashMap<u64, usize> = HashMap::new();
    kernels.iter().for_each(|kernel| *convolutions.entry(kernel.outputs).or_default() += 1);
    // Each convolution may have one behind it.
    let has_more =
        |len: u64| layers.get(&len).map_or(0, HashSet::len) > convolutions.get(&len).copied().unwrap_or(0);
    let found = found.into_iter().filter(|(_, tensor)| steps.of(&tensor.name).is_empty());
    found.filter(|(_, tensor)| has_more(tensor.shape.elements())).map(|(_, tensor)| tensor).collect()
}
