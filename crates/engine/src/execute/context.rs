//! What the parts of the executor share: a run's surroundings and its progress.

use super::read::Files;
use crate::plan::Plan;
use crate::store::Stage;
use std::sync::atomic::AtomicBool;

/// Called with the number of bytes written since the last call, from any thread.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// What a run needs beside its plan.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    /// The source's files.
    pub(crate) files: &'a Files<'a>,
    /// The output's files.
    pub(crate) stage: &'a dyn Stage,
    pub(crate) progress: Progress<'a>,
    /// Set from outside to stop.
    pub(crate) canceled: &'a AtomicBool,
}
