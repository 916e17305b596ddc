//! Numbers that are computed from stored ones while they are read.

use super::packed::PackedIntegers;
use crate::{
    AffineIntegers, Along, BlockIndex, BlockNumbers, BlockReduction, Computed, DType, Encoding, Error,
    Extent, FieldOrder, FileId, Kept, Limits, Operand, Operation, Packing, Reduction, Result, RunNumbers,
    Shape, Words,
};
use std::fmt;

/// How deep numbers may be computed from numbers that are computed themselves.
const MAX_LEVELS: usize = 4;
/// How many times rows may be scaled.
const MAX_ROW_SCALINGS: u32 = 3;
/// How many times numbers may become those of blocks.
const MAX_REDUCTIONS: u32 = 2;
/// The most entries of a table that numbers are looked up in.
const MAX_TABLE: u64 = 256;

impl BlockNumbers {
    /// The numbers of blocks of these lengths.
    pub fn new(name: impl Into<String>, numbers: Computed, shape: Shape, block: Vec<u64>) -> Self {
        BlockNumbers { name: name.into(), numbers, shape, block, index: None }
    }

    /// The same with an axis on which a tensor states the block of each index.
    #[must_use]
    pub fn with_index(mut self, index: Option<BlockIndex>) -> Self {
        self.index = index;
        self
    }

    /// The shape of the tensor of numbers: how many blocks each axis has.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for blocks that have no length, or not one for each axis.
    pub fn blocks(&self) -> Result<Shape> {
        if self.block.len() != self.shape.rank() || self.block.contains(&0) {
            return Err(Error::corrupt("the blocks do not fit the tensor")
                .found(format!("blocks of {:?} in {}", self.block, self.shape)));
        }
        let mut blocks: Vec<u64> =
            self.shape.iter().zip(&self.block).map(|(len, block)| len.div_ceil(*block)).collect();
        if let Some(index) = &self.index {
            let axis = blocks.get_mut(index.axis);
            *axis.ok_or_else(|| Error::corrupt("the index of blocks is on an axis that does not exist"))? =
                index.blocks;
        }
        Shape::new(blocks)
    }

    fn check(&self, elements: u64) -> Result<()> {
        let wrong = |what: &str| Error::corrupt(what).tensor(&self.name);
        if self.shape.elements() != elements {
            return Err(wrong("the numbers of blocks belong to a tensor of another size"));
        }
        let blocks = self.blocks()?.elements();
        if self.numbers.elements() != Some(blocks) {
            return Err(wrong("the stored numbers do not fit the blocks")
                .found(crate::count(self.numbers.stored.len, "byte"))
                .expected(format!("{blocks} of {}", self.numbers.encoding.dtype)));
        }
        match &self.index {
            Some(index) => index.check(&self.shape),
            None => Ok(()),
        }
    }
}

impl BlockIndex {
    /// The blocks, of `blocks`, of the indices of an axis.
    pub fn new(
        name: impl Into<String>,
        axis: usize,
        blocks: u64,
        stored: Extent,
        encoding: Encoding,
    ) -> Self {
        BlockIndex { name: name.into(), axis, blocks, stored, encoding }
    }

    fn check(&self, shape: &Shape) -> Result<()> {
        check_stored(&self.stored, &self.encoding)?;
        let is_plain = self.encoding.blocks().is_none() && self.encoding.packing == Packing::Bytes;
        let is_integer = matches!(self.encoding.dtype, DType::I32 | DType::I64 | DType::U32 | DType::U8);
        let len = shape.get(self.axis).and_then(|len| self.encoding.stored_len(*len));
        if !is_plain || !is_integer || len != Some(self.stored.len) {
            return Err(Error::corrupt("the index of blocks does not fit its axis")
                .tensor(&self.name)
                .found(format!("{} of {}", crate::count(self.stored.len, "byte"), self.encoding.dtype))
                .expected(format!("an integer for each index of axis {} of {shape}", self.axis)));
        }
        Ok(())
    }
}

impl BlockReduction {
    /// The blocks of `block` rows and columns in a matrix of `shape`.
    pub fn new(reduction: Reduction, shape: [u64; 2], block: [u64; 2]) -> Self {
        BlockReduction { reduction, shape, block }
    }

    /// How many blocks there are along rows and columns; `None` for blocks without a length.
    pub fn blocks(&self) -> Option<[u64; 2]> {
        let ([rows, columns], [height, width]) = (self.shape, self.block);
        (height > 0 && width > 0).then(|| [rows.div_ceil(height), columns.div_ceil(width)])
    }

    /// The number of blocks; `None` if they are not those of a matrix of so many elements, or have no numbers.
    fn count(&self, elements: u64) -> Option<u64> {
        let is_known = match self.reduction {
            Reduction::LargestMagnitude => true,
            Reduction::AffineScale { bits } | Reduction::AffineOffset { bits } => (1..=8).contains(&bits),
        };
        let [rows, columns] = self.shape;
        let is_own = is_known && rows.checked_mul(columns) == Some(elements);
        let [down, across] = self.blocks().filter(|_| is_own)?;
        down.checked_mul(across)
    }
}

impl Words {
    /// Bytes of the words, if so many integers are packed into them.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for integers that cannot be packed so; [`crate::Kind::Corrupt`] for another number of integers.
    fn check(&self, elements: u64) -> Result<u64> {
        let Words { dtype, packed } = self;
        let is_known = packed.along == Along::Row
            && matches!(packed.order, FieldOrder::Dense | FieldOrder::HighestFirst)
            && packed.increments.is_empty();
        let word = match dtype {
            DType::I8 | DType::U8 => Some(8),
            DType::I16 | DType::U16 => Some(16),
            DType::I32 | DType::U32 => Some(32),
            _ => None,
        };
        let Some(word) = word.filter(|_| is_known) else {
            return Err(Error::unsupported("integers are not packed in this way")
                .found(format!("{:?} along a {:?}, in words of {dtype}", packed.order, packed.along)));
        };
        let words = packed.stored_words(word)?;
        if packed.elements() != Some(elements) {
            return Err(Error::corrupt("packed integers are not as many as the numbers")
                .found(format!("{} × {} integers", packed.rows, packed.columns))
                .expected(crate::count(elements, "number")));
        }
        words.checked_mul(u64::from(word / 8)).ok_or_else(|| Error::corrupt("packed integers are too many"))
    }
}

impl Computed {
    /// The stored elements, as 32-bit floats.
    pub fn new(stored: Extent, encoding: Encoding) -> Self {
        Computed { stored, encoding, packed: None, operations: Vec::new(), words: None }
    }

    /// The integers that stored words hold, as 32-bit floats.
    #[must_use]
    pub fn with_packed(mut self, packed: PackedIntegers) -> Self {
        self.packed = Some(packed);
        self
    }

    /// The same with these operations.
    #[must_use]
    pub fn with_operations(mut self, operations: Vec<Operation>) -> Self {
        self.operations = operations;
        self
    }

    /// The same, if the numbers are packed into words.
    #[must_use]
    pub fn in_words(mut self, words: Words) -> Self {
        self.words = Some(words);
        self
    }

    /// The number of elements; `None` if the bytes do not hold whole ones, or if a matrix has another number of them.
    pub fn elements(&self) -> Option<u64> {
        let counted = |elements, operation: &Operation| operation.count(elements);
        self.operations.iter().try_fold(self.stored_elements()?, counted)
    }

    /// The number of stored elements; `None` if the bytes do not hold whole ones.
    fn stored_elements(&self) -> Option<u64> {
        let Computed { stored: Extent { len, .. }, encoding, packed, .. } = self;
        if let Some(packed) = packed {
            let is_word = matches!(encoding.dtype, DType::U8 | DType::I32 | DType::U32);
            let plain = Encoding::new(encoding.dtype, encoding.order.clone());
            let word = encoding.dtype.bits().filter(|_| is_word && *encoding == plain)?;
            let words = packed.stored_words(word).ok()?;
            return packed.elements().filter(|_| encoding.stored_len(words) == Some(*len));
        }
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
    /// [`crate::Kind::Corrupt`] for stored bytes that do not hold whole elements, and for numbers of blocks that do not fit
    /// them.
    pub fn into_extent(self) -> Result<Extent> {
        let len = self.check()?;
        let (file, offset) = (self.stored.file, self.stored.offset);
        Ok(Extent::new(file, offset, len).with_computed(self))
    }

    /// Checks that the parts fit each other; returns the length of the computed numbers in bytes.
    fn check(&self) -> Result<u64> {
        let mut left = vec![(self, MAX_LEVELS)];
        while let Some((computed, levels)) = left.pop() {
            let mut elements = computed.check_stored_elements()?;
            if levels == 0 && !computed.operations.is_empty() {
                return Err(Error::unsupported("numbers are computed from numbers at too many levels")
                    .expected(format!("at most {MAX_LEVELS}")));
            }
            if computed.reductions() > MAX_REDUCTIONS {
                return Err(Error::unsupported("numbers become those of blocks too often")
                    .expected(format!("at most {MAX_REDUCTIONS} times")));
            }
            if levels < MAX_LEVELS && computed.words.is_some() {
                return Err(Error::corrupt("operands of computed numbers are packed into words"));
            }
            for operation in &computed.operations {
                operation.check_runs()?;
                elements = operation.count(elements).ok_or_else(|| {
                    Error::corrupt("the blocks of a matrix do not fit its numbers")
                        .found(crate::count(elements, "number"))
                        .expected(operation.to_string())
                })?;
                let Some(operand) = operation.operand() else { continue };
                match operand {
                    Operand::Table(table) => computed.check_table(table)?,
                    Operand::Blocks(blocks) => blocks.check(elements)?,
                    Operand::Product(product) => product.check(elements)?,
                    Operand::Rows(rows) if levels == MAX_LEVELS => rows.check(elements)?,
                    Operand::Rows(_) => return Err(too_many_norms()),
                    Operand::Agreement(agreement) => agreement.check(elements)?,
                }
                left.extend(operand.numbers().map(|numbers| (numbers, levels.saturating_sub(1))));
            }
        }
        if self.row_scalings() > MAX_ROW_SCALINGS {
            return Err(too_many_norms());
        }
        let too_many = || Error::corrupt("computed numbers are too many");
        let elements = self.elements().ok_or_else(too_many)?;
        match &self.words {
            Some(words) => words.check(elements),
            None => elements.checked_mul(4).ok_or_else(too_many),
        }
    }

    /// How many times numbers become those of blocks.
    fn reductions(&self) -> u32 {
        let reductions = self.operations.iter().filter(|operation| matches!(operation, Operation::Reduce(_)));
        u32::try_from(reductions.count()).unwrap_or(u32::MAX)
    }

    /// How many readers of stored elements are open while numbers are read: one for the elements of each part, and one more before
    /// each reduction.
    pub fn readers(&self) -> u64 {
        let (mut left, mut sum) = (vec![self], 0_u64);
        while let Some(computed) = left.pop() {
            sum = sum.saturating_add(1 + u64::from(computed.reductions()));
            for operand in computed.operations.iter().filter_map(Operation::operand) {
                left.extend(operand.numbers());
                sum = sum.saturating_add(u64::from(operand.index().is_some()));
            }
        }
        sum
    }

    /// How many times rows are scaled: each time, all that is before is read again for rows of which only a part is asked for.
    pub fn row_scalings(&self) -> u32 {
        let scalings =
            self.operations.iter().filter(|operation| matches!(operation, Operation::ScaleRows(_)));
        u32::try_from(scalings.count()).unwrap_or(u32::MAX)
    }

    fn check_stored_elements(&self) -> Result<u64> {
        check_stored(&self.stored, &self.encoding)?;
        self.stored_elements().ok_or_else(|| {
            let expected = match &self.packed {
                Some(packed) => {
                    format!("{} × {} integers of {} bits", packed.rows, packed.columns, packed.bits)
                }
                None => format!("elements of {}", self.encoding.dtype),
            };
            Error::corrupt("the stored elements of computed numbers are not whole ones")
                .found(crate::count(self.stored.len, "byte"))
                .expected(expected)
        })
    }

    /// Checks that a table has an entry for every number that the stored elements can be.
    fn check_table(&self, table: &Computed) -> Result<()> {
        let bits = match (&self.packed, self.encoding.dtype, self.encoding.packing) {
            (Some(packed), ..) => Some(packed.bits).filter(|_| !packed.is_signed),
            (None, DType::U8, Packing::Bytes) => Some(8),
            _ => None,
        };
        let expected = bits.map(|bits| 1_u64 << bits.min(8)).filter(|entries| *entries <= MAX_TABLE);
        match expected {
            Some(entries) if table.elements() == Some(entries) => Ok(()),
            _ => Err(Error::corrupt("a table does not have an entry for every stored number")
                .found(table.elements().map(|found| crate::count(found, "entry")).unwrap_or_default())
                .expected(expected.map_or("unsigned integers of at most 8 bits".to_owned(), |entries| {
                    crate::count(entries, "entry")
                }))),
        }
    }

    /// The extents that are stored: of the elements, and of all that belongs to them.
    pub fn stored(&self) -> Vec<&Extent> {
        let (mut left, mut found) = (vec![self], Vec::new());
        while let Some(computed) = left.pop() {
            found.push(&computed.stored);
            for operand in computed.operations.iter().filter_map(Operation::operand) {
                left.extend(operand.numbers());
                found.extend(operand.index().map(|index| &index.stored));
            }
        }
        found
    }

    /// Bytes of the indices of blocks that reading any of the numbers needs as a whole.
    pub fn index_len(&self) -> u64 {
        let (mut left, mut sum) = (vec![self], 0_u64);
        while let Some(computed) = left.pop() {
            for operand in computed.operations.iter().filter_map(Operation::operand) {
                left.extend(operand.numbers());
                sum = sum.saturating_add(operand.index().map_or(0, |index| index.stored.len));
            }
        }
        sum
    }

    /// [`Computed::stored`] and how the extents are encoded, to be changed.
    pub(crate) fn stored_mut(&mut self) -> Vec<(&mut Extent, &mut Encoding)> {
        let (mut left, mut found) = (vec![self], Vec::new());
        while let Some(computed) = left.pop() {
            found.push((&mut computed.stored, &mut computed.encoding));
            for operation in &mut computed.operations {
                match operation {
                    Operation::LookUp(table) => left.push(table),
                    Operation::AddBlocks(blocks)
                    | Operation::SubtractBlocks(blocks)
                    | Operation::MultiplyBlocks(blocks)
                    | Operation::DivideBlocks(blocks) => {
                        let BlockNumbers { numbers, index, .. } = &mut **blocks;
                        left.push(numbers);
                        found.extend(index.as_mut().map(|index| (&mut index.stored, &mut index.encoding)));
                    }
                    Operation::AddProduct(product) => {
                        left.extend([&mut product.left.numbers, &mut product.right.numbers]);
                    }
                    Operation::ScaleRows(rows) => left.push(&mut rows.numbers),
                    Operation::AddAgreeing(agreement) => {
                        left.extend(agreement.terms.iter_mut().map(|term| &mut term.numbers));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// The same numbers, if each file has a number that is `first` higher.
    #[must_use]
    pub fn behind_files(mut self, first: usize) -> Self {
        self.move_files(first);
        self
    }

    pub(crate) fn move_files(&mut self, first: usize) {
        for (stored, _) in self.stored_mut() {
            stored.file = stored.file.behind(first);
        }
    }

    /// Checks what [`Computed::into_extent`] made, which may come from a plan.
    pub(crate) fn check_extent(&self, extent: &Extent, files: usize, limits: &Limits) -> Result<()> {
        let len = self.check()?;
        let is_own = (extent.file, extent.offset, extent.len) == (self.stored.file, self.stored.offset, len);
        let stored = self.stored();
        let exist = stored.iter().all(|stored| stored.file.0 < files);
        if !is_own || !exist || extent.compression().is_some() || extent.checksum.is_some() {
            return Err(Error::corrupt("an extent of computed numbers contradicts itself"));
        }
        for stored in stored {
            if let Some(compression) = stored.compression() {
                compression.check(stored.len, limits).map_err(|error| error.offset(stored.offset))?;
            }
        }
        Ok(())
    }
}

impl Operation {
    /// The numbers that it takes beside those that it changes; `None` if it takes none.
    pub fn operand(&self) -> Option<Operand<'_>> {
        match self {
            Operation::LookUp(table) => Some(Operand::Table(table)),
            Operation::AddBlocks(blocks)
            | Operation::SubtractBlocks(blocks)
            | Operation::MultiplyBlocks(blocks)
            | Operation::DivideBlocks(blocks) => Some(Operand::Blocks(blocks)),
            Operation::AddProduct(product) => Some(Operand::Product(product)),
            Operation::ScaleRows(rows) => Some(Operand::Rows(rows)),
            Operation::AddAgreeing(agreement) => Some(Operand::Agreement(agreement)),
            _ => None,
        }
    }

    /// The list of numbers that runs take; `None` for another operation.
    pub fn runs(&self) -> Option<&RunNumbers> {
        match self {
            Operation::SubtractRuns(runs) | Operation::MultiplyRuns(runs) => Some(runs),
            Operation::ToIntegers(integers) => Some(&integers.scales),
            _ => None,
        }
    }

    /// How many numbers it makes of so many; `None` if they are not those of its matrix.
    fn count(&self, elements: u64) -> Option<u64> {
        match self {
            Operation::Reduce(reduction) => reduction.count(elements),
            _ => Some(elements),
        }
    }

    fn check_runs(&self) -> Result<()> {
        if let Operation::ToIntegers(integers) = self {
            integers.check()?;
        }
        match self.runs() {
            Some(RunNumbers { numbers, run })
                if numbers.is_empty() || *run == 0 || !numbers.iter().all(|number| number.is_finite()) =>
            {
                Err(Error::corrupt("runs of numbers have no length, or no finite numbers")
                    .found(format!("{} for runs of {run}", crate::count(numbers.len(), "number"))))
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Operand<'a> {
    /// The numbers: those of a table or of blocks, those of both factors, or those of all terms.
    fn numbers(self) -> impl Iterator<Item = &'a Computed> {
        let (first, second, terms) = match self {
            Operand::Table(table) => (Some(table), None, &[][..]),
            Operand::Blocks(blocks) => (Some(&blocks.numbers), None, &[][..]),
            Operand::Product(product) => (Some(&product.left.numbers), Some(&product.right.numbers), &[][..]),
            Operand::Rows(rows) => (Some(&rows.numbers), None, &[][..]),
            Operand::Agreement(agreement) => (None, None, &agreement.terms[..]),
        };
        first.into_iter().chain(second).chain(terms.iter().map(|term| &term.numbers))
    }

    /// The block of each index of an axis, if a tensor states it.
    fn index(self) -> Option<&'a BlockIndex> {
        match self {
            Operand::Blocks(blocks) => blocks.index.as_ref(),
            Operand::Table(_) | Operand::Product(_) | Operand::Rows(_) | Operand::Agreement(_) => None,
        }
    }
}

fn too_many_norms() -> Error {
    Error::unsupported("rows are scaled to norms too often")
        .expected(format!("at most {MAX_ROW_SCALINGS} times"))
}

fn check_stored(stored: &Extent, encoding: &Encoding) -> Result<()> {
    match stored.region().is_some() || stored.computed().is_some() || !encoding.tiles().is_empty() {
        true => Err(Error::corrupt("the stored elements of computed numbers are no plain extent")),
        false => Ok(()),
    }
}

impl Encoding {
    /// Checks that computed numbers are read as what they are: plain little-endian 32-bit floats, or words.
    pub(crate) fn check_computed(&self, computed: &Computed) -> Result<()> {
        let dtype = computed.words.as_ref().map_or(DType::F32, |words| words.dtype);
        let plain = Encoding::new(dtype, self.order.clone()).with_tiles(self.tiles());
        match *self == plain {
            true => Ok(()),
            false => Err(Error::corrupt("computed numbers are read as something else than they are")
                .expected(dtype.name())),
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
        let computed = self.computed().map(Computed::stored).unwrap_or_default().into_iter();
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
            Operation::DivideInto(dividend) => write!(f, "divide {dividend} by each"),
            Operation::ReplaceZero(number) => write!(f, "replace 0 by {number}"),
            Operation::Exp => f.write_str("exp"),
            Operation::Log => f.write_str("log"),
            Operation::Round(dtype) => write!(f, "round to {dtype}"),
            Operation::RoundWhole => f.write_str("round to whole numbers"),
            Operation::AtLeast(least) => write!(f, "at least {least}"),
            Operation::AtMost(most) => write!(f, "at most {most}"),
            Operation::CountBelow(bounds) => {
                write!(f, "count which of {} are less", crate::count(bounds.len(), "bound"))
            }
            Operation::Reduce(BlockReduction { reduction, block, .. }) => {
                write!(f, "{reduction} of each block of {block:?}")
            }
            Operation::LookUp(_) => f.write_str("look up"),
            Operation::AddBlocks(numbers) => {
                write!(f, "add '{}' to each block of {:?}", numbers.name, numbers.block)
            }
            Operation::SubtractBlocks(numbers) => {
                write!(f, "subtract '{}' from each block of {:?}", numbers.name, numbers.block)
            }
            Operation::MultiplyBlocks(scales) => {
                write!(f, "scale each block of {:?} by '{}'", scales.block, scales.name)
            }
            Operation::DivideBlocks(scales) => {
                write!(f, "divide each block of {:?} by '{}'", scales.block, scales.name)
            }
            Operation::AddProduct(product) => {
                write!(f, "add {} × '{}' of rank {}", product.factor, product.name, product.rank)
            }
            Operation::ScaleRows(rows) => write!(f, "scale each row to the norm in '{}'", rows.name),
            Operation::Keep(Kept::Largest { threshold, last }) => {
                write!(f, "keep magnitudes above {threshold}, and those of it up to element {last}")
            }
            Operation::Keep(Kept::Drawn { key, limit }) => {
                write!(f, "keep draws of {key:#x} below {limit}")
            }
            Operation::AddAgreeing(agreement) => {
                let names = agreement.terms.iter().map(|term| format!("'{}'", term.name));
                write!(f, "add what agrees of {}", names.collect::<Vec<_>>().join(", "))
            }
            Operation::SubtractRuns(runs) => {
                write!(f, "subtract {} from runs of {}", crate::count(runs.numbers.len(), "number"), runs.run)
            }
            Operation::MultiplyRuns(runs) => {
                write!(f, "scale runs of {} by {}", runs.run, crate::count(runs.numbers.len(), "number"))
            }
            Operation::ToIntegers(integers) => {
                let AffineIntegers { scales, least, most, .. } = &**integers;
                let scales = crate::count(scales.numbers.len(), "scale");
                write!(f, "integers from {least} to {most} with {scales}")
            }
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reduction::LargestMagnitude => f.write_str("largest magnitude"),
            Reduction::AffineScale { bits } => write!(f, "scale of {bits}-bit integers"),
            Reduction::AffineOffset { bits } => write!(f, "offset of {bits}-bit integers"),
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
        let scales = BlockNumbers::new("s", Computed::new(extent(len), encoding), shape, block.to_vec());
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
    fn every_block_of_a_matrix_becomes_one_number() {
        let reduced = |len: u64, reductions: &[(Reduction, [u64; 2], [u64; 2])]| {
            let operation =
                |(reduction, shape, block)| Operation::Reduce(BlockReduction::new(reduction, shape, block));
            Computed::new(extent(len), Encoding::new(DType::Bf16, vec![0]))
                .with_operations(reductions.iter().copied().map(operation).collect())
                .into_extent()
        };
        let maxima = |len, shape, block| reduced(len, &[(Reduction::LargestMagnitude, shape, block)]);
        assert_eq!(maxima(120_000, [300, 200], [128, 128]).unwrap().len, 4 * 6);
        assert_eq!(maxima(120_000, [300, 200], [1, 200]).unwrap().len, 4 * 300);
        assert!(maxima(120_000, [300, 100], [1, 100]).is_err(), "a matrix of another size");
        assert!(maxima(120_000, [300, 200], [0, 200]).is_err(), "blocks without rows");
        assert!(maxima(8, [u64::MAX, 2], [1, 1]).is_err(), "a matrix that cannot be");
        let scale = |bits| (Reduction::AffineScale { bits }, [300, 200], [1, 50]);
        assert_eq!(reduced(120_000, &[scale(4)]).unwrap().len, 4 * 1200);
        assert!(reduced(120_000, &[scale(9)]).is_err(), "integers of more than 8 bits");
        let again = (Reduction::LargestMagnitude, [1, 1200], [1, 100]);
        assert_eq!(reduced(120_000, &[scale(4), again]).unwrap().len, 4 * 12);
        let once_more = (Reduction::LargestMagnitude, [1, 12], [1, 12]);
        assert!(reduced(120_000, &[scale(4), again, once_more]).is_err(), "too often");
    }

    #[test]
    fn words_hold_as_many_integers_as_there_are_numbers() {
        let numbers = || {
            Computed::new(extent(4 * 30), Encoding::new(DType::F32, vec![0]))
                .with_operations(vec![Operation::RoundWhole])
        };
        let in_words = |dtype, lens, along, order| {
            let packed = PackedIntegers::new(4, lens, along, order);
            numbers().in_words(Words { dtype, packed }).into_extent().map(|extent| extent.len).ok()
        };
        // Rows of 10 integers of 4 bits begin with a word each.
        assert_eq!(in_words(DType::U32, [3, 10], Along::Row, FieldOrder::Dense), Some(4 * 3 * 2));
        assert_eq!(in_words(DType::U8, [1, 30], Along::Row, FieldOrder::HighestFirst), Some(15));
        assert_eq!(in_words(DType::U32, [3, 9], Along::Row, FieldOrder::Dense), None);
        assert_eq!(in_words(DType::U16, [3, 10], Along::Row, FieldOrder::Dense), None);
        assert_eq!(in_words(DType::U32, [3, 10], Along::Column, FieldOrder::Dense), None);
        let words = Words {
            dtype: DType::U8,
            packed: PackedIntegers::new(4, [1, 30], Along::Row, FieldOrder::Dense),
        };
        let shape = Shape::new([30u64]).unwrap();
        let scales = BlockNumbers::new("s", numbers().in_words(words), shape, vec![1]);
        let scaled = numbers().with_operations(vec![Operation::MultiplyBlocks(Box::new(scales))]);
        assert!(scaled.into_extent().is_err(), "words as scales");
    }

    #[test]
    fn a_table_has_an_entry_for_every_stored_number() {
        let looked_up = |bits, entries: u64| {
            let table = Computed::new(extent(4 * entries), Encoding::new(DType::F32, vec![0]));
            let packed = PackedIntegers::new(bits, [1, 8], Along::Row, FieldOrder::HighestFirst);
            Computed::new(extent(u64::from(bits)), Encoding::new(DType::U8, vec![0]))
                .with_packed(packed)
                .with_operations(vec![Operation::LookUp(Box::new(table))])
                .into_extent()
        };
        assert_eq!(looked_up(4, 16).unwrap().len, 32);
        assert_eq!(looked_up(2, 4).unwrap().len, 32);
        assert!(looked_up(4, 8).is_err() && looked_up(4, 32).is_err());
    }

    #[test]
    fn an_index_states_a_block_for_every_index_of_its_axis() {
        let indexed = |axis, indices: u64, blocks| {
            let scales = Computed::new(extent(4 * 3 * 6), Encoding::new(DType::F32, vec![0]));
            let index =
                BlockIndex::new("g", axis, blocks, extent(4 * indices), Encoding::new(DType::I32, vec![0]));
            let shape = Shape::new([8u64, 6]).unwrap();
            let blocks = BlockNumbers::new("s", scales, shape, vec![1, 1]).with_index(Some(index));
            Computed::new(extent(48), Encoding::new(DType::U8, vec![0]))
                .with_operations(vec![Operation::MultiplyBlocks(Box::new(blocks))])
                .into_extent()
        };
        assert_eq!(indexed(0, 8, 3).unwrap().stored_ranges().count(), 3);
        assert!(indexed(0, 7, 3).is_err(), "an index of another length");
        assert!(indexed(0, 8, 4).is_err(), "scales for other blocks");
        assert!(indexed(2, 8, 3).is_err(), "an axis that does not exist");
    }

    #[test]
    fn numbers_are_computed_at_a_few_levels_at_most() {
        let nested = |levels: usize| {
            let plain = || Computed::new(extent(4), Encoding::new(DType::F32, vec![0]));
            let scaled = |numbers| {
                let blocks = BlockNumbers::new("s", numbers, Shape::new([1u64]).unwrap(), vec![1]);
                plain().with_operations(vec![Operation::AddBlocks(Box::new(blocks))])
            };
            (0..levels).fold(plain(), |numbers, _| scaled(numbers)).into_extent()
        };
        assert!(nested(MAX_LEVELS).is_ok() && nested(MAX_LEVELS + 1).is_err());
    }

    #[test]
    fn runs_have_a_length_and_numbers() {
        let runs = |numbers: &[f64], run| {
            let numbers = numbers.into();
            Computed::new(extent(6), Encoding::new(DType::I8, vec![0]))
                .with_operations(vec![Operation::MultiplyRuns(RunNumbers { numbers, run })])
                .into_extent()
        };
        assert_eq!(runs(&[0.5, 2.0], 3).unwrap().len, 24);
        assert!(runs(&[], 3).is_err() && runs(&[0.5], 0).is_err() && runs(&[f64::NAN], 1).is_err());
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
