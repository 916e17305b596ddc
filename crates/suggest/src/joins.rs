//! Finds tensors that are several in the other checkpoint, joined along an axis: by values.
//!
//! The sums over the slices of an axis show which tensors of the other checkpoint follow each other on it. Then the
//! tensor is split, and the values of its parts are compared.

use super::elements::Sum;
use super::parts::{Rest, follow};
use super::reorder::{Key, Reordering, long_axes, reorderings};
use super::suggestion::{Basis, JoinedAxis, Pair, StepsBasis};
use super::values::{ByNumber, Reading};
use ckpt_api::{DType, Kind, Result, TensorId};
use ckpt_engine::recipe::{AxisStep, Join, Recipe, Target};
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// How many different lengths of parts are tried on one axis.
const MAX_LENGTHS: usize = 16;

/// A tensor of one checkpoint that several of the other are parts of.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) whole: TensorId,
    pub(super) parts: Vec<TensorId>,
    pub(super) axis: usize,
    pub(super) sizes: Vec<u64>,
    /// All steps with which the values are equal.
    pub(super) steps: Vec<Vec<AxisStep>>,
}

/// What a mapping does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// It splits a tensor of the first checkpoint.
    Split,
    /// It merges tensors of the first checkpoint.
    Merge,
}

/// Returns the tensors of `wholes` that are made of tensors of `parts`; no tensor is part of two.
pub(super) fn joined(wholes: Rest<'_>, parts: Rest<'_>, direction: Direction) -> Result<Vec<Joined>> {
    let (fitting, parts_by_sum) = Parts::new(wholes, parts)?;
    let cut = in_parallel(&fitting, default_threads(), |whole| parts_by_sum.cut(wholes.source, whole))?;
    let mut used = BTreeSet::new();
    let mut found: Vec<Joined> = Vec::new();
    for joined in cut.into_iter().flatten() {
        if joined.parts.iter().all(|part| !used.contains(part)) {
            used.extend(joined.parts.iter().copied());
            found.push(joined);
        }
    }
    if found.is_empty() {
        return Ok(found);
    }
    let (found, split) = split(wholes.source, found)?;
    let numbered: Vec<(usize, &Joined)> = found.iter().enumerate().collect();
    let steps = in_parallel(&numbered, default_threads(), |(number, joined)| {
        steps(&split, parts.source, (number, joined), direction)
    })?;
    let proven = found.into_iter().zip(steps).filter(|(_, steps)| !steps.is_empty());
    Ok(proven.map(|(joined, steps)| Joined { steps, ..joined }).collect())
}

/// Tensors by dtype, the lengths of the other axes, the length of the part and the sum of its elements.
type BySum = BTreeMap<(DType, Key, u64, Sum), Vec<TensorId>>;

fn key(source: &Source, id: TensorId) -> (DType, Key) {
    let dtype = source.canonical(id).dtype;
    (dtype, Key::new(dtype, source.shape(id)))
}

/// The tensors that may be parts.
struct Parts {
    by_sum: BySum,
    /// The lengths of parts, by dtype and the lengths of the other axes.
    lens: BTreeMap<(DType, Key), BTreeSet<u64>>,
}

impl Parts {
    /// Returns the tensors that could have parts, and these parts. Reads all elements of the parts.
    fn new(wholes: Rest<'_>, parts: Rest<'_>) -> Result<(Vec<TensorId>, Self)> {
        let mut lens: BTreeMap<(DType, Key), BTreeSet<u64>> = BTreeMap::new();
        let mut total: BTreeMap<(DType, Key), u64> = BTreeMap::new();
        for id in parts.ids {
            let (dtype, key) = key(parts.source, *id);
            for (len, rest) in key.as_part() {
                lens.entry((dtype, rest.clone())).or_default().insert(len);
                let total = total.entry((dtype, rest)).or_default();
                *total = total.saturating_add(len);
            }
        }
        let mut wanted = BTreeSet::new();
        let mut fitting = Vec::new();
        for id in wholes.ids {
            let (dtype, key) = key(wholes.source, *id);
            let rests = key.without_one().into_iter().filter_map(|(len, rest)| {
                let rest = (dtype, rest);
                total.get(&rest).is_some_and(|total| *total >= len).then_some(rest)
            });
            let rests: Vec<(DType, Key)> = rests.collect();
            if !rests.is_empty() {
                fitting.push(*id);
            }
            wanted.extend(rests);
        }
        lens.retain(|rest, _| wanted.contains(rest));
        Ok((fitting, Parts { by_sum: Self::read(parts, &wanted)?, lens }))
    }

    /// Reads the parts with these lengths of the other axes.
    fn read(parts: Rest<'_>, wanted: &BTreeSet<(DType, Key)>) -> Result<BySum> {
        let sums = parts.sums(|id| {
            let (dtype, key) = key(parts.source, id);
            let mut rests = key.as_part().into_iter();
            rests.any(|(_, rest)| wanted.contains(&(dtype, rest)))
        })?;
        let mut by_sum = BySum::new();
        for (id, sum) in sums {
            let (dtype, key) = key(parts.source, id);
            for (len, rest) in key.as_part() {
                by_sum.entry((dtype, rest, len, sum)).or_default().push(id);
            }
        }
        Ok(by_sum)
    }

    /// Cuts a tensor into parts along the first axis that allows it.
    fn cut(&self, source: &Source, whole: TensorId) -> Result<Option<Joined>> {
        let (shape, reading) = (source.shape(whole), Reading::own(source, whole));
        let Some(sums) = reading.axis_sums(source)? else { return Ok(None) };
        let mut axes = long_axes(shape).into_iter().zip(sums);
        Ok(axes.find_map(|(axis, sums)| {
            let others = (0..shape.len()).filter(|other| *other != axis);
            let others: Vec<u64> = others.filter_map(|other| shape.get(other).copied()).collect();
            let rest = (reading.dtype(), Key::new(reading.dtype(), &others));
            let (parts, sizes) = self.along(&rest, &sums)?;
            Some(Joined { whole, parts, axis, sizes, steps: Vec::new() })
        }))
    }

    /// Returns the parts that follow each other on an axis with these sums, and their lengths.
    fn along(&self, rest: &(DType, Key), sums: &[Sum]) -> Option<(Vec<TensorId>, Vec<u64>)> {
        let lens = self.lens.get(rest)?.iter().take(MAX_LENGTHS);
        let find = |len, sum| self.by_sum.get(&(rest.0, rest.1.clone(), len, sum));
        let parts = follow(sums, lens.copied(), find)?;
        (parts.len() > 1).then(|| parts.into_iter().unzip())
    }
}

/// Returns the tensors that can be split, and a checkpoint of their parts, which are named by [`part_name`].
fn split(source: &Source, mut joined: Vec<Joined>) -> Result<(Vec<Joined>, Source)> {
    loop {
        let error = match source.made(&part_targets(source, &joined)) {
            Ok(split) => return Ok((joined, split)),
            Err(error) => error,
        };
        // What the step cannot split, a rule cannot split, either.
        let is_unsplittable = matches!(error.kind(), Kind::Mapping | Kind::Unsupported);
        let whole = error.context().tensor.and_then(|name| source.find(name)).filter(|_| is_unsplittable);
        let before = joined.len();
        joined.retain(|joined| Some(joined.whole) != whole);
        if joined.len() == before {
            return Err(error);
        }
    }
}

/// The targets that are the parts of these tensors.
fn part_targets(source: &Source, joined: &[Joined]) -> Vec<Target> {
    let targets = joined.iter().enumerate().flat_map(|(number, joined)| {
        let whole = source.checkpoint().tensors.get(joined.whole.0).map(|tensor| tensor.name.to_string());
        (0..joined.parts.len()).map(move |part| {
            let sizes = Some(joined.sizes.clone());
            let join = Join::Part { axis: joined.axis, part, parts: joined.parts.len(), sizes };
            let recipe = Recipe { join, ..Recipe::default() };
            Target { name: part_name(number, part), sources: whole.iter().cloned().collect(), recipe }
        })
    });
    targets.collect()
}

fn part_name(joined: usize, part: usize) -> String {
    format!("{joined}/{part}")
}

/// Returns all steps that make the parts of the tensor and the tensors of the other checkpoint equal; the same for each
/// part.
fn steps(
    split: &Source,
    other: &Source,
    (number, joined): (usize, &Joined),
    direction: Direction,
) -> Result<Vec<Vec<AxisStep>>> {
    let mut common: Option<Vec<Reordering>> = None;
    for (part, id) in joined.parts.iter().enumerate() {
        let Some(cut) = split.find(&part_name(number, part)) else { return Ok(Vec::new()) };
        let (from, to) = match direction {
            Direction::Split => ((split, cut), (other, *id)),
            Direction::Merge => ((other, *id), (split, cut)),
        };
        let mut fitting = Vec::new();
        for reordering in reorderings(from.0.shape(from.1), to.0.shape(to.1)) {
            let is_possible = common.as_ref().is_none_or(|common| common.contains(&reordering));
            let turned = Reading::in_order(to.0, to.1, &reordering.order);
            if is_possible && Reading::own(from.0, from.1).equals(from.0, (to.0, &turned))? {
                fitting.push(reordering);
            }
        }
        common = Some(fitting);
    }
    Ok(common.into_iter().flatten().map(|reordering| reordering.steps).collect())
}

impl Joined {
    /// Returns the pair of these tensors, and of those that they are made of.
    pub(super) fn pair(self, wholes: &Source, parts: &Source, direction: Direction) -> Pair {
        let name = |source: &Source, id: TensorId| {
            source.checkpoint().tensors.get(id.0).map(|tensor| tensor.name.to_string())
        };
        let whole = name(wholes, self.whole).into_iter().collect();
        let parts = self.parts.iter().filter_map(|id| name(parts, *id)).collect();
        let (sources, targets) = match direction {
            Direction::Split => (whole, parts),
            Direction::Merge => (parts, whole),
        };
        let is_even = self.sizes.windows(2).all(|two| two.first() == two.last());
        let joined = Some(JoinedAxis { axis: self.axis, sizes: (!is_even).then_some(self.sizes) });
        let steps = self.steps.first().cloned().unwrap_or_default();
        let (steps_basis, possible_steps) = match self.steps.len() {
            0 | 1 => (StepsBasis::Only, Vec::new()),
            _ => (StepsBasis::Open, self.steps),
        };
        Pair { joined, possible_steps, ..Pair::new(sources, targets, steps, Basis::Value, steps_basis) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_that_cannot_be_split_is_given_up_alone() {
        let digits =
            Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default()).unwrap();
        let joined = |name: &str, sizes: [u64; 2]| Joined {
            whole: digits.find(name).unwrap(),
            parts: vec![TensorId(0), TensorId(1)],
            axis: 0,
            sizes: sizes.to_vec(),
            steps: Vec::new(),
        };
        // Parts of another length than the axis stand for all that a split refuses.
        let found = [
            ("digits/hidden/bias", [30, 2]),
            ("digits/hidden/kernel", [1, 1]),
            ("digits/digit/bias", [4, 6]),
        ];
        let (found, parts) = split(&digits, found.map(|(name, sizes)| joined(name, sizes)).into()).unwrap();
        assert_eq!(found.iter().map(|joined| joined.sizes.as_slice()).collect::<Vec<_>>(), [[30, 2], [4, 6]]);
        let shapes = ["0/0", "0/1", "1/0", "1/1"].map(|name| parts.shape(parts.find(name).unwrap()).to_vec());
        assert_eq!(shapes, [[30], [2], [4], [6]]);
    }
}
