//! The description of an engine's network file: a header, then aligned members.

use super::bytes::HexBytes;
use super::entry::{Item, is_default};
use serde::{Deserialize, Serialize};

/// An engine file: the architecture's `engine`, or a built-in profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    /// The first bytes of the file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) header: HexBytes,
    /// Every member starts at a multiple of this, and the file ends at one; zeros fill the gaps.
    #[serde(default)]
    pub(crate) align: Align,
    /// What the file consists of, in file order.
    pub(crate) members: Vec<Item>,
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
