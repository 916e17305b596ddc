//! The object that a pickle describes: its tensors by name, and its other values as metadata.

pub(crate) mod children;
mod counts;
pub(crate) mod dropped;
pub(crate) mod values;
pub(crate) mod walk;
