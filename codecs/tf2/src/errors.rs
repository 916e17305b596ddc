//! Errors that several modules report.

use ckpt_api::Error;

/// Advice for a damaged file.
pub(crate) const COPY_AGAIN: &str = "the file is damaged: copy it again";

/// An error for bytes whose checksum is not the stored one.
pub(crate) fn checksum_mismatch(message: &str, computed: u32, stored: u32) -> Error {
    Error::corrupt(message)
        .found(format!("{computed:#010x} computed"))
        .expected(format!("{stored:#010x} stored"))
        .help(COPY_AGAIN)
}
