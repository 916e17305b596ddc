//! Values of a graph as values of the program, with their axes in another order: they are moved only if that matters.
//!
//! A graph of Keras's layers moves the channels of images to the second place and back again. What follows each other
//! cancels.

use super::attributes::ints;
use super::program::{Program, ValueId, pieces};
use ckpt_api::{Node, Result};
use ckpt_graph::shape::resolve;
use std::collections::HashMap;

/// A value of a graph: axes of a value of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) base: ValueId,
    /// For each axis, that of the base, or `None` for one of length 1 that the base does not have. `None` if the number of
    /// axes is not known.
    pub(super) axes: Option<Vec<Option<usize>>>,
}

impl View {
    /// All axes of a value in their order.
    pub(super) fn whole(base: ValueId, rank: Option<usize>) -> Self {
        View { base, axes: rank.map(|rank| (0..rank).map(Some).collect()) }
    }

    /// Whether the value is the base itself.
    pub(super) fn is_whole(&self) -> bool {
        self.axes.as_ref().is_none_or(|axes| axes.iter().copied().eq((0..axes.len()).map(Some)))
    }

    /// The axes of the base in the order of this view, without axes that the base does not have.
    pub(super) fn order(&self) -> Option<Vec<usize>> {
        self.axes.as_ref().map(|axes| axes.iter().flatten().copied().collect())
    }

    /// Whether the base has the channels in the second place, and this view at the end.
    pub(super) fn moves_channels_last(&self) -> bool {
        self.order().is_some_and(|order| {
            let rank = order.len();
            rank > 2 && order.iter().copied().eq([0].into_iter().chain(2..rank).chain([1]))
        })
    }
}

/// The views of all values of a graph.
#[derive(Default)]
pub(super) struct Views {
    of: HashMap<String, View>,
    /// Values that were moved already.
    moved: HashMap<View, ValueId>,
}

impl Views {
    pub(super) fn set(&mut self, name: &str, view: View) {
        self.of.insert(name.to_owned(), view);
    }

    pub(super) fn get(&self, name: &str) -> Option<&View> {
        self.of.get(name)
    }

    /// The value itself, in a variable of the program.
    pub(super) fn read(&mut self, view: &View, program: &mut Program) -> ValueId {
        if view.is_whole() {
            return view.base;
        }
        if let Some(value) = self.moved.get(view) {
            return *value;
        }
        let hint = program.hints.get(view.base).cloned().unwrap_or_default();
        let (order, axes) = (view.order().unwrap_or_default(), view.axes.clone().unwrap_or_default());
        let mut value = view.base;
        if !order.is_sorted() {
            let listed: Vec<String> = order.iter().map(usize::to_string).collect();
            value = program.assign(&hint, pieces(&format!("{{}}.permute({})", listed.join(", ")), &[value]));
            if let Some(statement) = program.statements.last_mut() {
                statement.comment = moves(&order);
            }
        }
        for (axis, _) in axes.iter().enumerate().filter(|(_, own)| own.is_none()) {
            value = program.assign(&hint, pieces(&format!("{{}}.unsqueeze({axis})"), &[value]));
        }
        self.moved.insert(view.clone(), value);
        value
    }
}

/// What a permutation does, if it has a name.
fn moves(order: &[usize]) -> Option<&'static str> {
    let rank = order.len();
    let is = |expected: &mut dyn Iterator<Item = usize>| order.iter().copied().eq(expected);
    match rank {
        0..=3 => None,
        _ if is(&mut [0, rank - 1].into_iter().chain(1..rank - 1)) => Some("channels first"),
        _ if is(&mut [0].into_iter().chain(2..rank).chain([1])) => Some("channels last"),
        _ => None,
    }
}

/// The view after a Transpose, a Squeeze or an Unsqueeze; `None` if the value itself has to change.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for attributes of other types.
pub(super) fn moved(node: &Node, view: &View) -> Result<Option<View>> {
    use ckpt_api::Op::{Squeeze, Transpose, Unsqueeze};
    let Some(axes) = &view.axes else { return Ok(None) };
    let listed = ints(node, if node.op == Transpose { "perm" } else { "axes" })?;
    let rank = axes.len();
    let after = match (&node.op, listed) {
        (Transpose, None) => Some(axes.iter().rev().copied().collect()),
        (Transpose, Some(perm)) => permuted(axes, perm),
        (Squeeze, Some(listed)) => {
            let gone: Option<Vec<usize>> = listed.iter().map(|axis| resolve(*axis, rank)).collect();
            let gone = gone.filter(|gone| gone.iter().all(|axis| axes.get(*axis) == Some(&None)));
            let kept = |gone: Vec<usize>| {
                axes.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, own)| *own).collect()
            };
            gone.map(kept)
        }
        (Unsqueeze, Some(listed)) => {
            let all = rank.saturating_add(listed.len());
            let new: Option<Vec<usize>> = listed.iter().map(|axis| resolve(*axis, all)).collect();
            new.map(|new| {
                let mut rest = axes.iter();
                (0..all)
                    .map(|at| if new.contains(&at) { None } else { rest.next().copied().flatten() })
                    .collect()
            })
        }
        _ => None,
    };
    Ok(after.map(|axes| View { base: view.base, axes: Some(axes) }))
}

fn permuted(axes: &[Option<usize>], perm: &[i64]) -> Option<Vec<Option<usize>>> {
    if perm.len() != axes.len() {
        return None;
    }
    let mut seen = vec![false; axes.len()];
    let own = |axis: &i64| {
        let axis = usize::try_from(*axis).ok()?;
        let seen = seen.get_mut(axis)?;
        (!std::mem::replace(seen, true)).then_some(*axes.get(axis)?)
    };
    perm.iter().map(own).collect()
}
