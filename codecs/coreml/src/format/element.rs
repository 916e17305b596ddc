//! Types of elements in programs and blob files.

use ckpt_api::DType;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// Its name in programs.
    pub(crate) name: &'static str,
    /// What elements are read as; `None` for texts.
    pub(crate) dtype: Option<DType>,
    /// Bits of a stored element.
    pub(crate) bits: u32,
    /// Its number in blob files, if they can have it.
    pub(crate) blob: Option<u32>,
}

impl Element {
    /// Bytes of so many elements, which fill whole bytes together; `None` if they are too many.
    pub(crate) fn stored_len(self, elements: u64) -> Option<u64> {
        elements.checked_mul(self.bits.into()).map(|bits| bits.div_ceil(8))
    }

    /// Whether elements are smaller than a byte.
    pub(crate) fn is_packed(self) -> bool {
        self.bits < 8
    }

    /// Whether elements are signed integers.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self.dtype, Some(DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64))
    }

    pub(crate) fn is_float(self) -> bool {
        self.dtype.is_some_and(DType::is_float)
    }
}

const fn of(name: &'static str, dtype: DType, bits: u32, blob: u32) -> Element {
    Element { name, dtype: Some(dtype), bits, blob: if blob == 0 { None } else { Some(blob) } }
}

/// Every type with its number in programs. Integers of 1, 3 and 6 bits are read as bytes.
const ELEMENTS: [(u64, Element); 23] = [
    (1, of("BOOL", DType::Bool, 8, 0)),
    (2, Element { name: "STRING", dtype: None, bits: 8, blob: None }),
    (10, of("FLOAT16", DType::F16, 16, 1)),
    (11, of("FLOAT32", DType::F32, 32, 2)),
    (12, of("FLOAT64", DType::F64, 64, 0)),
    (13, of("BFLOAT16", DType::Bf16, 16, 5)),
    (21, of("INT8", DType::I8, 8, 4)),
    (22, of("INT16", DType::I16, 16, 6)),
    (23, of("INT32", DType::I32, 32, 14)),
    (24, of("INT64", DType::I64, 64, 0)),
    (25, of("INT4", DType::I4, 4, 8)),
    (31, of("UINT8", DType::U8, 8, 3)),
    (32, of("UINT16", DType::U16, 16, 7)),
    (33, of("UINT32", DType::U32, 32, 15)),
    (34, of("UINT64", DType::U64, 64, 0)),
    (35, of("UINT4", DType::U4, 4, 11)),
    (36, of("UINT2", DType::U2, 2, 10)),
    (37, of("UINT1", DType::U8, 1, 9)),
    (38, of("UINT6", DType::U8, 6, 13)),
    (39, of("UINT3", DType::U8, 3, 12)),
    (40, of("FLOAT8E4M3FN", DType::F8E4m3, 8, 16)),
    (41, of("FLOAT8E5M2", DType::F8E5m2, 8, 17)),
    (0, Element { name: "no type", dtype: None, bits: 8, blob: None }),
];

/// Dtypes that a new model can have: those of blobs that coremltools reads.
pub(crate) const NATIVE: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I4,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U4,
];

/// Returns the type that a new model stores a dtype as, and its number in programs; `None` if it has none.
pub(crate) fn blob_element(dtype: DType) -> Option<(u64, Element)> {
    let own = |(_, element): &&(u64, Element)| {
        element.dtype == Some(dtype) && NATIVE.contains(&dtype) && (dtype != DType::U8 || element.bits == 8)
    };
    ELEMENTS.iter().find(own).copied()
}

/// Returns the type with this number; `None` for one that the format does not have.
pub(crate) fn element(number: u64) -> Option<Element> {
    ELEMENTS.iter().find(|(own, _)| *own == number && number != 0).map(|(_, element)| *element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_streams_fill_whole_bytes() {
        let len = |number, count| element(number).and_then(|own| own.stored_len(count));
        assert_eq!([len(39, 5), len(25, 3), len(37, 8), len(10, 3)], [Some(2), Some(2), Some(1), Some(6)]);
        assert_eq!(len(11, u64::MAX / 8), None);
    }

    #[test]
    fn numbers_are_distinct() {
        for (at, (number, own)) in ELEMENTS.iter().enumerate() {
            let rest = &ELEMENTS[at + 1..];
            assert!(
                rest.iter()
                    .all(|(other, element)| other != number
                        && (own.blob.is_none() || element.blob != own.blob))
            );
        }
    }
}
