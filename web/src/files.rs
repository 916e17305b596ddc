//! The files that the person chose, as an input of the engine.

use crate::host;
use crate::pages::Pages;
use crate::request::ChosenFile;
use ckpt::api::{Input, ReadAt};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A file that the person chose. The worker has it under a number.
#[derive(Debug)]
struct BrowserFile {
    number: u32,
    size: u64,
    identity: String,
    pages: Arc<Pages>,
}

impl ReadAt for BrowserFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.pages.read(self.number, self.size, offset, buffer, |offset, buffer| {
            host::read_input(self.number, offset, buffer)
        })
    }

    /// The browser refuses to read a file that has changed since it was chosen.
    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }
}

/// What is called `entry` among these files: a file, a directory, or what their names begin with. Files beside one that is in
/// a directory are found beside it.
pub(crate) fn input(files: Vec<ChosenFile>, entry: &str, pages: &Arc<Pages>) -> Input {
    let is_directory = files.iter().any(|file| is_below(&file.name, entry));
    let (directory, entry) = match entry.rsplit_once('/').filter(|_| !is_directory) {
        Some((directory, name)) => (directory, name),
        None => ("", entry),
    };
    let opened = files.into_iter().filter_map(|ChosenFile { number, name, size, modified }| {
        let name = match directory {
            "" => name,
            directory => name.strip_prefix(directory)?.strip_prefix('/')?.to_owned(),
        };
        let identity = format!("{number}-{size:x}-{modified}");
        let file = BrowserFile { number, size, identity, pages: pages.clone() };
        Some((name, Arc::new(file) as Arc<dyn ReadAt>))
    });
    let store: BTreeMap<String, Arc<dyn ReadAt>> = opened.collect();
    Input::within_store(Arc::new(store), entry)
}

fn is_below(name: &str, directory: &str) -> bool {
    name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Vec<ChosenFile> {
        let file = |(name, number): (&&str, u32)| ChosenFile {
            number,
            name: (*name).to_owned(),
            size: 1,
            modified: 0.0,
        };
        names.iter().zip(0..).map(file).collect()
    }

    #[test]
    fn an_entry_is_a_file_a_directory_or_a_beginning_of_names_and_has_what_is_beside_it() {
        let names = ["run/a.index", "run/a.data", "run/sub/b"];
        let open = |entry: &str| input(chosen(&names), entry, &Arc::default());
        let directory = open("run");
        assert!(directory.is_directory() && directory.has_file("sub/b"));
        assert_eq!(directory.display(""), "run");
        let file = open("run/a.index");
        assert!(file.is_file() && file.has_file("a.data") && file.entry() == "a.index");
        let beginning = open("run/a");
        assert!(!beginning.is_file() && beginning.has_file("a.data") && beginning.entry() == "a");
        assert_eq!(open("run/sub").list("").unwrap(), ["b"]);
    }
}
