//! Kernels as loops over their definitions.

use ckpt_api::{DType, Rounding, Scaling};

/// A binary float: bits of exponent and fraction, and the exponent's bias.
#[derive(Clone, Copy, Debug)]
pub struct Float {
    exponent: u32,
    fraction: u32,
    bias: i32,
}

impl Float {
    /// The IEEE 754 types, and bfloat16.
    pub fn of(dtype: DType) -> Option<Float> {
        let (exponent, fraction) = match dtype {
            DType::F64 => (11, 52),
            DType::F32 => (8, 23),
            DType::F16 => (5, 10),
            DType::Bf16 => (8, 7),
            _ => return None,
        };
        Some(Float { exponent, fraction, bias: (1 << (exponent - 1)) - 1 })
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        ((1 + self.exponent + self.fraction) / 8) as usize
    }

    /// The number that the bits stand for.
    pub fn decode(self, bits: u64) -> f64 {
        let fraction = bits & ((1 << self.fraction) - 1);
        let exponent = bits >> self.fraction & ((1 << self.exponent) - 1);
        let unit = |exponent: i32| 2f64.powi(exponent - self.bias) / 2f64.powi(self.fraction as i32);
        let magnitude = match exponent {
            0 if self.fraction == 52 => f64::from_bits(fraction),
            0 => fraction as f64 * unit(1),
            all if all == (1 << self.exponent) - 1 => match fraction {
                0 => f64::INFINITY,
                _ => f64::NAN,
            },
            _ => (fraction | 1 << self.fraction) as f64 * unit(exponent as i32),
        };
        if bits >> (self.exponent + self.fraction) & 1 == 1 { -magnitude } else { magnitude }
    }

    /// The bits of the nearest number, of two the even one; infinite beyond the largest by half a unit or more.
    ///
    /// `number` is no NaN.
    pub fn encode(self, number: f64) -> u64 {
        let magnitude = number.abs();
        let infinite = ((1 << self.exponent) - 1) << self.fraction;
        // The largest that is no greater.
        let (mut below, mut above) = (0u64, infinite + 1);
        while above - below > 1 {
            let middle = below.midpoint(above);
            if self.decode(middle) <= magnitude { below = middle } else { above = middle }
        }
        let bits = match below == infinite {
            true => infinite,
            false => {
                let low = self.decode(below);
                // As if there were a number beyond the largest.
                let high =
                    if above == infinite { low + (low - self.decode(below - 1)) } else { self.decode(above) };
                match (magnitude - low).partial_cmp(&(high - magnitude)) {
                    Some(std::cmp::Ordering::Less) => below,
                    Some(std::cmp::Ordering::Equal) if below.is_multiple_of(2) => below,
                    _ => above,
                }
            }
        };
        bits | u64::from(number.is_sign_negative()) << (self.exponent + self.fraction)
    }
}

/// Axis `k` of the result is axis `order[k]` of the source.
pub fn permute(source: &[u8], shape: &[usize], order: &[usize], size: usize) -> Vec<u8> {
    let elements: usize = shape.iter().product();
    let mut out = Vec::with_capacity(source.len());
    for mut k in 0..elements {
        let mut index = vec![0; shape.len()];
        for axis in order.iter().rev() {
            index[*axis] = k % shape[*axis];
            k /= shape[*axis];
        }
        let at = index.iter().zip(shape).fold(0, |at, (index, len)| at * len + index);
        out.extend_from_slice(&source[at * size..][..size]);
    }
    out
}

/// The integer that stands for a number; `None` if it does not fit so many bits.
pub fn quantize(scaling: Scaling, bits: u32, number: f32) -> Option<i64> {
    let scaled = f64::from(number) * f64::from(scaling.scale.get());
    let mut integer = match scaling.rounding {
        Rounding::Nearest => scaled.round(),
        Rounding::Truncate => scaled.trunc(),
    };
    if let (Some(limit), true) = (scaling.limit, number.is_finite()) {
        integer = integer.clamp(-f64::from(limit.get()), f64::from(limit.get()));
    }
    let end = 2f64.powi(bits as i32 - 1);
    (-end..end).contains(&integer).then_some(integer as i64)
}

/// Element by element, bit by bit, the first in the lowest bits.
pub fn pack(bits: usize, elements: &[u8]) -> Vec<u8> {
    let mut out = vec![0; (elements.len() * bits).div_ceil(8)];
    for (k, element) in elements.iter().enumerate() {
        for bit in 0..bits {
            out[(k * bits + bit) / 8] |= (element >> bit & 1) << ((k * bits + bit) % 8);
        }
    }
    out
}
