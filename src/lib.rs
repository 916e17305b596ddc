//! Converts neural-network checkpoints between formats: in bounded memory, losing nothing silently.
//!
//! The entry points are [`Source::open`] (look into a checkpoint), [`Conversion::plan`] and [`Planned::execute`]
//! (convert one), [`inspect`](inspect::inspect), [`diff`](diff::diff) and [`digest`](digest::digest). Formats are codecs; [`Registry::builtin`]
//! has those that this build contains, and [`Registry::add`] takes any other that implements [`Codec`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod convert;
pub mod diff;
pub mod digest;
mod execute;
mod foreign;
mod html;
pub mod inspect;
mod layout;
mod map;
pub mod mapping;
mod matrix;
pub mod pattern;
pub mod plan;
pub mod receipt;
pub mod recipe;
mod registry;
mod resources;
mod source;
pub mod store;
pub mod transform;
#[cfg(feature = "forward")]
pub mod verify;
mod words;

pub use ckpt_api as api;
pub use ckpt_api::{Codec, Error, Kind, Result};
pub use convert::{
    Commit, Computed, Conversion, Destination, Execution, IntoDestination, ItemReceipt, Planned, Resumed,
    Rounded, Summary, Verification,
};
pub use execute::{Progress, Rounding, Share, Sums};
pub use matrix::{Matrix, Row};
pub use plan::{Plan, Policy};
pub use registry::{Evidence, Registry};
pub use resources::Resources;
pub use source::{OpenOptions, Source};

/// The pages of the guide that show Rust, whose examples are tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../docs/src/library.md")]
    mod library {}
    #[doc = include_str!("../docs/src/codec.md")]
    mod codec {}
}
