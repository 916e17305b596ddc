//! The numbers of position embeddings: computed as `transformers` computes them, in binary32.

use ckpt_api::{Error, Result};

/// Most numbers of one list.
const MAX_LEN: i64 = 1 << 16;

/// The largest distance that buckets may distinguish.
const MAX_DISTANCE: i64 = 1 << 20;

/// Returns `1/theta^(2j/width)` for `j` from 0 to before `width/2`. Exponent, power and quotient are rounded to
/// binary32.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a width that is odd, not positive or too large.
pub(super) fn frequencies(width: i64, theta: f64) -> Result<Vec<f64>> {
    Ok(powers(width, theta)?.into_iter().map(|power| f64::from(1.0 / power)).collect())
}

/// Returns `theta^(2j/width)` for `j` from 0 to before `width/2`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rounded to binary32 as transformers does"
)]
fn powers(width: i64, theta: f64) -> Result<Vec<f32>> {
    if !(2..=MAX_LEN).contains(&width) || width % 2 != 0 {
        return Err(Error::usage("rotary embeddings need an even width")
            .found(width.to_string())
            .expected(format!("an even number up to {MAX_LEN}")));
    }
    let one = |j: i64| {
        let exponent = (2 * j) as f32 / width as f32;
        theta.powf(f64::from(exponent)) as f32
    };
    Ok((0..width / 2).map(one).collect())
}

/// Returns the frequencies with Llama 3's scaling by `factor`: those of wavelengths above `original/low` are divided,
/// those below `original/high` stay, those between are blended.
#[expect(clippy::cast_possible_truncation, reason = "rounded to binary32 as transformers does")]
pub(super) fn llama3(frequencies: &[f64], factor: f64, [low, high]: [f64; 2], original: f64) -> Vec<f64> {
    let one = |frequency: &f64| {
        let wavelength = 2.0 * std::f64::consts::PI / frequency;
        let scaled = if wavelength > original / low {
            frequency / factor
        } else if wavelength < original / high {
            *frequency
        } else {
            let share = (original / wavelength - low) / (high - low);
            (1.0 - share) * frequency / factor + share * frequency
        };
        f64::from(scaled as f32)
    };
    frequencies.iter().map(one).collect()
}

/// Returns the frequencies, each divided by a factor, as models for long contexts have them.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a width that is no width, or another number of factors than frequencies.
#[expect(clippy::cast_possible_truncation, reason = "rounded to binary32 as transformers does")]
pub(super) fn divided(width: i64, theta: f64, factors: &[f64]) -> Result<Vec<f64>> {
    let powers = powers(width, theta)?;
    if powers.len() != factors.len() {
        return Err(Error::usage(
            "the configuration has another number of factors than the model has frequencies",
        )
        .found(format!("{} factors", factors.len()))
        .expected(powers.len().to_string()));
    }
    let one = |(power, factor): (&f32, &f64)| f64::from(1.0 / (*factor as f32 * power));
    Ok(powers.iter().zip(factors).map(one).collect())
}

/// The scaling of YaRN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yarn {
    /// By what slow frequencies are divided.
    pub(super) factor: f64,
    /// Turns within the original context from which on a frequency stays, and up to which it is divided.
    pub(super) turns: [f64; 2],
    /// The context that the model was first trained with.
    pub(super) original: f64,
    /// Whether the limits between the frequencies are whole numbers.
    pub(super) is_rounded: bool,
}

impl Yarn {
    /// Returns the frequencies.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a width that is no width.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "rounded to binary32 as transformers does"
    )]
    pub(super) fn frequencies(&self, width: i64, theta: f64) -> Result<Vec<f64>> {
        let powers = powers(width, theta)?;
        let place = |turns: f64| {
            width as f64 * (self.original / (turns * std::f64::consts::TAU)).ln() / (2.0 * theta.ln())
        };
        let [mut begin, mut end] = self.turns.map(place);
        if self.is_rounded {
            (begin, end) = (begin.floor(), end.ceil());
        }
        begin = begin.max(0.0);
        end = end.min(width as f64 - 1.0);
        if begin == end {
            end += 0.001;
        }
        let one = |(j, power): (usize, &f32)| {
            let ramp = ((j as f32 - begin as f32) / (end - begin) as f32).clamp(0.0, 1.0);
            let kept = 1.0 - ramp;
            let slow = 1.0 / (self.factor as f32 * power);
            f64::from(slow * (1.0 - kept) + 1.0 / power * kept)
        };
        Ok(powers.iter().enumerate().map(one).collect())
    }
}

/// Returns for each of T5's `buckets` of one direction but the first the least distance that is in it or in a later
/// one.
///
/// The first half of the buckets has one distance each; the others grow with the logarithm up to `distance`.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for numbers that make no buckets.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rounded to binary32 as transformers does"
)]
pub(super) fn distance_buckets(buckets: i64, distance: i64) -> Result<Vec<i64>> {
    let exact = buckets / 2;
    if !(2..=MAX_LEN).contains(&buckets) || !(exact + 1..=MAX_DISTANCE).contains(&distance) {
        return Err(Error::usage("these numbers do not make buckets of distances")
            .found(format!("{buckets} buckets up to the distance {distance}"))
            .expected(format!(
                "2 to {MAX_LEN} buckets, and a distance from half of them to {MAX_DISTANCE}"
            )));
    }
    let log_ratio = (distance as f64 / exact as f64).ln() as f32;
    let bucket = |r: i64| match r < exact {
        true => r,
        false => {
            let log = f64::from(r as f32 / exact as f32).ln() as f32;
            (exact + (log / log_ratio * (buckets - exact) as f32) as i64).min(buckets - 1)
        }
    };
    let mut starts = Vec::new();
    for r in 1..=distance {
        let begun = 1 + starts.len() as i64;
        starts.extend((begun..=bucket(r)).map(|_| r));
    }
    Ok(starts)
}
