//! Pairs the tensors of two checkpoints: by values first, then by names.

use super::images;
use super::joins::{self, Direction};
use super::names::{Index, Name, Parents};
use super::parts::Rest;
use super::reorder::{Key, Reordering, has_many_axes, reorderings};
use super::reshaped::{reshaped, steps_between};
use super::steps::{Undecided, decide};
use super::suggestion::{Basis, Pair, Reshaped, StepsBasis, Untried};
use super::values::{ByNumber, Crowd, Equal, Groups, by_dtype, by_sum, common, originals};
use ckpt_api::{Limit, Result, Role, TensorId};
use ckpt_engine::mapping::default_limit;
use ckpt_engine::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The most comparisons of each name with each other, at once and in all; with more, only names with the same numbers
/// or corresponding parents are compared.
const MAX_COMPARISONS: (usize, usize) = (250_000, 1_000_000);

/// For each tensor of the first checkpoint, the tensors of the second that it could be.
pub(super) type Candidates = BTreeMap<TensorId, BTreeSet<TensorId>>;

/// The pairs found so far.
pub(super) struct Pairing<'s> {
    a: &'s Source,
    b: &'s Source,
    names: (Vec<Name>, Vec<Name>),
    parents: Parents,
    pairs: Vec<Undecided>,
    /// Pairs of tensors and their parts.
    joined: Vec<Pair>,
    reshaped: Vec<Reshaped>,
    /// Tensors of the first checkpoint that could be several, or that share one with others.
    ambiguous: Candidates,
    taken: (BTreeSet<TensorId>, BTreeSet<TensorId>),
    /// The number of comparisons left.
    comparisons: usize,
}

impl<'s> Pairing<'s> {
    pub(super) fn new(a: &'s Source, b: &'s Source) -> Self {
        let names = |source: &Source| {
            source.checkpoint().tensors.iter().map(|tensor| Name::new(&tensor.name)).collect()
        };
        Pairing {
            a,
            b,
            names: (names(a), names(b)),
            parents: Parents::default(),
            pairs: Vec::new(),
            joined: Vec::new(),
            reshaped: Vec::new(),
            ambiguous: Candidates::new(),
            taken: Default::default(),
            comparisons: MAX_COMPARISONS.1,
        }
    }

    /// Pairs all tensors that it can, the most certain pairs first. Reads the tensors that could be parts of others.
    pub(super) fn decide(&mut self, groups: &Groups, equal: &Equal) -> Result<()> {
        let candidates: Candidates =
            equal.partners.iter().map(|(a, of_b)| (*a, of_b.keys().copied().collect())).collect();
        let backwards = reversed(&candidates);
        let crowded: BTreeSet<TensorId> = equal.crowds.iter().flat_map(Crowd::of_b).collect();
        let (mut several, mut unsure) = (Vec::new(), Candidates::new());
        for (a, of_b) in &candidates {
            let of_a = of_b.first().and_then(|b| backwards.get(b)).cloned().unwrap_or_default();
            let alone = |a: &TensorId| candidates.get(a).is_some_and(|of_b| of_b.len() == 1);
            let complete = match (of_a.len(), of_b.len()) {
                _ if of_b.iter().any(|b| crowded.contains(b)) => false,
                (1, 1) => true,
                _ if of_a.len().max(of_b.len()) > default_limit(Limit::RuleNames) => false,
                _ if equal.constant.contains(a) => false,
                (1, _) => of_b.iter().all(|b| backwards.get(b) == Some(&of_a)),
                (_, 1) => of_a.iter().all(alone),
                _ => false,
            };
            if !complete {
                unsure.insert(*a, of_b.clone());
            } else if of_a.first() == Some(a) {
                several.push((of_a, of_b.clone()));
            }
        }
        for (of_a, of_b) in several {
            let found = self.reorderings_by_value(equal, &of_a, &of_b);
            if found.is_empty() {
                // Copies in several orders cannot be one rule.
                unsure.extend(of_a.into_iter().map(|a| (a, of_b.clone())));
            } else {
                self.accept(of_a, of_b, found, Basis::Value);
            }
        }
        self.by_name(unsure, Basis::ValueAndName, |a, b| {
            equal.partners.get(&a).and_then(|of_b| of_b.get(&b)).cloned().unwrap_or_default()
        });
        for crowd in &equal.crowds {
            let of_b: BTreeSet<TensorId> = crowd.of_b().filter(|b| !self.taken.1.contains(b)).collect();
            let candidates = self.comparable(&crowd.of_a, &of_b);
            let (a, b) = (self.a, self.b);
            self.by_name(candidates, Basis::ValueAndName, |one, other| {
                crowd.reorderings((one, a.shape(one)), (other, b.shape(other)))
            });
        }
        self.pair_by_elements(groups, &equal.crowds)?;
        self.pair_with_parts(&equal.crowds)?;
        self.pair_by_shape(groups, &equal.crowds);
        self.find_reshaped(&equal.crowds)
    }

    /// Pairs tensors with the parts of which they are made.
    fn pair_with_parts(&mut self, crowds: &[Crowd]) -> Result<()> {
        for direction in [Direction::Split, Direction::Merge] {
            let (of_a, of_b) = self.rest(crowds);
            let (a, b) = (Rest { source: self.a, ids: &of_a }, Rest { source: self.b, ids: &of_b });
            let (wholes, parts) = if direction == Direction::Split { (a, b) } else { (b, a) };
            for joined in joins::joined(wholes, parts, direction)? {
                let (of_wholes, of_parts) = match direction {
                    Direction::Split => (&mut self.taken.0, &mut self.taken.1),
                    Direction::Merge => (&mut self.taken.1, &mut self.taken.0),
                };
                of_wholes.insert(joined.whole);
                of_parts.extend(&joined.parts);
                self.joined.push(joined.pair(wholes.source, parts.source, direction));
            }
        }
        Ok(())
    }

    /// Finds the tensors that have the elements of others in another shape.
    fn find_reshaped(&mut self, crowds: &[Crowd]) -> Result<()> {
        let (of_a, of_b) = self.rest(crowds);
        let (a, b) = (Rest { source: self.a, ids: &of_a }, Rest { source: self.b, ids: &of_b });
        for (whole, parts) in reshaped(a, b)? {
            let steps = match parts[..] {
                [part] => steps_between((self.a, whole), (self.b, part))?,
                _ => None,
            };
            match (steps, &parts[..]) {
                (Some(steps), [part]) if !self.taken.1.contains(part) => {
                    self.taken.0.insert(whole);
                    self.taken.1.insert(*part);
                    let names = |source: &Source, id| name(source, id).into_iter().collect();
                    let (sources, targets) = (names(self.a, whole), names(self.b, *part));
                    self.joined.push(Pair::new(sources, targets, steps, Basis::Value, StepsBasis::Only));
                }
                _ => self.add_reshaped(&[whole], &parts),
            }
        }
        // One tensor and another are found from both sides.
        for (whole, parts) in reshaped(b, a)?.into_iter().filter(|(_, parts)| parts.len() > 1) {
            let is_taken = parts.iter().any(|part| self.taken.0.contains(part));
            if is_taken || self.taken.1.contains(&whole) {
                continue;
            }
            self.add_reshaped(&parts, &[whole]);
        }
        Ok(())
    }

    fn add_reshaped(&mut self, of_a: &[TensorId], of_b: &[TensorId]) {
        let names =
            |source: &Source, ids: &[TensorId]| ids.iter().filter_map(|id| name(source, *id)).collect();
        let key = |source: &Source, id: TensorId| Key::new(source.canonical(id).dtype, source.shape(id));
        let untried = match (of_a, of_b) {
            // The axes may have an order that is not tried.
            ([one], [other]) if key(self.a, *one) == key(self.b, *other) => {
                has_many_axes(self.a.shape(*one)).then_some(Untried::ManyAxes)
            }
            _ => None,
        };
        let (sources, targets) = (names(self.a, of_a), names(self.b, of_b));
        self.reshaped.push(Reshaped { sources, targets, untried });
    }

    /// Returns the tensors of both checkpoints that have no partner.
    fn rest(&self, crowds: &[Crowd]) -> (Vec<TensorId>, Vec<TensorId>) {
        let open = Open::new(&self.ambiguous, crowds);
        let [a, b] = [self.a, self.b].map(|source| originals(source).map(|(id, _)| id));
        let (a, b): (Vec<TensorId>, Vec<TensorId>) = (a.collect(), b.collect());
        (open.of_a(&a, &self.taken.0).collect(), open.of_b(&b, &self.taken.1).collect())
    }

    /// Pairs the tensors that have the same elements in another order. Reads those without a partner.
    fn pair_by_elements(&mut self, groups: &Groups, crowds: &[Crowd]) -> Result<()> {
        let (a, b) = (self.a, self.b);
        let open = Open::new(&self.ambiguous, crowds);
        for (of_a, of_b) in groups.values() {
            let of_a: Vec<TensorId> = open.of_a(of_a, &self.taken.0).collect();
            let of_b: Vec<TensorId> = open.of_b(of_b, &self.taken.1).collect();
            if of_a.is_empty() || of_b.is_empty() {
                continue;
            }
            let (of_a, of_b) = (by_dtype(a, &of_a), by_dtype(b, &of_b));
            for (dtype_a, of_a) in &of_a {
                for (dtype_b, of_b) in &of_b {
                    let Some(dtype) = common(*dtype_a, *dtype_b) else { continue };
                    let (of_a, mut of_b) = (by_sum(a, of_a, dtype)?, by_sum(b, of_b, dtype)?);
                    for (sum, of_a) in of_a {
                        self.pair_reordered(of_a, of_b.remove(&sum).unwrap_or_default());
                    }
                }
            }
        }
        Ok(())
    }

    /// Pairs tensors that have the same elements.
    fn pair_reordered(&mut self, mut of_a: Vec<TensorId>, mut of_b: Vec<TensorId>) {
        let (a, b) = (self.a, self.b);
        // With several dtypes, a tensor is compared several times.
        of_a.retain(|id| !self.taken.0.contains(id));
        of_b.retain(|id| !self.taken.1.contains(id));
        if let ([one], [other]) = (&of_a[..], &of_b[..]) {
            let found = reorderings(a.shape(*one), b.shape(*other));
            self.accept(BTreeSet::from([*one]), BTreeSet::from([*other]), found, Basis::Elements);
        } else if !of_a.is_empty() && !of_b.is_empty() {
            let candidates = self.comparable(&of_a, &of_b.into_iter().collect());
            self.by_name(candidates, Basis::Elements, |one, other| reorderings(a.shape(one), b.shape(other)));
        }
    }

    /// Returns the tensors to compare by name.
    fn comparable(&mut self, of_a: &[TensorId], of_b: &BTreeSet<TensorId>) -> Candidates {
        let all = of_a.len().saturating_mul(of_b.len());
        if let Some(left) = self.comparisons.checked_sub(all).filter(|_| all <= MAX_COMPARISONS.0) {
            self.comparisons = left;
            return of_a.iter().map(|id| (*id, of_b.clone())).collect();
        }
        let named = of_b.iter().filter_map(|id| Some((*id, self.names.1.get(id.0)?)));
        let index = Index::new(named);
        let near =
            of_a.iter().filter_map(|id| Some((*id, index.near(self.names.0.get(id.0)?, &self.parents))));
        near.collect()
    }

    /// Pairs the tensors that no value decides: by name among those of one role and shape, or because only one is left.
    /// What a format keeps for itself says nothing about another checkpoint.
    fn pair_by_shape(&mut self, groups: &Groups, crowds: &[Crowd]) {
        let (a, b) = (self.a, self.b);
        let open = Open::new(&self.ambiguous, crowds);
        let roles = [Role::Weight, Role::Optimizer, Role::Counter];
        for ((of_a, of_b), role) in groups.values().flat_map(|group| roles.map(|role| (group, role))) {
            let free_a = open.of_a(of_a, &self.taken.0).filter(|id| a.role(*id) == role);
            let free_a: Vec<TensorId> = free_a.collect();
            let free_b = open.of_b(of_b, &self.taken.1).filter(|id| b.role(*id) == role);
            let free_b: BTreeSet<TensorId> = free_b.collect();
            if let ([only_a], Some(only_b), 1) = (&free_a[..], free_b.first(), free_b.len()) {
                let elements = a.shape(*only_a).iter().product::<u64>();
                if elements > 1 {
                    let found = reorderings(a.shape(*only_a), b.shape(*only_b));
                    self.accept(BTreeSet::from([*only_a]), BTreeSet::from([*only_b]), found, Basis::Shape);
                    continue;
                }
            }
            let candidates = self.comparable(&free_a, &free_b);
            self.by_name(candidates, Basis::Name, |one, other| reorderings(a.shape(one), b.shape(other)));
        }
        // A tensor without a similar name is unpaired, not ambiguous.
        let is_similar = |a: &TensorId, b: &TensorId| self.similarity(*a, *b) > 0.0;
        let ambiguous = self.ambiguous.iter().filter_map(|(id, of_b)| {
            let of_b: BTreeSet<TensorId> =
                of_b.iter().copied().filter(|b| !self.taken.1.contains(b) && is_similar(id, b)).collect();
            (!of_b.is_empty()).then_some((*id, of_b))
        });
        self.ambiguous = ambiguous.collect();
    }

    /// Pairs tensors whose names are each other's most similar, as long as there are any; the others are ambiguous.
    fn by_name(
        &mut self,
        mut open: Candidates,
        basis: Basis,
        reorderings: impl Fn(TensorId, TensorId) -> Vec<Reordering>,
    ) {
        let all = open.iter().flat_map(|(a, of_b)| of_b.iter().map(|b| (*a, *b)));
        let scores = all.map(|(a, b)| (a, b, self.similarity(a, b))).filter(|(_, _, score)| *score > 0.0);
        let matched = most_similar(scores.collect());
        let taken: BTreeSet<TensorId> = matched.values().copied().collect();
        open.retain(|a, _| !matched.contains_key(a));
        open.values_mut().for_each(|of_b| of_b.retain(|b| !taken.contains(b)));
        for (a, b) in matched {
            self.accept(BTreeSet::from([a]), BTreeSet::from([b]), reorderings(a, b), basis);
        }
        self.ambiguous.extend(open.into_iter().filter(|(_, of_b)| !of_b.is_empty()));
    }

    fn similarity(&self, a: TensorId, b: TensorId) -> f64 {
        match (self.names.0.get(a.0), self.names.1.get(b.0)) {
            (Some(a), Some(b)) => self.parents.similarity(a, b),
            _ => 0.0,
        }
    }

    /// Returns the reorderings by which each of `of_a` equals each of `of_b`.
    fn reorderings_by_value(
        &self,
        equal: &Equal,
        of_a: &BTreeSet<TensorId>,
        of_b: &BTreeSet<TensorId>,
    ) -> Vec<Reordering> {
        let mut all = of_a.iter().flat_map(|a| {
            let partners = equal.partners.get(a);
            of_b.iter().map(move |b| partners.and_then(|of_b| of_b.get(b)).cloned().unwrap_or_default())
        });
        let first = all.next().unwrap_or_default();
        all.fold(first, |common, other| common.into_iter().filter(|one| other.contains(one)).collect())
    }

    /// Adds a pair that has at least one possible reordering.
    fn accept(
        &mut self,
        of_a: BTreeSet<TensorId>,
        of_b: BTreeSet<TensorId>,
        allowed: Vec<Reordering>,
        basis: Basis,
    ) {
        let (Some(a), Some(b)) = (of_a.first().copied(), of_b.first().copied()) else { return };
        if allowed.is_empty() {
            return;
        }
        if basis == Basis::Value
            && let (Some(a), Some(b)) = (self.names.0.get(a.0), self.names.1.get(b.0))
        {
            self.parents.learn(a, b);
        }
        self.taken.0.extend(&of_a);
        self.taken.1.extend(&of_b);
        let (sources, targets) = (names(self.a, &of_a), names(self.b, &of_b));
        let pair = Pair::new(sources, targets, Vec::new(), basis, StepsBasis::Open);
        self.pairs.push(Undecided { pair, ids: (a, b), allowed, images: Vec::new() });
    }

    /// Returns the pairs with their steps, for each ambiguous tensor those that it could be, and tensors in other
    /// shapes. Reads the tensors that have the same elements in another order.
    pub(super) fn finish(mut self, equal: &Equal) -> Result<(Vec<Pair>, Candidates, Vec<Reshaped>)> {
        images::prove(&mut self.pairs, self.a, self.b)?;
        let mut pairs = decide(self.pairs, (self.a, self.b), &equal.constant);
        pairs.extend(self.joined);
        Ok((pairs, self.ambiguous, self.reshaped))
    }
}

/// The tensors that are neither ambiguous nor wait for a decision.
struct Open {
    closed: (BTreeSet<TensorId>, BTreeSet<TensorId>),
}

impl Open {
    fn new(ambiguous: &Candidates, crowds: &[Crowd]) -> Self {
        let crowd_a = crowds.iter().flat_map(|crowd| &crowd.of_a).copied();
        let crowd_b = crowds.iter().flat_map(Crowd::of_b);
        let of_a = crowd_a.chain(ambiguous.keys().copied()).collect();
        let of_b = crowd_b.chain(ambiguous.values().flatten().copied()).collect();
        Open { closed: (of_a, of_b) }
    }

    fn of_a(&self, ids: &[TensorId], taken: &BTreeSet<TensorId>) -> impl Iterator<Item = TensorId> {
        ids.iter().copied().filter(|id| !taken.contains(id) && !self.closed.0.contains(id))
    }

    fn of_b(&self, ids: &[TensorId], taken: &BTreeSet<TensorId>) -> impl Iterator<Item = TensorId> {
        ids.iter().copied().filter(|id| !taken.contains(id) && !self.closed.1.contains(id))
    }
}

fn names(source: &Source, ids: &BTreeSet<TensorId>) -> Vec<String> {
    ids.iter().filter_map(|id| name(source, *id)).collect()
}

fn name(source: &Source, id: TensorId) -> Option<String> {
    Some(source.checkpoint().tensors.get(id.0)?.name.to_string())
}

fn reversed(candidates: &Candidates) -> Candidates {
    let mut reversed = Candidates::new();
    for (a, of_b) in candidates {
        for b in of_b {
            reversed.entry(*b).or_default().insert(*a);
        }
    }
    reversed
}

/// Pairs tensors that are each other's most similar, then those that are so among the rest, and so on. A tensor with
/// several equally similar partners gets none, and neither do these.
fn most_similar(mut scores: Vec<(TensorId, TensorId, f64)>) -> BTreeMap<TensorId, TensorId> {
    scores.sort_by(|one, other| other.2.total_cmp(&one.2));
    let mut pairs = BTreeMap::new();
    // Whether a decided tensor is paired; one that is not has several equal partners.
    let (mut done_a, mut done_b) = (BTreeMap::new(), BTreeMap::new());
    for level in scores.chunk_by(|one, other| one.2 == other.2) {
        let open = |(a, b, _): &&(TensorId, TensorId, f64)| {
            done_a.get(a) != Some(&true) && done_b.get(b) != Some(&true)
        };
        let level: Vec<_> = level.iter().filter(open).collect();
        let (mut of_a, mut of_b): (BTreeMap<_, usize>, BTreeMap<_, usize>) = Default::default();
        for (a, b, _) in &level {
            *of_a.entry(*a).or_default() += 1;
            *of_b.entry(*b).or_default() += 1;
        }
        let alone = |a: &TensorId, b: &TensorId| of_a.get(a) == Some(&1) && of_b.get(b) == Some(&1);
        let stuck = |a: &TensorId, b: &TensorId| done_a.contains_key(a) || done_b.contains_key(b);
        let found: Vec<bool> = level.iter().map(|(a, b, _)| alone(a, b) && !stuck(a, b)).collect();
        for ((a, b, _), found) in level.into_iter().zip(found) {
            done_a.insert(*a, found);
            done_b.insert(*b, found);
            if found {
                pairs.insert(*a, *b);
            }
        }
    }
    pairs
}
