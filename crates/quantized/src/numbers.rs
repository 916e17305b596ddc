//! Builds the numbers of a weight from its parts.

use crate::parts::Part;
use ckpt_api::{
    AxisOrder, BlockIndex, BlockNumbers, Computed, DType, Encoding, Error, Extents, FileId, Operation,
    PackedIntegers, Placement, Result, Shape, Tensor, TensorId,
};
use ckpt_engine::formats::Group;

/// The dtypes of scales.
pub(crate) const FLOATS: [DType; 3] = [DType::F16, DType::Bf16, DType::F32];

/// The stored elements of a part as numbers.
pub(crate) fn numbers(part: &Part<'_>) -> Computed {
    numbers_as(part, part.encoding.clone())
}

/// The stored bytes of a part as numbers of another encoding.
pub(crate) fn numbers_as(part: &Part<'_>, encoding: Encoding) -> Computed {
    // A weight without elements is not read.
    let empty = || ckpt_api::Extent::new(FileId(0), 0, 0);
    let encoding = encoding.with_order(AxisOrder::row_major(1));
    Computed::new(part.extent.clone().unwrap_or_else(empty), encoding)
}

/// The integers that the words of a part hold.
pub(crate) fn packed(part: &Part<'_>, packed: PackedIntegers) -> Computed {
    numbers(part).with_packed(packed)
}

/// Numbers of blocks of a tensor of this shape.
pub(crate) struct Blocks<'s> {
    pub(crate) shape: &'s Shape,
    pub(crate) block: Vec<u64>,
    pub(crate) index: Option<BlockIndex>,
}

impl<'s> Blocks<'s> {
    pub(crate) fn new(shape: &'s Shape, block: impl Into<Vec<u64>>) -> Self {
        Blocks { shape, block: block.into(), index: None }
    }

    /// The numbers of a part, one for each block.
    pub(crate) fn of(&self, part: &Part<'_>, numbers: Computed) -> Box<BlockNumbers> {
        let name = part.tensor.name.to_string();
        let own = BlockNumbers::new(name, numbers, self.shape.clone(), self.block.clone());
        Box::new(own.with_index(self.index.clone()))
    }
}

/// A weight whose numbers are computed.
pub(crate) struct Weight {
    pub(crate) name: String,
    /// The shape in which the stored elements are row-major.
    pub(crate) stored: Shape,
    /// The stored axis that is each axis of the weight, if they are in another order.
    pub(crate) axes: Option<Vec<usize>>,
    pub(crate) numbers: Computed,
    /// The dtype in which the library computes, and the operations with its roundings, if it rounds on the way.
    pub(crate) rounded: Option<(DType, Vec<Operation>)>,
    /// What people call the scheme.
    pub(crate) scheme: String,
}

impl Weight {
    pub(crate) fn new(
        name: impl Into<String>,
        stored: Shape,
        numbers: Computed,
        scheme: impl Into<String>,
    ) -> Self {
        Weight { name: name.into(), stored, axes: None, numbers, rounded: None, scheme: scheme.into() }
    }

    /// The group of this weight and its parts.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if the parts do not fit each other.
    pub(crate) fn of<'p>(self, parts: impl IntoIterator<Item = &'p Part<'p>>) -> Result<Group> {
        let Weight { name, stored, axes, numbers, rounded, scheme } = self;
        let axes = axes.unwrap_or_else(|| (0..stored.rank()).collect());
        let lens = axes.iter().map(|axis| stored.get(*axis).copied().unwrap_or(0));
        let shape = Shape::new(lens)?;
        // Stored axis k is logical axis order[k].
        let order: Option<Vec<usize>> =
            (0..stored.rank()).map(|stored| axes.iter().position(|axis| *axis == stored)).collect();
        let order = order.ok_or_else(|| Error::defect("a weight lacks an axis"))?;
        let tensor = Tensor::new(name.as_str(), DType::F32, shape);
        let placement = |numbers: Computed| -> Result<Placement> {
            let extent = match stored.elements() {
                0 => None,
                _ => Some(numbers.into_extent().map_err(|error| error.tensor(&tensor.name))?),
            };
            let encoding = Encoding::new(DType::F32, order.clone());
            Ok(Placement::new(TensorId(0), tensor.name.clone(), Vec::new(), encoding)
                .with_extents(extent.into_iter().collect::<Extents>()))
        };
        let rounded = rounded.map(|(dtype, operations)| -> Result<_> {
            let mut numbers = numbers.clone();
            numbers.operations = operations;
            Ok((dtype, placement(numbers)?))
        });
        let (rounded, placement) = (rounded.transpose()?, placement(numbers)?);
        let parts = parts.into_iter().map(|part| part.id).collect();
        Ok(Group { tensor, placement, rounded, parts, scheme })
    }
}
