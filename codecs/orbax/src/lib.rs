//! JAX checkpoints for `ckpt`, read without JAX or TensorStore: folders of Orbax, and files of Flax in msgpack.
//!
//! Orbax keeps arrays in a database (OCDBT) or in folders, as zarr 2 or zarr 3. [`Orbax`] reads the folder of an item, of a
//! step, or of all steps, of which it takes the newest. [`Flax`] reads `flax_model.msgpack` and `checkpoint_5`, and pickles of
//! JAX and NumPy arrays, of which nothing is run.
//!
//! ```
//! use ckpt_api::{Codec, Input, Match};
//! let input = Input::memory("", [("model.safetensors".to_owned(), Vec::new())].into());
//! assert_eq!(ckpt_orbax::Orbax.probe(&input)?, Match::No);
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod decode;
mod flax;
mod format;
mod msgpack;
mod ocdbt;
mod pickle;
mod read;
mod roles;
mod tree;
mod write;
mod zarr;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Match, Network, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side,
};

/// Parsers of parts of a checkpoint, for fuzzing.
pub mod parts {
    pub use crate::msgpack::parse_tree;
    pub use crate::ocdbt::{parse_manifest, parse_node};
    pub use crate::zarr::parse_array;
}

/// The codec of the format `orbax`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Orbax;

/// The codec of the format `flax`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flax;

const STEP: OptionSpec = OptionSpec::new(
    "step",
    OptionKind::Count,
    Side::Read,
    "the step to read from a folder of steps (default: the newest)",
);

const LENIENT: OptionSpec = OptionSpec::lenient(
    "leave out what a pickle holds beside arrays and plain values, reporting each (default false)",
);

const LAYOUT: OptionSpec = OptionSpec::new(
    write::LAYOUT,
    OptionKind::Choice(&["v0", "v1"]),
    Side::Write,
    "the API for whose layout is written: v0 (the default: zarr 2, no item) or v1 (zarr 3, in the item 'state')",
);

const CHUNK: OptionSpec = OptionSpec::new(
    write::CHUNK,
    OptionKind::Size,
    Side::Write,
    "bytes of a chunk, at most: larger tensors are cut (default: a chunk for each tensor)",
);

static ORBAX: FormatInfo = FormatInfo::new("orbax", "Orbax checkpoint of JAX")
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(format::dtype::STORED)
    .with_free_names()
    .with_keeps(&[Aspect::Roles, Aspect::Slots])
    .with_options(&[STEP, LAYOUT, CHUNK]);

static FLAX: FormatInfo = FormatInfo::new("flax", "JAX file: Flax msgpack, or a pickle of arrays")
    .with_extensions(&[flax::EXTENSION])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(format::dtype::STORED)
    .with_free_names()
    .with_directory_file(flax::HUB_FILE)
    .with_framework("flax")
    .with_keeps(&[Aspect::Roles, Aspect::Slots])
    .with_options(&[LENIENT, STEP]);

impl Codec for Orbax {
    fn info(&self) -> &FormatInfo {
        &ORBAX
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options)
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        decode::ALL
    }
}

impl Codec for Flax {
    fn info(&self) -> &FormatInfo {
        &FLAX
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        flax::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        flax::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        write::place_flax(checkpoint, name)
    }
}
