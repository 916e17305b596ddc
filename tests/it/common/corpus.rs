//! The corpus, as its manifest lists it.

use ckpt_api::Input;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Manifest {
    case: Vec<Case>,
}

/// What one of its files, or folders, is, and what reading it must give.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub codec: String,
    pub outcome: String,
    /// What it shows.
    pub why: String,
    pub path: String,
    /// In a folder, what the user names; empty for all of it.
    pub entry: Option<String>,
    #[serde(default)]
    pub options: Vec<String>,
    told: Option<bool>,
    pub digest: Option<String>,
    pub kind: Option<String>,
    /// Of every file.
    pub sha256: BTreeMap<String, String>,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

pub fn manifest() -> Vec<Case> {
    let text = std::fs::read_to_string(root().join("manifest.toml")).unwrap();
    toml::from_str::<Manifest>(&text).unwrap().case
}

impl Case {
    /// What the user names.
    pub fn named(&self) -> PathBuf {
        let path = root().join(&self.path);
        match self.entry.as_deref() {
            None | Some("") => path,
            Some(entry) => path.join(entry),
        }
    }

    pub fn input(&self) -> ckpt_api::Result<Input> {
        Input::open(self.named())
    }

    /// Whether the content tells the format.
    pub fn is_told(&self) -> bool {
        self.told.unwrap_or(true)
    }

    pub fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.options.iter().filter_map(|option| option.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// With the format found from the content, or named where that does not tell.
    pub fn opening(&self) -> ckpt::OpenOptions {
        // The manifest states what the files store.
        let options = ckpt::OpenOptions::new().set_all(self.pairs()).parts(true);
        if self.is_told() { options } else { options.format(&self.codec) }
    }
}
