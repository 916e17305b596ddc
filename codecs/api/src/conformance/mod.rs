//! The checks that every codec's tests run, and the plain in-memory executor that they run on.
//!
//! ```text
//! let sample = Sample::new("two tensors", "model.toy", files);
//! ckpt_api::conformance::check(&Toy, &[sample]);
//! ```

mod memory;

pub use memory::{read, read_given, write};

use crate::{Codec, Contents, FormatInfo, Input, Limit, Limits, Match, Options, Side};
use memory::place;
use std::collections::BTreeMap;

/// A valid checkpoint of the codec's format, without unused bytes at the end of any file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// What it shows.
    pub name: &'static str,
    /// The file that a user would name; empty for the directory.
    pub entry: String,
    /// All files by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Options for reading.
    pub read: Vec<(String, String)>,
    /// Options for writing.
    pub write: Vec<(String, String)>,
    /// Name to write under.
    pub output: String,
    /// Whether the format has no sign of its own: then probing says [`Match::Possible`].
    pub headerless: bool,
}

impl Sample {
    /// A sample without options that is written under its own name.
    pub fn new(name: &'static str, entry: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        let (read, write, output) = (vec![], vec![], entry.to_owned());
        Sample { name, entry: entry.to_owned(), files, read, write, output, headerless: false }
    }

    /// The same with options for reading.
    #[must_use]
    pub fn with_read(mut self, read: Vec<(String, String)>) -> Self {
        self.read = read;
        self
    }

    /// The same with options for writing.
    #[must_use]
    pub fn with_write(mut self, write: Vec<(String, String)>) -> Self {
        self.write = write;
        self
    }

    /// The same, written under another name.
    #[must_use]
    pub fn with_output(mut self, output: impl Into<String>) -> Self {
        self.output = output.into();
        self
    }

    /// The same for a format without a sign of its own: probing gives [`Match::Possible`].
    #[must_use]
    pub fn headerless(mut self) -> Self {
        self.headerless = true;
        self
    }

    fn input(&self) -> Input {
        Input::memory(&self.entry, self.files.clone())
    }
}

/// Checks that a codec keeps the contract on its samples.
///
/// - What it says of itself is usable: an id, endings without a dot, options that differ and are explained.
/// - Probing a sample is [`Match::Certain`] ([`Match::Possible`] for a headerless one); probing foreign or empty bytes is not, whatever the files are called,
///   and reading them is an error; neither panics.
/// - Reading twice gives the same; reading with the lowest limits does not panic.
/// - Reading every truncation of every file is an error that names a file, and so is reading without a file, unless
///   the format can do without it: then nothing else changes.
/// - Reading a file with any one byte changed does not panic, nor does placing what is read from it.
/// - Where the codec writes: read → place → write → read gives the same checkpoint and values, twice the same bytes,
///   and no loss is declared that changes what the model computes.
///
/// # Panics
/// When the codec breaks one of them, saying which sample and rule.
pub fn check(codec: &dyn Codec, samples: &[Sample]) {
    assert!(!samples.is_empty(), "no samples given");
    check_info(codec.info());
    for bytes in FOREIGN {
        let files = BTreeMap::from([("foreign.bin".to_owned(), bytes.to_vec())]);
        check_foreign(codec, &Input::memory("foreign.bin", files), bytes);
    }
    for sample in samples {
        let (contents, values) = read(codec, &sample.input(), &sample.read)
            .unwrap_or_else(|error| panic!("{}: a valid sample is refused: {error}", sample.name));
        check_probe(codec, sample);
        check_reading_again(codec, sample, &contents);
        check_truncations(codec, sample, &contents);
        check_mutations(codec, sample);
        if !codec.info().writes.is_empty() {
            check_round_trip(codec, sample, &contents, &values);
        }
    }
}

fn check_info(info: &FormatInfo) {
    let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '.');
    assert!(plain(info.id), "'{}' is no usable id", info.id);
    assert!(!info.title.is_empty(), "{}: no title", info.id);
    for extension in info.extensions {
        assert!(!extension.is_empty() && !extension.starts_with('.'), "the ending '{extension}' has a dot");
    }
    for (k, option) in info.options.iter().enumerate() {
        assert!(
            !option.name.is_empty() && !option.help.is_empty(),
            "option '{}' is not explained",
            option.name
        );
        let again = info.options[..k].iter().any(|other| other.name == option.name);
        assert!(!again, "option '{}' is declared twice", option.name);
    }
}

const FOREIGN: [&[u8]; 6] =
    [b"", b"\0", b"hello, world\n", &[0xff; 64], &[0; 4096], b"PK\x03\x04 not a checkpoint, but an archive"];

fn check_foreign(codec: &dyn Codec, input: &Input, bytes: &[u8]) {
    let id = codec.info().id;
    if let Ok(Match::Certain(why)) = codec.probe(input) {
        panic!("foreign bytes {bytes:?} in '{}' are taken for {id}: {why}", input.entry());
    }
    assert!(
        read(codec, input, &[]).is_err(),
        "foreign bytes {bytes:?} in '{}' are read as {id}",
        input.entry()
    );
}

fn check_probe(codec: &dyn Codec, sample: &Sample) {
    match codec.probe(&sample.input()) {
        Ok(Match::Certain(_)) if !sample.headerless => {}
        Ok(Match::Possible(_)) if sample.headerless => {}
        other => {
            let expected = if sample.headerless { "Possible" } else { "Certain" };
            panic!("{}: probing gives {other:?} instead of {expected}", sample.name)
        }
    }
    for bytes in FOREIGN {
        let files = sample.files.keys().map(|name| (name.clone(), bytes.to_vec())).collect();
        check_foreign(codec, &Input::memory(&sample.entry, files), bytes);
    }
}

fn check_reading_again(codec: &dyn Codec, sample: &Sample, contents: &Contents) {
    let again = read(codec, &sample.input(), &sample.read);
    let same = again.is_ok_and(|(again, _)| again == *contents);
    assert!(same, "{}: reading twice gives different checkpoints", sample.name);
    let mut limits = Limits::default();
    for limit in Limit::ALL {
        limits.set(*limit, 0);
    }
    let info = codec.info();
    if let Ok(options) = Options::parse(info.id, info.options, Side::Read, &sample.read) {
        let _ = codec.read(&sample.input(), &options, &limits);
    }
}

fn check_truncations(codec: &dyn Codec, sample: &Sample, contents: &Contents) {
    for (file, bytes) in &sample.files {
        for len in positions(bytes.len()) {
            let mut files = sample.files.clone();
            files.insert(file.clone(), bytes[..len].to_vec());
            check_refusal(codec, sample, files, &format!("{file} cut to {len} of {} bytes", bytes.len()));
        }
        let mut files = sample.files.clone();
        files.remove(file);
        let rest = read(codec, &Input::memory(&sample.entry, files.clone()), &sample.read);
        if rest.is_ok_and(|(rest, _)| rest.checkpoint.tensors == contents.checkpoint.tensors) {
            continue;
        }
        check_refusal(codec, sample, files, &format!("the checkpoint without {file}"));
    }
}

fn check_refusal(codec: &dyn Codec, sample: &Sample, files: BTreeMap<String, Vec<u8>>, what: &str) {
    let input = Input::memory(&sample.entry, files);
    let _ = codec.probe(&input);
    let Err(error) = read(codec, &input, &sample.read) else {
        panic!("{}: {what} is accepted", sample.name);
    };
    assert!(
        error.context().file.is_some(),
        "{}: {what}: the error does not say which file: {error}",
        sample.name
    );
}

/// Every position of the first 4 KiB, then steps that grow with the file, and the last 64.
fn positions(len: usize) -> impl Iterator<Item = usize> {
    let step = (len / 512).max(1);
    (0..len.min(4096)).chain((4096..len).step_by(step)).chain(len.saturating_sub(64).max(4096)..len)
}

fn check_mutations(codec: &dyn Codec, sample: &Sample) {
    for (file, bytes) in &sample.files {
        for position in positions(bytes.len()) {
            for flip in [0x01, 0x80, 0xff] {
                let mut files = sample.files.clone();
                let mut changed = bytes.clone();
                changed[position] ^= flip;
                files.insert(file.clone(), changed);
                let input = Input::memory(&sample.entry, files);
                let _ = codec.probe(&input);
                if let (Ok((contents, _)), true) =
                    (read(codec, &input, &sample.read), !codec.info().writes.is_empty())
                {
                    let _ = place(codec, &contents.checkpoint, &sample.output, &sample.write);
                }
            }
        }
    }
}

fn check_round_trip(codec: &dyn Codec, sample: &Sample, contents: &Contents, values: &[Vec<u8>]) {
    let name = sample.name;
    let store = || {
        write(codec, &contents.checkpoint, values, &sample.output, &sample.write)
            .unwrap_or_else(|error| panic!("{name}: what was read cannot be written: {error}"))
    };
    let placed = place(codec, &contents.checkpoint, &sample.output, &sample.write);
    let losses = placed.map(|placed| placed.losses).unwrap_or_default();
    let lossy = losses.iter().find(|loss| loss.kind.changes_function());
    assert!(lossy.is_none(), "{name}: writing what was read declares a loss: {lossy:?}");
    let files = store();
    assert!(files == store(), "{name}: writing twice gives different bytes");
    let entry = if sample.files.contains_key(&sample.output) || !files.contains_key(&sample.entry) {
        &sample.output
    } else {
        &sample.entry
    };
    let (again, values_again) = read(codec, &Input::memory(entry, files), &sample.read)
        .unwrap_or_else(|error| panic!("{name}: what was written cannot be read: {error}"));
    assert_eq!(contents.checkpoint, again.checkpoint, "{name}: the checkpoint changed on the way");
    assert!(values == values_again, "{name}: the values changed on the way");
}
