//! Bytes as base64 text, for `#[serde(with = "ckpt_api::base64_text")]`.
//!
//! ```
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Key {
//!     #[serde(with = "ckpt_api::base64_text")]
//!     bytes: Vec<u8>,
//! }
//! ```

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Deserializer, Serializer};
use std::borrow::Cow;

/// Writes bytes as base64.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

/// Reads bytes from base64.
///
/// # Errors
/// Those of the deserializer, and an error for a text that is not base64.
pub fn deserialize<'de, D: Deserializer<'de>, B: From<Vec<u8>>>(deserializer: D) -> Result<B, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    BASE64_STANDARD.decode(&*text).map(B::from).map_err(serde::de::Error::custom)
}
