//! Checks of writing: what was read from a sample is written, and read again.

use crate::changed;
use crate::memory::{place, read, write};
use crate::reading::Reading;
use crate::sample::Sample;
use crate::steps::Steps;
use ckpt_api::{Checkpoint, Codec, LossKind, Metadata, OutputLayout, Ties};
use std::collections::{BTreeMap, HashSet};

/// Writes what was read from a sample, and compares the files and what is read from them.
pub(crate) fn check_round_trip(
    codec: &dyn Codec,
    sample: &Sample,
    (contents, values): &Reading,
    steps: &Steps,
) {
    let name = sample.name;
    let checkpoint = &Checkpoint { ties: Ties::of(contents), ..contents.checkpoint.clone() };
    let placed = steps
        .run(&format_args!("{name}: placing it"), || place(codec, checkpoint, &sample.output, &sample.write))
        .unwrap_or_else(|error| panic!("{name}: what was read cannot be written: {error}"));
    let lossy = placed.losses.iter().find(|loss| loss.kind.changes_function());
    assert!(lossy.is_none(), "{name}: writing what was read declares a loss: {lossy:?}");
    check_unplaced(checkpoint, &placed, name);
    check_offsets(sample, checkpoint, &placed, name);
    let store = || {
        let what = format_args!("{name}: writing it");
        steps
            .run(&what, || write(codec, checkpoint, values, &sample.output, &sample.write))
            .unwrap_or_else(|error| panic!("{name}: what was read cannot be written: {error}"))
    };
    let files = store();
    assert!(files == store(), "{name}: writing twice gives different bytes");
    let again = sample.written_entry(&files).to_owned();
    let input = ckpt_api::Input::memory(&again, files.clone());
    let what = format_args!("{name}: reading what was written");
    let (again, values_again) = steps
        .run(&what, || read(codec, &input, &sample.read))
        .unwrap_or_else(|error| panic!("{name}: what was written cannot be read: {error}"));
    let kept = without_bookkeeping(&contents.checkpoint, &placed);
    if let Some(what) = changed::checkpoint(&kept, &without_bookkeeping(&again.checkpoint, &placed)) {
        panic!("{name}: the checkpoint changed on the way: {what}");
    }
    if let Some(what) = changed::values(&contents.checkpoint, values, &values_again) {
        panic!("{name}: the values changed on the way: {what}");
    }
    check_bytes(sample, &files);
}

/// The checkpoint without the metadata that the codec declares to be bookkeeping that it drops, as `namespace.key`: that of files
/// that are written otherwise than they were.
fn without_bookkeeping(checkpoint: &Checkpoint, placed: &OutputLayout) -> Checkpoint {
    let dropped = placed.losses.iter().filter(|loss| loss.kind == LossKind::BookkeepingDropped);
    let dropped: HashSet<&str> = dropped.map(|loss| loss.subject.as_str()).collect();
    let mut kept = Checkpoint { metadata: Metadata::default(), ..checkpoint.clone() };
    for (namespace, map) in checkpoint.metadata.iter() {
        for (key, value) in map.iter().filter(|(key, _)| !dropped.contains(&*format!("{namespace}.{key}"))) {
            kept.metadata.insert(namespace, key, value.clone());
        }
    }
    kept
}

/// A format has a place for every tensor that it was read from, or its codec declares why not.
fn check_unplaced(checkpoint: &Checkpoint, placed: &OutputLayout, name: &str) {
    let named: HashSet<&str> = placed.losses.iter().map(|loss| loss.subject.as_str()).collect();
    let mut unplaced = placed.unplaced(checkpoint).map(|(_, tensor)| tensor.name.as_str());
    let lost = unplaced.find(|name| !named.contains(name));
    assert!(lost.is_none(), "{name}: a tensor that was read would be lost silently: {lost:?}");
}

/// Every tensor goes where the format's alignment allows.
pub(crate) fn check_offsets(sample: &Sample, checkpoint: &Checkpoint, placed: &OutputLayout, what: &str) {
    for placement in &placed.placements {
        let wrong = placement.extents.iter().find(|extent| extent.offset % sample.alignment != 0);
        if let Some(extent) = wrong {
            panic!(
                "{what}: tensor '{}' is written to byte {}, which is no multiple of {}",
                checkpoint.tensors[placement.tensor.0].name, extent.offset, sample.alignment
            );
        }
    }
}

/// The files are those of the sample, unless it states why not.
fn check_bytes(sample: &Sample, files: &BTreeMap<String, Vec<u8>>) {
    if sample.rewritten.is_some() || *files == sample.files {
        return;
    }
    let name = sample.name;
    let difference = sample.files.iter().find_map(|(file, bytes)| {
        let Some(written) = files.get(file) else { return Some(format!("{file} is not written")) };
        let at = bytes.iter().zip(written).position(|(one, other)| one != other);
        let at = at.or((bytes.len() != written.len()).then(|| bytes.len().min(written.len())))?;
        Some(format!(
            "{file} has {} bytes instead of {}, and differs from byte {at} on",
            written.len(),
            bytes.len()
        ))
    });
    let difference = difference.unwrap_or_else(|| format!("{:?} are written", files.keys()));
    panic!(
        "{name}: writing what was read gives other bytes: {difference}; say with Sample::rewritten why, if it must be so"
    );
}
