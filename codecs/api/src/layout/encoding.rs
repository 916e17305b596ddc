//! How a tensor's elements are stored.

use crate::{AxisOrder, Blocks, DType, Endian, Tensor, Tile};
use serde::{Deserialize, Serialize, Serializer};
use std::num::NonZeroU32;

/// How stored bytes encode a tensor's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "EncodingDocument")]
#[non_exhaustive]
pub struct Encoding {
    /// Stored element type.
    pub dtype: DType,
    /// Stored byte order.
    pub endian: Endian,
    /// Stored axis order: stored axis `k`, slowest first, is logical axis `order[k]`. Row-major is `0..rank`,
    /// column-major is `0..rank` reversed. Where there are tiles it numbers the parts, see [`Encoding::parts`].
    pub order: AxisOrder,
    /// How elements smaller than a byte are stored.
    pub packing: Packing,
    /// What few encodings have; `None` if all of it is.
    rare: Option<Box<RareOfEncoding>>,
}

/// Apart from the encoding, for there can be a million of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct RareOfEncoding {
    tiles: Vec<Tile>,
    scaling: Option<Scaling>,
    blocks: Option<Blocks>,
}

impl Encoding {
    /// Little-endian, whole bytes, in this axis order.
    pub fn new(dtype: DType, order: impl Into<AxisOrder>) -> Self {
        Encoding { dtype, endian: Endian::Little, order: order.into(), packing: Packing::Bytes, rare: None }
    }

    /// Little-endian, row-major, whole bytes: what most formats store.
    pub fn row_major(tensor: &Tensor) -> Self {
        Encoding::new(tensor.dtype, AxisOrder::row_major(tensor.shape.rank()))
    }

    /// Axes that are stored as several, in logical order, one for an axis; then extents have no regions.
    pub fn tiles(&self) -> &[Tile] {
        self.rare.as_ref().map_or(&[], |rare| &rare.tiles)
    }

    /// What stored integers stand for, where they stand for other numbers than themselves: then the tensor's dtype is
    /// [`DType::F32`] and [`Encoding::dtype`] an integer's.
    pub fn scaling(&self) -> Option<Scaling> {
        self.rare.as_ref()?.scaling
    }

    /// [`Encoding::scaling`], to be changed.
    pub fn scaling_mut(&mut self) -> Option<&mut Scaling> {
        self.rare.as_mut()?.scaling.as_mut()
    }

    /// The blocks in which the elements are stored, which are read as [`DType::F32`]; a target can only have those that
    /// the source has.
    pub fn blocks(&self) -> Option<&Blocks> {
        self.rare.as_ref()?.blocks.as_ref()
    }

    /// Gives blocks that were read from a document their decoders, from those of `known`.
    pub fn attach(&mut self, known: &[Blocks]) {
        if let Some(blocks) = self.rare.as_mut().and_then(|rare| rare.blocks.as_mut()) {
            blocks.attach(known);
        }
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
    pub fn with_tiles(mut self, tiles: impl Into<Vec<Tile>>) -> Self {
        self.set_tiles(tiles);
        self
    }

    /// Sets [`Encoding::tiles`].
    pub fn set_tiles(&mut self, tiles: impl Into<Vec<Tile>>) {
        let tiles = tiles.into();
        self.change(|rare| rare.tiles = tiles);
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
        self.set_scaling(scaling);
        self
    }

    /// Sets [`Encoding::scaling`].
    pub fn set_scaling(&mut self, scaling: impl Into<Option<Scaling>>) {
        let scaling = scaling.into();
        self.change(|rare| rare.scaling = scaling);
    }

    /// The same encoding of the same elements, in blocks.
    #[must_use]
    pub fn in_blocks(mut self, blocks: impl Into<Option<Blocks>>) -> Self {
        let blocks = blocks.into();
        self.change(|rare| rare.blocks = blocks);
        self
    }

    fn change(&mut self, change: impl FnOnce(&mut RareOfEncoding)) {
        let mut rare = self.rare.take().map_or_else(RareOfEncoding::default, |rare| *rare);
        change(&mut rare);
        // So that equal encodings are equal.
        self.rare = (rare != RareOfEncoding::default()).then(|| Box::new(rare));
    }

    /// Bytes that `elements` take, the last of which may be filled up with zeros; `None` if elements have a length each.
    /// Only elements that are stored together, and not in [`Region`](crate::Region)s, can end within a byte.
    pub fn padded_len(&self, elements: u64) -> Option<u64> {
        match (self.packing, self.blocks()) {
            (Packing::Bits, None) => Some(elements.checked_mul(u64::from(self.dtype.bits()?))?.div_ceil(8)),
            _ => self.stored_len(elements),
        }
    }

    /// Bytes that `elements` take; `None` if elements have a length each, or do not fill whole bytes.
    pub fn stored_len(&self, elements: u64) -> Option<u64> {
        if let Some(blocks) = self.blocks() {
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

/// An encoding in JSON.
#[derive(Deserialize)]
#[serde(rename = "Encoding")]
struct EncodingDocument {
    dtype: DType,
    endian: Endian,
    order: AxisOrder,
    #[serde(default)]
    tiles: Vec<Tile>,
    packing: Packing,
    #[serde(default)]
    scaling: Option<Scaling>,
    #[serde(default)]
    blocks: Option<Blocks>,
}

impl From<EncodingDocument> for Encoding {
    fn from(document: EncodingDocument) -> Self {
        let EncodingDocument { dtype, endian, order, tiles, packing, scaling, blocks } = document;
        let mut encoding = Encoding { dtype, endian, order, packing, rare: None };
        encoding.change(|rare| *rare = RareOfEncoding { tiles, scaling, blocks });
        encoding
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// [`EncodingDocument`], without copies.
        #[derive(Serialize)]
        #[serde(rename = "Encoding")]
        struct Document<'a> {
            dtype: DType,
            endian: Endian,
            order: &'a AxisOrder,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            tiles: &'a [Tile],
            packing: Packing,
            #[serde(skip_serializing_if = "Option::is_none")]
            scaling: Option<Scaling>,
            #[serde(skip_serializing_if = "Option::is_none")]
            blocks: Option<&'a Blocks>,
        }
        let Encoding { dtype, endian, ref order, packing, .. } = *self;
        let (tiles, scaling, blocks) = (self.tiles(), self.scaling(), self.blocks());
        Document { dtype, endian, order, tiles, packing, scaling, blocks }.serialize(serializer)
    }
}

/// Stored integers that stand for numbers: `number = integer / scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scaling {
    /// Integer units per 1.0.
    pub scale: NonZeroU32,
    /// What becomes of a fraction when numbers are stored.
    pub rounding: Rounding,
    /// Numbers further from 0 than this many units are stored as it: clipped; `None` if they are refused if they do
    /// not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroU32>,
    /// Whether each number of a sum ([`crate::Placement::added`]) becomes whole units by itself, and these are added:
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
    /// Every element takes whole bytes; a small one is in the low bits.
    #[default]
    Bytes,
    /// Elements follow each other bit by bit, the first in the lowest bits.
    Bits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_leaves_an_equal_encoding() {
        let plain = Encoding::new(DType::I8, vec![0, 1]);
        let scaling =
            Scaling { scale: NonZeroU32::MIN, rounding: Rounding::Nearest, limit: None, each_term: false };
        let mut changed = plain.clone().with_scaling(scaling).with_tiles([Tile { axis: 1, lens: vec![4] }]);
        assert_eq!((changed.scaling(), changed.tiles().len()), (Some(scaling), 1));
        assert_ne!(changed, plain);
        changed.set_scaling(None);
        changed.set_tiles([]);
        assert_eq!(changed, plain);
    }

    #[test]
    fn json_has_only_what_is_there_and_makes_the_encoding_again() {
        let plain = Encoding::new(DType::I8, vec![1, 0]);
        let json = r#"{"dtype":"i8","endian":"little","order":[1,0],"packing":"bytes"}"#;
        assert_eq!(serde_json::to_string(&plain).unwrap(), json);
        assert_eq!(serde_json::from_str::<Encoding>(json).unwrap(), plain);
        let scaling =
            Scaling { scale: NonZeroU32::MIN, rounding: Rounding::Nearest, limit: None, each_term: false };
        let all = plain.with_scaling(scaling).with_tiles([Tile { axis: 1, lens: vec![4] }]);
        let all = all.in_blocks(Blocks::opaque("toy.q8", 32, 34));
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Encoding>(&json).unwrap(), all);
        let at = |field| json.find(&format!("\"{field}\":")).unwrap();
        assert!(["dtype", "endian", "order", "tiles", "packing", "scaling", "blocks"].map(at).is_sorted());
    }

    #[test]
    fn bits_that_do_not_fill_bytes_have_no_length() {
        let mut encoding = Encoding::new(DType::F4E2m1, vec![0]).with_packing(Packing::Bits);
        assert_eq!(encoding.stored_len(4), Some(2));
        assert_eq!(encoding.stored_len(3), None);
        assert_eq!(encoding.padded_len(3), Some(2));
        encoding.packing = Packing::Bytes;
        assert_eq!(encoding.stored_len(3), Some(3));
    }
}
