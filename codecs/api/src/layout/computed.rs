//! Numbers that are computed from stored ones while they are read.

use crate::{
    BlockScales, Computed, DType, Encoding, Error, Extent, FileId, Limits, Operation, Packing, Result, Shape,
};
use std::fmt;

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

    /// [`Computed::stored`], to be changed.
    pub(crate) fn stored_mut(&mut self) -> impl Iterator<Item = &mut Extent> {
        let scales = self.operations.iter_mut().filter_map(|operation| match operation {
            Operation::MultiplyBlocks(scales) => Some(&mut scales.stored),
            _ => None,
        });
        [&mut self.stored].into_iter().chain(scales)
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

/// As a step of a mapping states it.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Multiply(factor) => write!(f, "scale {factor}"),
            Operation::Divide(divisor) => write!(f, "scale 1/{divisor}"),
            Operation::Add(term) => write!(f, "add {term}"),
            Operation::Exp => f.write_str("exp"),
            Operation::Log => f.write_str("log"),
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
    use crate::{Blocks, Compression, Decoder};

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
        assert!(!check(&once.with_compression(Compression::new(Decoder::REPEATED, 3)), 1));
    }
}
