//! Runs of bytes in files, and numbers that are computed from them: each can hold the other.

use super::packed::PackedIntegers;
use crate::{Checksum, Compression, DType, Decoder, Encoding, Error, FileId, Kept, Scalar, Shape};
use serde::{Deserialize, Serialize, Serializer};
use std::hash::{Hash, Hasher};

/// A contiguous run of bytes in one file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "ExtentDocument")]
#[non_exhaustive]
pub struct Extent {
    /// Which file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// Bytes of the tensor that it holds.
    pub len: u64,
    /// Reading: what the bytes must sum to. Writing: which checksum [`crate::Codec::finish`] needs.
    pub checksum: Option<Checksum>,
    /// What few extents have; `None` if all of it is.
    rare: Option<Box<RareOfExtent>>,
}

/// Apart from the extent, for there can be a million of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct RareOfExtent {
    region: Option<Box<Region>>,
    compression: Option<Box<Compression>>,
    computed: Option<Box<Computed>>,
}

impl Extent {
    /// `len` bytes from `offset` of a file.
    pub fn new(file: FileId, offset: u64, len: u64) -> Self {
        Extent { file, offset, len, checksum: None, rare: None }
    }

    /// Which box of the tensor these bytes are; `None` for the whole tensor, or the next bytes of it.
    pub fn region(&self) -> Option<&Region> {
        self.rare.as_ref()?.region.as_deref()
    }

    /// [`Extent::region`], to be changed.
    pub fn region_mut(&mut self) -> Option<&mut Region> {
        self.rare.as_mut()?.region.as_deref_mut()
    }

    /// How the bytes are compressed in the file; `None` if they are there as they are. Only for reading.
    pub fn compression(&self) -> Option<&Compression> {
        self.rare.as_ref()?.compression.as_deref()
    }

    /// How the numbers are computed from stored ones; `None` if the file holds them. Only for reading.
    pub fn computed(&self) -> Option<&Computed> {
        self.rare.as_ref()?.computed.as_deref()
    }

    /// [`Extent::computed`], to be changed.
    pub(crate) fn computed_mut(&mut self) -> Option<&mut Computed> {
        self.rare.as_mut()?.computed.as_deref_mut()
    }

    /// The same bytes, if each file has a number that is `first` higher: those of a checkpoint whose files are listed behind
    /// others.
    #[must_use]
    pub fn behind_files(mut self, first: usize) -> Self {
        self.file = self.file.behind(first);
        if let Some(computed) = self.computed_mut() {
            computed.move_files(first);
        }
        self
    }

    /// Whether every decoder that reading needs is known, as it is but for extents that were read from a document.
    pub fn has_decoder(&self) -> bool {
        let own = self.compression().is_none_or(Compression::has_decoder);
        own && self.computed().is_none_or(|computed| computed.stored().into_iter().all(Extent::has_decoder))
    }

    /// Attaches decoders to the stored bytes, and checks that these can be as long as stated.
    pub(crate) fn attach_decoders(
        &mut self,
        known: &[&'static Decoder],
    ) -> std::result::Result<(), (Error, FileId)> {
        let (file, offset, len) = (self.file, self.offset, self.len);
        let Some(rare) = self.rare.as_mut() else { return Ok(()) };
        if let Some(compression) = rare.compression.as_deref_mut() {
            compression.attach(known);
            let is_possible = compression.known().and_then(|_| compression.total(len));
            is_possible.map_err(|error| (error.offset(offset), file))?;
        }
        match rare.computed.as_deref_mut() {
            Some(computed) => {
                computed.stored_mut().into_iter().try_for_each(|(stored, _)| stored.attach_decoders(known))
            }
            None => Ok(()),
        }
    }

    /// The same bytes as this box of the tensor.
    #[must_use]
    pub fn with_region(mut self, region: impl Into<Option<Region>>) -> Self {
        self.set_region(region);
        self
    }

    /// Sets [`Extent::region`].
    pub fn set_region(&mut self, region: impl Into<Option<Region>>) {
        let region = region.into();
        self.change(|rare| rare.region = region.map(Box::new));
    }

    /// The same bytes with a checksum.
    #[must_use]
    pub fn with_checksum(mut self, checksum: impl Into<Option<Checksum>>) -> Self {
        self.checksum = checksum.into();
        self
    }

    /// The bytes that the file's bytes from `offset` on decompress to: `len` counts what comes out.
    #[must_use]
    pub fn with_compression(mut self, compression: impl Into<Option<Compression>>) -> Self {
        let compression = compression.into();
        self.change(|rare| rare.compression = compression.map(Box::new));
        self
    }

    /// The same bytes, where the numbers are computed.
    #[must_use]
    pub(crate) fn with_computed(mut self, computed: Computed) -> Self {
        self.change(|rare| rare.computed = Some(Box::new(computed)));
        self
    }

    fn change(&mut self, change: impl FnOnce(&mut RareOfExtent)) {
        let mut rare = self.rare.take().map_or_else(RareOfExtent::default, |rare| *rare);
        change(&mut rare);
        // So that equal extents are equal.
        self.rare = (rare != RareOfExtent::default()).then(|| Box::new(rare));
    }

    /// Bytes that it takes in the file.
    pub fn stored_len(&self) -> u64 {
        let own = self.computed().map_or(self, |computed| &computed.stored);
        own.compression().map_or(own.len, |compression| compression.stored)
    }
}

/// An extent in JSON.
#[derive(Deserialize)]
#[serde(rename = "Extent")]
struct ExtentDocument {
    file: FileId,
    offset: u64,
    len: u64,
    #[serde(default)]
    region: Option<Box<Region>>,
    #[serde(default)]
    checksum: Option<Checksum>,
    #[serde(default)]
    compression: Option<Box<Compression>>,
    #[serde(default)]
    computed: Option<Box<Computed>>,
}

impl From<ExtentDocument> for Extent {
    fn from(document: ExtentDocument) -> Self {
        let ExtentDocument { file, offset, len, region, checksum, compression, computed } = document;
        let mut extent = Extent::new(file, offset, len).with_checksum(checksum);
        extent.change(|rare| *rare = RareOfExtent { region, compression, computed });
        extent
    }
}

impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// [`ExtentDocument`], without copies.
        #[derive(Serialize)]
        #[serde(rename = "Extent")]
        struct Document<'a> {
            file: FileId,
            offset: u64,
            len: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            region: Option<&'a Region>,
            #[serde(skip_serializing_if = "Option::is_none")]
            checksum: Option<&'a Checksum>,
            #[serde(skip_serializing_if = "Option::is_none")]
            compression: Option<&'a Compression>,
            #[serde(skip_serializing_if = "Option::is_none")]
            computed: Option<&'a Computed>,
        }
        let Extent { file, offset, len, .. } = *self;
        let (checksum, region) = (self.checksum.as_ref(), self.region());
        let (compression, computed) = (self.compression(), self.computed());
        Document { file, offset, len, region, checksum, compression, computed }.serialize(serializer)
    }
}

/// A box within a tensor, in logical axis order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// First index on each axis.
    pub start: Vec<u64>,
    /// Length on each axis.
    pub shape: Shape,
}

/// How the 32-bit floats of an [`Extent`] are computed from stored elements: only for reading.
///
/// The extent then holds little-endian [`DType::F32`] numbers in the order of the stored elements, one for each. Any
/// range of them can be read by itself.
///
/// ```
/// use ckpt_api::{Computed, DType, Encoding, Extent, FileId, Operation, Scalar};
/// // Three 16-bit floats, each doubled.
/// let stored = Extent::new(FileId(0), 100, 6);
/// let doubled = Computed::new(stored, Encoding::new(DType::F16, vec![0]))
///     .with_operations(vec![Operation::Multiply(Scalar::new(2.0).expect("it is finite"))]);
/// let extent = doubled.into_extent()?;
/// assert_eq!((extent.offset, extent.len, extent.stored_len()), (100, 12, 6));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Computed {
    /// The stored elements, one after the other: an extent without a region that is not computed itself.
    pub stored: Extent,
    /// How they are encoded. Their order does not matter.
    pub encoding: Encoding,
    /// How the stored words hold integers, if these are packed into them; else each stored element is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<PackedIntegers>,
    /// What happens to each number, in order.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// How words hold the numbers, if these become integers that are packed into them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Words>,
}

/// Words that hold computed integers: the extent has their bytes, in place of 32-bit floats.
///
/// An integer takes the low bits of its two's complement; one that has more bits is an error.
///
/// ```
/// use ckpt_api::{Along, Computed, DType, Encoding, Extent, FieldOrder, FileId, Operation, PackedIntegers, Words};
/// // Two rows of 16 floats, each rounded to a whole number of 4 bits, fill two words a row.
/// let packed = PackedIntegers::new(4, [2, 16], Along::Row, FieldOrder::Dense);
/// let extent = Computed::new(Extent::new(FileId(0), 0, 128), Encoding::new(DType::F32, vec![0]))
///     .with_operations(vec![Operation::RoundWhole])
///     .in_words(Words { dtype: DType::U32, packed })
///     .into_extent()?;
/// assert_eq!(extent.len, 16);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// An integer of 8, 16 or 32 bits.
    pub dtype: DType,
    /// Where the integers are in the words. Only along rows, and densely or with the first in the highest bits.
    pub packed: PackedIntegers,
}

/// An operation on every number of an extent, in 32-bit floats.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Operation {
    /// Multiplies by a number.
    Multiply(Scalar),
    /// Divides by a number.
    Divide(Scalar),
    /// Adds a number.
    Add(Scalar),
    /// Divides this number by each.
    DivideInto(Scalar),
    /// Replaces 0, of either sign, by a number.
    ReplaceZero(Scalar),
    /// Replaces a number by its exponential, rounded to the nearest float.
    Exp,
    /// Undoes [`Operation::Exp`]: of the floats whose exponential is the number, takes one that is short.
    Log,
    /// Rounds to the nearest number that this dtype has, ties to even.
    Round(DType),
    /// Rounds to the nearest whole number, ties to even.
    RoundWhole,
    /// Replaces what is less than a number by it; what is no number stays none.
    AtLeast(Scalar),
    /// Replaces what is more than a number by it; what is no number stays none.
    AtMost(Scalar),
    /// Replaces a number by how many of these bounds are less than it; what is no number stays none.
    CountBelow(Box<[Scalar]>),
    /// Replaces the numbers, those of a matrix, by one for each block.
    Reduce(BlockReduction),
    /// Replaces a number, which is a whole one, by the entry of a table with this index.
    LookUp(Box<Computed>),
    /// Adds to each block of numbers one of its own.
    AddBlocks(Box<BlockNumbers>),
    /// Subtracts from each block of numbers one of its own.
    SubtractBlocks(Box<BlockNumbers>),
    /// Multiplies each block of numbers by one of its own.
    MultiplyBlocks(Box<BlockNumbers>),
    /// Divides each block of numbers by one of its own.
    DivideBlocks(Box<BlockNumbers>),
    /// Adds a multiple of a product of two matrices.
    AddProduct(Box<MatrixProduct>),
    /// Scales each row of a matrix to a norm of its own. Only of numbers that are no operands, and a few times.
    ScaleRows(Box<RowMagnitudes>),
    /// Replaces the numbers that are not kept by 0.
    Keep(Kept),
    /// Adds the elements of several tensors that agree in sign.
    AddAgreeing(Box<Agreement>),
    /// Subtracts from each run of numbers one of a list.
    SubtractRuns(RunNumbers),
    /// Multiplies each run of numbers by one of a list.
    MultiplyRuns(RunNumbers),
    /// Replaces numbers by the integers that stand for them.
    ToIntegers(Box<AffineIntegers>),
}

/// A list of numbers, of which each run of a tensor's elements takes the next, again from the first after the last.
///
/// Scales along an axis are such a list: a run has the elements of one index. They are numbers of 64 bits, because PyTorch
/// multiplies by those and rounds once; for numbers that 32 bits hold, the result is that of 32-bit floats.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunNumbers {
    /// The numbers, at least one, each finite.
    pub numbers: Box<[f64]>,
    /// Elements of a run, in stored order, at least 1.
    pub run: u64,
}

impl RunNumbers {
    fn bits(&self) -> impl Iterator<Item = u64> {
        self.numbers.iter().map(|number| number.to_bits())
    }
}

impl PartialEq for RunNumbers {
    fn eq(&self, other: &Self) -> bool {
        self.run == other.run && self.bits().eq(other.bits())
    }
}

impl Eq for RunNumbers {}

impl Hash for RunNumbers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.run.hash(state);
        self.numbers.len().hash(state);
        self.bits().for_each(|bits| bits.hash(state));
    }
}

/// Integers that stand for the numbers `integer · scale + offset`, with a scale for each run of them.
///
/// A number becomes the whole one nearest to `(number − offset) / scale`, computed in 64-bit floats, and no less than `least` and no
/// more than `most`.
///
/// ```
/// use ckpt_api::{AffineIntegers, RunNumbers};
/// let bytes = AffineIntegers {
///     scales: RunNumbers { numbers: [0.1].into(), run: 1 },
///     offset: -0.3,
///     least: 0,
///     most: 255,
///     ties_to_even: true,
/// };
/// assert_eq!([-0.3, 0.0, 0.26, 99.0].map(|number| bytes.integer(number, 0.1)), [0.0, 3.0, 6.0, 255.0]);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffineIntegers {
    /// The scales, none of which is 0.
    pub scales: RunNumbers,
    /// What the integer 0 stands for.
    pub offset: f64,
    /// The least integer.
    pub least: i32,
    /// The greatest integer.
    pub most: i32,
    /// Whether what is between two integers becomes the even one, or the one further from 0.
    pub ties_to_even: bool,
}

impl PartialEq for AffineIntegers {
    fn eq(&self, other: &Self) -> bool {
        let rest = |own: &Self| (own.offset.to_bits(), own.least, own.most, own.ties_to_even);
        self.scales == other.scales && rest(self) == rest(other)
    }
}

impl Eq for AffineIntegers {}

impl Hash for AffineIntegers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scales.hash(state);
        (self.offset.to_bits(), self.least, self.most, self.ties_to_even).hash(state);
    }
}

/// The numbers that an [`Operation`] takes beside those that it changes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operand<'a> {
    /// A table.
    Table(&'a Computed),
    /// Numbers of blocks.
    Blocks(&'a BlockNumbers),
    /// The factors of a product.
    Product(&'a MatrixProduct),
    /// The norms of rows.
    Rows(&'a RowMagnitudes),
    /// Tensors that are added where they agree.
    Agreement(&'a Agreement),
}

/// Tensors whose elements are added where they agree in sign.
///
/// The products `weight · number` of an element are summed, in order; a sum of at least 0 elects the positive numbers, another
/// one the negative ones. The element becomes `element + factor · Σ weight · number` over the products of the elected sign, or
/// `element + factor · Σ weight · number / Σ weight` over these (a divisor of 0 counts as 1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Agreement {
    /// The tensors, at least one.
    pub terms: Vec<Term>,
    /// Whether the sum is divided by that of its weights.
    pub is_mean: bool,
    /// By what the sum is multiplied.
    pub factor: Scalar,
}

/// A tensor of an [`Agreement`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Term {
    /// What people call it.
    pub name: String,
    /// By what its numbers are multiplied.
    pub weight: Scalar,
    /// Its numbers, one for each element.
    pub numbers: Computed,
}

/// Numbers, each of which belongs to a block of another tensor's elements: scales, or zero points.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BlockNumbers {
    /// The name of their tensor, for people.
    pub name: String,
    /// The numbers, one a block, in row-major order.
    pub numbers: Computed,
    /// The shape of the tensor of elements, which the stored elements fill in row-major order.
    pub shape: Shape,
    /// The length of a block on each axis of `shape`, at least 1; the last block on an axis may be shorter.
    pub block: Vec<u64>,
    /// An axis on which a block is not a run of indices: a tensor states the block of each index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<BlockIndex>,
}

/// The blocks of a matrix, each of which becomes one number: what scales of quantized weights are made of.
///
/// ```
/// use ckpt_api::{BlockReduction, Computed, DType, Encoding, Extent, FileId, Operation, Reduction};
/// // 300 rows of 200 columns have 3 × 2 blocks of 128 × 128; those at the ends are shorter.
/// let weights = Extent::new(FileId(0), 100, 300 * 200 * 2);
/// let maxima = BlockReduction::new(Reduction::LargestMagnitude, [300, 200], [128, 128]);
/// let maxima = Computed::new(weights, Encoding::new(DType::Bf16, vec![0]))
///     .with_operations(vec![Operation::Reduce(maxima)]);
/// assert_eq!(maxima.elements(), Some(6));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BlockReduction {
    /// What the elements of a block become.
    pub reduction: Reduction,
    /// Rows and columns of the matrix, which the numbers fill in row-major order.
    pub shape: [u64; 2],
    /// Rows and columns of a block, each at least 1.
    pub block: [u64; 2],
}

/// What the elements of a block become.
///
/// Integers of `bits` bits, 1 to 8, stand for the numbers `scale · integer + offset`. MLX chooses both in 32-bit floats: `edge` is the
/// maximum of the block, or its minimum if that has a larger magnitude; `step` is what the integers divide the range from minimum to
/// maximum into, at least 1e-7, and negative if `edge` is the maximum. With `q`, the whole number nearest to `edge / step`, the scale
/// is `edge / q` and the offset is `edge`; if `q` is 0, they are `step` and 0. Elements that are no numbers do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reduction {
    /// The largest magnitude. If an element is no number, the result is none.
    LargestMagnitude,
    /// The scale of integers that stand for the elements.
    AffineScale {
        /// Bits of an integer.
        bits: u32,
    },
    /// Their offset.
    AffineOffset {
        /// Bits of an integer.
        bits: u32,
    },
}

/// The block of each index of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BlockIndex {
    /// The name of its tensor, for people.
    pub name: String,
    /// The axis.
    pub axis: usize,
    /// The number of blocks on this axis.
    pub blocks: u64,
    /// The number of the block of each index: an extent without a region that is not computed itself.
    pub stored: Extent,
    /// How these are encoded.
    pub encoding: Encoding,
}

/// A multiple of the product of two matrices, for each element of a matrix.
///
/// The element in row `i` and column `j` becomes `element + factor · Σ left[i][k] · right[k][j]`. The sum is one of 32-bit
/// floats, which begins at 0 and takes `k` in ascending order; no product is fused with a sum.
///
/// ```
/// use ckpt_api::{Computed, DType, Encoding, Extent, FileId, MatrixFactor, MatrixProduct, Operation, Scalar};
/// let numbers = |offset, count: u64| {
///     Computed::new(Extent::new(FileId(0), offset, count * 4), Encoding::new(DType::F32, vec![0]))
/// };
/// // A matrix of 3 rows and 5 columns, and a product of rank 2.
/// let (left, right) = (MatrixFactor::new(numbers(60, 6)), MatrixFactor::new(numbers(84, 10)));
/// let factor = Scalar::new(0.5).expect("it is finite");
/// let product = MatrixProduct::new("a", [3, 5], 2, factor, left, right);
/// let sum = numbers(0, 15).with_operations(vec![Operation::AddProduct(Box::new(product))]);
/// assert_eq!(sum.into_extent()?.len, 60);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MatrixProduct {
    /// What people call it.
    pub name: String,
    /// Rows of the matrix, which the stored elements fill in row-major order.
    pub rows: u64,
    /// Its columns.
    pub columns: u64,
    /// Columns of the left factor, and rows of the right one.
    pub rank: u64,
    /// By what the product is multiplied.
    pub factor: Scalar,
    /// The factor with as many rows as the matrix.
    pub left: MatrixFactor,
    /// The factor with as many columns as the matrix.
    pub right: MatrixFactor,
}

/// A factor of a [`MatrixProduct`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MatrixFactor {
    /// Its numbers, in row-major order.
    pub numbers: Computed,
    /// Whether they are in column-major order instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_transposed: bool,
}

/// The Euclidean norm that each row of a matrix gets.
///
/// Each element of a row is multiplied by `number / norm`, where `norm` is the square root, rounded to a 32-bit float, of the sum of
/// squares in 64-bit floats: eight sums, of which number `i % 8` takes element `i` of the row, and which are added in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RowMagnitudes {
    /// The name of their tensor, for people.
    pub name: String,
    /// Rows of the matrix, which the stored elements fill in row-major order.
    pub rows: u64,
    /// Its columns.
    pub columns: u64,
    /// The norms, one a row.
    pub numbers: Computed,
}
