//! Finds tensors that are several in the other checkpoint, joined along an axis: by values.
//!
//! The sums over the slices of an axis show which tensors of the other checkpoint follow each other on it. Then the tensor is
//! split, and the values of its parts are compared.

use super::elements::Sum;
use super::reorder::{Key, Reordering, long_axes, reorderings};
use super::suggestion::{Basis, JoinedAxis, Pair, StepsBasis};
use super::values::Reading;
use crate::mapping::default_limit;
use crate::recipe::{AxisStep, Join, Recipe, Target};
use crate::resources::{default_threads, in_parallel};
use crate::source::Source;
use ckpt_api::{DType, Kind, Limit, Result, TensorId};
use std::collections::{BTreeMap, BTreeSet};

/// How many different lengths of parts are tried on one axis.
const MAX_LENGTHS: usize = 16;

/// The tensors of a checkpoint that have no partner.
#[derive(Clone, Copy)]
pub(super) struct Rest<'s> {
    pub(super) source: &'s Source,
    pub(super) ids: &'s [TensorId],
}

/// A tensor of one checkpoint that several of the other are parts of.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) whole: TensorId,
    pub(super) parts: Vec<TensorId>,
    pub(super) axis: usize,
    pub(super) sizes: Vec<u64>,
    pub(super) steps: Vec<AxisStep>,
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
    let split = match split(wholes.source, &found) {
        // What the step cannot split, a rule cannot split, either.
        Err(error) if matches!(error.kind(), Kind::Mapping | Kind::Unsupported) => return Ok(Vec::new()),
        split => split?,
    };
    let numbered: Vec<(usize, &Joined)> = found.iter().enumerate().collect();
    let steps = in_parallel(&numbered, default_threads(), |(number, joined)| {
        steps(&split, parts.source, (number, joined), direction)
    })?;
    let proven = found.into_iter().zip(steps);
    Ok(proven.filter_map(|(joined, steps)| Some(Joined { steps: steps?, ..joined })).collect())
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
        let read = parts.ids.iter().copied().filter(|id| {
            let (dtype, key) = key(parts.source, *id);
            let mut rests = key.as_part().into_iter();
            rests.any(|(_, rest)| wanted.contains(&(dtype, rest)))
        });
        let read: Vec<TensorId> = read.collect();
        let sums = in_parallel(&read, default_threads(), |id| {
            Ok((id, Reading::own(parts.source, id).sum(parts.source)?))
        })?;
        let mut by_sum = BySum::new();
        for (id, sum) in sums {
            let (Some(sum), (dtype, key)) = (sum, key(parts.source, id)) else { continue };
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
        let lens = self.lens.get(rest)?;
        let most = default_limit(Limit::RuleNames);
        let (mut parts, mut sizes) = (Vec::new(), Vec::new());
        let mut left = sums;
        while !left.is_empty() {
            let fitting = lens.iter().take(MAX_LENGTHS).find_map(|len| {
                let (part, left) = left.split_at_checked(usize::try_from(*len).ok()?)?;
                let ids = self.by_sum.get(&(rest.0, rest.1.clone(), *len, Sum::all(part)))?;
                // Of several with one value, none is known to be the part.
                if let [id] = ids[..] { Some((id, *len, left)) } else { None }
            });
            let (part, len, more) = fitting.filter(|(part, ..)| !parts.contains(part))?;
            if parts.len() == most {
                return None;
            }
            parts.push(part);
            sizes.push(len);
            left = more;
        }
        (parts.len() > 1).then_some((parts, sizes))
    }
}

/// Returns a checkpoint of the parts, which are named by [`part_name`].
fn split(source: &Source, joined: &[Joined]) -> Result<Source> {
    let targets = joined.iter().enumerate().flat_map(|(number, joined)| {
        let whole = source.checkpoint().tensors.get(joined.whole.0).map(|tensor| tensor.name.clone());
        (0..joined.parts.len()).map(move |part| {
            let sizes = Some(joined.sizes.clone());
            let join = Join::Part { axis: joined.axis, part, parts: joined.parts.len(), sizes };
            let recipe = Recipe { join, steps: Vec::new() };
            Target { name: part_name(number, part), sources: whole.iter().cloned().collect(), recipe }
        })
    });
    source.made(&targets.collect::<Vec<_>>())
}

fn part_name(joined: usize, part: usize) -> String {
    format!("{joined}/{part}")
}

/// Returns the steps between the parts of the tensor and the tensors of the other checkpoint, if the same steps make all equal.
fn steps(
    split: &Source,
    other: &Source,
    (number, joined): (usize, &Joined),
    direction: Direction,
) -> Result<Option<Vec<AxisStep>>> {
    let mut common: Option<Vec<Reordering>> = None;
    for (part, id) in joined.parts.iter().enumerate() {
        let Some(cut) = split.find(&part_name(number, part)) else { return Ok(None) };
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
    Ok(common.and_then(|common| common.into_iter().next()).map(|reordering| reordering.steps))
}

impl Joined {
    /// Returns the pair of these tensors, and of those that they are made of.
    pub(super) fn pair(self, wholes: &Source, parts: &Source, direction: Direction) -> Pair {
        let name = |source: &Source, id: TensorId| {
            source.checkpoint().tensors.get(id.0).map(|tensor| tensor.name.clone())
        };
        let whole = name(wholes, self.whole).into_iter().collect();
        let parts = self.parts.iter().filter_map(|id| name(parts, *id)).collect();
        let (sources, targets) = match direction {
            Direction::Split => (whole, parts),
            Direction::Merge => (parts, whole),
        };
        let is_even = self.sizes.windows(2).all(|two| two.first() == two.last());
        let joined = Some(JoinedAxis { axis: self.axis, sizes: (!is_even).then_some(self.sizes) });
        Pair { joined, ..Pair::new(sources, targets, self.steps, Basis::Value, StepsBasis::Only) }
    }
}
