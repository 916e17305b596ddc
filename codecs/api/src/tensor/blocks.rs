//! Elements that are stored in blocks, which share scales or tables.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;

/// Reads the numbers of one block: the slices have [`Blocks::bytes`] and [`Blocks::elements`] entries.
pub type DecodeBlock = fn(&[u8], &mut [f32]);

/// Writes numbers as blocks, one after the other: [`Blocks::elements`] numbers for [`Blocks::bytes`] bytes, which are
/// zeros. Each block depends on its own numbers alone.
///
/// # Errors
/// The first number that no block can hold.
pub type EncodeBlocks = fn(&[f32], &mut [u8]) -> std::result::Result<(), Misfit>;

/// Decodes and encodes blocks where no function of the program can, such as in a plugin.
pub trait BlockCoder: Send + Sync {
    /// As [`Blocks::decode`].
    ///
    /// # Errors
    /// Whatever keeps the blocks from being decoded.
    fn decode(&self, blocks: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// As [`Blocks::encode`].
    ///
    /// # Errors
    /// As [`Blocks::encode`].
    fn encode(&self, first: u64, numbers: &[u8], out: &mut Vec<u8>) -> Result<f64>;
}

/// A number that blocks cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misfit {
    /// Its position among the numbers.
    pub position: usize,
    /// What the blocks hold instead, such as "finite numbers".
    pub expected: String,
}

impl Misfit {
    /// The number at `position`, where `expected` says what blocks hold.
    pub fn new(position: usize, expected: impl Into<String>) -> Self {
        Misfit { position, expected: expected.into() }
    }
}

/// A block encoding: so many neighboring elements of the fastest stored axis are stored in so many bytes.
///
/// Blocks without a decoder are opaque: the engine moves, hashes and compares them, and refuses by name whatever needs
/// their numbers: a transpose, a cast, an axis split. Blocks with a decoder are read as 32-bit floats. Blocks with an
/// [encoder](Blocks::encoded) can be made of the numbers of any tensor; others only come from a source that has them.
///
/// ```
/// use ckpt_api::Blocks;
/// // A scale as a 32-bit float, and four integers of 8 bits.
/// const SCALED: Blocks = Blocks::decoded("toy.scaled", 4, 8, |block, numbers| {
///     let (scale, integers) = block.split_first_chunk::<4>().expect("a block has 8 bytes");
///     for (number, integer) in numbers.iter_mut().zip(integers) {
///         *number = f32::from_le_bytes(*scale) * f32::from(*integer as i8);
///     }
/// });
/// assert_eq!((SCALED.elements(), SCALED.bytes(), SCALED.is_opaque()), (4, 8, false));
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    name: Cow<'static, str>,
    elements: NonZeroU32,
    bytes: NonZeroU32,
    opaque: bool,
    /// Whether numbers can be stored in the blocks.
    #[serde(default, skip_serializing_if = "is_false")]
    encodable: bool,
    /// None where the blocks are opaque, or were read from a plan.
    #[serde(skip)]
    decoder: Option<DecodeBlock>,
    /// None where the blocks are not encodable, or were read from a plan.
    #[serde(skip)]
    encoder: Option<EncodeBlocks>,
    /// Set where neither function is, and the blocks are not read from a plan.
    #[serde(skip)]
    coder: Option<&'static dyn BlockCoder>,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Numbers that are encoded at once: they and their blocks stay in the cache.
const ENCODED: usize = 4096;

impl Blocks {
    /// Opaque blocks of so many elements in so many bytes. Names of different encodings differ, over all codecs: they
    /// begin with the codec's id and a dot.
    ///
    /// # Panics
    /// If a number is 0: when the program is compiled, if the blocks are a constant.
    pub const fn opaque(name: &'static str, elements: u32, bytes: u32) -> Self {
        Self::of(name, elements, bytes, None, None)
    }

    /// Blocks whose numbers `decoder` reads; otherwise as [`Blocks::opaque`].
    ///
    /// # Panics
    /// As [`Blocks::opaque`].
    pub const fn decoded(name: &'static str, elements: u32, bytes: u32, decoder: DecodeBlock) -> Self {
        Self::of(name, elements, bytes, Some(decoder), None)
    }

    /// Blocks whose numbers `decoder` reads, and in which `encoder` stores the numbers of any tensor; otherwise as
    /// [`Blocks::opaque`].
    ///
    /// ```
    /// use ckpt_api::{Blocks, Misfit};
    /// // A block is two numbers as whole bytes.
    /// const BYTES: Blocks = Blocks::encoded(
    ///     "toy.bytes",
    ///     2,
    ///     2,
    ///     |block, numbers| numbers.iter_mut().zip(block).for_each(|(number, byte)| *number = f32::from(*byte)),
    ///     |numbers, blocks| match numbers.iter().position(|number| !(0.0..=255.0).contains(number)) {
    ///         Some(position) => Err(Misfit::new(position, "numbers from 0 to 255")),
    ///         None => Ok(blocks.iter_mut().zip(numbers).for_each(|(byte, number)| *byte = number.round() as u8)),
    ///     },
    /// );
    /// let numbers: Vec<u8> = [3.25f32, 4.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    /// let mut blocks = Vec::new();
    /// assert_eq!(BYTES.encode(0, &numbers, &mut blocks)?, 0.25);
    /// assert_eq!(blocks, [3, 4]);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`Blocks::opaque`].
    pub const fn encoded(
        name: &'static str,
        elements: u32,
        bytes: u32,
        decoder: DecodeBlock,
        encoder: EncodeBlocks,
    ) -> Self {
        Self::of(name, elements, bytes, Some(decoder), Some(encoder))
    }

    const fn of(
        name: &'static str,
        elements: u32,
        bytes: u32,
        decoder: Option<DecodeBlock>,
        encoder: Option<EncodeBlocks>,
    ) -> Self {
        let (Some(elements), Some(bytes)) = (NonZeroU32::new(elements), NonZeroU32::new(bytes)) else {
            panic!("a block has elements and bytes")
        };
        Blocks {
            name: Cow::Borrowed(name),
            elements,
            bytes,
            opaque: decoder.is_none(),
            encodable: encoder.is_some(),
            decoder,
            encoder,
            coder: None,
        }
    }

    /// The same blocks, which `coder` decodes and encodes, if they are not opaque.
    #[must_use]
    pub fn coded_by(mut self, coder: &'static dyn BlockCoder) -> Self {
        (self.decoder, self.encoder) = (None, None);
        self.coder = (!self.opaque).then_some(coder);
        self
    }

    /// What the encoding is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Elements of a block.
    pub const fn elements(&self) -> u64 {
        self.elements.get() as u64
    }

    /// Bytes of a block.
    pub const fn bytes(&self) -> u64 {
        self.bytes.get() as u64
    }

    /// Whether nobody can read its numbers.
    pub const fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// Whether numbers can be stored in them.
    pub const fn is_encodable(&self) -> bool {
        self.encodable
    }

    /// Bytes of so many elements; `None` if they do not fill whole blocks.
    pub fn stored_len(&self, elements: u64) -> Option<u64> {
        let whole = elements.is_multiple_of(self.elements());
        (elements / self.elements()).checked_mul(self.bytes()).filter(|_| whole)
    }

    /// Appends the numbers of whole blocks, as little-endian 32-bit floats.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for opaque blocks, and for those of a plan that no codec of this program knows.
    pub fn decode(&self, blocks: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if let Some(coder) = self.coder {
            return coder.decode(blocks, out);
        }
        let decoder = self.decoder.ok_or_else(|| self.refusal())?;
        let mut numbers = vec![0.0; self.elements.get() as usize];
        let mut bytes = vec![[0; 4]; numbers.len()];
        let blocks = blocks.chunks_exact(self.bytes.get() as usize);
        out.reserve(blocks.len().saturating_mul(4 * numbers.len()));
        for block in blocks {
            decoder(block, &mut numbers);
            // One copy a block, not one for each number.
            bytes.iter_mut().zip(&numbers).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
            out.extend_from_slice(bytes.as_flattened());
        }
        Ok(())
    }

    /// Appends the blocks of little-endian 32-bit floats, which fill whole blocks, and returns the largest absolute
    /// difference between a number and what its block stands for. `first` is the position of the
    /// first number in its tensor, for errors.
    ///
    /// # Errors
    /// [`crate::Kind::Lossy`] for a number that no block can hold, naming it; [`crate::Kind::Unsupported`] for blocks
    /// without an encoder, and for those of a plan that no codec of this program knows; [`crate::Kind::Defect`] for
    /// numbers that do not fill their blocks.
    pub fn encode(&self, first: u64, numbers: &[u8], out: &mut Vec<u8>) -> Result<f64> {
        if let Some(coder) = self.coder.filter(|_| self.encodable) {
            return coder.encode(first, numbers, out);
        }
        let encoder = self.encoder.ok_or_else(|| self.no_encoder())?;
        let (elements, bytes) = (self.elements.get() as usize, self.bytes.get() as usize);
        let (numbers, rest) = numbers.as_chunks::<4>();
        if !rest.is_empty() || !numbers.len().is_multiple_of(elements) {
            return Err(Error::defect(format!("{} numbers do not fill blocks of {self}", numbers.len())));
        }
        let (mut floats, mut decoded, mut largest) = (Vec::new(), vec![0.0; elements], Largest::default());
        let (mut before, mut start) = (first, out.len());
        out.resize(start.saturating_add(numbers.len() / elements * bytes), 0);
        for piece in numbers.chunks((ENCODED / elements).max(1) * elements) {
            floats.clear();
            floats.extend(piece.iter().map(|number| f32::from_le_bytes(*number)));
            let end = start.saturating_add(floats.len() / elements * bytes);
            let blocks = out.get_mut(start..end).unwrap_or_default();
            encoder(&floats, blocks).map_err(|misfit| self.misfit(before, &floats, misfit))?;
            if let Some(decoder) = self.decoder {
                for (block, floats) in blocks.chunks_exact(bytes).zip(floats.chunks_exact(elements)) {
                    decoder(block, &mut decoded);
                    largest.add(floats, &decoded);
                }
            }
            (before, start) = (before.saturating_add(floats.len() as u64), end);
        }
        Ok(f64::from(largest.get()))
    }

    fn misfit(&self, before: u64, numbers: &[f32], misfit: Misfit) -> Error {
        let Misfit { position, expected } = misfit;
        Error::lossy(format!("blocks of {self} cannot hold a number"))
            .field(format!("element {}", before.saturating_add(position as u64)))
            .found(numbers.get(position).map(f32::to_string).unwrap_or_default())
            .expected(expected)
            .help("store the tensor in another type, or clip the weights")
    }

    /// The error of whoever needs to store numbers in blocks without an encoder.
    pub fn no_encoder(&self) -> Error {
        Error::unsupported(format!("nothing stores numbers in blocks of {self}"))
            .help("store the tensor in another type")
    }

    /// The error of whoever needs the numbers of opaque blocks.
    pub fn refusal(&self) -> Error {
        Error::unsupported(format!("blocks of {self} cannot be decoded"))
            .expected("a target format that stores the same blocks")
            .help("convert to the checkpoint's own format, or dequantize it with the program that wrote it")
    }

    /// Takes the decoder and the encoder of one of `known`, which a serialized block encoding lacks.
    pub fn attach(&mut self, known: &[Blocks]) {
        if let Some(same) = known.iter().find(|known| *known == self) {
            (self.decoder, self.encoder, self.coder) = (same.decoder, same.encoder, same.coder);
        }
    }
}

/// The largest difference of numbers, in lanes that do not wait for each other. Differences that are NaN do not count.
#[derive(Default)]
struct Largest([f32; 8]);

impl Largest {
    fn add(&mut self, first: &[f32], second: &[f32]) {
        let (firsts, first_rest) = first.as_chunks::<8>();
        let (seconds, second_rest) = second.as_chunks::<8>();
        for (first, second) in firsts.iter().zip(seconds) {
            self.add_few(first, second);
        }
        self.add_few(first_rest, second_rest);
    }

    #[inline(always)]
    fn add_few(&mut self, first: &[f32], second: &[f32]) {
        for (lane, (first, second)) in self.0.iter_mut().zip(first.iter().zip(second)) {
            let difference = (first - second).abs();
            *lane = if difference > *lane { difference } else { *lane };
        }
    }

    fn get(&self) -> f32 {
        self.0.iter().copied().fold(0.0, f32::max)
    }
}

/// Equal names and sizes; what else blocks have follows from them.
impl PartialEq for Blocks {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.elements, self.bytes, self.opaque, self.encodable)
            == (&other.name, other.elements, other.bytes, other.opaque, other.encodable)
    }
}

impl Eq for Blocks {}

impl Hash for Blocks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.elements, self.bytes, self.opaque).hash(state);
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Blocks { name, elements, bytes, .. } = self;
        let opaque = if self.opaque { ", opaque" } else { "" };
        write!(f, "Blocks({name}: {elements} elements in {bytes} bytes{opaque})")
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    const SCALED: Blocks = Blocks::decoded("toy.scaled", 2, 3, |block, numbers| {
        for (number, integer) in numbers.iter_mut().zip(&block[1..]) {
            *number = f32::from(block[0]) * f32::from(*integer);
        }
    });

    #[test]
    fn blocks_decode_one_after_the_other() {
        let mut out = Vec::new();
        SCALED.decode(&[2, 3, 4, 10, 1, 0], &mut out).unwrap();
        let numbers: Vec<f32> = out.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
        assert_eq!(numbers, [6.0, 8.0, 10.0, 0.0]);
    }

    /// Decodes and encodes as [`SCALED`] does, with a scale of 1.
    struct Units;

    impl BlockCoder for Units {
        fn decode(&self, blocks: &[u8], out: &mut Vec<u8>) -> Result<()> {
            SCALED.decode(blocks, out)
        }

        fn encode(&self, _: u64, numbers: &[u8], out: &mut Vec<u8>) -> Result<f64> {
            out.extend(numbers.as_chunks::<8>().0.iter().flat_map(|_| [1, 0, 0]));
            Ok(0.5)
        }
    }

    #[test]
    fn blocks_of_a_coder_are_decoded_and_encoded_by_it() {
        let hosted = Blocks::decoded("toy.scaled", 2, 3, |_, _| ()).coded_by(&Units);
        let mut read: Blocks = serde_json::from_str(&serde_json::to_string(&hosted).unwrap()).unwrap();
        read.attach(std::slice::from_ref(&hosted));
        let (mut own, mut other) = (Vec::new(), Vec::new());
        read.decode(&[2, 3, 4], &mut own).unwrap();
        SCALED.decode(&[2, 3, 4], &mut other).unwrap();
        assert_eq!(own, other);
        // The blocks are not said to be encodable.
        assert_eq!(read.encode(0, &[0; 8], &mut own).unwrap_err().kind(), Kind::Unsupported);
        let opaque = Blocks::opaque("toy.scaled", 2, 3).coded_by(&Units);
        assert_eq!(opaque.decode(&[2, 3, 4], &mut own).unwrap_err().kind(), Kind::Unsupported);
    }

    #[test]
    fn elements_that_fill_no_whole_block_have_no_length() {
        assert_eq!((SCALED.stored_len(4), SCALED.stored_len(3)), (Some(6), None));
        assert_eq!(SCALED.stored_len(u64::MAX - 1), None);
    }

    #[test]
    fn the_numbers_of_opaque_blocks_are_refused_by_name() {
        let error = Blocks::opaque("toy.secret", 2, 3).decode(&[0; 3], &mut Vec::new()).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("toy.secret"), "{error}");
    }

    #[test]
    fn a_serialized_encoding_takes_its_decoder_from_one_of_its_name_and_sizes() {
        let json = serde_json::to_string(&SCALED).unwrap();
        let mut read: Blocks = serde_json::from_str(&json).unwrap();
        assert!(read == SCALED && !read.is_opaque());
        read.attach(&[Blocks::decoded("toy.scaled", 2, 4, |_, _| ())]);
        assert!(read.decode(&[0; 3], &mut Vec::new()).is_err());
        read.attach(&[SCALED]);
        read.decode(&[0; 3], &mut Vec::new()).unwrap();
    }
}
