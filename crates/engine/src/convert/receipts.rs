//! Receipts of items: what a process that ran some items of a plan hands to the one that commits it.

use super::Planned;
use crate::execute::{ItemResult, Sums};
use crate::store::Store;
use ckpt_api::{Error, File, Input, Limit, Limits, ReadStore, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// The receipt of one item of a plan. Its JSON Schema is `schemas/item-receipt.schema.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
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

    /// Writes the receipt to a store, in the place of one of the same item.
    ///
    /// # Errors
    /// Those of [`Store::replace`].
    pub fn save(&self, store: &dyn Store) -> Result<()> {
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::defect("a receipt has no JSON text").found(error.to_string()))?;
        store.replace(&self.file_name(), &text)
    }

    pub(super) fn file_name(&self) -> String {
        file_name(&self.plan, self.item)
    }

    /// The receipts of some items of a plan, as far as a store holds them, by their names: the store is not listed.
    fn load_some(
        store: Arc<dyn ReadStore>,
        plan: &[u8; 32],
        items: Range<usize>,
        limits: &Limits,
    ) -> Result<Vec<ItemReceipt>> {
        let plan = crate::words::hex(plan);
        let mut names: Vec<String> = items.map(|item| file_name(&plan, item)).collect();
        store.forget();
        store.will_open(&names);
        names.retain(|name| store.has(name));
        let input = Input::within_store(store, "");
        let load = |name: &String| {
            Self::load(&input.file(name)?, limits).map_err(|error| error.file(input.display(name)))
        };
        let found = names.iter().map(load).collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().filter(|receipt| receipt.plan == plan).collect())
    }

    /// The receipts of a plan that a store holds; those of other plans are left out.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`]; [`ckpt_api::Kind::Usage`] for a file that has the name of a receipt and is none;
    /// [`ckpt_api::Kind::Corrupt`] for a malformed SHA-256; [`ckpt_api::Kind::Limit`].
    pub fn load_all(store: Arc<dyn ReadStore>, plan: &[u8; 32], limits: &Limits) -> Result<Vec<ItemReceipt>> {
        let plan = crate::words::hex(plan);
        let prefix = format!("{}-", plan.get(..PREFIX).unwrap_or_default());
        let mut receipts = Vec::new();
        store.forget();
        let mut names = store.list("", u64::MAX)?;
        names.retain(|name| name.starts_with(&prefix) && name.ends_with(SUFFIX));
        let input = Input::within_store(store, "");
        let mut announced = names.chunks(ANNOUNCED);
        announced.next().into_iter().for_each(|first| input.will_open(first));
        for some in names.chunks(ANNOUNCED) {
            // The next ones are on their way while these are read.
            announced.next().into_iter().for_each(|next| input.will_open(next));
            for name in some {
                let receipt = Self::load(&input.file(name)?, limits)
                    .map_err(|error| error.file(input.display(name)))?;
                if receipt.plan == plan {
                    receipts.push(receipt);
                }
            }
        }
        receipts.sort_by_key(|receipt| receipt.item);
        Ok(receipts)
    }

    fn load(file: &File, limits: &Limits) -> Result<ItemReceipt> {
        limits.check(Limit::TextBytes, file.len())?;
        let receipt: ItemReceipt = serde_json::from_slice(&file.bytes(0, file.len())?)
            .map_err(|error| Error::usage("this is not the receipt of an item").found(error.to_string()))?;
        match crate::words::parse_sha256(&receipt.plan) {
            Some(_) => Ok(receipt),
            None => Err(Error::corrupt("the receipt of an item is malformed: a SHA-256 is invalid")
                .field("plan")
                .found(crate::words::quote(&receipt.plan))
                .expected("64 hexadecimal digits in lower case")
                .help("run the item again")),
        }
    }
}

impl Planned {
    /// The receipts of some items of the plan, as far as a store holds them: what [`Planned::run_items`] need not run again. A
    /// process that runs a few of many items looks at those alone.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for items that the plan does not have; those of [`ItemReceipt::load_all`].
    pub fn receipts_of(
        &self,
        items: &Range<usize>,
        store: Arc<dyn ReadStore>,
        limits: &Limits,
    ) -> Result<Vec<ItemReceipt>> {
        self.check_items(items)?;
        ItemReceipt::load_some(store, &self.sha256()?, items.clone(), limits)
    }
}

fn file_name(plan: &str, item: usize) -> String {
    let plan = plan.get(..PREFIX).unwrap_or(plan);
    format!("{plan}-{item:08}{SUFFIX}")
}

/// Receipts that a store far away is asked for at once.
const ANNOUNCED: usize = 64;
/// Hex digits of the plan in a receipt's name.
const PREFIX: usize = 12;
/// How the names of receipts end.
const SUFFIX: &str = ".receipt.json";
