//! Entries: where each tensor is stored.

use super::dtype::{dtype, number};
use super::entry_fields::Fields;
use super::{MAX_RANK, mask};
use crate::errors::{COPY_AGAIN, checksum_mismatch};
use crate::proto;
use ckpt_api::{DType, Error, Result, Shape};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, fixed32, int64, uint64};
use proto::tensor_slice_proto::extent::HasLength;

/// Limit on the length of one entry, in bytes, far above those that TensorFlow writes. A decoded entry takes a multiple
/// of its length in memory.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// An entry of the index: where one tensor, or one slice of a tensor, is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Element type.
    pub(crate) dtype: DType,
    /// Length of each axis.
    pub(crate) shape: Shape,
    /// Number of the data file.
    pub(crate) shard: u32,
    /// Offset of the first byte in the data file.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Masked CRC-32C, as stored.
    pub(crate) crc: u32,
    /// Slices of a partitioned tensor, one [`SliceExtent`] per axis; empty for any other tensor.
    pub(crate) slices: Box<[Vec<SliceExtent>]>,
    /// Offset of this entry in the index file.
    pub(crate) at: u64,
}

/// The stored length of a slice that covers its whole axis.
pub(crate) const WHOLE_AXIS: i64 = -1;

/// One axis of a slice, as stored. The key of the slice's own entry encodes these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceExtent {
    /// First index.
    pub(crate) start: i64,
    /// Number of indices, or [`WHOLE_AXIS`].
    pub(crate) length: i64,
}

impl Entry {
    /// Parses the entry at offset `at` of the index file of a bundle with `shards` data files.
    pub(crate) fn parse(bytes: &[u8], shards: u32, at: u64) -> Result<Self> {
        if bytes.len() > MAX_ENTRY_BYTES {
            return Err(Error::limit("an entry of the index is too long")
                .found(ckpt_api::count(bytes.len(), "byte"))
                .expected(format!("at most {MAX_ENTRY_BYTES}")));
        }
        let (fields, slices) = match Fields::scan(bytes) {
            Some(fields) => (fields, Box::default()),
            None => {
                let proto = proto::BundleEntryProto::decode(bytes).map_err(|error| {
                    Error::corrupt("the entry is not a BundleEntryProto").found(error.to_string())
                })?;
                (Fields::of_message(&proto), proto.slices.iter().map(slice_extents).collect::<Box<[_]>>())
            }
        };
        let shard = u32::try_from(fields.shard).ok().filter(|id| *id < shards || !slices.is_empty());
        let shard = shard.ok_or_else(|| {
            Error::corrupt("the entry names a data file that the checkpoint does not have")
                .field("shard_id")
                .found(fields.shard.to_string())
                .expected(format!("less than {shards}"))
        })?;
        let (offset, size) = (unsigned("offset", fields.offset)?, unsigned("size", fields.size)?);
        let (dtype, crc) = (dtype(fields.dtype)?, fields.crc);
        let dims = fields.dims.ok_or_else(|| {
            Error::corrupt("the entry does not state the tensor's shape").field("shape.unknown_rank")
        })?;
        Ok(Entry { dtype, shape: shape(&dims)?, shard, offset, size, crc, slices, at })
    }

    /// Appends the entry to `out`, as TensorFlow writes it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a dtype that the format lacks.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_location(out)?;
        encode_crc(self.crc, out);
        self.encode_slices(out);
        Ok(())
    }

    /// Appends the fields before the checksum.
    pub(crate) fn encode_location(&self, out: &mut Vec<u8>) -> Result<()> {
        let dim = |size: &u64| if *size == 0 { 0 } else { 1 + encoded_len_varint(*size) as u64 };
        encode_number(1, u64::from(number(self.dtype)?), out);
        encode_key(2, WireType::LengthDelimited, out);
        encode_varint(self.shape.iter().map(|size| 2 + dim(size)).sum(), out);
        for size in self.shape.iter() {
            encode_key(2, WireType::LengthDelimited, out);
            encode_varint(dim(size), out);
            encode_number(1, *size, out);
        }
        encode_number(3, u64::from(self.shard), out);
        encode_number(4, self.offset, out);
        encode_number(5, self.size, out);
        Ok(())
    }

    /// Appends the fields after the checksum.
    pub(crate) fn encode_slices(&self, out: &mut Vec<u8>) {
        let (mut slice, mut extent) = (Vec::new(), Vec::new());
        for extents in &self.slices {
            slice.clear();
            for SliceExtent { start, length } in extents {
                extent.clear();
                encode_number(1, start.cast_unsigned(), &mut extent);
                if *length != WHOLE_AXIS {
                    // A member of a oneof, which is written even if it is zero.
                    int64::encode(2, length, &mut extent);
                }
                encode_message(1, &extent, &mut slice);
            }
            encode_message(7, &slice, out);
        }
    }

    /// Checks the stored size of a tensor whose elements have a fixed size, and the checksum of an empty one, which
    /// nobody reads.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`].
    pub(crate) fn check_size(&self) -> Result<()> {
        let Entry { dtype, shape, size, crc, .. } = self;
        let expected = dtype.bytes().map(|bytes| shape.elements() * bytes);
        if let Some(expected) = expected.filter(|expected| expected != size) {
            return Err(Error::corrupt("the stored size does not fit the shape")
                .field("size")
                .found(ckpt_api::count(*size, "byte"))
                .expected(format!("{} for {shape} of {dtype}", ckpt_api::count(expected, "byte")))
                .help(COPY_AGAIN));
        }
        if *size == 0 && *crc != mask(0) {
            let error = checksum_mismatch("the checksum of an empty tensor is wrong", mask(0), *crc);
            return Err(error.field("crc32c"));
        }
        Ok(())
    }

    /// Returns the memory that the list of slices takes, in bytes.
    pub(crate) fn slice_bytes(&self) -> u64 {
        let extents = self.slices.iter().map(|extents| size_of_val(&extents[..]));
        (extents.sum::<usize>() + size_of_val(&self.slices[..])) as u64
    }
}

/// The axes of a slice, as the message states them.
pub(crate) fn slice_extents(slice: &proto::TensorSliceProto) -> Vec<SliceExtent> {
    let extents = slice.extent.iter().map(|extent| {
        let HasLength::Length(length) = extent.has_length.unwrap_or(HasLength::Length(WHOLE_AXIS));
        SliceExtent { start: extent.start, length }
    });
    extents.collect()
}

/// Appends a number, unless it is zero.
fn encode_number(field: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        uint64::encode(field, &number, out);
    }
}

fn encode_message(field: u32, message: &[u8], out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend(message);
}

/// Appends an entry's checksum.
pub(crate) fn encode_crc(crc: u32, out: &mut Vec<u8>) {
    if crc != 0 {
        fixed32::encode(6, &crc, out);
    }
}

fn unsigned(field: &'static str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| {
        Error::corrupt("a number of the entry is negative")
            .field(field)
            .found(value.to_string())
            .expected("at least 0")
    })
}

fn shape(dims: &[i64]) -> Result<Shape> {
    if dims.len() > MAX_RANK {
        return Err(Error::corrupt("the shape has too many axes")
            .found(dims.len().to_string())
            .expected(format!("at most {MAX_RANK}")));
    }
    dims.iter().try_for_each(|dim| unsigned("shape.dim.size", *dim).map(drop))?;
    Shape::new(dims.iter().map(|dim| dim.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    /// The stored entry of a tensor of four-byte elements.
    fn stored(dtype: i32, dims: &[i64], size: i64) -> Vec<u8> {
        let dim = |size: &i64| proto::tensor_shape_proto::Dim { size: *size, ..Default::default() };
        let shape = proto::TensorShapeProto { dim: dims.iter().map(dim).collect(), ..Default::default() };
        proto::BundleEntryProto { dtype, shape: Some(shape), size, ..Default::default() }.encode_to_vec()
    }

    /// TensorFlow ends on these, so no file of the corpus has them.
    #[test]
    fn entries_that_describe_no_tensor_are_refused() {
        let corrupt = [
            (vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], "not a BundleEntryProto"),
            (stored(1, &[-2], 8), "negative"),
            (stored(1, &[2, -1], 8), "negative"),
            (stored(1, &[1 << 40; 3], 8), "too many elements"),
            (stored(1, &[i64::MAX, 3], 8), "too many elements"),
            (stored(1, &[1; MAX_RANK + 1], 4), "too many axes"),
        ];
        for (bytes, message) in corrupt {
            let error = Entry::parse(&bytes, 1, 0).unwrap_err();
            assert!(
                error.kind() == Kind::Corrupt && error.to_string().contains(message),
                "{message}: {error}"
            );
        }
        // A reference to a variable.
        assert_eq!(Entry::parse(&stored(101, &[2], 8), 1, 0).unwrap_err().kind(), Kind::Unsupported);
        assert!(Entry::parse(&stored(1, &[1; MAX_RANK], 4), 1, 0).is_ok());
    }

    #[test]
    fn an_entry_is_written_without_its_zeros_and_with_the_shape_of_a_scalar() {
        let slices =
            vec![vec![SliceExtent { start: 0, length: -1 }, SliceExtent { start: 0, length: 1 }]].into();
        let shape = Shape::scalar();
        let entry = Entry { dtype: DType::U8, shape, shard: 0, offset: 0, size: 0, crc: 0, slices, at: 0 };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes).unwrap();
        assert_eq!(bytes, [0x08, 4, 0x12, 0, 0x3a, 6, 0x0a, 0, 0x0a, 2, 0x10, 1]);
        assert_eq!(Entry::parse(&bytes, 1, 0).unwrap(), entry);
    }

    #[test]
    fn an_entry_is_the_message_that_it_is_read_as() {
        let slices =
            vec![vec![SliceExtent { start: 70, length: 0 }, SliceExtent { start: 0, length: 300 }]].into();
        let shape = Shape::new([0, 1, 300]).unwrap();
        let (dtype, offset, size) = (DType::F4E2m1, 1 << 40, u64::from(u32::MAX));
        let entry = Entry { dtype, shape, shard: 3, offset, size, crc: 0xa282_ead8, slices, at: 0 };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes).unwrap();
        assert_eq!(Entry::parse(&bytes, 4, 0).unwrap(), entry);
        // prost writes the same bytes.
        assert_eq!(proto::BundleEntryProto::decode(&bytes[..]).unwrap().encode_to_vec(), bytes);
    }
}
