//! Finite numbers that are compared by their bits.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A finite 32-bit float. Two are equal if their bits are.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub struct Scalar(f32);

impl Scalar {
    /// Returns the number if it is finite.
    pub fn new(number: f32) -> Option<Self> {
        number.is_finite().then_some(Scalar(number))
    }

    /// The number.
    pub fn get(self) -> f32 {
        self.0
    }

    /// Whether the number is a power of two, or the negative of one.
    pub fn is_power_of_two(self) -> bool {
        // No fraction beside the leading bit; smaller numbers have none.
        self.0.is_normal() && self.0.to_bits().trailing_zeros() >= f32::MANTISSA_DIGITS - 1
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Scalar {
    /// The shortest text that is read as the same number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Plain digits would be many for numbers far from 1.
        match self.0 == 0.0 || (1e-5..1e9).contains(&self.0.abs()) {
            true => write!(f, "{}", self.0),
            false => write!(f, "{:e}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Scalar::new(f32::deserialize(deserializer)?)
            .ok_or_else(|| serde::de::Error::custom("the number is not finite"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_finite_and_its_text_and_its_json_are_read_as_the_same_number() {
        assert_eq!(Scalar::new(f32::NAN), None);
        for number in [1.0, -0.1, 1e-30, f32::MAX, f32::MIN_POSITIVE, 1.0 / 3.0] {
            let scalar = Scalar::new(number).unwrap();
            assert_eq!(scalar.to_string().parse::<f32>().unwrap().to_bits(), number.to_bits());
            let json = serde_json::to_string(&scalar).unwrap();
            assert_eq!(serde_json::from_str::<Scalar>(&json).unwrap(), scalar);
        }
        assert!(serde_json::from_str::<Scalar>("1e300").is_err());
    }

    #[test]
    fn powers_of_two_are_told_from_other_numbers() {
        let is_power = |number| Scalar::new(number).unwrap().is_power_of_two();
        assert!([1.0, 2.0, -0.25, f32::MIN_POSITIVE, f32::from_bits(0x7f00_0000)].into_iter().all(is_power));
        assert!(![0.0, 3.0, 0.1, f32::MAX, f32::MIN_POSITIVE / 2.0].into_iter().any(is_power));
    }
}
