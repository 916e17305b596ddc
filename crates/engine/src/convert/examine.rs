//! Every tensor that was written, looked at.

use super::compare::Pair;
use super::planned::{Commit, Planned};
use super::reread::Reread;
use super::summary::{Rounded, Verification};
use super::verifier::Computed;
use crate::digest::hash_value;
use crate::layout::plan_number;
use crate::resources::in_parallel;
use crate::words::hex;
use ckpt_api::{Error, Result};
use std::sync::atomic::AtomicBool;

impl Verification {
    pub(super) fn new(planned: &Planned, examined: &[Examined], computed: Computed) -> Self {
        let pairs = planned.plan.tensors().zip(examined);
        let changed = pairs.filter_map(|(entry, examined)| {
            Some(Rounded { tensor: entry.tensor.to_owned(), largest_error: examined.error? })
        });
        let changed: Vec<Rounded> = changed.collect();
        let equal = examined.len() - changed.len();
        Verification { tensors: examined.len(), equal, changed, computed, after_commit: false }
    }
}

/// What was found of one tensor.
#[derive(Clone, Debug, Default)]
pub(super) struct Examined {
    /// The largest absolute difference between a number and what is stored for it; `None` if none is changed.
    pub(super) error: Option<f64>,
    /// [`crate::digest::TensorDigest::sha256`] of what was written, for a receipt.
    pub(super) sha256: Option<String>,
}

/// Looks at every tensor, several at a time; the results are in the order of the plan's tensors.
///
/// `verified`: for each tensor, whether its bytes are known to be the source's.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] for the first that is not what its source holds, if the conversion is to be
/// verified.
pub(super) fn examine(
    planned: &Planned,
    reread: &Reread,
    verified: &[bool],
    options: &Commit,
    canceled: &AtomicBool,
) -> Result<Vec<Examined>> {
    let numbers: Vec<usize> = (0..planned.plan.tensors().len()).collect();
    in_parallel(&numbers, planned.plan.threads, |number| {
        let (part, id) =
            reread.tensor(number).ok_or_else(|| Error::defect("a tensor of the output is missing"))?;
        let pair = Pair::new(planned, plan_number(number)?, (part, id), canceled)?;
        let is_known = verified.get(number) == Some(&true) && pair.is_placed_as_planned();
        if options.verify && !is_known {
            pair.compare()?;
        }
        let error = if pair.changes_values() { Some(pair.error()?) } else { None };
        let hash = options.receipt.is_some();
        let sha256 = hash.then(|| hash_value(part, id, planned.plan.budget)).transpose()?;
        Ok(Examined { error, sha256: sha256.map(|hash| hex(&hash)) })
    })
}
