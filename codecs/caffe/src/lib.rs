//! Reads models of Caffe: the blobs of a `.caffemodel`, and the graph of a `.prototxt`.
//!
//! A `.caffemodel` is a message of protocol buffers, whose layers have blobs: those of today, and those of 2014. Blob `K` of a layer is
//! the tensor `LAYER/K`. The text of a `.prototxt`, beside the model or named by the option `net`, states what the layers
//! compute. A model that was read is written again with these values or others.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! let blob = b"\x3a\x03\x0a\x01\x01\x2a\x04\x00\x00\x80\x3f"; // shape [1], data 1.0
//! let layer = [b"\x0a\x01s\x12\x05Scale\x3a\x0b", &blob[..]].concat();
//! let file = [&[0xa2, 0x06, layer.len() as u8], &layer[..]].concat();
//! let input = Input::memory("m.caffemodel", [("m.caffemodel".to_owned(), file)].into());
//! let contents = ckpt_caffe::Caffe.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].name, "s/0");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod graph;
mod read;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, DType, Decoder, FormatInfo, Input, Limits, Match, Network,
    OptionKind, OptionSpec, Options, OutputLayout, Result, Side,
};
use ckpt_containers::decoders::PROTOBUF;

/// The codec of the format `caffe`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caffe;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        format::NET,
        OptionKind::Text,
        Side::Read,
        "the .prototxt with the layers: a name beside the model, or a path (default: the model's name, or deploy.prototxt)",
    ),
    OptionSpec::new(
        format::LIKE,
        OptionKind::Text,
        Side::Write,
        "a .caffemodel whose values are replaced (default: the one that was read)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "Caffe model (.caffemodel)")
    .with_extensions(&["caffemodel"])
    .with_reads(Network::ALL)
    .with_writes(&[Network::OWN])
    .with_dtypes(&[DType::F32, DType::F64, DType::F16])
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_options(OPTIONS);

impl Codec for Caffe {
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
