//! The layers to write, each checked against the rules of the format.

use crate::format::{AXES, layer_name, weight_name};
use crate::layer::LayerShape;
use ckpt_api::{Added, AddedAxis, Axis, Checkpoint, DType, Error, Result, Setting, Tensor, TensorId, text};

/// A chain of layers.
#[derive(Default)]
pub(super) struct Model<'a> {
    pub(super) layers: Vec<Layer<'a>>,
    /// The activations and borders that the source states: the format cannot store them.
    pub(super) stated: Vec<String>,
}

/// One layer.
pub(super) struct Layer<'a> {
    /// Its name in the source.
    pub(super) name: String,
    pub(super) id: TensorId,
    pub(super) weight: &'a Tensor,
    /// Stored axis `k` is axis `order[k]` of the weight.
    pub(super) order: Vec<usize>,
    pub(super) shape: LayerShape,
    pub(super) bias: Option<Bias<'a>>,
}

/// A bias that is folded into the weight.
pub(super) struct Bias<'a> {
    pub(super) id: TensorId,
    pub(super) tensor: &'a Tensor,
    /// The input channel that is always 1.0: its center tap takes the bias.
    pub(super) channel: u64,
}

impl<'a> Layer<'a> {
    /// Returns what is added to the weight, and where.
    pub(super) fn added(&self) -> Vec<Added> {
        let added = |bias: &Bias<'_>| {
            let center = AddedAxis::At(self.shape.kernel / 2);
            let stored = [AddedAxis::Along(0), AddedAxis::At(bias.channel), center, center];
            let mut axes = stored.to_vec();
            for (axis, position) in self.order.iter().zip(stored) {
                if let Some(own) = axes.get_mut(*axis) {
                    *own = position;
                }
            }
            Added { tensor: bias.id, axes }
        };
        self.bias.iter().map(added).collect()
    }

    /// Folds a bias into the layer, if the layer has a channel that is always 1.0. `previous` is the number of channels
    /// that the layer before outputs.
    pub(super) fn fold(&mut self, (id, bias): (TensorId, &'a Tensor), previous: Option<u64>) -> Result<()> {
        let refuse =
            |found: &str, expected: &str| cannot_hold(&self.name, found, expected).tensor(&bias.name);
        let channel = self.shape.constant_channel(previous).ok_or_else(|| {
            refuse("a bias", "no bias, because the layer does not take the static features")
                .help("only the last static feature, which is always 1.0, can carry a bias")
        })?;
        if bias.shape[..] != [self.shape.outputs] {
            let expected = format!("[{}], one number for each output channel", self.shape.outputs);
            return Err(refuse(&format!("a bias of shape {}", bias.shape), &expected));
        }
        if [self.weight, bias].iter().any(|tensor| tensor.dtype != DType::F32) {
            let found = format!("a weight of {} and a bias of {}", self.weight.dtype, bias.dtype);
            return Err(refuse(&found, "f32 for both, because the bias is added to the weight")
                .help(text!["convert with ", Setting::DTYPE.of("f32")]));
        }
        self.bias = Some(Bias { id, tensor: bias, channel });
        Ok(())
    }
}

impl<'a> Model<'a> {
    /// The layers `layer1.weight`, `layer2.weight`, … of a checkpoint without a graph.
    pub(super) fn from_names(checkpoint: &'a Checkpoint) -> Result<Self> {
        let by_name = checkpoint.by_name();
        let mut model = Model::default();
        while let Some(id) = by_name.get(weight_name(model.layers.len()).as_str()) {
            let Some(weight) = checkpoint.tensors.get(id.0) else { break };
            let name = layer_name(model.layers.len());
            // A tensor with the format's name has its order of axes, too, unless it names its axes.
            let order = match weight.axes {
                None if weight.shape.rank() == AXES.len() => (0..AXES.len()).collect(),
                _ => named_order(&name, weight)?,
            };
            model.push(name, (*id, weight), order)?;
        }
        if model.layers.is_empty() {
            return Err(Error::usage("the source does not describe its layers")
                .expected("a graph, or tensors layer1.weight, layer2.weight, … of shape [out, in, k, k]")
                .help(text![
                    "rename the tensors with ",
                    Setting::MAPPING,
                    ", or convert a source that has a graph, such as a SavedModel"
                ]));
        }
        Ok(model)
    }

    /// The number of channels that the last layer outputs.
    pub(super) fn outputs(&self) -> Option<u64> {
        self.layers.last().map(|layer| layer.shape.outputs)
    }

    /// Adds a layer, if it keeps the rules of the format.
    pub(super) fn push(
        &mut self,
        name: String,
        (id, weight): (TensorId, &'a Tensor),
        order: Vec<usize>,
    ) -> Result<LayerShape> {
        let dims = weight.shape.permuted(&order);
        let &[outputs, inputs, rows, columns] = &dims[..] else {
            return Err(cannot_hold(&name, &format!("a weight of shape {}", weight.shape), "four axes"));
        };
        if rows != columns {
            let found = format!("a kernel of {rows} × {columns}");
            return Err(cannot_hold(&name, &found, "a square kernel").tensor(&weight.name));
        }
        let shape = LayerShape { kernel: rows, inputs, outputs };
        if let Some(breach) = shape.breaches(self.outputs()).into_iter().next() {
            let found = format!("{} {}: {}", breach.field, breach.found, breach.rule);
            return Err(cannot_hold(&name, &found, &breach.expected).tensor(&weight.name));
        }
        self.layers.push(Layer { name, id, weight, order, shape, bias: None });
        Ok(shape)
    }
}

/// Returns the positions of the axes out, in, kernel_y, kernel_x.
pub(super) fn named_order(layer: &str, weight: &Tensor) -> Result<Vec<usize>> {
    let Some(axes) = &weight.axes else {
        return Err(Error::usage("the source does not name the axes of the weight")
            .field(layer)
            .tensor(&weight.name)
            .found(format!("shape {}", weight.shape)));
    };
    let order = AXES.iter().map(|axis| weight.axis(*axis)).collect::<Option<Vec<usize>>>();
    order.filter(|_| weight.shape.rank() == AXES.len()).ok_or_else(|| {
        let axes: Vec<&str> = axes.iter().copied().map(Axis::name).collect();
        let found = format!("a weight of shape {} with the axes {}", weight.shape, axes.join(", "));
        cannot_hold(layer, &found, "out, in, kernel_y, kernel_x").tensor(&weight.name)
    })
}

/// The error for a layer that CNN2 cannot hold.
pub(super) fn cannot_hold(layer: &str, found: &str, expected: &str) -> Error {
    Error::lossy(format!("layer '{layer}' cannot be written as CNN2"))
        .field(layer)
        .found(found)
        .expected(expected)
}
