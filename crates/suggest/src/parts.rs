//! Finds the tensors that follow each other on an axis of another: by sums over the elements.

use super::elements::Sum;
use super::values::Reading;
use ckpt_api::{Limit, Result, TensorId};
use ckpt_engine::mapping::default_limit;
use ckpt_engine::resources::{default_threads, in_parallel};
use ckpt_engine::source::Source;

/// The tensors of a checkpoint that have no partner.
#[derive(Clone, Copy)]
pub(super) struct Rest<'s> {
    pub(super) source: &'s Source,
    pub(super) ids: &'s [TensorId],
}

impl Rest<'_> {
    /// Returns what the elements of the wanted tensors sum to, in their dtypes; without those that have no sum. Reads
    /// all their elements.
    pub(super) fn sums(self, is_wanted: impl Fn(TensorId) -> bool) -> Result<Vec<(TensorId, Sum)>> {
        let wanted: Vec<TensorId> = self.ids.iter().copied().filter(|id| is_wanted(*id)).collect();
        let sums = in_parallel(&wanted, default_threads(), |id| {
            Ok((id, Reading::own(self.source, id).sum(self.source)?))
        })?;
        Ok(sums.into_iter().filter_map(|(id, sum)| Some((id, sum?))).collect())
    }
}

/// Returns the tensors that follow each other on an axis whose indices have these sums, each with the number of its
/// indices; `None` if there are none, more than a rule may name, or one twice.
///
/// `lens` are the numbers of indices that a tensor may have; `find` returns the tensors with such a number and sum.
pub(super) fn follow<'t>(
    mut sums: &[Sum],
    lens: impl Iterator<Item = u64> + Clone,
    find: impl Fn(u64, Sum) -> Option<&'t Vec<TensorId>>,
) -> Option<Vec<(TensorId, u64)>> {
    let mut parts: Vec<(TensorId, u64)> = Vec::new();
    while !sums.is_empty() {
        if parts.len() == default_limit(Limit::RuleNames) {
            return None;
        }
        let (next, rest) = lens.clone().find_map(|len| {
            let (own, rest) = sums.split_at_checked(usize::try_from(len).ok()?)?;
            // Of several with one value, none is known to be the part.
            let [id] = find(len, Sum::all(own))?[..] else { return None };
            let is_new = !own.is_empty() && parts.iter().all(|(part, _)| *part != id);
            is_new.then_some(((id, len), rest))
        })?;
        parts.push(next);
        sums = rest;
    }
    (!parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::super::elements::sum;
    use super::*;

    /// The tensors with these numbers that follow each other, of which each has these bytes; `lens` are tried.
    fn followed(whole: &[u8], parts: &[&[u8]], lens: &[u64]) -> Option<Vec<(usize, u64)>> {
        let of = |byte: &u8| sum(&[*byte], 1);
        let sums: Vec<Sum> = whole.iter().map(of).collect();
        let parts = parts.iter().enumerate().map(|(id, bytes)| {
            let all: Vec<Sum> = bytes.iter().map(of).collect();
            ((bytes.len() as u64, Sum::all(&all)), TensorId(id))
        });
        let mut by_sum: std::collections::BTreeMap<(u64, Sum), Vec<TensorId>> = Default::default();
        parts.for_each(|(key, id)| by_sum.entry(key).or_default().push(id));
        let found = follow(&sums, lens.iter().copied(), |len, sum| by_sum.get(&(len, sum)))?;
        Some(found.into_iter().map(|(id, len)| (id.0, len)).collect())
    }

    #[test]
    fn parts_follow_each_other_up_to_the_end() {
        assert_eq!(followed(&[1, 2, 3], &[&[3], &[1, 2]], &[1, 2]), Some(vec![(1, 2), (0, 1)]));
        assert_eq!(followed(&[1, 2, 3], &[&[1, 2]], &[1, 2]), None);
        assert_eq!(followed(&[], &[&[1]], &[0, 1]), None);
    }

    #[test]
    fn no_tensor_is_two_parts() {
        assert_eq!(followed(&[1, 2, 1, 2], &[&[1, 2]], &[2]), None);
        // A longer part may begin with what another one is.
        assert_eq!(followed(&[1, 1, 2], &[&[1], &[1, 2]], &[1, 2]), Some(vec![(0, 1), (1, 2)]));
    }

    #[test]
    fn of_several_equal_tensors_none_is_a_part() {
        assert_eq!(followed(&[1, 2], &[&[1], &[2], &[2]], &[1]), None);
    }

    #[test]
    fn a_tensor_has_no_more_parts_than_a_rule_may_name() {
        let bytes: Vec<u8> = (0..65).collect();
        let parts: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(followed(&bytes[..64], &parts, &[1]).map(|parts| parts.len()), Some(64));
        assert_eq!(followed(&bytes, &parts, &[1]), None);
    }
}
