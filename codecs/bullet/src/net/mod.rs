//! The net: its layers, the weights they train, and how files store those weights.
//!
//! ```text
//! architecture file ─► Net (description, entry, engine) ─► Architecture (checked, with every Parameter)
//! Parameter   one trained matrix with named axes
//! Layout      the order in which an engine stores a parameter
//! Section     the bytes of one entry in raw.bin, quantised.bin or an engine file
//! ```

pub(crate) mod architecture;
pub(crate) mod bytes;
mod check;
mod copies;
pub(crate) mod description;
pub(crate) mod engine;
pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod parameter;
pub(crate) mod section;
pub(crate) mod sections;
