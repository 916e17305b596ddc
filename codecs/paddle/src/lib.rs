//! Reads and writes checkpoints of PaddlePaddle (`.pdparams`, `.pdopt`) and parameters of its inference models
//! (`.pdiparams`).
//!
//! What `paddle.save` writes is a pickle of NumPy arrays, whose bytes stay where they are; nothing of it is run. An inference
//! model has records without names, which the program beside it names: `inference.json`, whose graph is read, too, or
//! `inference.pdmodel`.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! let record = [&[0; 16][..], &[4, 0, 0, 0, 8, 5, 16, 1], &[0; 4]].concat();
//! let input = Input::memory("m.pdiparams", [("m.pdiparams".to_owned(), record)].into());
//! assert!(matches!(ckpt_paddle::Paddle.probe(&input)?, Match::Certain(_)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod read;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Network, OptionKind, OptionSpec, Options,
    OutputLayout, Result, Side,
};

/// The codec of the format `paddle`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paddle;

static INFO: FormatInfo = FormatInfo::new(format::NAMESPACE, "PaddlePaddle checkpoint")
    .with_extensions(&["pdparams", "pdopt", "pdiparams"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_options(&[
        OptionSpec::new(
            format::OPTION_BF16,
            OptionKind::Flag,
            Side::Read,
            "read arrays of u16 as bf16, which paddle.save stores so without a mark (default: false)",
        ),
        OptionSpec::new(
            format::OPTION_PROGRAM,
            OptionKind::Text,
            Side::Read,
            "the file of the program beside the parameters (default: NAME.json or NAME.pdmodel for NAME.pdiparams)",
        ),
    ]);

impl Codec for Paddle {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name)
    }
}
