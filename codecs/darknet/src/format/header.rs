//! The header of a file of weights: the version of Darknet, and how many images it was trained with.

use super::{ID, KEY_SEEN, KEY_VERSION};
use ckpt_api::fields::{field, le};
use ckpt_api::{Checkpoint, Fields, Metadata, MetadataValue, Result, Writer};
use nom::Parser;

/// Bytes of the header with a short counter.
const SHORTEST_HEADER: u64 = 16;
/// Versions from which on weights of connected layers are transposed, a mark and no version.
const TRANSPOSED: i64 = 1000;

/// The numbers before the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Major and minor version, and revision.
    version: [i32; 3],
    /// Images that were seen in training.
    seen: u64,
}

impl Header {
    /// What Darknet writes: version 0.2.0 and no images.
    const NEW: Header = Header { version: [0, 2, 0], seen: 0 };

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let part = |fields: &mut Fields<'_>, name: &'static str| {
            fields.parse(|input| field(name, le::<i32>).parse(input))
        };
        let version = [part(fields, "major")?, part(fields, "minor")?, part(fields, "revision")?];
        let mut header = Header { version, seen: 0 };
        header.seen = match header.has_long_counter() {
            true => fields.parse(|input| field("seen", le::<u64>).parse(input))?,
            false => fields.parse(|input| field("seen", le::<u32>).parse(input))?.into(),
        };
        Ok(header)
    }

    /// Whether the numbers can be those of a version: what other files begin with is mostly larger.
    pub(crate) fn is_plausible(&self) -> bool {
        self.version.iter().all(|number| (0..=10_000).contains(number))
    }

    fn has_long_counter(&self) -> bool {
        let [major, minor, _] = self.version.map(i64::from);
        major * 10 + minor >= 2 && major < TRANSPOSED && minor < TRANSPOSED
    }

    /// Whether weights of connected layers are stored as `[in, out]`.
    pub(crate) fn is_transposed(&self) -> bool {
        let [major, minor, _] = self.version.map(i64::from);
        major > TRANSPOSED || minor > TRANSPOSED
    }

    /// Bytes of the header.
    pub(crate) fn len(&self) -> u64 {
        if self.has_long_counter() { 20 } else { SHORTEST_HEADER }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        for number in self.version {
            writer.bytes(&number.to_le_bytes());
        }
        let seen = self.seen.to_le_bytes();
        let len = if self.has_long_counter() { 8 } else { 4 };
        writer.bytes(seen.get(..len).unwrap_or(&seen));
        writer.into_bytes()
    }

    /// Keeps the numbers in the format's metadata.
    pub(crate) fn keep(&self, metadata: &mut Metadata) {
        let version = self.version.map(|number| MetadataValue::from(i64::from(number)));
        metadata.insert(ID, KEY_VERSION, MetadataValue::List(version.into()));
        metadata.insert(ID, KEY_SEEN, MetadataValue::integer(self.seen));
    }

    /// The header that was read, or a new one.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Self {
        let kept = || {
            let MetadataValue::List(numbers) = checkpoint.metadata.value(ID, KEY_VERSION)? else {
                return None;
            };
            let numbers = numbers.iter().map(|number| i32::try_from(number.as_i64()?).ok());
            let version = numbers.collect::<Option<Vec<i32>>>()?.try_into().ok()?;
            let seen = checkpoint.metadata.value(ID, KEY_SEEN)?.as_u64()?;
            Some(Header { version, seen })
        };
        kept().unwrap_or(Header::NEW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides_the_width_of_the_counter() {
        let lens =
            [([0, 1, 0], 16), ([0, 2, 5], 20), ([1, 0, 0], 20), ([0, 2000, 0], 16), ([2000, 0, 0], 16)];
        for (version, len) in lens {
            let header = Header { version, seen: 7 };
            assert_eq!((header.len(), header.bytes().len() as u64), (len, len), "{version:?}");
            assert_eq!(header.is_transposed(), version.iter().any(|number| *number > 1000));
        }
    }
}
