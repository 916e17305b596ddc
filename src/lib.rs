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
mod foreign;
mod memory;
#[cfg(feature = "plugins")]
mod plugins;
mod registry;
mod writer;

pub use ckpt_api as api;
pub use ckpt_api::{Codec, Error, Kind, Result};
pub use ckpt_engine::execute::{Progress, Rounding, Share, Sums};
pub use ckpt_engine::formats::{Architectures, Choices, Evidence, Formats, RegisteredMapping, UnreadFormats};
pub use ckpt_engine::plan::{Cloning, Plan, Policy};
pub use ckpt_engine::resources::Resources;
pub use ckpt_engine::source::{ByteChunks, Chunks, ModelGraph, OpenOptions, Source, TensorRef};
pub use ckpt_engine::store::{Destination, IntoDestination, IntoInput};
pub use ckpt_engine::{
    Commit, Computed, Conversion, Element, Execution, ItemReceipt, Matrix, Phase, Planned, Resumed, Rounded,
    Row, SideOptions, Summary, Verification, Verifier, VerifierSettings, explain_file,
};
pub use ckpt_engine::{diff, digest, mapping, pattern, plan, receipt, recipe, transform};
pub use ckpt_inspect as inspect;
pub use ckpt_suggest as suggest;
#[cfg(feature = "forward")]
pub use ckpt_verify as verify;
pub use memory::View;
pub use registry::Registry;
pub use writer::Writer;

/// Stores: places that hold checkpoints, and that commit what is written all or nothing.
pub mod store {
    pub use ckpt_engine::store::*;
    #[cfg(feature = "remote")]
    pub use ckpt_remote::{
        Leftover, LeftoverKind, Leftovers, RemoteAddresses, RemoteOptions, RemoteStore, leftovers,
    };

    use crate::{Registry, Result};
    use std::path::Path;
    use std::sync::Arc;

    /// Opens the store at an address, as plans name it: a directory of this machine or, with the feature `remote`, of a
    /// remote store. Paths in a local one are shown, and kept in receipts, relative to the working directory if they are
    /// below it.
    ///
    /// # Errors
    /// Those of [`Addresses::open`].
    pub fn open(location: &str) -> Result<Arc<dyn Store>> {
        Registry::builtin().addresses().open(location)
    }

    /// The directory at a path of this machine, which `make` makes, or at an address, where none needs making.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let data = ckpt::store::directory("examples/data".as_ref(), false)?;
    /// assert!(data.has("README.md"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Addresses::directory`].
    pub fn directory(path: &Path, make: bool) -> Result<Arc<dyn Store>> {
        Registry::builtin().addresses().directory(path, make)
    }
}

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

/// The built-in architecture of this name, such as `gpt2`, for [`OpenOptions::architecture`]. `None` if there is none;
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
    Registry::builtin().architectures().map(Architectures::names).into_iter().flatten()
}

/// Converts a checkpoint: the format of `input` is detected, and that of `output` follows from its name.
/// [`convert_with`] takes what can be chosen.
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
    convert_with(input, output, &Conversion::default())
}

/// As [`convert`], with what `conversion` chooses.
///
/// # Errors
/// Those of [`Conversion::run`].
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let memory = ckpt::store::MemoryStore::new();
/// let half = ckpt::Conversion::new().dtype(ckpt::api::DType::F16);
/// let summary = ckpt::convert_with("examples/data/digits", memory.at("half.npz"), &half)?;
/// assert_eq!(summary.tensors, 15);
/// # Ok(())
/// # }
/// ```
pub fn convert_with(
    input: impl IntoInput,
    output: impl IntoDestination,
    conversion: &Conversion,
) -> Result<Summary> {
    conversion.run(&Registry::builtin(), input, output)
}

/// The pages of the guide that show Rust, whose examples are tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../docs/src/library.md")]
    mod library {}
    #[doc = include_str!("../docs/src/codec.md")]
    mod codec {}
}
