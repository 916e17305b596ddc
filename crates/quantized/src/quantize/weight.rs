//! A weight that is quantized, and the tensors that are stored for it.

use ckpt_api::{
    Along, BlockNumbers, BlockReduction, Compression, Computed, DType, Encoding, Error, Extent, Extents,
    FieldOrder, Operation, PackedIntegers, Placement, Reduction, Result, Scalar, Shape, Tensor, TensorId,
    Words,
};

/// A tensor, and where its numbers are.
pub(super) type Placed = (Tensor, Placement);

/// A matrix of plain numbers, stored row by row.
pub(super) struct Weight<'t> {
    pub(super) name: &'t str,
    pub(super) dtype: DType,
    pub(super) shape: [u64; 2],
    extent: &'t Extent,
    encoding: &'t Encoding,
}

impl<'t> Weight<'t> {
    /// The weight of a tensor of these rows and columns.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if it is not stored whole and in order.
    pub(super) fn new(tensor: &'t Tensor, placement: &'t Placement, shape: [u64; 2]) -> Result<Self> {
        let wrong = |what: &str| Error::unsupported(what).tensor(&tensor.name);
        let [extent] = &placement.extents[..] else {
            return Err(wrong("a weight that is stored in parts is not quantized")
                .help("write the model to a directory first, where each weight is one piece"));
        };
        let is_row_major = placement.encoding.order == Encoding::row_major(tensor).order
            && placement.encoding.tiles().is_empty();
        if !is_row_major || extent.is_computed() || extent.region().is_some() {
            return Err(wrong("a weight whose rows do not follow each other is not quantized")
                .help("write the model to a directory first, where they do"));
        }
        let (name, dtype) = (tensor.name.as_str(), tensor.dtype);
        Ok(Weight { name, dtype, shape, extent, encoding: &placement.encoding })
    }

    pub(super) fn elements(&self) -> u64 {
        self.shape[0].saturating_mul(self.shape[1])
    }

    /// Its elements as numbers.
    fn numbers(&self, operations: Vec<Operation>) -> Computed {
        Computed::new(self.extent.clone(), self.encoding.clone().with_order(vec![0]))
            .with_operations(operations)
    }

    /// The blocks of some of its elements, each of which becomes a number.
    pub(super) fn in_blocks(&self, block: [u64; 2]) -> Blocks<'_> {
        Blocks { weight: self, shape: self.shape, block }
    }

    /// As [`Weight::in_blocks`], of blocks of `group` elements that follow each other.
    ///
    /// Rows divide into whole groups, so that they matter no more.
    pub(super) fn in_groups(&self, group: u64) -> Blocks<'_> {
        Blocks { weight: self, shape: [1, self.elements()], block: [1, group] }
    }

    /// The tensor of its elements after some operations.
    pub(super) fn floats(&self, dtype: DType, operations: Vec<Operation>) -> Result<Placed> {
        placed(self.name.to_owned(), dtype, &self.shape, self.numbers(operations))
    }

    /// The tensor `name` of its elements, which operations make whole, in words of these many rows.
    pub(super) fn words(
        &self,
        name: String,
        dtype: DType,
        (bits, order): (u32, FieldOrder),
        [rows, columns]: [u64; 2],
        operations: Vec<Operation>,
    ) -> Result<Placed> {
        let packed = PackedIntegers::new(bits, [rows, columns], Along::Row, order);
        let in_row = packed.line_words(dtype.bits().unwrap_or(u32::BITS))?;
        let numbers = self.numbers(operations).in_words(Words { dtype, packed });
        placed(name, dtype, &[rows, in_row], numbers)
    }

    /// A tensor of these bytes beside the weight.
    pub(super) fn literal(
        &self,
        ending: &str,
        dtype: DType,
        shape: &[u64],
        bytes: Vec<u8>,
    ) -> Result<Placed> {
        let tensor = Tensor::new(format!("{}{ending}", self.name), dtype, Shape::new(shape)?);
        let extent = Extent::new(self.extent.file, 0, bytes.len() as u64);
        let extent = extent.with_compression(Compression::literal(bytes));
        let placement =
            Placement::new(TensorId(0), tensor.name.clone(), extent, Encoding::row_major(&tensor));
        Ok((tensor, placement))
    }
}

/// Blocks of a weight's elements.
pub(super) struct Blocks<'w> {
    weight: &'w Weight<'w>,
    /// The rows and columns that the elements fill.
    shape: [u64; 2],
    block: [u64; 2],
}

impl Blocks<'_> {
    /// What the blocks become, after some operations.
    pub(super) fn reduced(&self, reduction: Reduction, operations: &[Operation]) -> Computed {
        let reduction = Operation::Reduce(BlockReduction::new(reduction, self.shape, self.block));
        self.weight.numbers([&[reduction], operations].concat())
    }

    /// The numbers of the blocks as operands of the weight's elements.
    pub(super) fn operand(&self, numbers: Computed) -> Result<Box<BlockNumbers>> {
        let shape = Shape::new(self.shape)?;
        Ok(Box::new(BlockNumbers::new("scales", numbers, shape, self.block.to_vec())))
    }

    /// How many there are along rows and columns.
    pub(super) fn counts(&self) -> [u64; 2] {
        let ([rows, columns], [height, width]) = (self.shape, self.block);
        [rows.div_ceil(height.max(1)), columns.div_ceil(width.max(1))]
    }
}

/// A tensor whose numbers are computed.
pub(super) fn placed(name: String, dtype: DType, shape: &[u64], numbers: Computed) -> Result<Placed> {
    let tensor = Tensor::new(name.as_str(), dtype, Shape::new(shape)?);
    let computed = numbers.words.as_ref().map_or(DType::F32, |words| words.dtype);
    let extent = numbers.into_extent().map_err(|error| error.tensor(&name))?;
    let encoding = Encoding::new(computed, (0..shape.len()).collect::<Vec<usize>>());
    let placement = Placement::new(TensorId(0), tensor.name.clone(), Vec::new(), encoding);
    Ok((tensor, placement.with_extents(std::iter::once(extent).collect::<Extents>())))
}

pub(super) fn scalar(number: f32) -> Result<Scalar> {
    Scalar::new(number).ok_or_else(|| Error::defect("a constant of a scheme is not finite"))
}
