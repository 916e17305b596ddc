//! The phases of a conversion, for those who watch it.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// A part of carrying a plan out. They come in this order; what was not asked for does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Prepares the output's temporary files, or finds those of an earlier process.
    Stage,
    /// Writes the data of tensors.
    Write,
    /// Writes what depends on that data: headers, indexes, checksums.
    Finish,
    /// Reads the output back, to compare it with the source and to hash it.
    ReadBack,
    /// Runs the graphs of the source and of the output, if both have one.
    Compute,
    /// Waits until the output is on the disk.
    Sync,
    /// Gives the output its names.
    Commit,
}

/// A callback for the beginning of each phase, or none.
#[derive(Clone, Default)]
pub(super) struct PhaseObserver(Option<Arc<dyn Fn(Phase) + Send + Sync>>);

impl PhaseObserver {
    pub(super) fn new(observer: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        PhaseObserver(Some(Arc::new(observer)))
    }

    pub(super) fn begin(&self, phase: Phase) {
        if let Some(observer) = &self.0 {
            observer(phase);
        }
    }
}

impl Debug for PhaseObserver {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("PhaseObserver")
    }
}
