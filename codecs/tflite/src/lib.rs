//! Reads TensorFlow Lite models (LiteRT): tensors with their scales, metadata and signatures.
//!
//! The tensors are the constants of all subgraphs. Their bytes stay where they are, also behind the FlatBuffer in models
//! of more than 2 GB. Integers keep their scales and zero points; a float dtype makes numbers of them. Tensors of 4 and 2
//! bits and sparse tensors are read as what they stand for.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! let head = b"\x1c\0\0\0TFL3\0\0\0\0".to_vec();
//! let input = Input::memory("m.tflite", [("m.tflite".to_owned(), head)].into());
//! assert!(matches!(ckpt_tflite::Tflite.probe(&input)?, Match::Certain(_)));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod decode;
mod flat;
mod format;
mod graph;
mod read;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Match, Network, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side, Values,
};

/// The codec of the format `tflite`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tflite;

const OPTIONS: &[OptionSpec] = &[OptionSpec::new(
    write::QUANTIZE,
    OptionKind::Choice(&["int8"]),
    Side::Write,
    "store the weights of dense layers and convolutions from 1024 numbers on as integers with a scale for each channel",
)];

static INFO: FormatInfo = FormatInfo::new(format::NAMESPACE, "TensorFlow Lite model")
    .with_extensions(&["tflite", "lite"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_keeps(&[Aspect::Graph, Aspect::Axes, Aspect::Scales])
    .with_own_quantization()
    .with_options(OPTIONS);

impl Codec for Tflite {
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
        &[decode::SPARSE]
    }

    fn prepare(
        &self,
        values: &dyn Values,
        contents: &Contents,
        options: &Options,
    ) -> Result<Option<Contents>> {
        write::prepare(values, contents, options)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name)
    }
}
