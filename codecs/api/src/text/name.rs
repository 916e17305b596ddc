//! Names of tensors: text that many hold.

use arcstr::ArcStr;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

/// A tensor's name. It is text; a clone shares it, for a checkpoint can have a million tensors, and each one's name is in
/// the tensor, in its places on both sides and in an index. It is as large as a pointer.
///
/// ```
/// use ckpt_api::Name;
/// let name = Name::from("encoder.weight");
/// assert_eq!(name, "encoder.weight");
/// assert!(name.clone().ends_with(".weight"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(ArcStr);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Name(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Name(text.into())
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Box<str>> for Name {
    fn from(text: Box<str>) -> Self {
        Name(text.into())
    }
}

impl From<char> for Name {
    fn from(character: char) -> Self {
        (&*character.encode_utf8(&mut [0; 4])).into()
    }
}

impl From<Cow<'_, str>> for Name {
    fn from(text: Cow<'_, str>) -> Self {
        Name(text.into())
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Self {
        name.clone()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.to_string()
    }
}

impl From<&Name> for String {
    fn from(name: &Name) -> Self {
        name.to_string()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<Name> for str {
    fn eq(&self, other: &Name) -> bool {
        *self == **other
    }
}

impl PartialEq<Name> for &str {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl PartialEq<Name> for String {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Takes text without a copy between.
struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_the_text() {
        let name = Name::from(String::from("w"));
        assert!(ArcStr::ptr_eq(&name.0, &name.clone().0));
        assert_eq!(size_of::<Name>(), size_of::<usize>());
    }

    #[test]
    fn json_has_the_text() {
        let json = serde_json::to_string(&Name::from("a\"b")).unwrap();
        assert_eq!(json, r#""a\"b""#);
        assert_eq!(serde_json::from_str::<Name>(&json).unwrap(), "a\"b");
    }

    #[test]
    fn a_name_equals_its_text_from_either_side() {
        let name = Name::from("w");
        for (text, is_equal) in [(String::from("w"), true), (String::from("v"), false)] {
            let slice = text.as_str();
            assert_eq!((name == *slice, name == slice, name == text), (is_equal, is_equal, is_equal));
            assert_eq!((*slice == name, slice == name, text == name), (is_equal, is_equal, is_equal));
        }
    }
}
