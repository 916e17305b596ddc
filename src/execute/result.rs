//! What carrying out an item came to: small, and enough for somebody else to finish the output.

use super::read::Share;
use crate::plan::{Item, Plan};
use ckpt_api::{Error, Result};
use serde::{Deserialize, Serialize};

/// The result of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemResult {
    /// Number of the item in the plan.
    pub item: usize,
    /// One for each of its pieces, in their order.
    pub pieces: Vec<PieceReceipt>,
    /// Whether an earlier process had written it.
    #[serde(skip)]
    pub kept: bool,
}

/// The result of one piece.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceReceipt {
    /// What it contributes to the checksum of the target's extent; 0 where its bytes are an extent of the source whose
    /// checksum is known.
    pub written: u32,
    /// What it contributes to the checksums of the source's extents of which other pieces read the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<Share>,
    /// The largest absolute rounding error of a cast.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounding: f64,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl ItemResult {
    /// Reads a receipt that an earlier process noted.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for what is none, or does not fit the plan.
    pub(crate) fn parse(text: &[u8], plan: &Plan) -> Result<Self> {
        let receipt: ItemResult = serde_json::from_slice(text)
            .map_err(|error| Error::usage("this is no receipt of an item").found(error.to_string()))?;
        receipt.check(plan)?;
        Ok(receipt)
    }

    /// Checks that the receipt can be one of this plan's.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`].
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        let pieces = match plan.items().get(self.item) {
            Some(Item::Write(segment)) => Some(segment.pieces.len()),
            Some(Item::Compare(_)) => Some(0),
            None => None,
        };
        if pieces == Some(self.pieces.len()) {
            return Ok(());
        }
        Err(Error::usage("the receipt does not fit the plan")
            .found(format!("item {} with {} pieces", self.item, self.pieces.len()))
            .expected(match pieces {
                Some(pieces) => format!("{pieces} pieces"),
                None => format!("an item below {}", plan.items().len()),
            }))
    }

    /// The receipt as JSON.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Numbers and lists of them have a JSON text.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
