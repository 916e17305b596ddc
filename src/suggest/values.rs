//! Finds tensors with equal values, in any order of axes: by hashes, in bounded memory.

use super::reorder::{Key, Reordering, core, reorderings};
use crate::resources::{Budget, default_threads, in_parallel};
use crate::source::Source;
use ckpt_api::{DType, Result, TensorId};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// A value, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint {
    dtype: DTypeName,
    /// The axes longer than 1.
    shape: Vec<u64>,
    sha256: [u8; 32],
}

type DTypeName = &'static str;

/// Tensors of both checkpoints that have equal values.
pub(super) struct Equal {
    /// For each tensor of the first checkpoint, the tensors of the second with its value, and the reorderings between them.
    pub(super) partners: BTreeMap<TensorId, BTreeMap<TensorId, Vec<Reordering>>>,
    /// Groups of equal tensors that are too large to store every pair.
    pub(super) crowds: Vec<Crowd>,
    /// Tensors of the first checkpoint whose elements are all the same.
    pub(super) constant: BTreeSet<TensorId>,
}

/// Many tensors of one value.
pub(super) struct Crowd {
    pub(super) of_a: Vec<TensorId>,
    /// For each tensor, the orders of axes in which it has the value.
    of_b: BTreeMap<TensorId, Vec<Vec<usize>>>,
}

impl Crowd {
    pub(super) fn of_b(&self) -> impl Iterator<Item = TensorId> {
        self.of_b.keys().copied()
    }

    /// Returns the reorderings from one tensor to another.
    pub(super) fn reorderings(&self, one: (TensorId, &[u64]), other: (TensorId, &[u64])) -> Vec<Reordering> {
        let orders = self.of_b.get(&other.0);
        let has = |one: &Reordering| orders.is_some_and(|orders| orders.contains(&one.order));
        reorderings(one.1, other.1).into_iter().filter(has).collect()
    }
}

/// The most pairs to store for one value, and in all.
const MAX_PAIRS: (usize, usize) = (1 << 14, 1 << 18);

/// The tensors of each checkpoint, by key.
pub(super) type Groups = BTreeMap<Key, (Vec<TensorId>, Vec<TensorId>)>;

/// Finds tensors with equal values among those with one key.
pub(super) fn equal(a: &Source, b: &Source, groups: &Groups) -> Result<Equal> {
    let mut found = Equal { partners: BTreeMap::new(), crowds: Vec::new(), constant: BTreeSet::new() };
    let mut left = MAX_PAIRS.1;
    for (of_a, of_b) in groups.values().filter(|(a, b)| !a.is_empty() && !b.is_empty()) {
        let hashed = in_parallel(of_a, default_threads(), |id| fingerprint(a, id, None))?;
        let mut by_value: BTreeMap<Fingerprint, Vec<TensorId>> = BTreeMap::new();
        let mut layouts = Layouts::new();
        for (id, (print, constant)) in of_a.iter().zip(hashed) {
            if constant {
                found.constant.insert(*id);
            }
            layouts.insert((print.dtype, a.shape(*id).to_vec()));
            by_value.entry(print).or_default().push(*id);
        }
        let readings = readings(b, of_b, &layouts);
        let items: Vec<&(TensorId, Vec<usize>)> = readings.iter().collect();
        let hashed = in_parallel(&items, default_threads(), |(id, order)| fingerprint(b, *id, Some(order)))?;
        let mut crowds: BTreeMap<Fingerprint, BTreeMap<TensorId, Vec<Vec<usize>>>> = BTreeMap::new();
        for ((id, order), (print, _)) in items.into_iter().zip(hashed) {
            if by_value.contains_key(&print) {
                crowds.entry(print).or_default().entry(*id).or_default().push(order.clone());
            }
        }
        for (print, of_b) in crowds {
            let crowd = Crowd { of_a: by_value.remove(&print).unwrap_or_default(), of_b };
            let pairs = crowd.of_a.len().saturating_mul(crowd.of_b.len());
            match left.checked_sub(pairs).filter(|_| pairs <= MAX_PAIRS.0) {
                None => found.crowds.push(crowd),
                Some(rest) => {
                    left = rest;
                    found.pair(a, b, &crowd);
                }
            }
        }
    }
    Ok(found)
}

impl Equal {
    /// Makes each tensor of the first checkpoint a partner of each of the second.
    fn pair(&mut self, a: &Source, b: &Source, crowd: &Crowd) {
        for one in &crowd.of_a {
            for other in crowd.of_b() {
                let found = crowd.reorderings((*one, a.shape(*one)), (other, b.shape(other)));
                self.partners.entry(*one).or_default().entry(other).or_default().extend(found);
            }
        }
    }
}

/// The dtypes and shapes of the first checkpoint.
type Layouts = BTreeSet<(DTypeName, Vec<u64>)>;

/// Returns the tensors of the second checkpoint to read, with the order of their axes longer than 1.
fn readings(b: &Source, ids: &[TensorId], layouts: &Layouts) -> BTreeSet<(TensorId, Vec<usize>)> {
    let mut readings = BTreeSet::new();
    for id in ids {
        let same = layouts.iter().filter(|(dtype, _)| *dtype == b.canonical(*id).dtype.name());
        let orders = same.flat_map(|(_, shape)| reorderings(shape, b.shape(*id))).map(|one| (*id, one.order));
        readings.extend(orders);
    }
    readings
}

impl Source {
    pub(super) fn shape(&self, id: TensorId) -> &[u64] {
        self.checkpoint().tensors.get(id.0).map_or(&[], |tensor| &tensor.shape)
    }
}

/// Returns the fingerprint of a tensor whose axes longer than 1 are read in `order`, and whether all its elements are the same.
fn fingerprint(source: &Source, id: TensorId, order: Option<&[usize]>) -> Result<(Fingerprint, bool)> {
    let mut encoding = source.canonical(id);
    let shape = source.shape(id);
    let long: Vec<usize> = (0..shape.len()).filter(|axis| shape.get(*axis) != Some(&1)).collect();
    let order: Vec<usize> = match order {
        Some(order) => order.iter().filter_map(|axis| long.get(*axis).copied()).collect(),
        None => long,
    };
    let short = (0..shape.len()).filter(|axis| shape.get(*axis) == Some(&1));
    encoding.order = order.iter().copied().chain(short).collect();
    let read: Vec<u64> = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
    let mut hasher = Sha256::new();
    let lengths = source.checkpoint().tensors.get(id.0).and_then(|tensor| tensor.lengths.as_ref());
    for len in lengths.into_iter().flatten() {
        hasher.update(len.to_le_bytes());
    }
    let mut constant = Constant::new(encoding.dtype);
    let mut stream = source.stream(id, &encoding, Budget::default())?;
    while let Some(bytes) = stream.next()? {
        hasher.update(bytes);
        constant.read(bytes);
    }
    let print =
        Fingerprint { dtype: encoding.dtype.name(), shape: core(&read), sha256: hasher.finalize().into() };
    Ok((print, constant.holds))
}

/// Checks whether all elements are the same.
struct Constant {
    size: usize,
    first: Option<Vec<u8>>,
    holds: bool,
}

impl Constant {
    /// Elements of variable length never count as the same.
    fn new(dtype: DType) -> Self {
        let size = dtype.bytes().and_then(|size| usize::try_from(size).ok());
        Constant { size: size.unwrap_or(1), first: None, holds: size.is_some() }
    }

    /// Reads more elements; streams yield whole ones.
    fn read(&mut self, bytes: &[u8]) {
        if !self.holds {
            return;
        }
        let mut elements = bytes.chunks_exact(self.size);
        if self.first.is_none() {
            self.first = elements.next().map(<[u8]>::to_vec);
        }
        let first = self.first.as_deref();
        self.holds = elements.all(|element| Some(element) == first);
    }
}
