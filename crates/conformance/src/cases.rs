//! Files by other programs, each with what it holds, outside the repository.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of the directory that `CKPT_CASES` names; `None`, with a line on standard error, without it.
pub fn case_folder(folder: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES does not name the directory of files by other programs");
        return None;
    };
    Some(Path::new(&root).join(folder))
}

/// Every case in a folder of that directory, by name: its own directory, and what its `expected.json` states.
///
/// # Panics
/// For a case without a readable `expected.json`.
pub fn cases(folder: &str) -> Option<Vec<(PathBuf, Value)>> {
    let case = |path: PathBuf| {
        let text = fs::read_to_string(path.join("expected.json")).expect("a case states what it holds");
        (path, serde_json::from_str(&text).expect("expected.json is JSON"))
    };
    let folder = case_folder(folder)?;
    let entries = fs::read_dir(folder).expect("the folder of cases can be listed");
    let paths = entries.map(|entry| entry.expect("the folder of cases can be listed").path());
    let mut cases: Vec<(PathBuf, Value)> = paths.map(case).collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    Some(cases)
}
