//! The numbers of an entry: most are read where they stand, without the messages that a parser builds for them.

use crate::proto::BundleEntryProto;
use crate::wire::take_delimited;
use prost::encoding::decode_varint;
use smallvec::SmallVec;

/// What a `BundleEntryProto` says beside its slices, as stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// TensorFlow's number of the dtype.
    pub(crate) dtype: i32,
    /// Length of each axis; `None` for a shape of unknown rank.
    pub(crate) dims: Option<SmallVec<[i64; 4]>>,
    /// Number of the data file.
    pub(crate) shard: i32,
    /// First byte.
    pub(crate) offset: i64,
    /// Bytes.
    pub(crate) size: i64,
    /// Checksum as stored.
    pub(crate) crc: u32,
}

impl Fields {
    /// Those of an entry without slices in the form in which TensorFlow writes it: each field at most once, in ascending
    /// order, and of the axes nothing but their lengths. `None` for any other, whether it is valid or not.
    pub(crate) fn of_usual(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(&BundleEntryProto::default());
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

    /// Those of a parsed message.
    pub(crate) fn of(proto: &BundleEntryProto) -> Self {
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

/// The axes of a `TensorShapeProto`, if they are all that it has and have only a length.
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

    /// What is read without a parser, if anything, is what the parser reads.
    fn agrees(bytes: &[u8]) -> bool {
        let read = Fields::of_usual(bytes);
        read.is_none_or(|read| {
            BundleEntryProto::decode(bytes)
                .is_ok_and(|proto| Fields::of(&proto) == read && proto.slices.is_empty())
        })
    }

    proptest! {
        #[test]
        fn what_is_read_in_place_is_what_a_parser_reads(proto in entry()) {
            let bytes = proto.encode_to_vec();
            prop_assert!(agrees(&bytes));
            let dims = proto.shape.iter().flat_map(|shape| &shape.dim);
            let usual = proto.slices.is_empty()
                && dims.clone().all(|dim| dim.name.is_empty() && dim.size >= 0)
                && proto.shard_id >= 0 && proto.offset >= 0 && proto.size >= 0;
            prop_assert_eq!(Fields::of_usual(&bytes).is_some(), usual);
        }

        #[test]
        fn damage_is_read_in_place_only_as_a_parser_reads_it(
            proto in entry(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
        ) {
            let mut bytes = proto.encode_to_vec();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                if cut { bytes.truncate(at) } else { bytes[at] = byte }
            }
            prop_assert!(agrees(&bytes));
        }

        #[test]
        fn any_bytes_are_read_in_place_only_as_a_parser_reads_them(
            bytes in prop::collection::vec(prop_oneof![
                prop::sample::select(vec![0x08u8, 0x12, 0x18, 0x20, 0x28, 0x35, 0x00, 0x01, 0x02, 0x80]), any::<u8>(),
            ], 0..24),
        ) {
            prop_assert!(agrees(&bytes));
        }
    }
}
