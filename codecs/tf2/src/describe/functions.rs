//! A SavedModel's functions: follows a value through calls, identities and arguments to the operation that computes it.

use super::chain::Dims;
use super::no_chain::NoChain;
use crate::proto::attr_value::Value;
use crate::proto::{AttrValue, FunctionDef, FunctionDefLibrary, NodeDef, TensorShapeProto};
use ckpt_api::first_few;
use std::collections::HashMap;

/// Limit on the calls that are followed: far above what a chain of layers has, and low enough to stop a recursion soon.
const MAX_CALLS: usize = 1 << 13;

/// Names that a message lists.
const SHOWN: usize = 4;

/// A function library, and the calls followed so far from the function that is read.
pub(super) struct Functions<'a> {
    functions: HashMap<&'a str, Function<'a>>,
    /// Keys of the variables that are bound to the function that is read.
    bound: Vec<Option<String>>,
    frames: Vec<Frame<'a>>,
    /// Frames of the calls by the caller's frame and the name of the calling operation.
    calls: HashMap<(usize, &'a str), usize>,
    /// Number of references that may still be followed.
    budget: u64,
}

struct Function<'a> {
    def: &'a FunctionDef,
    arguments: HashMap<&'a str, usize>,
    nodes: HashMap<&'a str, &'a NodeDef>,
}

/// One call of a function.
struct Frame<'a> {
    function: &'a str,
    /// The caller's frame and the calling operation.
    caller: Option<(usize, &'a NodeDef)>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source<'a> {
    /// An argument of the function that is read.
    Input(usize),
    /// The variable with this key.
    Variable(String),
    /// The result of an operation.
    Node(OpRef<'a>),
}

/// An operation within a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpRef<'a> {
    pub frame: usize,
    pub node: &'a NodeDef,
}

impl PartialEq for OpRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.frame == other.frame && std::ptr::eq(self.node, other.node)
    }
}

impl<'a> Functions<'a> {
    /// Indexes `library`. `bound` are the keys of the variables that the function to read takes after its arguments.
    pub fn new(library: &'a FunctionDefLibrary, bound: Vec<Option<String>>, budget: u64) -> Self {
        let function = |def: &'a FunctionDef| {
            let signature = def.signature.as_ref()?;
            let is_plain = signature
                .input_arg
                .iter()
                .all(|argument| argument.number_attr.is_empty() && argument.type_list_attr.is_empty());
            if !is_plain {
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

    /// Starts reading a function, and returns the source of its only result.
    pub fn enter(&mut self, name: &str) -> Result<Source<'a>, NoChain> {
        let missing = || NoChain::unsupported(format!("the function '{name}' is missing"));
        let (name, function) = self.functions.get_key_value(name).ok_or_else(missing)?;
        let signature = function.def.signature.as_ref().ok_or_else(missing)?;
        if signature.output_arg.len() != 1 {
            let names: Vec<&str> = signature.output_arg.iter().map(|result| result.name.as_str()).collect();
            return Err(NoChain::unsupported(format!(
                "the function '{name}' has {} results ({}), and only one is supported",
                names.len(),
                first_few(&names, SHOWN)
            )));
        }
        let result = returned(function.def, 0).ok_or_else(missing)?;
        self.frames.push(Frame { function: name, caller: None });
        self.resolve(0, result, None)
    }

    /// Returns the stated shape of argument `at` of the function that is read.
    pub fn input_shape(&self, at: usize) -> Option<Dims> {
        let function = self.functions.get(self.frames.first()?.function)?;
        let attributes = &function.def.arg_attr.get(&u32::try_from(at).ok()?)?.attr;
        match attributes.get("_output_shapes")?.value.as_ref()? {
            Value::List(list) => dims(list.shape.first()?),
            Value::Shape(shape) => dims(shape),
            _ => None,
        }
    }

    /// Returns the source of input `at` of an operation.
    pub fn operand(&mut self, op: OpRef<'a>, at: usize) -> Result<Source<'a>, NoChain> {
        let reference = op.node.input.get(at).filter(|input| !input.starts_with('^'));
        let reference =
            reference.ok_or_else(|| NoChain::unsupported(format!("{} lacks an input", describe(op.node))))?;
        self.resolve(op.frame, reference, Some(op.node))
    }

    /// Follows a reference, which is an input of `user` or the function's result.
    fn resolve(
        &mut self,
        mut frame: usize,
        reference: &'a str,
        user: Option<&NodeDef>,
    ) -> Result<Source<'a>, NoChain> {
        let mut reference = reference;
        loop {
            let endless =
                || NoChain::unsupported("the operations or functions refer to each other in a circle");
            self.budget = self.budget.checked_sub(1).ok_or_else(endless)?;
            let broken = || NoChain::unsupported(format!("'{reference}' is referred to, but does not exist"));
            let (name, result, output) = split(reference);
            let here = self.frames.get(frame).ok_or_else(broken)?;
            let function = self.functions.get(here.function).ok_or_else(broken)?;
            if let Some(at) = function.arguments.get(name).copied() {
                match here.caller {
                    Some((caller, node)) => {
                        (frame, reference) = (caller, node.input.get(at).ok_or_else(broken)?)
                    }
                    None => return self.argument(function.arguments.len(), at, (name, user)),
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
                    if callee == next && next >= MAX_CALLS {
                        return Err(NoChain::unsupported(format!(
                            "the functions make more than {MAX_CALLS} calls"
                        )));
                    }
                    if callee == next {
                        self.frames.push(Frame { function: called, caller: Some((frame, node)) });
                    }
                    frame = callee;
                }
                // The other results are statistics.
                "FusedBatchNormV3" if result != "y" => return Err(unsupported_result(node, result)),
                _ if output > 0 => return Err(unsupported(node)),
                _ => return Ok(Source::Node(OpRef { frame, node })),
            }
        }
    }

    /// Returns the source of an argument of the function that is read: its own arguments come first, then bound
    /// variables.
    fn argument(
        &self,
        arguments: usize,
        at: usize,
        (name, user): (&str, Option<&NodeDef>),
    ) -> Result<Source<'a>, NoChain> {
        let own = arguments.saturating_sub(self.bound.len());
        match at.checked_sub(own) {
            None => Ok(Source::Input(at)),
            Some(bound) => match self.bound.get(bound) {
                Some(Some(key)) => Ok(Source::Variable(key.clone())),
                _ => Err(NoChain::unsupported(format!(
                    "{} uses the constant or table '{name}', which is not in the checkpoint",
                    user.map_or("the result".to_owned(), describe)
                ))),
            },
        }
    }
}

fn unsupported_result(node: &NodeDef, result: &str) -> NoChain {
    NoChain::unsupported(format!("the use of '{result}' of {} is not supported", describe(node)))
}

/// The error for an operation that no chain can have.
pub(super) fn unsupported(node: &NodeDef) -> NoChain {
    NoChain::unsupported(format!("{} is not supported", describe(node)))
}

/// Returns an operation's kind and name, for messages.
pub(super) fn describe(node: &NodeDef) -> String {
    format!("the operation {} ('{}')", node.op, node.name)
}

/// Splits a reference: `node:result:2` is item 2 of a node's result, `argument` an argument.
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

/// Returns the value of a node's attribute.
pub(super) fn attribute<'a>(node: &'a NodeDef, name: &str) -> Option<&'a Value> {
    node.attr.get(name).and_then(|AttrValue { value }| value.as_ref())
}

/// Returns whether a boolean attribute is set.
pub(super) fn flag(node: &NodeDef, name: &str) -> bool {
    matches!(attribute(node, name), Some(Value::B(true)))
}

/// Returns an attribute that is a string.
pub(super) fn text<'a>(node: &'a NodeDef, name: &str) -> Option<&'a str> {
    match attribute(node, name)? {
        Value::S(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Returns an attribute that is a list of lengths.
pub(super) fn lengths(node: &NodeDef, name: &str) -> Option<Vec<u64>> {
    match attribute(node, name)? {
        Value::List(list) => list.i.iter().map(|value| u64::try_from(*value).ok()).collect(),
        _ => None,
    }
}

/// Returns the shortest decimal number that is the same float32: 0.001 for 0.0010000000475.
pub(super) fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Returns the values of a numeric `Const` with at most eight elements.
pub(super) fn constant(node: &NodeDef) -> Option<Vec<f64>> {
    const MAX_ELEMENTS: usize = 8;
    let (Some(Value::Tensor(tensor)), "Const") = (attribute(node, "value"), node.op.as_str()) else {
        return None;
    };
    let shape = tensor.tensor_shape.as_ref();
    let elements = shape.map_or(Some(1u64), |shape| {
        shape.dim.iter().try_fold(1u64, |product, dim| product.checked_mul(u64::try_from(dim.size).ok()?))
    });
    let elements = usize::try_from(elements?).ok().filter(|elements| *elements <= MAX_ELEMENTS)?;
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
    // If there are fewer values than elements, the last one is repeated.
    let last = *values.last()?;
    values.resize(elements, last);
    Some(values)
}
