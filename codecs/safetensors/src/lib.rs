//! safetensors files and sharded sets.
//!
//! Reads `*.safetensors`, a sharded set by its `*.safetensors.index.json`, and a directory that holds exactly one
//! of them; writes both. Headers are held to the rules of the `safetensors` crate; a file written here has, byte
//! for byte, the layout that the crate would write.
//!
//! # What goes where
//! - Pairs of strings in `__metadata__` are the metadata namespace [`NAMESPACE`]: read and written as they are. In
//!   a set every shard carries all of them.
//! - What safetensors cannot say (graph, metadata of other formats, axes, roles, quantization, the order of the
//!   tensors) is a JSON text under the key `ckpt`: in `__metadata__` of a single file, in `metadata` of a set's
//!   index. It is written only where there is something to say, and not at all with `metadata=none`.
//! - Other keys in `metadata` of an index are the namespace [`INDEX_NAMESPACE`]; `total_size` is computed.
//! - A dtype that safetensors lacks is stored as one that holds all its values exactly. The tensor is of that dtype
//!   from then on; its own metadata, namespace [`NAMESPACE`], key `logical_dtype`, keeps what it was.
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
mod format;
mod read;
mod write;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Network, OptionKind, OptionSpec,
    Options, OutputLayout, Result, Side,
};

/// Metadata namespace of the pairs in `__metadata__`.
pub const NAMESPACE: &str = "safetensors";
/// Metadata namespace of the keys in `metadata` of a sharded set's index.
pub const INDEX_NAMESPACE: &str = "safetensors.index";

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Safetensors;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "shard_size",
        OptionKind::Size,
        Side::Write,
        "write a sharded set if the tensors have more bytes than this (default: one file)",
    ),
    OptionSpec::new(
        "metadata",
        OptionKind::Choice(&["full", "none"]),
        Side::Write,
        "full (default) keeps graph, axes and other formats' metadata in the header; none writes what other tools \
         write",
    ),
    OptionSpec::new(
        "format",
        OptionKind::Choice(&["pt", "tf", "flax", "mlx"]),
        Side::Write,
        "framework to record in the header, such as pt; transformers opens only files that have one",
    ),
];

static INFO: FormatInfo = FormatInfo::new("safetensors", "safetensors file or sharded set")
    .with_extensions(&["safetensors"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_keeps(Aspect::ALL)
    .with_options(OPTIONS);

impl Codec for Safetensors {
    /// `ops` is empty: safetensors itself stores no graph; any graph is carried in the metadata.
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
