//! What tensors are for.

use serde::{Deserialize, Serialize};

/// What a tensor is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Takes part in the forward pass: losing it changes what the model computes.
    #[default]
    Weight,
    /// An optimizer's slot or hyper-parameter.
    Optimizer,
    /// A step, epoch or save counter.
    Counter,
    /// The format's own bookkeeping (an object graph).
    Bookkeeping,
    /// The same values stored a second time under another name, as Keras 3's export does.
    Duplicate,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 5] =
        [Role::Weight, Role::Optimizer, Role::Counter, Role::Bookkeeping, Role::Duplicate];

    /// The name used in JSON, in mappings and shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Role::Weight => "weight",
            Role::Optimizer => "optimizer",
            Role::Counter => "counter",
            Role::Bookkeeping => "bookkeeping",
            Role::Duplicate => "duplicate",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_one_name_everywhere() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{}\"", role.name()));
        }
    }
}
