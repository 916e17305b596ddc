//! What is in a checkpoint, for people and programs.

use crate::execute::{Budget, default_threads, in_parallel};
use crate::registry::Evidence;
use crate::source::Source;
use crate::transform::for_each_number;
use ckpt_api::{Axis, DType, Graph, Metadata, Repair, Result, Role, Shape, TensorId};
use serde::Serialize;

/// Everything that can be said without the values, and statistics of them where asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// What was opened.
    pub path: String,
    /// Format id.
    pub format: &'static str,
    /// Format title.
    pub title: &'static str,
    /// Why this format.
    pub reason: String,
    /// What every codec said.
    pub evidence: Vec<Evidence>,
    /// The files that hold the tensors.
    pub files: Vec<FileSummary>,
    /// The tensors, in the format's order.
    pub tensors: Vec<TensorSummary>,
    /// What the model computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
    /// Everything else.
    pub metadata: Metadata,
    /// What a lenient reading mended.
    pub repairs: Vec<Repair>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct FileSummary {
    /// Name, relative to the input's directory.
    pub name: String,
    /// Bytes; `None` where it is missing.
    pub bytes: Option<u64>,
    /// How many tensors have bytes in it.
    pub tensors: usize,
}

/// One tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorSummary {
    /// Name.
    pub name: String,
    /// The name under which the file stores it, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Stored dtype.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
    /// What the axes mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axes: Option<Vec<Axis>>,
    /// What it is for.
    pub role: Role,
    /// Bytes as stored.
    pub bytes: u64,
    /// Stored pieces.
    pub extents: usize,
    /// Statistics of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
}

/// Statistics of a tensor's values. NaN and infinities are counted and take no part in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Smallest finite value; `None` where there is none.
    pub min: Option<f64>,
    /// Largest finite value.
    pub max: Option<f64>,
    /// Mean of the finite values.
    pub mean: Option<f64>,
    /// Standard deviation of the finite values (of the population).
    pub std: Option<f64>,
    /// How many are finite.
    pub finite: u64,
    /// How many are zero.
    pub zeros: u64,
    /// How many are not a number.
    pub nan: u64,
    /// How many are infinite.
    pub infinite: u64,
}

/// Describes `source`; with `stats` its values are read, in bounded memory, and their checksums verified.
///
/// # Errors
/// Only with `stats`: whatever keeps a tensor from being read.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let source = ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default())?;
/// let inspection = ckpt::inspect::inspect(&source, true)?;
/// assert_eq!(inspection.format, "tf2");
/// # Ok(())
/// # }
/// ```
pub fn inspect(source: &Source, stats: bool) -> Result<Inspection> {
    let contents = source.contents();
    let ids: Vec<TensorId> = (0..contents.placements.len()).map(TensorId).collect();
    let stats = match stats {
        true => in_parallel(&ids, default_threads(), |id| statistics(source, id))?,
        false => vec![None; ids.len()],
    };
    let tensors = ids.iter().zip(stats).map(|(id, stats)| summary(source, *id, stats)).collect();
    Ok(Inspection {
        path: source.input().display(source.input().entry()),
        format: source.format(),
        title: source.codec.info().title,
        reason: source.reason().to_owned(),
        evidence: source.evidence().to_vec(),
        files: files(source),
        tensors,
        graph: contents.checkpoint.graph.clone(),
        metadata: contents.checkpoint.metadata.clone(),
        repairs: contents.repairs.clone(),
        notes: contents.notes.clone(),
    })
}

fn summary(source: &Source, id: TensorId, stats: Option<Stats>) -> TensorSummary {
    let tensor = &source.contents().checkpoint.tensors[id.0];
    let placement = &source.contents().placements[id.0];
    TensorSummary {
        name: tensor.name.clone(),
        key: (placement.name != tensor.name).then(|| placement.name.clone()),
        dtype: placement.encoding.dtype,
        shape: tensor.shape.clone(),
        axes: tensor.axes.clone(),
        role: tensor.role,
        bytes: placement.extents.iter().map(|extent| extent.len).sum(),
        extents: placement.extents.len(),
        stats,
    }
}

fn files(source: &Source) -> Vec<FileSummary> {
    let contents = source.contents();
    let mut used = vec![0; contents.files.len()];
    for placement in &contents.placements {
        let mut files: Vec<usize> = placement.extents.iter().map(|extent| extent.file.0).collect();
        files.sort_unstable();
        files.dedup();
        files.iter().for_each(|file| used[*file] += 1);
    }
    let names = contents.files.iter().zip(used);
    names
        .map(|(name, tensors)| FileSummary {
            name: name.clone(),
            bytes: source.input().file(name).ok().map(|file| file.len()),
            tensors,
        })
        .collect()
}

fn statistics(source: &Source, id: TensorId) -> Result<Option<Stats>> {
    let encoding = source.canonical(id);
    let mut stream = source.stream(id, &encoding, Budget::default())?;
    let mut running = Running::default();
    while let Some(bytes) = stream.next()? {
        if !running.add(encoding.dtype, bytes) {
            return Ok(None);
        }
    }
    Ok(encoding.dtype.bytes().map(|_| running.finish()))
}

/// Mean and variance merged chunk by chunk (Chan et al.), so that neither large means nor many values lose digits.
#[derive(Default)]
struct Running {
    stats: Stats,
    mean: f64,
    squares: f64,
}

impl Running {
    fn add(&mut self, dtype: DType, bytes: &[u8]) -> bool {
        let (mut count, mut sum) = (0u64, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let stats = &mut self.stats;
        let known = for_each_number(dtype, bytes, |value| {
            if value.is_finite() {
                count += 1;
                sum += value;
                min = min.min(value);
                max = max.max(value);
                stats.zeros += u64::from(value == 0.0);
            } else {
                stats.nan += u64::from(value.is_nan());
                stats.infinite += u64::from(value.is_infinite());
            }
        });
        if count == 0 {
            return known;
        }
        let mean = sum / count as f64;
        let mut squares = 0.0;
        for_each_number(dtype, bytes, |value| {
            if value.is_finite() {
                squares += (value - mean) * (value - mean);
            }
        });
        let (before, now) = (stats.finite as f64, count as f64);
        let delta = mean - self.mean;
        self.mean += delta * now / (before + now);
        self.squares += squares + delta * delta * before * now / (before + now);
        stats.finite += count;
        stats.min = Some(stats.min.map_or(min, |old| old.min(min)));
        stats.max = Some(stats.max.map_or(max, |old| old.max(max)));
        known
    }

    fn finish(self) -> Stats {
        let some = self.stats.finite > 0;
        Stats {
            mean: some.then_some(self.mean),
            std: some.then(|| (self.squares / self.stats.finite as f64).sqrt()),
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(chunks: &[&[f32]]) -> Stats {
        let mut running = Running::default();
        for chunk in chunks {
            let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert!(running.add(DType::F32, &bytes));
        }
        running.finish()
    }

    #[test]
    fn chunks_do_not_change_the_statistics() {
        let one = stats(&[&[1.0, 2.0, 3.0, 4.0]]);
        let two = stats(&[&[1.0], &[2.0, 3.0, 4.0]]);
        assert_eq!((one.mean, one.min, one.max), (Some(2.5), Some(1.0), Some(4.0)));
        assert!((one.std.unwrap() - 1.25f64.sqrt()).abs() < 1e-12);
        assert!((one.std.unwrap() - two.std.unwrap()).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let stats = stats(&[&[f32::NAN, f32::INFINITY, 0.0, 2.0]]);
        assert_eq!((stats.nan, stats.infinite, stats.zeros, stats.finite), (1, 1, 1, 2));
        assert_eq!(stats.mean, Some(1.0));
    }

    #[test]
    fn no_values_have_no_statistics() {
        assert_eq!(stats(&[]), Stats::default());
    }
}
