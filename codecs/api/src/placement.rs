//! Where a tensor's bytes are, or go.

use crate::{AxisOrder, Blocks, DType, Endian, Extents, Few, Name, Shape, Tensor, Tile};
use serde::{Deserialize, Serialize, Serializer};
use std::num::NonZeroU32;

/// Index of a tensor in [`crate::Checkpoint::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub usize);

/// Index of a file in [`crate::Contents::files`] or [`crate::OutputLayout::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId(pub usize);

/// Where one tensor's bytes are (reading) or go (writing), and how they encode its values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "PlacementDocument")]
#[non_exhaustive]
pub struct Placement {
    /// Which tensor of the checkpoint.
    pub tensor: TensorId,
    /// The name under which the file itself stores the tensor (a TensorFlow key, a safetensors key).
    pub name: Name,
    /// The stored pieces. Without regions: the concatenation is the value. With regions: each piece is that
    /// box of the tensor, and together they cover it exactly.
    pub extents: Extents,
    /// How elements are encoded; the same for all extents.
    pub encoding: Encoding,
    /// What few placements have; `None` where all of it is.
    rare: Option<Box<RareOfPlacement>>,
}

/// Apart from the placement, for there can be a million of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RareOfPlacement {
    shape: Option<Shape>,
    window: Option<Window>,
    added: Vec<Added>,
}

impl Placement {
    /// The whole tensor in these extents, with the shape that its axes in stored order have.
    pub fn new(
        tensor: TensorId,
        name: impl Into<Name>,
        extents: impl Into<Extents>,
        encoding: Encoding,
    ) -> Self {
        Placement { tensor, name: name.into(), extents: extents.into(), encoding, rare: None }
    }

    /// The shape that the file states, where that is not the tensor's own axes in stored order: a format that adds
    /// or leaves out axes of length 1. `None` where it is.
    pub fn shape(&self) -> Option<&Shape> {
        self.rare.as_ref()?.shape.as_ref()
    }

    /// The tensor is this box of what the extents hold, whose regions then lie in the whole; `None` for all of it.
    /// Only for reading.
    pub fn window(&self) -> Option<&Window> {
        self.rare.as_ref()?.window.as_ref()
    }

    /// [`Placement::window`], to be changed.
    pub fn window_mut(&mut self) -> Option<&mut Window> {
        self.rare.as_mut()?.window.as_mut()
    }

    /// Other tensors that are added to this one, in 32-bit floats and in this order, before it is stored: a bias that
    /// has no place of its own, a matrix that several parts share. Only for writing; both are [`DType::F32`].
    pub fn added(&self) -> &[Added] {
        self.rare.as_ref().map_or(&[], |rare| &rare.added)
    }

    /// The same place for another tensor.
    #[must_use]
    pub fn with_tensor(mut self, tensor: TensorId) -> Self {
        self.tensor = tensor;
        self
    }

    /// The same place under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Name>) -> Self {
        self.name = name.into();
        self
    }

    /// The same with other extents.
    #[must_use]
    pub fn with_extents(mut self, extents: impl Into<Extents>) -> Self {
        self.extents = extents.into();
        self
    }

    /// The same with another encoding.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// The same with the shape that the file states.
    #[must_use]
    pub fn with_shape(mut self, shape: impl Into<Option<Shape>>) -> Self {
        self.set_shape(shape);
        self
    }

    /// Sets [`Placement::shape`].
    pub fn set_shape(&mut self, shape: impl Into<Option<Shape>>) {
        let shape = shape.into();
        self.change(|rare| rare.shape = shape);
    }

    /// The same, where the tensor is a box of what the extents hold.
    #[must_use]
    pub fn with_window(mut self, window: impl Into<Option<Window>>) -> Self {
        self.set_window(window);
        self
    }

    /// Sets [`Placement::window`].
    pub fn set_window(&mut self, window: impl Into<Option<Window>>) {
        let window = window.into();
        self.change(|rare| rare.window = window);
    }

    /// The same with tensors that are added.
    #[must_use]
    pub fn with_added(mut self, added: impl Into<Vec<Added>>) -> Self {
        self.set_added(added);
        self
    }

    /// Sets [`Placement::added`].
    pub fn set_added(&mut self, added: impl Into<Vec<Added>>) {
        let added = added.into();
        self.change(|rare| rare.added = added);
    }

    /// Adds one to [`Placement::added`].
    pub fn push_added(&mut self, added: Added) {
        self.change(|rare| rare.added.push(added));
    }

    fn change(&mut self, change: impl FnOnce(&mut RareOfPlacement)) {
        let mut rare = self.rare.take().map_or_else(RareOfPlacement::default, |rare| *rare);
        change(&mut rare);
        // So that equal placements are equal.
        self.rare = (rare != RareOfPlacement::default()).then(|| Box::new(rare));
    }
}

/// A placement in JSON.
#[derive(Deserialize)]
#[serde(rename = "Placement")]
struct PlacementDocument {
    tensor: TensorId,
    name: Name,
    extents: Extents,
    encoding: Encoding,
    #[serde(default)]
    shape: Option<Shape>,
    #[serde(default)]
    window: Option<Window>,
    #[serde(default)]
    added: Vec<Added>,
}

impl From<PlacementDocument> for Placement {
    fn from(document: PlacementDocument) -> Self {
        let PlacementDocument { tensor, name, extents, encoding, shape, window, added } = document;
        let mut placement = Placement::new(tensor, name, extents, encoding);
        placement.change(|rare| *rare = RareOfPlacement { shape, window, added });
        placement
    }
}

impl Serialize for Placement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// [`PlacementDocument`], without copies.
        #[derive(Serialize)]
        #[serde(rename = "Placement")]
        struct Document<'a> {
            tensor: TensorId,
            name: &'a Name,
            extents: &'a Extents,
            encoding: &'a Encoding,
            #[serde(skip_serializing_if = "Option::is_none")]
            shape: Option<&'a Shape>,
            #[serde(skip_serializing_if = "Option::is_none")]
            window: Option<&'a Window>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            added: &'a [Added],
        }
        let Placement { tensor, name, extents, encoding, .. } = self;
        let (shape, window, added) = (self.shape(), self.window(), self.added());
        Document { tensor: *tensor, name, extents, encoding, shape, window, added }.serialize(serializer)
    }
}

/// A tensor that is added to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Which tensor of the checkpoint.
    pub tensor: TensorId,
    /// For each axis of the tensor that it is added to, where on it the values go; every axis of the added tensor is
    /// named once.
    pub axes: Vec<AddedAxis>,
}

impl Added {
    /// Whether `other`, the added tensor, fits `tensor`: both hold 32-bit floats, every axis of the added one lies
    /// along one axis of the same length, and indices lie on their axes.
    pub(crate) fn fits(&self, tensor: &Tensor, other: &Tensor) -> bool {
        let mut used = vec![false; other.shape.rank()];
        let mut axis_fits = |(axis, len): (&AddedAxis, &u64)| match *axis {
            AddedAxis::Every => true,
            AddedAxis::At(index) => index < *len,
            AddedAxis::Along(own) => {
                other.shape.get(own) == Some(len)
                    && used.get_mut(own).is_some_and(|used| !std::mem::replace(used, true))
            }
        };
        self.axes.len() == tensor.shape.rank()
            && self.axes.iter().zip(tensor.shape.iter()).all(&mut axis_fits)
            && used.iter().all(|used| *used)
            && [tensor, other].iter().all(|tensor| tensor.dtype == DType::F32)
    }
}

/// Where on an axis the values of an added tensor go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddedAxis {
    /// This axis of the added tensor lies along it; both have one length.
    Along(usize),
    /// The same values at every index.
    Every,
    /// At this index only.
    At(u64),
}

/// A box within something larger that is stored as one.
///
/// ```
/// use ckpt_api::{Shape, Window};
/// // Every second column of a matrix that is stored with 6 columns.
/// let columns = Window::new(vec![0, 0], Shape::new([4, 3])?).with_strides(vec![6, 2]);
/// assert_eq!(columns.reach(), Some(23));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Window {
    /// First index on each axis, in logical axis order.
    pub start: Vec<u64>,
    /// Length of the whole on each axis, in logical axis order.
    pub whole: Shape,
    /// Elements from one index of each axis to the next, in logical axis order, where the whole skips or repeats what the
    /// one extent holds: the element at index `i` is element Σ `i[k]` · `strides[k]` of the extent. Empty where the
    /// extents hold each element of the whole once, in the order of the encoding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strides: Vec<u64>,
}

impl Window {
    /// A box that begins at `start` in a whole of which the extents hold each element once.
    pub fn new(start: Vec<u64>, whole: Shape) -> Self {
        Window { start, whole, strides: Vec::new() }
    }

    /// The same box in a whole whose elements lie at these distances in the one extent.
    #[must_use]
    pub fn with_strides(mut self, strides: Vec<u64>) -> Self {
        self.strides = strides;
        self
    }

    /// Elements that the extent has to hold for the strides; `None` where they overflow, or are not one for each axis.
    pub fn reach(&self) -> Option<u64> {
        if self.strides.len() != self.whole.rank() {
            return None;
        }
        if self.whole.elements() == 0 {
            return Some(0);
        }
        let mut axes = self.whole.iter().zip(&self.strides);
        let last =
            axes.try_fold(0u64, |last, (len, stride)| last.checked_add((len - 1).checked_mul(*stride)?));
        last?.checked_add(1)
    }
}

/// How stored bytes encode a tensor's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Encoding {
    /// Stored element type.
    pub dtype: DType,
    /// Stored byte order.
    pub endian: Endian,
    /// Stored axis order: stored axis `k`, slowest first, is logical axis `order[k]`. Row-major is `0..rank`,
    /// column-major is `0..rank` reversed. Where there are tiles it numbers the parts, see [`Encoding::parts`].
    pub order: AxisOrder,
    /// Axes that are stored as several, in logical order, one for an axis; then extents have no regions.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub tiles: Few<Tile>,
    /// How elements smaller than a byte are stored.
    pub packing: Packing,
    /// What stored integers stand for, where they stand for other numbers than themselves: then the tensor's dtype is
    /// [`DType::F32`] and `dtype` an integer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// The blocks in which the elements are stored, which are read as [`DType::F32`]; a target can only have those that
    /// the source has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Box<Blocks>>,
}

/// Stored integers that stand for numbers: `number = integer / scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scaling {
    /// Integer units per 1.0.
    pub scale: NonZeroU32,
    /// What becomes of a fraction when numbers are stored.
    pub rounding: Rounding,
    /// Numbers further from 0 than this many units are stored as it: clipped; `None` where they are refused if they do
    /// not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroU32>,
    /// Whether each number of a sum ([`Placement::added`]) becomes whole units by itself, and these are added:
    /// `round(a·s) + round(b·s)`; else the sum does, `round((a+b)·s)`. Only for integers of 8 or 16 bits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_term: bool,
}

impl Scaling {
    /// The whole units, in double precision, that a number becomes; NaN and infinities stay what they are.
    // So that loops over many numbers are vectorized.
    #[inline(always)]
    pub fn units(&self, number: f32) -> f64 {
        let scaled = f64::from(self.scale.get()) * f64::from(number);
        match self.rounding {
            Rounding::Truncate => scaled.trunc(),
            Rounding::Nearest => scaled.round(),
        }
    }
}

/// What becomes of a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// Towards zero.
    #[default]
    Truncate,
    /// To the nearest integer, halves away from zero.
    Nearest,
}

/// How elements smaller than a byte are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// Every element takes whole bytes; a small one lies in the low bits.
    #[default]
    Bytes,
    /// Elements follow each other bit by bit, the first in the lowest bits.
    Bits,
}

impl Encoding {
    /// Little-endian, whole bytes, in this axis order.
    pub fn new(dtype: DType, order: impl Into<AxisOrder>) -> Self {
        Encoding {
            dtype,
            endian: Endian::Little,
            order: order.into(),
            tiles: Few::default(),
            packing: Packing::Bytes,
            scaling: None,
            blocks: None,
        }
    }

    /// Little-endian, row-major, whole bytes: what most formats store.
    pub fn row_major(tensor: &Tensor) -> Self {
        Encoding::new(tensor.dtype, AxisOrder::row_major(tensor.shape.rank()))
    }

    /// The same in big-endian byte order.
    #[must_use]
    pub fn big_endian(self) -> Self {
        self.with_endian(Endian::Big)
    }

    /// The same with the axes in reverse order: from [`Encoding::row_major`], the first axis is the fastest.
    #[must_use]
    pub fn column_major(mut self) -> Self {
        self.order = self.order.reversed();
        self
    }

    /// The same with another stored dtype.
    #[must_use]
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// The same in another byte order.
    #[must_use]
    pub fn with_endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// The same in another axis order.
    #[must_use]
    pub fn with_order(mut self, order: impl Into<AxisOrder>) -> Self {
        self.order = order.into();
        self
    }

    /// The same with axes that are stored as several.
    #[must_use]
    pub fn with_tiles(mut self, tiles: impl Into<Few<Tile>>) -> Self {
        self.tiles = tiles.into();
        self
    }

    /// The same with another packing.
    #[must_use]
    pub fn with_packing(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// The same where stored integers stand for numbers.
    #[must_use]
    pub fn with_scaling(mut self, scaling: impl Into<Option<Scaling>>) -> Self {
        self.scaling = scaling.into();
        self
    }

    /// Bytes that `elements` take; `None` where elements have a length each, or do not fill whole bytes.
    pub fn stored_len(&self, elements: u64) -> Option<u64> {
        if let Some(blocks) = &self.blocks {
            return blocks.stored_len(elements);
        }
        match self.packing {
            Packing::Bytes => elements.checked_mul(self.dtype.bytes()?),
            Packing::Bits => {
                let bits = elements.checked_mul(u64::from(self.dtype.bits()?))?;
                bits.is_multiple_of(8).then_some(bits / 8)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_do_not_fill_bytes_have_no_length() {
        let mut encoding = Encoding::new(DType::F4E2m1, vec![0]).with_packing(Packing::Bits);
        assert_eq!(encoding.stored_len(4), Some(2));
        assert_eq!(encoding.stored_len(3), None);
        encoding.packing = Packing::Bytes;
        assert_eq!(encoding.stored_len(3), Some(3));
    }
}
