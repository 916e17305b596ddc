//! Messages on stderr that are no errors.

use super::render;
use indicatif::ProgressBar;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The progress bar that may be shown.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints a message, above the progress bar if one is shown. Ignores failures: they do not undo what was done.
pub(super) fn tell(text: &str) {
    let write = || {
        let _ = std::io::stderr().write_all(render::harmless(text, false).as_bytes());
    };
    match &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// From now on, this bar may be shown, or none.
pub(super) fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}
