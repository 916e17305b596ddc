//! Paths of shards, which TensorFlow.js resolves as URLs beside the model's file.

use ckpt_api::{Error, Result};

/// The name of a file in the model's folder.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a path that leaves the folder, for an address, and for one that names nothing.
pub(super) fn file_name(path: &str) -> Result<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
    let is_address = parts.first().is_some_and(|first| first.contains(':'));
    let is_inside = !path.contains(['\0', '\\']) && !parts.iter().any(|part| matches!(*part, "" | ".."));
    if is_inside && !is_address && !parts.is_empty() {
        return Ok(parts.join("/"));
    }
    Err(Error::corrupt("a path of a shard leaves the model's folder, or names no file")
        .found(format!("'{}'", path.escape_debug()))
        .expected("a relative path without '..' and without an address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_or_name_nothing_are_refused() {
        for path in
            ["", ".", "/w.bin", "../w.bin", "a/../w.bin", "a//b", "a/", "w\0", "a\\b", "http://x/w", "C:w"]
        {
            assert!(file_name(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn the_folder_itself_may_be_named() {
        for (path, name) in [("./w.bin", "w.bin"), ("a/./w", "a/w"), ("group1-shard1of2", "group1-shard1of2")]
        {
            assert_eq!(file_name(path).unwrap(), name);
        }
    }
}
