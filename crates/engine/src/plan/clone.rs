//! Bytes that items write as the source stores them, and that both files can share.

use super::{Plan, Settings};
use crate::layout::{FileRange, Part, Piece, Step, within};
use ckpt_api::{Error, Extent, FileId, Result};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::ops::Range;

/// Whether an output gets blocks of the source's files in place of copies of their bytes.
///
/// A file system that shares blocks (XFS, btrfs, bcachefs; on the server, NFS 4.2) keeps such blocks once, until one of both
/// files is changed. The output is a file of its own all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cloning {
    /// Where the file system can, and copied elsewhere.
    #[default]
    Auto,
    /// All bytes are copied.
    Never,
    /// Every tensor of at least two blocks, or it is an error.
    Always,
}

impl Cloning {
    /// Every choice, by the name that [`str::parse`] takes.
    pub const ALL: [(&'static str, Cloning); 3] =
        [("auto", Cloning::Auto), ("never", Cloning::Never), ("always", Cloning::Always)];
}

impl std::str::FromStr for Cloning {
    type Err = Error;

    /// ```
    /// assert_eq!("always".parse::<ckpt::Cloning>()?, ckpt::Cloning::Always);
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, cloning)| *cloning).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name);
            Error::usage("there is no such way to clone")
                .found(format!("'{text}'"))
                .expected(names.join(", "))
        })
    }
}

/// How a plan clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloneSettings {
    /// Bytes of a block that two files can share.
    pub(crate) block: NonZeroU64,
    /// Whether what cannot be cloned is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) always: bool,
}

/// Bytes of a file of the source that follow each other in the target, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedRun {
    pub(crate) from: FileId,
    /// First byte in the source's file.
    pub(crate) start: u64,
    /// The bytes of the target's file.
    pub(crate) to: Range<u64>,
}

impl CopiedRun {
    /// The part of the run that consists of whole blocks of both files; `None` if there is none.
    fn whole_blocks(&self, block: NonZeroU64) -> Option<CopiedRun> {
        let CopiedRun { from, start, ref to } = *self;
        if start % block != to.start % block {
            return None;
        }
        let first = to.start.checked_next_multiple_of(block.get())?;
        let end = to.end - to.end % block;
        let start = start.checked_add(first.checked_sub(to.start)?)?;
        (first < end).then_some(CopiedRun { from, start, to: first..end })
    }
}

impl Plan {
    /// Bytes that the output gets by sharing blocks with the source; 0 if its file system cannot.
    pub fn cloned_bytes(&self) -> u64 {
        let ranges = self.items.iter().filter_map(|item| match item {
            super::Item::Write(range) => Some(range),
            super::Item::Compare(_) => None,
        });
        let cloned = ranges.flat_map(|range| self.clones(range));
        cloned.fold(0, |sum, run| sum.saturating_add(run.to.end - run.to.start))
    }

    /// Whether what cannot be cloned is an error.
    pub(crate) fn must_clone(&self) -> bool {
        self.settings.clone.is_some_and(|clone| clone.always)
    }

    /// The whole blocks of a range of a target file that a file of the source has, too; none if the plan does not clone.
    pub(crate) fn clones(&self, range: &FileRange) -> Vec<CopiedRun> {
        let Some(CloneSettings { block, .. }) = self.settings.clone else { return Vec::new() };
        let mut runs: Vec<CopiedRun> = Vec::new();
        for run in range.pieces.iter().filter_map(|piece| self.copied(piece)).flatten() {
            match runs.last_mut() {
                Some(last)
                    if last.from == run.from
                        && last.to.end == run.to.start
                        && last.start.checked_add(last.to.end - last.to.start) == Some(run.start) =>
                {
                    last.to.end = run.to.end;
                }
                _ => runs.push(run),
            }
        }
        runs.iter().filter_map(|run| run.whole_blocks(block)).collect()
    }

    /// Where a piece's bytes are on both sides, in their order; `None` if it does not write what the source stores.
    pub(crate) fn copied(&self, piece: &Piece) -> Option<Vec<CopiedRun>> {
        let entry = self.tensor(piece.tensor)?;
        let is_stored = |extent: &Extent| !extent.is_compressed() && !extent.is_computed();
        let unchanged = entry.steps.iter().all(|step| matches!(step, Step::Reshape { .. }))
            && entry.added.is_empty()
            && entry.from.window().is_none();
        let Part::Sequence { extents, bytes } = &piece.part else { return None };
        let sources = entry.from.extents.get(extents.indices())?;
        if !unchanged
            || bytes.end.checked_sub(bytes.start) != Some(piece.len)
            || !sources.iter().all(is_stored)
        {
            return None;
        }
        let mut to = entry.to.extents.get(piece.extent as usize)?.offset.checked_add(piece.at)?;
        let run = |(extent, own): (&Extent, Range<u64>)| {
            let (start, first) = (extent.offset.checked_add(own.start)?, to);
            to = first.checked_add(own.end - own.start)?;
            Some(CopiedRun { from: extent.file, start, to: first..to })
        };
        within(sources, bytes).map(run).collect()
    }

    /// Whether a piece writes what the source stores.
    pub(crate) fn is_copied(&self, piece: &Piece) -> bool {
        self.copied(piece).is_some()
    }

    /// Refuses a plan that must clone every tensor and cannot: the first one of at least two blocks that shares none.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the tensor and the reason.
    pub(super) fn check_clones(&self) -> Result<()> {
        let Settings { clone: Some(CloneSettings { block, always: true }), .. } = &self.settings else {
            return Ok(());
        };
        let least = block.get().saturating_mul(2);
        let mut shared = vec![false; self.entries.len()];
        for item in &self.items {
            let super::Item::Write(range) = item else { continue };
            let mut clones = self.clones(range);
            clones.sort_unstable_by_key(|clone| clone.to.start);
            for piece in &range.pieces {
                let runs = self.copied(piece).unwrap_or_default();
                let meets = |run: &CopiedRun| {
                    let first = clones.partition_point(|clone| clone.to.end <= run.to.start);
                    clones.get(first).is_some_and(|clone| clone.to.start < run.to.end)
                };
                if let Some(shared) = shared.get_mut(piece.tensor as usize) {
                    *shared |= runs.iter().any(meets);
                }
            }
        }
        let large = |number: &u32| {
            let extents = self.target_of(*number).map(|place| &place.extents);
            extents.is_some_and(|extents| extents.iter().any(|extent| extent.len >= least))
        };
        let written = (0u32..).zip(&self.entries).filter(|(_, entry)| !self.is_shared(entry.number));
        let mut missed = written
            .zip(&shared)
            .filter(|((number, _), shared)| !**shared && large(number))
            .filter_map(|((number, _), _)| self.tensor(number));
        match missed.next() {
            Some(entry) => Err(self.not_cloned(&entry, *block)),
            None => Ok(()),
        }
    }

    fn not_cloned(&self, entry: &super::TensorEntry<'_>, block: NonZeroU64) -> Error {
        let error = Error::usage("the tensor cannot share blocks with the source").tensor(entry.tensor);
        let changes = entry.steps.iter().filter(|step| !matches!(step, Step::Reshape { .. }));
        let steps: Vec<String> = changes.map(Step::describe).collect();
        let (from, to) = (entry.from.extents.first(), entry.to.extents.first());
        let error = match (from, to) {
            _ if !steps.is_empty() => error.found(format!("its bytes change: {}", steps.join(", "))),
            (Some(from), _) if from.is_compressed() => error.found("it is compressed"),
            (Some(from), Some(to)) if entry.added.is_empty() => error
                .found(format!("offset {} in the source, {} in the output", from.offset, to.offset))
                .expected(format!("offsets that are equal modulo {block}")),
            _ => error.found("its bytes are put together from others"),
        };
        error.help("let what cannot be shared be copied")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_of_both_files_are_shared() {
        let block = NonZeroU64::new(4096).unwrap();
        let run = |start, to| CopiedRun { from: FileId(1), start, to };
        let cases = [
            (run(100, 100..20_000), Some(run(4096, 4096..16_384))),
            (run(8192 + 100, 100..20_000), Some(run(3 * 4096, 4096..16_384))),
            (run(0, 4096..12_288), Some(run(0, 4096..12_288))),
            // Another phase, less than a block, no whole block.
            (run(104, 100..20_000), None),
            (run(4096, 0..4095), None),
            (run(100, 100..8191), None),
        ];
        for (run, expected) in cases {
            assert_eq!(run.whole_blocks(block), expected, "{run:?}");
        }
    }

    #[test]
    fn cloning_has_a_name_each_way() {
        for (name, cloning) in Cloning::ALL {
            assert_eq!(name.parse::<Cloning>().unwrap(), cloning);
        }
        let error = "maybe".parse::<Cloning>().unwrap_err().to_string();
        assert!(error.contains("auto, never, always"), "{error}");
    }
}
