//! Numbers of an extent that are computed from stored ones, any range of them by itself.
//!
//! A range is computed in pieces that stay in the cache, so the memory is bounded whatever is asked for.

use super::agreement::AgreementReader;
use super::block_numbers::{BlockReader, Verified, elements_to_floats, to_floats};
use super::files::{ComputedNumbers, Handle};
use super::memory::to_usize;
use super::packed_words::PackedWords;
use super::products::ProductReader;
use super::reductions::Reducer;
use super::row_scales::RowScaler;
use crate::layout::Step;
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::extend_signs;
use crate::transform::{
    Arithmetic, Buffer, cast, count_below, each_number, exp, keep, log, look_up, look_up_pairs, pack_row,
    with_runs,
};
use ckpt_api::{
    Computed, DType, Encoding, Error, FieldOrder, Operation, PackedIntegers, Packing, Result, Scalar, Words,
};
use std::sync::{Mutex, PoisonError};

/// A computed extent, opened.
#[derive(Debug)]
pub(crate) struct Computing<'a> {
    computed: Computed,
    stored: Handle<'a>,
    /// Where the stored elements begin.
    start: u64,
    elements: u64,
    /// Elements that fill whole bytes, or a block.
    unit: u64,
    /// The last operation that makes one number of each block: the first that is done here, for it reads what is before it.
    reduces: Option<usize>,
    /// From stored elements to 32-bit floats.
    steps: Vec<Step>,
    /// If the stored elements are pairs of integers in a byte, for which a table has numbers, those of each byte.
    pairs: Option<Box<Pairs>>,
    memory: Mutex<Memory<'a>>,
}

/// The numbers of both integers in each byte.
type Pairs = [[[u8; 4]; 2]; 256];

/// What one piece needs.
struct Memory<'a> {
    numbers: Buffer,
    spare: Buffer,
    /// For integers that are packed into words, what was read of them last.
    words: PackedWords,
    /// For numbers that become words, the bytes of these.
    packed: Vec<u8>,
    /// For each operation, the numbers that it takes.
    operands: Operands<'a>,
    /// The largest absolute rounding error so far.
    rounding: f64,
}

/// The numbers that an operation takes beside those that it changes.
enum Operand<'a> {
    None,
    Table(Vec<f32>),
    Blocks(Box<BlockReader<'a>>),
    Product(Box<ProductReader<'a>>),
    Rows(Box<RowScaler<'a>>),
    Agreement(Box<AgreementReader<'a>>),
    Blocked(Box<Reducer<'a>>),
}

/// Those of all operations.
struct Operands<'a>(Vec<Operand<'a>>);

impl<'a> Operands<'a> {
    fn get(&self, index: usize) -> Option<&Operand<'a>> {
        self.0.get(index)
    }

    /// Combines numbers with those of their blocks.
    fn by_blocks(
        &mut self,
        index: usize,
        arithmetic: Arithmetic,
        first: u64,
        numbers: &mut [[u8; 4]],
    ) -> Result<bool> {
        match self.0.get_mut(index) {
            Some(Operand::Blocks(blocks)) => blocks.apply(arithmetic, first, numbers),
            _ => Err(Error::defect("the numbers of blocks were not opened")),
        }
    }

    /// Changes numbers by those of other matrices, of rows, or of other tensors.
    fn by_tensors(&mut self, index: usize, first: u64, numbers: &mut [[u8; 4]]) -> Result<bool> {
        match self.0.get_mut(index) {
            Some(Operand::Product(product)) => product.apply(first, numbers),
            Some(Operand::Rows(rows)) => rows.apply(first, numbers),
            Some(Operand::Agreement(terms)) => terms.apply(first, numbers),
            _ => Err(Error::defect("the operands of a matrix were not opened")),
        }
    }
}

impl<'a> Operand<'a> {
    /// Opens the numbers that an operation takes: the one with this number.
    fn open(verified: Verified<'_, 'a>, computed: &Computed, index: usize) -> Result<Self> {
        if let Some(Operation::Reduce(reduction)) = computed.operations.get(index) {
            let before = Box::new(Computing::open(verified, &before(computed, index))?);
            return Ok(Operand::Blocked(Box::new(Reducer::new(reduction, before))));
        }
        match computed.operations.get(index).and_then(Operation::operand) {
            None => Ok(Operand::None),
            Some(ckpt_api::Operand::Blocks(blocks)) => {
                let numbers = Box::new(Computing::open(verified, &blocks.numbers)?);
                BlockReader::open(verified, blocks, numbers).map(Box::new).map(Operand::Blocks)
            }
            Some(ckpt_api::Operand::Product(product)) => {
                let left = Box::new(Computing::open(verified, &product.left.numbers)?);
                let right = Box::new(Computing::open(verified, &product.right.numbers)?);
                Ok(Operand::Product(Box::new(ProductReader::new(product, left, right))))
            }
            Some(ckpt_api::Operand::Rows(rows)) => {
                let before = Box::new(Computing::open(verified, &before(computed, index))?);
                let magnitudes = Box::new(Computing::open(verified, &rows.numbers)?);
                Ok(Operand::Rows(Box::new(RowScaler::new(rows, before, magnitudes))))
            }
            Some(ckpt_api::Operand::Agreement(agreement)) => {
                let open = |term: &ckpt_api::Term| -> Result<Box<dyn ComputedNumbers + 'a>> {
                    Ok(Box::new(Computing::open(verified, &term.numbers)?))
                };
                let terms = agreement.terms.iter().map(open).collect::<Result<_>>()?;
                Ok(Operand::Agreement(Box::new(AgreementReader::new(agreement, terms))))
            }
            Some(ckpt_api::Operand::Table(table)) => {
                let table = Computing::open(verified, table)?;
                let mut bytes = vec![0; to_usize(table.elements.saturating_mul(4))?];
                table.read_at(0, &mut bytes)?;
                let floats = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                Ok(Operand::Table(floats.collect()))
            }
            Some(_) => Err(Error::unsupported("an operation that this version does not know")),
        }
    }
}

/// The numbers before an operation.
fn before(computed: &Computed, index: usize) -> Computed {
    let mut before = computed.clone();
    before.operations.truncate(index);
    before.words = None;
    before
}

impl std::fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

/// Elements of a piece: 256 KiB of floats.
const PIECE: u64 = COMPUTED_ELEMENTS;

impl<'a> Computing<'a> {
    pub(super) fn open(verified: Verified<'_, 'a>, computed: &Computed) -> Result<Self> {
        let (stored, start) = verified(&computed.stored)?;
        let elements = computed.elements().ok_or_else(|| Error::defect("computed elements are not whole"))?;
        let reduces =
            computed.operations.iter().rposition(|operation| matches!(operation, Operation::Reduce(_)));
        let operands = (0..computed.operations.len()).map(|index| match reduces {
            Some(reduces) if index < reduces => Ok(Operand::None),
            _ => Operand::open(verified, computed, index),
        });
        let operands = Operands(operands.collect::<Result<_>>()?);
        let steps = match computed.packed {
            Some(_) => Vec::new(),
            None => to_floats(&computed.encoding)?,
        };
        Ok(Computing {
            stored,
            start,
            elements,
            unit: if computed.packed.is_some() || reduces.is_some() { 1 } else { unit(&computed.encoding) },
            reduces,
            steps,
            pairs: pairs(computed, &operands),
            memory: Mutex::new(Memory {
                numbers: Buffer::default(),
                spare: Buffer::default(),
                words: PackedWords::default(),
                packed: Vec::new(),
                operands,
                rounding: 0.0,
            }),
            computed: computed.clone(),
        })
    }

    /// Whether these are the numbers of this extent.
    pub(super) fn is_of(&self, computed: &Computed) -> bool {
        self.computed == *computed
    }

    /// Computes `count` numbers from `first` on.
    fn compute(&self, first: u64, count: u64, memory: &mut Memory<'a>) -> Result<()> {
        let mut index;
        if self.load_from_table(first, count, memory)? {
            index = 1;
        } else if let Some(overflows) = self.load_affine(first, count, memory)? {
            if overflows {
                return Err(self.overflow(1, first, count, memory)?);
            }
            index = 2;
        } else {
            index = self.load(first, count, memory)?;
        }
        while index < self.computed.operations.len() {
            let overflows = match self.operate_affine(index, first, memory)? {
                Some(overflows) => {
                    index += 1;
                    overflows
                }
                None => self.operate(index, first, memory)?,
            };
            if overflows {
                return Err(self.overflow(index, first, count, memory)?);
            }
            index += 1;
        }
        Ok(())
    }

    /// Reads stored elements and does the first operation, if they are pairs of integers that a table is asked for; returns
    /// whether they are.
    fn load_from_table(&self, first: u64, count: u64, memory: &mut Memory<'_>) -> Result<bool> {
        let Some(pairs) = &self.pairs else { return Ok(false) };
        let Memory { numbers, spare, .. } = memory;
        // Two numbers share a byte.
        if !first.is_multiple_of(2) {
            return Ok(false);
        }
        spare.resize(to_usize(count.div_ceil(2))?, 0);
        self.stored.read_at(self.start + first / 2, spare)?;
        numbers.resize(to_usize(count.saturating_mul(4))?, 0);
        look_up_pairs(spare, pairs, numbers.as_chunks_mut().0);
        Ok(true)
    }

    /// Reads packed integers and does the first two operations on each row of them, if these subtract and multiply by numbers of the
    /// same blocks; returns whether a number became too large.
    fn load_affine(&self, first: u64, count: u64, memory: &mut Memory<'a>) -> Result<Option<bool>> {
        let Some(packed) = self.computed.packed.as_ref().filter(|packed| !packed.is_signed) else {
            return Ok(None);
        };
        let [Operation::SubtractBlocks(_), Operation::MultiplyBlocks(_), ..] = &self.computed.operations[..]
        else {
            return Ok(None);
        };
        let Memory { numbers, words, operands, .. } = memory;
        let Some([Operand::Blocks(zeros), Operand::Blocks(scales), ..]) = operands.0.get_mut(..) else {
            return Ok(None);
        };
        if !zeros.is_like(scales) {
            return Ok(None);
        }
        let word = self.computed.encoding.dtype.bits().unwrap_or(u32::BITS);
        numbers.resize(to_usize(count.saturating_mul(4))?, 0);
        let place = (first, numbers.as_chunks_mut().0);
        let then = &mut |at: u64, row: &mut [[u8; 4]]| zeros.apply_affine(scales, at, row);
        words.read(packed, word, (&self.stored, self.start), place, then).map(Some)
    }

    /// Does this operation and the next one in one pass, if they subtract and multiply by numbers of the same blocks; returns
    /// whether a number became too large.
    fn operate_affine(&self, index: usize, first: u64, memory: &mut Memory<'a>) -> Result<Option<bool>> {
        let Memory { numbers, operands, .. } = memory;
        let operations = self.computed.operations.get(index..).unwrap_or_default();
        let [Operation::SubtractBlocks(_), Operation::MultiplyBlocks(_), ..] = operations else {
            return Ok(None);
        };
        match operands.0.get_mut(index..) {
            Some([Operand::Blocks(zeros), Operand::Blocks(scales), ..]) if zeros.is_like(scales) => {
                zeros.apply_affine(scales, first, numbers.as_chunks_mut().0).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads stored elements as floats, or the numbers that blocks of them become; returns the number of the first operation that
    /// is left to do.
    fn load(&self, first: u64, count: u64, memory: &mut Memory<'a>) -> Result<usize> {
        let encoding = &self.computed.encoding;
        let Memory { numbers, spare, words, operands, .. } = memory;
        if let Some(reduces) = self.reduces {
            numbers.resize(to_usize(count.saturating_mul(4))?, 0);
            let Some(Operand::Blocked(blocks)) = operands.0.get_mut(reduces) else {
                return Err(Error::defect("the elements of blocks were not opened"));
            };
            blocks.read(first, numbers.as_chunks_mut().0)?;
            return Ok(reduces + 1);
        }
        if let Some(packed) = &self.computed.packed {
            let word = encoding.dtype.bits().unwrap_or(u32::BITS);
            numbers.resize(to_usize(count.saturating_mul(4))?, 0);
            let place = (first, numbers.as_chunks_mut().0);
            words.read(packed, word, (&self.stored, self.start), place, &mut |_, _| Ok(false))?;
            if packed.is_signed {
                extend_signs(packed.bits, numbers.as_chunks_mut().0);
            }
            return Ok(0);
        }
        let bytes = |elements| {
            encoding.stored_len(elements).ok_or_else(|| Error::defect("stored elements have no length"))
        };
        let (offset, len) = (self.start + bytes(first)?, bytes(count)?);
        numbers.resize(to_usize(len)?, offset);
        self.stored.read_at(offset, numbers)?;
        elements_to_floats(&self.steps, first, numbers, spare)?;
        Ok(0)
    }

    /// Applies one operation; returns whether a number became too large.
    fn operate(&self, index: usize, first: u64, memory: &mut Memory<'a>) -> Result<bool> {
        let Memory { numbers, spare, operands, .. } = memory;
        let floats = numbers.as_chunks_mut::<4>().0;
        Ok(match self.computed.operations.get(index) {
            Some(Operation::Multiply(factor)) => {
                let factor = factor.get();
                each_number(floats, |number| number * factor)
            }
            Some(Operation::Divide(divisor)) => {
                let divisor = divisor.get();
                each_number(floats, |number| number / divisor)
            }
            Some(Operation::Add(term)) => {
                let term = term.get();
                each_number(floats, |number| number + term)
            }
            Some(Operation::DivideInto(dividend)) => {
                let dividend = dividend.get();
                each_number(floats, |number| dividend / number)
            }
            Some(Operation::ReplaceZero(replacement)) => {
                let replacement = replacement.get();
                each_number(floats, |number| if number == 0.0 { replacement } else { number })
            }
            Some(Operation::Exp) => each_number(floats, exp),
            Some(Operation::Log) => each_number(floats, log),
            Some(Operation::Round(dtype)) => {
                cast(DType::F32, *dtype, first, numbers, spare.vec())?;
                cast(*dtype, DType::F32, first, spare, numbers.vec())?;
                false
            }
            Some(Operation::RoundWhole) => each_number(floats, f32::round_ties_even),
            Some(Operation::AtLeast(least)) => {
                let least = least.get();
                each_number(floats, |number| if number < least { least } else { number })
            }
            Some(Operation::AtMost(most)) => {
                let most = most.get();
                each_number(floats, |number| if number > most { most } else { number })
            }
            Some(Operation::CountBelow(bounds)) => {
                count_below(floats, bounds);
                false
            }
            Some(Operation::LookUp(_)) => match operands.get(index) {
                Some(Operand::Table(table)) => {
                    look_up(floats, table);
                    false
                }
                _ => return Err(Error::defect("the table of an operation was not opened")),
            },
            Some(Operation::Keep(kept)) => {
                keep(floats, *kept, first);
                false
            }
            Some(Operation::SubtractRuns(runs)) => {
                with_runs(floats, &runs.numbers, to_usize(runs.run)?, first, |number, other| number - other)
            }
            Some(Operation::MultiplyRuns(runs)) => {
                with_runs(floats, &runs.numbers, to_usize(runs.run)?, first, |number, other| number * other)
            }
            Some(Operation::ToIntegers(integers)) => {
                let scales = &integers.scales;
                let integer = |number, scale| integers.integer(number, scale);
                with_runs(floats, &scales.numbers, to_usize(scales.run)?, first, integer)
            }
            Some(Operation::AddBlocks(_)) => operands.by_blocks(index, Arithmetic::Add, first, floats)?,
            Some(Operation::SubtractBlocks(_)) => {
                operands.by_blocks(index, Arithmetic::Subtract, first, floats)?
            }
            Some(Operation::MultiplyBlocks(_)) => {
                operands.by_blocks(index, Arithmetic::Multiply, first, floats)?
            }
            Some(Operation::DivideBlocks(_)) => {
                operands.by_blocks(index, Arithmetic::Divide, first, floats)?
            }
            Some(Operation::AddProduct(_) | Operation::ScaleRows(_) | Operation::AddAgreeing(_)) => {
                operands.by_tensors(index, first, floats)?
            }
            Some(_) | None => return Err(Error::unsupported("an operation that this version does not know")),
        })
    }

    /// The error about the first number that an operation makes too large, or that has no logarithm.
    fn overflow(&self, index: usize, first: u64, count: u64, memory: &mut Memory<'a>) -> Result<Error> {
        for earlier in self.load(first, count, memory)?..index {
            self.operate(earlier, first, memory)?;
        }
        let before = memory.numbers.to_vec();
        self.operate(index, first, memory)?;
        let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
        let mut pairs = before.as_chunks::<4>().0.iter().zip(memory.numbers.as_chunks::<4>().0);
        let at = pairs.position(|(before, after)| number(before).is_finite() && !number(after).is_finite());
        let at = at.unwrap_or_default();
        let is_none = memory.numbers.as_chunks::<4>().0.get(at).is_some_and(|bytes| number(bytes).is_nan());
        let found = before.as_chunks::<4>().0.get(at).map(number).and_then(Scalar::new);
        let found = found.map(|number| number.to_string()).unwrap_or_default();
        let operation = self.computed.operations.get(index).map(ToString::to_string).unwrap_or_default();
        let (what, expected) = match self.computed.operations.get(index) {
            Some(Operation::Log) => ("a number has no logarithm", "a number above 0".to_owned()),
            Some(operation) if is_none && operation.operand().is_some() => {
                ("a number is combined with NaN", "numbers in its block, and of it".to_owned())
            }
            _ => ("a step makes a number too large for f32", format!("at most {:e}", f32::MAX)),
        };
        let error = Error::lossy(what).field(format!("stored element {}", first + at as u64));
        Ok(error.found(format!("{found}, {operation}")).expected(expected))
    }
}

impl Computing<'_> {
    /// As [`ComputedNumbers::read_at`], of numbers that are rounded to a dtype of two bytes.
    pub(super) fn read_narrowed(&self, dtype: DType, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read(dtype, offset, out)
    }

    /// The largest absolute rounding error of what was read as a smaller dtype.
    pub(super) fn rounding(&self) -> f64 {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).rounding
    }

    fn read(&self, dtype: DType, offset: u64, out: &mut [u8]) -> Result<()> {
        let size = dtype.bytes().unwrap_or(4);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = offset;
        for part in out.chunks_mut(to_usize(PIECE * size)?) {
            let end = at + part.len() as u64;
            let first = at / size;
            let before = self.compute_whole(first, end.div_ceil(size), &mut memory)?;
            let Memory { numbers, spare, rounding, .. } = &mut *memory;
            let numbers: &[u8] = match dtype {
                DType::F32 => numbers,
                _ => {
                    let start = first.saturating_sub(before as u64);
                    *rounding = rounding.max(cast(DType::F32, dtype, start, numbers, spare.vec())?);
                    spare
                }
            };
            let from = before * to_usize(size)? + to_usize(at - first * size)?;
            let bytes = numbers.get(from..from + part.len());
            part.copy_from_slice(bytes.ok_or_else(|| Error::defect("a read ends beyond computed numbers"))?);
            at = end;
        }
        Ok(())
    }
}

impl ComputedNumbers for Computing<'_> {
    fn name(&self) -> &str {
        self.stored.name()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if let Some(words) = &self.computed.words {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            return self.read_words(words, offset, out, &mut memory);
        }
        self.read(DType::F32, offset, out)
    }
}

impl<'a> Computing<'a> {
    /// Computes the numbers from `first` to `end`, and those that share bytes with them; returns how many of these are before them.
    fn compute_whole(&self, first: u64, end: u64, memory: &mut Memory<'a>) -> Result<usize> {
        let start = first / self.unit * self.unit;
        let last = end.next_multiple_of(self.unit).min(self.elements);
        self.compute(start, last.saturating_sub(start), memory)?;
        to_usize(first - start)
    }

    /// Fills `out` with the bytes of words, from byte `offset` on, into which the numbers are packed.
    fn read_words(&self, words: &Words, offset: u64, out: &mut [u8], memory: &mut Memory<'a>) -> Result<()> {
        let Words { dtype, packed } = words;
        let word = dtype.bits().unwrap_or(u32::BITS);
        let size = u64::from(word / 8);
        let at_once = (PIECE * u64::from(packed.bits) / u64::from(word)).max(1);
        let (mut at, mut rest) = (offset, out);
        while !rest.is_empty() {
            let first = at / size;
            let end = (at + rest.len() as u64).div_ceil(size).min(first + at_once);
            self.pack(packed, word, first..end, memory)?;
            let from = to_usize(at - first * size)?;
            let bytes = memory.packed.get(from..).unwrap_or_default();
            let taken = bytes.len().min(rest.len());
            if taken == 0 {
                return Err(Error::defect("a read ends beyond packed numbers"));
            }
            let (now, later) = rest.split_at_mut(taken);
            now.copy_from_slice(&bytes[..taken]);
            (at, rest) = (at + taken as u64, later);
        }
        Ok(())
    }

    /// Packs the numbers of some words, which may be those of several rows.
    fn pack(
        &self,
        packed: &PackedIntegers,
        word: u32,
        words: std::ops::Range<u64>,
        memory: &mut Memory<'a>,
    ) -> Result<()> {
        let (in_row, size) = (packed.line_words(word)?.max(1), u64::from(word / 8));
        let place = |word: u64| (word / in_row, word % in_row);
        let ((first_row, first_word), (last_row, last_word)) = (place(words.start), place(words.end - 1));
        let first = first_row * packed.columns + packed.first_in(word, first_word);
        let end = last_row * packed.columns + packed.first_after(word, last_word);
        let before = self.compute_whole(first, end, memory)?;
        let Memory { numbers, packed: bytes, .. } = memory;
        bytes.clear();
        bytes.resize(to_usize((words.end - words.start) * size)?, 0);
        let numbers = numbers.as_chunks::<4>().0.get(before..).unwrap_or_default();
        let mut at = words.start;
        while at < words.end {
            let (row, own) = place(at);
            let taken = (in_row - own).min(words.end - at);
            let start = row * packed.columns + packed.first_in(word, own);
            let after = row * packed.columns + packed.first_after(word, own + taken - 1);
            let numbers = numbers.get(to_usize(start - first)?..to_usize(after - first)?);
            let from = to_usize((at - words.start) * size)?;
            let bytes = bytes.get_mut(from..from + to_usize(taken * size)?);
            let (Some(numbers), Some(bytes)) = (numbers, bytes) else {
                return Err(Error::defect("packed numbers were not computed"));
            };
            if let Err(position) = pack_row(packed, word, own, numbers, bytes) {
                return Err(unpackable(packed.bits, start + position as u64, numbers.get(position)));
            }
            at += taken;
        }
        Ok(())
    }
}

/// The error about a number that cannot be packed.
fn unpackable(bits: u32, element: u64, number: Option<&[u8; 4]>) -> Error {
    let number = number.map(|bytes| f32::from_le_bytes(*bytes)).unwrap_or_default();
    Error::lossy("a number cannot be stored in an integer")
        .field(format!("stored element {element}"))
        .found(number.to_string())
        .expected(format!("a whole number of {bits} bits"))
        .help("a tensor with NaN or infinities cannot be quantized: leave it out, or clip it")
}

/// The numbers of both integers in each byte, if the first of two is in its high bits and a table has numbers for them.
fn pairs(computed: &Computed, operands: &Operands<'_>) -> Option<Box<Pairs>> {
    let packed = computed.packed.as_ref()?;
    let is_pair = packed.bits == 4 && packed.order == FieldOrder::HighestFirst && packed.rows == 1;
    let is_byte = computed.encoding.dtype.bits() == Some(8);
    let Some(Operand::Table(table)) = operands.get(0).filter(|_| is_pair && is_byte) else { return None };
    let entry = |integer: usize| table.get(integer).copied().unwrap_or(f32::NAN).to_le_bytes();
    let pairs: Vec<[[u8; 4]; 2]> = (0..256).map(|byte| [entry(byte >> 4), entry(byte & 15)]).collect();
    Box::<[_]>::from(pairs).try_into().ok()
}

/// The smallest number of elements that fill whole bytes, or a block.
fn unit(encoding: &Encoding) -> u64 {
    match (encoding.blocks(), encoding.packing, encoding.dtype.bits()) {
        (Some(blocks), ..) => blocks.elements(),
        (None, Packing::Bits, Some(bits)) => {
            (1..8).find(|count| (count * u64::from(bits)).is_multiple_of(8)).unwrap_or(8)
        }
        _ => 1,
    }
}
