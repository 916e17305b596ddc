//! The values of the graph that is made, in their layouts.
//!
//! Keras's images have their channels last, and ONNX's operators take them first. A value stays in the order in which it
//! was made: a convolution's result has its channels first, and so have sums, products and activations of it. What needs
//! the other order takes a `Transpose`, which is made once for each value.

use crate::config::layer::Reason;
use ckpt_api::{Attribute, Node, Op};
use std::collections::HashMap;

/// Most nodes of a graph.
pub(super) const MAX_NODES: usize = 1 << 17;

/// Most bytes of all names in it.
const MAX_NAMES: usize = 32 << 20;

/// Most axes of a value.
const MAX_RANK: usize = 32;

/// Lengths of axes; `None` for a free one.
pub(super) type Dims = Vec<Option<u64>>;

/// The order in which the graph has a value's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// Keras's.
    Last,
    /// The last axis is the second.
    First,
}

/// A value of the graph.
#[derive(Clone, Debug)]
pub(super) struct Val {
    /// Its name in the graph.
    pub name: String,
    pub layout: Layout,
    /// Lengths of its axes in Keras's order.
    pub dims: Dims,
    /// Whether its elements are integers.
    pub is_integer: bool,
    /// Whether they have fewer bits than those that graphs compute with, and wrap around where Keras computes with them.
    pub is_narrow: bool,
    /// Whether Keras passes a mask with it, which states the steps of a sequence that count.
    pub has_mask: bool,
}

impl Val {
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns the position of Keras's axis in the graph's value.
    pub fn axis(&self, axis: usize) -> usize {
        match self.layout {
            Layout::Last => axis,
            Layout::First => position(axis, self.rank()),
        }
    }

    /// Returns the length of an axis in Keras's order.
    pub fn len(&self, axis: usize) -> Option<u64> {
        self.dims.get(axis).copied().flatten()
    }

    /// Returns the length of the last axis.
    pub fn features(&self) -> Option<u64> {
        self.dims.last().copied().flatten()
    }

    /// Returns the length of the last axis, which must be known.
    pub fn known_features(&self) -> Result<u64, Reason> {
        self.features().ok_or_else(|| "the number of its input's features is not stated".to_owned())
    }

    /// Returns the lengths of the graph's axes.
    fn physical(&self) -> Dims {
        match self.layout {
            Layout::Last => self.dims.clone(),
            Layout::First => first_order(self.rank()).iter().map(|axis| self.len(*axis)).collect(),
        }
    }

    /// Returns the axis that a signed number states, which counts from the end if it is negative.
    pub fn resolve(&self, axis: i64) -> Result<usize, Reason> {
        resolve(axis, self.rank())
    }
}

/// Returns the axis of `rank` that a signed number states.
pub(super) fn resolve(axis: i64, rank: usize) -> Result<usize, Reason> {
    let missing = || format!("axis {axis} does not exist");
    let signed = i64::try_from(rank).map_err(|_| missing())?;
    let axis_from_start = if axis < 0 { axis.checked_add(signed).ok_or_else(missing)? } else { axis };
    usize::try_from(axis_from_start).ok().filter(|axis| *axis < rank).ok_or_else(missing)
}

/// Returns the position of an axis once the last is the second.
fn position(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        axis if axis + 1 == rank => 1,
        axis => axis + 1,
    }
}

/// Returns the axes in the order in which the last is the second.
fn first_order(rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    order.sort_by_key(|axis| position(*axis, rank));
    order
}

/// Returns the lengths of images with the channels last, of those with the channels second; or the other way around.
fn rotated(dims: &[Option<u64>], to_last: bool) -> Dims {
    let mut dims = dims.to_vec();
    if let Some(range) = dims.get_mut(1..).filter(|range| !range.is_empty()) {
        if to_last { range.rotate_left(1) } else { range.rotate_right(1) }
    }
    dims
}

/// Shows lengths, with `?` for free ones.
pub(super) fn show(dims: &[Option<u64>]) -> String {
    let shown: Vec<String> =
        dims.iter().map(|len| len.map_or("?".to_owned(), |len| len.to_string())).collect();
    format!("[{}]", shown.join(", "))
}

/// Nodes of the graph that is made.
#[derive(Default)]
pub(super) struct Values {
    pub nodes: Vec<Node>,
    /// How often each name was wanted.
    taken: HashMap<String, u64>,
    /// Names of values in another layout, by their own and that layout: a value may be taken in either of them.
    turned: HashMap<(String, Layout), String>,
    /// Bytes of all names.
    names: usize,
    /// The name of the nodes that are made now.
    pub place: String,
}

impl Values {
    /// Returns a name that no value has yet.
    pub fn unique(&mut self, wanted: &str) -> String {
        // A value without a name would be one that is left out.
        let wanted = if wanted.is_empty() { "layer" } else { wanted };
        let mut name = wanted.to_owned();
        loop {
            if !self.taken.contains_key(&name) {
                self.taken.insert(name.clone(), 1);
                return name;
            }
            let uses = self.taken.entry(wanted.to_owned()).or_insert(1);
            *uses += 1;
            name = format!("{wanted}#{uses}");
        }
    }

    /// Adds a node and returns the name of its only result.
    pub fn push(&mut self, mut node: Node, inputs: Vec<String>) -> Result<String, Reason> {
        node.name = self.unique(&node.name);
        node.outputs = vec![node.name.clone()];
        let name = node.name.clone();
        self.add(node, inputs)?;
        Ok(name)
    }

    /// Adds a node whose name and results are unique.
    pub fn add(&mut self, mut node: Node, inputs: Vec<String>) -> Result<(), Reason> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("the graph has more than {MAX_NODES} operations"));
        }
        node.inputs = inputs;
        let names =
            node.inputs.iter().chain(&node.outputs).chain(node.parameters.values()).chain([&node.name]);
        let bytes: usize = names.map(String::len).sum();
        self.names = self.names.saturating_add(bytes);
        if self.names > MAX_NAMES {
            return Err(format!("the names in the graph have more than {MAX_NAMES} bytes"));
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node at the current place, whose result has these lengths and Keras's order.
    pub fn plain(&mut self, node: Node, inputs: &[&Val], dims: Dims) -> Result<Val, Reason> {
        if dims.len() > MAX_RANK {
            return Err(format!("a value has more than {MAX_RANK} axes"));
        }
        let name = self.push(node, inputs.iter().map(|val| val.name.clone()).collect())?;
        let first = inputs.first();
        let is_integer = first.is_some_and(|val| val.is_integer);
        let is_narrow = first.is_some_and(|val| val.is_narrow);
        let has_mask = first.is_some_and(|val| val.has_mask);
        Ok(Val { name, layout: Layout::Last, dims, is_integer, is_narrow, has_mask })
    }

    /// Adds a node that takes one value in its own layout, and makes one of these lengths, in Keras's order.
    pub fn same(&mut self, node: Node, x: &Val, dims: Dims) -> Result<Val, Reason> {
        let name = self.push(node, vec![x.name.clone()])?;
        Ok(Val { name, dims, ..x.clone() })
    }

    /// Returns a node at the current place.
    pub fn node(&self, op: Op) -> Node {
        Node::new(self.place.clone(), op)
    }

    /// Returns the value with its channels first.
    pub fn first(&mut self, val: &Val) -> Result<Val, Reason> {
        if val.layout == Layout::First {
            return Ok(val.clone());
        }
        self.turn(val, "to_channels_first", &first_order(val.rank()), Layout::First)
    }

    /// Returns the value in Keras's order.
    pub fn last(&mut self, val: &Val) -> Result<Val, Reason> {
        if val.layout == Layout::Last {
            return Ok(val.clone());
        }
        let perm: Vec<usize> = (0..val.rank()).map(|axis| position(axis, val.rank())).collect();
        self.turn(val, "to_channels_last", &perm, Layout::Last)
    }

    fn turn(&mut self, val: &Val, name: &str, perm: &[usize], layout: Layout) -> Result<Val, Reason> {
        if perm.is_sorted() {
            return Ok(Val { layout, ..val.clone() });
        }
        let key = (val.name.clone(), layout);
        let turned = match self.turned.get(&key).cloned() {
            Some(known) => known,
            None => {
                let node = Node::new(name, Op::Transpose).attribute("perm", ints(perm)?);
                let made = self.push(node, vec![val.name.clone()])?;
                self.turned.insert(key, made.clone());
                self.turned.insert((made.clone(), val.layout), val.name.clone());
                made
            }
        };
        Ok(Val { name: turned, layout, ..val.clone() })
    }

    /// Reorders all axes. Between the two orders of images, the elements stay where they are.
    pub fn reordered(&mut self, x: &Val, order: &[usize]) -> Result<Val, Reason> {
        let rank = order.len();
        if rank > 2 && order.iter().copied().eq((0..rank).map(|axis| position(axis, rank))) {
            return self.as_channels_last(x);
        }
        match rank > 2 && order == first_order(rank) {
            true => self.restored_first(x),
            false => self.transpose(x, order),
        }
    }

    /// Takes images whose channels come first in Keras, too, as images whose channels come last.
    pub fn as_channels_last(&mut self, x: &Val) -> Result<Val, Reason> {
        let x = self.last(x)?;
        let dims = rotated(&x.dims, true);
        Ok(Val { layout: Layout::First, dims, ..x })
    }

    /// Returns such images in Keras's order.
    pub fn restored_first(&mut self, x: &Val) -> Result<Val, Reason> {
        let x = self.first(x)?;
        let dims = rotated(&x.dims, false);
        Ok(Val { layout: Layout::Last, dims, ..x })
    }

    /// Brings values that are broadcast with each other into one layout, and returns it with the shape of the result.
    fn aligned(&mut self, inputs: &[&Val]) -> Result<(Vec<Val>, Layout, Dims), Reason> {
        let rank = inputs.iter().map(|val| val.rank()).max().unwrap_or(0);
        let layout = match inputs.iter().any(|val| val.layout == Layout::First && val.rank() == rank) {
            true => Layout::First,
            false => Layout::Last,
        };
        let mut dims = Dims::new();
        for val in inputs {
            dims = broadcast(&dims, &val.dims).ok_or_else(|| {
                let shown: Vec<String> = inputs.iter().map(|val| show(&val.dims)).collect();
                format!("it combines shapes that do not fit: {}", shown.join(", "))
            })?;
        }
        let mut aligned = Vec::with_capacity(inputs.len());
        for val in inputs {
            let is_one = val.dims.iter().all(|len| *len == Some(1));
            aligned.push(match layout {
                Layout::Last => self.last(val)?,
                Layout::First if is_one => self.last(val)?,
                Layout::First if val.rank() == rank => self.first(val)?,
                Layout::First => {
                    let val = self.last(val)?;
                    self.raised(&val, rank)?
                }
            });
        }
        Ok((aligned, layout, dims))
    }

    /// Returns a value of fewer axes so that it is broadcast with one of `rank` axes whose channels are first.
    fn raised(&mut self, val: &Val, rank: usize) -> Result<Val, Reason> {
        let is_vector = val.rank() == 1;
        let axes: Vec<usize> =
            if is_vector { (1..rank - 1).collect() } else { (0..rank - val.rank()).collect() };
        let name = format!("{}/{}", val.name, if is_vector { "per_channel" } else { "raised" });
        let node = Node::new(name, Op::Unsqueeze).attribute("axes", ints(&axes)?);
        if is_vector {
            let name = self.push(node, vec![val.name.clone()])?;
            return Ok(Val { name, ..val.clone() });
        }
        let dims = [vec![Some(1); axes.len()], val.dims.clone()].concat();
        let raised = self.plain(node, &[val], dims)?;
        self.first(&raised)
    }

    /// Applies an elementwise operator, at the current place.
    pub fn elementwise(&mut self, node: Node, inputs: &[&Val]) -> Result<Val, Reason> {
        let (aligned, layout, dims) = self.aligned(inputs)?;
        let is_integer = aligned.iter().all(|val| val.is_integer);
        let is_narrow = is_integer && aligned.iter().any(|val| val.is_narrow);
        let has_mask = aligned.iter().any(|val| val.has_mask);
        let name = self.push(node, aligned.into_iter().map(|val| val.name).collect())?;
        Ok(Val { name, layout, dims, is_integer, is_narrow, has_mask })
    }

    /// Applies an elementwise operator without attributes.
    pub fn apply(&mut self, op: Op, inputs: &[&Val]) -> Result<Val, Reason> {
        self.elementwise(self.node(op), inputs)
    }

    /// Makes a scalar.
    pub fn scalar(&mut self, value: f64) -> Result<Val, Reason> {
        let node = Node::new(format!("{}/constant", self.place), Op::Constant);
        self.plain(node.attribute("value_float", Attribute::Float(value)), &[], Dims::new())
    }

    /// Makes a value of real numbers.
    pub fn floats(&mut self, shape: &[u64], values: Vec<f64>) -> Result<Val, Reason> {
        let node = Node::new(format!("{}/constant", self.place), Op::Constant)
            .attribute("value_floats", Attribute::Floats(values))
            .attribute("shape", ints(shape)?);
        self.plain(node, &[], shape.iter().map(|len| Some(*len)).collect())
    }

    /// Makes a value of integers.
    pub fn integers(&mut self, shape: &[u64], values: Vec<i64>) -> Result<Val, Reason> {
        let node = Node::new(format!("{}/constant", self.place), Op::Constant);
        let node = match (shape, &values[..]) {
            ([], [value]) => node.attribute("value_int", Attribute::Int(*value)),
            _ => node.attribute("value_ints", Attribute::Ints(values)).attribute("shape", ints(shape)?),
        };
        let made = self.plain(node, &[], shape.iter().map(|len| Some(*len)).collect())?;
        Ok(Val { is_integer: true, ..made })
    }

    /// Makes the value of a variable, in its stored order.
    pub fn stored(&mut self, variable: &str, dims: Dims) -> Result<Val, Reason> {
        self.plain(Node::new(variable, Op::Constant).parameter("value", variable), &[], dims)
    }

    /// Reshapes a value; a free length in `dims` is that of the value's axis there, or else what remains.
    pub fn reshape(&mut self, val: &Val, dims: Dims) -> Result<Val, Reason> {
        let is_known = dims.iter().skip(1).all(Option::is_some);
        if dims == val.dims && is_known {
            return Ok(val.clone());
        }
        // An image of one pixel has its numbers in the same order either way.
        let is_pixel = val.rank() > 2 && (1..val.rank() - 1).all(|axis| val.len(axis) == Some(1));
        let from = if is_pixel { val.clone() } else { self.last(val)? };
        let physical = from.physical();
        let node = match dims[..] {
            [None, features] if physical.len() > 2 && physical[0].is_none() && features != Some(0) => {
                self.node(Op::Flatten)
            }
            _ => self.node(Op::Reshape).attribute("shape", Attribute::Ints(reshaping(&physical, &dims)?)),
        };
        self.plain(node, &[&from], dims)
    }

    /// Adds axes of length 1, whose positions are those in the result.
    pub fn unsqueeze(&mut self, x: &Val, axes: &[usize]) -> Result<Val, Reason> {
        let x = self.last(x)?;
        let mut dims = x.dims.clone();
        for axis in axes {
            dims.insert((*axis).min(dims.len()), Some(1));
        }
        let node = self.node(Op::Unsqueeze).attribute("axes", ints(axes)?);
        self.plain(node, &[&x], dims)
    }

    /// Removes axes of length 1.
    pub fn squeeze(&mut self, x: &Val, axes: &[usize]) -> Result<Val, Reason> {
        let x = self.last(x)?;
        let dims = (0..x.rank()).filter(|axis| !axes.contains(axis)).map(|axis| x.len(axis)).collect();
        let node = self.node(Op::Squeeze).attribute("axes", ints(axes)?);
        self.plain(node, &[&x], dims)
    }

    /// Reorders axes: axis `k` of the result is axis `order[k]`, in Keras's order.
    pub fn transpose(&mut self, x: &Val, order: &[usize]) -> Result<Val, Reason> {
        let dims: Dims = order.iter().map(|axis| x.len(*axis)).collect();
        let own: Vec<usize> = order.iter().map(|axis| x.axis(*axis)).collect();
        if own.is_sorted() {
            return Ok(Val { layout: Layout::Last, dims, ..x.clone() });
        }
        let node = self.node(Op::Transpose).attribute("perm", ints(&own)?);
        self.plain(node, &[x], dims)
    }

    /// Joins values along an axis in Keras's order.
    pub fn join(&mut self, axis: usize, all: &[Val]) -> Result<Val, Reason> {
        let is_first = all.iter().any(|val| val.layout == Layout::First);
        let turned = all.iter().map(|val| if is_first { self.first(val) } else { self.last(val) });
        let turned = turned.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = turned.first().cloned() else { return Err("it joins no values".to_owned()) };
        let mut dims = first.dims.clone();
        if axis >= dims.len() || turned.iter().any(|val| val.rank() != dims.len()) {
            return Err("it joins values of different numbers of axes".to_owned());
        }
        let sum = turned.iter().map(|val| val.len(axis)).try_fold(0u64, |sum, len| sum.checked_add(len?));
        for (at, len) in dims.iter_mut().enumerate() {
            *len = if at == axis { sum } else { turned.iter().find_map(|val| val.len(at)) };
        }
        let node = self.node(Op::Concat).attribute("axis", Attribute::Int(int(first.axis(axis))?));
        let name = self.push(node, turned.iter().map(|val| val.name.clone()).collect())?;
        Ok(Val { name, dims, has_mask: turned.iter().any(|val| val.has_mask), ..first })
    }

    /// Takes ranges of axes in Keras's order.
    pub fn slice(&mut self, x: &Val, ranges: &[Range]) -> Result<Val, Reason> {
        if ranges.is_empty() {
            return Ok(x.clone());
        }
        let mut dims = x.dims.clone();
        for range in ranges {
            if let Some(len) = dims.get_mut(range.axis) {
                *len = len.and_then(|len| range.count(len));
            }
        }
        let list = |of: fn(&Range) -> i64| Attribute::Ints(ranges.iter().map(of).collect());
        let axes: Vec<usize> = ranges.iter().map(|range| x.axis(range.axis)).collect();
        let mut node = self
            .node(Op::Slice)
            .attribute("starts", list(|range| range.begin))
            .attribute("ends", list(|range| range.end))
            .attribute("axes", ints(&axes)?);
        if ranges.iter().any(|range| range.step != 1) {
            node = node.attribute("steps", list(|range| range.step));
        }
        self.same(node, x, dims)
    }
}

/// A range of an axis in Keras's order. Negative ends count from the end of the axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub axis: usize,
    pub begin: i64,
    pub end: i64,
    pub step: i64,
}

impl Range {
    /// The whole axis, backwards.
    pub fn backwards(axis: usize) -> Range {
        Range { axis, begin: -1, end: i64::MIN, step: -1 }
    }

    /// Returns the number of elements of an axis of this length.
    fn count(&self, len: u64) -> Option<u64> {
        let len = i64::try_from(len).ok()?;
        let (low, high) = if self.step > 0 { (0, len) } else { (-1, len - 1) };
        let place = |end: i64| if end < 0 { end.saturating_add(len) } else { end }.clamp(low, high);
        let (begin, end) = (place(self.begin), place(self.end));
        let span = if self.step > 0 { end - begin } else { begin - end };
        u64::try_from(span.max(0))
            .ok()?
            .checked_add(self.step.unsigned_abs() - 1)?
            .checked_div(self.step.unsigned_abs())
    }
}

/// Returns the lengths of values that are broadcast with each other.
fn broadcast(a: &[Option<u64>], b: &[Option<u64>]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let at = |dims: &[Option<u64>], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(own) => dims.get(own).copied().unwrap_or(Some(1)),
        None => Some(1),
    };
    let joined = (0..rank).map(|axis| match (at(a, axis), at(b, axis)) {
        (Some(1), other) | (other, Some(1)) => Some(other),
        (Some(a), Some(b)) => (a == b).then_some(Some(a)),
        (known @ Some(_), None) | (None, known) => Some(known),
    });
    joined.collect()
}

/// Returns ONNX's specification of a reshaping: 0 copies a length, and -1 is inferred.
fn reshaping(from: &[Option<u64>], to: &[Option<u64>]) -> Result<Vec<i64>, Reason> {
    let mut is_open = false;
    let mut entry = |(at, len): (usize, &Option<u64>)| match len {
        Some(0) => None,
        Some(len) => i64::try_from(*len).ok(),
        None if from.get(at) == Some(&None) => Some(0),
        None => (!std::mem::replace(&mut is_open, true)).then_some(-1),
    };
    let entries = to.iter().enumerate().map(&mut entry).collect::<Option<Vec<i64>>>();
    entries.ok_or_else(|| {
        format!(
            "it reshapes {} to {}, of which more than one length depends on the input",
            show(from),
            show(to)
        )
    })
}

/// Returns sizes as an attribute.
pub(super) fn ints<T: Copy + TryInto<i64>>(values: &[T]) -> Result<Attribute, Reason> {
    values.iter().map(|value| int(*value)).collect::<Result<_, _>>().map(Attribute::Ints)
}

/// Returns a size as an integer of an attribute.
pub(super) fn int<T: TryInto<i64>>(value: T) -> Result<i64, Reason> {
    value.try_into().map_err(|_| "a size is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_taken_in_another_order_is_turned_from_that() {
        let mut values = Values::default();
        let dims = vec![None, Some(2), Some(3), Some(4)];
        let name = values.unique("x");
        let x =
            Val { name, layout: Layout::Last, dims, is_integer: false, is_narrow: false, has_mask: false };
        let first = values.first(&x).unwrap();
        assert_eq!(values.last(&first).unwrap().name, x.name, "turning it back takes no node");
        // As Keras has it, the same elements: their last axis is the second again.
        let permuted = values.restored_first(&x).unwrap();
        assert_eq!((&permuted.name, permuted.layout), (&first.name, Layout::Last));
        let again = values.first(&permuted).unwrap();
        assert!(again.name != x.name && again.name != first.name);
        let perms = values.nodes.iter().map(|node| (&node.inputs[0], node.attributes.get("perm")));
        let order = ints(&[0, 3, 1, 2]).unwrap();
        assert!(perms.eq([(&x.name, Some(&order)), (&first.name, Some(&order))]));
    }
}
