//! The order of elements by their size.

use super::parallel;
use crate::kernel::{Extreme, Ranking};
use std::cmp::Ordering;

pub(super) fn ranking<T: PartialOrd + Copy + Sync>(ranking: &Ranking, x: &[T], y: &mut [i32]) -> Option<()> {
    let Ranking { len, inner, count, .. } = *ranking;
    let part = len * inner;
    parallel::rows(y, count * inner, x.len(), |first, y| {
        let mut places: Vec<usize> = Vec::with_capacity(len);
        for (outer, y) in (first..).zip(y.chunks_exact_mut(count * inner)) {
            let x = &x[outer * part..][..part];
            for column in 0..inner {
                places.clear();
                places.extend(0..len);
                let order = |a: &usize, b: &usize| {
                    order(ranking, (x[a * inner + column], *a), (x[b * inner + column], *b))
                };
                // Only the first places are needed in their order.
                if count < len {
                    places.select_nth_unstable_by(count.checked_sub(1)?, order);
                }
                let chosen = places.get_mut(..count)?;
                chosen.sort_unstable_by(order);
                for (rank, place) in chosen.iter().enumerate() {
                    y[rank * inner + column] = i32::try_from(*place).ok()?;
                }
            }
        }
        Some(())
    })
}

/// Which of two elements, each with its place, comes first.
fn order<T: PartialOrd>(ranking: &Ranking, (a, at_a): (T, usize), (b, at_b): (T, usize)) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    let sizes = match (is_nan(&a), is_nan(&b)) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => match ranking.extreme {
            Extreme::Greatest => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
            Extreme::Least => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        },
    };
    sizes.then(if ranking.prefer_last { at_b.cmp(&at_a) } else { at_a.cmp(&at_b) })
}
