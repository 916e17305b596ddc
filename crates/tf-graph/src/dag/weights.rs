//! Constants of the graph that can be weights: tensors whose bytes are in the file of the graph.
//!
//! Which constants are weights is known when the graph is made, so each has a key of its own until then: its name and
//! its shape. An operation that only reshapes a constant is the same constant in another shape; one that takes a part of
//! it, or turns it, is a constant whose bytes are in several ranges of the file.

use super::super::catalog::{Catalog, GraphConstant, TensorInfo, last};
use super::super::chain::Context;
use super::constant;
use super::facts::{self, Facts};
use super::reach::{Dag, Edge, What};
use crate::proto::{NodeDef, TensorProto};
use ckpt_api::{Axis, DType, Graph, Shape};
use ckpt_graph::integers::Selection;
use ckpt_graph::shape::range;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Fewest elements of a constant that is a tensor; fewer are a number that an operation takes.
const LEAST: u64 = 2;

/// Most elements of all constants that are repeated numbers, and of those of which parts are taken.
const MOST_ELEMENTS: usize = 1 << 22;

/// Most ranges of the file in which a constant is: fewer than the limit on the stored pieces of a tensor.
const MOST_RANGES: usize = 1 << 12;

/// Operations that take a part of a constant, or turn it.
const MOVING: [&str; 5] = ["StridedSlice", "Slice", "ReverseV2", "Reverse", "Transpose"];

/// Most bytes of the file that are searched for repeated numbers.
const MOST_SEARCHED: usize = 1 << 30;

/// The constants of a graph that can be weights.
#[derive(Debug, Default)]
pub(super) struct Constants {
    all: Vec<Named>,
    /// Positions by the numbers of the nodes that are these constants.
    by_node: HashMap<usize, usize>,
    by_key: HashMap<String, usize>,
    /// Elements that are repeated, and those of which a part was taken.
    work: usize,
    /// Bytes of the file that were searched.
    searched: usize,
    /// Where repeated numbers are in the file, by their bytes.
    numbers: HashMap<Vec<u8>, Option<Range<u64>>>,
}

#[derive(Debug)]
struct Named {
    /// The name of the constant's operation.
    name: String,
    constant: GraphConstant,
}

impl Constants {
    /// Finds the constants among the nodes of a graph, which is in the file of the context.
    pub fn find(dag: &Dag, facts: &Facts, context: &Context) -> Self {
        let mut found = Constants::default();
        let mut known: HashMap<(Vec<Range<u64>>, Shape), Option<usize>> = HashMap::new();
        for (at, node) in dag.nodes.iter().enumerate() {
            let What::Op(op) = &node.what else { continue };
            let edge = Edge { node: at, output: 0 };
            let constant = match op.op.as_str() {
                "Const" => located(op, context.file)
                    .or_else(|| found.repeated(op, context.file))
                    .map(|constant| (op.name.clone(), constant)),
                _ => found
                    .reshaped(op, edge, &node.inputs, facts)
                    .or_else(|| found.moved(op, &node.inputs, facts))
                    .or_else(|| found.filled(op, (dag, &node.inputs), facts, context.file)),
            };
            let Some((name, constant)) = constant else { continue };
            let place = (constant.ranges.clone(), constant.shape.clone());
            let position = known.entry(place).or_insert_with(|| found.add(name, constant, context));
            found.by_node.extend(position.map(|position| (at, position)));
        }
        found
    }

    /// Adds a constant under a key of its own.
    fn add(&mut self, name: String, mut constant: GraphConstant, context: &Context) -> Option<usize> {
        constant.key = format!("{name} as {}, number {}", constant.shape, self.all.len());
        let is_taken = context.catalog.contains_key(&constant.key) || self.by_key.contains_key(&constant.key);
        if is_taken {
            return None;
        }
        self.by_key.insert(constant.key.clone(), self.all.len());
        self.all.push(Named { name, constant });
        Some(self.all.len() - 1)
    }

    /// Returns the constant that an operation gives another shape.
    fn reshaped(
        &self,
        op: &NodeDef,
        edge: Edge,
        inputs: &[Edge],
        facts: &Facts,
    ) -> Option<(String, GraphConstant)> {
        let named = self.taken(inputs)?;
        let is_kept = match op.op.as_str() {
            "Reshape" | "ExpandDims" | "Squeeze" => true,
            // With the same number of elements, it takes all of them.
            "StridedSlice" => {
                let steps = facts.get(*inputs.get(3)?).ints.as_ref()?.known()?;
                steps.iter().all(|step| *step == 1)
            }
            _ => false,
        };
        let lens: Option<Vec<u64>> = facts.dims(edge)?.iter().map(|len| len.size()).collect();
        let shape = Shape::new(lens?).ok()?;
        let is_same = shape.elements() == named.constant.shape.elements();
        (is_kept && is_same).then(|| (named.name.clone(), GraphConstant { shape, ..named.constant.clone() }))
    }

    /// Returns the constant that an operation takes first.
    fn taken(&self, inputs: &[Edge]) -> Option<&Named> {
        let input = inputs.first().filter(|input| input.output == 0)?;
        self.all.get(*self.by_node.get(&input.node)?)
    }

    /// Returns the constant of a `Const` that stores one number for all its elements.
    fn repeated(&mut self, op: &NodeDef, file: &[u8]) -> Option<GraphConstant> {
        let tensor = constant::tensor(op)?;
        let dims = constant::dims(tensor, MOST_ELEMENTS)?;
        self.repeat(tensor, dims.into_iter().map(|len| len as u64).collect(), file)
    }

    /// Returns the constant of a `Fill` of a number that a `Const` stores.
    fn filled(
        &mut self,
        op: &NodeDef,
        (dag, inputs): (&Dag, &[Edge]),
        facts: &Facts,
        file: &[u8],
    ) -> Option<(String, GraphConstant)> {
        let &[lens, number] = inputs else { return None };
        (op.op == "Fill").then_some(())?;
        let What::Op(number) = &dag.nodes.get(number.node)?.what else { return None };
        let tensor = constant::tensor(number).filter(|tensor| constant::dims(tensor, 1).is_some())?;
        let lens = facts.get(lens).ints.as_ref()?.values.iter();
        let lens: Option<Vec<u64>> = lens.map(|len| u64::try_from(len.known()?).ok()).collect();
        Some((op.name.clone(), self.repeat(tensor, lens?, file)?))
    }

    /// Returns a constant of this shape all of whose elements are the number of a tensor.
    fn repeat(&mut self, tensor: &TensorProto, lens: Vec<u64>, file: &[u8]) -> Option<GraphConstant> {
        let shape = Shape::new(lens).ok()?;
        let is_bare = tensor.dtype == 1 && tensor.tensor_content.is_empty();
        (is_bare && shape.elements() >= LEAST).then_some(())?;
        self.spend(usize::try_from(shape.elements()).ok()?)?;
        let range = match tensor.float_val[..] {
            // A field of one number, packed or not.
            [number] => [&[0x2a, 4][..], &[0x2d]].into_iter().find_map(|head| {
                let field = self.position([head, &number.to_le_bytes()].concat(), file)?;
                Some(field.start + head.len() as u64..field.end)
            }),
            // Zeros are not stored; any are as good.
            [] => self.position(vec![0; 4], file),
            _ => None,
        }?;
        let (key, ranges) = (String::new(), vec![range]);
        Some(GraphConstant { key, dtype: DType::F32, shape, ranges, is_repeated: true })
    }

    /// Returns where bytes are first in the file.
    fn position(&mut self, bytes: Vec<u8>, file: &[u8]) -> Option<Range<u64>> {
        if let Some(known) = self.numbers.get(&bytes) {
            return known.clone();
        }
        self.searched =
            self.searched.checked_add(file.len()).filter(|searched| *searched <= MOST_SEARCHED)?;
        let at = file.windows(bytes.len()).position(|window| window == bytes);
        let range = at.map(|at| at as u64..(at + bytes.len()) as u64);
        self.numbers.insert(bytes, range.clone());
        range
    }

    /// Counts elements that are listed or repeated; `None` if they are too many.
    fn spend(&mut self, elements: usize) -> Option<()> {
        self.work = self.work.checked_add(elements).filter(|work| *work <= MOST_ELEMENTS)?;
        Some(())
    }

    /// Returns a part of a constant, or the constant with its axes turned or in another order.
    fn moved(&mut self, op: &NodeDef, inputs: &[Edge], facts: &Facts) -> Option<(String, GraphConstant)> {
        MOVING.contains(&op.op.as_str()).then_some(())?;
        let Named { name, constant } = self.taken(inputs)?;
        let (name, mut moved) = (name.clone(), constant.clone());
        self.spend(usize::try_from(moved.shape.elements()).ok()?)?;
        let lens: Option<Vec<usize>> = moved.shape.iter().map(|len| usize::try_from(*len).ok()).collect();
        let axes = moves(op, &lens?, inputs, facts)?;
        moved.shape =
            Shape::new(axes.steps.iter().map(|steps| steps.len() as u64).collect::<Vec<_>>()).ok()?;
        (moved.shape.elements() >= LEAST).then_some(())?;
        if !moved.is_repeated {
            moved.ranges = axes.ranges(&moved.ranges, moved.dtype.bytes()?)?;
        }
        Some((name, moved))
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the tensors of a catalog and the constants, sorted by key.
    pub fn added_to<'a>(&'a self, catalog: &Catalog<'a>) -> Vec<TensorInfo<'a>> {
        let constants = self.all.iter().map(|Named { constant, .. }| TensorInfo {
            key: &constant.key,
            dtype: constant.dtype,
            shape: &constant.shape,
        });
        let mut all: Vec<TensorInfo> = catalog.0.iter().copied().chain(constants).collect();
        all.sort_by_key(|tensor| tensor.key);
        all
    }

    /// Returns the key of the constant that a node of the graph is.
    pub fn key(&self, node: usize) -> Option<&str> {
        self.all.get(*self.by_node.get(&node)?).map(|named| named.constant.key.as_str())
    }

    /// Returns the name of the operation of the constant with this key.
    pub fn name(&self, key: &str) -> Option<&str> {
        self.all.get(*self.by_key.get(key)?).map(|named| named.name.as_str())
    }

    /// Returns the name of the layer that the name of a weight has before its last slash, if it has one.
    pub fn layer(&self, key: &str) -> Option<&str> {
        self.name(key)?.rsplit_once('/').map(|(layer, _)| last(layer))
    }

    /// Returns the constants that a graph uses, and gives each its operation's name as the key, or a numbered one where
    /// another tensor has that.
    pub fn used(
        &self,
        graph: &mut Graph,
        axes: &mut BTreeMap<String, Vec<Axis>>,
        context: &Context,
    ) -> Vec<GraphConstant> {
        let parameters = graph.nodes.iter().flat_map(|node| node.parameters.values());
        let used: HashSet<usize> = parameters.filter_map(|key| self.by_key.get(key).copied()).collect();
        if used.is_empty() {
            return Vec::new();
        }
        let taken: HashSet<&str> = context.names.values().map(String::as_str).collect();
        let mut given: HashSet<String> = HashSet::new();
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        let mut keys: HashMap<&str, String> = HashMap::new();
        let mut made = Vec::with_capacity(used.len());
        for (_, Named { name, constant }) in self.all.iter().enumerate().filter(|(at, _)| used.contains(at)) {
            let number = numbers.entry(name).or_default();
            let key = loop {
                let key = if *number == 0 { name.clone() } else { format!("{name}_{number}") };
                *number += 1;
                if !taken.contains(key.as_str())
                    && !context.catalog.contains_key(&key)
                    && given.insert(key.clone())
                {
                    break key;
                }
            };
            if let Some(named) = axes.remove(&constant.key) {
                axes.insert(key.clone(), named);
            }
            keys.insert(&constant.key, key.clone());
            made.push(GraphConstant { key, ..constant.clone() });
        }
        for key in graph.nodes.iter_mut().flat_map(|node| node.parameters.values_mut()) {
            if let Some(new) = keys.get(key.as_str()) {
                key.clone_from(new);
            }
        }
        made
    }
}

/// Returns where in the file the numbers of a `Const` are, if it stores each of them, and is no single number.
fn located(op: &NodeDef, file: &[u8]) -> Option<GraphConstant> {
    let tensor = constant::tensor(op)?;
    let dtype = match tensor.dtype {
        1 => DType::F32,
        2 => DType::F64,
        14 => DType::Bf16,
        19 => DType::F16,
        _ => return None,
    };
    let lens = constant::dims(tensor, usize::MAX)?;
    let shape = Shape::new(lens.into_iter().map(|len| len as u64).collect::<Vec<u64>>()).ok()?;
    // The parser takes the bytes from the file without copying them.
    let content = &tensor.tensor_content[..];
    let offset = content.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
    let stored = file.get(offset..offset.checked_add(content.len())?)?;
    let len = stored.len() as u64;
    let is_whole = shape.elements().checked_mul(dtype.bytes()?) == Some(len);
    let range = offset as u64..(offset as u64).checked_add(len)?;
    (is_whole && shape.elements() >= LEAST).then(|| GraphConstant {
        key: String::new(),
        dtype,
        shape,
        ranges: vec![range],
        is_repeated: false,
    })
}

/// Which elements of a constant an operation takes, row by row.
struct Moves {
    /// The first element that every other is counted from.
    first: usize,
    /// For each axis of the result, how far each index is from that element.
    steps: Vec<Vec<usize>>,
}

/// Returns which elements of a constant with these lengths an operation takes.
fn moves(op: &NodeDef, lens: &[usize], inputs: &[Edge], facts: &Facts) -> Option<Moves> {
    let operands: Vec<_> = inputs.iter().map(|edge| facts.get(*edge)).collect();
    let list = |at: usize| -> Option<Vec<i64>> {
        operands.get(at)?.ints.as_ref()?.values.iter().map(|value| value.known()).collect()
    };
    let axis_of = |axis: i64| {
        let axis = if axis < 0 { axis.checked_add(i64::try_from(lens.len()).ok()?)? } else { axis };
        usize::try_from(axis).ok().filter(|axis| *axis < lens.len())
    };
    let stride = |axis: usize| lens.iter().skip(axis + 1).product::<usize>();
    let all = |axis: usize| (0..lens.get(axis).copied().unwrap_or(0)).map(|at| at * stride(axis)).collect();
    let whole: Vec<Vec<usize>> = (0..lens.len()).map(all).collect();
    let mut moves = Moves { first: 0, steps: whole.clone() };
    match op.op.as_str() {
        "StridedSlice" => {
            let dims = operands.first()?.dims.as_ref()?;
            moves.steps.clear();
            for selection in facts::selections(op, dims, &operands)? {
                match selection {
                    Selection::New => moves.steps.push(vec![0]),
                    Selection::Index { axis, at } => {
                        let own = whole.get(axis)?;
                        let at = if at < 0 { at.checked_add(i64::try_from(own.len()).ok()?)? } else { at };
                        moves.first = moves.first.checked_add(*own.get(usize::try_from(at).ok()?)?)?;
                    }
                    Selection::Range { axis, begin, end, step } => {
                        let own = whole.get(axis)?;
                        let (first, count) = range(i64::try_from(own.len()).ok()?, begin, end, step)?;
                        let at = |k: i64| usize::try_from(first.checked_add(k.checked_mul(step)?)?).ok();
                        let steps = (0..count).map(|k| own.get(at(k)?).copied());
                        moves.steps.push(steps.collect::<Option<_>>()?);
                    }
                }
            }
        }
        "Slice" => {
            let (begins, sizes) = (list(1)?, list(2)?);
            (begins.len() == lens.len() && sizes.len() == lens.len()).then_some(())?;
            for ((steps, begin), size) in moves.steps.iter_mut().zip(begins).zip(sizes) {
                let begin = usize::try_from(begin).ok()?;
                let end =
                    if size == -1 { steps.len() } else { begin.checked_add(usize::try_from(size).ok()?)? };
                *steps = steps.get(begin..end)?.to_vec();
            }
        }
        "ReverseV2" => {
            for axis in list(1)? {
                moves.steps.get_mut(axis_of(axis)?)?.reverse();
            }
        }
        "Reverse" => {
            let turned = list(1)?;
            (turned.len() == lens.len()).then_some(())?;
            let turned = moves.steps.iter_mut().zip(turned).filter(|(_, turned)| *turned != 0);
            turned.for_each(|(steps, _)| steps.reverse());
        }
        "Transpose" => {
            let order: Option<Vec<usize>> = list(1)?.into_iter().map(axis_of).collect();
            let order = order.filter(|order| order.iter().collect::<HashSet<_>>().len() == lens.len())?;
            (order.len() == lens.len()).then_some(())?;
            moves.steps = order.into_iter().map(|axis| whole.get(axis).cloned()).collect::<Option<_>>()?;
        }
        _ => return None,
    }
    Some(moves)
}

impl Moves {
    /// Returns the ranges of the elements among those of the constant, each of which has so many bytes.
    fn ranges(&self, own: &[Range<u64>], bytes: u64) -> Option<Vec<Range<u64>>> {
        let places = own.iter().flat_map(|range| range.clone().step_by(usize::try_from(bytes).unwrap_or(1)));
        let places: Vec<u64> = places.collect();
        let mut taken = vec![self.first];
        for steps in &self.steps {
            taken = taken.iter().flat_map(|first| steps.iter().map(move |step| first + step)).collect();
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for element in taken {
            let start = *places.get(element)?;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = start.checked_add(bytes)?,
                _ => ranges.push(start..start.checked_add(bytes)?),
            }
        }
        (ranges.len() <= MOST_RANGES).then_some(ranges)
    }
}
