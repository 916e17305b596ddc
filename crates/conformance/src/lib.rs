//! The checks that every codec's tests run, and the plain in-memory executor that they run on.
//!
//! A [`Sample`] is a valid checkpoint with what it holds. [`check`] reads it, cuts it, changes every byte of it, writes
//! it again, and offers the codec what other formats hold.
//!
//! ```text
//! let sample = Sample::new("two numbers", "model.toy", files).floats("w", &[2], &[1.0, 2.0]);
//! ckpt_conformance::check(&Toy, &[sample]);
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod allocation;
mod blocks;
mod cases;
mod cast;
mod changed;
mod decoders;
mod foreign;
mod memory;
mod offers;
mod reading;
mod sample;
mod steps;
mod writing;

pub use cases::{Case, case_folder, cases, sha256};
pub use memory::{read, read_given, write};
pub use sample::{Expected, ExpectedTensor, Fact, Ignored, Sample};

use ckpt_api::{Codec, FormatInfo, Input};
use reading::FOREIGN;
use std::collections::BTreeMap;
use steps::Steps;

/// Checks that a codec keeps the contract on its samples.
///
/// - Its description is usable: an id, endings without a dot, options that differ and are explained.
/// - Probing a sample is [`Match::Certain`](ckpt_api::Match::Certain) ([`Match::Possible`](ckpt_api::Match::Possible) for a
///   headerless one). Probing foreign or empty bytes is not, whatever the files are called, and reading them is an
///   error.
/// - A sample has the tensors that it states: name, dtype, shape, value; and the axes, roles, scales and metadata that
///   it states. Reading it twice gives the same.
/// - Metadata stands under the format's own namespaces ([`FormatInfo::owns`]), unless the format keeps that of others.
/// - A file that is cut, missing, or followed by more bytes is an error that names a file. Exceptions: a file that the
///   format can do without, and [`Sample::open_ended`].
/// - A file with one byte changed, or with 2, 4 or 8 bytes reversed, is an error or another checkpoint
///   ([`Sample::ignoring`] names the bytes that do not matter). Reading it adds at most 256 MiB to the process's
///   memory.
/// - No two tensors have the same bytes ([`Sample::sharing`]), and all begin at multiples of [`Sample::aligned`].
/// - If the codec writes: read → place → write → read gives the same checkpoint and values, and the same files byte for
///   byte ([`Sample::rewritten`]), without a loss that changes what the model computes.
/// - If the codec writes: a checkpoint with other dtypes, special numbers, empty and scalar shapes, unusual names,
///   metadata, a graph, axes, roles, slots or scales is refused, comes back as far as the format keeps it
///   ([`FormatInfo::keeps`]), or its losses are declared, each with a kind and a subject that fit.
/// - Block encodings ([`Codec::block_encodings`]) have names of their own that begin with the
///   format's id. Each decodes any bytes. Each encoder gives a block the same bytes whatever is beside it.
/// - Decoders ([`Codec::decoders`]) have names of their own, and include those of all compressed extents.
/// - No step panics, and limits of 0 are errors.
///
/// # Where a failure is
/// Messages begin with the sample and the change. A codec that ends the process (an abort, a stack overflow, memory
/// that the system refuses) leaves them in a small file, whose path is printed at the start.
///
/// What a step adds to the process's memory is measured where `/proc/self/status` exists (Linux). Elsewhere only an
/// allocation that the system refuses is noticed.
///
/// # Panics
/// When the codec breaks a rule: with the sample, the change and the rule.
pub fn check(codec: &dyn Codec, samples: &[Sample]) {
    assert!(!samples.is_empty(), "no samples given");
    let info = codec.info();
    check_info(info);
    let steps = Steps::new(info.id);
    blocks::check_encodings(codec, &steps);
    decoders::check_names(codec);
    for bytes in FOREIGN {
        let files = BTreeMap::from([("foreign.bin".to_owned(), bytes.to_vec())]);
        reading::check_foreign(codec, &Input::memory("foreign.bin", files), bytes, &steps);
    }
    for sample in samples {
        let read = reading::check_sample(codec, sample, &steps);
        reading::check_probe(codec, sample, &steps);
        reading::check_lengths(codec, sample, &read, &steps);
        reading::check_changes(codec, sample, &read, &steps);
        reading::check_places(codec, sample, &read, &steps);
        if !info.writes.is_empty() {
            writing::check_round_trip(codec, sample, &read, &steps);
            foreign::check_foreign(codec, sample, &read, &steps);
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
