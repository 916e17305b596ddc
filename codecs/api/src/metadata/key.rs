//! Keys and namespaces.

use smallvec::SmallVec;

/// A short text. Up to 16 bytes take no allocation: there can be millions of tensors, each with a namespace and a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(SmallVec<[u8; 16]>);

impl Key {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn as_str(&self) -> &str {
        // It was made of a text.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl<T: AsRef<str>> From<T> for Key {
    fn from(text: T) -> Self {
        Key(SmallVec::from_slice(text.as_ref().as_bytes()))
    }
}
