//! Stored axes as digits of the indices on logical ones: what dividing and joining axes changes.

use crate::layout::strides;
use ckpt_api::{AxisPart, Encoding, Error, Result, Shape, Tile};

/// The stored axes of a tensor, slowest first. The index on a logical axis is the sum of its digits, each times its
/// stride.
pub(super) struct Digits(Vec<Digit>);

#[derive(Clone, Copy)]
struct Digit {
    /// The logical axis.
    axis: usize,
    /// The distance on that axis between neighbors on the stored one.
    stride: u64,
    len: u64,
}

impl Digits {
    /// Returns the stored axes of what has this shape.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] for parts of axes that do not fit the shape.
    pub(super) fn of(encoding: &Encoding, shape: &Shape) -> Result<Self> {
        let lens =
            encoding.expanded(shape).ok_or_else(|| Error::defect("the parts of an axis do not fit it"))?;
        let parts = encoding.parts(shape.rank());
        let digit = |number: &usize| {
            let (part, len) = (parts.get(*number)?, *lens.get(*number)?);
            let faster = encoding.tile(part.axis).get(part.part..)?;
            Some(Digit { axis: part.axis, stride: faster.iter().product(), len })
        };
        Ok(Digits(encoding.order.iter().filter_map(digit).collect()))
    }

    /// Joins the axes of these lengths, from `axis` on, into one.
    pub(super) fn join(&mut self, axis: usize, lens: &[u64]) {
        let strides = strides(lens.get(1..).unwrap_or_default());
        for digit in &mut self.0 {
            if let Some(stride) = digit.axis.checked_sub(axis).and_then(|number| strides.get(number)) {
                (digit.axis, digit.stride) = (axis, digit.stride.saturating_mul(*stride));
            } else if digit.axis > axis {
                digit.axis -= lens.len() - 1;
            }
        }
    }

    /// Divides an axis into several of these lengths; `None` if a stored axis would have to be cut within an index.
    pub(super) fn divide(&self, axis: usize, lens: &[u64]) -> Option<Self> {
        let strides = strides(lens.get(1..).unwrap_or_default());
        let mut divided = Vec::with_capacity(self.0.len());
        for digit in &self.0 {
            if digit.axis != axis {
                let moved = if digit.axis > axis { digit.axis + lens.len() - 1 } else { digit.axis };
                divided.push(Digit { axis: moved, ..*digit });
                continue;
            }
            let mut end = digit.stride.checked_mul(digit.len)?;
            for (number, stride) in strides.iter().enumerate().filter(|(number, _)| lens[*number] > 1) {
                let least = (*stride).max(digit.stride);
                if least >= end {
                    continue;
                }
                let fits = end.is_multiple_of(least) && least.is_multiple_of(digit.stride);
                let own = least.checked_div(*stride).filter(|_| fits && least.is_multiple_of(*stride))?;
                divided.push(Digit { axis: axis + number, stride: own, len: end / least });
                end = least;
            }
        }
        Some(Digits(divided))
    }

    /// Returns `encoding` with these stored axes, for a tensor of `rank` axes. Stored axes that continue each other
    /// become one.
    pub(super) fn encoding(self, encoding: &Encoding, rank: usize) -> Encoding {
        let mut digits: Vec<Digit> = Vec::with_capacity(self.0.len());
        for digit in self.0.into_iter().filter(|digit| digit.len != 1) {
            match digits.last_mut() {
                Some(slower) if slower.axis == digit.axis && slower.stride == digit.stride * digit.len => {
                    (slower.stride, slower.len) = (digit.stride, slower.len * digit.len);
                }
                _ => digits.push(digit),
            }
        }
        let (mut tiles, mut stored) = (Vec::new(), Vec::new());
        for digit in &digits {
            let slower = |other: &&Digit| other.axis == digit.axis && other.stride > digit.stride;
            stored.push(AxisPart { axis: digit.axis, part: digits.iter().filter(slower).count() });
        }
        for axis in 0..rank {
            let mut own: Vec<&Digit> = digits.iter().filter(|digit| digit.axis == axis).collect();
            own.sort_by_key(|digit| std::cmp::Reverse(digit.stride));
            match own.split_first() {
                Some((_, [])) => {}
                Some((_, faster)) => {
                    tiles.push(Tile { axis, lens: faster.iter().map(|digit| digit.len).collect() })
                }
                None => {
                    // An axis of length 1 may be stored anywhere; in order, no data has to move.
                    let at = stored.iter().position(|part| part.axis > axis).unwrap_or(stored.len());
                    stored.insert(at, AxisPart { axis, part: 0 });
                }
            }
        }
        encoding.clone().with_stored(rank, tiles, &stored)
    }
}
