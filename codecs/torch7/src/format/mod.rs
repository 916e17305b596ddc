//! Names of metadata, and what layers state by their class alone.

mod layers;

pub(crate) use layers::{axes, layer, role};

/// The format's id, and its namespace in metadata.
pub(crate) const ID: &str = "torch7";
/// The key under which metadata has the class of an object, after the object's name.
pub(crate) const CLASS: &str = "__typename";
