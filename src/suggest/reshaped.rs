//! Finds tensors without a partner that have the elements of others in another shape: by sums over the elements.
//!
//! No step changes such a shape, as that of the heads of an attention layer, so a mapping cannot have these pairs.

use super::elements::Sum;
use super::parts::{Rest, follow};
use super::reorder::long_axes;
use super::values::Reading;
use crate::resources::{default_threads, in_parallel};
use ckpt_api::{DType, Result, TensorId};
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
