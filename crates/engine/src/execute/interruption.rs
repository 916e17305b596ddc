//! How a run is stopped.

use ckpt_api::Error;

/// The error of a run that was stopped from outside.
pub fn interrupted() -> Error {
    Error::io("interrupted", std::io::ErrorKind::Interrupted.into())
        .help("the output was not made; the source is unchanged")
}
