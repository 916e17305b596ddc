//! Constants and structures of the format.

use crate::fields::Fields;
use crate::proto;
use ckpt_api::{Checksum, ChecksumAlgorithm, DType, Endian, Error, Result, Shape};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, fixed32, int64, uint64};
use proto::tensor_slice_proto::extent::HasLength;

/// The last eight bytes of a table.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Bytes of a table's footer.
pub(crate) const FOOTER_LEN: u64 = 48;
/// Bytes after a block's contents: its type and its checksum.
pub(crate) const TRAILER_LEN: u64 = 5;
/// Ending of the index file's name.
pub(crate) const INDEX: &str = ".index";
/// The file that names the latest checkpoint of a directory.
pub(crate) const STATE_FILE: &str = "checkpoint";
/// The key of the object graph.
pub(crate) const OBJECT_GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// What every key of an object's variable ends with.
pub(crate) const VARIABLE_VALUE: &str = "/.ATTRIBUTES/VARIABLE_VALUE";
/// The version that this reader is.
const CONSUMER: i32 = 1;
/// The version that bundles have had since 2016.
const PRODUCER: i32 = 1;
/// TensorFlow's own limit.
pub(crate) const MAX_RANK: usize = 254;
/// No entry that TensorFlow writes comes near; a decoded one takes a multiple of this in memory.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// The name of one data file.
pub(crate) fn shard_name(prefix: &str, shard: u32, shards: u32) -> String {
    format!("{prefix}.data-{shard:05}-of-{shards:05}")
}

/// The prefix that the name of a data file begins with.
pub(crate) fn prefix_of_shard(name: &str) -> Option<&str> {
    let (prefix, numbers) = name.rsplit_once(".data-")?;
    let (shard, shards) = numbers.split_once("-of-")?;
    let number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (!prefix.is_empty() && number(shard) && number(shards)).then_some(prefix)
}

/// The plain CRC-32C of what has the plain CRC-32C `crc`, 0 for nothing, followed by these bytes.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    ChecksumAlgorithm::Crc32c.append(crc, bytes)
}

/// CRC-32C as the format stores it.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The plain CRC-32C behind a stored one.
pub(crate) fn unmask(stored: u32) -> u32 {
    stored.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// A checksum that an extent must have, given what was hashed before it.
pub(crate) fn checksum(seed: u32, stored: u32) -> Checksum {
    Checksum { algorithm: ChecksumAlgorithm::MaskedCrc32c, seed, value: Some(stored) }
}

/// What the entry under the empty key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Number of data files.
    pub(crate) shards: u32,
    /// Byte order of the data files.
    pub(crate) endian: Endian,
    /// Version of what wrote the bundle.
    pub(crate) producer: i32,
}

impl Header {
    /// Parses the header, by TensorFlow's rules for versions.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.first() == Some(&V1_META_TAG) {
            return Err(v1_checkpoint());
        }
        let proto = proto::BundleHeaderProto::decode(bytes).map_err(|error| {
            Error::corrupt("the bundle's header cannot be parsed").found(error.to_string())
        })?;
        let shards = u32::try_from(proto.num_shards).map_err(|_| {
            Error::corrupt("the number of data files is negative")
                .field("num_shards")
                .found(proto.num_shards.to_string())
        })?;
        let endian = match proto.endianness {
            0 => Endian::Little,
            1 => Endian::Big,
            other => {
                return Err(Error::corrupt("the byte order is unknown")
                    .field("endianness")
                    .found(other.to_string())
                    .expected("0 (little) or 1 (big)"));
            }
        };
        let version = proto.version.unwrap_or_default();
        check_version(&version)?;
        Ok(Header { shards, endian, producer: version.producer })
    }

    /// The header as TensorFlow writes it today for as many shards in this byte order.
    pub(crate) fn encode(shards: u32, endian: Endian) -> Vec<u8> {
        let version = proto::VersionDef { producer: PRODUCER, ..proto::VersionDef::default() };
        let proto = proto::BundleHeaderProto {
            num_shards: i32::try_from(shards).unwrap_or(i32::MAX),
            endianness: i32::from(endian == Endian::Big),
            version: Some(version),
        };
        proto.encode_to_vec()
    }
}

fn check_version(version: &proto::VersionDef) -> Result<()> {
    let refused = |message: &str, field: &str, found: String| {
        Err(Error::unsupported(message)
            .field(field)
            .found(found)
            .expected(format!("for readers of version {CONSUMER}")))
    };
    if version.producer < 0 {
        return refused(
            "the producer's version is below any known",
            "version.producer",
            version.producer.to_string(),
        );
    }
    if version.min_consumer > CONSUMER {
        let found = version.min_consumer.to_string();
        return refused("the checkpoint needs a newer reader", "version.min_consumer", found);
    }
    if version.bad_consumers.contains(&CONSUMER) {
        let found = format!("{:?}", version.bad_consumers);
        return refused("the checkpoint refuses readers of this version", "version.bad_consumers", found);
    }
    Ok(())
}

/// Field 1 of `SavedTensorSlices`, length-delimited; a bundle's header begins with a number.
const V1_META_TAG: u8 = 0x0a;

fn v1_checkpoint() -> Error {
    Error::unsupported(
        "this is a V1 checkpoint: one table of SavedTensorSlices, as TensorFlow wrote before 2016",
    )
    .expected("a V2 checkpoint (PREFIX.index and PREFIX.data-…)")
    .help("restore it once with tf.compat.v1.train.Saver and save it again with write_version=V2")
}

/// Where one tensor, or one slice of one, is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Type of the elements.
    pub(crate) dtype: DType,
    /// Length of each axis.
    pub(crate) shape: Shape,
    /// Number of the data file.
    pub(crate) shard: u32,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Checksum as stored.
    pub(crate) crc: u32,
    /// The boxes that a partitioned tensor is stored in; empty for any other.
    pub(crate) slices: Box<[Vec<SliceExtent>]>,
    /// Where the index file has this entry.
    pub(crate) at: u64,
}

/// The length of a slice that is as long as its tensor, where it is left out.
pub(crate) const WHOLE_AXIS: i64 = -1;

/// One axis of a slice, as stored: the key of the slice's own entry is made of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceExtent {
    /// First index.
    pub(crate) start: i64,
    /// Number of indices; -1 for the whole axis.
    pub(crate) length: i64,
}

impl Entry {
    /// Parses an entry, at `at` in the index file, of a bundle with `shards` data files.
    pub(crate) fn parse(bytes: &[u8], shards: u32, at: u64) -> Result<Self> {
        if bytes.len() > MAX_ENTRY_BYTES {
            return Err(Error::limit("one entry of the index is too long")
                .found(format!("{} bytes", bytes.len()))
                .expected(format!("at most {MAX_ENTRY_BYTES}")));
        }
        let (fields, slices) = match Fields::of_usual(bytes) {
            Some(fields) => (fields, Box::default()),
            None => {
                let proto = proto::BundleEntryProto::decode(bytes)
                    .map_err(|error| Error::corrupt("the entry cannot be parsed").found(error.to_string()))?;
                (Fields::of(&proto), proto.slices.iter().map(slice_extents).collect::<Box<[_]>>())
            }
        };
        let shard = u32::try_from(fields.shard).ok().filter(|id| *id < shards || !slices.is_empty());
        let shard = shard.ok_or_else(|| {
            Error::corrupt("the tensor lies in a data file that the bundle does not have")
                .field("shard_id")
                .found(fields.shard.to_string())
                .expected(format!("less than {shards}"))
        })?;
        let (offset, size) = (unsigned("offset", fields.offset)?, unsigned("size", fields.size)?);
        let (dtype, crc) = (dtype(fields.dtype)?, fields.crc);
        let dims = fields
            .dims
            .ok_or_else(|| Error::corrupt("the shape is not known").field("shape.unknown_rank"))?;
        Ok(Entry { dtype, shape: shape(&dims)?, shard, offset, size, crc, slices, at })
    }

    /// Appends the entry as TensorFlow writes it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a dtype that the format lacks.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_place(out)?;
        encode_crc(self.crc, out);
        self.encode_slices(out);
        Ok(())
    }

    /// The fields before the checksum.
    pub(crate) fn encode_place(&self, out: &mut Vec<u8>) -> Result<()> {
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

    /// The fields after the checksum.
    pub(crate) fn encode_slices(&self, out: &mut Vec<u8>) {
        let (mut slice, mut extent) = (Vec::new(), Vec::new());
        for extents in &self.slices {
            slice.clear();
            for SliceExtent { start, length } in extents {
                extent.clear();
                encode_number(1, start.cast_unsigned(), &mut extent);
                if *length != WHOLE_AXIS {
                    // One of a choice of fields, which is written although it is zero.
                    int64::encode(2, length, &mut extent);
                }
                encode_message(1, &extent, &mut slice);
            }
            encode_message(7, &slice, out);
        }
    }

    /// Bytes that the list of slices takes in memory.
    pub(crate) fn slice_bytes(&self) -> u64 {
        let extents = self.slices.iter().map(|extents| size_of_val(&extents[..]));
        (extents.sum::<usize>() + size_of_val(&self.slices[..])) as u64
    }
}

fn slice_extents(slice: &proto::TensorSliceProto) -> Vec<SliceExtent> {
    let extents = slice.extent.iter().map(|extent| {
        let HasLength::Length(length) = extent.has_length.unwrap_or(HasLength::Length(WHOLE_AXIS));
        SliceExtent { start: extent.start, length }
    });
    extents.collect()
}

/// A field that is left out where it is zero.
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

/// An entry's checksum.
pub(crate) fn encode_crc(crc: u32, out: &mut Vec<u8>) {
    if crc != 0 {
        fixed32::encode(6, &crc, out);
    }
}

fn unsigned(field: &'static str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| {
        Error::corrupt("a number is negative").field(field).found(value.to_string()).expected("at least 0")
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

/// TensorFlow's numbers of the dtypes that can be stored.
const DTYPES: &[(i32, DType)] = &[
    (1, DType::F32),
    (2, DType::F64),
    (3, DType::I32),
    (4, DType::U8),
    (5, DType::I16),
    (6, DType::I8),
    (7, DType::String),
    (8, DType::C64),
    (9, DType::I64),
    (10, DType::Bool),
    (11, DType::Qi8),
    (12, DType::Qu8),
    (13, DType::Qi32),
    (14, DType::Bf16),
    (15, DType::Qi16),
    (16, DType::Qu16),
    (17, DType::U16),
    (18, DType::C128),
    (19, DType::F16),
    (21, DType::Variant),
    (22, DType::U32),
    (23, DType::U64),
    (24, DType::F8E5m2),
    (25, DType::F8E4m3),
    (26, DType::F8E4m3fnuz),
    (27, DType::F8E4m3b11fnuz),
    (28, DType::F8E5m2fnuz),
    (29, DType::I4),
    (30, DType::U4),
    (31, DType::I2),
    (32, DType::U2),
    (33, DType::F4E2m1),
];

/// The dtypes that can be stored.
pub(crate) const STORED_DTYPES: &[DType] = &{
    let mut dtypes = [DType::F32; DTYPES.len()];
    let mut index = 0;
    while index < dtypes.len() {
        dtypes[index] = DTYPES[index].1;
        index += 1;
    }
    dtypes
};

/// The dtype to store one as: itself, or one that holds every value of it.
pub(crate) fn holder(dtype: DType) -> DType {
    match dtype {
        // Powers of two from 2^-127 to 2^127.
        DType::F8E8m0 => DType::Bf16,
        // Values up to 28 in steps of at least 1/16 with at most 3 bits of fraction.
        DType::F6E2m3 | DType::F6E3m2 => DType::F8E4m3,
        same => same,
    }
}

fn number(dtype: DType) -> Result<u32> {
    let known = DTYPES.iter().find(|(_, known)| *known == dtype);
    known
        .map(|(number, _)| number.unsigned_abs())
        .ok_or_else(|| Error::unsupported("TensorFlow has no such dtype").found(dtype.name()))
}

/// Numbers of reference types: the type's own plus this.
const REFERENCE: i32 = 100;

fn dtype(number: i32) -> Result<DType> {
    let known = |number| DTYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype);
    let error = match number {
        0 => Error::corrupt("the tensor has no dtype"),
        20 => Error::unsupported("a resource handle has no value that could be read"),
        _ => match known(number) {
            Some(dtype) => return Ok(dtype),
            None if number > REFERENCE && known(number - REFERENCE).is_some() => {
                Error::unsupported("a reference dtype cannot be stored")
            }
            None => Error::unsupported("the dtype is unknown"),
        },
    };
    Err(error.field("dtype").found(number.to_string()).expected("1 to 33 but for 20"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn masking_has_the_published_values_and_an_inverse() {
        assert_eq!(mask(0xe306_9283), 0xc78a_b0e5);
        assert_eq!(mask(0), 0xa282_ead8);
        assert_eq!(unmask(mask(0x1234_5678)), 0x1234_5678);
    }

    #[test]
    fn shards_are_named_with_five_digits_or_more() {
        assert_eq!(shard_name("m.ckpt", 3, 120), "m.ckpt.data-00003-of-00120");
        assert_eq!(prefix_of_shard("m.ckpt.data-00003-of-00120"), Some("m.ckpt"));
        assert_eq!(prefix_of_shard("m.ckpt.data-3-of-1"), None);
        assert_eq!(prefix_of_shard(".data-00000-of-00001"), None);
    }

    #[test]
    fn versions_follow_the_rules_of_tensorflow() {
        let version = |producer, min_consumer, bad: &[i32]| {
            let bad_consumers = bad.to_vec();
            let version = Some(proto::VersionDef { producer, min_consumer, bad_consumers });
            let header = proto::BundleHeaderProto { num_shards: 1, endianness: 0, version };
            Header::parse(&header.encode_to_vec())
        };
        assert_eq!(version(1, 0, &[]).unwrap().producer, 1);
        assert_eq!(version(99, 1, &[2]).unwrap().producer, 99);
        for (producer, min_consumer, bad) in [(-1, 0, &[][..]), (2, 2, &[]), (1, 0, &[7, 1])] {
            let error = version(producer, min_consumer, bad).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        }
    }

    #[test]
    fn a_header_without_a_version_is_producer_zero() {
        let header = Header { shards: 1, endian: Endian::Little, producer: 0 };
        assert_eq!(Header::parse(&[0x08, 0x01]).unwrap(), header);
    }

    #[test]
    fn a_v1_checkpoint_is_recognized_by_its_first_entry() {
        let error = Header::parse(&[0x0a, 0x02, 0x08, 0x00]).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(
            error.to_string().contains("V1 checkpoint") && error.to_string().contains("Saver"),
            "{error}"
        );
    }

    #[test]
    fn a_dtype_that_holds_no_value_is_refused() {
        for (number, kind) in [(0, Kind::Corrupt), (20, Kind::Unsupported), (101, Kind::Unsupported)] {
            assert_eq!(dtype(number).unwrap_err().kind(), kind, "{number}");
        }
        assert_eq!(dtype(i32::MIN).unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(dtype(33).unwrap(), DType::F4E2m1);
    }

    #[test]
    fn every_dtype_has_a_holder_that_can_be_stored() {
        assert_eq!(STORED_DTYPES.len(), 32);
        for dtype in DType::ALL {
            assert!(STORED_DTYPES.contains(&holder(*dtype)), "{dtype}");
            assert_eq!(holder(*dtype) == *dtype, STORED_DTYPES.contains(dtype), "{dtype}");
        }
    }

    #[test]
    fn a_header_is_written_as_tensorflow_writes_it() {
        assert_eq!(Header::encode(1, Endian::Little), [0x08, 0x01, 0x1a, 0x02, 0x08, 0x01]);
        assert_eq!(Header::encode(0, Endian::Big), [0x10, 0x01, 0x1a, 0x02, 0x08, 0x01]);
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
        // Another writer of the same message has the same bytes.
        assert_eq!(proto::BundleEntryProto::decode(&bytes[..]).unwrap().encode_to_vec(), bytes);
    }
}
