//! Translates a graph node by node: layers to modules, other operators to expressions.

use super::program::{Input, Made, Module, Piece, Program, Statement, ValueId, Weight, pieces};
use super::refusal::refuse;
use super::shapes::Shapes;
use super::tensors::Tensors;
use super::views::{View, Views, moved};
use ckpt_api::{Attribute, Error, Graph, Loss, Node, Op, Result, Tensor};
use ckpt_engine::words::quote;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Operators that [`super::simplify`] makes of several.
pub(super) const PROJECTION: &str = "pytorch.Projection";
pub(super) const ATTENTION: &str = "pytorch.MultiheadAttention";
pub(super) const BIDIRECTIONAL: &str = "pytorch.Bidirectional";

/// Images that are flattened with their channels first, though the source has them last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flattened {
    pub(super) pixels: u64,
    pub(super) channels: u64,
}

/// What a person should know who writes the modules by hand, by what it is about.
#[derive(Default)]
pub(super) struct Remarks {
    /// Settings that differ from PyTorch's defaults: the layers that have each.
    pub(super) settings: BTreeMap<String, Vec<String>>,
    /// What only a program can state: the code does.
    pub(super) conventions: Vec<Loss>,
}

impl Remarks {
    pub(super) fn setting(&mut self, text: String, layer: &str) {
        self.settings.entry(text).or_default().push(layer.to_owned());
    }
}

/// A graph on its way to a program.
pub(super) struct Translator<'g> {
    pub(super) tensors: &'g Tensors<'g>,
    pub(super) shapes: &'g Shapes,
    pub(super) nodes: &'g [Node],
    /// The nodes that take each value.
    pub(super) takers: HashMap<&'g str, Vec<usize>>,
    results: HashSet<&'g str>,
    pub(super) program: Program,
    pub(super) views: Views,
    /// Numbers, as text.
    pub(super) literals: HashMap<&'g str, String>,
    /// Values whose elements are flattened in another order than in the source.
    pub(super) flattened: HashMap<&'g str, Flattened>,
    pub(super) remarks: Remarks,
    /// Why there is no program, where a node has no expression.
    pub(super) failure: Option<Error>,
}

impl<'g> Translator<'g> {
    pub(super) fn new(graph: &'g Graph, tensors: &'g Tensors<'g>, shapes: &'g Shapes) -> Self {
        let mut takers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                takers.entry(input).or_default().push(number);
            }
        }
        Translator {
            tensors,
            shapes,
            nodes: &graph.nodes,
            takers,
            results: graph.outputs.iter().map(|output| output.name.as_str()).collect(),
            program: Program::default(),
            views: Views::default(),
            literals: HashMap::new(),
            flattened: HashMap::new(),
            remarks: Remarks::default(),
            failure: None,
        }
    }

    /// Translates all nodes. A node without tensors that has no expression leaves [`Translator::failure`].
    ///
    /// # Errors
    /// Those of layers whose tensors have no place in a module.
    pub(super) fn translate(&mut self, graph: &'g Graph) -> Result<()> {
        for input in &graph.inputs {
            let value = self.program.value(if graph.inputs.len() == 1 { "x" } else { &input.name });
            let (name, shape) = (input.name.clone(), input.shape.clone());
            self.views.set(&input.name, View::whole(value, Some(shape.len())));
            self.program.inputs.push(Input { value, name, shape });
        }
        for node in &graph.nodes {
            let made = self.node(node);
            match made {
                Ok(()) => {}
                Err(error) if node.parameters.is_empty() => {
                    self.failure.get_or_insert(error);
                    self.give_up(node);
                }
                Err(error) => return Err(error),
            }
        }
        for output in &graph.outputs {
            let read = self.read(&output.name);
            match read {
                Ok(value) => self.program.outputs.push(value),
                Err(error) => drop(self.failure.get_or_insert(error)),
            }
        }
        Ok(())
    }

    /// Gives values to what a node makes, so that the layers after it can be translated.
    fn give_up(&mut self, node: &'g Node) {
        for output in &node.outputs {
            let value = self.program.value(&node.name);
            self.views.set(output, View::whole(value, self.shapes.rank(output)));
        }
    }

    fn node(&mut self, node: &'g Node) -> Result<()> {
        match &node.op {
            Op::Gemm => self.linear(node),
            Op::Conv => self.conv(node),
            Op::ConvTranspose => self.conv_transpose(node),
            Op::MaxPool | Op::AveragePool => self.pool(node),
            Op::BatchNormalization => self.batch_norm(node),
            Op::LayerNormalization | Op::RMSNormalization => self.layer_norm(node),
            Op::GroupNormalization | Op::InstanceNormalization => self.group_norm(node),
            Op::Gather if node.inputs.len() == 1 => self.embedding(node),
            Op::LSTM | Op::GRU | Op::RNN => self.recurrent(node),
            Op::Constant => self.constant(node),
            Op::Transpose | Op::Squeeze | Op::Unsqueeze => self.axes(node),
            Op::Flatten => self.flatten(node),
            Op::Custom(name) if name == PROJECTION => self.projection(node),
            Op::Custom(name) if name == ATTENTION => self.attention(node),
            Op::Custom(name) if name == BIDIRECTIONAL => self.bidirectional(node),
            _ => self.function(node),
        }
    }

    /// Moves axes, or adds or removes axes of length 1.
    fn axes(&mut self, node: &'g Node) -> Result<()> {
        let view = self.view(node, 0)?;
        match moved(node, &view)? {
            Some(view) => {
                self.set(node, view);
                Ok(())
            }
            None => self.function(node),
        }
    }

    /// The view of an input.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if it does not exist: the node before it had no value.
    pub(super) fn view(&self, node: &Node, number: usize) -> Result<View> {
        let name = node.inputs.get(number).map(String::as_str).unwrap_or_default();
        self.views
            .get(name)
            .cloned()
            .ok_or_else(|| refuse(node, "takes a value that does not exist").found(quote(name)))
    }

    /// The variable of a value, with its axes in the graph's order.
    pub(super) fn read(&mut self, name: &str) -> Result<ValueId> {
        let view = self.views.get(name).cloned();
        let view =
            view.ok_or_else(|| Error::unsupported("a value of the graph does not exist").field(quote(name)))?;
        Ok(self.views.read(&view, &mut self.program))
    }

    /// The variable of an input, with its axes in the graph's order.
    pub(super) fn input(&mut self, node: &Node, number: usize) -> Result<ValueId> {
        let view = self.view(node, number)?;
        Ok(self.views.read(&view, &mut self.program))
    }

    /// States the view of a node's first output.
    pub(super) fn set(&mut self, node: &Node, view: View) {
        if let Some(output) = node.outputs.first() {
            self.views.set(output, view);
        }
    }

    /// States the value of a node's first output.
    pub(super) fn put(&mut self, node: &Node, value: ValueId) {
        let rank = node.outputs.first().and_then(|output| self.shapes.rank(output));
        self.set(node, View::whole(value, rank));
    }

    /// Adds a module for a node, and its call.
    pub(super) fn apply(&mut self, node: &Node, module: Module, input: ValueId) -> ValueId {
        let hint = module.layer.clone();
        let module = self.program.module(module);
        let value = self.program.call(&hint, module, input);
        self.put(node, value);
        value
    }

    /// Assigns an expression of one value.
    pub(super) fn put_expression(&mut self, node: &Node, format: &str, values: &[ValueId]) {
        let value = self.program.assign(&node.name, pieces(format, values));
        self.put(node, value);
    }

    /// The tensor of a role.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if the node has none, or the checkpoint lacks it.
    pub(super) fn tensor(&self, node: &Node, role: &str) -> Result<&'g Tensor> {
        let name = node.parameters.get(role).map(String::as_str).unwrap_or_default();
        self.tensors.get(name).ok_or_else(|| refuse(node, &format!("has no tensor for its {role}")))
    }

    /// All nodes that take a value; `None` if it is a result of the graph, too.
    pub(super) fn all_takers(&self, value: &str) -> Option<Vec<&'g Node>> {
        let takers = self.takers.get(value).into_iter().flatten();
        (!self.results.contains(value)).then(|| takers.filter_map(|number| self.nodes.get(*number)).collect())
    }

    /// Makes the tensor of a Constant an entry of a dictionary of parameters, or states its numbers.
    fn constant(&mut self, node: &'g Node) -> Result<()> {
        let Some(output) = node.outputs.first() else { return Ok(()) };
        if let Some(name) = node.parameters.get("value") {
            return self.parameter(node, name);
        }
        if let Some(literal) = scalar(node) {
            self.literals.insert(output, literal);
        }
        let made = super::expressions::numbers(node)?;
        let value = self.program.value(&node.name);
        self.views.set(output, View::whole(value, self.shapes.rank(output)));
        self.program.constants.push(super::program::Constant { layer: node.name.clone(), made, value });
        Ok(())
    }

    fn parameter(&mut self, node: &Node, name: &str) -> Result<()> {
        let tensor = self.tensors.get(name).ok_or_else(|| refuse(node, "has no tensor for its value"))?;
        let (layer, own) = super::layer_names::split(name);
        let entry = super::names::identifier(own);
        let weight = Weight::one(name, &entry, Vec::new());
        let shape = tensor.shape.to_vec();
        let found = self.program.modules.iter().position(|module| {
            module.layer == layer
                && matches!(&module.made, Made::Parameters(own) if own.iter().all(|(name, _)| *name != entry))
        });
        let module = match found {
            Some(number) => {
                if let Some(Module { made: Made::Parameters(own), weights, .. }) =
                    self.program.modules.get_mut(number)
                {
                    own.push((entry.clone(), shape));
                    weights.push(weight);
                }
                number
            }
            None => self.program.module(Module {
                layer: layer.to_owned(),
                made: Made::Parameters(vec![(entry.clone(), shape)]),
                weights: vec![weight],
                missing: Vec::new(),
            }),
        };
        let value = self.program.value(&entry);
        let key = super::program::text(format!("[{}]", super::names::string(&entry)));
        let target = vec![Piece::Value(value)];
        let pieces = vec![Piece::Module(module), key];
        self.program.statements.push(Statement { target, pieces, comment: None, module: None });
        self.put(node, value);
        Ok(())
    }
}

/// The one number of a Constant, as text.
fn scalar(node: &Node) -> Option<String> {
    match (node.attributes.get("value_float"), node.attributes.get("value_int")) {
        (Some(Attribute::Float(value)), _) => Some(super::names::number(*value)),
        (Some(Attribute::Int(value)), _) => Some(super::names::number(*value as f64)),
        (_, Some(Attribute::Int(value))) => Some(value.to_string()),
        _ => None,
    }
}
