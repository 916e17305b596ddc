//! Where in the data files each piece goes.

use crate::write::pieces::Piece;
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Checkpoint, Error, Limit, Options, Result};
use serde_json::Value;

/// Bytes beside tensors that are kept.
pub(crate) const MOST_FILLER: u64 = 64 << 10;
/// Bytes beside tensors that a layout may have, whatever the tensors; else as many as they.
const MOST_GAPS: u64 = 64 << 20;
/// Data files without a byte that a layout may have.
const MOST_EMPTY: usize = 1024;

/// Where everything goes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Data file and first byte of each piece.
    pub(crate) positions: Vec<(u32, u64)>,
    /// Bytes of each data file; `None` for one that is not there.
    pub(crate) files: Vec<Option<u64>>,
    /// Bytes that no piece has: data file, first byte, and what they are.
    pub(crate) filler: Vec<(u32, u64, Vec<u8>)>,
}

/// How data files are cut where the user says so.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    shards: Option<u64>,
    shard_size: Option<u64>,
    alignment: u64,
}

/// Places the pieces as the options say; else where they were, if that is still possible; else one after the other.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for options that contradict each other, [`ckpt_api::Kind::Unsupported`] for pieces that
/// are too large together.
pub(crate) fn lay_out(pieces: &[Piece], checkpoint: &Checkpoint, options: &Options) -> Result<Layout> {
    let wanted = Wanted::new(options)?;
    if wanted.is_none()
        && let Some(layout) = as_before(pieces, checkpoint)
    {
        return Ok(layout);
    }
    one_after_the_other(pieces, wanted.unwrap_or_default())
}

impl Wanted {
    /// `None` where the user says nothing.
    fn new(options: &Options) -> Result<Option<Self>> {
        let size = |name| options.size(name);
        let positive = |name: &'static str, number: Option<u64>| match number {
            Some(0) => Err(Error::usage("the option must be at least 1").field(name).found("0")),
            number => Ok(number),
        };
        let shards = positive("shards", size("shards"))?;
        let shard_size = positive("shard_size", size("shard_size"))?;
        let alignment = positive("alignment", size("alignment"))?;
        if shards.is_some() && shard_size.is_some() {
            return Err(Error::usage("the number of shards and their size cannot both be given")
                .field("shards")
                .help("give one of shards and shard_size"));
        }
        if let Some(shards) = shards {
            check_count(shards)?;
        }
        let given = shards.is_some() || shard_size.is_some() || alignment.is_some();
        Ok(given.then_some(Wanted { shards, shard_size, alignment: alignment.unwrap_or(1) }))
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted { shards: None, shard_size: None, alignment: 1 }
    }
}

fn check_count(shards: u64) -> Result<()> {
    let limit = Limit::Files.default_value();
    if shards < limit {
        return Ok(());
    }
    Err(Error::usage("there would be too many data files")
        .found(format!("{shards} data files"))
        .expected(format!("fewer than {limit}"))
        .help("choose fewer shards, or a larger shard_size"))
}

fn one_after_the_other(pieces: &[Piece], wanted: Wanted) -> Result<Layout> {
    let total = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.entry.size));
    let total = total.ok_or_else(too_large)?;
    let mut layout = Layout { files: vec![Some(0)], ..Layout::default() };
    if let Some(shards) = wanted.shards {
        layout.files.resize(usize::try_from(shards).unwrap_or(1), Some(0));
    }
    let (mut shard, mut end, mut before) = (0u32, 0u64, 0u64);
    for piece in pieces {
        let size = piece.entry.size;
        let next = match (wanted.shards, wanted.shard_size) {
            (Some(shards), _) => share(before, size, total, shards),
            (_, Some(most)) if end > 0 && end.saturating_add(size) > most => shard.saturating_add(1),
            _ => shard,
        };
        if next != shard {
            (shard, end) = (next, 0);
            check_count(u64::from(shard))?;
        }
        layout.positions.push((shard, end));
        let padded = end.checked_add(size).and_then(|end| end.checked_next_multiple_of(wanted.alignment));
        end = padded.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(too_large)?;
        before = before.saturating_add(size);
        let index = shard as usize;
        if layout.files.len() <= index {
            layout.files.resize(index + 1, Some(0));
        }
        if let Some(len) = layout.files.get_mut(index) {
            *len = Some(end);
        }
    }
    Ok(layout)
}

/// The shard in whose part of all bytes the middle of a piece lies.
fn share(before: u64, size: u64, total: u64, shards: u64) -> u32 {
    let middle = u128::from(before) + u128::from(size / 2);
    let shard = middle * u128::from(shards) / u128::from(total.max(1));
    u32::try_from(shard.min(u128::from(shards) - 1)).unwrap_or(0)
}

fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}

/// Whether data files of `files` bytes may hold no more than `tensors` bytes of tensors. What a checkpoint says of its
/// layout comes from a file, and a few bytes there could ask for a full disk.
pub(crate) fn is_bounded(files: u64, tensors: u64) -> bool {
    files <= tensors.saturating_add(tensors.max(MOST_GAPS))
}

/// The layout that the checkpoint was read with; `None` where it says of none, or its tensors are not those of then.
fn as_before(pieces: &[Piece], checkpoint: &Checkpoint) -> Option<Layout> {
    let stated = checkpoint.metadata.value("tf2", "layout")?;
    let total = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.entry.size))?;
    if stated.get("bytes")?.as_u64()? != total {
        return None;
    }
    let files: Vec<Option<u64>> = stated.get("files")?.as_array()?.iter().map(Value::as_u64).collect();
    let bytes = files.iter().flatten().try_fold(0u64, |sum, len| sum.checked_add(*len))?;
    if !is_bounded(bytes, total) || files.iter().filter(|len| **len == Some(0)).count() > MOST_EMPTY {
        return None;
    }
    let mut layout = Layout { files, filler: filler(stated.get("filler"))?, ..Layout::default() };
    let (mut shard, mut end) = (0, 0);
    for piece in pieces {
        (shard, end) = piece.at.unwrap_or((shard, end));
        layout.positions.push((shard, end));
        end = end.checked_add(piece.entry.size)?;
    }
    fits(&layout, pieces).then_some(layout)
}

fn filler(stated: Option<&Value>) -> Option<Vec<(u32, u64, Vec<u8>)>> {
    let Some(stated) = stated else { return Some(Vec::new()) };
    let one = |value: &Value| match &value.as_array()?[..] {
        [shard, offset, bytes] => {
            let shard = u32::try_from(shard.as_u64()?).ok()?;
            Some((shard, offset.as_u64()?, BASE64_STANDARD.decode(bytes.as_str()?).ok()?))
        }
        _ => None,
    };
    let all = stated.as_array()?.iter().map(one).collect::<Option<Vec<_>>>()?;
    let bytes = all.iter().map(|(.., bytes)| bytes.len() as u64).sum::<u64>();
    (bytes <= MOST_FILLER).then(|| all.into_iter().filter(|(.., bytes)| !bytes.is_empty()).collect())
}

/// Whether nothing overlaps or lies outside its file.
fn fits(layout: &Layout, pieces: &[Piece]) -> bool {
    let pieces = layout.positions.iter().zip(pieces).map(|((s, at), piece)| (*s, *at, piece.entry.size));
    let filler = layout.filler.iter().map(|(shard, at, bytes)| (*shard, *at, bytes.len() as u64));
    let mut runs: Vec<(u32, u64, u64)> = pieces.chain(filler).collect();
    runs.sort_unstable();
    let mut end = (0, 0);
    (layout.files.len() as u64) < Limit::Files.default_value()
        && runs.iter().all(|(shard, at, size)| {
            let len = layout.files.get(*shard as usize).copied().flatten();
            if *size == 0 {
                return (*shard as usize) < layout.files.len() && *at <= len.unwrap_or(0);
            }
            let overlaps = (*shard, *at) < end;
            end = (*shard, at.saturating_add(*size));
            !overlaps && len.is_some_and(|len| end.1 <= len && i64::try_from(len).is_ok())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::tests::options_of;
    use ckpt_api::{DType, Kind, Shape};

    fn piece(size: u64) -> Piece {
        let mut piece = Piece::new(Vec::new(), DType::U8, Shape::scalar());
        piece.entry.size = size;
        piece
    }

    fn positions(sizes: &[u64], options: &[(&str, &str)]) -> (Vec<(u32, u64)>, Vec<Option<u64>>) {
        let pieces: Vec<Piece> = sizes.iter().map(|size| piece(*size)).collect();
        let layout = lay_out(&pieces, &Checkpoint::default(), &options_of(options)).unwrap();
        (layout.positions, layout.files)
    }

    #[test]
    fn tensors_lie_one_after_the_other_in_one_file() {
        assert_eq!(positions(&[3, 0, 4], &[]), (vec![(0, 0), (0, 3), (0, 3)], vec![Some(7)]));
        assert_eq!(positions(&[], &[]), (vec![], vec![Some(0)]));
    }

    #[test]
    fn an_alignment_pads_after_every_tensor_the_last_too() {
        let expected = (vec![(0, 0), (0, 42), (0, 42), (0, 84)], vec![Some(168)]);
        assert_eq!(positions(&[3, 0, 42, 43], &[("alignment", "42")]), expected);
    }

    #[test]
    fn shards_have_as_equal_parts_as_whole_tensors_allow() {
        let expected = (vec![(0, 0), (0, 10), (1, 0), (2, 0), (2, 10)], vec![Some(20), Some(10), Some(20)]);
        assert_eq!(positions(&[10; 5], &[("shards", "3")]), expected);
        let (_, files) = positions(&[1], &[("shards", "3")]);
        assert_eq!(files.iter().flatten().sum::<u64>(), 1);
        assert_eq!(files.len(), 3);
    }

    #[test]
    fn a_shard_takes_no_more_than_its_size_unless_one_tensor_does() {
        let expected = (vec![(0, 0), (0, 4), (1, 0), (2, 0)], vec![Some(8), Some(20), Some(1)]);
        assert_eq!(positions(&[4, 4, 20, 1], &[("shard_size", "10")]), expected);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for options in [
            &[("shards", "0")][..],
            &[("alignment", "0")],
            &[("shard_size", "0")],
            &[("shards", "2"), ("shard_size", "5")],
            &[("shards", "1m")],
        ] {
            let error = lay_out(&[], &Checkpoint::default(), &options_of(options)).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{options:?}");
        }
    }

    #[test]
    fn tensors_beyond_the_largest_file_are_refused() {
        let pieces = [piece(1 << 62), piece(1 << 62)];
        let error = lay_out(&pieces, &Checkpoint::default(), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
    }

    #[test]
    fn a_layout_is_kept_only_while_its_tensors_are_the_same_and_nothing_overlaps() {
        let stated = |layout: &str| {
            let mut checkpoint = Checkpoint::default();
            let layout: Value = serde_json::from_str(layout).unwrap();
            checkpoint.metadata.insert("tf2", "layout", layout);
            let pieces =
                [Piece { at: Some((0, 8)), ..piece(4) }, piece(4), Piece { at: Some((1, 0)), ..piece(1) }];
            lay_out(&pieces, &checkpoint, &Options::default()).unwrap()
        };
        let kept = stated(r#"{"bytes": 9, "files": [20, 1], "filler": [[0, 2, "AQI="]]}"#);
        assert_eq!(kept.positions, [(0, 8), (0, 12), (1, 0)]);
        assert_eq!((kept.files, kept.filler), (vec![Some(20), Some(1)], vec![(0, 2, vec![1, 2])]));
        for other in [
            r#"{"bytes": 10, "files": [20, 1]}"#,
            r#"{"bytes": 9, "files": [15, 1]}"#,
            r#"{"bytes": 9, "files": [20]}"#,
            r#"{"bytes": 9, "files": [20, null]}"#,
            r#"{"bytes": 9, "files": [20, 1], "filler": [[0, 7, "AQI="]]}"#,
        ] {
            assert_eq!(stated(other).positions, [(0, 0), (0, 4), (0, 8)], "{other}");
        }
    }
}
