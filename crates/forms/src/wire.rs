//! The binary representation of forms.

use ckpt_api::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the forms. It changes with every change of a form that [`decode`] would read otherwise.
pub const VERSION: u32 = 2;

/// Serializes a form as [`decode`] reads it.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a value that has no JSON form, such as a state for finishing with a map whose keys are
/// no texts.
pub fn encode(form: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_allocvec(form).map_err(|error| {
        Error::unsupported("a value of a codec cannot be serialized")
            .found(error.to_string())
            .caused_by(error)
    })
}

/// Reads what [`encode`] wrote. Takes memory and time in proportion to the bytes.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for anything else.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let malformed = || Error::unsupported("a message of a codec is malformed");
    let (form, rest) = postcard::take_from_bytes(bytes)
        .map_err(|error| malformed().found(error.to_string()).caused_by(error))?;
    match rest.len() {
        0 => Ok(form),
        len => Err(malformed().found(format!("{} behind its end", ckpt_api::count(len, "byte")))),
    }
}
