//! The checks that every codec's tests run, and the plain in-memory executor that they run on.
//!
//! ```ignore
//! let sample = Sample::new("two tensors", "model.toy", files);
//! ckpt_api::conformance::check(&Toy, &[sample]);
//! ```

mod memory;

pub use memory::{read, write};

use crate::{Codec, Contents, Input, Match};
use std::collections::BTreeMap;

/// A valid checkpoint of the codec's format, without unused bytes at the end of any file.
#[derive(Clone, Debug)]
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
}

impl Sample {
    /// A sample without options that is written under its own name.
    pub fn new(name: &'static str, entry: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        Sample { name, entry: entry.to_owned(), files, read: vec![], write: vec![], output: entry.to_owned() }
    }

    fn input(&self) -> Input {
        Input::memory(&self.entry, self.files.clone())
    }
}

/// Checks that a codec keeps the contract on its samples.
///
/// - Probing a sample is [`Match::Certain`]; probing foreign or empty bytes is not; neither panics.
/// - Reading every truncation of every file is an error.
/// - Reading a file with any one byte changed does not panic.
/// - Where the codec writes: read → place → write → read gives the same checkpoint and values, twice the same bytes.
///
/// # Panics
/// When the codec breaks one of them, saying which sample and rule.
pub fn check(codec: &dyn Codec, samples: &[Sample]) {
    assert!(!samples.is_empty(), "no samples given");
    check_foreign(codec);
    for sample in samples {
        let (contents, values) = read(codec, &sample.input(), &sample.read)
            .unwrap_or_else(|error| panic!("{}: a valid sample is refused: {error}", sample.name));
        check_probe(codec, sample);
        check_truncations(codec, sample);
        check_mutations(codec, sample);
        if codec.info().writes {
            check_round_trip(codec, sample, &contents, &values);
        }
    }
}

fn check_foreign(codec: &dyn Codec) {
    let foreign: [&[u8]; 6] = [
        b"",
        b"\0",
        b"hello, world\n",
        &[0xff; 64],
        &[0; 4096],
        b"PK\x03\x04 not a checkpoint, but an archive",
    ];
    for bytes in foreign {
        let files = BTreeMap::from([("foreign.bin".to_owned(), bytes.to_vec())]);
        let input = Input::memory("foreign.bin", files);
        if let Ok(Match::Certain(why)) = codec.probe(&input) {
            panic!("foreign bytes {bytes:?} are taken for {}: {why}", codec.info().id);
        }
        assert!(read(codec, &input, &[]).is_err(), "foreign bytes {bytes:?} are read as {}", codec.info().id);
    }
}

fn check_probe(codec: &dyn Codec, sample: &Sample) {
    match codec.probe(&sample.input()) {
        Ok(Match::Certain(_)) => {}
        other => panic!("{}: probing gives {other:?} instead of Certain", sample.name),
    }
}

fn check_truncations(codec: &dyn Codec, sample: &Sample) {
    for (file, bytes) in &sample.files {
        for len in positions(bytes.len()) {
            let mut files = sample.files.clone();
            files.insert(file.clone(), bytes[..len].to_vec());
            let input = Input::memory(&sample.entry, files);
            let _ = codec.probe(&input);
            assert!(
                read(codec, &input, &sample.read).is_err(),
                "{}: {file} cut to {len} of {} bytes is accepted",
                sample.name,
                bytes.len()
            );
        }
    }
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
                let _ = read(codec, &input, &sample.read);
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
    let files = store();
    assert!(files == store(), "{name}: writing twice gives different bytes");
    let entry = if sample.files.contains_key(&sample.output) || !files.contains_key(&sample.entry) {
        &sample.output
    } else {
        &sample.entry
    };
    let (again, values_again) = read(codec, &Input::memory(entry, files), &sample.read)
        .unwrap_or_else(|error| panic!("{name}: what was written cannot be read: {error}"));
    for tensor in &contents.checkpoint.tensors {
        assert!(
            again.checkpoint.tensor(&tensor.name).is_some() || !memory::fixed(tensor.dtype),
            "{name}: tensor '{}' is gone",
            tensor.name
        );
    }
    assert_eq!(contents.checkpoint, again.checkpoint, "{name}: the checkpoint changed on the way");
    assert!(values == values_again, "{name}: the values changed on the way");
}
