//! Why a checkpoint has no chain of layers.

use ckpt_api::{Text, text};
use std::fmt::Display;

/// The reason why there is no chain, as a clause that names the operation or layer.
#[derive(Debug)]
pub struct NoChain {
    /// The reason.
    pub reason: Text,
    /// Whether the source leaves open what the layers are; otherwise the model has something that a chain cannot have.
    pub is_unstated: bool,
}

impl From<String> for NoChain {
    fn from(reason: String) -> Self {
        NoChain::unsupported(reason)
    }
}

impl NoChain {
    /// The model has something that a chain cannot have.
    pub fn unsupported(reason: impl Into<Text>) -> Self {
        NoChain { reason: reason.into(), is_unstated: false }
    }

    /// The source leaves open what the layers are.
    pub fn unstated(reason: impl Into<Text>) -> Self {
        NoChain { reason: reason.into(), is_unstated: true }
    }

    /// The same, with the file, layer or operation that the reason is about before it.
    pub fn of(self, place: impl Display) -> Self {
        NoChain { reason: text![format!("{place}: "), self.reason], ..self }
    }
}
