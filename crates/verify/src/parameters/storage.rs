//! The error of storing a number with less precision.

use ckpt_api::{Blocks, DType, Rounding, Scalar, Scaling};
use ckpt_engine::transform::power;

/// Unit roundoff of binary32.
pub(crate) const UNIT: f64 = 1.0 / 16_777_216.0;

/// The stored type of a tensor's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Storage {
    pub(crate) dtype: DType,
    /// The blocks that the numbers share scales in.
    pub(crate) blocks: Option<Blocks>,
    pub(crate) scaling: Option<Scaling>,
    /// The number that the stored numbers are more than the tensor's.
    pub(crate) added: Option<Scalar>,
}

/// Bound on the error of a stored number: `|Δw| ≤ relative·|w| + absolute`, plus what a limit clips.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StorageError {
    pub(crate) relative: f64,
    pub(crate) absolute: f64,
    /// Largest magnitude that can be stored; larger numbers are clipped to it.
    pub(crate) limit: Option<f64>,
}

impl Storage {
    /// Returns the error of storing numbers of type `from` as this type; `None` if it changes no number.
    pub(crate) fn error_from(&self, from: &Storage) -> Option<StorageError> {
        if self == from {
            return None;
        }
        if let (None, Some(added)) = (from.added, self.added) {
            // One rounding when the number was added, one when it is subtracted.
            let stored = self.error_from(&Storage { added: Some(added), ..from.clone() }).unwrap_or_default();
            let absolute = stored.absolute + (stored.relative + UNIT) * f64::from(added.get()).abs();
            return Some(StorageError {
                relative: stored.relative + 2.0 * UNIT,
                absolute,
                limit: stored.limit,
            });
        }
        match (from.scaling, self.scaling) {
            // Integers of up to 24 bits, divided by a scale, are the same binary32 numbers everywhere.
            (Some(_), None) if self.dtype == DType::F32 || self.dtype == DType::F64 => None,
            (Some(a), Some(b)) if a.scale == b.scale => None,
            (_, Some(scaling)) => {
                let scale = f64::from(scaling.scale.get());
                let units = if scaling.rounding == Rounding::Nearest { 0.5 } else { 1.0 };
                // The weight and its factoriser are rounded one by one.
                let units = if scaling.each_term { 2.0 * units } else { units };
                let limit = scaling.limit.map(|limit| f64::from(limit.get()) / scale);
                Some(StorageError { relative: UNIT, absolute: units / scale, limit })
            }
            _ => {
                let from = if from.scaling.is_some() { DType::F32 } else { from.dtype };
                let (relative, absolute) = rounding(self.dtype)?;
                (!ckpt_engine::transform::exact(from, self.dtype)).then_some(StorageError {
                    relative,
                    absolute,
                    limit: None,
                })
            }
        }
    }
}

impl StorageError {
    /// The bound on numbers of at most `largest` in blocks: two steps of as many as their bits tell apart, because numbers at the
    /// ends may be off by a whole one, and scales are rounded, too.
    pub(crate) fn of_blocks(blocks: &Blocks, largest: f64) -> Self {
        let bits = blocks.bytes() * 8 / blocks.elements();
        let steps = power(i32::try_from(bits).unwrap_or(i32::MAX).min(24));
        StorageError { relative: power(-10), absolute: 4.0 * largest / steps, limit: None }
    }

    /// Returns the bound on the error of `value`.
    pub(crate) fn of(self, value: f64) -> f64 {
        let clipped = self.limit.map_or(0.0, |limit| (value.abs() - limit).max(0.0));
        self.relative * value.abs() + self.absolute + clipped
    }
}

/// Returns the unit roundoff of a floating-point type, and half of its smallest positive number.
fn rounding(dtype: DType) -> Option<(f64, f64)> {
    // Bits of the fraction; exponent of the smallest normal number.
    let (fraction, least) = match dtype {
        DType::F64 => (52, -1022),
        DType::F32 => (23, -126),
        DType::F16 => (10, -14),
        DType::Bf16 => (7, -126),
        DType::F8E4m3 => (3, -6),
        DType::F8E5m2 => (2, -14),
        _ => return None,
    };
    Some((power(-fraction - 1), power((least - fraction - 1).max(-1074))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_engine::transform::for_each_number;
    use std::num::NonZeroU32;

    fn stored(dtype: DType) -> Storage {
        Storage { dtype, blocks: None, scaling: None, added: None }
    }

    fn quantized(scale: u32, rounding: Rounding) -> Storage {
        let scale = NonZeroU32::new(scale).unwrap();
        Storage {
            dtype: DType::I16,
            blocks: None,
            scaling: Some(Scaling { scale, rounding, limit: None, each_term: false }),
            added: None,
        }
    }

    #[test]
    fn a_wider_dtype_changes_nothing_and_a_narrower_one_by_its_unit_roundoff() {
        assert_eq!(stored(DType::F32).error_from(&stored(DType::F32)), None);
        assert_eq!(stored(DType::F32).error_from(&stored(DType::F16)), None);
        let error = stored(DType::F16).error_from(&stored(DType::F32)).unwrap();
        assert_eq!((error.relative, error.absolute), (power(-11), power(-25)));
        assert_eq!(stored(DType::Bf16).error_from(&stored(DType::F16)).unwrap().relative, power(-8));
    }

    #[test]
    fn integers_with_a_scale_are_off_by_half_a_unit_or_a_whole_one_and_are_read_back_exactly() {
        let nearest = quantized(64, Rounding::Nearest).error_from(&stored(DType::F32)).unwrap();
        assert_eq!(nearest.absolute, 1.0 / 128.0);
        let truncated = quantized(64, Rounding::Truncate).error_from(&stored(DType::F32)).unwrap();
        assert_eq!(truncated.absolute, 1.0 / 64.0);
        assert_eq!(stored(DType::F32).error_from(&quantized(64, Rounding::Nearest)), None);
        let same = quantized(64, Rounding::Truncate).error_from(&quantized(64, Rounding::Nearest));
        assert_eq!(same, None);
    }

    /// Over all rounding conversions of the program.
    #[test]
    fn every_conversion_stays_within_its_bound() {
        let mut seen = 0;
        for (to, from) in [
            (DType::F16, DType::F32),
            (DType::Bf16, DType::F32),
            (DType::F8E4m3, DType::F32),
            (DType::F32, DType::F64),
        ] {
            let error = stored(to).error_from(&stored(from)).unwrap();
            for k in -2000..2000 {
                let value = f64::from(k) * 0.003_1 * power(k % 29 - 20);
                let mut bytes = Vec::new();
                let done = ckpt_engine::transform::cast(DType::F64, to, 0, &value.to_le_bytes(), &mut bytes);
                let mut back = 0.0;
                for_each_number(to, &bytes, |number| back = number);
                // Numbers too large for a type are refused.
                if done.is_ok() {
                    assert!((back - value).abs() <= error.of(value), "{to} {value} {back}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 10_000, "{seen}");
    }
}
