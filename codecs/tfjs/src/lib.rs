//! Reads and writes models of TensorFlow.js: `model.json` and the shards with its weights.
//!
//! A model is a folder. `model.json` has the layers of Keras or the graph of TensorFlow, and a manifest: groups of weights,
//! each with the files whose concatenation has their bytes, one after the other, without padding. [`Tfjs`] reads the folder,
//! or the file that has the manifest, also that of TensorFlow.js 0.x (`weights_manifest.json`).
//!
//! Weights that are stored as 8-bit or 16-bit integers or as 16-bit floats are read as the numbers that TensorFlow.js
//! computes of them, bit for bit.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! let model = br#"{"modelTopology": {"node": []}, "weightsManifest": [
//!     {"paths": ["w.bin"], "weights": [{"name": "w", "shape": [2], "dtype": "float32"}]}]}"#;
//! let files = [("model.json".to_owned(), model.to_vec()), ("w.bin".to_owned(), vec![0; 8])];
//! let contents = ckpt_tfjs::Tfjs.read(&Input::memory("", files.into()), &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].name, "w");
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
    Aspect, Checkpoint, Codec, Contents, DType, Decoder, FormatInfo, Input, Limits, Match, Network,
    OptionKind, OptionSpec, Options, OutputLayout, Result, Side, Values,
};

/// The codec of the format `tfjs`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tfjs;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::lenient("ignore bytes after the last weight of a group, reporting each (default false)"),
    OptionSpec::new(
        format::HALVES,
        OptionKind::Choice(&["computed", "stored"]),
        Side::Read,
        "read weights of 16-bit floats as the 32-bit floats that TensorFlow.js computes with, or as they are stored (default computed)",
    ),
    OptionSpec::new(
        format::INTEGERS,
        OptionKind::Choice(&["computed", "stored"]),
        Side::Read,
        "read weights of integers with scales as the numbers that TensorFlow.js computes, or as they are stored (default computed)",
    ),
    OptionSpec::new(
        "shard_size",
        OptionKind::Size,
        Side::Write,
        "bytes of a shard, at most (default 4m, which browsers cache)",
    ),
    OptionSpec::new(
        write::CONTENT,
        OptionKind::Choice(&["layers", "graph", "weights"]),
        Side::Write,
        "layers for tf.loadLayersModel, a graph for tf.loadGraphModel, or the weights alone (default the first that TensorFlow.js has all operators for)",
    ),
    OptionSpec::new(
        format::QUANTIZE,
        OptionKind::Choice(&["float16", "uint8", "uint16"]),
        Side::Write,
        "store floats as 16-bit ones, or as integers with a scale for each weight; TensorFlow.js computes with 32-bit floats all the same",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "TensorFlow.js model")
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32, DType::I32, DType::Bool, DType::C64, DType::String])
    .with_free_names()
    .with_keeps(&[Aspect::Graph, Aspect::Axes, Aspect::Roles, Aspect::Slots])
    .with_own_quantization()
    .with_options(OPTIONS);

impl Codec for Tfjs {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        decode::ALL
    }

    fn prepare(
        &self,
        values: &dyn Values,
        contents: &Contents,
        options: &Options,
    ) -> Result<Option<Contents>> {
        write::prepare(values, contents, options)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }
}
