//! Statistics of a tensor's values.

use ckpt_engine::transform::Moments;
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

impl Stats {
    pub(super) fn of(moments: &Moments) -> Self {
        let known = |value: f64| (moments.finite > 0).then_some(value);
        Stats {
            min: known(moments.min),
            max: known(moments.max),
            mean: known(moments.mean),
            std: known((moments.squares / moments.finite as f64).sqrt()),
            finite: moments.finite,
            zeros: moments.zeros,
            nan: moments.nan,
            infinite: moments.infinite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_and_infinities_are_counted_and_left_out() {
        let stats = Stats::of(&Moments::of(&[f64::NAN, f64::INFINITY, 0.0, 2.0]));
        assert_eq!((stats.nan, stats.infinite, stats.zeros, stats.finite), (1, 1, 1, 2));
        assert_eq!(
            (stats.mean, stats.std, stats.min, stats.max),
            (Some(1.0), Some(1.0), Some(0.0), Some(2.0))
        );
    }

    #[test]
    fn an_empty_tensor_has_no_statistics() {
        assert_eq!(Stats::of(&Moments::NONE), Stats::default());
        let stats = Stats::of(&Moments::of(&[f64::NAN]));
        assert_eq!(stats, Stats { nan: 1, ..Stats::default() });
    }
}
