//! What the graph returns of detection layers.

use crate::format::DETECTIONS;
use ckpt_api::Options;

/// What detection layers return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    Boxes,
    Maps,
}

impl Returned {
    /// What the options ask for.
    pub(crate) fn of(options: &Options) -> Self {
        if options.text(DETECTIONS) == Some("maps") { Returned::Maps } else { Returned::Boxes }
    }
}
