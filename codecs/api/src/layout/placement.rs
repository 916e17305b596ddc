//! Where a tensor's bytes are, or go.

use crate::{
    AxisOrder, Blocks, DType, Decoder, Encoding, Error, Extent, Extents, FileId, Name, Packing, Shape,
    Tensor, TensorId,
};
use serde::{Deserialize, Serialize, Serializer};

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
    /// What few placements have; `None` if all of it is.
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

    /// The one extent of a tensor that is stored whole and in order, as plain elements; `Some(None)` if it has no elements, and
    /// `None` if it is stored in another way.
    pub fn whole_extent(&self, tensor: &Tensor) -> Option<Option<&Extent>> {
        let encoding = &self.encoding;
        let is_plain = encoding.tiles().is_empty()
            && encoding.order.iter().copied().eq(0..tensor.shape.rank())
            && encoding.blocks().is_none()
            && encoding.packing == Packing::Bytes
            && encoding.dtype == tensor.dtype
            && self.window().is_none();
        match &self.extents[..] {
            [] if tensor.shape.elements() == 0 => Some(None),
            [extent] if is_plain && extent.region().is_none() && !extent.is_computed() => {
                Some(Some(extent).filter(|_| tensor.shape.elements() > 0))
            }
            _ => None,
        }
    }

    /// Whether the bytes are those of the tensor in memory: whole little-endian elements of this dtype, row by row.
    pub(crate) fn is_plain(&self, dtype: DType) -> bool {
        let plain = Encoding::new(dtype, AxisOrder::row_major(self.encoding.order.len()));
        self.encoding == plain
            && self.window().is_none()
            && self.extents.iter().all(|extent| extent.region().is_none() && !extent.is_computed())
    }

    /// The shape that the file states, if that is not the tensor's own axes in stored order: a format that adds
    /// or leaves out axes of length 1. `None` if it is.
    pub fn shape(&self) -> Option<&Shape> {
        self.rare.as_ref()?.shape.as_ref()
    }

    /// The tensor is this box of what the extents hold, whose regions then are in the whole; `None` for all of it.
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

    /// The same, if the tensor is a box of what the extents hold.
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

    /// Gives blocks that were read from a document their decoders, from those of `known`.
    pub fn attach(&mut self, known: &[Blocks]) {
        let computed = self.extents.iter_mut().filter_map(|extent| extent.computed_mut());
        let stored = computed.flat_map(|computed| computed.stored_mut());
        let encodings = stored.map(|(_, encoding)| encoding).chain([&mut self.encoding]);
        encodings.for_each(|encoding| encoding.attach(known));
    }

    /// Gives compressed extents that were read from a document their decoders, from those of `known`.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for a decoder that is not among them; [`crate::Kind::Corrupt`] for stored bytes that
    /// are too few for their extent. The error has the extent's offset; its file is the second value.
    pub fn attach_decoders(
        &mut self,
        known: &[&'static Decoder],
    ) -> std::result::Result<(), (Error, FileId)> {
        for extent in self.extents.iter_mut() {
            extent.attach_decoders(known)?;
        }
        Ok(())
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
    /// Whether `other`, the added tensor, fits `tensor`: both hold 32-bit floats, every axis of the added one is
    /// along one axis of the same length, and indices are on their axes.
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
    /// This axis of the added tensor is along it; both have one length.
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

    /// The same box in a whole whose elements are at these distances in the one extent.
    #[must_use]
    pub fn with_strides(mut self, strides: Vec<u64>) -> Self {
        self.strides = strides;
        self
    }

    /// Elements that the extent has to hold for the strides; `None` if they overflow, or are not one for each axis.
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
