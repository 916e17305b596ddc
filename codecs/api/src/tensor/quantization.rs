//! How the integers of a tensor stand for real numbers.

use crate::{Error, Result, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;

/// How integers stand for real numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantization {
    /// `real = integer / scale`.
    Units {
        /// Integer units per 1.0.
        scale: NonZeroU32,
    },
    /// `real = (integer − zero point) · scale`.
    // Boxed, for few tensors have one and there can be many thousand.
    Affine(Box<Affine>),
}

impl Quantization {
    /// The scales and zero points; `None` for units.
    pub fn affine(&self) -> Option<&Affine> {
        match self {
            Quantization::Affine(affine) => Some(affine),
            Quantization::Units { .. } => None,
        }
    }

    /// Whether a tensor of this shape has as many scales.
    pub fn fits(&self, shape: &Shape) -> bool {
        let Some(affine) = self.affine() else { return true };
        let Some(axis) = affine.axis else { return true };
        shape.get(axis).is_some_and(|len| *len == affine.scales.len() as u64)
    }
}

impl From<Affine> for Quantization {
    fn from(affine: Affine) -> Self {
        Quantization::Affine(Box::new(affine))
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantization::Units { scale } => write!(f, "scale of {scale} per 1.0"),
            Quantization::Affine(affine) => affine.fmt(f),
        }
    }
}

/// Scales and zero points: `real = (integer − zero point) · scale`, with one of each for the whole tensor, or for each
/// index of an axis.
///
/// ```
/// use ckpt_api::Affine;
/// let affine = Affine::new([0.5], [3.0], None)?;
/// assert_eq!(affine.to_string(), "scale 0.5, zero point 3");
/// assert!(Affine::new([0.5, 0.25], [0.0, 0.0], None).is_err());
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Affine {
    scales: Box<[f64]>,
    zero_points: Box<[f64]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    axis: Option<usize>,
}

/// The form that is deserialized, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    scales: Box<[f64]>,
    zero_points: Box<[f64]>,
    #[serde(default)]
    axis: Option<usize>,
}

impl TryFrom<Fields> for Affine {
    type Error = Error;
    fn try_from(fields: Fields) -> Result<Self> {
        Affine::new(fields.scales, fields.zero_points, fields.axis)
    }
}

impl Affine {
    /// Scales and zero points for each index of `axis`, or one of each for the whole tensor.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for numbers that are not finite, and for other numbers of zero points than scales.
    pub fn new(
        scales: impl Into<Box<[f64]>>,
        zero_points: impl Into<Box<[f64]>>,
        axis: Option<usize>,
    ) -> Result<Self> {
        let (scales, zero_points) = (scales.into(), zero_points.into());
        if scales.len() != zero_points.len() || (axis.is_none() && scales.len() != 1) {
            return Err(Error::unsupported("the scales and zero points of integers do not match")
                .found(format!("{} and {}", scales.len(), zero_points.len()))
                .expected("as many zero points as scales: one, or one for each index of an axis"));
        }
        if let Some(odd) = scales.iter().chain(&zero_points).find(|number| !number.is_finite()) {
            return Err(
                Error::unsupported("a scale or zero point of integers is not finite").found(odd.to_string())
            );
        }
        Ok(Affine { scales, zero_points, axis })
    }

    /// The scales: one, or one for each index of [`Affine::axis`].
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// The zero points, as many as scales: the integers that stand for 0.0.
    pub fn zero_points(&self) -> &[f64] {
        &self.zero_points
    }

    /// The axis along which the scales are; `None` for one scale.
    pub fn axis(&self) -> Option<usize> {
        self.axis
    }

    /// The same along another axis.
    #[must_use]
    pub fn with_axis(mut self, axis: usize) -> Self {
        self.axis = self.axis.map(|_| axis);
        self
    }

    /// The scales and zero points of `len` indices of the axis, from `first` on; all of one scale.
    #[must_use]
    pub fn part(&self, first: usize, len: usize) -> Self {
        if self.axis.is_none() {
            return self.clone();
        }
        let part = |all: &[f64]| all.iter().skip(first).take(len).copied().collect();
        Affine { scales: part(&self.scales), zero_points: part(&self.zero_points), axis: self.axis }
    }

    /// The scale and zero point of one index, for the whole tensor; `None` for an index that the axis does not have.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<Self> {
        let index = self.axis.map_or(0, |_| index);
        let one = |all: &[f64]| all.get(index).map(|number| Box::from([*number]));
        Some(Affine { scales: one(&self.scales)?, zero_points: one(&self.zero_points)?, axis: None })
    }

    /// These, and after them those of `other`, along the axis.
    #[must_use]
    pub fn followed_by(&self, other: &Affine) -> Self {
        let both = |first: &[f64], then: &[f64]| first.iter().chain(then).copied().collect();
        Affine {
            scales: both(&self.scales, &other.scales),
            zero_points: both(&self.zero_points, &other.zero_points),
            axis: self.axis,
        }
    }

    /// Whether every integer stands for itself.
    pub fn is_identity(&self) -> bool {
        self.scales.iter().all(|scale| *scale == 1.0) && self.zero_points.iter().all(|point| *point == 0.0)
    }
}

impl PartialEq for Affine {
    fn eq(&self, other: &Self) -> bool {
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u64>>();
        self.axis == other.axis
            && bits(&self.scales) == bits(&other.scales)
            && bits(&self.zero_points) == bits(&other.zero_points)
    }
}

impl Eq for Affine {}

impl fmt::Display for Affine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(axis) = self.axis else {
            let first = |all: &[f64]| all.first().copied().unwrap_or_default();
            return write!(f, "scale {}, zero point {}", first(&self.scales), first(&self.zero_points));
        };
        let scales = crate::count(self.scales.len(), "scale");
        write!(f, "{scales} on axis {axis}: {}", few(&self.scales))?;
        match self.zero_points.iter().all(|point| *point == 0.0) {
            true => f.write_str("; zero points 0"),
            false => write!(f, "; zero points {}", few(&self.zero_points)),
        }
    }
}

/// The first numbers of a list.
fn few(numbers: &[f64]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(f64::to_string).collect();
    let more = if numbers.len() > SHOWN { " …" } else { "" };
    shown.join(" ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_of_zero_units_is_refused() {
        assert!(serde_json::from_str::<Quantization>(r#"{"scale": 0}"#).is_err());
        assert!(serde_json::from_str::<Quantization>(r#"{"scale": 64}"#).is_ok());
    }

    #[test]
    fn scales_and_zero_points_survive_json() {
        let affine: Quantization = Affine::new([0.1, 1e-300], [3.0, -0.0], Some(1)).unwrap().into();
        let text = serde_json::to_string(&affine).unwrap();
        assert_eq!(text, r#"{"scales":[0.1,1e-300],"zero_points":[3.0,-0.0],"axis":1}"#);
        assert_eq!(serde_json::from_str::<Quantization>(&text).unwrap(), affine);
        for wrong in [
            r#"{"scales": [0.1, 0.2], "zero_points": [0.0]}"#,
            r#"{"scales": [0.1, 0.2], "zero_points": [0.0, 0.0]}"#,
            r#"{"scales": [0.1], "zero_points": [0.0], "axes": 1}"#,
        ] {
            assert!(serde_json::from_str::<Quantization>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn scales_of_an_axis_fit_its_length_alone() {
        let shape = Shape::new([2u64, 3]).unwrap();
        let along = |axis| Quantization::from(Affine::new([0.5; 3], [0.0; 3], Some(axis)).unwrap());
        assert!(along(1).fits(&shape));
        assert!(!along(0).fits(&shape) && !along(2).fits(&shape));
    }
}
