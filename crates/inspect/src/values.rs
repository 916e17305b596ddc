//! Reads the values of tensors on several threads: statistics of all, and the distribution of a sample.
//!
//! A large tensor is read in parts, whose size does not depend on the number of threads. What they come to is put
//! together in their order: so the statistics do not depend on it either.

#[cfg(test)]
mod tests;

use super::histogram::{Histogram, Sample};
use super::preview::{Cells, Preview};
use super::stats::Stats;
use ckpt_api::{DType, Result, Shape, TensorId};
use ckpt_engine::execute::{Checking, PartialSum, TensorStream, verify_assembled};
use ckpt_engine::layout::{Divided, divide};
use ckpt_engine::resources::{Budget, in_parallel};
use ckpt_engine::source::Source;
use ckpt_engine::transform::{Moments, each_block};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Elements of a part: few enough that all threads have work to the end, and so many that a part costs nothing.
pub(super) const PART: u64 = 4 << 20;

/// What was read of a tensor.
pub(super) type Values = (Stats, Option<Histogram>, Preview);

/// Reads the values of these tensors on `threads` threads, in parts of about `part` elements, and verifies checksums;
/// `None` for a tensor whose values are not real numbers.
///
/// # Errors
/// Whatever keeps a tensor from being read; of several errors, the first one.
pub(super) fn read(
    source: &Source,
    ids: &[TensorId],
    threads: usize,
    part: u64,
) -> Result<Vec<Option<Values>>> {
    let mut jobs = Vec::with_capacity(ids.len());
    // The parts of divided tensors that were read.
    let mut open = HashMap::new();
    for (number, id) in ids.iter().enumerate() {
        let parts = parts(source, *id, part)?;
        if parts.len() > 1 {
            open.insert(number, Mutex::new(parts.iter().map(|_| None).collect::<Vec<Option<PartValues>>>()));
        }
        jobs.extend(parts.into_iter().enumerate().map(|(at, part)| Job { number, id: *id, at, part }));
    }
    let numbers: Vec<usize> = (0..jobs.len()).collect();
    let found = in_parallel(&numbers, threads, |number| {
        let Some(job) = jobs.get(number) else { return Ok(None) };
        let part = read_part(source, job)?;
        let Some(parts) = open.get(&job.number) else { return part.finish(source, job.id).map(Some) };
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = parts.get_mut(job.at) {
            *slot = Some(part);
        }
        // Whoever reads the last part finishes the tensor.
        if parts.iter().any(Option::is_none) {
            return Ok(None);
        }
        let all = std::mem::take(&mut *parts).into_iter().flatten().reduce(PartValues::and);
        all.map(|all| all.finish(source, job.id)).transpose()
    })?;
    let mut values: Vec<Option<Values>> = ids.iter().map(|_| None).collect();
    for (job, found) in jobs.iter().zip(found) {
        if let (Some(slot), Some(found)) = (values.get_mut(job.number), found) {
            *slot = found;
        }
    }
    Ok(values)
}

/// A part of a tensor that one thread reads; the whole tensor if `part` is `None`.
struct Job {
    /// Number of the tensor among those that are read.
    number: usize,
    id: TensorId,
    /// Number of the part.
    at: usize,
    part: Option<Divided>,
}

/// The parts, of about `part` elements, in which a tensor is read.
fn parts(source: &Source, id: TensorId, part: u64) -> Result<Vec<Option<Divided>>> {
    if shape(source, id).elements() <= part {
        return Ok(vec![None]);
    }
    let parts = divide(&source.transfer(id, &source.canonical(id))?, part);
    Ok(if parts.len() == 1 { vec![None] } else { parts.into_iter().map(Some).collect() })
}

fn shape(source: &Source, id: TensorId) -> &Shape {
    &source.contents().checkpoint.tensors[id.0].shape
}

fn read_part(source: &Source, job: &Job) -> Result<PartValues> {
    let encoding = source.canonical(job.id);
    // Opaque blocks have no numbers that can be read.
    let dtype =
        Some(encoding.dtype).filter(|dtype| encoding.blocks().is_none() && each_block(*dtype, &[], |_| ()));
    let (mut stream, first) = match &job.part {
        None => (source.stream(job.id, &encoding, Budget::default())?, 0),
        Some(Divided { first, part }) => {
            let transfer = source.transfer(job.id, &encoding)?;
            let budget = Budget::default();
            let stream = TensorStream::new(source.files(), transfer, part, Checking::Shares, budget)?;
            (stream.starting_at(*first), *first)
        }
    };
    let shape = shape(source, job.id);
    let mut part = PartValues {
        dtype,
        moments: Moments::NONE,
        sample: Sample::of(shape.elements(), first),
        cells: Cells::of(shape, job.id.0 < Preview::MAPS, first),
        sums: Vec::new(),
    };
    while let Some(bytes) = stream.read_next()? {
        part.add(bytes);
    }
    part.sums.extend_from_slice(stream.shares());
    Ok(part)
}

/// What was read of a part of a tensor.
struct PartValues {
    /// Of the values; `None` if they are not real numbers.
    dtype: Option<DType>,
    moments: Moments,
    sample: Sample,
    cells: Cells,
    /// What the part contributes to the checksums of extents.
    sums: Vec<PartialSum>,
}

impl PartValues {
    /// Adds the next values.
    fn add(&mut self, bytes: &[u8]) {
        let Some(dtype) = self.dtype else { return };
        each_block(dtype, bytes, |numbers| self.moments = self.moments.and(&Moments::of(numbers)));
        self.sample.add(dtype, bytes);
        self.cells.add(dtype, bytes);
    }

    /// This part and the next one.
    fn and(mut self, next: PartValues) -> PartValues {
        self.moments = self.moments.and(&next.moments);
        self.sample.extend(next.sample);
        self.cells.extend(next.cells);
        self.sums.extend(next.sums);
        self
    }

    /// What all parts of a tensor come to; `None` if its values are not real numbers.
    fn finish(self, source: &Source, id: TensorId) -> Result<Option<Values>> {
        verify(source, id, &self.sums)?;
        let stats = Stats::of(&self.moments);
        let range = stats.min.zip(stats.max);
        let histogram = range.and_then(|(low, high)| self.sample.histogram(low, high));
        Ok(self.dtype.map(|_| (stats, histogram, self.cells.finish())))
    }
}

/// Verifies the checksums of extents that several parts read.
fn verify(source: &Source, id: TensorId, sums: &[PartialSum]) -> Result<()> {
    let (tensor, placement) = source.contents().tensor_at(id)?;
    let mut extents: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for sum in sums {
        let (remainder, bytes) = extents.entry(sum.extent).or_default();
        (*remainder, *bytes) = (*remainder ^ sum.remainder, bytes.saturating_add(sum.bytes));
    }
    for (number, (remainder, bytes)) in extents {
        // Bytes that no element has are not read, and the checksum cannot be verified without them.
        if let Some(extent) = placement.extents.get(number as usize).filter(|extent| extent.len == bytes) {
            verify_assembled(source.files(), extent, remainder)
                .map_err(|error| error.tensor(&tensor.name))?;
        }
    }
    Ok(())
}
