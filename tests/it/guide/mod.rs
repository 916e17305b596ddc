//! The guide and the README keep their word: every command gives what is shown, every file that a page shows is the
//! one that its commands use, every link leads somewhere, and every error that is explained exists.
//!
//! `CKPT_GUIDE=write cargo test --test it guide` puts what commands give now in place of what is shown.

mod commands;
mod links;
mod page;
mod reference;

use std::path::{Path, PathBuf};

/// The repository.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The README and every page of the guide, sorted.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join("docs/src")).unwrap();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(Path::new(ROOT).join("README.md"));
    pages.sort();
    assert!(pages.len() > 20, "{} pages", pages.len());
    pages
}
