//! Reads and writes ONNX models: the graph, its tensors and its metadata.
//!
//! **Reading.** The tensors are the initializers of the main graph, and the weights in its `Constant` nodes under the
//! name of the node's output. Their bytes stay where they are: in the model or in the files of its external data, which
//! must be in the model's directory. The graph is read if every operator has a counterpart; else the checkpoint has
//! its tensors and the reason.
//!
//! **Writing.** A model that is unmodified since it was read is written again byte for byte: its structure, without the
//! tensors' bytes, is the metadata [`NAMESPACE`], key `model`. Any other checkpoint needs a graph, of which a new model
//! is made, in IR version 10 and operator set 21.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! // A graph named "g" with the initializer w = [1.5], IR version 10 and operator set 21.
//! let tensor = b"\x08\x01\x10\x01\x42\x01w\x4a\x04\x00\x00\xc0\x3f";
//! let graph = [b"\x12\x01g\x2a\x0d".as_slice(), tensor].concat();
//! let model = [b"\x08\x0a\x3a\x12".as_slice(), &graph, b"\x42\x02\x10\x15"].concat();
//! let input = Input::memory("m.onnx", [("m.onnx".to_owned(), model)].into());
//! let contents = ckpt_onnx::Onnx.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].name, "w");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod read;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Match, Network, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side,
};
use ckpt_containers::decoders::PROTOBUF;

pub use format::NAMESPACE;

/// The codec of the format `onnx`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Onnx;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::lenient(
        "leave out tensors of strings, reporting each; an ONNX model that is written keeps them (default false)",
    ),
    OptionSpec::new(
        "external_data",
        OptionKind::Size,
        Side::Write,
        "store tensors of at least this many bytes beside the model, in one file (default: only if the model would exceed \
         2 GiB)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(NAMESPACE, "ONNX model")
    .with_extensions(&["onnx"])
    .with_reads(Network::ALL)
    .with_writes(&[Network::DENSE, Network::CONVOLUTIONAL])
    .with_dtypes(&format::NATIVE)
    .with_ops(&write::OPS)
    .with_free_names()
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_options(OPTIONS);

impl Codec for Onnx {
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
        &[PROTOBUF]
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }
}
