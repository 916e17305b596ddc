//! Numbers that are computed from stored ones while they are read.

use crate::encoding::Encoding;
use crate::extent::Extent;
use crate::placement::FileId;
use crate::{DType, Error, Limits, Packing, Result, Shape};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};

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
    /// What happens to each number, in order.
    #[serde(default)]
    pub operations: Vec<Operation>,
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
    /// Rounds to the nearest number that this dtype has, ties to even.
    Round(DType),
    /// Multiplies each block of numbers by a scale of its own.
    MultiplyBlocks(Box<BlockScales>),
}

/// A tensor of scales, each of which belongs to a block of another tensor's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BlockScales {
    /// The name of the tensor of scales, for people.
    pub name: String,
    /// The stored scales in row-major order: an extent without a region that is not computed itself.
    pub stored: Extent,
    /// How they are encoded.
    pub encoding: Encoding,
    /// The shape of the tensor of elements, which the stored elements fill in row-major order.
    pub shape: Shape,
    /// The length of a block on each axis of `shape`, at least 1; the last block on an axis may be shorter.
    pub block: Vec<u64>,
}

impl BlockScales {
    /// The scales of blocks of these lengths.
    pub fn new(
        name: impl Into<String>,
        stored: Extent,
        encoding: Encoding,
        shape: Shape,
        block: Vec<u64>,
    ) -> Self {
        BlockScales { name: name.into(), stored, encoding, shape, block }
    }

    /// The shape of the tensor of scales: the number of blocks on each axis.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for blocks that have no length, or not one for each axis.
    pub fn blocks(&self) -> Result<Shape> {
        if self.block.len() != self.shape.rank() || self.block.contains(&0) {
            return Err(Error::corrupt("the blocks do not fit the tensor")
                .found(format!("blocks of {:?} in {}", self.block, self.shape)));
        }
        Shape::new(self.shape.iter().zip(&self.block).map(|(len, block)| len.div_ceil(*block)))
    }

    fn check(&self, elements: u64) -> Result<()> {
        let wrong = |what: &str| Error::corrupt(what).tensor(&self.name);
        check_stored(&self.stored, &self.encoding)?;
        if self.shape.elements() != elements {
            return Err(wrong("the scales belong to a tensor of another size"));
        }
        let scales = self.blocks()?.elements();
        if self.encoding.blocks().is_some()
            || self.encoding.packing != Packing::Bytes
            || self.encoding.stored_len(scales) != Some(self.stored.len)
        {
            return Err(wrong("the stored scales do not fit the blocks")
                .found(crate::count(self.stored.len, "byte"))
                .expected(format!("{scales} of {}", self.encoding.dtype)));
        }
        Ok(())
    }
}

impl Computed {
    /// The stored elements, as 32-bit floats.
    pub fn new(stored: Extent, encoding: Encoding) -> Self {
        Computed { stored, encoding, operations: Vec::new() }
    }

    /// The same with these operations.
    #[must_use]
    pub fn with_operations(mut self, operations: Vec<Operation>) -> Self {
        self.operations = operations;
        self
    }

    /// The number of elements; `None` if the bytes do not hold whole ones.
    pub fn elements(&self) -> Option<u64> {
        let Computed { stored: Extent { len, .. }, encoding, .. } = self;
        let elements = match (encoding.blocks(), encoding.packing) {
            (Some(blocks), _) => len.checked_div(blocks.bytes())?.checked_mul(blocks.elements())?,
            (None, Packing::Bits) => len.checked_mul(8)?.checked_div(u64::from(encoding.dtype.bits()?))?,
            (None, Packing::Bytes) => len.checked_div(encoding.dtype.bytes()?)?,
        };
        (encoding.stored_len(elements) == Some(*len)).then_some(elements)
    }

    /// The extent of the computed numbers, without a region.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for stored bytes that do not hold whole elements, and for scales that do not fit them.
    pub fn into_extent(self) -> Result<Extent> {
        let len = self.check()?;
        let (file, offset) = (self.stored.file, self.stored.offset);
        Ok(Extent::new(file, offset, len).with_computed(self))
    }

    /// Checks that the parts fit each other; returns the length of the computed numbers in bytes.
    fn check(&self) -> Result<u64> {
        check_stored(&self.stored, &self.encoding)?;
        let wrong = || {
            Error::corrupt("the stored elements of computed numbers are not whole ones")
                .found(crate::count(self.stored.len, "byte"))
                .expected(format!("elements of {}", self.encoding.dtype))
        };
        let elements = self.elements().ok_or_else(wrong)?;
        for operation in &self.operations {
            if let Operation::MultiplyBlocks(scales) = operation {
                scales.check(elements)?;
            }
        }
        elements.checked_mul(4).ok_or_else(wrong)
    }

    /// The extents that are stored: of the elements, and of scales.
    pub fn stored(&self) -> impl Iterator<Item = &Extent> {
        let scales = self.operations.iter().filter_map(|operation| match operation {
            Operation::MultiplyBlocks(scales) => Some(&scales.stored),
            _ => None,
        });
        [&self.stored].into_iter().chain(scales)
    }

    /// Checks what [`Computed::into_extent`] made, which may come from a plan.
    pub(crate) fn check_extent(&self, extent: &Extent, files: usize, limits: &Limits) -> Result<()> {
        let len = self.check()?;
        let is_own = (extent.file, extent.offset, extent.len) == (self.stored.file, self.stored.offset, len);
        let exist = self.stored().all(|stored| stored.file.0 < files);
        if !is_own || !exist || extent.compression().is_some() || extent.checksum.is_some() {
            return Err(Error::corrupt("an extent of computed numbers contradicts itself"));
        }
        for stored in self.stored() {
            if let Some(compression) = stored.compression() {
                compression.check(stored.len, limits).map_err(|error| error.offset(stored.offset))?;
            }
        }
        Ok(())
    }
}

fn check_stored(stored: &Extent, encoding: &Encoding) -> Result<()> {
    match stored.region().is_some() || stored.computed().is_some() || !encoding.tiles().is_empty() {
        true => Err(Error::corrupt("the stored elements of computed numbers are no plain extent")),
        false => Ok(()),
    }
}

impl Encoding {
    /// Checks that numbers in this encoding can be computed: plain little-endian 32-bit floats.
    pub(crate) fn check_computed(&self) -> Result<()> {
        let plain = Encoding::new(DType::F32, self.order.clone()).with_tiles(self.tiles());
        match *self == plain {
            true => Ok(()),
            false => Err(Error::corrupt("computed numbers are read as something else than f32")),
        }
    }
}

impl Extent {
    /// Whether a reader computes the numbers from stored ones.
    pub fn is_computed(&self) -> bool {
        self.computed().is_some()
    }

    /// Whether its stored bytes are compressed in the file.
    pub fn is_compressed(&self) -> bool {
        let stored = self.computed().map_or(self, |computed| &computed.stored);
        stored.compression().is_some()
    }

    /// The file ranges that hold the bytes: more than one if scales belong to them. Each is a file, its first byte, and
    /// the number of stored bytes.
    pub fn stored_ranges(&self) -> impl Iterator<Item = (FileId, u64, u64)> {
        let computed = self.computed().into_iter().flat_map(Computed::stored);
        let own = self.computed().is_none().then_some(self);
        computed.chain(own).map(|extent| (extent.file, extent.offset, extent.stored_len()))
    }
}

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

/// As a step of a mapping states it.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Multiply(factor) => write!(f, "scale {factor}"),
            Operation::Divide(divisor) => write!(f, "scale 1/{divisor}"),
            Operation::Add(term) => write!(f, "add {term}"),
            Operation::Round(dtype) => write!(f, "round to {dtype}"),
            Operation::MultiplyBlocks(scales) => {
                write!(f, "scale each block of {:?} by '{}'", scales.block, scales.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, Compression, Method};

    fn extent(len: u64) -> Extent {
        Extent::new(FileId(0), 8, len)
    }

    fn scales(len: u64, shape: &[u64], block: &[u64]) -> Operation {
        let encoding = Encoding::new(DType::F32, vec![0]);
        let shape = Shape::new(shape).unwrap();
        let scales = BlockScales::new("s", extent(len), encoding, shape, block.to_vec());
        Operation::MultiplyBlocks(Box::new(scales))
    }

    #[test]
    fn computed_numbers_are_as_many_as_the_stored_elements() {
        let len = |stored: u64, encoding: Encoding| {
            Computed::new(extent(stored), encoding).into_extent().map(|extent| extent.len).ok()
        };
        let plain = |dtype| Encoding::new(dtype, vec![0]);
        assert_eq!(len(6, plain(DType::F16)), Some(12));
        assert_eq!(len(7, plain(DType::F16)), None);
        assert_eq!(len(16, plain(DType::F4E2m1).with_packing(Packing::Bits)), Some(128));
        assert_eq!(len(9, plain(DType::F32).in_blocks(Blocks::opaque("toy.b", 32, 3))), Some(384));
        assert_eq!(len(u64::MAX / 2, plain(DType::U8)), None);
        assert_eq!(len(8, plain(DType::String)), None);
    }

    #[test]
    fn every_block_has_a_scale_and_the_last_of_an_axis_may_be_shorter() {
        let computed = |scales| {
            let encoding = Encoding::new(DType::F8E4m3, vec![0]);
            Computed::new(extent(300 * 200), encoding).with_operations(vec![scales]).into_extent().is_ok()
        };
        assert!(computed(scales(4 * 3 * 2, &[300, 200], &[128, 128])));
        assert!(!computed(scales(4 * 3 * 3, &[300, 200], &[128, 128])), "scales for another axis");
        assert!(!computed(scales(4 * 3 * 2, &[300, 100], &[128, 128])), "a tensor of another size");
        assert!(!computed(scales(4 * 3 * 2, &[300, 200], &[128])), "a block without a length");
        assert!(!computed(scales(4, &[300, 200], &[0, 200])), "a block of nothing");
    }

    #[test]
    fn stored_extents_are_plain_and_a_computed_one_describes_itself() {
        let encoding = || Encoding::new(DType::F16, vec![0]);
        let once = Computed::new(extent(6), encoding()).into_extent().unwrap();
        assert!(Computed::new(once.clone(), encoding()).into_extent().is_err());
        let check = |extent: &Extent, files| {
            extent.computed().unwrap().check_extent(extent, files, &Limits::default()).is_ok()
        };
        assert!(check(&once, 1) && !check(&once, 0));
        let mut longer = once.clone();
        longer.len = 16;
        assert!(!check(&longer, 1));
        assert!(!check(&once.with_compression(Compression::new(Method::Deflate, 3)), 1));
    }

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
