//! The tensors of an opened checkpoint, as the forward pass takes them.

use crate::source::Source;
use crate::transform::{for_each_number, power};
use ckpt_api::{DType, Error, Quantization, Result, Rounding, Scaling, Tensor, TensorId};
use ckpt_forward::{Array, Parameters};
use std::collections::HashMap;

/// Unit roundoff of binary32.
pub(super) const UNIT: f64 = 1.0 / 16_777_216.0;

/// The tensors of a checkpoint.
pub struct SourceParameters<'a> {
    source: &'a Source,
    ids: HashMap<&'a str, TensorId>,
    memory: u64,
}

impl<'a> SourceParameters<'a> {
    /// All tensors of `source`; one that takes more than `memory` bytes is refused before it is read.
    pub fn new(source: &'a Source, memory: u64) -> Self {
        SourceParameters { source, ids: source.checkpoint().by_name(), memory }
    }

    /// The tensor and how it is stored.
    pub(super) fn stored(&self, name: &str) -> Option<(&'a Tensor, Stored)> {
        let id = *self.ids.get(name)?;
        let contents = self.source.contents();
        let (tensor, placement) = (contents.checkpoint.tensors.get(id.0)?, contents.placements.get(id.0)?);
        let encoding = &placement.encoding;
        let own = tensor.quantization.as_ref().map(|own| Scaling {
            scale: own.scale,
            // Which rounding made the integers is not known: the coarser one.
            rounding: Rounding::Truncate,
            limit: None,
            each_term: false,
        });
        Some((tensor, Stored { dtype: encoding.dtype, scaling: encoding.scaling.or(own) }))
    }
}

impl Parameters for SourceParameters<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.ids.get(name).and_then(|id| self.source.checkpoint().tensors.get(id.0))
    }

    fn load(&self, name: &str) -> Result<Array> {
        let (id, tensor) = self.source.checkpoint().tensor(name).ok_or_else(|| {
            Error::usage("no such tensor")
                .tensor(name)
                .help(ckpt_api::nearest(name, self.ids.keys().copied()))
        })?;
        let bytes = tensor.shape.elements().saturating_mul(8);
        if bytes > self.memory {
            return Err(Error::limit("a tensor takes more memory than the forward pass may")
                .tensor(name)
                .found(format!("{bytes} bytes, counted as binary64"))
                .expected(format!("at most {}", self.memory))
                .help("allow more with --max-memory"));
        }
        let dtype = self.source.canonical(id).dtype;
        numbers(dtype, &self.source.value(name)?).map_err(|error| error.tensor(name))
    }
}

/// The tensors of a checkpoint as the integers that they are stored as, with their scales; those without a scale as they are.
pub(super) struct Integers<'a> {
    parameters: &'a SourceParameters<'a>,
    tensors: HashMap<&'a str, Tensor>,
}

impl<'a> Integers<'a> {
    pub(super) fn new(parameters: &'a SourceParameters<'a>) -> Self {
        let scaled = |name: &&'a str| {
            let (tensor, stored) = parameters.stored(name)?;
            let quantization = Quantization { scale: stored.scaling?.scale };
            Some((*name, Tensor { dtype: stored.dtype, quantization: Some(quantization), ..tensor.clone() }))
        };
        Integers { tensors: parameters.ids.keys().filter_map(scaled).collect(), parameters }
    }
}

impl Parameters for Integers<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name).or_else(|| self.parameters.tensor(name))
    }

    fn load(&self, name: &str) -> Result<Array> {
        let loaded = self.parameters.load(name)?;
        let scale = self.tensors.get(name).and_then(|tensor| tensor.quantization.as_ref());
        match (loaded, scale) {
            (Array::F32(values), Some(Quantization { scale })) => {
                let scale = f64::from(scale.get());
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it was such an integer, divided by the scale"
                )]
                let integer = |value: f32| (f64::from(value) * scale).round() as i32;
                Ok(Array::I32(values.into_iter().map(integer).collect()))
            }
            (loaded, _) => Ok(loaded),
        }
    }
}

/// Little-endian elements as numbers: binary64 stays, other floating-point types become binary32, integers 32-bit integers.
fn numbers(dtype: DType, bytes: &[u8]) -> Result<Array> {
    let unfit = |found: String| {
        Err(Error::unsupported("the forward pass takes no such elements")
            .found(found)
            .expected("real numbers, or integers that fit into 32 bits"))
    };
    let mut wide: Vec<f64> = Vec::with_capacity(bytes.len() / 8 + 1);
    match dtype {
        DType::C64 | DType::C128 => return unfit(dtype.name().to_owned()),
        DType::F64 => {
            for_each_number(dtype, bytes, |value| wide.push(value));
            return Ok(Array::F64(wide));
        }
        _ if dtype.is_float() => {
            let mut values = Vec::new();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "binary32 holds every shorter type's numbers"
            )]
            for_each_number(dtype, bytes, |value| values.push(value as f32));
            return Ok(Array::F32(values));
        }
        _ => {}
    }
    if !for_each_number(dtype, bytes, |value| wide.push(value)) {
        return unfit(dtype.name().to_owned());
    }
    let whole = |value: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        (value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX)).then_some(value as i32)
    };
    let mut values = Vec::with_capacity(wide.len());
    for value in wide {
        match whole(value) {
            Some(value) => values.push(value),
            None => return unfit(format!("{value}, of type {dtype}")),
        }
    }
    Ok(Array::I32(values))
}

/// How a tensor's numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) dtype: DType,
    pub(super) scaling: Option<Scaling>,
}

/// How far a stored number may be from the number that it was made of: `|Δw| ≤ relative·|w| + absolute`, and more where a limit
/// clips it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StorageError {
    pub(super) relative: f64,
    pub(super) absolute: f64,
    /// Numbers further from 0 are clipped to it.
    pub(super) limit: Option<f64>,
}

impl Stored {
    /// What storing numbers of `from` as this does to them; `None` where it changes none.
    pub(super) fn error_from(self, from: Stored) -> Option<StorageError> {
        if self == from {
            return None;
        }
        match (from.scaling, self.scaling) {
            // Integers of up to 24 bits over a scale are read back as the same binary32 numbers everywhere.
            (Some(_), None) if self.dtype == DType::F32 || self.dtype == DType::F64 => None,
            (Some(a), Some(b)) if a.scale == b.scale => None,
            (_, Some(scaling)) => {
                let scale = f64::from(scaling.scale.get());
                let units = if scaling.rounding == Rounding::Nearest { 0.5 } else { 1.0 };
                // The weight and its factoriser.
                let units = if scaling.each_term { 2.0 * units } else { units };
                let limit = scaling.limit.map(|limit| f64::from(limit.get()) / scale);
                Some(StorageError { relative: UNIT, absolute: units / scale, limit })
            }
            _ => {
                let from = if from.scaling.is_some() { DType::F32 } else { from.dtype };
                let (relative, absolute) = rounding(self.dtype)?;
                (!crate::transform::exact(from, self.dtype)).then_some(StorageError {
                    relative,
                    absolute,
                    limit: None,
                })
            }
        }
    }
}

impl StorageError {
    /// The bound on one number's error.
    pub(super) fn of(self, value: f64) -> f64 {
        let clipped = self.limit.map_or(0.0, |limit| (value.abs() - limit).max(0.0));
        self.relative * value.abs() + self.absolute + clipped
    }
}

/// Unit roundoff, and half of the smallest positive number, of a floating-point type.
fn rounding(dtype: DType) -> Option<(f64, f64)> {
    // Bits of the fraction, and the exponent of the smallest normal number.
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

/// The bounds on the errors of a model's tensors, in place of their values: what a sum of products with `|x|` makes of them bounds
/// what storage does to its result.
pub(super) struct Errors<'a> {
    pub(super) parameters: &'a SourceParameters<'a>,
    /// By name; a tensor that is not there has no error.
    pub(super) errors: HashMap<String, StorageError>,
}

impl Parameters for Errors<'_> {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.parameters.tensor(name)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let error = self.errors.get(name).copied().unwrap_or_default();
        match self.parameters.load(name)? {
            // What is divided by a scale is an integer, and has no error.
            Array::I32(values) => Ok(Array::I32(vec![0; values.len()])),
            values => {
                let bound = |value: f64| if error == StorageError::default() { 0.0 } else { error.of(value) };
                Ok(Array::F64(values.to_f64().into_iter().map(bound).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn stored(dtype: DType) -> Stored {
        Stored { dtype, scaling: None }
    }

    fn quantized(scale: u32, rounding: Rounding) -> Stored {
        let scale = NonZeroU32::new(scale).unwrap();
        Stored {
            dtype: DType::I16,
            scaling: Some(Scaling { scale, rounding, limit: None, each_term: false }),
        }
    }

    #[test]
    fn elements_become_the_numbers_that_they_are() {
        assert_eq!(numbers(DType::F16, &[0, 0x3c]).unwrap(), Array::F32(vec![1.0]));
        assert_eq!(numbers(DType::F64, &0.1f64.to_le_bytes()).unwrap(), Array::F64(vec![0.1]));
        assert_eq!(numbers(DType::I16, &[0xff, 0xff]).unwrap(), Array::I32(vec![-1]));
        assert_eq!(numbers(DType::U32, &[0xff, 0xff, 0xff, 0x7f]).unwrap(), Array::I32(vec![i32::MAX]));
        for (dtype, bytes) in
            [(DType::U32, vec![0xff; 4]), (DType::String, vec![0]), (DType::C64, vec![0; 8])]
        {
            assert_eq!(numbers(dtype, &bytes).unwrap_err().kind(), ckpt_api::Kind::Unsupported, "{dtype}");
        }
    }

    #[test]
    fn a_wider_dtype_changes_nothing_and_a_narrower_one_by_its_unit_roundoff() {
        assert_eq!(stored(DType::F32).error_from(stored(DType::F32)), None);
        assert_eq!(stored(DType::F32).error_from(stored(DType::F16)), None);
        let error = stored(DType::F16).error_from(stored(DType::F32)).unwrap();
        assert_eq!((error.relative, error.absolute), (power(-11), power(-25)));
        assert_eq!(stored(DType::Bf16).error_from(stored(DType::F16)).unwrap().relative, power(-8));
    }

    #[test]
    fn integers_of_a_scale_are_off_by_half_a_unit_or_a_whole_one_and_read_back_exactly() {
        let nearest = quantized(64, Rounding::Nearest).error_from(stored(DType::F32)).unwrap();
        assert_eq!(nearest.absolute, 1.0 / 128.0);
        let truncated = quantized(64, Rounding::Truncate).error_from(stored(DType::F32)).unwrap();
        assert_eq!(truncated.absolute, 1.0 / 64.0);
        assert_eq!(stored(DType::F32).error_from(quantized(64, Rounding::Nearest)), None);
        let same = quantized(64, Rounding::Truncate).error_from(quantized(64, Rounding::Nearest));
        assert_eq!(same, None);
    }

    /// Every rounding that the program makes stays within the bound that is stated for it.
    #[test]
    fn every_conversion_stays_within_its_bound() {
        let mut seen = 0;
        for (to, from) in [
            (DType::F16, DType::F32),
            (DType::Bf16, DType::F32),
            (DType::F8E4m3, DType::F32),
            (DType::F32, DType::F64),
        ] {
            let error = stored(to).error_from(stored(from)).unwrap();
            for k in -2000..2000 {
                let value = f64::from(k) * 0.003_1 * power(k % 29 - 20);
                let mut bytes = Vec::new();
                let done = crate::transform::cast(DType::F64, to, 0, &value.to_le_bytes(), &mut bytes);
                let mut back = 0.0;
                for_each_number(to, &bytes, |number| back = number);
                // What is too large for a type is refused.
                if done.is_ok() {
                    assert!((back - value).abs() <= error.of(value), "{to} {value} {back}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 10_000, "{seen}");
    }
}
