//! Finds the steps that turn one shape into another by reordering axes.

use ckpt_api::DType;
use ckpt_engine::recipe::AxisStep;
use std::cmp::Ordering;

/// The most axes longer than 1 whose every order is tried: 24 orders.
const MAX_REORDERED: usize = 4;

/// The number of axes of a kernel for volumes. Only orders that keep depth, height and width next to each other are
/// tried.
const VOLUME_RANK: usize = 5;

/// Tensors with different keys cannot be the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    kind: DTypeKind,
    /// The axes longer than 1, sorted.
    lengths: Vec<u64>,
}

/// dtypes between which a conversion may cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DTypeKind {
    Float,
    Complex,
    Text,
    /// Integers, quantized or not, and truth values.
    Integer,
}

impl Key {
    pub(super) fn new(dtype: DType, shape: &[u64]) -> Self {
        let kind = match dtype {
            dtype if dtype.is_float() => DTypeKind::Float,
            DType::C64 | DType::C128 => DTypeKind::Complex,
            DType::String | DType::Variant => DTypeKind::Text,
            _ => DTypeKind::Integer,
        };
        let mut lengths = core(shape);
        lengths.sort_unstable();
        Key { kind, lengths }
    }

    /// Returns for each length of an axis longer than 1 the key of what remains without this axis.
    pub(super) fn without_one(&self) -> Vec<(u64, Key)> {
        let mut lengths = self.lengths.clone();
        lengths.dedup();
        let without = lengths.into_iter().map(|len| {
            let first = self.lengths.iter().position(|other| *other == len);
            let others = self.lengths.iter().enumerate().filter(|(axis, _)| Some(*axis) != first);
            (len, Key { kind: self.kind, lengths: others.map(|(_, len)| *len).collect() })
        });
        without.collect()
    }

    /// Returns the lengths that a tensor with this key can have on the axis along which it is joined with others, each
    /// with the key of what remains. A single number is no part.
    pub(super) fn as_part(&self) -> Vec<(u64, Key)> {
        let mut parts = self.without_one();
        parts.extend((!self.lengths.is_empty()).then(|| (1, self.clone())));
        parts
    }
}

/// Steps from one shape to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reordering {
    pub(super) steps: Vec<AxisStep>,
    /// The permutation of the axes longer than 1: axis `k` of the source becomes axis `order[k]` of the target.
    pub(super) order: Vec<usize>,
}

/// Returns all reorderings from one shape to another; the identity comes first.
pub(super) fn reorderings(from: &[u64], to: &[u64]) -> Vec<Reordering> {
    let (from_core, to_core) = (core(from), core(to));
    let mut found = Vec::new();
    for order in orders(from_core.len()) {
        let fits = order.len() == to_core.len()
            && order.iter().zip(&to_core).all(|(axis, len)| from_core.get(*axis) == Some(len));
        if fits {
            let steps = steps(from, to, &order);
            found.push(Reordering { steps, order: ckpt_engine::layout::inverse_permutation(&order) });
        }
    }
    found
}

/// Returns all permutations from one shape to another, of the axes of length 1, too: several have the same effect on
/// these tensors, but only some fit other tensors. Empty where the numbers of axes differ.
pub(super) fn variants(from: &[u64], to: &[u64]) -> Vec<Reordering> {
    if from.len() != to.len() || from.len() > VOLUME_RANK {
        return Vec::new();
    }
    let is_long = |axis: &&usize| from.get(**axis) != Some(&1);
    let long = long_axes(from);
    let fitting = orders(from.len()).into_iter();
    let fitting =
        fitting.filter(|order| order.iter().zip(to).all(|(axis, len)| from.get(*axis) == Some(len)));
    let variants = fitting.map(|order| {
        let moved =
            order.iter().filter(is_long).filter_map(|axis| long.iter().position(|other| other == axis));
        let moved: Vec<usize> = moved.collect();
        let steps =
            if order.iter().copied().eq(0..order.len()) { Vec::new() } else { vec![reordered(order)] };
        Reordering { steps, order: ckpt_engine::layout::inverse_permutation(&moved) }
    });
    variants.collect()
}

/// Whether a tensor has so many axes longer than 1 that not all their orders are tried.
pub(super) fn has_many_axes(shape: &[u64]) -> bool {
    core(shape).len() > MAX_REORDERED
}

/// Returns the lengths of the axes longer than 1.
pub(super) fn core(shape: &[u64]) -> Vec<u64> {
    shape.iter().copied().filter(|len| *len != 1).collect()
}

/// Returns the axes longer than 1.
pub(super) fn long_axes(shape: &[u64]) -> Vec<usize> {
    (0..shape.len()).filter(|axis| shape.get(*axis) != Some(&1)).collect()
}

/// Returns the orders of this many axes that are tried, the identity first.
fn orders(rank: usize) -> Vec<Vec<usize>> {
    match rank {
        VOLUME_RANK => volume_orders(),
        0..=MAX_REORDERED => all_orders(rank),
        _ => vec![(0..rank).collect()],
    }
}

/// Returns the orders of five axes in which three neighbors stay together.
fn volume_orders() -> Vec<Vec<usize>> {
    let mut orders: Vec<Vec<usize>> = Vec::new();
    for first in 0..=VOLUME_RANK - 3 {
        // Three units: the neighbors and the two other axes.
        let unit = |unit: usize| match unit.cmp(&first) {
            Ordering::Less => unit..unit + 1,
            Ordering::Equal => first..first + 3,
            Ordering::Greater => unit + 2..unit + 3,
        };
        for order in all_orders(3) {
            let order: Vec<usize> = order.into_iter().flat_map(unit).collect();
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
    }
    orders
}

/// Returns all orders of this many axes, the identity first.
fn all_orders(rank: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..rank {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            let free = (0..rank).filter(|axis| !order.contains(axis));
            free.map(|axis| order.iter().copied().chain([axis]).collect::<Vec<usize>>())
        });
        orders = longer.collect();
    }
    orders
}

/// Returns the steps for one order of the axes longer than 1: axis `order[k]` of the source becomes axis `k` of the
/// target.
fn steps(from: &[u64], to: &[u64], order: &[usize]) -> Vec<AxisStep> {
    if order.iter().copied().eq(0..order.len()) && (from.len() != to.len() || from == to) {
        return align(from, to);
    }
    if from.len() == to.len() {
        return vec![reordered(full_order(from, to, order))];
    }
    let mut steps = align(from, &core(from));
    steps.push(reordered(order.to_vec()));
    steps.extend(align(&core(to), to));
    steps
}

fn reordered(order: Vec<usize>) -> AxisStep {
    if order == [1, 0] { AxisStep::Transpose } else { AxisStep::Permute(order) }
}

/// Returns the order of all axes: those of length 1 take the remaining places, in their order.
fn full_order(from: &[u64], to: &[u64], order: &[usize]) -> Vec<usize> {
    let axes = |ones: bool| {
        (0..from.len()).filter(move |axis| from.get(*axis).is_some_and(|len| (*len == 1) == ones))
    };
    let long: Vec<usize> = axes(false).collect();
    let mut long = order.iter().filter_map(|axis| long.get(*axis).copied());
    let mut short = axes(true);
    to.iter().filter_map(|len| if *len == 1 { short.next() } else { long.next() }).collect()
}

/// Removes and inserts axes of length 1; the other axes are the same.
fn align(from: &[u64], to: &[u64]) -> Vec<AxisStep> {
    let mut steps = Vec::new();
    let (mut from, mut to) = (from.iter().peekable(), to.iter().peekable());
    let mut at = 0;
    loop {
        match (from.peek(), to.peek()) {
            (None, None) => return steps,
            (Some(a), Some(b)) if a == b => {
                from.next();
                to.next();
                at += 1;
            }
            (Some(1), _) => {
                from.next();
                steps.push(AxisStep::Squeeze(at));
            }
            (_, Some(1)) => {
                to.next();
                steps.push(AxisStep::Unsqueeze(at));
                at += 1;
            }
            // Unreachable: callers compare the axes longer than 1.
            _ => return steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(from: &[u64], to: &[u64]) -> Vec<String> {
        let found = reorderings(from, to).into_iter();
        found.map(|one| one.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")).collect()
    }

    #[test]
    fn equal_shapes_need_no_step_and_square_ones_may_be_transposed() {
        assert_eq!(shown(&[2, 3], &[2, 3]), [""]);
        assert_eq!(shown(&[3, 3], &[3, 3]), ["", "transpose"]);
        assert_eq!(shown(&[], &[]), [""]);
    }

    #[test]
    fn axes_are_reordered_where_the_lengths_say_so() {
        assert_eq!(shown(&[2, 3], &[3, 2]), ["transpose"]);
        assert_eq!(shown(&[3, 3, 8, 16], &[16, 8, 3, 3]), ["permute 3 2 0 1", "permute 3 2 1 0"]);
        assert_eq!(shown(&[1, 1, 8, 16], &[16, 8, 1, 1]), ["permute 3 2 0 1"]);
    }

    #[test]
    fn kernels_of_volumes_keep_depth_height_and_width_together() {
        assert_eq!(shown(&[2, 3, 4, 8, 16], &[16, 8, 2, 3, 4]), ["permute 4 3 0 1 2"]);
        assert_eq!(shown(&[16, 8, 2, 3, 4], &[2, 3, 4, 8, 16]), ["permute 2 3 4 1 0"]);
        assert_eq!(shown(&[3, 3, 3, 8, 16], &[16, 8, 3, 3, 3]), ["permute 4 3 0 1 2"]);
        assert_eq!(shown(&[2; 5], &[2; 5]).first().map(String::as_str), Some(""));
        assert_eq!(volume_orders().len(), 14);
    }

    #[test]
    fn axes_of_length_1_come_and_go() {
        assert_eq!(shown(&[1, 4, 12], &[4, 12]), ["squeeze 0"]);
        assert_eq!(shown(&[4, 12], &[4, 1, 12]), ["unsqueeze 1"]);
        assert_eq!(shown(&[1, 1, 5], &[1, 5]), ["squeeze 1"]);
        assert_eq!(shown(&[1, 4, 12], &[12, 4]), ["squeeze 0, transpose"]);
        assert_eq!(shown(&[1, 1], &[]), ["squeeze 0, squeeze 0"]);
    }

    #[test]
    fn other_lengths_have_no_reordering() {
        assert!(reorderings(&[2, 3], &[2, 4]).is_empty() && reorderings(&[2], &[2, 2]).is_empty());
        assert_eq!(reorderings(&[2, 3, 4, 5, 6], &[6, 5, 4, 3, 2]), []);
        assert_eq!(reorderings(&[2, 3, 4, 5, 6], &[2, 3, 4, 5, 6]).len(), 1);
    }
}
