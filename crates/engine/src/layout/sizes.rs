//! Sizes of elements on their way: what budgets are divided by.

use super::steps::Step;
use ckpt_api::{Encoding, Packing};

/// Bytes of an element in the forms that it takes between a source and a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes in the target, of a block if it has blocks; 1 where elements have a length each.
    pub(crate) target: u64,
    /// Elements that these bytes are: more than one where the target has blocks.
    pub(crate) elements: u64,
    /// A multiple of so many bytes of the source is whole blocks on both sides.
    pub(crate) chunk: u64,
    /// Bytes of the largest form; `None` if elements do not take whole bytes on both sides, so that they cannot be
    /// moved one by one.
    pub(crate) largest: Option<u64>,
    /// How many times as many bytes the largest form has as the stored one.
    pub(crate) growth: usize,
}

impl Sizes {
    pub(crate) fn new(from: &Encoding, to: &Encoding) -> Self {
        let (target, elements) = match to.blocks() {
            Some(blocks) => (blocks.bytes(), blocks.elements()),
            None => (to.dtype.bytes().unwrap_or(1), 1),
        };
        let (largest, growth, chunk) = (largest(from, to), growth(from, to), chunk(from, to));
        Sizes { target, elements, chunk, largest, growth }
    }
}

/// Bytes of the source that are the fewest whole blocks on both sides; 1 where neither has any.
fn chunk(from: &Encoding, to: &Encoding) -> u64 {
    match (Stored::of(from), Stored::of(to)) {
        (Some(own), Some(other)) if from.blocks().is_some() || to.blocks().is_some() => {
            let bits = lcm(own.elements, other.elements) / own.elements * own.bits;
            lcm(bits, 8) / 8
        }
        _ => 1,
    }
}

fn largest(from: &Encoding, to: &Encoding) -> Option<u64> {
    let packed = |encoding: &&Encoding| {
        encoding.packing == Packing::Bits && encoding.dtype.bits().is_some_and(|bits| bits < 8)
    };
    if [from, to].iter().any(packed) {
        return None;
    }
    let float = if from.scaling().is_some() || to.scaling().is_some() { 4 } else { 1 };
    Some(from.dtype.bytes()?.max(to.dtype.bytes()?).max(float))
}

fn growth(from: &Encoding, to: &Encoding) -> usize {
    let float = if from.scaling().is_some() || to.scaling().is_some() { 32 } else { 8 };
    let factor = match (from.blocks(), stored_bits(from), stored_bits(to).or(to.blocks().map(|_| 32))) {
        (Some(blocks), _, Some(to)) => {
            to.max(32).saturating_mul(blocks.elements()).div_ceil(8 * blocks.bytes())
        }
        (None, Some(from), Some(to)) => to.max(float).div_ceil(from.max(1)),
        _ => 1,
    };
    usize::try_from(factor.max(1)).unwrap_or(1)
}

/// What is stored together: one element, or those of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) elements: u64,
    pub(super) bits: u64,
}

impl Stored {
    /// `None` if each element has a length of its own.
    pub(super) fn of(encoding: &Encoding) -> Option<Self> {
        match encoding.blocks() {
            Some(blocks) => Some(Stored { elements: blocks.elements(), bits: 8 * blocks.bytes() }),
            None => Some(Stored { elements: 1, bits: stored_bits(encoding)? }),
        }
    }
}

/// The smallest number that both divide.
pub(super) fn lcm(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor.max(1)).saturating_mul(b)
}

/// Bits that an element takes in a file; `None` if each has a length of its own, or is in a block.
pub(super) fn stored_bits(encoding: &Encoding) -> Option<u64> {
    match encoding.packing {
        _ if encoding.blocks().is_some() => None,
        Packing::Bits => encoding.dtype.bits().map(u64::from),
        Packing::Bytes => encoding.dtype.bytes().map(|bytes| bytes * 8),
    }
}

/// Whether a step leaves elements in another buffer than it finds them in.
pub(crate) fn changes_form(step: &Step) -> bool {
    match step {
        Step::Cast { .. }
        | Step::Quantize { .. }
        | Step::Dequantize { .. }
        | Step::DecodeBlocks { .. }
        | Step::EncodeBlocks { .. }
        | Step::Unpack { .. }
        | Step::Pack { .. } => true,
        Step::SwapBytes { .. }
        | Step::Compute { .. }
        | Step::Permute { .. }
        | Step::Cut { .. }
        | Step::Assemble { .. }
        | Step::Add { .. }
        | Step::Reshape { .. } => false,
    }
}
