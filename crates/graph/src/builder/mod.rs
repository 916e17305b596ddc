//! Nodes of a graph that is built, and their values in either order of channels.
//!
//! Programs have the channels of images last, and ONNX's operators take them first. A value stays in the order in which
//! it was made: a convolution's result has its channels first, and so have sums, products and activations of it. What
//! needs the other order takes a `Transpose`, which is made once for each value. Axes and lengths that the builder takes
//! and returns are always in the source's order.

mod broadcast;
mod constants;
mod moves;
mod quotients;
mod reductions;
mod val;
mod windows;

pub use moves::Range;
pub use val::{Tag, Val};

use crate::length::Length;
use crate::names::Names;
use crate::order::{Layout, rotated, to_first, to_last};
use crate::results::GraphResult;
use crate::shape::{Dims, MAX_RANK};
use ckpt_api::{Attribute, Node, Op};
use std::collections::{HashMap, HashSet};

/// Why a node is not added: a clause about the layer or operation that is built.
pub type Reason = String;

/// The most nodes of a graph.
pub const MAX_NODES: usize = 1 << 17;

/// The most bytes of all names in it.
const MAX_NAMES: usize = 32 << 20;

/// The first number of a free axis that stands for an unknown length; those of inputs are below.
const FIRST_NAMED: usize = usize::MAX / 2;

/// Builds the nodes of a graph. `K` is what the source knows of a value beyond its lengths.
///
/// ```
/// use ckpt_graph::{Builder, Length, ints};
/// let mut builder = Builder::<()>::default();
/// let dims = vec![Length::free(0), 32_u64.into(), 32_u64.into(), 3_u64.into()];
/// let image = builder.input("image", dims);
/// builder.place = "pool".to_owned();
/// let first = builder.first(&image)?;
/// let node = builder.node("MaxPool").attribute("kernel_shape", ints(&[2, 2])?);
/// let dims = vec![Length::free(0), 16_u64.into(), 16_u64.into(), 3_u64.into()];
/// let pooled = builder.same(node, &first, dims)?;
/// let result = builder.last(&pooled)?;
/// let ops: Vec<&str> = builder.nodes.iter().map(|node| node.op.name()).collect();
/// assert_eq!(ops, ["Transpose", "MaxPool", "Transpose"]);
/// assert_eq!(result.dims, pooled.dims);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Builder<K> {
    /// The nodes, in an order in which they can run.
    pub nodes: Vec<Node>,
    /// The name of the nodes that are added now: their layer's.
    pub place: String,
    inputs: Vec<Val<K>>,
    input_names: HashSet<String>,
    names: Names,
    /// Bytes of all names.
    name_bytes: usize,
    /// Values in another layout, by their names and that layout: a value may be taken in either of them.
    turned: HashMap<(String, Layout), String>,
    /// Vectors with more axes, by their names and the rank of what they are combined with.
    raised: HashMap<(String, usize), String>,
    /// The next free axis that an unknown length becomes; `None` if such lengths stay unknown.
    next_free: Option<usize>,
}

impl<K> Default for Builder<K> {
    fn default() -> Self {
        Builder {
            nodes: Vec::new(),
            place: String::new(),
            inputs: Vec::new(),
            input_names: HashSet::new(),
            names: Names::default(),
            name_bytes: 0,
            turned: HashMap::new(),
            raised: HashMap::new(),
            next_free: None,
        }
    }
}

impl<K: Tag> Builder<K> {
    /// Returns a builder whose values have no unknown lengths: each becomes that of a free axis of its own, so that its
    /// copies are equal.
    pub fn naming_lengths() -> Self {
        Builder { next_free: Some(FIRST_NAMED), ..Builder::default() }
    }

    /// Adds an input of the graph.
    pub fn input(&mut self, name: &str, dims: Dims) -> Val<K> {
        let name = self.unique(name);
        let val = self.val(name, Layout::Last, dims, K::default());
        self.inputs.push(val.clone());
        self.input_names.insert(val.name.clone());
        val
    }

    /// Returns the inputs of the graph.
    pub fn inputs(&self) -> &[Val<K>] {
        &self.inputs
    }

    /// Returns a value as a result of the graph that the source gives this name; an input becomes a copy.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn result(&mut self, val: Val<K>, name: &str) -> Result<GraphResult, Reason> {
        name.clone_into(&mut self.place);
        let val = match self.input_names.contains(&val.name) {
            true => self.apply(Op::Identity, &[&val])?,
            false => val,
        };
        Ok(GraphResult { value: val.name, dims: val.dims, name: name.to_owned() })
    }

    /// Returns a name that no value has yet: the wanted one, or it with a number.
    pub fn unique(&mut self, wanted: &str) -> String {
        // A value without a name would be one that is left out.
        self.names.unused(if wanted.is_empty() { "layer" } else { wanted })
    }

    /// Returns a node at the current place.
    pub fn node(&self, op: impl Into<Op>) -> Node {
        Node::new(self.place.clone(), op.into())
    }

    /// Adds a node under a name that no other has, and returns it. If it states no results, it has one of that name.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn push(&mut self, mut node: Node, inputs: Vec<String>) -> Result<String, Reason> {
        node.name = self.unique(&node.name);
        if node.outputs.is_empty() {
            node.outputs = vec![node.name.clone()];
        }
        let name = node.name.clone();
        self.add(node, inputs)?;
        Ok(name)
    }

    /// Adds a node whose name and results are unique.
    ///
    /// # Errors
    /// For too many nodes, or too long names.
    pub fn add(&mut self, mut node: Node, inputs: Vec<String>) -> Result<(), Reason> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("the graph has more than {MAX_NODES} operations"));
        }
        node.inputs = inputs;
        let names =
            node.inputs.iter().chain(&node.outputs).chain(node.parameters.values()).chain([&node.name]);
        let bytes: usize = names.map(String::len).sum();
        self.name_bytes = self.name_bytes.saturating_add(bytes);
        if self.name_bytes > MAX_NAMES {
            return Err(format!("the names in the graph have more than {MAX_NAMES} bytes"));
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Returns a value of a node that was added.
    pub fn val(&mut self, name: String, layout: Layout, mut dims: Dims, tag: K) -> Val<K> {
        if let Some(next) = &mut self.next_free {
            for len in dims.iter_mut().filter(|len| **len == Length::Unknown) {
                *len = Length::free(*next);
                *next = next.saturating_add(1);
            }
        }
        Val { name, layout, dims, tag }
    }

    /// Adds a node whose result has these lengths, in the source's order.
    ///
    /// # Errors
    /// As [`Builder::add`], and for too many axes.
    pub fn plain(&mut self, node: Node, inputs: &[&Val<K>], dims: Dims) -> Result<Val<K>, Reason> {
        if dims.len() > MAX_RANK {
            return Err(format!("a value has more than {MAX_RANK} axes"));
        }
        let name = self.push(node, inputs.iter().map(|val| val.name.clone()).collect())?;
        let tag = inputs.first().map_or_else(K::default, |first| first.tag.passed());
        Ok(self.val(name, Layout::Last, dims, tag))
    }

    /// Adds a node that takes one value in its own layout, and makes one of these lengths in that layout.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn same(&mut self, node: Node, x: &Val<K>, dims: Dims) -> Result<Val<K>, Reason> {
        let name = self.push(node, vec![x.name.clone()])?;
        Ok(self.val(name, x.layout, dims, x.tag.passed()))
    }

    /// Adds a node as [`Builder::same`] does, whose result is as long as what it takes.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn map(&mut self, node: Node, x: &Val<K>) -> Result<Val<K>, Reason> {
        self.same(node, x, x.dims.clone())
    }

    /// Returns the value with its channels first.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn first(&mut self, val: &Val<K>) -> Result<Val<K>, Reason> {
        match val.layout {
            Layout::First => Ok(val.clone()),
            Layout::Last => self.turn(val, "to_channels_first", &to_first(val.rank()), Layout::First),
        }
    }

    /// Returns the value in the source's order.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn last(&mut self, val: &Val<K>) -> Result<Val<K>, Reason> {
        match val.layout {
            Layout::Last => Ok(val.clone()),
            Layout::First => self.turn(val, "to_channels_last", &to_last(val.rank()), Layout::Last),
        }
    }

    fn turn(&mut self, val: &Val<K>, name: &str, perm: &[usize], layout: Layout) -> Result<Val<K>, Reason> {
        if perm.is_sorted() {
            return Ok(Val { layout, ..val.clone() });
        }
        let key = (val.name.clone(), layout);
        let turned = match self.turned.get(&key).cloned() {
            Some(known) => known,
            None => {
                let node = Node::new(name, Op::Transpose).attribute("perm", ints(perm)?);
                let name = self.push(node, vec![val.name.clone()])?;
                self.turned.insert(key, name.clone());
                self.turned.insert((name.clone(), val.layout), val.name.clone());
                name
            }
        };
        Ok(Val { name: turned, layout, ..val.clone() })
    }

    /// Takes images whose channels come first in the source, too, as images whose channels come last.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn as_channels_last(&mut self, x: &Val<K>) -> Result<Val<K>, Reason> {
        let x = self.last(x)?;
        let dims = rotated(&x.dims, true);
        Ok(Val { layout: Layout::First, dims, ..x })
    }

    /// Returns such images in the source's order.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn restored_first(&mut self, x: &Val<K>) -> Result<Val<K>, Reason> {
        let x = self.first(x)?;
        let dims = rotated(&x.dims, false);
        Ok(Val { layout: Layout::Last, dims, ..x })
    }
}

/// Returns sizes as an attribute.
///
/// # Errors
/// For a size that an attribute cannot have.
pub fn ints<T: Copy + TryInto<i64>>(values: &[T]) -> Result<Attribute, Reason> {
    values.iter().map(|value| int(*value)).collect::<Result<_, _>>().map(Attribute::Ints)
}

/// Returns a size as an integer of an attribute.
///
/// # Errors
/// As [`ints`].
pub fn int<T: TryInto<i64>>(value: T) -> Result<i64, Reason> {
    value.try_into().map_err(|_| "a size is too large".to_owned())
}

#[cfg(test)]
mod tests;
