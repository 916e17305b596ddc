//! Datatypes.

use crate::read::space::Fields;
use ckpt_api::fields::{array, le};
use ckpt_api::{DType, Endian, Result};

/// How elements are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// Numbers or booleans.
    Number {
        /// Their dtype.
        dtype: DType,
        /// Their byte order.
        endian: Endian,
    },
    /// Integers whose values have names, which are not read.
    Enumeration {
        /// The dtype of the integers.
        dtype: DType,
        /// Their byte order.
        endian: Endian,
    },
    /// Bytes whose meaning the file does not state; so `h5py` stores bfloat16.
    Opaque {
        /// Bytes of one element.
        size: u32,
    },
    /// Texts of a length each, in the file's heap.
    Text,
    /// Texts of so many bytes, padded.
    FixedText {
        /// Bytes of one text, at least 1.
        size: u32,
        /// Whether the padding is spaces, not zeros.
        has_spaces: bool,
    },
    /// Addresses of objects or regions of the file.
    Reference,
    /// Anything else, in words.
    Other(&'static str),
}

impl Datatype {
    /// Little-endian numbers.
    pub fn little(dtype: DType) -> Self {
        Datatype::Number { dtype, endian: Endian::Little }
    }

    /// A name for people.
    pub fn name(&self) -> String {
        match self {
            Datatype::Enumeration { dtype, .. } => format!("an enumeration of {dtype}"),
            Datatype::Number { dtype, endian: Endian::Little } => dtype.to_string(),
            Datatype::Number { dtype, endian: Endian::Big } => format!("big-endian {dtype}"),
            Datatype::Opaque { size } => format!("opaque elements of {}", ckpt_api::count(*size, "byte")),
            Datatype::Text | Datatype::FixedText { .. } => "texts".to_owned(),
            Datatype::Reference => "references to objects".to_owned(),
            Datatype::Other(name) => (*name).to_owned(),
        }
    }

    /// Bytes of one element, where a codec can read it.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Datatype::Number { dtype, .. } | Datatype::Enumeration { dtype, .. } => dtype.bytes(),
            Datatype::Opaque { size } | Datatype::FixedText { size, .. } => Some(u64::from(*size)),
            Datatype::Text | Datatype::Reference | Datatype::Other(_) => None,
        }
    }
}

/// A datatype, and the bytes of its elements as the file states them.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) datatype: Datatype,
    pub(crate) size: u32,
}

/// Class, flags and size, which every datatype has.
struct Head {
    class: u8,
    version: u8,
    flags: u32,
    size: u32,
}

impl Head {
    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let first = fields.parse(le::<u8>)?;
        let flags = fields.number(3)? as u32;
        Ok(Head { class: first & 15, version: first >> 4, flags, size: fields.parse(le::<u32>)? })
    }
}

impl Described {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let head = Head::read(fields)?;
        let size = head.size;
        let datatype = match head.class {
            0 | 4 => integer(&head, fields)?,
            1 => float(&head, fields)?,
            2 => Datatype::Other("times"),
            3 if size > 0 => Datatype::FixedText { size, has_spaces: head.flags & 15 == 2 },
            5 => Datatype::Opaque { size },
            6 => compound(&head, fields)?,
            7 => Datatype::Reference,
            8 => enumeration(&head, fields)?,
            9 if head.flags & 15 == 1 => Datatype::Text,
            9 => Datatype::Other("lists of a length each"),
            10 => Datatype::Other("arrays"),
            11 => Datatype::Other("complex numbers in the form of HDF5 2"),
            _ => Datatype::Other("elements of an unknown class"),
        };
        Ok(Described { datatype, size })
    }
}

impl Described {
    /// Reads the integers or floats that elements are made of; `None` for anything else, which is not read further.
    fn part(fields: &mut Fields<'_>) -> Result<Option<(DType, Endian, u32)>> {
        let head = Head::read(fields)?;
        let datatype = match head.class {
            0 => integer(&head, fields)?,
            1 => float(&head, fields)?,
            _ => return Ok(None),
        };
        Ok(match datatype {
            Datatype::Number { dtype, endian } => Some((dtype, endian, head.size)),
            _ => None,
        })
    }
}

/// The byte order of a number, by its lowest flag.
fn endian(head: &Head) -> Endian {
    if head.flags & 1 == 0 { Endian::Little } else { Endian::Big }
}

fn integer(head: &Head, fields: &mut Fields<'_>) -> Result<Datatype> {
    let (offset, precision) = fields.parse((le::<u16>, le::<u16>))?;
    let is_signed = head.flags & 8 != 0;
    let dtype = match (head.size, is_signed) {
        (1, true) => DType::I8,
        (2, true) => DType::I16,
        (4, true) => DType::I32,
        (8, true) => DType::I64,
        (1, false) => DType::U8,
        (2, false) => DType::U16,
        (4, false) => DType::U32,
        (8, false) => DType::U64,
        _ => return Ok(Datatype::Other("integers of an unusual size")),
    };
    if offset != 0 || u32::from(precision) != head.size.saturating_mul(8) {
        return Ok(Datatype::Other("integers with unused bits"));
    }
    Ok(Datatype::Number { dtype, endian: endian(head) })
}

fn float(head: &Head, fields: &mut Fields<'_>) -> Result<Datatype> {
    let (offset, precision) = fields.parse((le::<u16>, le::<u16>))?;
    let [exponent_at, exponent, mantissa_at, mantissa] = fields.parse(array)?;
    let bias = fields.parse(le::<u32>)?;
    let (norm, sign) = (head.flags >> 4 & 3, head.flags >> 8 & 0xff);
    let is_usual = offset == 0
        && u32::from(precision) == head.size.saturating_mul(8)
        && sign + 1 == u32::from(precision)
        && norm == 2
        && head.flags & 0x40 == 0
        && mantissa_at == 0
        && exponent_at == mantissa;
    let dtype = match (head.size, exponent, mantissa, bias) {
        (8, 11, 52, 1023) => DType::F64,
        (4, 8, 23, 127) => DType::F32,
        (2, 5, 10, 15) => DType::F16,
        (2, 8, 7, 127) => DType::Bf16,
        _ => return Ok(Datatype::Other("floats of an unusual format")),
    };
    match is_usual {
        true => Ok(Datatype::Number { dtype, endian: endian(head) }),
        false => Ok(Datatype::Other("floats of an unusual format")),
    }
}

/// Integers with names. `h5py` stores a boolean as an enumeration of `FALSE` = 0 and `TRUE` = 1 over bytes.
fn enumeration(head: &Head, fields: &mut Fields<'_>) -> Result<Datatype> {
    let Some((dtype, endian, size)) = Described::part(fields)? else {
        return Ok(Datatype::Other("an enumeration of no integers"));
    };
    if size != head.size || dtype.is_float() {
        return Ok(Datatype::Other("an enumeration of no integers"));
    }
    let plain = Datatype::Enumeration { dtype, endian };
    if size != 1 || head.flags & 0xffff != 2 {
        return Ok(plain);
    }
    for name in [&b"FALSE"[..], b"TRUE"] {
        let len = name.len() as u64 + 1;
        let padded = if head.version < 3 { len.next_multiple_of(8) } else { len };
        let stored = fields.bytes(padded.min(fields.remaining()))?;
        if stored.strip_prefix(name).and_then(<[u8]>::first) != Some(&0) {
            return Ok(plain);
        }
    }
    let is_boolean = fields.remaining() >= 2 && fields.parse(array)? == [0, 1];
    let boolean = Datatype::Number { dtype: DType::Bool, endian: Endian::Little };
    Ok(if is_boolean { boolean } else { plain })
}

/// Compound elements: `h5py` stores a complex number as two floats, `r` and `i`.
fn compound(head: &Head, fields: &mut Fields<'_>) -> Result<Datatype> {
    const OTHER: Datatype = Datatype::Other("compound elements");
    if head.flags & 0xffff != 2 {
        return Ok(OTHER);
    }
    let mut parts = [None; 2];
    for (number, name) in [b'r', b'i'].into_iter().enumerate() {
        let name_len = if head.version < 3 { 8 } else { 2 };
        let stored = fields.bytes(name_len.min(fields.remaining()))?;
        if !matches!(stored[..], [first, 0, ..] if first == name) {
            return Ok(OTHER);
        }
        // Version 3 stores as few bytes of an offset as the size of an element needs: one, for elements of up to 32 bytes.
        let offset =
            if head.version < 3 { fields.parse(le::<u32>)? } else { u32::from(fields.parse(le::<u8>)?) };
        if head.version == 1 {
            let [rank, ..] = fields.parse(array::<28>)?;
            if rank != 0 {
                return Ok(OTHER);
            }
        }
        let Some(part) = Described::part(fields)? else { return Ok(OTHER) };
        let before = if number == 0 { 0 } else { part.2 };
        if offset != before {
            return Ok(OTHER);
        }
        if let Some(place) = parts.get_mut(number) {
            *place = Some(part);
        }
    }
    Ok(if parts[0] == parts[1] { complex(head.size, &parts[0]) } else { OTHER })
}

/// Complex numbers of two floats each.
fn complex(size: u32, part: &Option<(DType, Endian, u32)>) -> Datatype {
    match part {
        Some((DType::F32, endian, 4)) if size == 8 => Datatype::Number { dtype: DType::C64, endian: *endian },
        Some((DType::F64, endian, 8)) if size == 16 => {
            Datatype::Number { dtype: DType::C128, endian: *endian }
        }
        _ => Datatype::Other("complex numbers of an unusual format"),
    }
}
