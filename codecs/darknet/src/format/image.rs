//! Shapes of values.

/// The shape of a value without its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) channels: u64,
    pub(crate) height: u64,
    pub(crate) width: u64,
}

impl Image {
    /// How many numbers the value has.
    pub(crate) fn numbers(&self) -> Option<u64> {
        self.channels.checked_mul(self.height)?.checked_mul(self.width)
    }
}
