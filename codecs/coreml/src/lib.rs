//! Reads Core ML models: packages (`.mlpackage`) and single files (`.mlmodel`).
//!
//! The tensors are the constants of ML programs, and the weights of the layers of neural networks. Their bytes stay where
//! they are: in the model's file or in the package's `weight.bin`. Weights that are compressed (with scales, tables, blocks, or
//! behind a mask) are read as the numbers that they stand for.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! // Version 4, and a description whose first input is named "x".
//! let model = b"\x08\x04\x12\x05\x0a\x03\x0a\x01x".to_vec();
//! let input = Input::memory("m.mlmodel", [("m.mlmodel".to_owned(), model)].into());
//! assert!(matches!(ckpt_coreml::CoreMl.probe(&input)?, Match::Certain(_)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod decode;
mod format;
mod graph;
mod read;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Match, Network, Options,
    OutputLayout, Result,
};
use ckpt_containers::decoders::PROTOBUF;

/// The codec of the format `coreml`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreMl;

static INFO: FormatInfo = FormatInfo::new(format::NAMESPACE, "Core ML model")
    .with_extensions(&["mlmodel", "mlpackage"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_options(write::OPTIONS);

impl Codec for CoreMl {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, limits)
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        &[decode::WEIGHTS, PROTOBUF]
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }
}
