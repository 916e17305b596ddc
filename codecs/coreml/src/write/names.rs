//! Names of results in a new program, and of files.

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

/// The name of a file in the folder that the output is; an empty name is the folder that the user named.
pub(super) fn below(folder: &str, path: &str) -> String {
    match folder.strip_suffix('/').unwrap_or(folder) {
        "" => path.to_owned(),
        folder => format!("{folder}/{path}"),
    }
}
