//! Names of results in a new program.

use crate::format::identifier;
use ckpt_graph::Names;

/// Gives each name an identifier of its own.
#[derive(Default)]
pub(super) struct Identifiers(Names);

impl Identifiers {
    pub(super) fn of(&mut self, name: &str) -> String {
        let own = identifier(name);
        if !self.0.has(&own) {
            return self.0.unused(&own);
        }
        let numbered = (1u64..).map(|number| format!("{own}_{number}")).find(|name| !self.0.has(name));
        self.0.unused(&numbered.unwrap_or(own))
    }
}
