//! Every tensor that was written, looked at.

use super::compare::{Pair, changes_values};
use super::{Computed, Planned, Reread, Rounded};
use crate::digest::{hash_value, hex};
use crate::execute::in_parallel;
use ckpt_api::{Error, Result};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// What comparing the output with the source found: no difference, or there would be no output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// How many tensors were read back and compared, element by element.
    pub tensors: usize,
    /// How many hold the source's numbers, bit for bit.
    pub equal: usize,
    /// The others hold, bit for bit, what casting, quantizing or adding makes of the source's numbers; here is how far off
    /// that is, in the order of the plan's jobs.
    pub changed: Vec<Rounded>,
    /// Whether both graphs compute the same.
    pub computed: Computed,
}

impl Verification {
    pub(super) fn new(planned: &Planned, examined: &[Examined], computed: Computed) -> Self {
        let pairs = planned.plan.jobs().zip(examined);
        let changed = pairs.filter_map(|(job, examined)| {
            Some(Rounded { tensor: job.tensor.to_owned(), largest_error: examined.error? })
        });
        let changed: Vec<Rounded> = changed.collect();
        Verification { tensors: examined.len(), equal: examined.len() - changed.len(), changed, computed }
    }

    /// The tensor that is furthest off, the first of equals.
    pub fn largest_error(&self) -> Option<&Rounded> {
        Rounded::largest(&self.changed)
    }
}

/// What was found of one tensor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Examined {
    /// The largest absolute difference between a number and what is stored for it; `None` where none is changed.
    pub(crate) error: Option<f64>,
    /// [`crate::digest::TensorDigest::sha256`] of what was written, for a receipt.
    pub(crate) sha256: Option<String>,
}

/// Looks at every tensor, several at a time; the results are in the order of the plan's jobs.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] for the first that is not what its source holds, where the conversion is to be verified.
pub(crate) fn examine(planned: &Planned, reread: &Reread, canceled: &AtomicBool) -> Result<Vec<Examined>> {
    let jobs: Vec<usize> = (0..planned.plan.jobs().len()).collect();
    in_parallel(&jobs, planned.plan.threads, |number| {
        let (job, (part, id)) = planned
            .plan
            .jobs_in(number..number + 1)
            .next()
            .zip(reread.tensor(number))
            .ok_or_else(|| Error::mismatch("a tensor that was written is not found"))?;
        let changed = changes_values(&job);
        let pair = Pair::new(planned, job, (part, id), canceled)?;
        if planned.conversion.verify {
            pair.compare()?;
        }
        let error = if changed { Some(pair.error()?) } else { None };
        let hash = planned.conversion.receipt.is_some();
        let sha256 = hash.then(|| hash_value(part, id, planned.plan.budget)).transpose()?;
        Ok(Examined { error, sha256: sha256.map(|hash| hex(&hash)) })
    })
}
