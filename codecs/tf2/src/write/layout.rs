//! The layout: where in the data files each entry's data goes.

use crate::round_trip::{MAX_FILLER, is_bounded};
use crate::write::data_entry::DataSize;
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{Checkpoint, Error, Limit, MetadataValue, Options, Phases, Result};

/// Limit on the empty data files of a recorded layout.
const MAX_EMPTY_FILES: usize = 1024;

/// Positions of all data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Data file and offset of each entry's data.
    pub(crate) positions: Vec<(u32, u64)>,
    /// Length of each data file in bytes; `None` for a file that does not exist.
    pub(crate) files: Vec<Option<u64>>,
    /// Bytes outside of tensors: data file, offset, and the bytes.
    pub(crate) filler: Vec<(u32, u64, Vec<u8>)>,
}

/// The options that determine the layout.
#[derive(Clone, Copy, Debug)]
struct LayoutOptions {
    shards: Option<u64>,
    shard_size: Option<u64>,
    alignment: u64,
}

/// Places the data as the options ask; without options, if the checkpoint that was read had it, if it still fits
/// there, or else one after the other.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for options that contradict each other, [`ckpt_api::Kind::Unsupported`] for more data than
/// a file can hold.
///
/// The tensor that fills an entry may have to begin where the source's blocks can be shared.
pub(crate) fn lay_out(entries: &[DataSize], checkpoint: &Checkpoint, options: &Options) -> Result<Layout> {
    let phases = options.phases();
    let options = LayoutOptions::parse(options)?;
    if options.is_none()
        && let Some(layout) = recorded(entries, checkpoint)
    {
        return Ok(layout);
    }
    let begin = |data: &DataSize, end: u64| match (phases, data.owner) {
        (Some(phases), Some(tensor)) => phases.next(tensor, end),
        _ => end,
    };
    sequential(entries, options.unwrap_or_default(), begin)
}

impl LayoutOptions {
    /// Returns `None` if none of the options is given.
    fn parse(options: &Options) -> Result<Option<Self>> {
        let size = |name| options.size(name);
        let positive = |name: &'static str, number: Option<u64>| match number {
            Some(0) => Err(Error::usage("the option must be at least 1").field(name).found("0")),
            number => Ok(number),
        };
        let shards = positive("shards", options.count("shards"))?;
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
        Ok(given.then_some(LayoutOptions { shards, shard_size, alignment: alignment.unwrap_or(1) }))
    }
}

impl Default for LayoutOptions {
    fn default() -> Self {
        LayoutOptions { shards: None, shard_size: None, alignment: 1 }
    }
}

fn check_count(shards: u64) -> Result<()> {
    let limit = Limit::Files.default_value();
    if shards < limit {
        return Ok(());
    }
    Err(Error::usage("there would be too many data files")
        .found(ckpt_api::count(shards, "data file"))
        .expected(format!("fewer than {limit}"))
        .help("choose fewer shards, or a larger shard_size"))
}

/// `begin` says where the data of an entry begin, if those before it end here.
fn sequential(
    entries: &[DataSize],
    options: LayoutOptions,
    begin: impl Fn(&DataSize, u64) -> u64,
) -> Result<Layout> {
    let total = entries.iter().try_fold(0u64, |sum, data| sum.checked_add(data.size));
    let total = total.ok_or_else(too_large)?;
    let positions = Vec::with_capacity(entries.len());
    let mut layout = Layout { files: vec![Some(0)], positions, ..Layout::default() };
    if let Some(shards) = options.shards {
        layout.files.resize(usize::try_from(shards).unwrap_or(1), Some(0));
    }
    let (mut shard, mut end, mut before) = (0u32, 0u64, 0u64);
    for data in entries {
        let size = data.size;
        let start = |end| match size >= Phases::WORTH_A_GAP && options.alignment == 1 {
            true => begin(data, end),
            false => end,
        };
        let next = match (options.shards, options.shard_size) {
            (Some(shards), _) => proportional_shard(before, size, total, shards),
            (_, Some(most)) if end > 0 && start(end).saturating_add(size) > most => shard.saturating_add(1),
            _ => shard,
        };
        if next != shard {
            (shard, end) = (next, 0);
            check_count(u64::from(shard))?;
        }
        end = start(end);
        layout.positions.push((shard, end));
        let padded = end.checked_add(size).and_then(|end| end.checked_next_multiple_of(options.alignment));
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

/// Divides all bytes into equal parts, one for each shard, and returns the shard of the part that holds the middle of
/// these `size` bytes.
fn proportional_shard(before: u64, size: u64, total: u64, shards: u64) -> u32 {
    let middle = u128::from(before) + u128::from(size / 2);
    let shard = middle * u128::from(shards) / u128::from(total.max(1));
    u32::try_from(shard.min(u128::from(shards) - 1)).unwrap_or(0)
}

fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}

/// Returns the layout that was recorded when the checkpoint was read, or `None` without a record or if the tensors
/// changed.
fn recorded(entries: &[DataSize], checkpoint: &Checkpoint) -> Option<Layout> {
    let recorded = checkpoint.metadata.value("tf2", "layout")?.as_map()?;
    let total = entries.iter().try_fold(0u64, |sum, data| sum.checked_add(data.size))?;
    if recorded.get("bytes")?.as_u64()? != total {
        return None;
    }
    let files: Vec<Option<u64>> =
        recorded.get("files")?.as_list()?.iter().map(MetadataValue::as_u64).collect();
    let bytes = files.iter().flatten().try_fold(0u64, |sum, len| sum.checked_add(*len))?;
    if !is_bounded(bytes, total) || files.iter().filter(|len| **len == Some(0)).count() > MAX_EMPTY_FILES {
        return None;
    }
    let mut layout = Layout { files, filler: filler(recorded.get("filler"))?, ..Layout::default() };
    let (mut shard, mut end) = (0, 0);
    for data in entries {
        (shard, end) = data.original.unwrap_or((shard, end));
        layout.positions.push((shard, end));
        end = end.checked_add(data.size)?;
    }
    fits(&layout, entries).then_some(layout)
}

fn filler(recorded: Option<&MetadataValue>) -> Option<Vec<(u32, u64, Vec<u8>)>> {
    let Some(recorded) = recorded else { return Some(Vec::new()) };
    let one = |value: &MetadataValue| match value.as_list()? {
        [shard, offset, bytes] => {
            let shard = u32::try_from(shard.as_u64()?).ok()?;
            Some((shard, offset.as_u64()?, BASE64_STANDARD.decode(bytes.as_text()?).ok()?))
        }
        _ => None,
    };
    let all = recorded.as_list()?.iter().map(one).collect::<Option<Vec<_>>>()?;
    let bytes = all.iter().map(|(.., bytes)| bytes.len() as u64).sum::<u64>();
    (bytes <= MAX_FILLER).then(|| all.into_iter().filter(|(.., bytes)| !bytes.is_empty()).collect())
}

/// Whether all data is inside its file, and none overlaps.
fn fits(layout: &Layout, entries: &[DataSize]) -> bool {
    let data = layout.positions.iter().zip(entries).map(|((shard, at), data)| (*shard, *at, data.size));
    let filler = layout.filler.iter().map(|(shard, at, bytes)| (*shard, *at, bytes.len() as u64));
    let mut ranges: Vec<(u32, u64, u64)> = data.chain(filler).collect();
    ranges.sort_unstable();
    let mut end = (0, 0);
    (layout.files.len() as u64) < Limit::Files.default_value()
        && ranges.iter().all(|(shard, at, size)| {
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
    use ckpt_api::{Kind, Side, TensorId};

    fn data(size: u64) -> DataSize {
        DataSize { size, original: None, owner: None }
    }

    fn options_of(pairs: &[(&str, &str)]) -> Options {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Options::parse("tf2", crate::OPTIONS, Side::Write, &pairs).unwrap()
    }

    fn positions(sizes: &[u64], options: &[(&str, &str)]) -> (Vec<(u32, u64)>, Vec<Option<u64>>) {
        let entries: Vec<DataSize> = sizes.iter().map(|size| data(*size)).collect();
        let layout = lay_out(&entries, &Checkpoint::default(), &options_of(options)).unwrap();
        (layout.positions, layout.files)
    }

    #[test]
    fn tensors_are_stored_one_after_the_other_in_one_file() {
        assert_eq!(positions(&[3, 0, 4], &[]), (vec![(0, 0), (0, 3), (0, 3)], vec![Some(7)]));
        assert_eq!(positions(&[], &[]), (vec![], vec![Some(0)]));
    }

    #[test]
    fn alignment_pads_every_tensor_including_the_last() {
        let expected = (vec![(0, 0), (0, 42), (0, 42), (0, 84)], vec![Some(168)]);
        assert_eq!(positions(&[3, 0, 42, 43], &[("alignment", "42")]), expected);
    }

    #[test]
    fn a_large_tensor_begins_where_it_can_share_blocks_with_the_source() {
        let large = Phases::WORTH_A_GAP;
        let block = std::num::NonZeroU64::new(4096).unwrap();
        let owned = |(id, size)| DataSize { owner: Some(TensorId(id)), ..data(size) };
        let entries: Vec<DataSize> = [3, large, large, large].into_iter().enumerate().map(owned).collect();
        // In the source, the second and the third follow each other; of the last one, nothing is known.
        let phases = Phases::new(block, vec![Some(1), Some(100), Some(100 + large), None]);
        let laid_out = |options: Options| {
            let layout = lay_out(&entries, &Checkpoint::default(), &options).unwrap();
            layout.positions.iter().map(|(_, offset)| *offset).collect::<Vec<u64>>()
        };
        let shared = [0, 100, 100 + large, 100 + 2 * large];
        assert_eq!(laid_out(Options::default().with_phases(Some(phases.clone()))), shared);
        // Who asks for an alignment gets it.
        let aligned = options_of(&[("alignment", "64")]);
        assert_eq!(laid_out(aligned.clone().with_phases(Some(phases))), laid_out(aligned));
    }

    #[test]
    fn shards_are_as_equal_as_whole_tensors_allow() {
        let expected = (vec![(0, 0), (0, 10), (1, 0), (2, 0), (2, 10)], vec![Some(20), Some(10), Some(20)]);
        assert_eq!(positions(&[10; 5], &[("shards", "3")]), expected);
        let (_, files) = positions(&[1], &[("shards", "3")]);
        assert_eq!(files.iter().flatten().sum::<u64>(), 1);
        assert_eq!(files.len(), 3);
    }

    #[test]
    fn a_shard_exceeds_its_size_only_for_a_single_larger_tensor() {
        let expected = (vec![(0, 0), (0, 4), (1, 0), (2, 0)], vec![Some(8), Some(20), Some(1)]);
        assert_eq!(positions(&[4, 4, 20, 1], &[("shard_size", "10")]), expected);
    }

    #[test]
    fn invalid_or_contradicting_options_are_refused() {
        for options in [
            &[("shards", "0")][..],
            &[("alignment", "0")],
            &[("shard_size", "0")],
            &[("shards", "2"), ("shard_size", "5")],
            &[("shards", "1048576")],
        ] {
            let error = lay_out(&[], &Checkpoint::default(), &options_of(options)).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{options:?}");
        }
    }

    #[test]
    fn tensors_larger_than_a_file_can_be_are_refused() {
        let entries = [data(1 << 62), data(1 << 62)];
        let error = lay_out(&entries, &Checkpoint::default(), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
    }

    #[test]
    fn a_recorded_layout_is_followed_only_if_the_tensors_fit_it() {
        let lay_out_recorded = |layout: &str| {
            let mut checkpoint = Checkpoint::default();
            let layout: MetadataValue = serde_json::from_str(layout).unwrap();
            checkpoint.metadata.insert("tf2", "layout", layout);
            let at = |original, size| DataSize { original: Some(original), ..data(size) };
            let entries = [at((0, 8), 4), data(4), at((1, 0), 1)];
            lay_out(&entries, &checkpoint, &Options::default()).unwrap()
        };
        let kept = lay_out_recorded(r#"{"bytes": 9, "files": [20, 1], "filler": [[0, 2, "AQI="]]}"#);
        assert_eq!(kept.positions, [(0, 8), (0, 12), (1, 0)]);
        assert_eq!((kept.files, kept.filler), (vec![Some(20), Some(1)], vec![(0, 2, vec![1, 2])]));
        for other in [
            r#"{"bytes": 10, "files": [20, 1]}"#,
            r#"{"bytes": 9, "files": [15, 1]}"#,
            r#"{"bytes": 9, "files": [20]}"#,
            r#"{"bytes": 9, "files": [20, null]}"#,
            r#"{"bytes": 9, "files": [20, 1], "filler": [[0, 7, "AQI="]]}"#,
        ] {
            assert_eq!(lay_out_recorded(other).positions, [(0, 0), (0, 4), (0, 8)], "{other}");
        }
    }
}
