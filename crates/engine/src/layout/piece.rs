//! The units in which target files are written.

use ckpt_api::{Error, Extent, FileId, Region, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

/// A contiguous range of one target file, and what fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileRange {
    /// The target file.
    pub file: FileId,
    /// Its first byte, and the byte after its last.
    pub range: Range<u64>,
    /// What fills it, in the order in which the source stores it. Bytes between pieces belong to no tensor.
    pub pieces: Vec<Piece>,
}

/// A part of one tensor that is written to one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Piece {
    /// Number of the tensor in the plan.
    pub tensor: u32,
    /// Number of the target's extent.
    pub extent: u32,
    /// First byte within that extent.
    pub at: u64,
    /// Bytes written.
    pub len: u64,
    /// What of the tensor it is.
    pub part: Part,
}

/// What of a tensor is moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Part {
    /// These bytes of the concatenation of these extents of the source.
    Sequence {
        /// Numbers of the source's extents.
        extents: ExtentNumbers,
        /// Bytes of their concatenation.
        bytes: Range<u64>,
    },
    /// This box of the tensor, in whole axes.
    Box(Box<Region>),
}

/// Numbers of extents that follow each other.
///
/// ```
/// use ckpt::plan::ExtentNumbers;
/// let numbers = ExtentNumbers::try_from(2..5)?;
/// assert_eq!(numbers.range(), 2..5);
/// # Ok::<(), ckpt::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Range<u32>", into = "Range<u32>")]
pub struct ExtentNumbers {
    start: u32,
    /// One more than there are: never 0, so that a [`Part`] takes no room for its kind. A plan can have millions.
    above: NonZeroU32,
}

impl ExtentNumbers {
    /// The numbers.
    pub fn range(self) -> Range<u32> {
        self.start..self.start + (self.above.get() - 1)
    }

    /// The first ones; as many as there are numbers for.
    pub(super) fn first(count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        ExtentNumbers { start: 0, above: NonZeroU32::MIN.saturating_add(count) }
    }

    /// The numbers, for slices.
    pub(crate) fn indices(self) -> Range<usize> {
        let Range { start, end } = self.range();
        start as usize..end as usize
    }
}

impl TryFrom<Range<u32>> for ExtentNumbers {
    type Error = Error;

    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a range that ends before it begins, or has 2^32 - 1 numbers.
    fn try_from(range: Range<u32>) -> Result<Self> {
        let count = range.end.checked_sub(range.start);
        let above = count.and_then(|count| NonZeroU32::MIN.checked_add(count));
        let error = || Error::usage("these are no numbers of extents").found(format!("{range:?}"));
        Ok(ExtentNumbers { start: range.start, above: above.ok_or_else(error)? })
    }
}

impl From<ExtentNumbers> for Range<u32> {
    fn from(numbers: ExtentNumbers) -> Self {
        numbers.range()
    }
}

impl fmt::Debug for ExtentNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range().fmt(f)
    }
}

/// The bytes of each extent that are in a range of their concatenation.
pub(crate) fn within<'a>(
    extents: &'a [Extent],
    bytes: &Range<u64>,
) -> impl Iterator<Item = (&'a Extent, Range<u64>)> {
    let (range, mut start) = (bytes.clone(), 0_u64);
    extents.iter().filter_map(move |extent| {
        let end = start.saturating_add(extent.len);
        let own = range.start.max(start) - start..range.end.min(end).saturating_sub(start);
        start = end;
        (!own.is_empty()).then_some((extent, own))
    })
}

/// A number of a plan's lists.
pub(crate) fn plan_number(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::limit("a plan holds fewer than 2^32 tensors and extents"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_can_be_millions_of_is_small() {
        assert_eq!((size_of::<Part>(), size_of::<Piece>()), (24, 48));
    }

    #[test]
    fn extent_numbers_are_their_range() {
        for range in [0..0, 3..3, 2..5, 1..u32::MAX] {
            let numbers = ExtentNumbers::try_from(range.clone()).unwrap();
            assert_eq!((numbers.range(), numbers.indices().len()), (range.clone(), range.len()));
            let json = serde_json::to_string(&numbers).unwrap();
            assert_eq!(json, serde_json::to_string(&range).unwrap());
            assert_eq!(serde_json::from_str::<ExtentNumbers>(&json).unwrap(), numbers);
        }
        assert_eq!(
            (ExtentNumbers::first(2).range(), ExtentNumbers::first(usize::MAX).range().start),
            (0..2, 0)
        );
    }

    #[test]
    fn ranges_that_number_nothing_are_refused() {
        for json in [r#"{"start":5,"end":2}"#, r#"{"start":0,"end":4294967295}"#] {
            let error = serde_json::from_str::<ExtentNumbers>(json).unwrap_err();
            assert!(error.to_string().contains("these are no numbers of extents"), "{error}");
        }
    }
}
