//! The fields of an entry, read without building protobuf messages where possible.
//!
//! An index can have many thousand entries, and nearly all have the form in which TensorFlow writes an entry without
//! slices. [`Fields::scan`] reads that form alone; prost parses the rest.

use crate::proto::BundleEntryProto;
use ckpt_containers::protobuf::take_delimited;
use prost::encoding::decode_varint;
use smallvec::SmallVec;

/// The fields of a `BundleEntryProto` except its slices, as stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// TensorFlow's number for the dtype.
    pub(super) dtype: i32,
    /// Length of each axis; `None` for a shape of unknown rank.
    pub(super) dims: Option<SmallVec<[i64; 4]>>,
    /// Number of the data file.
    pub(super) shard: i32,
    /// Offset of the first byte in the data file.
    pub(super) offset: i64,
    /// Length in bytes.
    pub(super) size: i64,
    /// Masked CRC-32C, as stored.
    pub(super) crc: u32,
}

impl Fields {
    /// Reads an entry without slices in the form in which TensorFlow writes it: each field at most once, in ascending
    /// order, and axes without names. Returns `None` for any other entry, valid or not.
    pub(super) fn scan(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::of_message(&BundleEntryProto::default());
        let mut last = 0;
        while let Some((tag, rest)) = bytes.split_first() {
            if *tag <= last {
                return None;
            }
            last = *tag;
            bytes = rest;
            match *tag {
                0x12 => fields.dims = Some(lengths(take_delimited(&mut bytes)?)?),
                0x35 => {
                    let (crc, rest) = bytes.split_first_chunk()?;
                    fields.crc = u32::from_le_bytes(*crc);
                    bytes = rest;
                }
                _ => {
                    let number = i64::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                    match tag {
                        0x08 => fields.dtype = i32::try_from(number).ok()?,
                        0x18 => fields.shard = i32::try_from(number).ok()?,
                        0x20 => fields.offset = number,
                        0x28 => fields.size = number,
                        _ => return None,
                    }
                }
            }
        }
        Some(fields)
    }

    /// Takes the fields from a parsed message.
    pub(super) fn of_message(proto: &BundleEntryProto) -> Self {
        let axes = proto.shape.as_ref();
        let lengths = axes.map(|shape| shape.dim.iter().map(|dim| dim.size).collect());
        Fields {
            dtype: proto.dtype,
            dims: (!axes.is_some_and(|shape| shape.unknown_rank)).then(|| lengths.unwrap_or_default()),
            shard: proto.shard_id,
            offset: proto.offset,
            size: proto.size,
            crc: proto.crc32c,
        }
    }
}

/// Reads the lengths of the axes of a `TensorShapeProto` that has nothing else.
fn lengths(mut bytes: &[u8]) -> Option<SmallVec<[i64; 4]>> {
    let mut lengths = SmallVec::new();
    while let Some((0x12, rest)) = bytes.split_first() {
        bytes = rest;
        lengths.push(match take_delimited(&mut bytes)?.split_first() {
            None => 0,
            Some((0x08, mut size)) => {
                let len = decode_varint(&mut size).ok()?;
                if !size.is_empty() {
                    return None;
                }
                i64::try_from(len).ok()?
            }
            _ => return None,
        });
    }
    bytes.is_empty().then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{TensorShapeProto, TensorSliceProto, tensor_shape_proto::Dim};
    use proptest::prelude::*;
    use prost::Message;

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![Just(0), 1..300i64, any::<i64>()]
    }

    fn entry() -> impl Strategy<Value = BundleEntryProto> {
        let dims = prop::collection::vec((number(), prop::sample::select(vec!["", "", "", "x"])), 0..6);
        let slices = prop::sample::select(vec![0, 0, 0, 1]);
        let places = (any::<i32>(), number(), number(), any::<u32>());
        (0..40i32, prop::option::of(dims), places, slices).prop_map(|(dtype, dims, places, slices)| {
            let (shard_id, offset, size, crc32c) = places;
            let dim = |(size, name): (i64, &str)| Dim { size, name: name.to_owned() };
            let shape = dims.map(|dims| TensorShapeProto {
                dim: dims.into_iter().map(dim).collect(),
                unknown_rank: false,
            });
            let slices = vec![TensorSliceProto::default(); slices];
            BundleEntryProto { dtype, shape, shard_id, offset, size, crc32c, slices }
        })
    }

    /// Whether `scan` reads nothing, or what prost reads.
    fn agrees_with_prost(bytes: &[u8]) -> bool {
        let read = Fields::scan(bytes);
        read.is_none_or(|read| {
            BundleEntryProto::decode(bytes)
                .is_ok_and(|proto| Fields::of_message(&proto) == read && proto.slices.is_empty())
        })
    }

    proptest! {
        #[test]
        fn an_entry_as_tensorflow_writes_it_is_read_as_prost_reads_it(proto in entry()) {
            let bytes = proto.encode_to_vec();
            prop_assert!(agrees_with_prost(&bytes));
            let dims = proto.shape.iter().flat_map(|shape| &shape.dim);
            let usual = proto.slices.is_empty()
                && dims.clone().all(|dim| dim.name.is_empty() && dim.size >= 0)
                && proto.shard_id >= 0 && proto.offset >= 0 && proto.size >= 0;
            prop_assert_eq!(Fields::scan(&bytes).is_some(), usual);
        }

        #[test]
        fn a_damaged_entry_is_read_as_prost_reads_it_or_not_at_all(
            proto in entry(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
        ) {
            let mut bytes = proto.encode_to_vec();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                if cut { bytes.truncate(at) } else { bytes[at] = byte }
            }
            prop_assert!(agrees_with_prost(&bytes));
        }

        #[test]
        fn any_bytes_are_read_as_prost_reads_them_or_not_at_all(
            bytes in prop::collection::vec(prop_oneof![
                prop::sample::select(vec![0x08u8, 0x12, 0x18, 0x20, 0x28, 0x35, 0x00, 0x01, 0x02, 0x80]), any::<u8>(),
            ], 0..24),
        ) {
            prop_assert!(agrees_with_prost(&bytes));
        }
    }
}
