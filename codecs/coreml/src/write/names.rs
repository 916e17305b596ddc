//! Names of results in a new program, and of files.

use crate::format::identifier;
use ckpt_graph::Names;

/// Gives each name an identifier of its own.
#[derive(Default)]
pub(super) struct Identifiers(Names);

impl Identifiers {
    pub(super) fn of(&mut self, name: &str) -> String {
        self.0.numbered(&identifier(name), '_')
    }
}

/// The name of a file in the folder that the output is; an empty name is the folder that the user named.
pub(super) fn below(folder: &str, path: &str) -> String {
    match folder.strip_suffix('/').unwrap_or(folder) {
        "" => path.to_owned(),
        folder => format!("{folder}/{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a hundred thousand names")]
    fn many_names_of_one_identifier_take_linear_time() {
        let mut names = Identifiers::default();
        let last = (0..100_000).map(|number| names.of(if number % 2 == 0 { "a.b" } else { "a/b" })).last();
        assert_eq!(last.as_deref(), Some("a_b_100000"));
    }
}
