//! Converts neural-network checkpoints between formats: in bounded memory, losing nothing silently.
//!
//! The entry points are [`Source::open`] (look into a checkpoint), [`Conversion::plan`] and [`Planned::execute`]
//! (convert one), [`inspect`](inspect::inspect), [`diff`](diff::diff) and [`digest`](digest::digest). Formats are
//! codecs; [`Registry::builtin`] has those that this build contains, and [`Formats::add`] takes any other that
//! implements [`Codec`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builtin;
#[cfg(feature = "cli")]
pub mod cli;
mod convert;
pub mod diff;
pub mod digest;
mod element;
mod execute;
mod foreign;
mod formats;
mod html;
pub mod inspect;
mod layout;
mod map;
pub mod mapping;
mod matrix;
mod memory;
mod natural;
pub mod pattern;
mod placeholder;
pub mod plan;
mod pytorch;
mod ranges;
pub mod receipt;
pub mod recipe;
mod registry;
mod resources;
mod scaled;
mod source;
pub mod store;
pub mod suggest;
mod template;
mod text_file;
pub mod transform;
#[cfg(feature = "forward")]
pub mod verify;
mod words;
mod writer;

pub use ckpt_api as api;
pub use ckpt_api::{Codec, Error, Kind, Result};
pub use convert::{
    Commit, Computed, Conversion, Execution, ItemReceipt, Phase, Planned, Resumed, Rounded, SideOptions,
    Summary, Verification, Verifier, VerifierSettings,
};
pub use element::Element;
pub use execute::{Progress, Rounding, Share, Sums};
pub use formats::{Architectures, Choices, Evidence, Formats, RegisteredMapping, UnreadFormats};
pub use matrix::{Matrix, Row};
pub use memory::View;
pub use placeholder::explain_file;
pub use plan::{Cloning, Plan, Policy};
pub use registry::Registry;
pub use resources::Resources;
pub use source::{ByteChunks, Chunks, ModelGraph, OpenOptions, Source, TensorRef};
pub use store::{Destination, IntoDestination, IntoInput};
pub use writer::Writer;

/// Opens a checkpoint with the built-in formats, and detects which it is. Reads headers only.
///
/// # Errors
/// Whatever keeps the input from being identified or read.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let model = ckpt::open("examples/data/digits")?;
/// assert_eq!(model.format(), "tf2");
/// # Ok(())
/// # }
/// ```
pub fn open(input: impl IntoInput) -> Result<Source> {
    open_with(input, &OpenOptions::default())
}

/// As [`open`], with options.
///
/// # Errors
/// As [`open`].
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let options = ckpt::OpenOptions::new().format("nn").set("activations", "relu,softmax");
/// assert!(ckpt::open_with("examples/data/digits", &options).is_err());
/// # Ok(())
/// # }
/// ```
pub fn open_with(input: impl IntoInput, options: &OpenOptions) -> Result<Source> {
    Source::open(&Registry::builtin(), input, options)
}

/// The built-in architecture of this name, such as `gpt2`, for [`OpenOptions::architecture`]. `None` where there is none;
/// [`architectures`] lists them.
///
/// ```
/// assert!(ckpt::architecture("gpt2").is_some() && ckpt::architecture("gpt9").is_none());
/// ```
pub fn architecture(name: &str) -> Option<api::ArchitectureFile> {
    Registry::builtin().architectures()?.file(name)
}

/// The names of the built-in architectures.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    Registry::builtin().architectures().map(formats::Architectures::names).into_iter().flatten()
}

/// Converts a checkpoint: the format of `input` is detected, and that of `output` follows from its name.
/// [`Conversion`] has everything that can be chosen.
///
/// # Errors
/// Those of [`Conversion::run`].
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let memory = ckpt::store::MemoryStore::new();
/// let summary = ckpt::convert("examples/data/digits", memory.at("digits.safetensors"))?;
/// assert_eq!(summary.tensors, 15);
/// # Ok(())
/// # }
/// ```
pub fn convert(input: impl IntoInput, output: impl IntoDestination) -> Result<Summary> {
    Conversion::default().run(input, output)
}

/// The pages of the guide that show Rust, whose examples are tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../docs/src/library.md")]
    mod library {}
    #[doc = include_str!("../docs/src/codec.md")]
    mod codec {}
}
