//! Recurrent cells: `nn.LSTM`, `nn.GRU` and `nn.RNN`.
//!
//! Flax keeps one bias of two that PyTorch adds: the other is zeros. In a GRU, both reset the state after the product, so only
//! the gate of the new state has two.

use super::output::{Output, Place};
use super::reading::Shapes;
use super::scan::Scans;
use super::tree::{Leaf, Module, Path, Tree};
use ckpt_api::Result;
use ckpt_engine::recipe::{AxisStep, Piece};
use std::collections::BTreeSet;

/// Maps all cells that PyTorch has. Returns the paths of their modules.
///
/// # Errors
/// As [`Output::assemble`].
pub(super) fn cells<'t>(
    tree: &Tree<'t>,
    scans: &Scans<'t>,
    output: &mut Output,
) -> Result<BTreeSet<Path<'t>>> {
    let mut taken = BTreeSet::new();
    let parents: BTreeSet<&[&'t str]> =
        tree.modules.keys().filter_map(|path| Some(path.split_last()?.1)).collect();
    for path in parents {
        let Some(cell) = Cell::at(tree, path, scans) else { continue };
        let (module, suffix) = module_of(tree, path, scans, &cell);
        cell.map(&Place { path: module, scan: scans.of(path) }, suffix, output)?;
        taken
            .extend(tree.children(path).into_iter().map(|name| path.iter().copied().chain([name]).collect()));
    }
    Ok(taken)
}

/// The module of a cell in PyTorch, and the suffix of its tensors: that of a direction.
fn module_of<'a, 't>(
    tree: &Tree<'t>,
    path: &'a [&'t str],
    scans: &Scans<'t>,
    cell: &Cell<'_, 't>,
) -> (&'a [&'t str], &'static str) {
    let has_only = |path: &[&'t str], names: &[&str]| {
        !tree.modules.contains_key(path) && tree.children(path).into_iter().eq(names.iter().copied())
    };
    let Some((&"cell", rnn)) = path.split_last() else { return (path, "") };
    if !has_only(rnn, &["cell"]) {
        return (path, "");
    }
    let [backward, forward] = ["backward_rnn", "forward_rnn"];
    let Some((&own, both)) = rnn.split_last() else { return (rnn, "") };
    let other = if own == forward { backward } else { forward };
    let is_one_of_two = (own == forward || own == backward) && has_only(both, &[backward, forward]);
    let other: Path<'t> = both.iter().copied().chain([other, "cell"]).collect();
    let fits = || Cell::at(tree, &other, scans).is_some_and(|other| other.is_like(cell));
    match is_one_of_two && fits() {
        true => (both, if own == backward { "_reverse" } else { "" }),
        false => (rnn, ""),
    }
}

/// The classes of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lstm,
    Gru,
    Rnn,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Class::Lstm => "LSTM",
            Class::Gru => "GRU",
            Class::Rnn => "RNN",
        }
    }
}

/// A cell that PyTorch has.
struct Cell<'a, 't> {
    class: Class,
    /// Kernels that take the input, gate by gate or in one.
    inputs: Vec<&'a Leaf<'t>>,
    /// Kernels that take the state.
    states: Vec<&'a Leaf<'t>>,
    /// The biases of gates, and the pieces of the two biases that PyTorch has; none without biases.
    biases: Vec<&'a Leaf<'t>>,
    pieces: [Vec<Piece>; 2],
    /// The lengths of the input and of the state.
    lens: [u64; 2],
}

/// The parts of a cell that keeps one module for each gate: its class, and the gates in PyTorch's order.
const BY_GATE: [(Class, &[&str], &[&str]); 5] = [
    (Class::Lstm, &["ii", "if", "ig", "io"], &["hi", "hf", "hg", "ho"]),
    (Class::Lstm, &["ii", "if_", "ig", "io"], &["hi", "hf", "hg", "ho"]),
    (Class::Gru, &["ir", "iz", "in"], &["hr", "hz", "hn"]),
    (Class::Gru, &["ir", "iz", "in_"], &["hr", "hz", "hn"]),
    (Class::Rnn, &["i"], &["h"]),
];

impl<'a, 't> Cell<'a, 't> {
    /// The cell whose parts are the modules below a path.
    fn at(tree: &'a Tree<'t>, path: &[&'t str], scans: &Scans<'t>) -> Option<Self> {
        let children = tree.children(path);
        let modules = |names: &[&'static str]| -> Option<Vec<&'a Module<'t>>> {
            let own = |name: &&'static str| tree.child(path, children.get(name).copied()?);
            names.iter().map(own).collect()
        };
        let is_scanned = scans.of(path).is_some();
        if children.len() == 2
            && let Some([input, state]) = modules(&["dense_i", "dense_h"]).as_deref()
        {
            return Self::in_one(input, state, is_scanned);
        }
        let (class, inputs, states) = BY_GATE.into_iter().find(|(_, inputs, states)| {
            children.len() == inputs.len() + states.len()
                && inputs.iter().chain(*states).all(|name| children.contains(name))
        })?;
        Self::by_gate(class, &modules(inputs)?, &modules(states)?, is_scanned)
    }

    /// A cell of nnx that keeps all gates in two modules: the lengths show which it is.
    fn in_one(input: &'a Module<'t>, state: &'a Module<'t>, is_scanned: bool) -> Option<Self> {
        let own = |module| Shapes { module, is_scanned };
        let (&[width, all], &[hidden, _]) = (own(input).of("kernel")?, own(state).of("kernel")?) else {
            return None;
        };
        let class = match all.checked_div(hidden).filter(|_| all.is_multiple_of(hidden))? {
            4 => Class::Lstm,
            3 => Class::Gru,
            1 => Class::Rnn,
            _ => return None,
        };
        let fits = own(state).of("kernel") == Some(&[hidden, all])
            && [input, state]
                .into_iter()
                .all(|module| own(module).of("bias").is_none_or(|bias| *bias == [all]))
            && input.len() == 1 + usize::from(input.contains_key("bias"))
            && state.len() == 1 + usize::from(state.contains_key("bias"));
        if !fits {
            return None;
        }
        let is_zero = |own: bool, source: usize| vec![Piece::new(source, own)];
        let (biases, pieces) = match (input.get("bias"), state.get("bias")) {
            (None, None) => (Vec::new(), Default::default()),
            (Some(own), None) => (vec![own], [is_zero(false, 0), is_zero(true, 0)]),
            (None, Some(own)) => (vec![own], [is_zero(true, 0), is_zero(false, 0)]),
            (Some(input), Some(state)) => (vec![input, state], [is_zero(false, 0), is_zero(false, 1)]),
        };
        let (inputs, states) = (vec![input.get("kernel")?], vec![state.get("kernel")?]);
        Some(Cell { class, inputs, states, biases, pieces, lens: [width, hidden] })
    }

    /// A cell with a module for each gate.
    fn by_gate(
        class: Class,
        inputs: &[&'a Module<'t>],
        states: &[&'a Module<'t>],
        is_scanned: bool,
    ) -> Option<Self> {
        let own = |module| Shapes { module, is_scanned };
        let (&[width, hidden], _) = (own(inputs.first()?).of("kernel")?, ()) else { return None };
        let mut biases = Vec::new();
        let mut fits = true;
        let mut pieces = |modules: &[&'a Module<'t>], len: u64| {
            let mut pieces = Vec::new();
            for module in modules {
                let shapes = own(module);
                let bias = module.get("bias");
                fits &= shapes.of("kernel") == Some(&[len, hidden])
                    && shapes.of("bias").is_none_or(|bias| *bias == [hidden])
                    && module.len() == 1 + usize::from(bias.is_some());
                pieces.push(bias.map(|bias| {
                    biases.push(bias);
                    biases.len() - 1
                }));
            }
            pieces
        };
        let gates = [pieces(inputs, width), pieces(states, hidden)];
        if !fits {
            return None;
        }
        let some = gates.iter().flatten().flatten().copied().next();
        let pieces = match some {
            None => Default::default(),
            // A gate without a bias of its own gets zeros as long as another.
            Some(any) => [&gates[0], &gates[1]].map(|own| zeros_for(own, &gates, any)),
        };
        let kernels =
            |modules: &[&'a Module<'t>]| modules.iter().map(|module| module.get("kernel")).collect();
        let (inputs, states): (Option<Vec<_>>, Option<Vec<_>>) = (kernels(inputs), kernels(states));
        Some(Cell { class, inputs: inputs?, states: states?, biases, pieces, lens: [width, hidden] })
    }

    fn is_like(&self, other: &Cell<'_, '_>) -> bool {
        self.class == other.class && self.lens == other.lens && self.biases.len() == other.biases.len()
    }

    fn map(&self, place: &Place<'_, '_>, suffix: &str, output: &mut Output) -> Result<()> {
        let name = |kind: &str| format!("{kind}_l0{suffix}");
        let transpose = vec![AxisStep::Transpose];
        output.merge(place, &self.inputs, &name("weight_ih"), transpose.clone())?;
        output.merge(place, &self.states, &name("weight_hh"), transpose)?;
        let [input, state] = &self.pieces;
        if !self.biases.is_empty() {
            let (first, second) = (name("bias_ih"), name("bias_hh"));
            let made = [(first.as_str(), input.clone()), (second.as_str(), state.clone())];
            output.assemble(place, &self.biases, &made, Vec::new())?;
        }
        let bias = if self.biases.is_empty() { ", bias=False" } else { "" };
        let [width, hidden] = self.lens;
        // The other direction says it for both.
        if suffix.is_empty() {
            output.set(place, format!("nn.{}({width}, {hidden}{bias}, batch_first=True)", self.class.name()));
        } else {
            output.set(place, "bidirectional=True");
        }
        Ok(())
    }
}

/// The pieces of one of PyTorch's two biases: the gates' own, or zeros in place of the other one's.
fn zeros_for(own: &[Option<usize>], gates: &[Vec<Option<usize>>; 2], any: usize) -> Vec<Piece> {
    let other = |gate: usize| gates.iter().find_map(|biases| biases.get(gate).copied().flatten());
    let piece = |(gate, bias): (usize, &Option<usize>)| match bias {
        Some(source) => Piece::new(*source, false),
        None => Piece::new(other(gate).unwrap_or(any), true),
    };
    own.iter().enumerate().map(piece).collect()
}
