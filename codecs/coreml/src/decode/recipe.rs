//! How dense elements are made of stored bits, and the pieces that are decoded at once.

use super::grid::Grid;
use ckpt_api::Parameters;
use std::ops::Range;

/// Elements that are decoded at once. A multiple of 8, so that a piece of a mask begins with a byte.
pub(super) const PIECE: u64 = 1 << 22;

/// How all elements of a tensor are made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    /// Bits of a stored item.
    pub(crate) bits: u32,
    /// Whether items are integers in two's complement.
    pub(crate) is_signed: bool,
    /// Whether the first item of a byte has its high bits.
    pub(crate) is_high_first: bool,
    /// Bytes of an element.
    pub(crate) width: u64,
    /// How many elements there are.
    pub(crate) elements: u64,
    /// What items stand for.
    pub(crate) numbers: Numbers,
    /// A bit for each element, the low ones of a byte first: only elements whose bit is set have an item, the others are 0.
    pub(crate) mask: Option<Vec<u8>>,
}

/// What items stand for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    /// Themselves.
    Plain,
    /// Entries of tables: each group has one, of `2^bits` entries of `vector` elements.
    Table {
        grid: Grid,
        entries: Vec<u8>,
        /// Neighbors along an axis that one item stands for; and this axis's length and stride in elements.
        vector: u64,
        axis_len: u64,
        stride: u64,
    },
    /// `(item − offset) · scale`, in 32-bit floats, of each group.
    Shifted { grid: Grid, scales: Vec<f32>, offsets: Vec<f32> },
    /// `item · scale + bias`, in 64-bit floats, rounded once: each run of elements takes the next of a list, again and again.
    Linear { scales: Vec<f64>, biases: Vec<f64>, run: u64 },
}

/// A piece of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    /// The recipe, with the piece's part of the mask, and of tables, scales and offsets those from group or run `base` on.
    pub(crate) recipe: Recipe,
    /// The first element.
    pub(crate) first: u64,
    /// Bits before the first item.
    pub(crate) skip: u64,
    pub(crate) base: u64,
}

const BITS: &str = "bits";
const FLAGS: &str = "flags";
const WIDTH: &str = "width";
const ELEMENTS: &str = "elements";
const FIRST: &str = "first";
const SKIP: &str = "skip";
const BASE: &str = "base";
const KIND: &str = "numbers";
const MASK: &str = "mask";
const SHAPE: &str = "shape";
const GROUPS: &str = "groups";
const TABLE: &str = "table";
const VECTOR: &str = "vector";
const SCALES: &str = "scales";
const OFFSETS: &str = "offsets";
const RUN: &str = "run";

impl Recipe {
    /// All elements as one piece.
    pub(crate) fn whole(&self) -> Piece {
        Piece { recipe: self.clone(), first: 0, skip: 0, base: 0 }
    }

    /// Bytes of the mask, tables, scales and offsets.
    pub(super) fn held(&self) -> u64 {
        let numbers = match &self.numbers {
            Numbers::Plain => 0,
            Numbers::Table { entries, .. } => entries.len(),
            Numbers::Shifted { scales, offsets, .. } => size_of_val(&scales[..]) + size_of_val(&offsets[..]),
            Numbers::Linear { scales, biases, .. } => size_of_val(&scales[..]) + size_of_val(&biases[..]),
        };
        numbers.saturating_add(self.mask.as_ref().map_or(0, Vec::len)) as u64
    }

    /// The number of items of some elements.
    pub(super) fn items(&self, range: &Range<u64>) -> u64 {
        match (&self.mask, &self.numbers) {
            (Some(mask), _) => ones(mask, range),
            (None, Numbers::Table { vector, .. }) => (range.end - range.start) / (*vector).max(1),
            _ => range.end - range.start,
        }
    }

    pub(super) fn piece(&self, range: &Range<u64>, skip: u64) -> Piece {
        let mut recipe = Recipe { mask: None, numbers: Numbers::Plain, ..*self };
        recipe.mask = self.mask.as_deref().map(|mask| bytes_of(mask, range).to_vec());
        let mut base = 0;
        let mut part = |grid: &Grid, unit: u64, len: usize| {
            let span = grid.span(range);
            base = span.start;
            let at = |group: u64| usize::try_from(group.saturating_mul(unit)).unwrap_or(usize::MAX).min(len);
            at(span.start)..at(span.end)
        };
        recipe.numbers = match &self.numbers {
            Numbers::Table { grid, entries, vector, axis_len, stride } => {
                let unit = (1u64 << self.bits.min(8)).saturating_mul(*vector).saturating_mul(self.width);
                let own = part(grid, unit, entries.len());
                let entries = entries.get(own).unwrap_or_default().to_vec();
                let (vector, axis_len, stride) = (*vector, *axis_len, *stride);
                Numbers::Table { grid: grid.clone(), entries, vector, axis_len, stride }
            }
            Numbers::Shifted { grid, scales, offsets } => {
                let own = part(grid, 1, scales.len());
                let offsets = offsets.get(own.clone()).unwrap_or_default().to_vec();
                let scales = scales.get(own).unwrap_or_default().to_vec();
                Numbers::Shifted { grid: grid.clone(), scales, offsets }
            }
            Numbers::Linear { scales, biases, run } => {
                let run = (*run).max(1);
                let runs = range.start / run..range.end.div_ceil(run);
                base = runs.start;
                let own = |list: &[f64]| -> Vec<f64> {
                    let all = list.iter().cycle().skip(cycled(runs.start, list.len()));
                    let len = usize::try_from(runs.end - runs.start).unwrap_or(usize::MAX);
                    all.take(len.min(list.len())).copied().collect()
                };
                Numbers::Linear { scales: own(scales), biases: own(biases), run }
            }
            Numbers::Plain => Numbers::Plain,
        };
        Piece { recipe, first: range.start, skip, base }
    }
}

/// The place of a number in a list that is repeated.
pub(super) fn cycled(number: u64, len: usize) -> usize {
    let place = number.checked_rem(len as u64).unwrap_or(0);
    usize::try_from(place).unwrap_or(0)
}

/// The bytes of a mask that have the bits of some elements, the first of which begins a byte.
fn bytes_of<'a>(mask: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let at = |element: u64| usize::try_from(element.div_ceil(8)).unwrap_or(usize::MAX).min(mask.len());
    mask.get(at(range.start)..at(range.end)).unwrap_or_default()
}

/// How many bits of some elements are set.
fn ones(mask: &[u8], range: &Range<u64>) -> u64 {
    let bytes = bytes_of(mask, range);
    let all: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let unused = (bytes.len() as u64).saturating_mul(8).saturating_sub(range.end - range.start);
    let last = bytes.last().copied().unwrap_or(0);
    let beyond =
        u32::from(last).checked_shr(8u32.saturating_sub(u32::try_from(unused).unwrap_or(8))).unwrap_or(0);
    all - u64::from(beyond.count_ones())
}

impl Piece {
    pub(super) fn parameters(&self) -> Parameters {
        let Piece { recipe, first, skip, base } = self;
        let flags = u64::from(recipe.is_signed) | u64::from(recipe.is_high_first) << 1;
        let mut all = Parameters::default()
            .with_number(BITS, recipe.bits.into())
            .with_number(FLAGS, flags)
            .with_number(WIDTH, recipe.width)
            .with_number(ELEMENTS, recipe.elements)
            .with_number(FIRST, *first)
            .with_number(SKIP, *skip)
            .with_number(BASE, *base);
        if let Some(mask) = &recipe.mask {
            all = all.with_bytes(MASK, &mask[..]);
        }
        let grid = |all: Parameters, grid: &Grid| {
            all.with_bytes(SHAPE, integers(&grid.shape)).with_bytes(GROUPS, integers(&grid.groups))
        };
        match &recipe.numbers {
            Numbers::Plain => all.with_number(KIND, 0),
            Numbers::Table { grid: own, entries, vector, axis_len, stride } => grid(all, own)
                .with_number(KIND, 1)
                .with_bytes(TABLE, &entries[..])
                .with_bytes(VECTOR, integers(&[*vector, *axis_len, *stride])),
            Numbers::Shifted { grid: own, scales, offsets } => {
                let bytes = |numbers: &[f32]| -> Vec<u8> {
                    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
                };
                grid(all, own)
                    .with_number(KIND, 2)
                    .with_bytes(SCALES, bytes(scales))
                    .with_bytes(OFFSETS, bytes(offsets))
            }
            Numbers::Linear { scales, biases, run } => {
                let bytes = |numbers: &[f64]| -> Vec<u8> {
                    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
                };
                all.with_number(KIND, 3)
                    .with_number(RUN, *run)
                    .with_bytes(SCALES, bytes(scales))
                    .with_bytes(OFFSETS, bytes(biases))
            }
        }
    }

    /// The piece that parameters describe; `None` for others than [`Piece::parameters`] makes.
    pub(crate) fn of(parameters: &Parameters) -> Option<Self> {
        let number = |name| parameters.number(name);
        let (bits, flags, width) = (u32::try_from(number(BITS)?).ok()?, number(FLAGS)?, number(WIDTH)?);
        let list = |name| {
            let bytes = parameters.bytes(name)?.as_chunks::<8>().0;
            Some(bytes.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect::<Vec<u64>>())
        };
        let floats = |name| {
            let bytes = parameters.bytes(name)?.as_chunks::<4>().0;
            Some(bytes.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<f32>>())
        };
        let doubles = |name| {
            let bytes = parameters.bytes(name)?.as_chunks::<8>().0;
            Some(bytes.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect::<Vec<f64>>())
        };
        let grid = || Grid::new(list(SHAPE)?, list(GROUPS)?);
        let numbers = match number(KIND)? {
            0 => Numbers::Plain,
            1 => {
                let [vector, axis_len, stride] = list(VECTOR)?[..] else { return None };
                let entries = parameters.bytes(TABLE)?.to_vec();
                Numbers::Table { grid: grid()?, entries, vector, axis_len, stride }
            }
            2 => Numbers::Shifted { grid: grid()?, scales: floats(SCALES)?, offsets: floats(OFFSETS)? },
            3 => Numbers::Linear { scales: doubles(SCALES)?, biases: doubles(OFFSETS)?, run: number(RUN)? },
            _ => return None,
        };
        let recipe = Recipe {
            bits,
            is_signed: flags & 1 != 0,
            is_high_first: flags & 2 != 0,
            width,
            elements: number(ELEMENTS)?,
            numbers,
            mask: parameters.bytes(MASK).map(<[u8]>::to_vec),
        };
        Some(Piece { recipe, first: number(FIRST)?, skip: number(SKIP)?, base: number(BASE)? })
    }
}

fn integers(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_the_last_element_are_no_elements() {
        assert_eq!(ones(&[0xff, 0xff], &(0..11)), 11);
        assert_eq!(ones(&[0xff, 0xff], &(8..16)), 8);
        assert_eq!(ones(&[0b0000_0101], &(0..2)), 1);
        assert_eq!(ones(&[], &(0..0)), 0);
    }

    #[test]
    fn a_piece_has_its_own_scales_of_a_list_that_is_repeated() {
        let numbers = Numbers::Linear { scales: vec![0.0, 1.0, 2.0], biases: vec![9.0], run: 2 };
        let (bits, width, elements) = (8, 4, 24);
        let recipe =
            Recipe { bits, is_signed: false, is_high_first: false, width, elements, numbers, mask: None };
        let own = |range| recipe.piece(&range, 0);
        let linear = |scales: &[f64]| Numbers::Linear { scales: scales.to_vec(), biases: vec![9.0], run: 2 };
        assert_eq!((own(9..11).base, own(9..11).recipe.numbers), (4, linear(&[1.0, 2.0])));
        assert_eq!((own(10..24).base, own(10..24).recipe.numbers), (5, linear(&[2.0, 0.0, 1.0])));
        assert_eq!((recipe.held(), own(9..11).recipe.held()), (32, 24));
    }

    #[test]
    fn a_piece_survives_as_parameters() {
        let grid = Grid::new(vec![4, 6], vec![2, 3]).unwrap();
        let numbers = [
            Numbers::Plain,
            Numbers::Table { grid: grid.clone(), entries: vec![1, 2, 3], vector: 2, axis_len: 4, stride: 6 },
            Numbers::Shifted { grid, scales: vec![0.5, 2.0], offsets: vec![] },
            Numbers::Linear { scales: vec![0.1], biases: vec![-0.3], run: 7 },
        ];
        for (at, numbers) in numbers.into_iter().enumerate() {
            let mask = (at % 2 == 1).then(|| vec![1, 2, 3]);
            let (is_signed, is_high_first) = (at > 1, at == 3);
            let recipe = Recipe { bits: 3, is_signed, is_high_first, width: 2, elements: 24, numbers, mask };
            let piece = Piece { recipe, first: 8, skip: 5, base: 1 };
            assert_eq!(Piece::of(&piece.parameters()), Some(piece));
        }
        assert_eq!(Piece::of(&Parameters::default()), None);
    }
}
