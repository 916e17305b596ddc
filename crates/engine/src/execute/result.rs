//! What carrying out an item came to: small, and enough for somebody else to finish the output.

use super::read::{PartialSum, TensorStream};
use crate::layout::Piece;
use crate::plan::{Item, Plan};
use ckpt_api::{Error, Result};
use serde::{Deserialize, Serialize};

/// The result of one item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemResult {
    /// Number of the item in the plan.
    pub(crate) item: usize,
    /// What its pieces came to.
    pub(crate) sums: Sums,
    /// Whether an earlier process had written it.
    #[serde(skip)]
    pub(crate) kept: bool,
}

/// What the pieces of an item contribute to checksums, and how far they round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Sums {
    /// For each piece, the remainder of its bytes in the extent of the target; 0 if its bytes are an extent of the
    /// source whose checksum is known.
    pub written: Vec<u32>,
    /// What pieces contribute to the checksums of extents of the source of which other pieces read the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<Share>,
    /// The largest absolute rounding error of a cast, of pieces that have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounding: Vec<Rounding>,
    /// Bytes that share blocks with the source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cloned: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Sums {
    /// Adds what the next piece came to.
    pub(super) fn add(&mut self, piece: u32, written: u32, stream: &TensorStream<'_>) {
        self.written.push(written);
        let shares = stream.shares().iter();
        self.read.extend(shares.map(|&PartialSum { extent, remainder, bytes }| Share {
            piece,
            extent,
            remainder,
            bytes,
        }));
        if stream.rounding() > 0.0 {
            self.rounding.push(Rounding { piece, error: stream.rounding() });
        }
    }
}

/// What one piece contributes to the checksum of one extent of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Share {
    /// Number of the piece in the item.
    pub piece: u32,
    /// Number of the extent.
    pub extent: u32,
    /// The remainder of its bytes, as [`ckpt_api::ScatteredChecksum::remainder`] gives it.
    pub remainder: u32,
    /// How many bytes it read.
    pub bytes: u64,
}

/// How far a piece rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rounding {
    /// Number of the piece in the item.
    pub piece: u32,
    /// The largest absolute difference between a value and what is stored for it.
    pub error: f64,
}

impl ItemResult {
    /// Reads what an earlier process noted.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for what is none, or does not fit the plan.
    pub(crate) fn parse(text: &[u8], plan: &Plan) -> Result<Self> {
        let result: ItemResult = serde_json::from_slice(text)
            .map_err(|error| Error::usage("this is not the result of an item").found(error.to_string()))?;
        result.check(plan)?;
        Ok(result)
    }

    /// Checks that the result can be one of this plan's.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`].
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let misfit = |found: String, expected: String| {
            Error::usage("the receipt does not fit the plan")
                .found(format!("item {} with {found}", self.item))
                .expected(expected)
        };
        let found = self.sums.written.len();
        let pieces: &[Piece] = match plan.items().get(self.item) {
            Some(Item::Write(range)) => &range.pieces,
            Some(Item::Compare(_)) => &[],
            None => {
                let expected = format!("an item below {}", plan.items().len());
                return Err(misfit(crate::words::count(found, "piece"), expected));
            }
        };
        if pieces.len() != found {
            return Err(misfit(
                crate::words::count(found, "piece"),
                crate::words::count(pieces.len(), "piece"),
            ));
        }
        let len = |share: &Share| {
            let entry = plan.tensor(pieces.get(share.piece as usize)?.tensor)?;
            entry.from.extents.get(share.extent as usize).map(|extent| extent.len)
        };
        for share in &self.sums.read {
            let (Share { piece, extent, bytes, .. }, len) = (share, len(share));
            if len.is_none_or(|len| *bytes > len) {
                let expected = len.map_or("a part of the source".to_owned(), |len| format!("at most {len}"));
                return Err(misfit(
                    format!("{bytes} bytes of extent {extent} read for piece {piece}"),
                    expected,
                ));
            }
        }
        Ok(())
    }

    /// The result as JSON.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] if it has no JSON text.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::defect("the result of an item has no JSON text").found(error.to_string()))
    }
}
