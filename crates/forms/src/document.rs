//! Values that are rare in a message, as JSON.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// A value that binary messages contain as its JSON, and others as it is.
///
/// The contract's types have a JSON form, which plans have, too. It says by name what each value is, so that a message is read
/// the same by a program that knows one more dtype.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document<T>(pub T);

impl<T: Serialize> Serialize for Document<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => self.0.serialize(serializer),
            false => serde_json::to_string(&self.0).map_err(S::Error::custom)?.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Document<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => T::deserialize(deserializer).map(Document),
            false => {
                let json = Cow::<'de, str>::deserialize(deserializer)?;
                serde_json::from_str(&json).map(Document).map_err(D::Error::custom)
            }
        }
    }
}

impl<T> From<T> for Document<T> {
    fn from(value: T) -> Self {
        Document(value)
    }
}
