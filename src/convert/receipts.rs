//! Receipts of items: what a process that ran some items of a plan hands to the one that commits it.

use crate::execute::{ItemResult, Sums};
use ckpt_api::{Error, Limit, Limits, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::Path;

/// The receipt of one item of a plan. Its JSON Schema is `schemas/item-receipt.schema.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemReceipt {
    /// SHA-256 of the plan, in hex.
    pub plan: String,
    /// Which staging of the output the item was written to, in hex: receipts of files that are gone are worth nothing.
    pub staging: String,
    /// Number of the item in the plan.
    pub item: usize,
    /// What its pieces came to.
    pub sums: Sums,
}

impl ItemReceipt {
    /// What the executor knows of it.
    pub(super) fn inner(&self) -> ItemResult {
        ItemResult { item: self.item, sums: self.sums.clone(), kept: false }
    }

    /// Writes the receipt to a directory, where it appears complete or not at all. A receipt of the same item is replaced.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub fn save(&self, directory: &Path) -> Result<()> {
        let shown = || directory.display().to_string();
        let failed = |error| Error::io("cannot write the receipt of an item", error).file(shown());
        let text = serde_json::to_string(self)
            .map_err(|error| Error::defect("a receipt has no JSON text").found(error.to_string()))?;
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        let path = directory.join(self.file_name());
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn file_name(&self) -> String {
        let plan = self.plan.get(..PREFIX).unwrap_or(&self.plan);
        format!("{plan}-{:08}{SUFFIX}", self.item)
    }

    /// The receipts of a plan that a directory holds; those of other plans are left out.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`]; [`ckpt_api::Kind::Usage`] for a file that has the name of a receipt and is none;
    /// [`ckpt_api::Kind::Limit`].
    pub fn load_all(directory: &Path, plan: &[u8; 32], limits: &Limits) -> Result<Vec<ItemReceipt>> {
        let plan = crate::digest::hex(plan);
        let prefix = format!("{}-", plan.get(..PREFIX).unwrap_or_default());
        let failed =
            |error| Error::io("cannot read the receipts", error).file(directory.display().to_string());
        let mut receipts = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(&prefix) && name.ends_with(SUFFIX))
            else {
                continue;
            };
            let receipt = Self::load(&directory.join(name), limits)?;
            if receipt.plan == plan {
                receipts.push(receipt);
            }
        }
        receipts.sort_by_key(|receipt| receipt.item);
        Ok(receipts)
    }

    fn load(path: &Path, limits: &Limits) -> Result<ItemReceipt> {
        let shown = || path.display().to_string();
        let failed = |error| Error::io("cannot read a receipt", error).file(shown());
        let len = fs::metadata(path).map_err(failed)?.len();
        limits.check(Limit::TextBytes, len).map_err(|error| error.file(shown()))?;
        let text = fs::read(path).map_err(failed)?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::usage("this is not the receipt of an item").file(shown()).found(error.to_string())
        })
    }
}

/// Hex digits of the plan in a receipt's name.
const PREFIX: usize = 12;
/// How the names of receipts end.
const SUFFIX: &str = ".receipt.json";
