//! Keys of an index: bytes, and nearly always text that is a tensor's name, too.

use crate::key_text::{MAX_SHOWN, abbreviate, escape};
use ckpt_api::Name;
use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A key. It is bytes; one that is text shares it with the tensor's name.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    Text(Name),
    /// Bytes that are no UTF-8.
    Bytes(Box<[u8]>),
}

impl Key {
    /// The key as text, escaped if it is none.
    pub(crate) fn text(&self) -> Name {
        match self {
            Key::Text(name) => name.clone(),
            Key::Bytes(bytes) => escape(bytes).into(),
        }
    }

    /// The key as the name of a placement, for messages; cut where it is too long for one.
    pub(crate) fn name(&self) -> Name {
        match self {
            Key::Text(name) if name.len() <= MAX_SHOWN => name.clone(),
            _ => abbreviate(self).into(),
        }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => Key::Bytes(bytes.into()),
        }
    }
}

impl Deref for Key {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Key::Text(name) => name.as_bytes(),
            Key::Bytes(bytes) => bytes,
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Key::Text(Name::default())
    }
}

impl From<&Name> for Key {
    fn from(name: &Name) -> Self {
        Key::Text(name.clone())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key::Text(text.into())
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        bytes[..].into()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq<str> for Key {
    fn eq(&self, text: &str) -> bool {
        self[..] == *text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_bytes_whatever_it_is_made_of() {
        for bytes in [&b""[..], b"a/b", b"\xff\\"] {
            assert_eq!(&Key::from(bytes.to_vec())[..], bytes);
        }
        assert_eq!(Key::from("a"), Key::from(b"a".to_vec()));
        let (key, other) = (Key::from("a"), Key::from("b"));
        assert!(key == *"a" && key != *"b" && key != other);
    }

    #[test]
    fn the_name_of_a_key_is_its_text_but_not_all_of_a_long_one() {
        assert_eq!(Key::from("layer/weight").name(), "layer/weight");
        assert_eq!(Key::from(b"\xff".to_vec()).name(), "\\xff");
        let long = "k".repeat(1001);
        assert_eq!(Key::from(long.as_str()).name(), format!("{}…", "k".repeat(1000)));
    }
}
