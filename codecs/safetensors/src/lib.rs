//! Reads and writes safetensors files and sharded sets.
//!
//! The codec reads `*.safetensors`, a sharded set by its `*.safetensors.index.json`, and a directory that holds exactly
//! one of them. It writes both. Headers must follow the rules of the `safetensors` crate; a file that the codec writes
//! has, byte for byte, the layout that the crate would write.
//!
//! # What is stored where
//! - Pairs of strings in `__metadata__` are the metadata namespace [`NAMESPACE`]; they are preserved. In a set, every
//!   shard has all of them.
//! - What safetensors cannot store (graph, metadata of other formats, axes, roles, quantization, the order of the
//!   tensors) is a JSON text under the key `ckpt`: in `__metadata__` of a single file, in `metadata` of a set's index.
//!   The codec writes it only if there is something to store, and never with `metadata=none`.
//! - Other keys in `metadata` of an index are the namespace [`INDEX_NAMESPACE`]; `total_size` is computed.
//! - A tensor with a dtype that safetensors lacks is stored with a dtype that holds all its values exactly. Its own
//!   metadata, namespace [`NAMESPACE`], key `logical_dtype`, has the original one, which the tensor has again when it
//!   is read.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! let mut file = 56u64.to_le_bytes().to_vec();
//! file.extend(br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  "#);
//! file.extend([0; 8]);
//! let input = Input::memory("m.safetensors", [("m.safetensors".to_owned(), file)].into());
//! let contents = ckpt_safetensors::Safetensors.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].name, "w");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod carried;
mod dims;
mod format;
mod info;
mod read;
mod write;

pub use dims::Dims;
pub use format::{Entry, Header, INDEX_NAMESPACE, NAMESPACE, dtype};

use ckpt_api::{
    Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Options, OutputLayout, Result,
};
use info::INFO;

/// The codec of the format `safetensors`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Safetensors;

impl Codec for Safetensors {
    /// `ops` is empty, because safetensors itself stores no graph; the metadata carries any graph.
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }
}
