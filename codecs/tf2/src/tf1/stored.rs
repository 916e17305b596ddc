//! The numbers of a `TensorProto`, where they are in the file.

use crate::format;
use ckpt_api::fields::varint;
use ckpt_api::{
    Compression, DType, Decoder, Encoding, Error, Extent, Fields, File, FileId, Limits, Placement, Result,
    Shape, Tensor, TensorId, Viewed, Window,
};
use ckpt_containers::decoders::ProtobufNumbers;
use ckpt_containers::protobuf::{Field, Value, Wire, WireFormat};
use std::num::NonZeroU8;
use std::ops::Range;

/// What errors say of these messages.
pub(super) const MESSAGES: WireFormat = WireFormat {
    cut_short: "the file is cut short",
    other_type: "a field has another type than TensorFlow's",
    unknown_type: "the file is damaged, or is no message of TensorFlow",
};

/// TensorFlow's number for strings.
const STRING: i32 = 7;
/// What each dtype's list of values has as its number in the message, and whether its numbers are varints.
const CONTENT: u64 = 4;
/// Longest list of varints that is decoded while the file is opened.
const MOST_DECODED: u64 = 1 << 16;

/// A tensor, as the message states it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    /// TensorFlow's number of the dtype; 0 if none is stated.
    pub dtype: i32,
    /// The lengths of the axes; `None` if not even their number is known.
    pub dims: Option<Vec<i64>>,
    /// Raw bytes, if there are any.
    content: Option<Range<u64>>,
    /// Lists of values, packed: the number of each field, and where it is.
    lists: Vec<(u64, Range<u64>)>,
}

/// The values that are stored for a tensor.
pub(super) enum Values {
    /// Each of them, in bytes as wide as an element.
    Fixed(Range<u64>),
    /// Each of them, as varints.
    Varints(Range<u64>),
}

impl Stored {
    /// Reads the message that ends at `end`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`].
    pub fn read(wire: &mut Wire, end: u64) -> Result<Self> {
        let mut stored = Stored { dims: Some(Vec::new()), ..Stored::default() };
        while let Some(field) = wire.field(end)? {
            match (field.number, &field.value) {
                (1, _) => stored.dtype = i32::try_from(wire.int(&field)?).unwrap_or(-1),
                (2, _) => stored.dims = dims(wire, wire.range(&field)?.end)?,
                (CONTENT, _) => stored.content = Some(wire.range(&field)?).filter(|range| !range.is_empty()),
                (5..=17, Value::Bytes(range)) if field.number != 8 => stored.list(&field, range.clone())?,
                (5..=17, _) if field.number != 8 => {
                    return Err(
                        Error::unsupported("the values of a tensor are not packed").offset(field.span.start)
                    );
                }
                _ => {}
            }
            wire.skip(&field)?;
        }
        Ok(stored)
    }

    fn list(&mut self, field: &Field, range: Range<u64>) -> Result<()> {
        if self.lists.iter().any(|(number, _)| *number == field.number) {
            return Err(Error::unsupported("a tensor has two lists of values").offset(field.span.start));
        }
        self.lists.push((field.number, range));
        Ok(())
    }

    /// Whether the elements are strings.
    pub fn is_text(&self) -> bool {
        self.dtype == STRING
    }

    /// A tensor of this name, without its place.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a dtype or shape that no constant has.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let dtype = format::dtype_of(self.dtype)?;
        let dims = self
            .dims
            .as_ref()
            .ok_or_else(|| Error::corrupt("a constant has no shape").field("unknown_rank"))?;
        Ok(Tensor::new(name, dtype, shape(dims)?))
    }

    /// Where the values are; `None` if none are stored.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for dtypes whose values have no list.
    pub fn values(&self, dtype: DType) -> Result<Option<Values>> {
        if let Some(content) = &self.content {
            return Ok(Some(Values::Fixed(content.clone())));
        }
        let (number, is_varint) = match dtype {
            DType::F32 => (5, false),
            DType::F64 => (6, false),
            DType::C64 => (9, false),
            DType::C128 => (12, false),
            DType::I64 => (10, true),
            DType::Bool => (11, true),
            DType::F16 | DType::Bf16 => (13, true),
            DType::U32 => (16, true),
            DType::U64 => (17, true),
            DType::I32 | DType::I16 | DType::I8 | DType::U16 | DType::U8 => (7, true),
            DType::Qi32 | DType::Qi16 | DType::Qi8 | DType::Qu16 | DType::Qu8 => (7, true),
            other => {
                return Err(Error::unsupported("values of this dtype are read from raw bytes only")
                    .found(other.name()));
            }
        };
        let list = self.lists.iter().find(|(own, _)| *own == number).map(|(_, range)| range.clone());
        let list = list.filter(|range| !range.is_empty());
        Ok(list.map(if is_varint { Values::Varints } else { Values::Fixed }))
    }
}

/// A shape from the lengths that a message states.
pub(super) fn shape(dims: &[i64]) -> Result<Shape> {
    let lens: Option<Vec<u64>> = dims.iter().map(|len| u64::try_from(*len).ok()).collect();
    let lens =
        lens.ok_or_else(|| Error::corrupt("a length of a tensor is negative").found(format!("{dims:?}")))?;
    Shape::new(lens)
}

/// The lengths of a `TensorShapeProto`; `None` for one of unknown rank.
pub(super) fn dims(wire: &mut Wire, end: u64) -> Result<Option<Vec<i64>>> {
    let (mut dims, mut is_known) = (Vec::new(), true);
    while let Some(field) = wire.field(end)? {
        match field.number {
            2 => {
                let mut len = 0;
                let end = wire.range(&field)?.end;
                while let Some(field) = wire.field(end)? {
                    if field.number == 1 {
                        len = wire.int(&field)?;
                    }
                    wire.skip(&field)?;
                }
                if dims.len() >= format::MAX_RANK {
                    return Err(Error::corrupt("a tensor has too many axes").offset(field.span.start));
                }
                dims.push(len);
            }
            3 => is_known = wire.int(&field)? == 0,
            _ => {}
        }
        wire.skip(&field)?;
    }
    Ok(is_known.then_some(dims))
}

/// Places the constants of a file.
pub(super) struct Placer<'a> {
    file: &'a File,
    limits: &'a Limits,
    /// Values that are repeated are written in full.
    viewed: Viewed,
}

impl<'a> Placer<'a> {
    pub fn new(file: &'a File, limits: &'a Limits) -> Self {
        let mut viewed = Viewed::default();
        viewed.open(file.len(), []);
        Placer { file, limits, viewed }
    }

    /// Where the bytes of a constant are. If there are fewer values than elements, the last one is repeated; if there are
    /// none, all are 0.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for more values than elements; [`ckpt_api::Kind::Unsupported`] for values that are
    /// repeated too often.
    pub fn place(&mut self, stored: &Stored, tensor: &Tensor, id: TensorId) -> Result<Placement> {
        let encoding = Encoding::row_major(tensor);
        let elements = tensor.shape.elements();
        let len = encoding.padded_len(elements).ok_or_else(|| too_large(tensor))?;
        let size = tensor.dtype.bytes().ok_or_else(|| too_large(tensor))?;
        let values = stored.values(tensor.dtype)?;
        let (numbers, count) = match &values {
            None => (Numbers::Literal(Vec::new()), 0),
            Some(Values::Fixed(range)) => self.fixed(range, size, tensor, stored.content.is_some())?,
            Some(Values::Varints(range)) => self.varints(range, size)?,
        };
        if count > elements || (stored.content.is_some() && count != elements) {
            let at = match &values {
                Some(Values::Fixed(range) | Values::Varints(range)) => range.start,
                None => 0,
            };
            return Err(Error::corrupt("the values of a constant do not fit its shape")
                .offset(at)
                .found(ckpt_api::count(count, "value"))
                .expected(format!("{elements} for {} of {}", tensor.shape, tensor.dtype)));
        }
        if count < elements {
            self.viewed.add(tensor)?;
        }
        let place = |extents| Placement::new(id, &tensor.name, extents, encoding.clone());
        if elements == 0 {
            return Ok(place(Vec::new()));
        }
        if count == elements {
            return Ok(place(vec![numbers.all(len)]));
        }
        if count <= 1 {
            let (rank, whole) = (tensor.shape.rank(), tensor.shape.clone());
            let window = Window::new(vec![0; rank], whole).with_strides(vec![0; rank]);
            return Ok(place(vec![numbers.one(size)]).with_window(Some(window)));
        }
        let rest = (elements - count).saturating_mul(size);
        Ok(place(numbers.then_last(count.saturating_mul(size), rest, size)?))
    }

    /// Values of fixed width, and how many there are.
    fn fixed(
        &self,
        range: &Range<u64>,
        size: u64,
        tensor: &Tensor,
        is_content: bool,
    ) -> Result<(Numbers, u64)> {
        let len = range.end.saturating_sub(range.start);
        if len.checked_rem(size) != Some(0) {
            let message = if is_content {
                "the bytes of a constant do not fit its shape"
            } else {
                "a value is cut short"
            };
            return Err(Error::corrupt(message)
                .offset(range.start)
                .found(ckpt_api::count(len, "byte"))
                .expected(format!("a multiple of {size} for {}", tensor.dtype)));
        }
        Ok((Numbers::Stored(range.clone()), len.checked_div(size).unwrap_or(0)))
    }

    /// Varints, and how many there are: those of short lists are decoded.
    fn varints(&self, range: &Range<u64>, size: u64) -> Result<(Numbers, u64)> {
        let len = range.end.saturating_sub(range.start);
        let mut fields = Fields::range(self.file, range.start, len)?;
        let (mut count, mut decoded) = (0u64, Vec::new());
        let keeps = len <= MOST_DECODED / 8;
        while fields.remaining() > 0 {
            let value = fields.parse(varint)?.to_le_bytes();
            count = count.saturating_add(1);
            if keeps {
                decoded.extend(value.iter().take(usize::try_from(size).unwrap_or(0)));
            }
        }
        self.limits.check(ckpt_api::Limit::HeaderBytes, decoded.len() as u64)?;
        Ok((if keeps { Numbers::Literal(decoded) } else { Numbers::Varints(range.clone(), size) }, count))
    }
}

fn too_large(tensor: &Tensor) -> Error {
    Error::unsupported("the tensor has too many bytes").found(format!("{} of {}", tensor.shape, tensor.dtype))
}

/// The values that a constant lists.
enum Numbers {
    /// In the file as they are.
    Stored(Range<u64>),
    /// In the file as varints, which become elements of so many bytes.
    Varints(Range<u64>, u64),
    /// Decoded.
    Literal(Vec<u8>),
}

impl Numbers {
    /// All of them, in `len` bytes.
    fn all(self, len: u64) -> Extent {
        match self {
            Numbers::Stored(range) => Extent::new(FileId(0), range.start, len),
            Numbers::Varints(range, size) => varint_extent(&range, size, len),
            Numbers::Literal(bytes) => {
                Extent::new(FileId(0), 0, len).with_compression(Compression::literal(bytes))
            }
        }
    }

    /// The only one, or 0.
    fn one(self, size: u64) -> Extent {
        match self {
            Numbers::Literal(bytes) if bytes.is_empty() => {
                let zero = vec![0; usize::try_from(size).unwrap_or(0)];
                Extent::new(FileId(0), 0, size).with_compression(Compression::literal(zero))
            }
            numbers => numbers.all(size),
        }
    }

    /// All of them, in `len` bytes, and then the last one until `rest` bytes are full.
    fn then_last(self, len: u64, rest: u64, size: u64) -> Result<Vec<Extent>> {
        match self {
            Numbers::Stored(range) => {
                let last = range.end.saturating_sub(size);
                let repeated = Compression::new(Decoder::REPEATED, size);
                let rest = Extent::new(FileId(0), last, rest).with_compression(repeated);
                Ok(vec![Extent::new(FileId(0), range.start, len), rest])
            }
            Numbers::Literal(mut bytes) if len.saturating_add(rest) <= MOST_DECODED => {
                let width = usize::try_from(size).unwrap_or(bytes.len()).min(bytes.len());
                let last = bytes.split_at(bytes.len() - width).1.to_vec();
                let all = usize::try_from(len.saturating_add(rest)).unwrap_or(0);
                bytes.extend(last.iter().cycle().take(all.saturating_sub(bytes.len())));
                let whole = Extent::new(FileId(0), 0, len.saturating_add(rest));
                Ok(vec![whole.with_compression(Compression::literal(bytes))])
            }
            Numbers::Literal(_) | Numbers::Varints(..) => {
                Err(Error::unsupported("the last of several integers is repeated for a large constant"))
            }
        }
    }
}

fn varint_extent(range: &Range<u64>, size: u64, len: u64) -> Extent {
    let stored = range.end.saturating_sub(range.start);
    let element_bytes = u8::try_from(size).ok().and_then(NonZeroU8::new).unwrap_or(NonZeroU8::MIN);
    let numbers = ProtobufNumbers { tag_bytes: 0, element_bytes, is_varint: true };
    Extent::new(FileId(0), range.start, len).with_compression(numbers.compression(stored))
}
