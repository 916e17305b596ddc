//! Recognizes loops that are recurrent layers: LSTM, GRU, and simple ones.
//!
//! A loop's body is read as a graph of its own, whose inputs are the loop's variables. It must compute one step of a
//! cell, and the loop must take one step for each item of the sequence. Anything else is not recognized.

use super::super::chain::Context;
use super::super::node::attribute;
use super::facts::{Facts, int, selections};
use super::pattern::{View, near};
use super::reach::{Dag, Edge, Reader, Steps, What};
use crate::proto::attr_value::Value;
use crate::proto::{FunctionDefLibrary, NodeDef};
use ckpt_graph::integers::Selection;
use ckpt_graph::shape::{range, resolve};
use ckpt_graph::{CellActivation, Dims, Length};
use std::collections::HashMap;

/// Limit on the operations of loops whose bodies are read. A cell has 40.
const MAX_LOOPS: usize = 1 << 8;

/// Limit on the references that are followed in one loop.
const MAX_FOLLOWED: u64 = 1 << 12;

/// A recurrent layer.
#[derive(Debug)]
pub(super) struct Recurrent {
    pub cell: Cell,
    /// The sequence, `[time, batch, features]`.
    pub input: Edge,
    /// Initial states; `None` for zeros.
    pub states: Vec<Option<Edge>>,
    pub weight: String,
    pub recurrent: String,
    pub bias: Option<String>,
    /// What each of the loop's results is.
    pub results: Vec<LoopResult>,
    /// In ONNX's order: of the gates, of the candidate and, for LSTM, of the output.
    pub activations: Vec<CellActivation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// With the order of its gates.
    Lstm(String),
    Gru {
        /// Whether the recurrent product comes before the reset gate.
        linear_before_reset: bool,
    },
    Simple,
}

/// Returns the activation that makes a value, and what it is applied to.
fn activation(view: &View, edge: Edge) -> Option<(CellActivation, Edge)> {
    let name = match view.kind(edge) {
        "Sigmoid" => "Sigmoid",
        "Tanh" => "Tanh",
        "Relu" => "Relu",
        "Softplus" => "Softplus",
        "Softsign" => "Softsign",
        _ => return hard_sigmoid(view, edge),
    };
    Some((CellActivation::plain(name), *view.inputs(edge).first()?))
}

/// Recognizes `relu6(x + 3) / 6`, and `clip(0.2·x + 0.5, 0, 1)`.
fn hard_sigmoid(view: &View, edge: Edge) -> Option<(CellActivation, Edge)> {
    let line = |alpha: f64, beta: f64| CellActivation { name: "HardSigmoid", line: Some((alpha, beta)) };
    if let Some((clipped, divisor)) = view.pair(edge, &["RealDiv", "Mul"]) {
        let factor = view.number(divisor)?;
        let slope = if view.kind(edge) == "Mul" { factor } else { 1.0 / factor };
        let (x, three) = view.pair(view.only(clipped, &["Relu6"])?, &["AddV2", "Add"])?;
        let is_plain = near(slope, 1.0 / 6.0) && view.number(three) == Some(3.0);
        return is_plain.then(|| (line(slope, 0.5), x));
    }
    let (inner, low) = view.pair(edge, &["Maximum"])?;
    let (sum, high) = view.pair(inner, &["Minimum"])?;
    let (product, half) = view.pair(sum, &["AddV2", "Add"])?;
    let (a, b) = view.pair(product, &["Mul"])?;
    let (x, slope) = if view.number(b).is_some() { (a, b) } else { (b, a) };
    let slope = view.number(slope)?;
    let is_plain = view.number(low) == Some(0.0) && view.number(high) == Some(1.0);
    (is_plain && view.number(half) == Some(0.5)).then(|| (line(slope, 0.5), x))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopResult {
    /// The list of all outputs.
    Sequence,
    /// The list of the last output alone.
    Last,
    State(usize),
    Other,
}

/// Recognizes all loops of a graph, by the numbers of their nodes.
pub(super) fn find(
    outer: View,
    library: Option<&FunctionDefLibrary>,
    context: &Context,
) -> HashMap<usize, Recurrent> {
    let loops = outer.dag.nodes.iter().enumerate().filter_map(|(node, found)| match &found.what {
        What::Op(op) if matches!(op.op.as_str(), "While" | "StatelessWhile") => Some((node, *op)),
        _ => None,
    });
    let read = loops
        .take(MAX_LOOPS)
        .filter_map(|(node, op)| Some((node, recurrent(outer, node, op, library?, context)?)));
    read.collect()
}

/// Limit on the steps of a loop that is read step by step.
const MAX_STEPS: usize = 1 << 9;

/// Limit on the operations of all steps of all such loops.
const MAX_STEPPED: usize = 1 << 15;

/// Adds the numbers of steps of loops that are no recurrent layers, and returns whether there are new ones.
pub(super) fn add_steps(
    outer: View,
    library: Option<&FunctionDefLibrary>,
    context: &Context,
    known: &HashMap<usize, Recurrent>,
    steps: &mut Steps,
) -> bool {
    let mut found: HashMap<*const NodeDef, Option<usize>> = HashMap::new();
    let mut operations = 0usize;
    let mut examined = 0;
    for (node, what) in outer.dag.nodes.iter().enumerate() {
        let What::Op(op) = &what.what else { continue };
        if !matches!(op.op.as_str(), "While" | "StatelessWhile") || known.contains_key(&node) {
            continue;
        }
        examined += 1;
        // All calls of a loop are compared, or none is read.
        if examined > MAX_LOOPS {
            return false;
        }
        let count = count(outer, node, op, library, context);
        operations =
            count.map_or(operations, |(steps, size)| operations.saturating_add(steps.saturating_mul(size)));
        let count = count.map(|(steps, _)| steps).filter(|_| operations <= MAX_STEPPED);
        // A loop that is called with sequences of two lengths has no number of steps.
        let own = found.entry(std::ptr::from_ref(*op)).or_insert(count);
        *own = own.filter(|own| Some(*own) == count);
    }
    let before = steps.len();
    steps.extend(found.into_iter().filter_map(|(op, count)| Some((op, count?))));
    steps.len() > before
}

/// Returns the number of steps of a loop, and of the operations of one.
fn count(
    outer: View,
    node: usize,
    op: &NodeDef,
    library: Option<&FunctionDefLibrary>,
    context: &Context,
) -> Option<(usize, usize)> {
    let inputs = &outer.dag.nodes.get(node)?.inputs;
    let (body, condition) = (read(library?, op, "body")?, read(library?, op, "cond")?);
    let shapes: Vec<Option<Dims>> = inputs.iter().map(|edge| outer.dims(*edge).cloned()).collect();
    let (inner, facts) =
        (Facts::infer(&body, &shapes, |_| None), Facts::infer(&condition, &shapes, |_| None));
    let found = Loop { outer, inputs, view: View { dag: &body, facts: &inner, context, constants: None } };
    let test = View { dag: &condition, facts: &facts, context, constants: None };
    let bounds = found.bounds(&test)?;
    let least = bounds.iter().map(|bound| bound.known()).collect::<Option<Vec<i64>>>()?.into_iter().min()?;
    let steps = usize::try_from(least.max(0)).ok().filter(|steps| *steps <= MAX_STEPS)?;
    Some((steps, body.nodes.len()))
}

fn recurrent(
    outer: View,
    node: usize,
    op: &NodeDef,
    library: &FunctionDefLibrary,
    context: &Context,
) -> Option<Recurrent> {
    let inputs = &outer.dag.nodes.get(node)?.inputs;
    let body = read(library, op, "body")?;
    let condition = read(library, op, "cond")?;
    let shapes: Vec<Option<Dims>> = inputs.iter().map(|edge| outer.dims(*edge).cloned()).collect();
    let facts = Facts::infer(&body, &shapes, |_| None);
    let view = View { dag: &body, facts: &facts, context, constants: None };
    let found = Loop { outer, inputs, view };
    let layer = found.layer(op)?;
    let facts = Facts::infer(&condition, &shapes, |_| None);
    let test = View { dag: &condition, facts: &facts, context, constants: None };
    found.runs_through(&test, &layer.input)?;
    Some(layer)
}

/// Reads a function of a loop, which takes the loop's variables.
fn read<'a>(library: &'a FunctionDefLibrary, op: &NodeDef, name: &str) -> Option<Dag<'a>> {
    let Some(Value::Func(function)) = attribute(op, name) else { return None };
    Reader::new(Some(library), MAX_FOLLOWED).function(&function.name, Vec::new()).ok()
}

/// A loop: its body, and what is outside it.
struct Loop<'a> {
    outer: View<'a>,
    /// The initial values of the loop's variables.
    inputs: &'a [Edge],
    view: View<'a>,
}

/// The terms of a sum.
#[derive(Debug, Default)]
struct Sum {
    /// The weight that the sequence's item is multiplied by.
    weight: Option<Edge>,
    /// What else is multiplied, and by what.
    recurrent: Option<(Edge, Edge)>,
    bias: Option<Edge>,
}

impl Loop<'_> {
    fn layer(&self, op: &NodeDef) -> Option<Recurrent> {
        let results = &self.view.dag.results;
        if results.len() != self.inputs.len() || op.input.is_empty() {
            return None;
        }
        let mut roles = Vec::new();
        let (mut output, mut states) = (None, Vec::new());
        for (at, result) in results.iter().enumerate() {
            let role = if self.variable(*result) == Some(at) || self.is_counter(at) {
                LoopResult::Other
            } else if let [list, index, item] = self.view.inputs(*result)
                && self.view.kind(*result) == "TensorListSetItem"
            {
                let is_own = self.variable(*list) == Some(at) && output.replace(*item).is_none();
                let is_last = self.view.ints(*index).is_some_and(|index| index == [0]);
                is_own.then_some(())?;
                match self.variable(*index) {
                    Some(counter) => {
                        (self.is_counter(counter) && self.starts_at_zero(counter)).then_some(())?;
                        LoopResult::Sequence
                    }
                    None if is_last => LoopResult::Last,
                    None => return None,
                }
            } else {
                states.push(at);
                LoopResult::State(states.len() - 1)
            };
            roles.push(role);
        }
        let output = output?;
        let first = *states.first()?;
        if results.get(first) != Some(&output) {
            return None;
        }
        let mut layer = match states[..] {
            [hidden] => self.gru(output, hidden).or_else(|| self.simple(output, hidden))?,
            [hidden, cell] => self.lstm(output, *results.get(cell)?, hidden, cell)?,
            _ => return None,
        };
        layer.states = states.iter().map(|at| self.initial(*at)).collect::<Option<_>>()?;
        layer.results = roles;
        Some(layer)
    }

    /// Returns the number of the loop's variable that a value is.
    fn variable(&self, edge: Edge) -> Option<usize> {
        match self.view.dag.nodes.get(self.view.passed(edge).node)?.what {
            What::Input(at) => Some(at),
            _ => None,
        }
    }

    /// Returns the outer value of a variable that the loop does not change.
    fn fixed(&self, edge: Edge) -> Option<Edge> {
        let at = self.variable(edge)?;
        let is_fixed = self.variable(*self.view.dag.results.get(at)?) == Some(at);
        self.inputs.get(at).copied().filter(|_| is_fixed)
    }

    /// Whether the loop adds 1 to a variable.
    fn is_counter(&self, at: usize) -> bool {
        let sum = self.view.dag.results.get(at).and_then(|result| self.view.pair(*result, &["AddV2", "Add"]));
        sum.is_some_and(|(a, b)| {
            self.variable(a) == Some(at) && self.view.ints(b).is_some_and(|step| step == [1])
        })
    }

    fn starts_at_zero(&self, at: usize) -> bool {
        self.inputs.get(at).and_then(|edge| self.outer.ints(*edge)).is_some_and(|start| start == [0])
    }

    /// Returns an initial state: nothing if it is zero.
    fn initial(&self, at: usize) -> Option<Option<Edge>> {
        let edge = *self.inputs.get(at)?;
        let zero = self.outer.kind(edge) == "Fill"
            && self.outer.inputs(edge).get(1).and_then(|value| self.outer.number(*value)) == Some(0.0);
        Some((!zero).then_some(edge))
    }

    /// Whether the loop takes one step for each item of the sequence.
    fn runs_through(&self, test: &View, sequence: &Edge) -> Option<()> {
        let steps = *self.outer.dims(*sequence)?.first()?;
        let bounds = self.bounds(test)?;
        bounds.iter().all(|bound| bound.is(steps)).then_some(())
    }

    /// Returns the bounds of the loop's counters, which start at 0: it goes on while all are below theirs.
    fn bounds(&self, test: &View) -> Option<Vec<Length>> {
        let mut open = test.dag.results.clone();
        let mut bounds = Vec::new();
        while let Some(edge) = open.pop() {
            if let Some((a, b)) = test.pair(edge, &["LogicalAnd"]) {
                open.extend([a, b]);
                continue;
            }
            let (counter, bound) = test.pair(edge, &["Less"])?;
            let argument = |edge: Edge| match test.dag.nodes.get(edge.node)?.what {
                What::Input(at) => Some(at),
                _ => None,
            };
            let counter = argument(counter)?;
            (self.is_counter(counter) && self.starts_at_zero(counter)).then_some(())?;
            bounds.push(match argument(bound) {
                Some(at) => {
                    let is_fixed = self.variable(*self.view.dag.results.get(at)?) == Some(at);
                    is_fixed.then_some(())?;
                    self.outer.facts.get(*self.inputs.get(at)?).ints.as_ref()?.only()?
                }
                None => test.facts.get(bound).ints.as_ref()?.only()?,
            });
            if bounds.len() > MAX_LOOPS {
                return None;
            }
        }
        (!bounds.is_empty()).then_some(bounds)
    }

    /// Returns the sequence, if a value is its item at the loop's time.
    fn item(&self, edge: Edge) -> Option<Edge> {
        let (list, time) = self.view.pair(self.view.passed(edge), &["TensorListGetItem"])?;
        let time = self.variable(time)?;
        (self.is_counter(time) && self.starts_at_zero(time)).then_some(())?;
        self.outer.only(self.fixed(list)?, &["TensorListFromTensor"])
    }

    /// Collects the terms of a sum of products and a bias, and the sequence.
    fn sum(&self, edge: Edge) -> Option<(Sum, Option<Edge>)> {
        let (mut sum, mut sequence) = (Sum::default(), None);
        let mut open = vec![edge];
        while let Some(edge) = open.pop() {
            if let Some((a, b)) = self.view.pair(edge, &["AddV2", "Add", "BiasAdd"]) {
                open.extend([a, b]);
                if open.len() > 8 {
                    return None;
                }
            } else if let Some((x, weight)) = self.view.pair(edge, &["MatMul"]) {
                let op = self.view.op(edge)?;
                let is_turned = |name| super::super::node::flag(op, name);
                if is_turned("transpose_a") || is_turned("transpose_b") {
                    return None;
                }
                match self.item(x) {
                    Some(found) => {
                        sequence = Some(found);
                        sum.weight.replace(weight).is_none().then_some(())?;
                    }
                    None => sum.recurrent.replace((x, weight)).is_none().then_some(())?,
                }
            } else {
                sum.bias.replace(edge).is_none().then_some(())?;
            }
        }
        Some((sum, sequence))
    }

    /// Returns the key of a matrix.
    fn matrix(&self, edge: Edge) -> Option<&str> {
        let outer = self.fixed(edge)?;
        let is_matrix = self.outer.dims(outer)?.len() == 2;
        self.outer.variable(outer).filter(|_| is_matrix)
    }

    /// Returns the key of a vector.
    fn vector(&self, edge: Edge) -> Option<&str> {
        self.outer.vector(self.fixed(edge)?)
    }

    /// Returns the key of a matrix, of which a value is row `row`.
    fn row(&self, edge: Edge, row: usize) -> Option<&str> {
        if let Some(outer) = self.fixed(edge) {
            let rows = self.outer.only(outer, &["Unpack"])?;
            let is_row =
                outer.output == row && self.outer.op(outer).and_then(|op| int(op, "axis")).unwrap_or(0) == 0;
            return self.outer.variable(rows).filter(|_| is_row);
        }
        let part = match self.view.only(edge, &["Squeeze"]) {
            Some(part) => part,
            None if self.view.kind(edge) == "Unpack" => {
                let is_row =
                    edge.output == row && self.view.op(edge).and_then(|op| int(op, "axis")).unwrap_or(0) == 0;
                return is_row.then(|| self.matrix(*self.view.inputs(edge).first()?))?;
            }
            None => return None,
        };
        let (axis, matrix) = self.view.pair(part, &["Split"])?;
        let is_row = part.output == row && self.view.ints(axis)? == [0];
        is_row.then(|| self.matrix(matrix))?
    }

    /// Returns what a value is a part of, along the last of two axes, which part, and of how many.
    fn part(&self, edge: Edge) -> Option<(Edge, usize, usize)> {
        if let Some((axis, whole)) = self.view.pair(edge, &["Split"]) {
            let axis = resolve(*self.view.ints(axis)?.first()?, 2)?;
            let count = usize::try_from(int(self.view.op(edge)?, "num_split")?).ok()?;
            return (axis == 1).then_some((whole, edge.output, count));
        }
        let whole = self.view.only(edge, &["StridedSlice"])?;
        let (begin, end, len) = self.columns(edge)?;
        let width = end.checked_sub(begin).filter(|width| *width > 0)?;
        let is_part = begin % width == 0 && len % width == 0;
        is_part.then_some((whole, begin / width, len / width))
    }

    /// Returns the columns that a slice takes, and their whole number.
    fn columns(&self, edge: Edge) -> Option<(usize, usize, usize)> {
        let whole = self.view.only(edge, &["StridedSlice"])?;
        let dims = self.view.dims(whole)?;
        let facts: Vec<_> = self.view.inputs(edge).iter().map(|input| self.view.facts.get(*input)).collect();
        let selections = selections(self.view.op(edge)?, dims, &facts)?;
        let [
            Selection::Range { begin: 0, end: i64::MAX, step: 1, .. },
            Selection::Range { axis: 1, begin, end, step: 1 },
        ] = selections[..]
        else {
            return None;
        };
        let len = dims.get(1)?.known()?;
        let (first, count) = range(len, begin, end, 1)?;
        let to = |value: i64| usize::try_from(value).ok();
        Some((to(first)?, to(first.checked_add(count)?)?, to(len)?))
    }

    /// Returns both factors of a product in which the one that `is_first` accepts comes first.
    fn factors(&self, edge: Edge, is_first: impl Fn(Edge) -> bool) -> Option<(Edge, Edge)> {
        let (a, b) = self.view.pair(edge, &["Mul"])?;
        if is_first(a) { Some((a, b)) } else { is_first(b).then_some((b, a)) }
    }

    fn is(&self, edge: Edge, at: usize) -> bool {
        self.variable(edge) == Some(at)
    }

    fn simple(&self, output: Edge, hidden: usize) -> Option<Recurrent> {
        let (activation, inner) = activation(&self.view, output)?;
        let (sum, sequence) = self.sum(inner)?;
        let (state, recurrent) = sum.recurrent?;
        self.is(state, hidden).then_some(())?;
        let bias = match sum.bias {
            Some(bias) => Some(self.vector(bias)?.to_owned()),
            None => None,
        };
        self.recurrent(Cell::Simple, &[activation], sequence?, sum.weight?, recurrent, bias)
    }

    fn recurrent(
        &self,
        cell: Cell,
        activations: &[CellActivation],
        input: Edge,
        weight: Edge,
        recurrent: Edge,
        bias: Option<String>,
    ) -> Option<Recurrent> {
        let (weight, recurrent) = (self.matrix(weight)?.to_owned(), self.matrix(recurrent)?.to_owned());
        let (states, results, activations) = (Vec::new(), Vec::new(), activations.to_vec());
        Some(Recurrent { cell, input, states, weight, recurrent, bias, results, activations })
    }

    /// `c' = σ(f)·c + σ(i)·tanh(g)`, `h' = σ(o)·tanh(c')`, where `[i f g o]` are parts of `x·K + h·R + b`; or with other
    /// activations.
    fn lstm(&self, output: Edge, cell: Edge, hidden: usize, memory: usize) -> Option<Recurrent> {
        let view = self.view;
        let is_turned = |edge: Edge| activation(&view, edge).is_some_and(|(_, inner)| inner == cell);
        let (turned, opened) = self.factors(output, is_turned)?;
        let (shaped, _) = activation(&view, turned)?;
        let (gated, opened) = activation(&view, opened)?;
        let gate = |edge: Edge, kind: CellActivation| {
            let (found, inner) = activation(&view, edge)?;
            (found == kind).then(|| self.part(inner))?
        };
        let (a, b) = view.pair(cell, &["AddV2", "Add"])?;
        let (kept, forget) = self
            .factors(a, |edge| self.is(edge, memory))
            .map(|(_, gate)| (b, gate))
            .or_else(|| self.factors(b, |edge| self.is(edge, memory)).map(|(_, gate)| (a, gate)))?;
        let (a, b) = view.pair(kept, &["Mul"])?;
        // Where both have the same activation, the product is the same either way.
        let both = |taken: Edge, candidate: Edge| Some((gate(taken, gated)?, gate(candidate, shaped)?));
        let (taken, candidate) = match (both(a, b), both(b, a)) {
            (Some(one), Some(other)) => {
                if one.0.1 < other.0.1 {
                    one
                } else {
                    other
                }
            }
            (one, other) => one.or(other)?,
        };
        let parts = [('i', taken), ('f', gate(forget, gated)?), ('c', candidate), ('o', self.part(opened)?)];
        let whole = parts[0].1.0;
        let mut order = ['?'; 4];
        for (name, (edge, at, count)) in parts {
            let slot = order.get_mut(at).filter(|slot| **slot == '?' && edge == whole && count == 4)?;
            *slot = name;
        }
        let (sum, sequence) = self.sum(whole)?;
        let (state, recurrent) = sum.recurrent?;
        self.is(state, hidden).then_some(())?;
        let bias = match sum.bias {
            Some(bias) => Some(self.vector(bias)?.to_owned()),
            None => None,
        };
        let cell = Cell::Lstm(order.iter().collect());
        self.recurrent(cell, &[gated, shaped, shaped], sequence?, sum.weight?, recurrent, bias)
    }

    /// `h' = z·h + (1 − z)·tanh(x_h + r·h_h)` with `z = σ(x_z + h_z)` and `r = σ(x_r + h_r)`, where `x = x·K + b` and
    /// `h = h·R + b'`; or `h_h = (r·h)·R_h` where the product comes after the reset gate.
    fn gru(&self, output: Edge, hidden: usize) -> Option<Recurrent> {
        let view = self.view;
        let (a, b) = view.pair(output, &["AddV2", "Add"])?;
        let (new, update) = self
            .factors(a, |edge| self.is(edge, hidden))
            .map(|(_, gate)| (b, gate))
            .or_else(|| self.factors(b, |edge| self.is(edge, hidden)).map(|(_, gate)| (a, gate)))?;
        let (rest, candidate) = self.factors(new, |edge| view.kind(edge) == "Sub")?;
        let (shaped, candidate) = activation(&view, candidate)?;
        let (gated, _) = activation(&view, update)?;
        let (one, gate) = view.pair(rest, &["Sub"])?;
        (gate == update && view.number(one) == Some(1.0)).then_some(())?;
        let parts = |edge: Edge| {
            let (found, inner) = activation(&view, edge)?;
            let (a, b) = view.pair(inner, &["AddV2", "Add"])?;
            (found == gated).then(|| Some((self.part(a)?, self.part(b)?)))?
        };
        let ((x, 0, 3), (state, 0, count)) = parts(update)? else { return None };
        let (left, right) = view.pair(candidate, &["AddV2", "Add"])?;
        (self.part(left)? == (x, 2, 3)).then_some(())?;
        let is_reset = |edge: Edge| parts(edge) == Some(((x, 1, 3), (state, 1, count)));
        let (own, sequence) = self.sum(x)?;
        let (recurrent_sum, none) = self.sum(state)?;
        (own.recurrent.is_none() && recurrent_sum.weight.is_none() && none.is_none()).then_some(())?;
        let (before, matrix) = recurrent_sum.recurrent?;
        self.is(before, hidden).then_some(())?;
        if count == 3 {
            let (_, inner) = self.factors(right, is_reset)?;
            (self.part(inner)? == (state, 2, 3)).then_some(())?;
            let bias = match (own.bias, recurrent_sum.bias) {
                (Some(first), Some(second)) => {
                    let key = self.row(first, 0)?;
                    (self.row(second, 1)? == key).then_some(())?;
                    Some(key.to_owned())
                }
                (None, None) => None,
                _ => return None,
            };
            return self.recurrent(
                Cell::Gru { linear_before_reset: true },
                &[gated, shaped],
                sequence?,
                own.weight?,
                matrix,
                bias,
            );
        }
        // The first two thirds of the matrix, and the last.
        let (opened, last) = view.pair(right, &["MatMul"])?;
        let (_, state_again) = self.factors(opened, is_reset)?;
        let whole = view.only(matrix, &["StridedSlice"])?;
        let (begin, middle, len) = self.columns(matrix)?;
        let same = view.only(last, &["StridedSlice"])? == whole && self.columns(last)? == (middle, len, len);
        let is_split = begin == 0 && count == 2 && middle % 2 == 0 && middle / 2 * 3 == len;
        (same && is_split && self.is(state_again, hidden) && recurrent_sum.bias.is_none()).then_some(())?;
        let bias = match own.bias {
            Some(bias) => Some(self.vector(bias)?.to_owned()),
            None => None,
        };
        let cell = Cell::Gru { linear_before_reset: false };
        self.recurrent(cell, &[gated, shaped], sequence?, own.weight?, whole, bias)
    }
}
