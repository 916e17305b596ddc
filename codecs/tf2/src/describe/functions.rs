//! A SavedModel's functions, read through: a value is followed through calls, identities and arguments to the
//! operation that makes it.

use super::chain::{Dims, Why};
use crate::proto::attr_value::Value;
use crate::proto::{AttrValue, FunctionDef, FunctionDefLibrary, NodeDef, TensorShapeProto};
use std::collections::HashMap;

/// Calls followed into a function: far more than a chain of layers makes, few enough that one that calls itself ends soon.
const MOST_CALLS: usize = 1 << 13;

/// The function library, the variables bound to the function that is read, and how much more may be followed.
pub(super) struct Functions<'a> {
    functions: HashMap<&'a str, Function<'a>>,
    bound: Vec<Option<String>>,
    frames: Vec<Frame<'a>>,
    calls: HashMap<(usize, &'a str), usize>,
    budget: u64,
}

struct Function<'a> {
    def: &'a FunctionDef,
    arguments: HashMap<&'a str, usize>,
    nodes: HashMap<&'a str, &'a NodeDef>,
}

/// One call: what runs, and who called it where.
struct Frame<'a> {
    function: &'a str,
    caller: Option<(usize, &'a NodeDef)>,
}

/// What makes a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source<'a> {
    /// An argument of the function that is read.
    Input(usize),
    /// A variable, by key.
    Variable(String),
    /// An operation.
    Node(Place<'a>),
}

/// An operation in a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub frame: usize,
    pub node: &'a NodeDef,
}

impl PartialEq for Place<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.frame == other.frame && std::ptr::eq(self.node, other.node)
    }
}

impl<'a> Functions<'a> {
    /// Reads `library`; `bound` are the variables that the function to be read takes after its arguments.
    pub fn new(library: &'a FunctionDefLibrary, bound: Vec<Option<String>>, budget: u64) -> Self {
        let function = |def: &'a FunctionDef| {
            let signature = def.signature.as_ref()?;
            let plain = signature
                .input_arg
                .iter()
                .all(|argument| argument.number_attr.is_empty() && argument.type_list_attr.is_empty());
            if !plain {
                return None;
            }
            let arguments =
                signature.input_arg.iter().enumerate().map(|(at, argument)| (argument.name.as_str(), at));
            let nodes = def.node_def.iter().map(|node| (node.name.as_str(), node));
            Some((
                signature.name.as_str(),
                Function { def, arguments: arguments.collect(), nodes: nodes.collect() },
            ))
        };
        let functions = library.function.iter().filter_map(function).collect();
        Functions { functions, bound, frames: Vec::new(), calls: HashMap::new(), budget }
    }

    /// Begins to read a function: what makes its only result.
    pub fn enter(&mut self, name: &str) -> Result<Source<'a>, Why> {
        let missing = || Why(format!("saved_model.pb lacks the function '{name}'"));
        let (name, function) = self.functions.get_key_value(name).ok_or_else(missing)?;
        let signature = function.def.signature.as_ref().ok_or_else(missing)?;
        if signature.output_arg.len() != 1 {
            return Err(Why(format!("the function '{name}' has {} results", signature.output_arg.len())));
        }
        let result = returned(function.def, 0).ok_or_else(missing)?;
        self.frames.push(Frame { function: name, caller: None });
        self.resolve(0, result)
    }

    /// The shape that the function that is read says its argument `at` has.
    pub fn input_shape(&self, at: usize) -> Option<Dims> {
        let function = self.functions.get(self.frames.first()?.function)?;
        let attributes = &function.def.arg_attr.get(&u32::try_from(at).ok()?)?.attr;
        match attributes.get("_output_shapes")?.value.as_ref()? {
            Value::List(list) => dims(list.shape.first()?),
            Value::Shape(shape) => dims(shape),
            _ => None,
        }
    }

    /// What makes input `at` of an operation.
    pub fn operand(&mut self, place: Place<'a>, at: usize) -> Result<Source<'a>, Why> {
        let reference = place.node.input.get(at).filter(|input| !input.starts_with('^'));
        let reference =
            reference.ok_or_else(|| Why(format!("operation '{}' lacks an input", place.node.name)))?;
        self.resolve(place.frame, reference)
    }

    fn resolve(&mut self, mut frame: usize, reference: &'a str) -> Result<Source<'a>, Why> {
        let mut reference = reference;
        loop {
            let endless = || Why("the functions refer to each other".into());
            self.budget = self.budget.checked_sub(1).ok_or_else(endless)?;
            let broken = || Why(format!("saved_model.pb refers to '{reference}', which it lacks"));
            let (name, result, output) = split(reference);
            let here = self.frames.get(frame).ok_or_else(broken)?;
            let function = self.functions.get(here.function).ok_or_else(broken)?;
            if let Some(at) = function.arguments.get(name).copied() {
                match here.caller {
                    Some((caller, node)) => {
                        (frame, reference) = (caller, node.input.get(at).ok_or_else(broken)?)
                    }
                    None => return self.argument(function.arguments.len(), at),
                }
                continue;
            }
            let node = *function.nodes.get(name).ok_or_else(broken)?;
            match node.op.as_str() {
                "Identity" | "StopGradient" | "PreventGradient" | "CheckNumerics" | "Snapshot"
                | "ReadVariableOp" => {
                    reference = node.input.first().ok_or_else(broken)?;
                }
                "IdentityN" => reference = node.input.get(output).ok_or_else(broken)?,
                "PartitionedCall" | "StatefulPartitionedCall" => {
                    let called = function_attribute(node).ok_or_else(broken)?;
                    let (called, function) = self.functions.get_key_value(called).ok_or_else(broken)?;
                    reference = returned(function.def, output).ok_or_else(broken)?;
                    let next = self.frames.len();
                    let callee = *self.calls.entry((frame, node.name.as_str())).or_insert(next);
                    if callee == next && next >= MOST_CALLS {
                        return Err(Why(format!("the functions make more than {MOST_CALLS} calls")));
                    }
                    if callee == next {
                        self.frames.push(Frame { function: called, caller: Some((frame, node)) });
                    }
                    frame = callee;
                }
                // Its other results are statistics.
                "FusedBatchNormV3" if result != "y" => return Err(unread(node, result, output)),
                _ if output > 0 => return Err(unread(node, result, output)),
                _ => return Ok(Source::Node(Place { frame, node })),
            }
        }
    }

    /// An argument of the function that is read: its own first, then the variables bound to it.
    fn argument(&self, arguments: usize, at: usize) -> Result<Source<'a>, Why> {
        let own = arguments.saturating_sub(self.bound.len());
        match at.checked_sub(own) {
            None => Ok(Source::Input(at)),
            Some(bound) => match self.bound.get(bound) {
                Some(Some(key)) => Ok(Source::Variable(key.clone())),
                _ => Err(Why("the model uses a constant or table that the checkpoint does not hold".into())),
            },
        }
    }
}

fn unread(node: &NodeDef, result: &str, output: usize) -> Why {
    let NodeDef { op, name, .. } = node;
    Why(format!("the result {result}:{output} of {op} ('{name}') is not one that a chain of layers uses"))
}

/// `node:result:2` names item 2 of a node's result, `argument` an argument.
fn split(reference: &str) -> (&str, &str, usize) {
    let mut parts = reference.split(':');
    let (name, result) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let number = parts.next().unwrap_or(result);
    (name, result, number.parse().unwrap_or(0))
}

fn returned(def: &FunctionDef, at: usize) -> Option<&str> {
    let output = def.signature.as_ref()?.output_arg.get(at)?;
    def.ret.get(&output.name).map(String::as_str)
}

fn function_attribute(node: &NodeDef) -> Option<&str> {
    match node.attr.get("f")?.value.as_ref()? {
        Value::Func(function) => Some(&function.name),
        _ => None,
    }
}

fn dims(shape: &TensorShapeProto) -> Option<Dims> {
    (!shape.unknown_rank).then(|| shape.dim.iter().map(|dim| u64::try_from(dim.size).ok()).collect())
}

/// The value of a node's attribute.
pub(super) fn attribute<'a>(node: &'a NodeDef, name: &str) -> Option<&'a Value> {
    node.attr.get(name).and_then(|AttrValue { value }| value.as_ref())
}

/// Whether an attribute is set.
pub(super) fn flag(node: &NodeDef, name: &str) -> bool {
    matches!(attribute(node, name), Some(Value::B(true)))
}

/// An attribute that is a text.
pub(super) fn text<'a>(node: &'a NodeDef, name: &str) -> Option<&'a str> {
    match attribute(node, name)? {
        Value::S(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// An attribute that is a list of lengths.
pub(super) fn lengths(node: &NodeDef, name: &str) -> Option<Vec<u64>> {
    match attribute(node, name)? {
        Value::List(list) => list.i.iter().map(|value| u64::try_from(*value).ok()).collect(),
        _ => None,
    }
}

/// The number that was meant: 0.001 is stored as 0.0010000000475, and is the same float32.
pub(super) fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The values of a `Const` of numbers, up to eight of them.
pub(super) fn constant(node: &NodeDef) -> Option<Vec<f64>> {
    const MOST: usize = 8;
    let (Some(Value::Tensor(tensor)), "Const") = (attribute(node, "value"), node.op.as_str()) else {
        return None;
    };
    let shape = tensor.tensor_shape.as_ref();
    let elements = shape.map_or(Some(1u64), |shape| {
        shape.dim.iter().try_fold(1u64, |product, dim| product.checked_mul(u64::try_from(dim.size).ok()?))
    });
    let elements = usize::try_from(elements?).ok().filter(|elements| *elements <= MOST)?;
    let raw = &tensor.tensor_content;
    let mut values: Vec<f64> = match tensor.dtype {
        1 if raw.is_empty() => tensor.float_val.iter().map(|value| decimal(*value)).collect(),
        1 => raw.chunks_exact(4).map(|b| decimal(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect(),
        2 if raw.is_empty() => tensor.double_val.clone(),
        3 if raw.is_empty() => tensor.int_val.iter().map(|value| f64::from(*value)).collect(),
        3 => raw.chunks_exact(4).map(|b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect(),
        9 if raw.is_empty() => {
            let exact = |value: &i64| i32::try_from(*value).ok().map(f64::from);
            tensor.int64_val.iter().map(exact).collect::<Option<_>>()?
        }
        _ => return None,
    };
    if values.is_empty() || values.len() > elements {
        return None;
    }
    // Fewer values than elements: the last one is repeated.
    let last = *values.last()?;
    values.resize(elements, last);
    Some(values)
}
