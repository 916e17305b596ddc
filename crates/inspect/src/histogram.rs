//! The distribution of a tensor's values, of a sample of them.

use ckpt_api::DType;
use ckpt_engine::transform::for_each_number;

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

    /// Counts the finite values of `sample`, which are from `low` to `high`; `None` if there are none.
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

/// One value of each stretch of a tensor, at a pseudorandom position that is always the same. Values at equal
/// distances could all be in one column of a matrix.
pub(super) struct Sample {
    stretch: u64,
    /// Number of elements before the next ones.
    position: u64,
    /// The next sampled element.
    next: u64,
    values: Vec<f64>,
}

impl Sample {
    /// The sample of a tensor of so many elements, of which those before `first` are left out.
    pub(super) fn of(elements: u64, first: u64) -> Self {
        let stretch = elements.div_ceil(Histogram::MAX_SAMPLE).max(1);
        let mut sample = Sample { stretch, position: first, next: 0, values: Vec::new() };
        sample.next = sample.element(first / stretch);
        if sample.next < first {
            sample.next = sample.element(first / stretch + 1);
        }
        sample
    }

    /// The element that is sampled of a stretch.
    fn element(&self, stretch: u64) -> u64 {
        stretch.saturating_mul(self.stretch).saturating_add(position_in(stretch) % self.stretch)
    }

    /// Adds the samples among the next values, which are numbers.
    pub(super) fn add(&mut self, dtype: DType, bytes: &[u8]) {
        let size = usize::try_from(dtype.bytes().unwrap_or(1)).unwrap_or(1).max(1);
        let index = |next: u64, position: u64| usize::try_from(next - position).ok()?.checked_mul(size);
        while let Some(at) = index(self.next, self.position)
            && let Some(element) = bytes.get(at..at.saturating_add(size))
        {
            for_each_number(dtype, element, |value| self.values.push(value));
            self.next = self.element(self.next / self.stretch + 1);
        }
        self.position += (bytes.len() / size) as u64;
    }

    /// Adds the sample of the elements that follow.
    pub(super) fn extend(&mut self, next: Sample) {
        self.values.extend(next.values);
    }

    /// The distribution of the sampled values, which are from `low` to `high`; `None` if none of them is finite.
    pub(super) fn histogram(&self, low: f64, high: f64) -> Option<Histogram> {
        Histogram::of(&self.values, low, high)
    }
}

/// The position within a stretch, before the remainder: SplitMix64.
fn position_in(stretch: u64) -> u64 {
    let mut z = stretch.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(elements: u64, value: impl Fn(u64) -> f64) -> Vec<f64> {
        let mut sample = Sample::of(elements, 0);
        let bytes: Vec<u8> = (0..elements).flat_map(|k| value(k).to_le_bytes()).collect();
        // Some chunks hold several samples, others none.
        bytes.chunks(8 * 777).for_each(|chunk| sample.add(DType::F64, chunk));
        sample.values
    }

    #[test]
    fn the_samples_of_parts_are_together_that_of_the_tensor_wherever_it_is_cut() {
        let elements = 3 * Histogram::MAX_SAMPLE + 5;
        let whole = sampled(elements, |k| k as f64);
        for cut in [0, 1, 2, 3, 4, 5, 10_000, elements - 1, elements] {
            let part = |first, end| {
                let mut sample = Sample::of(elements, first);
                let bytes: Vec<u8> = (first..end).flat_map(|k| (k as f64).to_le_bytes()).collect();
                sample.add(DType::F64, &bytes);
                sample
            };
            let mut both = part(0, cut);
            both.extend(part(cut, elements));
            assert_eq!(both.values, whole, "{cut}");
        }
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
