//! The answer of a store that has nothing staged.

use ckpt_api::Error;
use std::fmt;

/// Why an output can be neither committed nor discarded: its store has nothing that was staged for this plan. It is the
/// cause ([`std::error::Error::source`]) of the error that [`super::Store::stage`] returns under
/// [`super::StageMode::Existing`] then.
///
/// ```
/// use ckpt::store::NothingStaged;
/// let error = NothingStaged::error("m.npz");
/// assert!(NothingStaged::is_cause_of(&error));
/// assert!(!NothingStaged::is_cause_of(&ckpt::Error::usage("the output exists")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingStaged;

impl NothingStaged {
    /// The error about the output that people know as `name`.
    pub fn error(name: impl Into<String>) -> Error {
        Error::usage("no item of this plan has written anything yet")
            .file(name)
            .help("run the plan's items first; if they have run, what they wrote is gone or belongs to another plan")
            .caused_by(NothingStaged)
    }

    /// Whether this is why a call failed.
    pub fn is_cause_of(error: &Error) -> bool {
        std::error::Error::source(error).is_some_and(|cause| cause.is::<NothingStaged>())
    }
}

impl fmt::Display for NothingStaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing is staged")
    }
}

impl std::error::Error for NothingStaged {}
