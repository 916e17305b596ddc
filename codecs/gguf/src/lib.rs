//! Reads and writes GGUF files, as llama.cpp and its tools write them.
//!
//! The codec reads versions 2 and 3 in both byte orders, single files and split sets (`model-00001-of-00003.gguf`), and
//! writes both. Every key of the file is metadata, namespace `gguf`, with its own type and width; a file that was not
//! changed is written again byte for byte. Shapes are row-major: the reverse of the dimensions in the file.
//!
//! Tensors in blocks (`Q4_K`, `Q8_0`, …) are moved, hashed and compared as they are. A format without these blocks gets
//! the numbers that they stand for.
//!
//! What a file states outside its keys is the namespace `gguf.file`, if it differs from what the codec writes: `version`
//! (2), `endian` (`big`), `unpadded` (the file ends with its last tensor), `padding` (between the header and the data). Of
//! a tensor, `padding` is what follows it. Padding of zeros is not stated. A tensor whose shape the key
//! `comfy.gguf.orig_shape.NAME` states has its shape in the file as `shape`.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! let mut file = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
//! file.extend(b"\x01\0\0\0\0\0\0\0w\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
//! file.extend([0; 7 + 32]);
//! let input = Input::memory("m.gguf", [("m.gguf".to_owned(), file)].into());
//! let contents = ckpt_gguf::Gguf.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].name, "w");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod blocks;
mod encodings;
mod format;
mod header;
mod loadable;
mod metadata;
mod original;
mod padding;
mod read;
mod split;
mod types;
mod value;
mod write;

use ckpt_api::{
    Blocks, Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Network, OptionKind, OptionSpec,
    Options, OutputLayout, Result, Side,
};

/// The codec of the format `gguf`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gguf;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        types::TYPE,
        OptionKind::Choice(&types::NAMES),
        Side::Write,
        "type of floating-point tensors of two or more axes, or a mix of llama.cpp (default: as they are, blocks included)",
    ),
    OptionSpec::new(
        types::TYPES,
        OptionKind::Text,
        Side::Write,
        "TOML file of rules: patterns of names, each with the type of the tensors that it matches",
    ),
    OptionSpec::new(
        metadata::METADATA,
        OptionKind::Text,
        Side::Write,
        "JSON file of keys and values to add or replace; null removes a key",
    ),
    OptionSpec::new(
        metadata::LIKE,
        OptionKind::Text,
        Side::Write,
        "GGUF file whose keys and values the output gets, in place of the source's",
    ),
    OptionSpec::new(
        metadata::PRE,
        OptionKind::Text,
        Side::Write,
        "name of llama.cpp's pre-tokenizer for a tokenizer of byte pairs (default: by its regular expressions)",
    ),
    OptionSpec::new(
        metadata::BASE,
        OptionKind::Text,
        Side::Write,
        "of an adapter: the directory of the model that it changes, with its config.json",
    ),
    OptionSpec::new(
        write::SHARD_SIZE,
        OptionKind::Size,
        Side::Write,
        "write a split set if the tensors have more bytes than this (default: one file)",
    ),
    OptionSpec::lenient(
        "accept gaps between tensors and bytes after the last one, reporting each (default false)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "GGUF file or split set")
    .with_extensions(&["gguf"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_options(OPTIONS);

impl Codec for Gguf {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn block_encodings(&self) -> &'static [Blocks] {
        encodings::all()
    }
}
