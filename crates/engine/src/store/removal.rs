//! Removing the small files of a directory, in every store alike.

use super::Store;
use crate::resources::in_parallel;
use ckpt_api::Result;

/// Requests at once.
const AT_ONCE: usize = 16;

/// Removes all files directly in a directory of a store, and the directory if it is empty then. One that is not there is no
/// error.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let store = ckpt::store::MemoryStore::new();
/// store.put("receipts/0", b"done".to_vec());
/// ckpt::store::remove_files(&store, "receipts")?;
/// assert!(store.names().is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Store::remove`] and [`ckpt_api::ReadStore::list`].
pub fn remove_files(store: &dyn Store, directory: &str) -> Result<()> {
    if !store.has_directory(directory) {
        return Ok(());
    }
    let names = store.list(directory, u64::MAX)?;
    let numbers: Vec<usize> = (0..names.len()).collect();
    let name = |number: usize| names.get(number).map(|name| format!("{directory}/{name}"));
    in_parallel(&numbers, AT_ONCE, |number| name(number).map_or(Ok(()), |name| store.remove(&name)))?;
    store.remove(directory)
}

#[cfg(test)]
mod tests {
    use super::super::{LocalStore, MemoryStore};
    use super::*;
    use ckpt_api::Kind;

    /// Looks at what a store says of `remove`.
    fn removes(store: &dyn Store) {
        store.replace("kept", b"kept").unwrap();
        store.remove("none").unwrap();
        for name in ["none", "d"] {
            remove_files(store, name).unwrap();
        }
        store.replace("gone", b"gone").unwrap();
        assert!(store.has("gone"));
        let open = store.open("gone").unwrap();
        store.remove("gone").unwrap();
        assert!(!store.has("gone") && store.has("kept") && store.open("gone").is_err());
        assert_eq!(open.size().unwrap(), 4, "what was opened stays");
        store.remove("gone").unwrap();
        assert_eq!(store.list("", 9).unwrap(), ["kept"]);
    }

    /// Looks at what becomes of a directory, which is there.
    fn removes_directory(store: &dyn Store) {
        for name in ["d/a", "d/b", "d/below/c"] {
            store.replace(name, b"text").unwrap();
        }
        store.remove("d").unwrap();
        assert!(store.has("d/a"), "a directory that has something in it stays");
        remove_files(store, "d").unwrap();
        assert!(!store.has("d/a") && !store.has("d/b") && store.has("d/below/c"));
        remove_files(store, "d/below").unwrap();
        remove_files(store, "d").unwrap();
        assert!(!store.has_directory("d"));
    }

    #[test]
    fn a_store_in_memory_removes_files_and_what_is_not_there_is_no_error() {
        let store = MemoryStore::new();
        removes(&store);
        removes_directory(&store);
    }

    #[test]
    fn a_directory_of_this_machine_removes_files_within_it_and_empty_directories() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalStore::new(place.path());
        removes(&store);
        std::fs::create_dir_all(place.path().join("d/below")).unwrap();
        removes_directory(&store);
        store.remove("kept/below").unwrap();
        assert_eq!(store.remove("../kept").unwrap_err().kind(), Kind::Usage);
        assert!(place.path().join("kept").is_file());
    }
}
