//! Files by other programs, each with what it holds, outside the repository.

use crate::memory::read;
use ckpt_api::{Codec, Contents, Error, Input, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file or directory by another program, with what it holds.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// What is opened.
    pub path: PathBuf,
    /// What its `expected.json` states.
    pub expected: Value,
}

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

impl Case {
    /// Every case in a folder of the directory that `CKPT_CASES` names, by name; `None`, with a line on standard error, without it.
    ///
    /// # Panics
    /// As [`cases`], and for a case that does not state what is opened.
    pub fn all(folder: &str) -> Option<Vec<Case>> {
        let case = |(path, expected): (PathBuf, Value)| Case {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.join(expected["open"].as_str().expect("a case states what is opened")),
            expected,
        };
        Some(cases(folder)?.into_iter().map(case).collect())
    }

    /// What must come of reading: `ok`, `refuse`, or `ok-or-refuse`.
    ///
    /// # Panics
    /// If the case does not state it.
    pub fn expect(&self) -> &str {
        self.expected["expect"].as_str().expect("a case states what comes of it")
    }

    /// Reads it with every value.
    ///
    /// # Errors
    /// Those of the codec, and of the file system.
    pub fn read(&self, codec: &dyn Codec) -> Result<(Contents, Vec<Vec<u8>>)> {
        read(codec, &Input::open(&self.path)?, &[])
    }

    /// How the tensors differ from those that the case states: their names, dtypes, shapes, and hashes of their values. One with
    /// `sha256_f32` is of 32-bit floats; an `optional` one may be missing.
    ///
    /// # Panics
    /// If the case does not state its tensors as others do.
    pub fn differences(&self, contents: &Contents, values: &[Vec<u8>]) -> Vec<String> {
        let tensors = contents.checkpoint.tensors.iter().zip(values);
        let mut found: BTreeMap<&str, _> = tensors.map(|pair| (pair.0.name.as_str(), pair)).collect();
        let mut wrong = Vec::new();
        for stated in self.expected["tensors"].as_array().expect("a case states its tensors") {
            let text = |key: &str| stated[key].as_str().expect("a tensor is stated with texts");
            let name = text("name");
            let Some((own, value)) = found.remove(name) else {
                wrong.extend((stated["optional"] != true).then(|| format!("'{name}' is missing")));
                continue;
            };
            let shape: Vec<u64> =
                serde_json::from_value(stated["shape"].clone()).expect("a tensor is stated with its shape");
            let (dtype, hash) = match stated.get("sha256_f32") {
                Some(_) => ("f32".to_owned(), text("sha256_f32")),
                None => (text("dtype").to_lowercase(), text("sha256")),
            };
            if own.dtype.name() != dtype || own.shape[..] != shape[..] {
                wrong.push(format!("'{name}' is {} {}", own.dtype, own.shape));
            } else if sha256(value) != hash {
                wrong.push(format!("'{name}' has other values"));
            }
        }
        wrong.extend(found.keys().map(|name| format!("'{name}' is not stated")));
        wrong
    }

    /// Reads every case, and checks what comes of it: `read` says what is wrong with what was read, `told` whether an error says
    /// enough. Returns how many came to what, as `ok: read`.
    ///
    /// # Panics
    /// If anything is wrong, with the names of the cases.
    pub fn try_all(
        cases: &[Case],
        codec: &dyn Codec,
        mut read: impl FnMut(&Case, &Contents, &[Vec<u8>]) -> Vec<String>,
        told: impl Fn(&Error) -> bool,
    ) -> BTreeMap<String, usize> {
        let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
        for case in cases {
            let outcome = case.read(codec);
            let word = if outcome.is_ok() { "read" } else { "refused" };
            *seen.entry(format!("{}: {word}", case.expect())).or_default() += 1;
            let said = match (&outcome, case.expect()) {
                (Err(error), "ok") => vec![error.to_string()],
                (Ok(_), "refuse") => vec![format!("read, though {}", case.expected["why"])],
                (Ok((contents, values)), _) => read(case, contents, values),
                (Err(error), _) if told(error) => Vec::new(),
                (Err(error), _) => vec![format!("does not say enough: {error}")],
            };
            wrong.extend(said.into_iter().map(|what| format!("{}: {what}", case.name)));
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        seen
    }
}

/// A hash as cases state it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
