//! Reads and writes PyTorch checkpoints: `.pt`, `.pth`, `.bin` and `.ckpt` files, and sets of them by their index.
//!
//! A checkpoint is a pickle, which in Python is a program. Here it is **data**: a machine over the opcodes makes a tree
//! of values, and calls, imports and opens nothing, whatever the pickle names. Calls that PyTorch writes for tensors are
//! recognized; other calls are values with a name, and are reported.
//!
//! **Files**: the zip archive of PyTorch 1.6 and later, TorchScript archives, the format before the zip archive, and the
//! tar archive before 0.4. Every CRC-32 of an archive is verified, which PyTorch does not.
//!
//! **Directories** of `torch.distributed.checkpoint`: the chunks that the ranks stored are put together as regions; values
//! that are no tensors are metadata. A directory without `.metadata`, or without some rank's file, is an error that names
//! what is missing. Directories of DeepSpeed's ZeRO (stages 1, 2 and 3): the parameters that the ranks cut and flattened,
//! and what the optimizer remembers of them.
//!
//! **Written** is what `torch.save` of PyTorch 2.8 and later writes, byte for byte: a plain state dict of all tensors, or
//! a set with an index; or, with the option `form`, a directory of `torch.distributed.checkpoint`. The pickle of a file
//! that was read is kept in the metadata (namespace `torch.zip`) if it makes nothing but tensors and plain values and does
//! not follow from the tensors, and is written again as it was while the tensors have their names, dtypes and shapes.
//! The file `.metadata` of a directory is kept likewise (namespace `torch.dcp`).
//!
//! **Names** are the keys of dicts and the indexes of lists, joined with dots: `optimizer.state.0.exp_avg`. A pickled
//! module has the names of its state dict. The option `root` reads one branch.
//!
//! **Metadata** of the namespace [`NAMESPACE`] is what is beside the tensors: numbers, texts, lists and dicts, under
//! their names.
//!
//! **Quantized tensors** are their integers, with the scales and zero points by which they stand for numbers
//! ([`ckpt_api::Affine`]).
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! // The format before the zip archive: four small pickles around that of an empty dict.
//! let file = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\
//!     \x80\x02}X\x0d\x00\x00\x00little_endian\x88s.\x80\x02}X\x05\x00\x00\x00epochK\x07s.\x80\x02].";
//! let input = Input::memory("m.pt", [("m.pt".to_owned(), file.to_vec())].into());
//! let contents = ckpt_torch::Torch.read(&input, &Options::default(), &Limits::default())?;
//! let epoch = contents.checkpoint.metadata.value(ckpt_torch::NAMESPACE, "epoch");
//! assert_eq!(epoch.and_then(|epoch| epoch.as_u64()), Some(7));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod container;
mod distributed;
mod format;
mod object;
mod read;
mod roles;
mod tensor;
mod write;
mod zero;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Literal, Match, Network,
    OptionKind, OptionSpec, Options, OutputLayout, Result, Side, Written,
};
use ckpt_containers::decoders::{DEFLATE, LATIN1};

/// Metadata namespace of what is beside the tensors.
pub const NAMESPACE: &str = format::ID;

/// The codec of the format `torch`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torch;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::lenient(
        "leave out tensors that cannot be represented and what dangerous calls would make, reporting each (default false)",
    ),
    OptionSpec::new(
        "root",
        OptionKind::Text,
        Side::Read,
        "read one branch: keys and indexes joined with dots, such as model or state_dict (default: everything)",
    ),
    OptionSpec::new(
        "form",
        OptionKind::Choice(&["file", "dcp"]),
        Side::Write,
        "write a file, or a directory of torch.distributed.checkpoint (default: dcp from such a directory to a name \
         without an ending, else file)",
    ),
    OptionSpec::new(
        "ranks",
        OptionKind::Count,
        Side::Write,
        "write a directory of torch.distributed.checkpoint with a file for each of so many ranks, which cut the tensors",
    ),
    OptionSpec::new(
        "shard_size",
        OptionKind::Size,
        Side::Write,
        "write a sharded set, or a directory of several files, if the tensors have more bytes than this (default: one file)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "PyTorch checkpoint (.pt, .pth, .bin, .ckpt)")
    .with_extensions(format::ENDINGS)
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&write::NATIVE)
    .with_keeps(&[Aspect::Roles, Aspect::Slots, Aspect::Scales])
    .with_free_names()
    .with_framework("pt")
    .with_options(OPTIONS);

impl Codec for Torch {
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
        &[DEFLATE, LATIN1]
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        write::finish(placed, written)
    }
}
