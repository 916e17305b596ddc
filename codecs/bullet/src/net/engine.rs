//! The description of an engine's network file: a header, then aligned members.

use super::entry::{Entry, is_default};
use serde::{Deserialize, Serialize};

/// An engine file: the architecture's `engine`, or a built-in profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    /// The first bytes of the file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) header: Header,
    /// Every member starts at a multiple of this, and the file ends at one; zeros fill the gaps.
    #[serde(default)]
    pub(crate) align: Align,
    /// The entries of the file, in file order.
    pub(crate) members: Vec<Entry>,
}

/// Bytes, written as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Header(pub(crate) Vec<u8>);

impl Header {
    /// The longest header, in bytes.
    const MAX_LEN: usize = 4096;
}

impl TryFrom<String> for Header {
    type Error = String;

    fn try_from(digits: String) -> Result<Self, String> {
        let byte = |pair: &[u8; 2]| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
        };
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().take(Self::MAX_LEN + 1).map(byte).collect();
        bytes.filter(|bytes| rest.is_empty() && bytes.len() <= Self::MAX_LEN).map(Header).ok_or_else(|| {
            format!("expected hexadecimal digits, two for each of at most {} bytes", Self::MAX_LEN)
        })
    }
}

impl From<Header> for String {
    fn from(header: Header) -> String {
        header.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// An alignment in bytes: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct Align(u64);

impl Align {
    /// The largest alignment: a page.
    const MAX: u64 = 4096;

    /// Rounds an offset up to a multiple of the alignment; `None` if that exceeds 64 bits.
    pub(crate) fn up(self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(self.0)
    }
}

impl Default for Align {
    fn default() -> Self {
        Align(1)
    }
}

impl TryFrom<u64> for Align {
    type Error = String;

    fn try_from(bytes: u64) -> Result<Self, String> {
        match bytes.is_power_of_two() && bytes <= Self::MAX {
            true => Ok(Align(bytes)),
            false => Err(format!("expected a power of two up to {}, not {bytes}", Self::MAX)),
        }
    }
}

impl From<Align> for u64 {
    fn from(align: Align) -> u64 {
        align.0
    }
}
