//! A directory in which the program runs, and what it says there.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The example checkpoint of TensorFlow's.
pub const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");

/// Name, shape and values.
pub type Tensor = (String, Vec<usize>, Vec<f32>);

/// A directory of its own, removed when dropped.
pub struct Workplace(tempfile::TempDir);

impl Workplace {
    pub fn new() -> Self {
        Workplace(tempfile::tempdir().unwrap())
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Names of all that is directly here, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Copies the example checkpoint into a directory; says how many files it has.
    pub fn copy_digits(&self, directory: &str) -> usize {
        fs::create_dir_all(self.path(directory)).unwrap();
        let paths = fs::read_dir(DIGITS).unwrap().map(|entry| entry.unwrap().path());
        let copies =
            paths.map(|path| fs::copy(&path, self.path(directory).join(path.file_name().unwrap())).unwrap());
        copies.count()
    }

    /// A safetensors file.
    pub fn checkpoint(&self, name: &str, tensors: &[Tensor]) {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, shape, values) in tensors {
            assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let entry =
                serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
            assert!(header.insert(name.clone(), entry).is_none(), "{name}");
        }
        let header = Value::from(header).to_string();
        self.write(name, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat());
    }

    /// `ckpt`, to be run here, whatever colors the tests themselves are to have.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
        command.current_dir(self.directory()).args(arguments);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }

    pub fn ckpt(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command that must succeed prints.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.ckpt(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[arguments, &["--format", "json"]].concat())).unwrap()
    }

    /// What a command that must fail says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.ckpt(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The command must fail so, say each of these, and leave nothing behind.
    pub fn refuses(&self, arguments: &[&str], code: i32, says: &[&str]) {
        let before = self.names();
        let output = self.ckpt(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.starts_with("error: ") || code == 2, "{error}");
        for text in says {
            assert!(error.contains(text), "{arguments:?} does not say {text:?}:\n{error}");
        }
        assert_eq!(self.names(), before, "{arguments:?} left something behind");
    }
}
