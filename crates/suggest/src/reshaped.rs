//! Finds tensors without a partner that have the elements of others in another shape: by sums over the elements.
//!
//! Where one tensor becomes one, a `reshape` may make the shape, such as that of the heads of an attention layer: its values
//! show whether it does.

use super::elements::Sum;
use super::parts::{Rest, follow};
use super::reorder::long_axes;
use super::values::{ByNumber, Reading};
use ckpt_api::{DType, Kind, Result, TensorId};
use ckpt_engine::recipe::{AxisStep, Recipe, Target};
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// How many different numbers of elements are tried for the parts of a tensor.
const MAX_SIZES: usize = 16;

/// A tensor, and those of the other checkpoint that have its elements.
pub(super) type Reshaped = (TensorId, Vec<TensorId>);

/// Returns the tensors of `wholes` that have the elements of one or several tensors of `parts`.
pub(super) fn reshaped(wholes: Rest<'_>, parts: Rest<'_>) -> Result<Vec<Reshaped>> {
    let mut total: BTreeMap<DType, u64> = BTreeMap::new();
    for id in parts.ids {
        let total = total.entry(dtype(parts, *id)).or_default();
        *total = total.saturating_add(elements(parts, *id));
    }
    let mut largest: BTreeMap<DType, u64> = BTreeMap::new();
    let mut fitting = Vec::new();
    for id in wholes.ids {
        let (dtype, elements) = (dtype(wholes, *id), elements(wholes, *id));
        if elements > 1 && total.get(&dtype).is_some_and(|total| *total >= elements) {
            let largest = largest.entry(dtype).or_default();
            *largest = elements.max(*largest);
            fitting.push(*id);
        }
    }
    let sums = parts.sums(|id| {
        let largest = largest.get(&dtype(parts, id)).copied().unwrap_or_default();
        (2..=largest).contains(&elements(parts, id))
    })?;
    let mut known = Known::default();
    for (id, sum) in sums {
        let (dtype, elements) = (dtype(parts, id), elements(parts, id));
        known.by_sum.entry((dtype, elements, sum)).or_default().push(id);
        known.sizes.entry(dtype).or_default().insert(elements);
    }
    if known.by_sum.is_empty() {
        return Ok(Vec::new());
    }
    let found = in_parallel(&fitting, default_threads(), |id| Ok((id, known.made_of(wholes, id)?)))?;
    Ok(found.into_iter().filter_map(|(id, parts)| Some((id, parts?))).collect())
}

/// Returns the steps that make one tensor another of a different shape, if their values are equal then: a `reshape`,
/// with a transpose before or after it if one of the tensors is a matrix.
pub(super) fn steps_between(
    (a, one): (&Source, TensorId),
    (b, other): (&Source, TensorId),
) -> Result<Option<Vec<AxisStep>>> {
    let Some(name) = a.checkpoint().tensors.get(one.0).map(|tensor| tensor.name.to_string()) else {
        return Ok(None);
    };
    for steps in candidates(a.shape(one), b.shape(other)) {
        let recipe = Recipe { steps: steps.clone(), ..Recipe::default() };
        let target = Target { name: name.clone(), sources: vec![name.clone()], recipe };
        let made = match a.made(&[target]) {
            Ok(made) => made,
            // What the steps cannot change, a rule cannot, either.
            Err(error) if matches!(error.kind(), Kind::Mapping | Kind::Unsupported) => continue,
            Err(error) => return Err(error),
        };
        let Some(id) = made.find(&name).filter(|id| made.shape(*id) == b.shape(other)) else { continue };
        if Reading::own(&made, id).equals(&made, (b, &Reading::own(b, other)))? {
            return Ok(Some(steps));
        }
    }
    Ok(None)
}

/// Returns the steps that may lead from one shape to another of as many elements.
fn candidates(from: &[u64], to: &[u64]) -> Vec<Vec<AxisStep>> {
    let mut all: Vec<Option<Vec<AxisStep>>> = vec![reshape(from, to).map(|step| vec![step])];
    if let [rows, columns] = *to {
        all.push(reshape(from, &[columns, rows]).map(|step| vec![step, AxisStep::Transpose]));
    }
    if let [rows, columns] = *from {
        all.push(reshape(&[columns, rows], to).map(|step| vec![AxisStep::Transpose, step]));
    }
    all.into_iter().flatten().collect()
}

/// Returns the step between two shapes, without the axes that are the same at both ends; `None` if they are equal.
fn reshape(from: &[u64], to: &[u64]) -> Option<AxisStep> {
    let same = |pairs: &mut dyn Iterator<Item = (&u64, &u64)>| pairs.take_while(|(a, b)| a == b).count();
    let most = from.len().min(to.len()).checked_sub(1)?;
    let before = same(&mut from.iter().zip(to)).min(most);
    let after = same(&mut from.iter().rev().zip(to.iter().rev())).min(most - before);
    let lens = |shape: &[u64]| {
        let middle = shape.get(before..shape.len() - after).unwrap_or_default();
        middle.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let place = if before > 0 { format!(" on {before}") } else { String::new() };
    let text = format!("reshape {} -> {}{place}", lens(from), lens(to));
    if from == to { None } else { AxisStep::parse(&text).ok() }
}

fn dtype(rest: Rest<'_>, id: TensorId) -> DType {
    rest.source.canonical(id).dtype
}

fn elements(rest: Rest<'_>, id: TensorId) -> u64 {
    rest.source.shape(id).iter().fold(1, |product, len| product.saturating_mul(*len))
}

/// The tensors that may have the elements of others.
#[derive(Default)]
struct Known {
    /// By dtype, the number of elements and what they sum to.
    by_sum: BTreeMap<(DType, u64, Sum), Vec<TensorId>>,
    sizes: BTreeMap<DType, BTreeSet<u64>>,
}

impl Known {
    /// Returns the tensors that have the elements of this one, in their order on one of its axes.
    fn made_of(&self, wholes: Rest<'_>, id: TensorId) -> Result<Option<Vec<TensorId>>> {
        let (shape, reading) = (wholes.source.shape(id), Reading::own(wholes.source, id));
        let dtype = reading.dtype();
        let Some(sums) = reading.axis_sums(wholes.source)? else { return Ok(None) };
        let all = elements(wholes, id);
        let lens = long_axes(shape).into_iter().filter_map(|axis| shape.get(axis));
        if sums.iter().flat_map(|sums| sums.windows(2)).all(|two| two.first() == two.last()) {
            // All elements are the same, as zeros: that says nothing.
            return Ok(None);
        }
        let mut axes = lens.zip(sums);
        Ok(axes.find_map(|(len, sums)| self.along(dtype, all.checked_div(*len)?, &sums)))
    }

    /// Returns the tensors that follow each other on an axis of which each index has so many elements.
    fn along(&self, dtype: DType, each: u64, sums: &[Sum]) -> Option<Vec<TensorId>> {
        let sizes = self.sizes.get(&dtype)?.iter().take(MAX_SIZES);
        let sizes = sizes.filter(|elements| elements.is_multiple_of(each));
        let lens = sizes.filter_map(|elements| elements.checked_div(each));
        let lens = [u64::try_from(sums.len()).ok()?].into_iter().chain(lens);
        let parts = follow(sums, lens, |len, sum| self.by_sum.get(&(dtype, len.checked_mul(each)?, sum)))?;
        Some(parts.into_iter().map(|(id, _)| id).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reshape_names_only_the_axes_that_change() {
        let text = |from: &[u64], to: &[u64]| reshape(from, to).map(|step| step.to_string());
        assert_eq!(text(&[8, 2, 3], &[8, 6]).as_deref(), Some("reshape 2 3 -> 6 on 1"));
        assert_eq!(text(&[2, 3, 8], &[6, 8]).as_deref(), Some("reshape 2 3 -> 6"));
        assert_eq!(text(&[4, 2, 3, 5], &[4, 6, 5]).as_deref(), Some("reshape 2 3 -> 6 on 1"));
        assert_eq!(text(&[6], &[6, 1]).as_deref(), Some("reshape 6 -> 6 1"));
        assert_eq!(text(&[6, 2], &[6, 2]), None);
        assert_eq!(text(&[], &[1]), None);
    }
}
