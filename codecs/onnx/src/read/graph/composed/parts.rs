//! The nodes of an operator that is several.

use super::super::values::{Attributes, Read, Reader};
use crate::format::message::Node;
use ckpt_api::{Attribute, DType, Node as Layer, Op};
use ckpt_graph::{Dims, Length, infer};

/// The most numbers of a value that is noted in the graph.
const MOST: i64 = 1 << 20;
/// The longest axis with whose length nodes are made.
const LONGEST: i64 = 1 << 30;
/// What a node takes in memory beside names, about, and how often it and its neighbors have the layer's name.
const NODE_BYTES: usize = 64;
const NAMES: usize = 4;

/// An operator that becomes several nodes. Its methods add a node each, and return the name of its value, whose shape is
/// noted.
pub(super) struct Parts<'r, 'a> {
    pub(super) reader: &'r mut Reader<'a>,
    pub(super) node: &'a Node,
}

impl<'a> Parts<'_, 'a> {
    /// The name of an input in the model, if it is given.
    pub(super) fn given(&self, at: usize) -> Option<&'a str> {
        self.node.input(at)
    }

    /// The value of an input that must be given.
    pub(super) fn input(&mut self, at: usize) -> Read<String> {
        let name = self.node.input(at).ok_or_else(|| format!("lacks its input {at}"))?;
        self.reader.operand(name)
    }

    /// The value of an input, if it is given.
    pub(super) fn optional(&mut self, at: usize) -> Read<Option<String>> {
        self.node.input(at).map(|name| self.reader.operand(name)).transpose()
    }

    /// The type that the model states of an input.
    pub(super) fn dtype(&self, at: usize) -> Option<DType> {
        self.node.input(at).and_then(|name| self.reader.dtype(name))
    }

    /// The lengths of a value.
    pub(super) fn dims(&self, value: &str) -> Read<Dims> {
        self.reader.shape(value).ok_or_else(|| "takes a value of a rank that is not known".to_owned())
    }

    pub(super) fn rank(&self, value: &str) -> Read<usize> {
        self.dims(value).map(|dims| dims.len())
    }

    /// The length of an axis that must be known, of at most [`LONGEST`]: sums and products of two do not overflow.
    pub(super) fn len(&self, value: &str, axis: usize) -> Read<i64> {
        let len = self.dims(value)?.get(axis).and_then(|len| len.known());
        let len = len.ok_or_else(|| format!("needs the length of axis {axis}, which is not known"))?;
        match (0..=LONGEST).contains(&len) {
            true => Ok(len),
            false => Err(format!("has an axis of {len} places; at most {LONGEST} are supported")),
        }
    }

    /// The lengths of all axes, which must be known.
    pub(super) fn lens(&self, value: &str) -> Read<Vec<i64>> {
        (0..self.rank(value)?).map(|axis| self.len(value, axis)).collect()
    }

    /// Refuses outputs that are not made and that the model takes.
    pub(super) fn makes_no(&self, outputs: &[usize]) -> Read<()> {
        let taken = |at: &&usize| {
            self.node.outputs.get(**at).is_some_and(|name| !name.is_empty() && self.reader.uses(name) > 0)
        };
        match outputs.iter().find(taken) {
            Some(at) => Err(format!("has its output {at} taken, which is not supported")),
            None => Ok(()),
        }
    }

    /// Whether the model takes an output.
    pub(super) fn has_output(&self, at: usize) -> bool {
        self.node.outputs.get(at).is_some_and(|name| !name.is_empty())
    }

    /// Adds a node, and returns the name of its value. The name is empty if there is no room for the node: [`Reader::all_nodes`]
    /// refuses the operator then.
    pub(super) fn with(&mut self, op: Op, inputs: &[&str], attributes: Attributes) -> String {
        let names = self.node.layer().len().saturating_add(NODE_BYTES).saturating_mul(NAMES);
        if !self.reader.spend(names.saturating_add(attributes.bytes())) {
            return String::new();
        }
        let wanted = format!("{}/{}", self.node.layer(), op.name().to_lowercase());
        let value = self.reader.fresh_value(&wanted);
        let mut layer = Layer::new(String::new(), op);
        layer.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        (layer.outputs, layer.attributes) = (vec![value.clone()], attributes.0);
        let shape = infer::infer(&layer, &*self.reader).into_iter().next().flatten();
        self.reader.push(self.node.layer(), layer);
        self.reader.set_shape(&value, shape);
        value
    }

    pub(super) fn apply(&mut self, op: Op, inputs: &[&str]) -> String {
        self.with(op, inputs, Attributes::new())
    }

    pub(super) fn add(&mut self, a: &str, b: &str) -> String {
        self.apply(Op::Add, &[a, b])
    }

    pub(super) fn sub(&mut self, a: &str, b: &str) -> String {
        self.apply(Op::Sub, &[a, b])
    }

    pub(super) fn mul(&mut self, a: &str, b: &str) -> String {
        self.apply(Op::Mul, &[a, b])
    }

    pub(super) fn div(&mut self, a: &str, b: &str) -> String {
        self.apply(Op::Div, &[a, b])
    }

    /// A real number.
    pub(super) fn number(&mut self, value: f64) -> String {
        self.with(Op::Constant, &[], Attributes::new().with("value_float", Attribute::Float(value)))
    }

    /// An integer.
    pub(super) fn integer(&mut self, value: i64) -> String {
        self.with(Op::Constant, &[], Attributes::new().int("value_int", value))
    }

    /// Real numbers of this shape.
    pub(super) fn numbers(&mut self, values: Vec<f64>, shape: &[i64]) -> String {
        let attributes = Attributes::new().with("value_floats", Attribute::Floats(values));
        self.with(Op::Constant, &[], attributes.ints("shape", shape.to_vec()))
    }

    /// Integers of this shape.
    pub(super) fn integers(&mut self, values: Vec<i64>, shape: &[i64]) -> String {
        let attributes = Attributes::new().ints("value_ints", values).ints("shape", shape.to_vec());
        self.with(Op::Constant, &[], attributes)
    }

    /// A value as `float`, `int` or another kind of numbers that a cast makes.
    pub(super) fn cast(&mut self, x: &str, kind: &str) -> String {
        self.with(Op::Cast, &[x], Attributes::new().with("to", Attribute::Text(kind.to_owned())))
    }

    pub(super) fn reshape(&mut self, x: &str, shape: &[i64]) -> String {
        self.with(Op::Reshape, &[x], Attributes::new().ints("shape", shape.to_vec()))
    }

    pub(super) fn transpose(&mut self, x: &str, perm: &[usize]) -> String {
        let perm = perm.iter().map(|axis| i64::try_from(*axis).unwrap_or(i64::MAX)).collect();
        self.with(Op::Transpose, &[x], Attributes::new().ints("perm", perm))
    }

    pub(super) fn unsqueeze(&mut self, x: &str, axes: &[i64]) -> String {
        self.with(Op::Unsqueeze, &[x], Attributes::new().ints("axes", axes.to_vec()))
    }

    pub(super) fn expand(&mut self, x: &str, shape: &[i64]) -> String {
        self.with(Op::Expand, &[x], Attributes::new().ints("shape", shape.to_vec()))
    }

    /// The places of one axis from `start` to before `end`.
    pub(super) fn slice(&mut self, x: &str, axis: i64, start: i64, end: i64) -> String {
        let attributes = Attributes::new().ints("starts", vec![start]).ints("ends", vec![end]);
        self.with(Op::Slice, &[x], attributes.ints("axes", vec![axis]))
    }

    pub(super) fn concat(&mut self, values: &[&str], axis: i64) -> String {
        self.with(Op::Concat, values, Attributes::new().int("axis", axis))
    }

    pub(super) fn gather(&mut self, x: &str, indices: &str, axis: i64) -> String {
        self.with(Op::Gather, &[x, indices], Attributes::new().int("axis", axis))
    }

    pub(super) fn clip(&mut self, x: &str, min: f64, max: f64) -> String {
        let bounds = Attributes::new().with("min", Attribute::Float(min)).with("max", Attribute::Float(max));
        self.with(Op::Clip, &[x], bounds)
    }

    pub(super) fn softmax(&mut self, x: &str, axis: i64) -> String {
        self.with(Op::Softmax, &[x], Attributes::new().int("axis", axis))
    }

    /// A reduction over axes; over all of them if there are none.
    pub(super) fn reduce(&mut self, op: Op, x: &str, axes: &[i64], keeps: bool) -> String {
        let attributes = Attributes::new().int("keepdims", keeps.into());
        let attributes = if axes.is_empty() { attributes } else { attributes.ints("axes", axes.to_vec()) };
        self.with(op, &[x], attributes)
    }

    /// A choice by truth values.
    pub(super) fn choose(&mut self, condition: &str, yes: &str, no: &str) -> String {
        self.apply(Op::Where, &[condition, yes, no])
    }

    /// The integers from 0 to before `len`, along one axis of `rank` axes.
    pub(super) fn count(&mut self, len: i64, axis: usize, rank: usize) -> Read<String> {
        let mut shape = vec![1; rank];
        if let Some(own) = shape.get_mut(axis) {
            *own = len;
        }
        let numbers = range(0, len)?.collect();
        Ok(self.integers(numbers, &shape))
    }

    /// Makes a value the node's output at this place, if the model takes it.
    pub(super) fn finish(&mut self, at: usize, value: &str) {
        let Some(output) = self.node.outputs.get(at).filter(|name| !name.is_empty()).cloned() else { return };
        let shape = self.reader.shape(value);
        // A value of the model's, which other nodes may take, keeps its name.
        match self.reader.uses(value) {
            0 => self.reader.rename(value, &output, self.node.layer()),
            _ => self.reader.passed_on(value, &output, self.node.layer()),
        }
        self.reader.set_shape(&output, shape);
    }
}

/// So many integers from `first` on, if there are not too many to be noted in the graph.
pub(super) fn range(first: i64, len: i64) -> Read<std::ops::Range<i64>> {
    let end = first.checked_add(len).filter(|_| (0..=MOST).contains(&len));
    end.map(|end| first..end).ok_or_else(|| format!("needs {len} numbers; at most {MOST} are supported"))
}

/// The product of lengths, which is at most as many numbers as are noted in the graph.
pub(super) fn product(lens: &[i64]) -> Read<i64> {
    let product = lens.iter().try_fold(1i64, |product, len| product.checked_mul(*len));
    let few = product.filter(|product| (0..=MOST).contains(product));
    few.ok_or_else(|| format!("has lengths of too many places: {lens:?}"))
}

/// The lengths of a shape, which must be known and few.
pub(super) fn known(dims: &[Length]) -> Option<Vec<u64>> {
    dims.iter().map(|len| len.size()).collect()
}

impl Reader<'_> {
    /// Gives what the last node made for the output of a node another name, and returns it: more nodes follow.
    pub(super) fn detached(&mut self, node: &Node) -> Read<String> {
        let output = node.outputs.first().ok_or("lacks its output")?;
        let value = self.fresh_value(&format!("{output}/linear"));
        let shape = self.shape(output);
        self.rename(output, &value, node.layer());
        self.set_shape(&value, shape);
        Ok(value)
    }

    /// Gives the value of the last node another name, or adds a node that passes it on.
    fn rename(&mut self, value: &str, output: &str, layer: &str) {
        let is_last = self.makers.get(value).is_some_and(|at| at + 1 == self.nodes.len());
        let last = self
            .nodes
            .last_mut()
            .filter(|node| is_last && node.outputs.len() == 1 && node.op != Op::Constant);
        match last {
            Some(node) => {
                node.outputs = vec![output.to_owned()];
                if let Some(at) = self.makers.remove(value) {
                    self.makers.insert(output.to_owned(), at);
                }
            }
            None => self.passed_on(value, output, layer),
        }
    }

    /// Adds a node that passes a value on under another name.
    fn passed_on(&mut self, value: &str, output: &str, layer: &str) {
        let (value, output) = (vec![value.to_owned()], vec![output.to_owned()]);
        self.emit_as(layer, Op::Identity, value, output, Attributes::new());
    }
}
