//! Reads and writes checkpoints and networks of bullet, a trainer of NNUE networks for chess engines.
//!
//! bullet's files store numbers and little else. An architecture file or a preset describes what the numbers are. The
//! package's README lists every file, option and rule.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod graph;
mod net;
mod ops;
mod preset;
mod profile;
mod read;
mod resolve;
mod step;
mod write;

use crate::format::{Content, ID, Padding, RecordForm};
use ckpt_api::{
    ArchitectureFile, Aspect, Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network,
    Op, OpSpec, OptionKind, OptionSpec, Options, OutputLayout, Result, Side,
};

/// The codec for bullet's files.
///
/// ```
/// use ckpt_api::{Codec, Input, Match};
/// let mut record = b"l0b\n".to_vec();
/// record.extend(1u64.to_le_bytes());
/// record.extend(0.5f32.to_le_bytes());
/// let input = Input::memory("weights.bin", [("weights.bin".to_owned(), record)].into());
/// assert!(matches!(ckpt_bullet::Bullet.probe(&input)?, Match::Certain(_)));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bullet;

/// An efficiently updatable neural network (NNUE) of a chess engine.
const NNUE: Network = Network::new("nnue");

const OPS: &[Op] = &[
    Op::custom(ops::FEATURE_TRANSFORMER),
    Op::custom(ops::BUCKETED_GEMM),
    Op::Gemm,
    Op::Clip,
    Op::Relu,
    Op::Mul,
    Op::Add,
    Op::Concat,
    Op::Split,
];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "arch",
        OptionKind::Text,
        Side::Both,
        "preset to use instead of an architecture file, such as simple:768x32x1,buckets=8 (default: reading, none; writing, the source's architecture)",
    ),
    OptionSpec::new(
        "profile",
        OptionKind::Text,
        Side::Both,
        "engine file to use instead of the architecture's 'engine': plain, multi-avx2 or multi-avx512",
    ),
    OptionSpec::new(
        "content",
        OptionKind::Choice(&Content::NAMES),
        Side::Both,
        "content of a single file (default: reading, recognized by name, records or size; writing, by name, else quantised, or engine for .nnue if the architecture describes one)",
    ),
    OptionSpec::new(
        "header",
        OptionKind::Count,
        Side::Read,
        "bytes at the beginning of quantised.bin that the net's SavedFormat puts there, kept as they are (default: those that the architecture states)",
    ),
    OptionSpec::new(
        "integers",
        OptionKind::Flag,
        Side::Read,
        "keep the integers of quantised.bin and their scales instead of the numbers that they stand for (default false)",
    ),
    OptionSpec::new(
        "check",
        OptionKind::Flag,
        Side::Read,
        "compare every number of a directory's raw.bin and quantised.bin with the weights, not only the sizes (default false)",
    ),
    OptionSpec::new(
        "records",
        OptionKind::Choice(&RecordForm::NAMES),
        Side::Both,
        "form of the optimizer's files: rows is from 2024-10 to 2025-02, headerless older (default: reading, recognized by parsing; writing, the source's, else current)",
    ),
    OptionSpec::new(
        "optimiser",
        OptionKind::Choice(&["adamw", "radam", "ranger"]),
        Side::Read,
        "optimizer whose files optimiser_state must have (default: momentum.bin and velocity.bin if it has one of them)",
    ),
    OptionSpec::new(
        "parts",
        OptionKind::List,
        Side::Write,
        "what to write into a directory: raw, quantised, state (default: the source's parts, else all)",
    ),
    OptionSpec::new(
        "padding",
        OptionKind::Choice(&Padding::NAMES),
        Side::Write,
        "padding of quantised.bin: bullet wrote zero before 2024-03-22 (default: the source's, else bullet)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(ID, "bullet checkpoint or network")
    .with_extensions(&["bin", "nnue"])
    .with_reads(&[NNUE])
    .with_writes(Network::ALL)
    .with_keeps(&[Aspect::Graph, Aspect::Axes, Aspect::Roles, Aspect::Slots, Aspect::Scales])
    .with_dtypes(&[DType::F32, DType::I8, DType::I16, DType::I32])
    .with_ops(OPS)
    .with_options(OPTIONS);

/// Checks that an architecture file is one for bullet and is consistent.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`], naming the layer or entry that is wrong.
///
/// ```
/// let json = r#"{
///     "format": "bullet",
///     "input": { "features": 768 },
///     "layers": [{ "size": 32, "activation": "screlu" }, { "size": 1 }],
///     "saved": [{ "id": "l0w", "type": "i16", "scale": 255, "round": true }, { "id": "l0b" }]
/// }"#;
/// ckpt_bullet::check_architecture(&ckpt_api::ArchitectureFile::from_json(json)?)?;
/// # Ok::<(), ckpt_api::Error>(())
/// ```
pub fn check_architecture(file: &ArchitectureFile) -> Result<()> {
    net::architecture::Architecture::from_file(file).map(drop)
}

impl Codec for Bullet {
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

    fn ops(&self) -> &'static [OpSpec] {
        &ops::SPECS
    }
}
