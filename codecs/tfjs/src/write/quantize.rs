//! Floats as integers of 8 or 16 bits, with the scales that TensorFlow's converter chooses.

use crate::format::{ID, QUANTIZE};
use ckpt_api::{
    AffineIntegers, Checkpoint, Contents, DType, Error, MetadataValue, Options, Result, Role, RunNumbers,
    Tensor, TensorId, Values,
};
use std::borrow::Cow;

/// Keys of a tensor whose integers stand for `q · scale + min`.
const SCALE: &str = "quantization_scale";
const MIN: &str = "quantization_min";

/// How the integers of a weight stand for numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Affine {
    pub(super) scale: f64,
    pub(super) min: f64,
}

impl Affine {
    /// That of a tensor which [`prepare`] replaced.
    pub(super) fn of(tensor: &Tensor) -> Option<Self> {
        let number = |key| match tensor.metadata.value(ID, key) {
            Some(MetadataValue::F64(number)) => Some(*number),
            _ => None,
        };
        Some(Affine { scale: number(SCALE)?, min: number(MIN)? })
    }

    /// What TensorFlow's converter chooses for numbers of this range: 0 stays 0, if it is within.
    fn chosen([least, most]: [f32; 2], levels: u16) -> Self {
        if least == most {
            return Affine { scale: 1.0, min: least.into() };
        }
        let (min, max) = (f64::from(least), f64::from(most));
        let scale = (max - min) / f64::from(levels);
        let zero = (-min / scale).round_ties_even();
        Affine { scale, min: if min <= 0.0 && max >= 0.0 { -zero * scale } else { min } }
    }
}

/// Replaces the weights of floats by integers, if the options ask for these: their values are read twice, first for their range.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for numbers that are not finite; those of reading values.
pub(crate) fn prepare(
    values: &dyn Values,
    contents: &Contents,
    options: &Options,
) -> Result<Option<Contents>> {
    let (dtype, levels) = match options.text(QUANTIZE) {
        Some("uint8") => (DType::U8, u8::MAX.into()),
        Some("uint16") => (DType::U16, u16::MAX),
        _ => return Ok(None),
    };
    let mut prepared = contents.clone();
    for (id, tensor) in contents.checkpoint.tensors.iter().enumerate() {
        let is_float = tensor.dtype.is_float() && tensor.dtype.bits().is_some();
        if !is_float || tensor.role != Role::Weight || tensor.shape.elements() == 0 {
            continue;
        }
        let affine = Affine::chosen(range(values, TensorId(id), tensor)?, levels);
        let integers = AffineIntegers {
            scales: RunNumbers { numbers: [affine.scale].into(), run: 1 },
            offset: affine.min,
            least: 0,
            most: levels.into(),
            ties_to_even: true,
        };
        let (_, placement) = contents.tensor_at(TensorId(id))?;
        let placed = integers.place(tensor, placement, dtype, None)?;
        if let (Some(own), Some(placement)) =
            (prepared.checkpoint.tensors.get_mut(id), prepared.placements.get_mut(id))
        {
            own.dtype = dtype;
            own.metadata.insert(ID, SCALE, MetadataValue::F64(affine.scale));
            own.metadata.insert(ID, MIN, MetadataValue::F64(affine.min));
            *placement = placed;
        }
    }
    Ok(Some(prepared))
}

/// The least and the greatest number of a tensor.
fn range(values: &dyn Values, id: TensorId, tensor: &Tensor) -> Result<[f32; 2]> {
    let (mut range, mut is_finite) = ([f32::INFINITY, f32::NEG_INFINITY], true);
    values.numbers(id, &mut |numbers| {
        for number in numbers {
            range = [range[0].min(*number), range[1].max(*number)];
            is_finite &= number.is_finite();
        }
    })?;
    match is_finite {
        true => Ok(range),
        false => Err(Error::unsupported("numbers that are not finite cannot be quantized")
            .tensor(&tensor.name)
            .help("write the model without the option quantize")),
    }
}

/// The checkpoint before [`prepare`]: its graph takes numbers.
pub(super) fn before(checkpoint: &Checkpoint) -> Cow<'_, Checkpoint> {
    if !checkpoint.tensors.iter().any(|tensor| Affine::of(tensor).is_some()) {
        return Cow::Borrowed(checkpoint);
    }
    let mut before = checkpoint.clone();
    for tensor in before.tensors.iter_mut().filter(|tensor| Affine::of(tensor).is_some()) {
        tensor.dtype = DType::F32;
    }
    Cow::Owned(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `tensorflowjs.quantization.quantize_weights` of version 4.22 returns.
    #[test]
    fn scales_are_those_of_the_converter() {
        let chosen = |least, most, levels| Affine::chosen([least, most], levels);
        assert_eq!(chosen(0.5, 0.5, 255), Affine { scale: 1.0, min: 0.5 });
        // 0 is not within: the least number stays.
        assert_eq!(chosen(1.0, 3.0, 255), Affine { scale: 2.0 / 255.0, min: 1.0 });
        let scale = 3.0 / 255.0;
        assert_eq!(chosen(-1.0, 2.0, 255), Affine { scale, min: -85.0 * scale });
        let expected = Affine { scale: 2.594_033_704_248_22e-5, min: -0.699_999_995_091_382_1 };
        assert_eq!(chosen(-0.7, 1.0, u16::MAX), expected);
    }
}
