//! Graphs of the contract as TensorFlow's operators.
//!
//! [`model_of`] makes a [`Model`]: operators and tensors, which TensorFlow Lite and TensorFlow.js store in their own forms. Images
//! have their channels last there and first in the contract. A value of a convolution is turned: its axes are stored as
//! `[batch, rows, columns, channels]`. What takes the axes in another order takes a transposition.
//!
//! ```
//! use ckpt_api::{Checkpoint, Graph, Node, Op, Value};
//! use ckpt_tf_operators::{Operator, Program, Unary, model_of};
//! let mut node = Node::new("act", Op::Sigmoid);
//! (node.inputs, node.outputs) = (vec!["x".into()], vec!["y".into()]);
//! let value = |name: &str| Value::new(name, [None, Some(3)]);
//! let graph = Graph { name: String::new(), inputs: vec![value("x")], outputs: vec![value("y")], nodes: vec![node] };
//! let model = model_of(&Checkpoint::default(), &graph, Program::Lite)?;
//! assert_eq!(model.steps[0].operator, Operator::Unary(Unary::Sigmoid));
//! assert_eq!(model.tensors[model.outputs[0]].signature, Some(vec![-1, 3]));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod activations;
mod constants;
mod einsum;
mod elementwise;
mod layers;
mod model;
mod moves;
mod normal;
mod operator;
mod recurrent;
mod values;

use ckpt_api::{Checkpoint, DType, Error, Graph, Node, Op, Result, Tensor};
use ckpt_graph::infer::{Known as KnownShapes, infer};
use ckpt_graph::shape::of_sizes;
use ckpt_graph::{Dims, Length};
use std::collections::{HashMap, HashSet};
use values::{Builder, Constant, Kind, Val, Value, missing};

pub use model::{Content, Model, ModelTensor, Program, Step};
pub use operator::{Activation, Binary, Operator, Reduction, Unary, Window};

/// Returns the model that computes what a graph does.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for what the program has no operators for; [`ckpt_api::Kind::Corrupt`] for a graph that
/// contradicts itself.
pub fn model_of(checkpoint: &Checkpoint, graph: &Graph, program: Program) -> Result<Model> {
    graph.require_activations()?;
    let ids = checkpoint.tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let outputs = graph.outputs.iter().map(|output| &output.name);
    for name in graph.nodes.iter().flat_map(|node| &node.inputs).chain(outputs.clone()) {
        *uses.entry(name).or_default() += 1;
    }
    // What the graph returns is kept as it is.
    for name in outputs {
        *uses.entry(name).or_default() += 1;
    }
    let mut builder = Builder {
        checkpoint,
        ids,
        program,
        model: Model::default(),
        values: HashMap::new(),
        dims: HashMap::new(),
        uses,
        turned: HashMap::new(),
        stored: HashMap::new(),
        literals: HashMap::new(),
        layer: String::new(),
        unrolled: 0,
    };
    builder.inputs(graph)?;
    for node in &graph.nodes {
        builder.layer.clone_from(&node.name);
        builder.node(node).map_err(|error| error.field(&node.name))?;
    }
    builder.outputs(graph)?;
    Ok(builder.model)
}

/// The error for a node that has no counterpart.
fn unsupported(node: &Node, why: &str) -> Error {
    Error::unsupported(format!("a layer has no counterpart among TensorFlow's operators: {why}"))
        .found(node.op.name().to_owned())
}

impl<'a> Builder<'a> {
    fn inputs(&mut self, graph: &Graph) -> Result<()> {
        let mut free = 0;
        let gathers = graph.nodes.iter().filter(|node| node.op == Op::Gather);
        let indices: HashSet<&str> =
            gathers.filter_map(|node| node.inputs.last()).map(String::as_str).collect();
        for input in &graph.inputs {
            let mut length = |len: &Option<u64>| match len {
                Some(len) => Length::from(*len),
                None => {
                    free += 1;
                    Length::free(free - 1)
                }
            };
            let dims: Dims = input.shape.iter().map(&mut length).collect();
            let is_index = indices.contains(input.name.as_str());
            let kind = match input.dtype {
                Some(DType::Bool) => Kind::Bool,
                Some(dtype) if !dtype.is_float() => Kind::Int,
                None if is_index => Kind::Int,
                _ => Kind::Real,
            };
            let val = self.value(&input.name, dims, false, kind)?;
            self.model.inputs.push(val.tensor);
            self.set(&input.name, val);
        }
        Ok(())
    }

    fn outputs(&mut self, graph: &Graph) -> Result<()> {
        let mut taken: HashSet<usize> = self.model.inputs.iter().copied().collect();
        for output in &graph.outputs {
            self.layer.clone_from(&output.name);
            let val = self.take(&output.name)?;
            let val = self.plain(&val)?;
            let is_constant =
                self.model.tensors.get(val.tensor).is_some_and(|own| !matches!(own.content, Content::Made));
            // A result is a value of its own.
            let val = match is_constant || taken.contains(&val.tensor) {
                true => self.reshaped(&val, val.dims.clone())?,
                false => val,
            };
            taken.insert(val.tensor);
            if let Some(tensor) = self.model.tensors.get_mut(val.tensor) {
                tensor.name.clone_from(&output.name);
            }
            self.model.outputs.push(val.tensor);
        }
        Ok(())
    }

    /// Writes a node.
    fn node(&mut self, node: &Node) -> Result<()> {
        if node.computed_attributes().next().is_some() {
            return Err(unsupported(node, "the graph computes what it states"));
        }
        let shapes = infer(node, self);
        for (output, dims) in node.outputs.iter().zip(shapes) {
            if let Some(dims) = dims {
                self.dims.insert(output.clone(), dims);
            }
        }
        match node.op {
            Op::Constant => return self.constant_node(node),
            Op::Identity => {
                let input = node.inputs.first().ok_or_else(|| unsupported(node, "it has no input"))?;
                let value = self.values.get(input).cloned().ok_or_else(missing)?;
                return self.alias(node, value);
            }
            Op::Split => return self.split(node),
            Op::LSTM | Op::GRU | Op::RNN => return self.recurrent_node(node),
            _ => {}
        }
        let made = match self.layer_node(node)? {
            Some(made) => Some(made),
            None => self.elementwise_node(node)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.moving_node(node)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.normal_node(node)?,
        };
        let made = made.ok_or_else(|| unsupported(node, "the operator is not written"))?;
        let [output] = &node.outputs[..] else { return Err(unsupported(node, "it has several results")) };
        self.set(output, made);
        Ok(())
    }

    /// Gives the result of a node a value that exists already.
    fn alias(&mut self, node: &Node, value: Value) -> Result<()> {
        let output = node.outputs.first().ok_or_else(|| unsupported(node, "it makes nothing"))?;
        let dims = match &value {
            Value::Made(val) => val.dims.clone(),
            Value::Constant(constant) => of_sizes(&constant.dims),
        };
        self.dims.insert(output.clone(), dims);
        self.values.insert(output.clone(), value);
        Ok(())
    }

    fn set(&mut self, name: &str, val: Val) {
        self.dims.insert(name.to_owned(), val.dims.clone());
        self.values.insert(name.to_owned(), Value::Made(val));
    }

    /// The lengths of a node's result.
    fn result(&self, node: &Node) -> Result<Dims> {
        let dims = node.outputs.first().and_then(|output| self.dims.get(output));
        dims.cloned().ok_or_else(|| unsupported(node, "the shape of its result is not known"))
    }

    /// The value of a node's input.
    fn input(&mut self, node: &Node, index: usize) -> Result<Val> {
        let name = node.inputs.get(index).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| unsupported(node, "it lacks an input"))?.clone();
        self.take(&name)
    }

    /// The tensor in a role of a node, if it has one.
    fn parameter(&self, node: &Node, role: &str) -> Result<Option<(usize, &'a Tensor)>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let id = self.ids.get(name.as_str()).copied();
        let found = id.and_then(|id| Some((id, self.checkpoint.tensors.get(id)?)));
        let (id, tensor) = found.ok_or_else(|| {
            Error::corrupt("the layer is bound to a tensor that does not exist").tensor(name.as_str())
        })?;
        if tensor.quantization.is_some() || tensor.dtype.bits().is_none() {
            return Err(Error::unsupported("a layer's tensor has integers with scales")
                .tensor(name.as_str())
                .found(tensor.dtype.name())
                .help("ask for numbers, such as with the dtype f32"));
        }
        Ok(Some((id, tensor)))
    }

    /// Whether a value is taken once, and is no result.
    fn is_taken_once(&self, name: &str) -> bool {
        self.uses.get(name) == Some(&1)
    }
}

impl KnownShapes for Builder<'_> {
    fn dims(&self, value: &str) -> Option<Dims> {
        match self.values.get(value) {
            Some(Value::Constant(Constant { dims, .. })) => Some(of_sizes(dims)),
            _ => self.dims.get(value).cloned(),
        }
    }

    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.checkpoint.tensors.get(*self.ids.get(name)?)
    }
}

#[cfg(test)]
mod tests;
