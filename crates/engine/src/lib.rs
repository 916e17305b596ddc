//! The engine of `ckpt`: opens checkpoints, plans conversions and carries them out, in bounded memory.
//!
//! It knows codecs ([`ckpt_api::Codec`]), stores ([`store::Store`]) and the hooks of a [`Registry`], and no format by name. What
//! registers itself there is in crates of its own: mappings that are generated, architectures, the verifier. The crate `ckpt`
//! puts them together; programs use that one.
//!
//! # The stages of a conversion
//! | stage | module |
//! |---|---|
//! | open a checkpoint | [`source`] |
//! | select, rename and reorder tensors | [`mapping`], [`pattern`], [`recipe`], [`map`] |
//! | place them in the output | [`layout`] |
//! | divide the work | [`plan`] |
//! | run it | [`execute`], [`transform`] |
//! | give the output its name | [`store`], [`receipt`] |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod convert;
pub mod diff;
pub mod digest;
mod element;
pub mod execute;
pub mod formats;
pub mod layout;
pub mod map;
pub mod mapping;
mod matrix;
pub mod natural;
pub mod pattern;
mod placeholder;
pub mod plan;
pub mod ranges;
pub mod receipt;
pub mod recipe;
mod registry;
pub mod resources;
pub mod scaled;
pub mod settings;
pub mod source;
pub mod store;
pub mod text_file;
pub mod transform;
pub mod words;

pub use convert::{
    Commit, Computed, Conversion, Execution, ItemReceipt, Phase, Planned, Resumed, Rounded, SideOptions,
    Summary, Verification, Verifier, VerifierSettings, write_from_memory,
};
pub use element::Element;
pub use matrix::{Matrix, Row};
pub use placeholder::explain_file;
pub use registry::Registry;
