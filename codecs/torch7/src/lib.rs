//! Reads files of Torch7: `.t7`, as `torch.save` of Lua writes them, binary or ASCII.
//!
//! A file is one object: a tensor, a table, or a module of `nn`, which is a table with a class. Tensors are called by the keys
//! that lead to them, joined with dots: `modules.1.weight`. Numbers, texts and truth values beside them are metadata of the
//! namespace [`NAMESPACE`]. Functions of Lua are left out and never run. The layers of a network are its graph.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! // A tensor of two floats in ASCII: its class, 1 axis of 2 elements with stride 1 from element 1 of a storage of 2.
//! let file = "4\n1\n3\nV 1\n17\ntorch.FloatTensor\n1\n2\n1\n1\n4\n2\n3\nV 1\n18\ntorch.FloatStorage\n2\n0.5 -1.5\n";
//! let input = Input::memory("w.t7", [("w.t7".to_owned(), file.into())].into());
//! let contents = ckpt_torch7::Torch7.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].shape[..], [2]);
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod format;
mod graph;
mod read;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, Error, FormatInfo, Input, Limits, Match, Network, Options,
    OutputLayout, Result,
};
use ckpt_torch7_objects::DECIMAL;

/// Metadata namespace of what is beside the tensors.
pub const NAMESPACE: &str = format::ID;

/// The codec of the format `torch7`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torch7;

static INFO: FormatInfo = FormatInfo::new(format::ID, "Torch7 file (.t7)")
    .with_extensions(&["t7"])
    .with_reads(Network::ALL)
    .with_keeps(&[Aspect::Graph, Aspect::Axes]);

impl Codec for Torch7 {
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
        &[DECIMAL]
    }

    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
        Err(Error::unsupported("files of Torch7 are not written")
            .help("write npz or safetensors, which Python reads, or torch for PyTorch"))
    }
}
