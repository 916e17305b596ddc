//! Makes a configuration of a graph: each operator becomes the layer of Keras that computes it.
//!
//! A value of the graph is a result of a layer whose axes may be in another order: images have their channels last in
//! Keras. Transposes and axes of length 1 cost nothing until a layer needs the elements in the graph's order.

mod emit;
mod emitter;
mod images;
mod layers;
mod merging;
mod moves;
mod recurrent;
mod shapes;
mod tensors;

use super::model::{Generation, Model};
use super::variables::Variable;
use ckpt_api::{Added, AddedAxis, Checkpoint, Error, Graph, Limits, Node, Op, Result, TensorId, Value};
use emitter::{Emitter, Held, Item, invalid, lost};
use std::collections::{HashMap, HashSet};

/// A configuration that describes a checkpoint's graph.
#[derive(Clone, Debug)]
pub struct Described {
    /// The JSON.
    pub config: String,
    /// The model's variables, in its order.
    pub variables: Vec<DescribedVariable>,
}

/// A variable, and the tensor that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedVariable {
    /// Where the containers store it.
    pub variable: Variable,
    /// The checkpoint's tensor.
    pub tensor: TensorId,
    /// Its stored order of axes: stored axis `k` is axis `order[k]` of the tensor.
    pub order: Vec<usize>,
    /// What is added to it: a layer of Keras has one bias where others have two.
    pub added: Vec<Added>,
}

impl Model {
    /// Describes the graph of a checkpoint as a configuration: a Sequential model where its layers form a chain, and a
    /// functional one otherwise. Keras 3 and Keras 2 read what is written for them; what is written for Keras 2 has no
    /// operations of `keras.ops`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a checkpoint without a graph, or one that does not state activations or axes;
    /// [`ckpt_api::Kind::Unsupported`], naming the node, for what no layer of Keras computes.
    pub fn describe(checkpoint: &Checkpoint, generation: Generation) -> Result<Described> {
        let Some(graph) = &checkpoint.graph else {
            return Err(Error::usage(
                "the source does not describe its layers, so there is no model for Keras",
            )
            .help(checkpoint.advise_architecture()));
        };
        graph.require_activations()?;
        let mut takers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                takers.entry(input).or_default().push(at);
            }
        }
        let mut emitter = Emitter {
            checkpoint,
            graph,
            tensors: checkpoint.by_name(),
            generation,
            layers: Vec::new(),
            names: HashMap::new(),
            values: HashMap::new(),
            takers,
            constants: constants(graph),
            results: graph.outputs.iter().map(|output| output.name.as_str()).collect(),
            keeps_batch: true,
            absorbed: HashSet::new(),
            bound: HashMap::new(),
        };
        emitter.inputs()?;
        for (at, node) in graph.nodes.iter().enumerate() {
            if !emitter.absorbed.contains(&at) {
                emitter.node(at, node).map_err(|error| error.field(&node.name))?;
            }
        }
        let outputs = emitter.outputs()?;
        let config = emitter.config(&outputs);
        let version = if generation == Generation::Keras3 { "3" } else { "2" };
        let limits = Limits::default()
            .with(ckpt_api::Limit::TextBytes, u64::MAX)
            .with(ckpt_api::Limit::TextTokens, u64::MAX);
        let model = Model::parse(&config, Some(version), &limits)?;
        let variables = emitter.join(model.variables().list)?;
        Ok(Described { config, variables })
    }
}

impl<'a> Emitter<'a> {
    fn inputs(&mut self) -> Result<()> {
        for input in &self.graph.inputs {
            let mut dims = input.shape.clone();
            let batch = self.batch_axis(input);
            let Some(len) = dims.get_mut(batch) else {
                return Err(Error::unsupported("an input of Keras has a batch").field(&input.name));
            };
            *len = None;
            let is_integer =
                input.dtype.is_some_and(|dtype| !dtype.is_float()) || self.feeds_table(&input.name);
            let layer = self.input_layer(&input.name, &dims, is_integer);
            let held = Held::plain(layer, 0, dims);
            let held = if batch == 0 { held } else { self.batch_first(&input.name, &held, batch)? };
            self.values.insert(&input.name, Item::Value(held));
        }
        Ok(())
    }

    /// Returns the axis of an input that is the batch: the first, but for a first state, whose axis of directions comes before.
    pub(super) fn batch_axis(&self, input: &Value) -> usize {
        let batch = self.graph.inputs.iter().find_map(|input| input.axis_name(0));
        match (input.shape.first(), batch) {
            (Some(Some(_)), Some(batch)) => {
                let is_batch = |axis: &usize| input.axis_name(*axis) == Some(batch);
                (1..input.shape.len()).find(is_batch).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Moves the batch to the front in Keras.
    fn batch_first(&mut self, name: &str, held: &Held, batch: usize) -> Result<Held> {
        let order: Vec<usize> =
            [batch].into_iter().chain((0..held.dims.len()).filter(|axis| *axis != batch)).collect();
        let dims = order.iter().map(|axis| held.len(*axis)).collect();
        let axes = (0..order.len()).map(|axis| order.iter().position(|own| *own == axis)).collect();
        let options = serde_json::json!({ "axes": order });
        let name = format!("{name}/transpose");
        let args = vec![emitter::Arg::of(held)];
        let layer = self.operation(&name, "keras.src.ops.numpy", "Transpose", options, args)?;
        Ok(Held { axes, ..Held::plain(layer, 0, dims) })
    }

    /// Whether all nodes that take a value look up rows of a table by it.
    fn feeds_table(&self, name: &str) -> bool {
        let takers = self.takers.get(name).map_or(&[][..], Vec::as_slice);
        let looks_up = |at: &usize| {
            let node = self.graph.nodes.get(*at);
            node.is_some_and(|node| node.op == Op::Gather && node.parameters.contains_key("weight"))
        };
        !takers.is_empty() && takers.iter().all(looks_up)
    }

    fn outputs(&mut self) -> Result<Vec<(String, Held)>> {
        let mut found = Vec::new();
        for output in &self.graph.outputs {
            let held = self.value(&output.name).and_then(|held| self.result("output", &held));
            found.push((output.name.clone(), held.map_err(|error| error.field(&output.name))?));
        }
        Ok(found)
    }

    /// Returns a value that a layer makes.
    fn value(&self, name: &str) -> Result<Held> {
        match self.values.get(name) {
            Some(Item::Value(held)) => Ok(held.clone()),
            Some(_) => {
                Err(Error::unsupported("a layer of Keras takes a constant in place of a value").found(name))
            }
            None => Err(Error::corrupt("the graph takes a value that it does not make").found(name)),
        }
    }

    /// Returns an input of a node that a layer makes.
    fn input(&self, node: &Node, at: usize) -> Result<Held> {
        match node.inputs.get(at) {
            Some(name) => self.value(name),
            None => Err(Error::corrupt("a node of the graph lacks an input")),
        }
    }

    /// States what a node's result is.
    fn set(&mut self, node: &'a Node, at: usize, item: Item) {
        if let Some(name) = node.outputs.get(at) {
            self.values.insert(name, item);
        }
    }

    /// Whether a node's result is taken by another one, or is one of the graph's.
    fn is_used(&self, node: &Node, at: usize) -> bool {
        node.outputs.get(at).is_some_and(|name| {
            self.takers.contains_key(name.as_str()) || self.results.contains(name.as_str())
        })
    }

    fn node(&mut self, at: usize, node: &'a Node) -> Result<()> {
        let made = match &node.op {
            Op::Constant => self.constant(node)?,
            Op::Identity => {
                self.values.get(node.inputs.first().map_or("", String::as_str)).cloned().ok_or_else(lost)?
            }
            Op::LSTM | Op::GRU | Op::RNN => return self.recurrent(node),
            Op::Split => return self.split(node),
            Op::Einsum => Item::Value(self.einsum(at, node)?),
            Op::Shape => Item::Lens(self.lens(node)?),
            Op::Concat if self.joins_lens(node) => Item::Lens(self.joined_lens(node)?),
            op => {
                let made = match self.moved(node)? {
                    Some(item) => {
                        return {
                            self.set(node, 0, item);
                            Ok(())
                        };
                    }
                    None => match self.weighted(node)? {
                        Some(held) => Some(held),
                        None => match self.image(node)? {
                            Some(held) => Some(held),
                            None => self.elementwise(node)?,
                        },
                    },
                };
                Item::Value(made.ok_or_else(|| {
                    Error::unsupported("Keras has no layer for this operator").found(op.name())
                })?)
            }
        };
        self.set(node, 0, made);
        Ok(())
    }

    fn constant(&self, node: &Node) -> Result<Item> {
        if let Some(name) = node.parameters.get("value") {
            return self.tensor(name).map(Item::Stored);
        }
        let number = match (node.attributes.get("value_float"), node.attributes.get("value_int")) {
            (Some(_), _) => Some(node.float("value_float", 0.0)?),
            (_, Some(_)) => Some(node.float("value_int", 0.0)?),
            _ => None,
        };
        if let Some(number) = number {
            return Ok(Item::Number(number));
        }
        let list = if node.attributes.contains_key("value_ints") { "value_ints" } else { "value_floats" };
        let numbers = node.floats(list)?.ok_or_else(invalid)?;
        let shape = match node.ints("shape")? {
            None => vec![numbers.len() as u64],
            Some(shape) => {
                shape.iter().map(|len| u64::try_from(*len).ok()).collect::<Option<_>>().ok_or_else(invalid)?
            }
        };
        let count = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
        match (&shape[..], &numbers[..]) {
            ([], [number]) => Ok(Item::Number(*number)),
            _ if count == Some(numbers.len() as u64) => Ok(Item::Numbers(shape, numbers)),
            _ => Err(invalid()),
        }
    }

    /// Gives each variable its tensor.
    fn join(&mut self, variables: Vec<Variable>) -> Result<Vec<DescribedVariable>> {
        let joined = variables.into_iter().map(|variable| {
            let bound = self.bound.remove(&variable.name).ok_or_else(|| {
                Error::defect("a variable of the written model has no tensor").tensor(&variable.name)
            })?;
            let axes = || (0..bound.order.len()).map(AddedAxis::Along).collect();
            let added = bound.added.map(|tensor| Added { tensor, axes: axes() }).into_iter().collect();
            Ok(DescribedVariable { variable, tensor: bound.tensor, order: bound.order, added })
        });
        joined.collect()
    }
}

/// Returns the tensors that are constants of a graph, by the values' names.
fn constants(graph: &Graph) -> HashMap<&str, &str> {
    let constants = graph.nodes.iter().filter(|node| node.op == Op::Constant);
    let named = constants
        .filter_map(|node| Some((node.outputs.first()?.as_str(), node.parameters.get("value")?.as_str())));
    named.collect()
}
