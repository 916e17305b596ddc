//! Phases: at which offsets within a block a file system lets two files share the bytes of a tensor.

use crate::TensorId;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Where the source stores the bytes of tensors within a block of its file system.
///
/// A file system that shares blocks (XFS, btrfs, bcachefs) gives a new file the blocks of another one in place of a copy,
/// where the bytes begin at the same offset within a block in both files: they have the same phase. A codec that is free to
/// choose where its data begin asks here; one that is not ignores this, and its tensors are copied.
///
/// ```
/// use ckpt_api::{Phases, TensorId};
/// use std::num::NonZeroU64;
/// let block = NonZeroU64::new(4096).unwrap();
/// let phases = Phases::new(block, vec![Some(4096 + 104), None]);
/// assert_eq!(phases.of(TensorId(0)), Some(104));
/// // The first offset from 5,000 on at which the tensor has its phase.
/// assert_eq!(phases.next(TensorId(0), 5000), 8192 + 104);
/// // A tensor that is computed or compressed has none.
/// assert_eq!(phases.next(TensorId(1), 5000), 5000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    block: NonZeroU64,
    phases: Vec<Option<u64>>,
}

impl Phases {
    /// Tensors below so many bytes are not worth a gap.
    pub const WORTH_A_GAP: u64 = 1 << 20;

    /// `offsets` has, for each tensor of the checkpoint, where its bytes begin in a file of the source; `None` if they
    /// are not stored as one run.
    pub fn new(block: NonZeroU64, offsets: Vec<Option<u64>>) -> Self {
        let phases = offsets.into_iter().map(|offset| offset.map(|offset| offset % block));
        Phases { block, phases: phases.collect() }
    }

    /// The offset of the tensor's first byte within a block.
    pub fn of(&self, tensor: TensorId) -> Option<u64> {
        self.phases.get(tensor.0).copied().flatten()
    }

    /// The first offset of at least `least` at which the tensor has its phase; `least` for a tensor without one, and where
    /// there is no such offset.
    pub fn next(&self, tensor: TensorId, least: u64) -> u64 {
        self.of(tensor).and_then(|phase| self.at_phase(phase, least)).unwrap_or(least)
    }

    /// The first offset of at least `least`, a multiple of `alignment`, at which data should begin so that most bytes have
    /// their phase. `parts`: each tensor, its offset within the data, and its bytes.
    ///
    /// ```
    /// # use ckpt_api::{Phases, TensorId};
    /// # use std::num::NonZeroU64;
    /// let phases = Phases::new(NonZeroU64::new(4096).unwrap(), vec![Some(104), Some(4096)]);
    /// let parts = [(TensorId(0), 0, 8000), (TensorId(1), 8000, 2000)];
    /// assert_eq!(phases.start(1000, 8, parts), 4096 + 104);
    /// ```
    pub fn start(
        &self,
        least: u64,
        alignment: u64,
        parts: impl IntoIterator<Item = (TensorId, u64, u64)>,
    ) -> u64 {
        let mut wanted = std::collections::BTreeMap::new();
        for (tensor, offset, len) in parts {
            let Some(phase) = self.of(tensor) else { continue };
            let start = self.distance(offset % self.block, phase);
            if start.is_multiple_of(alignment) {
                let bytes: &mut u64 = wanted.entry(start).or_default();
                *bytes = bytes.saturating_add(len);
            }
        }
        let best = wanted.into_iter().max_by_key(|(_, bytes)| *bytes);
        best.and_then(|(phase, _)| self.at_phase(phase, least)).unwrap_or(least)
    }

    fn at_phase(&self, phase: u64, least: u64) -> Option<u64> {
        least.checked_add(self.distance(least % self.block, phase))
    }

    /// Bytes from one offset within a block to the next one of this phase.
    fn distance(&self, from: u64, phase: u64) -> u64 {
        if phase >= from { phase - from } else { self.block.get() - (from - phase) }
    }
}
