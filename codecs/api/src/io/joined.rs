//! The files of several stores as those of one.

use crate::{Error, ReadAt, ReadStore, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// What the names of the other stores' files begin with: a number and a slash follow.
const MARK: char = '+';

/// A store beside whose files those of others are found.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) first: Arc<dyn ReadStore>,
    pub(super) others: Vec<Arc<dyn ReadStore>>,
}

/// The name that a file of the other store with this number gets.
pub(super) fn name_of(number: usize, name: &str) -> String {
    format!("{MARK}{number}/{name}")
}

/// The number of a store and the name of its file, if this is the name of a file of another store.
pub(super) fn parse(name: &str) -> Option<(usize, &str)> {
    let (number, name) = name.strip_prefix(MARK)?.split_once('/')?;
    Some((number.parse().ok()?, name))
}

impl Joined {
    fn other<'n>(&self, name: &'n str) -> Option<(&dyn ReadStore, &'n str)> {
        let (number, name) = parse(name)?;
        Some((&**self.others.get(number)?, name))
    }
}

impl ReadStore for Joined {
    fn list(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.first.list(directory, most)
    }

    fn directories(&self, directory: &str, most: u64) -> Result<Vec<String>> {
        self.first.directories(directory, most)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        match self.other(name) {
            Some((other, name)) => other.open(name),
            None => self.first.open(name),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self.other(name) {
            Some((other, name)) => other.has(name),
            None => self.first.has(name),
        }
    }

    fn has_directory(&self, name: &str) -> bool {
        self.first.has_directory(name)
    }

    fn display(&self, name: &str) -> String {
        match self.other(name) {
            Some((other, name)) => other.display(name),
            None => self.first.display(name),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        match self.other(name) {
            Some((other, name)) => other.path(name),
            None => self.first.path(name),
        }
    }

    fn location(&self) -> Option<String> {
        self.first.location()
    }

    fn will_open(&self, names: &[String]) {
        let (others, own): (Vec<String>, Vec<String>) =
            names.iter().cloned().partition(|name| self.other(name).is_some());
        self.first.will_open(&own);
        for (number, other) in self.others.iter().enumerate() {
            let names = others.iter().filter_map(|name| parse(name).filter(|(of, _)| *of == number));
            let names: Vec<String> = names.map(|(_, name)| name.to_owned()).collect();
            if !names.is_empty() {
                other.will_open(&names);
            }
        }
    }

    fn forget(&self) {
        self.first.forget();
        self.others.iter().for_each(|other| other.forget());
    }

    fn reserve(&self, most: u64) -> u64 {
        let each = most / (self.others.len() as u64).saturating_add(1);
        let others = self.others.iter().map(|other| other.reserve(each));
        others.fold(self.first.reserve(each), u64::saturating_add)
    }
}

/// Refuses names of a store's own files that other stores' files could have.
///
/// # Errors
/// [`crate::Kind::Unsupported`].
pub(super) fn check_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<()> {
    match names.into_iter().find(|name| parse(name).is_some()) {
        Some(name) => Err(Error::unsupported("a file has a name that files of other checkpoints get")
            .found(format!("'{}'", name.escape_debug()))
            .help("rename its directory")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_such_a_name_itself_is_refused() {
        assert!(check_names(["a", "+a/b", "+1"]).is_ok());
        assert!(check_names(["a", "+1/b"]).is_err());
    }

    #[test]
    fn a_name_states_the_store_and_the_file() {
        assert_eq!(parse(&name_of(3, "sub/w")), Some((3, "sub/w")));
        assert!(parse("sub/w").is_none() && parse("+x/w").is_none() && parse("+3").is_none());
    }
}
