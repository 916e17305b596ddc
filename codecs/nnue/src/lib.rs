//! Reads and writes the networks of Stockfish: `.nnue`, as the trainer `nnue-pytorch` exports them.
//!
//! A file has a version, a description, a feature transformer, and a stack of dense layers for each bucket. It states no
//! sizes: hashes tell them. Integers stay what they are, and arrays that are compressed with LEB128 are decoded while they
//! are read.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! let mut file = 0x6A44_8AFA_u32.to_le_bytes().to_vec();
//! file.extend([0; 12]);
//! let input = Input::memory("n.nnue", [("n.nnue".to_owned(), file)].into());
//! assert!(matches!(ckpt_nnue::Nnue.probe(&input)?, Match::Certain(_)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod leb128;
mod read;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, DType, Decoder, FormatInfo, Input, Limits, Match, Network, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side, Values,
};

/// The codec of the format `nnue`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nnue;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        format::WEIGHTS,
        OptionKind::Choice(&["integers", "numbers"]),
        Side::Read,
        "what tensors hold: the integers of the file, or the numbers that they stand for, in version 0x6a448afa (default integers)",
    ),
    OptionSpec::new(
        format::LEB128,
        OptionKind::Choice(&["values", "bytes"]),
        Side::Read,
        "what tensors of compressed arrays hold: their values, or the compressed bytes (default values)",
    ),
    OptionSpec::new(
        format::LAYERS,
        OptionKind::Text,
        Side::Both,
        "outputs of the first and second dense layer, as 32,32 (default: found by the hashes and the length of the file)",
    ),
    OptionSpec::new(
        format::INPUTS,
        OptionKind::Text,
        Side::Read,
        "features and neurons of a set that is not known, as 768x128: weights of 16 bits and piece-square values (default: known by the hash)",
    ),
    OptionSpec::new(
        format::COMPRESSION,
        OptionKind::Choice(&["leb128", "none"]),
        Side::Write,
        "how arrays of 16 and 32 bits of the transformer are stored (default: as they were read; otherwise it must be stated)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "Stockfish network (.nnue)")
    .with_reads(&[Network::new("nnue")])
    .with_writes(&[Network::OWN])
    .with_dtypes(&[DType::I8, DType::I16, DType::I32])
    .with_options(OPTIONS);

impl Codec for Nnue {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn prepare(
        &self,
        values: &dyn Values,
        contents: &Contents,
        options: &Options,
    ) -> Result<Option<Contents>> {
        write::prepare(values.input(), contents, options)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        leb128::ALL
    }
}
