//! Finds tensors with equal values, in any order of axes: by hashes, in bounded memory.

use super::elements::{self, AxisSums, Sum, element_bytes};
use super::reorder::{Key, Reordering, long_axes, reorderings};
use ckpt_api::{AxisPart, DType, Encoding, Kind, Result, Role, Tensor, TensorId, Tile};
use ckpt_engine::resources::{Budget, default_threads, in_parallel};
use ckpt_engine::source::Source;
use ckpt_engine::transform::exact;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// A value, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint {
    dtype: DType,
    /// The axes longer than 1.
    shape: Vec<u64>,
    sha256: [u8; 32],
}

/// Tensors of both checkpoints that have equal values.
#[derive(Default)]
pub(super) struct Equal {
    /// For each tensor of the first checkpoint, the tensors of the second with its value, and the reorderings between
    /// them.
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
    let mut found = Equal::default();
    let mut left = MAX_PAIRS.1;
    for (of_a, of_b) in groups.values().filter(|(a, b)| !a.is_empty() && !b.is_empty()) {
        let (of_a, of_b) = (by_dtype(a, of_a), by_dtype(b, of_b));
        for (dtype_a, of_a) in &of_a {
            for (dtype_b, of_b) in &of_b {
                if let Some(dtype) = common(*dtype_a, *dtype_b) {
                    found.compare((a, b), dtype, (of_a, of_b), &mut left)?;
                }
            }
        }
    }
    Ok(found)
}

pub(super) fn by_dtype(source: &Source, ids: &[TensorId]) -> BTreeMap<DType, Vec<TensorId>> {
    let mut by_dtype: BTreeMap<DType, Vec<TensorId>> = BTreeMap::new();
    for id in ids {
        by_dtype.entry(source.canonical(*id).dtype).or_default().push(*id);
    }
    by_dtype
}

/// Returns the tensors by what their elements sum to in any order, in this dtype.
pub(super) fn by_sum(
    source: &Source,
    ids: &[TensorId],
    dtype: DType,
) -> Result<BTreeMap<Sum, Vec<TensorId>>> {
    let sums = in_parallel(ids, default_threads(), |id| {
        Ok((id, Reading::own(source, id).with_dtype(dtype).sum(source)?))
    })?;
    let mut by_sum: BTreeMap<Sum, Vec<TensorId>> = BTreeMap::new();
    for (id, sum) in sums {
        sum.into_iter().for_each(|sum| by_sum.entry(sum).or_default().push(id));
    }
    Ok(by_sum)
}

/// Returns the dtype in which values of two dtypes are compared: the one whose values the other has all.
pub(super) fn common(one: DType, other: DType) -> Option<DType> {
    match (exact(one, other), exact(other, one)) {
        (true, _) => Some(one),
        (_, true) => Some(other),
        _ => None,
    }
}

impl Equal {
    /// Compares tensors with one key in this dtype.
    fn compare(
        &mut self,
        (a, b): (&Source, &Source),
        dtype: DType,
        (of_a, of_b): (&[TensorId], &[TensorId]),
        left: &mut usize,
    ) -> Result<()> {
        let hashed = in_parallel(of_a, default_threads(), |id| {
            Ok((id, Reading::own(a, id).with_dtype(dtype).fingerprint(a)?))
        });
        let mut by_value: BTreeMap<Fingerprint, Vec<TensorId>> = BTreeMap::new();
        let mut shapes = BTreeSet::new();
        for (id, hashed) in hashed? {
            let Some((print, is_constant)) = hashed else { continue };
            if is_constant {
                self.constant.insert(id);
            }
            shapes.insert(a.shape(id));
            by_value.entry(print).or_default().push(id);
        }
        let readings = readings(b, of_b, &shapes);
        let items: Vec<&(TensorId, Vec<usize>)> = readings.iter().collect();
        let hashed = in_parallel(&items, default_threads(), |(id, order)| {
            Ok((*id, order, Reading::in_order(b, *id, order).with_dtype(dtype).fingerprint(b)?))
        });
        let mut crowds: BTreeMap<Fingerprint, BTreeMap<TensorId, Vec<Vec<usize>>>> = BTreeMap::new();
        for (id, order, hashed) in hashed? {
            let Some((print, _)) = hashed else { continue };
            if by_value.contains_key(&print) {
                crowds.entry(print).or_default().entry(id).or_default().push(order.clone());
            }
        }
        for (print, of_b) in crowds {
            let crowd = Crowd { of_a: by_value.remove(&print).unwrap_or_default(), of_b };
            let pairs = crowd.of_a.len().saturating_mul(crowd.of_b.len());
            match left.checked_sub(pairs).filter(|_| pairs <= MAX_PAIRS.0) {
                None => self.crowds.push(crowd),
                Some(rest) => {
                    *left = rest;
                    self.pair(a, b, &crowd);
                }
            }
        }
        Ok(())
    }

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

/// Returns the tensors of the second checkpoint to read, with the order of their axes longer than 1.
fn readings(b: &Source, ids: &[TensorId], shapes: &BTreeSet<&[u64]>) -> BTreeSet<(TensorId, Vec<usize>)> {
    let readings = ids.iter().flat_map(|id| {
        let orders = shapes.iter().flat_map(|shape| reorderings(shape, b.shape(*id)));
        orders.map(|one| (*id, one.order))
    });
    readings.collect()
}

/// Returns the tensors that are no second copies of others.
pub(super) fn originals(source: &Source) -> impl Iterator<Item = (TensorId, &Tensor)> {
    let tensors = source.checkpoint().tensors.iter().enumerate();
    tensors.filter(|(_, tensor)| tensor.role != Role::Duplicate).map(|(id, tensor)| (TensorId(id), tensor))
}

/// What is asked of tensors by their numbers.
pub(super) trait ByNumber {
    fn shape(&self, id: TensorId) -> &[u64];

    fn role(&self, id: TensorId) -> Role;
}

impl ByNumber for Source {
    fn shape(&self, id: TensorId) -> &[u64] {
        self.checkpoint().tensors.get(id.0).map_or(&[], |tensor| &tensor.shape)
    }

    fn role(&self, id: TensorId) -> Role {
        self.checkpoint().tensors.get(id.0).map_or(Role::Weight, |tensor| tensor.role)
    }
}

/// A way to read a tensor: without its axes of length 1, in some order.
pub(super) struct Reading {
    id: TensorId,
    encoding: Encoding,
    /// The lengths of the axes, as they are read.
    shape: Vec<u64>,
}

impl Reading {
    /// The axes in their own order.
    pub(super) fn own(source: &Source, id: TensorId) -> Self {
        let all: Vec<usize> = (0..long_axes(source.shape(id)).len()).collect();
        Self::in_order(source, id, &all)
    }

    /// The axes longer than 1 in `order`.
    pub(super) fn in_order(source: &Source, id: TensorId, order: &[usize]) -> Self {
        let (shape, mut encoding) = (source.shape(id), source.canonical(id));
        let long = long_axes(shape);
        let order: Vec<usize> = order.iter().filter_map(|axis| long.get(*axis).copied()).collect();
        let short = (0..shape.len()).filter(|axis| shape.get(*axis) == Some(&1));
        encoding.order = order.iter().copied().chain(short).collect();
        let shape = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
        Reading { id, encoding, shape }
    }

    /// The axes in their own order, but an axis that consists of rows of length `inner` has the columns first.
    pub(super) fn with_columns_first(source: &Source, id: TensorId, axis: usize, inner: u64) -> Self {
        let own = Self::own(source, id);
        let stored = own.encoding.order.iter().flat_map(|number| {
            let parts = if *number == axis { vec![1, 0] } else { vec![0] };
            parts.into_iter().map(|part| AxisPart { axis: *number, part })
        });
        let stored: Vec<AxisPart> = stored.collect();
        let tile = Tile { axis, lens: vec![inner] };
        Reading { encoding: own.encoding.with_stored(source.shape(id).len(), vec![tile], &stored), ..own }
    }

    /// The elements in another dtype, rounded if need be.
    pub(super) fn with_dtype(mut self, dtype: DType) -> Self {
        self.encoding.dtype = dtype;
        self
    }

    pub(super) fn dtype(&self) -> DType {
        self.encoding.dtype
    }

    /// Hands out the elements in order.
    fn read(&self, source: &Source, mut each: impl FnMut(&[u8])) -> Result<()> {
        let mut stream = source.stream(self.id, &self.encoding, Budget::default())?;
        while let Some(bytes) = stream.read_next()? {
            each(bytes);
        }
        Ok(())
    }

    /// Returns what the elements sum to in any order; `None` for elements of variable length, and as
    /// [`Self::try_read`].
    pub(super) fn sum(&self, source: &Source) -> Result<Option<Sum>> {
        let Some(size) = element_bytes(self.dtype()) else { return Ok(None) };
        let mut sum = Sum::default();
        let read = self.try_read(source, |bytes| sum.add(elements::sum(bytes, size)))?;
        Ok(read.map(|()| sum))
    }

    /// Returns for each axis the sum of the elements at each index; `None` as [`AxisSums::new`] and [`Self::try_read`].
    pub(super) fn axis_sums(&self, source: &Source) -> Result<Option<Vec<Vec<Sum>>>> {
        let Some(mut sums) = AxisSums::new(self.dtype(), &self.shape) else { return Ok(None) };
        let read = self.try_read(source, |bytes| sums.read(bytes))?;
        Ok(read.map(|()| sums.finish()))
    }

    /// Returns the fingerprint, and whether all elements are the same; `None` as [`Self::try_read`].
    fn fingerprint(&self, source: &Source) -> Result<Option<(Fingerprint, bool)>> {
        let mut hasher = Sha256::new();
        let lengths = source.checkpoint().tensors.get(self.id.0).and_then(|tensor| tensor.lengths.as_ref());
        for len in lengths.into_iter().flatten() {
            hasher.update(len.to_le_bytes());
        }
        let mut constant = Constant::new(element_bytes(self.dtype()));
        let read = self.try_read(source, |bytes| {
            hasher.update(bytes);
            constant.read(bytes);
        })?;
        Ok(read.map(|()| {
            let sha256 = hasher.finalize().into();
            (Fingerprint { dtype: self.dtype(), shape: self.shape.clone(), sha256 }, constant.holds)
        }))
    }

    /// As [`Self::read`], but returns `None` for a tensor with a value that the dtype lacks, and for one that cannot be
    /// read in this order.
    fn try_read(&self, source: &Source, each: impl FnMut(&[u8])) -> Result<Option<()>> {
        match self.read(source, each) {
            Err(error) if matches!(error.kind(), Kind::Lossy | Kind::Unsupported) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Whether another reading of another tensor gives the same elements in the same order.
    pub(super) fn equals(&self, source: &Source, other: (&Source, &Reading)) -> Result<bool> {
        let [one, other] = [self.fingerprint(source)?, other.1.fingerprint(other.0)?];
        Ok(one.is_some() && one.map(|one| one.0) == other.map(|other| other.0))
    }
}

/// Checks whether all elements are the same.
struct Constant {
    size: usize,
    first: Option<Vec<u8>>,
    holds: bool,
}

impl Constant {
    /// Elements of variable length, which have no size, never count as the same.
    fn new(size: Option<usize>) -> Self {
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
