//! Kernels of convolutions: where their channels are, and which of them a mapping moved.

use super::lengths::{axis_len, layer_of};
use ckpt_api::{Axis, Contents, Placement, Role, Tensor};
use std::collections::{HashMap, HashSet};

/// Where a framework has the channels of its kernels and images: before the axes of the window, as PyTorch, or behind
/// them, as Keras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    First,
    Last,
}

/// A kernel whose channels a mapping moved from one end to the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel<'m> {
    /// The name of the target.
    pub(super) name: &'m str,
    /// Where its channels are now.
    pub(super) channels: Channels,
    pub(super) inputs: u64,
    pub(super) outputs: u64,
}

/// A tensor, and how it is stored.
pub(super) type Located<'c> = (&'c Tensor, &'c Placement);

/// The tensors of a source, by the names under which its files store them.
pub(super) fn stored(source: &Contents) -> HashMap<&str, Located<'_>> {
    let tensors = source.checkpoint.tensors.iter();
    tensors
        .zip(&source.placements)
        .map(|(tensor, placement)| (placement.name.as_str(), (tensor, placement)))
        .collect()
}

/// Returns the kernels whose channels moved between the source and the targets.
///
/// Where the axes are not known, a tensor of 3 to 5 axes counts whose last two axes came before the others, or the
/// first two behind them.
pub(super) fn moved_kernels<'m>(
    stored: &HashMap<&str, Located<'_>>,
    mapped: &'m Contents,
) -> Vec<Kernel<'m>> {
    let targets = mapped.checkpoint.tensors.iter().zip(&mapped.placements);
    let candidates = targets.filter(|(tensor, _)| tensor.role == Role::Weight);
    let turns: Vec<(Located<'m>, Turned)> = candidates
        .filter_map(|now| {
            let before = stored.get(now.1.name.as_str())?;
            Some((now, turned(*before, now)?))
        })
        .collect();
    let agreed = turns.iter().find_map(|(_, turned)| turned.to);
    let agreed = agreed.unwrap_or_else(|| likely_of_all(stored, &turns));
    let vectors = stored.values().filter(|(tensor, _)| tensor.shape.rank() == 1);
    let vectors: HashSet<(&str, u64)> =
        vectors.map(|(tensor, _)| (layer_of(&tensor.name), tensor.shape.elements())).collect();
    let kernels = turns.iter().filter_map(|((tensor, placement), turned)| {
        let before = stored.get(placement.name.as_str())?.0;
        let channels = turned.to.unwrap_or(agreed);
        let (inputs, mut outputs) = turned.channels(before, tensor, channels)?;
        // The bias of a depthwise kernel shows that it multiplies the channels.
        let (layer, product) = (layer_of(&before.name), inputs.saturating_mul(outputs));
        if !vectors.contains(&(layer, outputs)) && vectors.contains(&(layer, product)) {
            outputs = product;
        }
        Some(Kernel { name: &tensor.name, channels, inputs, outputs })
    });
    kernels.collect()
}

/// Where the channels of a kernel with known axes are.
pub(super) fn channels_of(tensor: &Tensor) -> Option<Channels> {
    let axes = tensor.axes.as_ref()?;
    let input = axes.iter().position(|axis| *axis == Axis::In)?;
    let window =
        axes.iter().position(|axis| matches!(axis, Axis::KernelZ | Axis::KernelY | Axis::KernelX))?;
    Some(if input < window { Channels::First } else { Channels::Last })
}

/// Returns for each axis of a stored tensor the axis of the target that it became; `None` for one that is gone, or
/// where the placements do not show it.
pub(super) fn moved_axes(before: Located<'_>, now: Located<'_>) -> Option<Vec<Option<usize>>> {
    let all = before.0.shape.rank() == now.0.shape.rank();
    let (from, to) = (stored_axes(before, all), stored_axes(now, all));
    if from.len() != to.len() {
        return None;
    }
    let pairs: HashMap<usize, usize> = from.into_iter().zip(to).collect();
    Some((0..before.0.shape.rank()).map(|axis| pairs.get(&axis).copied()).collect())
}

/// The axes in the order in which they are stored; without those of length 1, unless `all` are wanted.
fn stored_axes((tensor, placement): Located<'_>, all: bool) -> Vec<usize> {
    let parts = placement.encoding.parts(tensor.shape.rank());
    let stored = placement.encoding.order.iter().filter_map(|number| parts.get(*number));
    let mut seen = vec![false; tensor.shape.rank()];
    let mut axes = Vec::new();
    for part in stored {
        let is_wanted = all || tensor.shape.get(part.axis).is_some_and(|len| *len != 1);
        if let Some(seen) = seen.get_mut(part.axis).filter(|seen| !**seen && is_wanted) {
            *seen = true;
            axes.push(part.axis);
        }
    }
    axes
}

/// How the channels of a kernel moved.
struct Turned {
    /// Where they are now; `None` if the order alone does not show it: `permute 2 1 0` is its own inverse.
    to: Option<Channels>,
    axes: Vec<Option<usize>>,
}

fn turned(before: Located<'_>, now: Located<'_>) -> Option<Turned> {
    if before.0.axes.is_some() {
        let (from, to) = (channels_of(before.0)?, channels_of(now.0)?);
        return (from != to).then(|| Turned { to: Some(to), axes: Vec::new() });
    }
    let rank = before.0.shape.rank();
    if !(3..=5).contains(&rank) {
        return None;
    }
    let axes = moved_axes(before, now)?;
    let first = are_apart(&axes, [rank - 2, rank - 1], false) && is_kernel(before.0, &axes, rank - 1);
    let last = are_apart(&axes, [0, 1], true) && is_kernel(before.0, &axes, 1);
    let to = match (first, last) {
        (false, false) => return None,
        (true, false) => Some(Channels::First),
        (false, true) => Some(Channels::Last),
        // Of 4 axes, either two may be the channels.
        (true, true) => reversed_pair(&axes).or_else(|| beside_a_multiplier(before.0, &axes)),
    };
    Some(Turned { to, axes })
}

/// Whether these two axes come before all others, or behind them.
fn are_apart(axes: &[Option<usize>], channels: [usize; 2], behind: bool) -> bool {
    let (own, others): (Vec<_>, Vec<_>) =
        axes.iter().enumerate().partition(|(axis, _)| channels.contains(axis));
    let own: Option<Vec<usize>> = own.into_iter().map(|(_, place)| *place).collect();
    let others: Vec<usize> = others.into_iter().filter_map(|(_, place)| *place).collect();
    let Some(own) = own.filter(|_| !others.is_empty()) else { return false };
    own.iter().all(|place| others.iter().all(|other| if behind { place > other } else { place < other }))
}

/// Where the channels are now of a kernel of 4 axes, two of which changed their order: those are the inputs and the
/// outputs.
fn reversed_pair(axes: &[Option<usize>]) -> Option<Channels> {
    let [a, b, c, d] = axes else { return None };
    match (a > b, c > d) {
        (false, true) => Some(Channels::First),
        (true, false) => Some(Channels::Last),
        _ => None,
    }
}

/// Where the channels are now of a depthwise kernel of 4 axes, which has one output for each channel.
fn beside_a_multiplier(tensor: &Tensor, axes: &[Option<usize>]) -> Option<Channels> {
    match (axes.len(), &tensor.shape[..]) {
        (4, [_, len, .., 1]) if *len != 1 => Some(Channels::First),
        (4, [_, 1, .., len]) if *len != 1 => Some(Channels::Last),
        _ => None,
    }
}

/// Whether a tensor of 3 axes is a kernel, and not one of attention: its axes are reversed, or it is a depthwise one,
/// with one output for each channel. More axes leave no doubt.
fn is_kernel(tensor: &Tensor, axes: &[Option<usize>], multiplier: usize) -> bool {
    let is_reversed = axes.is_sorted_by(|a, b| a > b);
    axes.len() > 3
        || is_reversed
        || tensor.shape.get(multiplier) == Some(&1)
        || tensor.name.contains("depthwise")
}

/// Where the channels of most kernels are likely to be now: they are at one end in all kernels of a model.
fn likely_of_all(stored: &HashMap<&str, Located<'_>>, turns: &[(Located<'_>, Turned)]) -> Channels {
    let likely = turns.iter().filter_map(|((tensor, placement), _)| {
        Some(likely_target(stored.get(placement.name.as_str())?.0, tensor))
    });
    let (first, last): (Vec<Channels>, Vec<Channels>) = likely.partition(|end| *end == Channels::First);
    if last.len() > first.len() { Channels::Last } else { Channels::First }
}

/// Where the channels are likely to be now, by the names of the tensors, or else by the shorter end of the stored one:
/// windows are small.
fn likely_target(before: &Tensor, now: &Tensor) -> Channels {
    let is = |tensor: &Tensor, word: &str| tensor.name.rsplit(['/', '.']).any(|part| part.ends_with(word));
    match () {
        () if is(before, "kernel") => Channels::First,
        () if is(before, "weight") => Channels::Last,
        () if is(now, "weight") => Channels::First,
        () if is(now, "kernel") => Channels::Last,
        () if before.shape.first() > before.shape.last() => Channels::Last,
        () => Channels::First,
    }
}

impl Turned {
    /// The numbers of input and output channels.
    fn channels(&self, before: &Tensor, now: &Tensor, to: Channels) -> Option<(u64, u64)> {
        if self.axes.is_empty() {
            let inputs = axis_len(now, Axis::In)?;
            let each = axis_len(now, Axis::Multiplier);
            let outputs = axis_len(now, Axis::Out).or(each.map(|each| each.saturating_mul(inputs)))?;
            return Some((inputs, outputs));
        }
        let rank = before.shape.rank();
        let (mut input, mut output) = match to {
            Channels::First => (rank.checked_sub(2)?, rank.checked_sub(1)?),
            Channels::Last => (1, 0),
        };
        if [before, now].iter().any(|tensor| tensor.name.contains("transpose")) {
            std::mem::swap(&mut input, &mut output);
        }
        let place = |axis: usize| self.axes.get(axis).copied().flatten();
        let len = |axis: usize| place(axis).and_then(|place| now.shape.get(place)).copied();
        let (inputs, outputs) = (len(input)?, len(output)?);
        Some(match to {
            // The channels before their multiplier, in which order PyTorch has the outputs of a depthwise kernel.
            Channels::First if place(input) < place(output) => (inputs, inputs.saturating_mul(outputs)),
            Channels::Last if inputs == 1 && place(output) < place(input) => (outputs, outputs),
            _ => (inputs, outputs),
        })
    }
}
