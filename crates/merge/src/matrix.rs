//! The numbers of tensors, as operands.

use ckpt_api::{
    AxisOrder, Computed, DType, Encoding, Error, Extents, MatrixFactor, Placement, Result, Tensor,
};

/// The numbers of a tensor in the order in which they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) computed: Computed,
    /// The axis of the tensor that each stored axis is.
    pub(crate) order: Vec<usize>,
}

impl Numbers {
    /// The numbers of a tensor; `None` if it has no elements.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for what is no tensor of floats of at most 32 bits, stored in one piece.
    pub(crate) fn of(tensor: &Tensor, placement: &Placement) -> Result<Option<Self>> {
        if !is_computable(tensor) {
            return Err(Error::unsupported("weights of this dtype cannot be merged")
                .tensor(&tensor.name)
                .found(tensor.dtype.name())
                .expected("floats of at most 32 bits: numbers are computed in these"));
        }
        let encoding = &placement.encoding;
        let is_whole = placement.window().is_none() && encoding.tiles().is_empty();
        let order: Vec<usize> = encoding.order.iter().copied().collect();
        match &placement.extents[..] {
            [] if tensor.shape.elements() == 0 => Ok(None),
            [extent] if is_whole && extent.region().is_none() => {
                let computed = match extent.computed() {
                    Some(computed) => computed.clone(),
                    None => {
                        Computed::new(extent.clone(), encoding.clone().with_order(AxisOrder::row_major(1)))
                    }
                };
                Ok(Some(Numbers { computed, order }))
            }
            _ => Err(Error::unsupported("a tensor that is stored in pieces cannot be merged")
                .tensor(&tensor.name)
                .help("convert the checkpoint to safetensors first, which stores each tensor whole")),
        }
    }

    /// Whether the stored axes are those of the tensor, in order.
    pub(crate) fn is_row_major(&self) -> bool {
        self.order.iter().copied().eq(0..self.order.len())
    }

    /// The place of the tensor whose numbers these are.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for operands that do not fit.
    pub(crate) fn placement(self, like: &Placement) -> Result<Placement> {
        let extent = self.computed.into_extent()?;
        Ok(like
            .clone()
            .with_extents([extent].into_iter().collect::<Extents>())
            .with_encoding(Encoding::new(DType::F32, self.order)))
    }
}

/// Whether a tensor's numbers are computed in 32-bit floats without losing any.
pub(crate) fn is_computable(tensor: &Tensor) -> bool {
    tensor.dtype.is_float() && tensor.dtype != DType::F64 && tensor.quantization.is_none()
}

/// A matrix: a tensor's first axis, and all others.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) numbers: Numbers,
    /// Whether the columns are stored one after the other.
    pub(crate) is_transposed: bool,
}

impl Matrix {
    /// The matrix of a tensor of at least two axes; `None` if it has no elements.
    ///
    /// # Errors
    /// As [`Numbers::of`]; [`ckpt_api::Kind::Unsupported`] for other orders of axes.
    pub(crate) fn of(tensor: &Tensor, placement: &Placement) -> Result<Option<Self>> {
        let Some((rows, others)) = tensor.shape.split_first().filter(|(_, others)| !others.is_empty()) else {
            return Err(Error::unsupported("a tensor of an adapter is no matrix")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string()));
        };
        let Some(numbers) = Numbers::of(tensor, placement)? else { return Ok(None) };
        let is_transposed = match numbers.order[..] {
            [1, 0] => true,
            _ if numbers.is_row_major() => false,
            _ => {
                return Err(Error::unsupported(
                    "a tensor whose axes are stored in another order cannot be merged",
                )
                .tensor(&tensor.name));
            }
        };
        Ok(Some(Matrix { rows: *rows, columns: others.iter().product(), numbers, is_transposed }))
    }

    /// The matrix as a factor, behind so many other files.
    pub(crate) fn factor(&self, first_file: usize) -> MatrixFactor {
        let numbers = self.numbers.computed.clone().behind_files(first_file);
        match self.is_transposed {
            true => MatrixFactor::transposed(numbers),
            false => MatrixFactor::new(numbers),
        }
    }

    /// Its transpose.
    pub(crate) fn transposed(&self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            numbers: self.numbers.clone(),
            is_transposed: !self.is_transposed,
        }
    }
}
