//! Bytes that an architecture file states: an engine's header, or what stands between weights.

use serde::{Deserialize, Serialize};

/// Bytes, written as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct HexBytes(pub(crate) Vec<u8>);

impl HexBytes {
    /// The most bytes.
    pub(crate) const MAX_LEN: usize = 4096;
}

impl TryFrom<String> for HexBytes {
    type Error = String;

    fn try_from(digits: String) -> Result<Self, String> {
        let byte = |pair: &[u8; 2]| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
        };
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().take(Self::MAX_LEN + 1).map(byte).collect();
        bytes.filter(|bytes| rest.is_empty() && bytes.len() <= Self::MAX_LEN).map(HexBytes).ok_or_else(|| {
            format!("expected hexadecimal digits, two for each of at most {} bytes", Self::MAX_LEN)
        })
    }
}

impl From<HexBytes> for String {
    fn from(bytes: HexBytes) -> String {
        bytes.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
