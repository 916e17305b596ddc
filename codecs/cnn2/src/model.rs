//! Writing: which layers a checkpoint has, and whether CNN2 can hold them.

use crate::format::{AXES, LayerShape, layer_name, weight_name};
use crate::walk;
use ckpt_api::{Added, AddedAxis, Axis, Checkpoint, DType, Error, Result, Tensor, TensorId};

/// The layers to be written.
pub(crate) struct Model<'a> {
    pub(crate) layers: Vec<Layer<'a>>,
    /// What the source states of a layer and the format does not.
    pub(crate) unsaid: Vec<String>,
}

/// One layer.
pub(crate) struct Layer<'a> {
    /// Its name in the source.
    pub(crate) name: String,
    pub(crate) id: TensorId,
    pub(crate) weight: &'a Tensor,
    /// Stored axis `k` is axis `order[k]` of the weight.
    pub(crate) order: Vec<usize>,
    pub(crate) shape: LayerShape,
    pub(crate) bias: Option<Bias<'a>>,
}

/// A bias, which becomes a part of the weight.
pub(crate) struct Bias<'a> {
    pub(crate) id: TensorId,
    pub(crate) tensor: &'a Tensor,
    /// The input channel that is always 1.0: its center tap takes the bias.
    pub(crate) channel: u64,
}

impl<'a> Layer<'a> {
    /// What is added to the weight, and where.
    pub(crate) fn added(&self) -> Vec<Added> {
        let taps = |bias: &Bias<'_>| {
            let center = AddedAxis::At(self.shape.kernel / 2);
            let stored = [AddedAxis::Along(0), AddedAxis::At(bias.channel), center, center];
            let mut axes = stored.to_vec();
            for (axis, place) in self.order.iter().zip(stored) {
                if let Some(own) = axes.get_mut(*axis) {
                    *own = place;
                }
            }
            Added { tensor: bias.id, axes }
        };
        self.bias.iter().map(taps).collect()
    }

    /// Takes the bias, where the layer has the channel that can stand for one. `previous` is what the layer before makes.
    pub(crate) fn fold(&mut self, (id, bias): (TensorId, &'a Tensor), previous: Option<u64>) -> Result<()> {
        let refuse = |found: &str, expected: &str| unsayable(&self.name, found, expected).tensor(&bias.name);
        let channel = self.shape.constant_channel(previous).ok_or_else(|| {
            refuse("a bias", "weights alone")
                .help("the layer does not take the static features, whose last, 1.0, would be the bias")
        })?;
        if bias.shape[..] != [self.shape.outputs] {
            let expected = format!("[{}], one number for each output", self.shape.outputs);
            return Err(refuse(&format!("a bias of shape {}", bias.shape), &expected));
        }
        if [self.weight, bias].iter().any(|tensor| tensor.dtype != DType::F32) {
            let found = format!("a weight of {} and a bias of {}", self.weight.dtype, bias.dtype);
            return Err(refuse(&found, "f32 for both: the bias becomes a part of the weight")
                .help("convert with --dtype f32"));
        }
        self.bias = Some(Bias { id, tensor: bias, channel });
        Ok(())
    }
}

impl<'a> Model<'a> {
    pub(crate) fn of(checkpoint: &'a Checkpoint) -> Result<Self> {
        match &checkpoint.graph {
            Some(graph) => walk::layers(checkpoint, graph),
            None => from_names(checkpoint),
        }
    }

    /// What the last layer makes.
    pub(crate) fn outputs(&self) -> Option<u64> {
        self.layers.last().map(|layer| layer.shape.outputs)
    }

    /// Adds a layer that keeps the rules of the format.
    pub(crate) fn push(
        &mut self,
        name: String,
        (id, weight): (TensorId, &'a Tensor),
        order: Vec<usize>,
    ) -> Result<LayerShape> {
        let dims = weight.shape.permuted(&order);
        let &[outputs, inputs, rows, columns] = &dims[..] else {
            return Err(unsayable(&name, &format!("a weight of shape {}", weight.shape), "four axes"));
        };
        if rows != columns {
            let found = format!("a kernel of {rows} × {columns}");
            return Err(unsayable(&name, &found, "as many rows as columns").tensor(&weight.name));
        }
        let shape = LayerShape { kernel: rows, inputs, outputs };
        if let Some(breach) = shape.breaches(self.outputs()).into_iter().next() {
            let found = format!("{}: {} {}", breach.rule, breach.field, breach.found);
            return Err(unsayable(&name, &found, &breach.expected).tensor(&weight.name));
        }
        self.layers.push(Layer { name, id, weight, order, shape, bias: None });
        Ok(shape)
    }
}

/// Without a graph: `layer1.weight`, `layer2.weight`, …
fn from_names(checkpoint: &Checkpoint) -> Result<Model<'_>> {
    let by_name = checkpoint.by_name();
    let mut model = Model { layers: Vec::new(), unsaid: Vec::new() };
    while let Some(id) = by_name.get(weight_name(model.layers.len()).as_str()) {
        let Some(weight) = checkpoint.tensors.get(id.0) else { break };
        let name = layer_name(model.layers.len());
        // The name is the format's own, and so is the order of the axes where nothing else is said.
        let order = match weight.axes {
            None if weight.shape.rank() == AXES.len() => (0..AXES.len()).collect(),
            _ => named_order(&name, weight)?,
        };
        model.push(name, (*id, weight), order)?;
    }
    if model.layers.is_empty() {
        return Err(Error::usage("the source does not say which layers it has")
            .expected("a graph, or tensors called layer1.weight, layer2.weight, … of [out, in, k, k]")
            .help("name them so with --map, or take a source that states its layers, such as a SavedModel"));
    }
    Ok(model)
}

/// Where the axes out, in, kernel_y, kernel_x are.
pub(crate) fn named_order(layer: &str, weight: &Tensor) -> Result<Vec<usize>> {
    if weight.axes.is_none() {
        return Err(Error::usage("the source does not say what the axes of the weight mean")
            .field(layer)
            .tensor(&weight.name)
            .found(format!("shape {}", weight.shape)));
    }
    let order = AXES.iter().map(|axis| weight.axis(*axis)).collect::<Option<Vec<usize>>>();
    order.filter(|_| weight.shape.rank() == AXES.len()).ok_or_else(|| {
        let axes: Vec<&str> = weight.axes.iter().flatten().copied().map(Axis::name).collect();
        let found = format!("a weight of shape {} with the axes {}", weight.shape, axes.join(", "));
        unsayable(layer, &found, "out, in, kernel_y, kernel_x").tensor(&weight.name)
    })
}

/// The error for what CNN2 has no way to say.
pub(crate) fn unsayable(layer: &str, found: &str, expected: &str) -> Error {
    Error::lossy(format!("layer '{layer}' cannot be written as CNN2"))
        .field(layer)
        .found(found)
        .expected(expected)
}
