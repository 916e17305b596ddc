//! How large the windows of frames may be.

use ckpt_api::Error;

/// The largest window of a frame, as a power of two: 8 MiB, which RFC 8878 recommends that every decoder supports.
pub(super) const LARGEST_WINDOW_LOG: u32 = 23;

pub(super) fn too_large_window() -> Error {
    Error::unsupported("the window of the compressed bytes is too large")
        .expected(format!("at most {} bytes", 1u64 << LARGEST_WINDOW_LOG))
        .help("compress them again without --ultra and --long")
}
