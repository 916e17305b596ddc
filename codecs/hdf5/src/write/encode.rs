//! Object headers of version 1 and their messages.

use super::node::Content;
use super::texts::Reference;
use crate::datatype::Datatype;
use crate::format::message;
use crate::tree::{Attribute, AttributeValue};
use ckpt_api::{DType, Endian, Error, Result, Shape, Writer};

/// The address that stands for nothing.
pub(super) const UNDEFINED: u64 = u64::MAX;
/// Bytes of a header before its messages.
const PREFIX: u64 = 16;
/// Bytes of a message before its data.
const MESSAGE: u64 = 8;
/// The most bytes of a message's data; `h5py` refuses larger attributes, too.
pub(crate) const MOST_BYTES: u64 = 65_528;
/// Bytes of a text in an attribute: its length and where it is in the heap.
const REFERENCE: u64 = 16;

/// Whether elements of this datatype can be written.
pub(super) fn is_written(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::Number { dtype, .. } => {
            *dtype == DType::Bool || complex_part(*dtype).is_some() || number_class(*dtype).is_some()
        }
        Datatype::Opaque { size } => *size > 0,
        _ => false,
    }
}

/// Bytes of an object's header.
pub(super) fn header_len(content: &Content, attributes: &[Attribute]) -> Result<u64> {
    let mut header = Header::default();
    match content {
        Content::Group(_) => header.symbol_table(0, 0),
        Content::Dataset { datatype, shape, .. } => header.dataset(datatype, shape, 0, 0),
    }
    let mut len = header.messages.len();
    for attribute in attributes {
        let data = attribute_parts(attribute).map_err(|error| error.field(&attribute.name))?;
        len = len.saturating_add(MESSAGE + data.len());
    }
    Ok(PREFIX + len)
}

/// The messages of an object.
#[derive(Default)]
pub(super) struct Header {
    messages: Writer,
    count: u32,
}

impl Header {
    fn message(&mut self, kind: u16, flags: u8, data: &[u8]) {
        let padded = data.len().next_multiple_of(8);
        self.messages.numbers(&[kind, padded as u16]).bytes(&[flags, 0, 0, 0]).bytes(data);
        self.messages.bytes(&vec![0; padded - data.len()]);
        self.count += 1;
    }

    pub(super) fn symbol_table(&mut self, tree: u64, heap: u64) {
        let mut data = Writer::new();
        data.numbers(&[tree, heap]);
        self.message(message::SYMBOL_TABLE, 0, &data.into_bytes());
    }

    /// The messages of a dataset that is stored in one piece.
    pub(super) fn dataset(&mut self, datatype: &Datatype, shape: &Shape, address: u64, len: u64) {
        self.message(message::DATASPACE, 0, &dataspace(shape));
        // The datatype never changes.
        self.message(message::DATATYPE, 1, &datatype_bytes(datatype));
        // Version, allocated late, written if set, and defined as zeros.
        self.message(message::FILL, 1, &[2, 2, 2, 1, 0, 0, 0, 0]);
        let mut data = Writer::new();
        data.bytes(&[3, 1]).numbers(&[address, len]);
        self.message(message::LAYOUT, 0, &data.into_bytes());
    }

    pub(super) fn attribute<'a>(
        &mut self,
        attribute: &Attribute,
        references: &mut impl Iterator<Item = &'a Reference>,
    ) -> Result<()> {
        let mut data = attribute_parts(attribute)?.head;
        for text in attribute.value.texts() {
            let Some(reference) = references.next() else {
                return Err(Error::defect("a text has no place in the heap"));
            };
            data.number(text.len() as u32).number(reference.address).number(reference.number);
        }
        self.message(message::ATTRIBUTE, 0, &data.into_bytes());
        Ok(())
    }

    /// Returns the header; all its messages are in one piece.
    pub(super) fn bytes(self) -> Result<Vec<u8>> {
        let too_many = |_| Error::unsupported("the object has too many attributes");
        let mut bytes = Writer::new();
        bytes.bytes(&[1, 0]).number(u16::try_from(self.count).map_err(too_many)?).number(1u32);
        bytes.number(u32::try_from(self.messages.len()).map_err(too_many)?).number(0u32);
        bytes.bytes(&self.messages.into_bytes());
        Ok(bytes.into_bytes())
    }
}

/// An attribute's message up to its texts, and how many bytes these take.
struct AttributeParts {
    head: Writer,
    values: u64,
}

impl AttributeParts {
    fn len(&self) -> u64 {
        (self.head.len() + self.values).next_multiple_of(8)
    }
}

fn attribute_parts(attribute: &Attribute) -> Result<AttributeParts> {
    let count = attribute.value.texts().len() as u64;
    let shape = match &attribute.value {
        AttributeValue::Text(_) => Shape::scalar(),
        _ => Shape::new([count])?,
    };
    // As `h5py` writes a list without elements.
    let datatype = match count {
        0 => datatype_bytes(&Datatype::little(DType::F64)),
        _ => text_datatype(),
    };
    let dataspace = dataspace(&shape);
    let mut name = attribute.name.clone().into_bytes();
    name.push(0);
    let too_long = || {
        Error::unsupported("the attribute is too long for an HDF5 file")
            .expected(format!("at most {MOST_BYTES} bytes"))
    };
    let mut head = Writer::new();
    let name_len = u16::try_from(name.len()).map_err(|_| too_long())?;
    head.bytes(&[1, 0]).numbers(&[name_len, datatype.len() as u16, dataspace.len() as u16]);
    for part in [&name, &datatype, &dataspace] {
        head.bytes(part).bytes(&vec![0; part.len().next_multiple_of(8) - part.len()]);
    }
    let parts = AttributeParts { head, values: count.saturating_mul(REFERENCE) };
    if parts.len() > MOST_BYTES { Err(too_long()) } else { Ok(parts) }
}

/// A dataspace of version 1, whose lengths are the greatest ones, too.
fn dataspace(shape: &Shape) -> Vec<u8> {
    let repeats = shape.rank() > 0;
    let mut data = Writer::new();
    data.bytes(&[1, shape.rank() as u8, u8::from(repeats), 0]).number(0u32).numbers(shape);
    data.numbers(if repeats { shape } else { &[] });
    data.into_bytes()
}

/// Texts of a length each, in UTF-8.
fn text_datatype() -> Vec<u8> {
    let mut data = Writer::new();
    data.bytes(&[0x19, 1, 1, 0]).number(REFERENCE as u32).bytes(&[0x10, 0, 0, 0]).number(1u32);
    data.numbers(&[0u16, 8]);
    data.into_bytes()
}

/// Class (0 integer, 1 float), size and flags of a number.
fn number_class(dtype: DType) -> Option<(u8, u32, bool)> {
    Some(match dtype {
        DType::I8 => (0, 1, true),
        DType::I16 => (0, 2, true),
        DType::I32 => (0, 4, true),
        DType::I64 => (0, 8, true),
        DType::U8 => (0, 1, false),
        DType::U16 => (0, 2, false),
        DType::U32 => (0, 4, false),
        DType::U64 => (0, 8, false),
        DType::F16 => (1, 2, true),
        DType::F32 => (1, 4, true),
        DType::F64 => (1, 8, true),
        _ => return None,
    })
}

/// The dtype of the two parts of a complex number, and the bytes of one.
fn complex_part(dtype: DType) -> Option<(DType, u32)> {
    match dtype {
        DType::C64 => Some((DType::F32, 4)),
        DType::C128 => Some((DType::F64, 8)),
        _ => None,
    }
}

fn datatype_bytes(datatype: &Datatype) -> Vec<u8> {
    let mut data = Writer::new();
    match datatype {
        Datatype::Number { dtype: DType::Bool, .. } => {
            data.bytes(&[0x18, 2, 0, 0]).number(1u32);
            number(&mut data, DType::I8, Endian::Little);
            data.bytes(b"FALSE\0\0\0TRUE\0\0\0\0").bytes(&[0, 1]);
        }
        Datatype::Number { dtype, endian } => match complex_part(*dtype) {
            Some((part, size)) => {
                // Two members, which `h5py` takes for one complex number.
                data.bytes(&[0x16, 2, 0, 0]).number(2 * size);
                for (name, offset) in [(b"r\0\0\0\0\0\0\0", 0), (b"i\0\0\0\0\0\0\0", size)] {
                    data.bytes(name).number(offset).bytes(&[0; 28]);
                    number(&mut data, part, *endian);
                }
            }
            None => number(&mut data, *dtype, *endian),
        },
        Datatype::Opaque { size } => {
            data.bytes(&[0x15, 0, 0, 0]).number(*size);
        }
        // None of these is written: see `is_written`.
        Datatype::Enumeration { .. }
        | Datatype::Text
        | Datatype::FixedText { .. }
        | Datatype::Reference
        | Datatype::Other(_) => {}
    }
    data.into_bytes()
}

fn number(data: &mut Writer, dtype: DType, endian: Endian) {
    let Some((class, size, is_signed)) = number_class(dtype) else { return };
    let order = u8::from(endian == Endian::Big);
    let bits = size as u16 * 8;
    match class {
        0 => {
            data.bytes(&[0x10, order | if is_signed { 8 } else { 0 }, 0, 0]).number(size).numbers(&[0, bits]);
        }
        _ => {
            let (exponent, bias) = match dtype {
                DType::F16 => (5u8, 15u32),
                DType::F32 => (8, 127),
                _ => (11, 1023),
            };
            let sign = bits as u8 - 1;
            let mantissa = sign - exponent;
            data.bytes(&[0x11, order | 0x20, sign, 0]).number(size).numbers(&[0, bits]);
            data.bytes(&[mantissa, exponent, 0, mantissa]).number(bias);
        }
    }
}
