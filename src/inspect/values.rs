//! Reads a tensor's values: statistics of all, and the distribution of a sample.

use super::preview::{Cells, Preview};
use crate::resources::Budget;
use crate::source::Source;
use crate::transform::for_each_number;
use ckpt_api::{DType, Result, TensorId};
use serde::Serialize;

/// Statistics of a tensor's values. NaN and infinities are counted, and left out of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Smallest finite value; `None` if there is none.
    pub min: Option<f64>,
    /// Largest finite value.
    pub max: Option<f64>,
    /// Mean of the finite values.
    pub mean: Option<f64>,
    /// Population standard deviation of the finite values.
    pub std: Option<f64>,
    /// Number of finite values.
    pub finite: u64,
    /// Number of zeros.
    pub zeros: u64,
    /// Number of NaN.
    pub nan: u64,
    /// Number of infinities.
    pub infinite: u64,
}

/// Distribution of finite values between the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Histogram {
    /// Number of sampled values in each of these equal bins.
    pub counts: [u16; Histogram::BINS],
    /// Number of sampled values: all, or one from each of equal stretches.
    pub samples: u64,
}

impl Histogram {
    /// Number of bins.
    pub const BINS: usize = 24;
    /// Largest sample of one tensor.
    pub const MAX_SAMPLE: u64 = 16_384;

    /// Counts the finite values of `sample`, which lie from `low` to `high`; `None` if there are none.
    fn of(sample: &[f64], low: f64, high: f64) -> Option<Self> {
        let mut counts = [0u16; Self::BINS];
        // Halves, because the whole range may overflow.
        let range = high / 2.0 - low / 2.0;
        for value in sample.iter().filter(|value| value.is_finite()) {
            let part = if range > 0.0 { (value / 2.0 - low / 2.0) / range } else { 0.5 };
            let index = (part * Self::BINS as f64) as usize;
            if let Some(count) = counts.get_mut(index.min(Self::BINS - 1)) {
                *count = count.saturating_add(1);
            }
        }
        let samples = counts.iter().map(|count| u64::from(*count)).sum();
        (samples > 0).then_some(Histogram { counts, samples })
    }
}

/// What was read of a tensor.
pub(super) type Values = (Stats, Option<Histogram>, Preview);

/// Reads a tensor's values in bounded memory; `None` if they are not real numbers.
pub(super) fn read(source: &Source, id: TensorId) -> Result<Option<Values>> {
    let encoding = source.canonical(id);
    let mut stream = source.stream(id, &encoding, Budget::default())?;
    let mut running = Running::default();
    let shape = &source.contents().checkpoint.tensors[id.0].shape;
    let mut sample = Sample::of(shape.elements());
    let mut cells = Cells::of(shape, id.0 < Preview::MAPS);
    while let Some(bytes) = stream.next()? {
        if !running.add(encoding.dtype, bytes) {
            return Ok(None);
        }
        sample.add(encoding.dtype, bytes);
        cells.add(encoding.dtype, bytes);
    }
    Ok(encoding.dtype.bytes().map(|_| {
        let stats = running.finish();
        let range = stats.min.zip(stats.max);
        let histogram = range.and_then(|(low, high)| Histogram::of(&sample.values, low, high));
        (stats, histogram, cells.finish())
    }))
}

/// One value of each stretch of a tensor, at a pseudorandom position that is always the same. Values at equal
/// distances could all lie in one column of a matrix.
struct Sample {
    stretch: u64,
    position: u64,
    next: u64,
    values: Vec<f64>,
}

impl Sample {
    fn of(elements: u64) -> Self {
        let stretch = elements.div_ceil(Histogram::MAX_SAMPLE).max(1);
        Sample { stretch, position: 0, next: position_in(0) % stretch, values: Vec::new() }
    }

    /// Adds the samples among the next values, which are numbers.
    fn add(&mut self, dtype: DType, bytes: &[u8]) {
        let size = usize::try_from(dtype.bytes().unwrap_or(1)).unwrap_or(1).max(1);
        let index = |next: u64, position: u64| usize::try_from(next - position).ok()?.checked_mul(size);
        while let Some(at) = index(self.next, self.position)
            && let Some(element) = bytes.get(at..at.saturating_add(size))
        {
            for_each_number(dtype, element, |value| self.values.push(value));
            let stretch = self.next / self.stretch + 1;
            self.next =
                stretch.saturating_mul(self.stretch).saturating_add(position_in(stretch) % self.stretch);
        }
        self.position += (bytes.len() / size) as u64;
    }
}

/// The position within a stretch, before the remainder: SplitMix64.
fn position_in(stretch: u64) -> u64 {
    let mut z = stretch.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Statistics merged chunk by chunk (Chan et al.): neither large means nor many values lose digits.
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
    fn nan_and_infinities_are_counted_and_left_out() {
        let stats = stats(&[&[f32::NAN, f32::INFINITY, 0.0, 2.0]]);
        assert_eq!((stats.nan, stats.infinite, stats.zeros, stats.finite), (1, 1, 1, 2));
        assert_eq!(stats.mean, Some(1.0));
    }

    #[test]
    fn an_empty_tensor_has_no_statistics() {
        assert_eq!(stats(&[]), Stats::default());
    }

    fn sampled(elements: u64, value: impl Fn(u64) -> f64) -> Vec<f64> {
        let mut sample = Sample::of(elements);
        let bytes: Vec<u8> = (0..elements).flat_map(|k| value(k).to_le_bytes()).collect();
        // Some chunks hold several samples, others none.
        bytes.chunks(8 * 777).for_each(|chunk| sample.add(DType::F64, chunk));
        sample.values
    }

    #[test]
    fn a_small_tensor_is_sampled_whole_and_a_large_one_once_in_each_stretch() {
        let most = Histogram::MAX_SAMPLE;
        assert_eq!(sampled(3, |k| k as f64), [0.0, 1.0, 2.0]);
        assert_eq!(sampled(most, |k| k as f64).len() as u64, most);
        for elements in [most + 1, 10 * most + 7, 64 * most] {
            let stretch = elements.div_ceil(most);
            let seen = sampled(elements, |k| (k / stretch) as f64);
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "one of each stretch");
            assert!(seen.len() as u64 >= elements / stretch && seen.len() as u64 <= most);
        }
    }

    #[test]
    fn a_sample_of_a_matrix_covers_its_columns() {
        let mut columns = sampled(1024 * 1024, |k| (k % 1024) as f64);
        columns.sort_by(f64::total_cmp);
        columns.dedup();
        assert!(columns.len() > 1000, "{}", columns.len());
    }

    #[test]
    fn a_histogram_counts_finite_values_over_the_whole_range() {
        let values = [-f64::MAX, f64::NAN, 0.0, f64::INFINITY, f64::MAX];
        let found = Histogram::of(&values, -f64::MAX, f64::MAX).unwrap();
        assert_eq!((found.counts[0], found.counts[12], found.counts[23], found.samples), (1, 1, 1, 3));
        assert_eq!(Histogram::of(&[2.0; 5], 2.0, 2.0).unwrap().counts[12], 5);
        assert_eq!(Histogram::of(&[f64::NAN], 0.0, 0.0), None);
    }
}
