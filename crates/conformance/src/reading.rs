//! Checks of reading: samples, and everything near them.

use crate::decoders;
use crate::memory::{place, read, values};
use crate::sample::{Expected, ExpectedTensor, Fact, Sample};
use crate::steps::Steps;
use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, FormatInfo, Input, Limit, Limits, Match, Metadata, Options, Result,
    Side,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// What reading gives: the contents and every tensor's value.
pub(crate) type Reading = (Contents, Vec<Vec<u8>>);

pub(crate) const FOREIGN: [&[u8]; 6] =
    [b"", b"\0", b"hello, world\n", &[0xff; 64], &[0; 4096], b"PK\x03\x04 not a checkpoint, but an archive"];

/// Reads a sample and compares it with what it states.
pub(crate) fn check_sample(codec: &dyn Codec, sample: &Sample, steps: &Steps) -> Reading {
    let name = sample.name;
    let (contents, values) = steps
        .run(&format_args!("{name}: reading it"), || read(codec, &sample.input(), &sample.read))
        .unwrap_or_else(|error| panic!("{name}: a valid sample is refused: {error}"));
    match &sample.expected {
        Expected::Tensors(expected) => check_expected(sample, expected, &contents, &values),
        Expected::Unknown(_) => {}
        Expected::Unstated => panic!(
            "{name}: the sample states no tensors: add them with Sample::tensor, or the reason with \
             Sample::unknown_values"
        ),
    }
    for fact in &sample.facts {
        check_fact(name, fact, &contents.checkpoint);
    }
    check_namespaces(codec.info(), name, &contents.checkpoint);
    check_offsets(sample, &contents, name);
    check_shared(sample, &contents, name);
    decoders::check_registered(codec, &contents, name);
    check_again(codec, sample, &contents, steps);
    (contents, values)
}

fn check_expected(sample: &Sample, expected: &[ExpectedTensor], contents: &Contents, values: &[Vec<u8>]) {
    let name = sample.name;
    let read = &contents.checkpoint.tensors;
    let names: BTreeSet<&str> = read.iter().map(|tensor| tensor.name.as_str()).collect();
    let wanted: BTreeSet<&str> = expected.iter().map(|tensor| tensor.name.as_str()).collect();
    assert!(names == wanted, "{name}: the tensors are called {names:?}, and the sample states {wanted:?}");
    for tensor in expected {
        let Some((id, found)) = contents.checkpoint.tensor(&tensor.name) else { continue };
        let what = format!("{name}: tensor '{}'", tensor.name);
        assert!(
            found.dtype == tensor.dtype,
            "{what} is read as {}, and the sample states {}",
            found.dtype,
            tensor.dtype
        );
        assert!(
            found.shape[..] == tensor.shape[..],
            "{what} has the shape {}, and the sample states {:?}: are the dimensions stored in another order?",
            found.shape,
            tensor.shape
        );
        let value = &values[id.0];
        assert!(
            *value == tensor.value,
            "{what} is read as {}, and the sample states {}: is its byte order, its axis order or its offset another?",
            shown(value),
            shown(&tensor.value)
        );
    }
}

/// What a sample states beside names, dtypes, shapes and values.
fn check_fact(name: &str, fact: &Fact, checkpoint: &Checkpoint) {
    let tensor = |tensor: &str| {
        let found = checkpoint.tensor(tensor).map(|(_, found)| found);
        found
            .unwrap_or_else(|| panic!("{name}: the sample states something of '{tensor}', which is not read"))
    };
    let equal = |what: String, found: &dyn Debug, stated: &dyn Debug| {
        let (found, stated) = (format!("{found:?}"), format!("{stated:?}"));
        assert!(found == stated, "{name}: {what} is read as {found}, and the sample states {stated}");
    };
    match fact {
        Fact::Metadata { namespace, key, value } => {
            let found = checkpoint.metadata.value(namespace, key);
            equal(format!("the metadata {namespace}.{key}"), &found, &Some(value));
        }
        Fact::TensorMetadata { tensor: of, namespace, key, value } => {
            let found = tensor(of).metadata.value(namespace, key);
            equal(format!("tensor '{of}': the metadata {namespace}.{key}"), &found, &Some(value));
        }
        Fact::Scale(of, scale) => {
            equal(format!("tensor '{of}': its scale"), &tensor(of).scale(), &Some(scale))
        }
        Fact::Axes(of, axes) => {
            equal(format!("tensor '{of}': the meaning of its axes"), &tensor(of).axes, &Some(axes));
        }
        Fact::Role(of, role) => equal(format!("tensor '{of}': its role"), &tensor(of).role, role),
    }
}

/// Metadata stands under the format's own namespaces, unless the format keeps that of others.
fn check_namespaces(info: &FormatInfo, name: &str, checkpoint: &Checkpoint) {
    let check = |what: &str, metadata: &Metadata, aspect: Aspect| {
        let foreign = metadata.iter().find(|(namespace, _)| !info.owns(namespace));
        if let Some((namespace, _)) = foreign.filter(|_| !info.keeps.contains(&aspect)) {
            panic!(
                "{name}: {what} has metadata under '{namespace}', which belongs to another format: insert what only \
                 your format knows under '{}'",
                info.id
            );
        }
    };
    check("the checkpoint", &checkpoint.metadata, Aspect::Metadata);
    for tensor in &checkpoint.tensors {
        check(&format!("tensor '{}'", tensor.name), &tensor.metadata, Aspect::TensorMetadata);
    }
}

/// The beginning of a value, for messages.
pub(crate) fn shown(value: &[u8]) -> String {
    let more = if value.len() > 32 { " …" } else { "" };
    format!("{} bytes {:02x?}{more}", value.len(), value.get(..32).unwrap_or(value))
}

/// Every tensor begins where the format's alignment allows.
fn check_offsets(sample: &Sample, contents: &Contents, what: &str) {
    for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&contents.placements) {
        let wrong = placement.extents.iter().find(|extent| extent.offset % sample.alignment != 0);
        if let Some(extent) = wrong {
            panic!(
                "{what}: tensor '{}' is read from byte {}, which is no multiple of {}",
                tensor.name, extent.offset, sample.alignment
            );
        }
    }
}

/// No two tensors have bytes in common. Windows of one whole do, and are marked as such.
fn check_shared(sample: &Sample, contents: &Contents, what: &str) {
    if sample.shared.is_some() {
        return;
    }
    let mut pieces: Vec<_> = (contents.placements.iter())
        .filter(|placement| placement.window().is_none())
        .flat_map(|placement| placement.extents.iter().map(move |extent| (extent, placement.tensor)))
        .map(|(extent, tensor)| (extent.file, extent.offset, extent.stored_len(), tensor))
        .filter(|(_, _, len, _)| *len > 0)
        .collect();
    pieces.sort_unstable();
    for pair in pieces.windows(2) {
        let ((file, start, len, tensor), (other_file, other_start, _, other)) = (pair[0], pair[1]);
        if file == other_file && tensor != other && start.saturating_add(len) > other_start {
            let name = |id: ckpt_api::TensorId| &contents.checkpoint.tensors[id.0].name;
            panic!(
                "{what}: the tensors '{}' and '{}' overlap in {}: refuse that, or say with Sample::sharing why the \
                 format allows it",
                name(tensor),
                name(other),
                contents.files[file.0]
            );
        }
    }
}

fn check_again(codec: &dyn Codec, sample: &Sample, contents: &Contents, steps: &Steps) {
    let name = sample.name;
    let again =
        steps.run(&format_args!("{name}: reading it again"), || read(codec, &sample.input(), &sample.read));
    let same = again.is_ok_and(|(again, _)| again == *contents);
    assert!(same, "{name}: reading twice gives different checkpoints");
    let mut limits = Limits::default();
    for limit in Limit::ALL {
        limits.set(*limit, 0);
    }
    let info = codec.info();
    if let Ok(options) = Options::parse(info.id, info.options, Side::Read, &sample.read) {
        let within = steps.run(&format_args!("{name}: reading it with limits of 0"), || {
            codec.read(&sample.input(), &options, &limits)
        });
        assert!(
            within.is_err() || contents.checkpoint.tensors.is_empty(),
            "{name}: reading it with limits of 0 is no error: check the number of tensors with \
             limits.check(Limit::Tensors, count)? before allocating for it"
        );
    }
}

/// Probing a sample is sure, and probing foreign bytes under its names is not.
pub(crate) fn check_probe(codec: &dyn Codec, sample: &Sample, steps: &Steps) {
    let name = sample.name;
    match steps.run(&format_args!("{name}: probing it"), || codec.probe(&sample.input())) {
        Ok(Match::Certain(_)) if !sample.headerless => {}
        Ok(Match::Possible(_)) if sample.headerless => {}
        other => {
            let expected = if sample.headerless { "Possible" } else { "Certain" };
            panic!("{name}: probing gives {other:?} instead of {expected}")
        }
    }
    for bytes in FOREIGN {
        let files = sample.files.keys().map(|file| (file.clone(), bytes.to_vec())).collect();
        check_foreign(codec, &sample.input_of(files), bytes, steps);
    }
}

/// Foreign bytes are refused.
pub(crate) fn check_foreign(codec: &dyn Codec, input: &Input, bytes: &[u8], steps: &Steps) {
    let id = codec.info().id;
    let what = format!("foreign bytes {} in '{}'", shown(bytes), input.entry());
    if let Ok(Match::Certain(why)) = steps.run(&format_args!("probing {what}"), || codec.probe(input)) {
        panic!("{what} are taken for {id}: {why}");
    }
    let read = steps.run(&format_args!("reading {what}"), || read(codec, input, &[]));
    assert!(read.is_err(), "{what} are read as {id}");
}

/// Files that are cut, missing, or followed by bytes are refused.
pub(crate) fn check_lengths(codec: &dyn Codec, sample: &Sample, reading: &Reading, steps: &Steps) {
    for (file, bytes) in &sample.files {
        for len in positions(bytes.len()) {
            let files = sample.with_file(file, bytes[..len].to_vec());
            let what = format!("{file} cut to {len} of {} bytes", bytes.len());
            check_refusal(codec, sample, files, &what, steps);
        }
        let mut files = sample.files.clone();
        files.remove(file);
        let what = format!("the checkpoint without {file}");
        let rest = steps.run(&format_args!("{}: {what}", sample.name), || {
            read(codec, &sample.input_of(files.clone()), &sample.read)
        });
        if !rest.is_ok_and(|(rest, _)| rest.checkpoint.tensors == reading.0.checkpoint.tensors) {
            check_refusal(codec, sample, files, &what, steps);
        }
        for more in [&b"\0"[..], &[0; 64], b"more bytes"] {
            let files = sample.with_file(file, [bytes, more].concat());
            let what = format!("{file} followed by {} bytes {:02x?}", more.len(), &more[..1]);
            if sample.open_ended.contains_key(file) {
                check_open_end(codec, sample, reading, files, &what, steps);
            } else {
                check_refusal(codec, sample, files, &what, steps);
            }
        }
    }
}

fn check_refusal(
    codec: &dyn Codec,
    sample: &Sample,
    files: BTreeMap<String, Vec<u8>>,
    what: &str,
    steps: &Steps,
) {
    let name = sample.name;
    let input = sample.input_of(files);
    let result = steps.run(&format_args!("{name}: {what}"), || {
        let _ = codec.probe(&input);
        read(codec, &input, &sample.read)
    });
    let Err(error) = result else { panic!("{name}: {what} is accepted") };
    let named = error.context().file.is_some();
    assert!(named, "{name}: {what}: the error does not say which file: {error}");
}

fn check_open_end(
    codec: &dyn Codec,
    sample: &Sample,
    (contents, values): &Reading,
    files: BTreeMap<String, Vec<u8>>,
    what: &str,
    steps: &Steps,
) {
    let name = sample.name;
    let again =
        steps.run(&format_args!("{name}: {what}"), || read(codec, &sample.input_of(files), &sample.read));
    if let Ok((again, same)) = again {
        let unchanged = again.checkpoint.tensors == contents.checkpoint.tensors && same == *values;
        assert!(unchanged, "{name}: {what} is accepted and changes what is read");
    }
}

/// Every position of the first 4 KiB, then steps that grow with the file, and the last 64.
fn positions(len: usize) -> impl Iterator<Item = usize> {
    let step = (len / 512).max(1);
    (0..len.min(4096)).chain((4096..len).step_by(step)).chain(len.saturating_sub(64).max(4096)..len)
}

/// A change of a file at one position.
enum Change {
    /// The bits that one byte changes.
    Flip(u8),
    /// The number of bytes whose order is reversed.
    Swap(usize),
}

impl Change {
    const ALL: [Change; 6] = [
        Change::Flip(0x01),
        Change::Flip(0x80),
        Change::Flip(0xff),
        Change::Swap(2),
        Change::Swap(4),
        Change::Swap(8),
    ];

    /// The changed bytes; `None` if they stay the same.
    fn applied(&self, bytes: &[u8], position: usize) -> Option<Vec<u8>> {
        let mut changed = bytes.to_vec();
        match self {
            Change::Flip(bits) => *changed.get_mut(position)? ^= bits,
            Change::Swap(len) => changed.get_mut(position..position + len)?.reverse(),
        }
        (changed != bytes).then_some(changed)
    }

    fn describe(&self, bytes: &[u8], changed: &[u8], file: &str, position: usize) -> String {
        match self {
            Change::Flip(_) => format!(
                "byte {position} of {file} changed from {:#04x} to {:#04x}",
                bytes[position], changed[position]
            ),
            Change::Swap(len) => format!(
                "the {len} bytes from byte {position} of {file} reversed, from {:02x?} to {:02x?}",
                &bytes[position..position + len],
                &changed[position..position + len]
            ),
        }
    }
}

/// Every byte matters: a changed file is refused or read as something else, without a panic and in little memory.
pub(crate) fn check_changes(codec: &dyn Codec, sample: &Sample, reading: &Reading, steps: &Steps) {
    let info = codec.info();
    let options = Options::parse(info.id, info.options, Side::Read, &sample.read)
        .unwrap_or_else(|error| panic!("{}: its options are refused: {error}", sample.name));
    for (file, bytes) in &sample.files {
        for position in positions(bytes.len()) {
            for change in Change::ALL {
                let Some(changed) = change.applied(bytes, position) else { continue };
                let what = format!("{}: {}", sample.name, change.describe(bytes, &changed, file, position));
                let input = sample.input_of(sample.with_file(file, changed));
                // Without values: what the kit allocates for them is not the codec's doing.
                let opened = steps.run_small(&what, || {
                    let _ = codec.probe(&input);
                    codec.read(&input, &options, &Limits::default())
                });
                let Ok(contents) = opened else { continue };
                let Ok(values) = steps.run(&what, || values(&input, &contents)) else { continue };
                let again = (contents, values);
                check_changed(codec, sample, &again, &what, steps);
                let flipped = matches!(change, Change::Flip(_));
                assert!(
                    !flipped || again != *reading || sample.ignores(file, position),
                    "{what}, and nothing else changes: check these bytes, or say with Sample::ignoring why a reader \
                     ignores them"
                );
            }
        }
    }
}

/// Offsets that a file states are compared: where one tensor's is replaced by another's, they would overlap.
pub(crate) fn check_places(codec: &dyn Codec, sample: &Sample, (contents, _): &Reading, steps: &Steps) {
    let firsts = contents.placements.iter().filter_map(|placement| placement.extents.first());
    let mut offsets: Vec<u64> = firsts.filter(|extent| extent.len > 0).map(|extent| extent.offset).collect();
    offsets.sort_unstable();
    offsets.truncate(16);
    let Some(base) = offsets.first().copied() else { return };
    for (from, to) in offsets.iter().flat_map(|from| offsets.iter().map(move |to| (*from, *to))) {
        // Formats count from the beginning of the file or of the data.
        for (from, to) in [(from, to), (from - base, to - base)] {
            for (from, to) in encodings(from).into_iter().zip(encodings(to)) {
                check_place(codec, sample, (&from, &to), steps);
            }
        }
    }
}

/// A number in 4 and 8 bytes, little- and big-endian.
fn encodings(number: u64) -> [Vec<u8>; 4] {
    let short = u32::try_from(number).unwrap_or(u32::MAX);
    [
        number.to_le_bytes().to_vec(),
        number.to_be_bytes().to_vec(),
        short.to_le_bytes().to_vec(),
        short.to_be_bytes().to_vec(),
    ]
}

/// Replaces one stored number by another, wherever it is.
fn check_place(codec: &dyn Codec, sample: &Sample, (from, to): (&[u8], &[u8]), steps: &Steps) {
    for (file, bytes) in sample.files.iter().filter(|_| from != to) {
        let head = bytes.get(..bytes.len().min(4096)).unwrap_or(bytes);
        for at in (0..head.len()).filter(|at| head[*at..].starts_with(from)).take(16) {
            let mut changed = bytes.clone();
            changed[at..at + to.len()].copy_from_slice(to);
            let what = format!(
                "{}: the bytes from {at} of {file}, which are an offset, changed from {from:02x?} to {to:02x?}",
                sample.name
            );
            let input = sample.input_of(sample.with_file(file, changed));
            if let Ok(again) = steps.run(&what, || read(codec, &input, &sample.read)) {
                check_changed(codec, sample, &again, &what, steps);
            }
        }
    }
}

/// What a changed file is read as keeps the contract, too.
fn check_changed(codec: &dyn Codec, sample: &Sample, (contents, _): &Reading, what: &str, steps: &Steps) {
    check_shared(sample, contents, what);
    if !codec.info().writes.is_empty() {
        let _: Result<_> =
            steps.run(&what, || place(codec, &contents.checkpoint, &sample.output, &sample.write));
    }
}
