//! The format's constants, file names, checksums and header.

mod dtype;
mod entry;
mod entry_fields;

pub(crate) use dtype::{STORED_DTYPES, dtype as dtype_of, holder, joins_slices};
pub(crate) use entry::{Entry, SliceExtent, WHOLE_AXIS, encode_crc, slice_extents};

use crate::proto;
use ckpt_api::{Checksum, ChecksumAlgorithm, Endian, Error, Result};
use prost::Message;

/// The last eight bytes of a table, little-endian.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Length of a table's footer, in bytes.
pub(crate) const FOOTER_LEN: u64 = 48;
/// Length of a block's trailer, in bytes: the compression type and the checksum.
pub(crate) const TRAILER_LEN: u64 = 5;
/// Extension of the index file.
pub(crate) const INDEX: &str = ".index";
/// Name of the state file, which names the latest checkpoint of a directory.
pub(crate) const STATE_FILE: &str = "checkpoint";
/// Key of the object graph.
pub(crate) const OBJECT_GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// Suffix of the keys of variables in object-based checkpoints.
pub(crate) use ckpt_tf_graph::catalog::VARIABLE_VALUE;
/// The bundle version that this reader implements.
const CONSUMER: i32 = 1;
/// The bundle version that TensorFlow has written since 2016.
const PRODUCER: i32 = 1;
/// TensorFlow's limit on the number of axes.
pub(crate) const MAX_RANK: usize = 254;

/// Returns the name of one data file.
pub(crate) fn shard_name(prefix: &str, shard: u32, shards: u32) -> String {
    format!("{prefix}.data-{shard:05}-of-{shards:05}")
}

/// Returns the prefix of a data file's name, which may be empty, or `None` if the name is not one of a data file.
pub(crate) fn prefix_of_shard(name: &str) -> Option<&str> {
    let (prefix, numbers) = name.rsplit_once(".data-")?;
    let (shard, shards) = numbers.split_once("-of-")?;
    let number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (number(shard) && number(shards)).then_some(prefix)
}

/// Continues an unmasked CRC-32C, which starts at 0, with `bytes`.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    ChecksumAlgorithm::Crc32c.append(crc, bytes)
}

/// Masks a CRC-32C, as the format stores it.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the CRC-32C that [`mask`] turns into `stored`.
pub(crate) fn unmask(stored: u32) -> u32 {
    stored.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// The checksum of an extent, where `seed` is the unmasked CRC-32C of what is hashed before the extent.
pub(crate) fn checksum(seed: u32, stored: u32) -> Checksum {
    Checksum { algorithm: ChecksumAlgorithm::MaskedCrc32c, seed, value: Some(stored) }
}

/// The header: the entry under the empty key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Number of data files.
    pub(crate) shards: u32,
    /// Byte order of the data files.
    pub(crate) endian: Endian,
    /// Version of the bundle's writer.
    pub(crate) producer: i32,
}

impl Header {
    /// Parses the header and checks its version by TensorFlow's rules.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.first() == Some(&V1_META_TAG) {
            return Err(v1_checkpoint());
        }
        let proto = proto::BundleHeaderProto::decode(bytes).map_err(|error| {
            Error::corrupt("the header is not a BundleHeaderProto").found(error.to_string())
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
                return Err(Error::corrupt("the byte order of the data files is unknown")
                    .field("endianness")
                    .found(other.to_string())
                    .expected("0 (little) or 1 (big)"));
            }
        };
        let version = proto.version.unwrap_or_default();
        check_version(&version)?;
        Ok(Header { shards, endian, producer: version.producer })
    }

    /// Encodes the header as current TensorFlow writes it.
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
            .expected(format!("a checkpoint for readers of version {CONSUMER}")))
    };
    if version.producer < 0 {
        return refused(
            "the version of the checkpoint's writer is negative",
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
        return refused("the checkpoint excludes readers of this version", "version.bad_consumers", found);
    }
    Ok(())
}

/// Key of the length-delimited field 1 of `SavedTensorSlices`. A bundle's header begins with a number instead.
const V1_META_TAG: u8 = 0x0a;

fn v1_checkpoint() -> Error {
    Error::unsupported(
        "this is a V1 checkpoint: one table of SavedTensorSlices, as TensorFlow wrote before 2016",
    )
    .expected("a V2 checkpoint (PREFIX.index and PREFIX.data-…)")
    .help("name the file itself, which is read as the format tf1")
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
        assert_eq!(prefix_of_shard(".data-00000-of-00001"), Some(""));
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
        assert!(error.to_string().contains("V1 checkpoint") && error.to_string().contains("tf1"), "{error}");
    }

    #[test]
    fn a_header_is_written_as_tensorflow_writes_it() {
        assert_eq!(Header::encode(1, Endian::Little), [0x08, 0x01, 0x1a, 0x02, 0x08, 0x01]);
        assert_eq!(Header::encode(0, Endian::Big), [0x10, 0x01, 0x1a, 0x02, 0x08, 0x01]);
    }
}
