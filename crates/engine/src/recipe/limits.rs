//! Bounds on what a step describes.

/// The number of axes that a step can name.
pub(crate) const MAX_AXES: usize = 64;
