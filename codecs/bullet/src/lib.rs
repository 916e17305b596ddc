//! Checkpoints and networks of bullet, the trainer of NNUE networks for chess engines.
//!
//! bullet's files hold numbers and little else. What they mean is said by an architecture file, or by a preset.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod architecture;
mod bind;
mod compare;
mod engine;
mod format;
mod graph;
mod layout;
mod parameter;
mod preset;
mod propose;
mod read;
mod records;
mod step;
mod write;

use ckpt_api::{
    ArchitectureFile, Checkpoint, Codec, Contents, DType, FormatInfo, Input, Limits, Match, Network, Op,
    OptionKind, OptionSpec, Options, Placed, Result, Side,
};

/// The codec.
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

static INFO: FormatInfo = FormatInfo {
    id: format::ID,
    title: "bullet checkpoint or network",
    extensions: &["bin", "nnue"],
    reads: &[Network::Nnue],
    writes: Network::ALL,
    dtypes: &[DType::F32, DType::I8, DType::I16, DType::I32],
    ops: &[
        Op::FeatureTransformer,
        Op::BucketedGemm,
        Op::Gemm,
        Op::Clip,
        Op::Relu,
        Op::Mul,
        Op::Add,
        Op::Concat,
        Op::Split,
    ],
    free_names: false,
    free_metadata: false,
    options: &[
        OptionSpec {
            name: "arch",
            kind: OptionKind::Text,
            side: Side::Both,
            help: "a preset in place of an architecture file, such as simple:768x32x1,buckets=8 (default: as read, or none)",
        },
        OptionSpec {
            name: "profile",
            kind: OptionKind::Text,
            side: Side::Both,
            help: "what the engine's file is like, in place of the architecture's 'engine': plain, multi-avx2 or multi-avx512",
        },
        OptionSpec {
            name: "content",
            kind: OptionKind::Choice(&["raw", "quantised", "state", "engine"]),
            side: Side::Both,
            help: "what a single file holds (default: by its name, its records, or its size; written: quantised, and an engine's file for .nnue where the architecture has one)",
        },
        OptionSpec {
            name: "integers",
            kind: OptionKind::Flag,
            side: Side::Read,
            help: "keep the integers of quantised.bin, with their scales (default false: the numbers that they stand for)",
        },
        OptionSpec {
            name: "check",
            kind: OptionKind::Flag,
            side: Side::Read,
            help: "of a directory, compare every number of raw.bin and quantised.bin with what the weights make (default false: their sizes)",
        },
        OptionSpec {
            name: "records",
            kind: OptionKind::Choice(&["current", "rows", "headerless"]),
            side: Side::Both,
            help: "form of the optimizer's files: rows was used from 2024-10 to 2025-02, headerless before (default: found by parsing; written: as read, or current)",
        },
        OptionSpec {
            name: "optimiser",
            kind: OptionKind::Choice(&["adamw", "radam", "ranger"]),
            side: Side::Read,
            help: "which files optimiser_state must have (default: momentum.bin and velocity.bin if either is there)",
        },
        OptionSpec {
            name: "parts",
            kind: OptionKind::List,
            side: Side::Write,
            help: "what a directory gets, of raw, quantised, state (default: as read, or all)",
        },
        OptionSpec {
            name: "padding",
            kind: OptionKind::Choice(&["bullet", "zero"]),
            side: Side::Write,
            help: "what fills quantised.bin up: zero is what bullet wrote before 2024-03-22 (default: as read, or bullet)",
        },
    ],
};

/// Checks an architecture file: that it is one of bullet's, and makes sense.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`], naming the layer or entry.
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
    architecture::Architecture::of(file).map(drop)
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

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed> {
        write::place(checkpoint, name, options)
    }
}
