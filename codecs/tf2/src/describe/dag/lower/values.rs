//! The values of the graph that is made, in their layouts.
//!
//! TensorFlow's images have their channels last, and ONNX's operators take them first. A value stays in the order in
//! which it was made: a convolution's result has its channels first, and so have sums, products and activations of it.
//! What needs the other order takes a `Transpose`, which is made once for each value.

use super::super::super::chain::{Context, layer_name};
use super::super::super::no_chain::NoChain;
use super::super::value::{Dims, Int, broadcast};
use super::super::weights::Constants;
use crate::describe::catalog::path;
use ckpt_api::{Attribute, Axis, DType, Node, Op, Shape};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Limit on the nodes of the graph that is made.
const MAX_NODES: usize = 1 << 17;

/// Limit on the bytes of all names in it.
const MAX_NAMES: usize = 32 << 20;

/// Limit on the axes of a value.
const MAX_RANK: usize = 32;

/// The order in which the graph has a value's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// TensorFlow's.
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
    /// Lengths of its axes in TensorFlow's order.
    pub dims: Dims,
    /// The layer with weights that made it, and the scope of the operation.
    pub layer: Option<Rc<(String, String)>>,
}

impl Val {
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns the position of TensorFlow's axis in the graph's value.
    pub fn axis(&self, axis: usize) -> usize {
        match self.layout {
            Layout::Last => axis,
            Layout::First => position(axis, self.rank()),
        }
    }

    /// Returns the lengths of the graph's axes.
    pub fn physical(&self) -> Dims {
        match self.layout {
            Layout::Last => self.dims.clone(),
            Layout::First => first_order(self.rank())
                .iter()
                .map(|axis| self.dims.get(*axis).copied().unwrap_or(Int::Unknown))
                .collect(),
        }
    }
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

/// Tensors and nodes of the graph that is made.
pub(super) struct Values<'a> {
    pub context: &'a Context<'a>,
    constants: Option<&'a Constants>,
    pub nodes: Vec<Node>,
    /// Meanings of the parameters' axes, by key.
    pub axes: BTreeMap<String, Vec<Axis>>,
    /// The inputs, as values.
    pub inputs: Vec<Val>,
    /// How often each name was wanted.
    taken: HashMap<String, u64>,
    /// Names of values in another layout, by their own and that layout: a value may be taken in either of them.
    turned: HashMap<(String, Layout), String>,
    /// Names of vectors with more axes, by their own and the number of axes of what they are combined with.
    raised: HashMap<(String, usize), String>,
    unnamed: BTreeMap<&'static str, u64>,
    /// Bytes of all names.
    names: usize,
    /// The name of the nodes that are made now.
    pub place: String,
}

impl<'a> Values<'a> {
    pub fn new(context: &'a Context<'a>, constants: Option<&'a Constants>) -> Self {
        Values {
            context,
            constants,
            nodes: Vec::new(),
            axes: BTreeMap::new(),
            inputs: Vec::new(),
            taken: HashMap::new(),
            turned: HashMap::new(),
            raised: HashMap::new(),
            unnamed: BTreeMap::new(),
            names: 0,
            place: String::new(),
        }
    }

    /// Returns a name that no value has yet.
    pub fn unique(&mut self, wanted: &str) -> String {
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
    pub fn push(&mut self, mut node: Node, inputs: Vec<String>) -> Result<String, NoChain> {
        node.name = self.unique(&node.name);
        if node.outputs.is_empty() {
            node.outputs = vec![node.name.clone()];
        }
        let name = node.name.clone();
        self.add(node, inputs)?;
        Ok(name)
    }

    /// Adds a node whose name and results are unique.
    pub fn add(&mut self, mut node: Node, inputs: Vec<String>) -> Result<(), NoChain> {
        if self.nodes.len() >= MAX_NODES {
            return Err(NoChain::unsupported(format!("the graph has more than {MAX_NODES} operations")));
        }
        node.inputs = inputs;
        let names =
            node.inputs.iter().chain(&node.outputs).chain(node.parameters.values()).chain([&node.name]);
        let bytes: usize = names.map(String::len).sum();
        self.names = self.names.saturating_add(bytes);
        if self.names > MAX_NAMES {
            return Err(NoChain::unsupported(format!(
                "the names in the graph have more than {MAX_NAMES} bytes"
            )));
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node at the current place, whose result has these lengths and TensorFlow's order.
    pub fn plain(&mut self, node: Node, inputs: &[&Val], dims: Dims) -> Result<Val, NoChain> {
        if dims.len() > MAX_RANK {
            return Err(NoChain::unsupported(format!("a value has more than {MAX_RANK} axes")));
        }
        let names = inputs.iter().map(|val| val.name.clone()).collect();
        let name = self.push(node, names)?;
        Ok(Val { name, layout: Layout::Last, dims, layer: None })
    }

    /// Returns a node at the current place.
    pub fn node(&self, op: &str) -> Node {
        Node::new(self.place.clone(), Op::from(op.to_owned()))
    }

    /// Returns the value with its channels first.
    pub fn first(&mut self, val: &Val) -> Result<Val, NoChain> {
        if val.layout == Layout::First {
            return Ok(val.clone());
        }
        let perm = first_order(val.rank());
        self.turn(val, "to_channels_first", &perm, Layout::First)
    }

    /// Returns the value in TensorFlow's order.
    pub fn last(&mut self, val: &Val) -> Result<Val, NoChain> {
        if val.layout == Layout::Last {
            return Ok(val.clone());
        }
        let perm: Vec<usize> = (0..val.rank()).map(|axis| position(axis, val.rank())).collect();
        self.turn(val, "to_channels_last", &perm, Layout::Last)
    }

    fn turn(&mut self, val: &Val, name: &str, perm: &[usize], layout: Layout) -> Result<Val, NoChain> {
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

    /// Brings values that are broadcast with each other into one layout, and returns it with the shape of the result.
    pub fn aligned(&mut self, inputs: &[Val]) -> Result<(Vec<Val>, Layout, Dims), NoChain> {
        let rank = inputs.iter().map(Val::rank).max().unwrap_or(0);
        let is_first = |val: &Val| val.layout == Layout::First;
        let layout = match inputs.iter().any(|val| is_first(val) && val.rank() == rank) {
            true => Layout::First,
            false => Layout::Last,
        };
        let mut dims = Dims::new();
        for val in inputs {
            let misfit = || {
                let shown: Vec<String> =
                    inputs.iter().map(|val| super::super::value::show(&val.dims)).collect();
                NoChain::unsupported(format!("it combines shapes that do not fit: {}", shown.join(", ")))
            };
            dims = broadcast(&dims, &val.dims).ok_or_else(misfit)?;
        }
        let mut aligned = Vec::with_capacity(inputs.len());
        for val in inputs {
            aligned.push(match layout {
                Layout::Last => self.last(val)?,
                Layout::First if val.rank() == 0 || val.dims.iter().all(|len| len.known() == Some(1)) => {
                    self.last(val)?
                }
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
    fn raised(&mut self, val: &Val, rank: usize) -> Result<Val, NoChain> {
        if val.rank() == 1 {
            let axes: Vec<usize> = (1..rank - 1).collect();
            let node =
                Node::new(format!("{}/per_channel", val.name), Op::Unsqueeze).attribute("axes", ints(&axes)?);
            let key = (val.name.clone(), rank);
            let name = match self.raised.get(&key) {
                Some(known) => known.clone(),
                None => {
                    let made = self.push(node, vec![val.name.clone()])?;
                    self.raised.insert(key, made.clone());
                    made
                }
            };
            return Ok(Val { name, ..val.clone() });
        }
        let axes: Vec<usize> = (0..rank - val.rank()).collect();
        let node = Node::new(format!("{}/raised", val.name), Op::Unsqueeze).attribute("axes", ints(&axes)?);
        let dims = [vec![Int::Known(1); axes.len()], val.dims.clone()].concat();
        let raised = self.plain(node, &[val], dims)?;
        self.first(&raised)
    }

    /// Applies an elementwise operator, at the current place.
    pub fn elementwise(&mut self, node: Node, inputs: &[&Val]) -> Result<Val, NoChain> {
        let inputs: Vec<Val> = inputs.iter().map(|val| (*val).clone()).collect();
        let (aligned, layout, dims) = self.aligned(&inputs)?;
        let names = aligned.into_iter().map(|val| val.name).collect();
        let name = self.push(node, names)?;
        Ok(Val { name, layout, dims, layer: None })
    }

    /// Applies an elementwise operator without attributes.
    pub fn apply(&mut self, op: &str, inputs: &[&Val]) -> Result<Val, NoChain> {
        self.elementwise(self.node(op), inputs)
    }

    /// Makes a scalar.
    pub fn scalar(&mut self, value: f64) -> Result<Val, NoChain> {
        let node = Node::new(format!("{}/constant", self.place), Op::Constant);
        let node = node.attribute("value_float", Attribute::Float(value));
        self.plain(node, &[], Dims::new())
    }

    /// Makes a value of integers.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) -> Result<Val, NoChain> {
        let node = Node::new(name, Op::Constant);
        let node = match (shape, values) {
            ([], [value]) => node.attribute("value_int", Attribute::Int(*value)),
            _ => node
                .attribute("value_ints", Attribute::Ints(values.to_vec()))
                .attribute("shape", ints(shape)?),
        };
        self.plain(node, &[], known_dims(shape)?)
    }

    /// Makes the value of a stored tensor, in its stored order.
    pub fn stored(&mut self, key: &str) -> Result<Val, NoChain> {
        let Some(entry) = self.context.catalog.get(key) else {
            return Err(NoChain::unsupported(format!("the checkpoint has no tensor '{}'", path(key))));
        };
        let lens: Option<Vec<usize>> = entry.shape.iter().map(|len| usize::try_from(*len).ok()).collect();
        let lens = lens.ok_or_else(|| NoChain::unsupported(format!("'{}' is too large", path(key))))?;
        if !entry.dtype.is_float() && !matches!(entry.dtype, DType::I32 | DType::I64 | DType::Bool) {
            return Err(NoChain::unsupported(format!("'{}' is of type {}", path(key), entry.dtype.name())));
        }
        let name = self.constants.and_then(|constants| constants.name(key));
        let name = name.unwrap_or_else(|| self.context.shown(key));
        let node = Node::new(name, Op::Constant).parameter("value", key);
        self.plain(node, &[], known_dims(&lens)?)
    }

    /// Returns the shape of a tensor of floating-point numbers.
    pub fn shape(&self, key: &str) -> Result<&'a Shape, NoChain> {
        let entry = self.context.catalog.get(key).filter(|entry| entry.dtype.is_float());
        entry.map(|entry| entry.shape).ok_or_else(|| {
            NoChain::unsupported(format!("the checkpoint has no floating-point tensor '{}'", path(key)))
        })
    }

    /// Returns the name of the layer of a weight: the one in the weight's name, or one that is numbered as by Keras; of
    /// a constant without one, the operation's.
    pub fn layer(&mut self, key: &str, kind: &'static str) -> String {
        if let Some(constants) = self.constants.filter(|constants| constants.name(key).is_some()) {
            return constants.layer(key).unwrap_or(&self.place).to_owned();
        }
        layer_name(self.context, key).unwrap_or_else(|| {
            let number = self.unnamed.entry(kind).or_default();
            *number += 1;
            if *number == 1 { kind.to_owned() } else { format!("{kind}_{}", *number - 1) }
        })
    }

    /// Reshapes a value in TensorFlow's order.
    pub fn reshape(&mut self, val: &Val, dims: &[Int]) -> Result<Val, NoChain> {
        let is_same = dims.len() == val.rank() && dims.iter().zip(&val.dims).all(|(a, b)| a.is(*b));
        if is_same {
            return Ok(val.clone());
        }
        // An image of one pixel has its numbers in the same order either way.
        let is_pixel = val.rank() > 2 && val.dims[1..val.rank() - 1].iter().all(|len| len.known() == Some(1));
        let from = if is_pixel { val.clone() } else { self.last(val)? };
        let physical = from.physical();
        let node = match dims {
            [batch, features]
                if physical.len() > 2 && physical[0].is(*batch) && !features.is(Int::Known(0)) =>
            {
                self.node("Flatten")
            }
            _ => {
                let spec = reshaping(&physical, dims).ok_or_else(|| {
                    NoChain::unsupported(format!(
                        "it reshapes {} to {}, of which more than one length depends on the input",
                        super::super::value::show(&val.dims),
                        super::super::value::show(dims)
                    ))
                })?;
                self.node("Reshape").attribute("shape", Attribute::Ints(spec))
            }
        };
        self.plain(node, &[&from], dims.to_vec())
    }

    /// Broadcasts a value to lengths of which some may be free: zeros as long as an input are added then.
    pub fn expand(&mut self, val: &Val, dims: &[Int], is_real: bool) -> Result<Val, NoChain> {
        let known: Vec<i64> = dims.iter().map(|len| len.known().unwrap_or(1)).collect();
        let mut made = self.last(val)?;
        let is_same = |made: &Val| {
            made.rank() == known.len()
                && made.dims.iter().zip(&known).all(|(own, len)| own.known() == Some(*len))
        };
        if !is_same(&made) {
            let node = self.node("Expand").attribute("shape", Attribute::Ints(known.clone()));
            made = self.plain(node, &[&made], known.iter().map(|len| Int::Known(*len)).collect())?;
        }
        for (at, len) in dims.iter().enumerate() {
            let own = match val.rank().checked_add(at).and_then(|at| at.checked_sub(dims.len())) {
                Some(own) => val.dims.get(own).copied().unwrap_or(Int::Known(1)),
                None => Int::Known(1),
            };
            if len.known().is_some() || own.is(*len) {
                continue;
            }
            let zeros = self.zeros(*len, at, dims.len(), is_real)?;
            made = self.apply("Add", &[&zeros, &made])?;
        }
        Ok(Val { dims: dims.to_vec(), ..made })
    }

    /// Makes zeros whose axis `at` of `rank` axes is as long as a free axis of an input.
    fn zeros(&mut self, len: Int, at: usize, rank: usize, is_real: bool) -> Result<Val, NoChain> {
        let found = self.inputs.iter().find_map(|input| {
            let axis = input.dims.iter().position(|own| own.is(len))?;
            Some((input.clone(), axis))
        });
        let Some((input, axis)) = found else {
            return Err(NoChain::unsupported(
                "it makes a value whose length depends on the input in a way that is not supported",
            ));
        };
        let others: Vec<usize> = (0..input.rank()).filter(|other| *other != axis).collect();
        let node = self.node("Slice");
        let node = node
            .attribute("starts", Attribute::Ints(vec![0; others.len()]))
            .attribute("ends", Attribute::Ints(vec![1; others.len()]))
            .attribute("axes", ints(&others)?);
        let column = self.plain(node, &[&input], vec![Int::Known(1); input.rank()])?;
        // Nothing is less than itself, infinities and NaN included.
        let zeros = self.plain(self.node("Less"), &[&column, &column], column.dims.clone())?;
        let mut dims = vec![Int::Known(1); rank];
        dims[at] = len;
        let mut spec = vec![1; rank];
        spec[at] = -1;
        let node = self.node("Reshape").attribute("shape", Attribute::Ints(spec));
        let zeros = self.plain(node, &[&zeros], dims)?;
        if !is_real {
            return Ok(zeros);
        }
        self.elementwise(self.node("Cast").attribute("to", Attribute::Text("float".into())), &[&zeros])
    }
}

/// Returns ONNX's specification of a reshaping: 0 copies a length, and -1 is inferred.
fn reshaping(from: &[Int], to: &[Int]) -> Option<Vec<i64>> {
    let mut open = false;
    let mut entry = |(at, len): (usize, &Int)| match len.known() {
        Some(len) if len > 0 => Some(len),
        Some(_) => None,
        None if from.get(at).is_some_and(|own| own.is(*len)) => Some(0),
        None => (!std::mem::replace(&mut open, true)).then_some(-1),
    };
    to.iter().enumerate().map(&mut entry).collect()
}

/// Returns known lengths as dims.
pub(super) fn known_dims(shape: &[usize]) -> Result<Dims, NoChain> {
    let len = |len: &usize| i64::try_from(*len).map(Int::Known);
    shape.iter().map(len).collect::<Result<_, _>>().map_err(|_| NoChain::unsupported("a size is too large"))
}

/// Returns sizes as an attribute.
pub(super) fn ints<T: Copy + TryInto<i64>>(values: &[T]) -> Result<Attribute, NoChain> {
    let ints = values.iter().map(|value| (*value).try_into().ok()).collect::<Option<Vec<i64>>>();
    ints.map(Attribute::Ints).ok_or_else(|| NoChain::unsupported("a size is too large"))
}
