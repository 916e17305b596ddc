//! Makes the graph of a template.
//!
//! Blocks and repeats are levels of a stack, so no input makes the program recur. Every statement that is executed
//! counts against the limit of graph nodes.

use super::document::{Argument, AttributeTemplate, Document, Length, NodeTemplate, Statement};
use super::expression::Expression;
use super::scope::Scope;
use super::value::Value;
use ckpt_api::{Attribute, Axis, Error, Graph, Limit, Limits, Node, Op, Result, Value as Port};
use std::collections::BTreeMap;

/// Most levels of blocks and repeats.
const MAX_LEVELS: usize = 32;

/// A graph, and what its nodes say about tensors.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) graph: Graph,
    /// The axes of the weights.
    pub(super) axes: BTreeMap<String, Vec<Axis>>,
    /// Lengths of a random example, by input.
    pub(super) examples: BTreeMap<String, Vec<Option<u64>>>,
}

/// Makes the graph of a template whose variables are set.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`], naming the node, for statements that do not fit the checkpoint; [`ckpt_api::Kind::Limit`]
/// for too many of them.
pub(super) fn expand(document: &Document, scope: &mut Scope<'_>, limits: &Limits) -> Result<Expanded> {
    let mut expansion = Expansion { document, scope, limits, steps: 0, bytes: 0, made: Expanded::default() };
    for input in &document.inputs {
        let is_wanted = !input.optional || expansion.scope.variable(&input.name)?.bool()?;
        if !is_wanted || !expansion.holds(input.when.as_ref())? {
            continue;
        }
        let mut port = Port::new(&input.name, expansion.shape(&input.shape)?);
        port.dtype = input.dtype;
        expansion.made.graph.inputs.push(port);
        let example = expansion.shape(&input.example)?;
        expansion.made.examples.insert(input.name.clone(), example);
    }
    expansion.run(&document.nodes)?;
    expansion.outputs()?;
    Ok(expansion.made)
}

struct Expansion<'t, 's, 'a> {
    document: &'t Document,
    scope: &'s mut Scope<'a>,
    limits: &'t Limits,
    /// Statements that were executed.
    steps: u64,
    /// Bytes of all names and attributes.
    bytes: u64,
    made: Expanded,
}

/// Statements that are being executed; each has a level of variables.
struct Frame<'t> {
    statements: &'t [Statement],
    next: usize,
    /// For a repeat: its variable, the current number, and the count.
    repeat: Option<(&'t str, i64, i64)>,
}

impl<'t> Expansion<'t, '_, '_> {
    fn run(&mut self, statements: &'t [Statement]) -> Result<()> {
        let mut frames = vec![Frame { statements, next: 0, repeat: None }];
        while let Some(frame) = frames.last_mut() {
            self.count(0)?;
            let Some(statement) = frame.statements.get(frame.next) else {
                match &mut frame.repeat {
                    Some((variable, number, count)) if *number + 1 < *count => {
                        *number += 1;
                        frame.next = 0;
                        if let Some(level) = self.scope.levels.last_mut() {
                            level.insert((*variable).to_owned(), Value::Int(*number));
                        }
                    }
                    _ => {
                        frames.pop();
                        self.scope.levels.truncate(frames.len().max(1));
                    }
                }
                continue;
            };
            frame.next += 1;
            if let Some(frame) = self.statement(statement)? {
                if frames.len() >= MAX_LEVELS {
                    return Err(Error::limit("blocks and repeats of the architecture are nested too deeply")
                        .expected(format!("at most {MAX_LEVELS} levels")));
                }
                frames.push(frame);
            }
        }
        Ok(())
    }

    /// Executes a statement. Returns the statements that it consists of, whose variables are pushed already.
    fn statement(&mut self, statement: &'t Statement) -> Result<Option<Frame<'t>>> {
        let (Statement::Repeat { when, .. } | Statement::Use { when, .. } | Statement::Set { when, .. }) =
            statement
        else {
            if let Statement::Node(node) = statement {
                self.node(node)?;
            }
            return Ok(None);
        };
        if !self.holds(when.as_ref())? {
            return Ok(None);
        }
        match statement {
            Statement::Repeat { count, variable, nodes, .. } => {
                let count = self.scope.evaluate(count)?.int()?;
                let first = BTreeMap::from([(variable.clone(), Value::Int(0))]);
                Ok((count > 0).then(|| {
                    self.scope.levels.push(first);
                    Frame { statements: nodes, next: 0, repeat: Some((variable, 0, count)) }
                }))
            }
            Statement::Use { block, with, .. } => {
                let statements = self.document.blocks.get(block).ok_or_else(|| {
                    let known = self.document.blocks.keys().map(String::as_str);
                    Error::usage("the architecture has no such block")
                        .found(format!("'{block}'"))
                        .help(ckpt_api::nearest(block, known))
                })?;
                let level = self.arguments(with)?;
                self.scope.levels.push(level);
                Ok(Some(Frame { statements, next: 0, repeat: None }))
            }
            Statement::Set { values, .. } => {
                for (name, value) in self.arguments(values)? {
                    self.scope.set(&name, value);
                }
                Ok(None)
            }
            Statement::Node(_) => Ok(None),
        }
    }

    fn arguments(&mut self, arguments: &BTreeMap<String, Argument>) -> Result<BTreeMap<String, Value>> {
        let value = |(name, argument): (&String, &Argument)| Ok((name.clone(), self.argument(argument)?));
        arguments.iter().map(value).collect()
    }

    fn argument(&self, argument: &Argument) -> Result<Value> {
        match argument {
            Argument::Value(value) => Ok(value.clone()),
            Argument::Text(text) => self.scope.text(text).map(Value::Text),
            Argument::Expression(expression) => self.scope.evaluate(expression),
        }
    }

    fn holds(&self, when: Option<&Expression>) -> Result<bool> {
        when.map_or(Ok(true), |when| self.scope.evaluate(when)?.bool())
    }

    fn node(&mut self, template: &NodeTemplate) -> Result<()> {
        if !self.holds(template.when.as_ref())? {
            return Ok(());
        }
        let name = self.scope.text(&template.name)?;
        let node = self.named_node(&name, template).map_err(|error| match error.context().field {
            Some(field) => {
                let field = format!("{name}: {field}");
                error.field(field)
            }
            None => error.field(name.as_str()),
        })?;
        self.made.graph.nodes.push(node);
        Ok(())
    }

    fn named_node(&mut self, name: &str, template: &NodeTemplate) -> Result<Node> {
        let mut node = Node::new(name, Op::from(self.scope.text(&template.op)?));
        node.inputs = template.inputs.iter().map(|text| self.scope.text(text)).collect::<Result<_>>()?;
        node.outputs = match &template.outputs[..] {
            [] => vec![name.to_owned()],
            outputs => outputs.iter().map(|text| self.scope.text(text)).collect::<Result<_>>()?,
        };
        for (role, tensor) in &template.parameters {
            let tensor_name = self.scope.text(&tensor.name)?;
            if tensor.is_optional && self.scope.tensors.get(&tensor_name).is_none() {
                continue;
            }
            self.scope.tensors.required(&tensor_name)?;
            if role == "weight" {
                self.label(&tensor_name, template.axes.as_ref(), &node.op)?;
            }
            self.count(tensor_name.len())?;
            node.parameters.insert(role.clone(), tensor_name);
        }
        for (key, value) in &template.attributes {
            let attribute = match value {
                AttributeTemplate::One(argument) => literal(key, self.argument(argument)?.into_attribute()),
                AttributeTemplate::List(list) => {
                    let ints = list.iter().map(|argument| self.argument(argument)?.int());
                    Attribute::Ints(ints.collect::<Result<_>>()?)
                }
            };
            self.count(size(&attribute))?;
            node.attributes.insert(key.clone(), attribute);
        }
        self.count(node.inputs.iter().chain(&node.outputs).map(String::len).sum())?;
        Ok(node)
    }

    /// Records the axes of a weight.
    fn label(&mut self, tensor: &str, own: Option<&Vec<Axis>>, op: &Op) -> Result<()> {
        let Some(axes) = own.or_else(|| self.document.axes.get(op.name())) else { return Ok(()) };
        let shape = &self.scope.tensors.required(tensor)?.shape;
        if shape.rank() != axes.len() {
            return Err(Error::usage("a tensor does not fit the architecture")
                .tensor(tensor)
                .found(format!("shape {shape}"))
                .expected(format!("the {} axes {}", axes.len(), show(axes))));
        }
        match self.made.axes.insert(tensor.to_owned(), axes.clone()) {
            Some(other) if other != *axes => {
                Err(Error::usage("the architecture names the axes of a tensor in two ways")
                    .tensor(tensor)
                    .found(show(axes))
                    .expected(show(&other))
                    .help("take it as a Constant where its axes have another meaning"))
            }
            _ => Ok(()),
        }
    }

    fn outputs(&mut self) -> Result<()> {
        for output in &self.document.outputs {
            if !self.holds(output.when.as_ref())? {
                continue;
            }
            let (value, shape) = (self.scope.text(&output.value)?, self.shape(&output.shape)?);
            if value != output.name {
                let mut node = Node::new(&output.name, Op::Identity);
                (node.inputs, node.outputs) = (vec![value], vec![output.name.clone()]);
                self.made.graph.nodes.push(node);
            }
            self.made.graph.outputs.push(Port::new(&output.name, shape));
        }
        Ok(())
    }

    fn shape(&self, lengths: &[Length]) -> Result<Vec<Option<u64>>> {
        let length = |length: &Length| match length {
            Length::Free => Ok(None),
            Length::Fixed(length) => Ok(Some(*length)),
            Length::Computed(expression) => {
                let value = self.scope.evaluate(expression)?;
                u64::try_from(value.int()?).map(Some).map_err(|_| value.unfit("a length"))
            }
        };
        lengths.iter().map(length).collect()
    }

    /// Counts a statement, and bytes that it makes.
    fn count(&mut self, bytes: usize) -> Result<()> {
        self.steps += 1;
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.limits.check(Limit::GraphNodes, self.steps)?;
        self.limits.check(Limit::HeaderBytes, self.bytes)
    }
}

/// A number that is a value of the graph has 32 bits, as in ONNX: then it is the same in every arithmetic.
#[expect(clippy::cast_possible_truncation, reason = "rounded to binary32")]
fn literal(key: &str, attribute: Attribute) -> Attribute {
    match attribute {
        Attribute::Float(value) if key == "value_float" => Attribute::Float(f64::from(value as f32)),
        Attribute::Floats(values) if key == "value_floats" => {
            Attribute::Floats(values.into_iter().map(|value| f64::from(value as f32)).collect())
        }
        other => other,
    }
}

/// Bytes of an attribute.
fn size(attribute: &Attribute) -> usize {
    match attribute {
        Attribute::Text(text) => text.len(),
        Attribute::Ints(values) => values.len() * 8,
        Attribute::Floats(values) => values.len() * 8,
        _ => 8,
    }
}

fn show(axes: &[Axis]) -> String {
    axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(", ")
}
