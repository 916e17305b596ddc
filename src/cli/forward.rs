//! Arguments of the subcommands that run graphs.

use super::common::read_text;
use crate::verify::chess::Position;
use crate::verify::{InputFile, Inputs};
use ckpt_api::{Error, Limits, Result, parse_size};
use clap::Args;
use std::path::{Path, PathBuf};

/// What goes in, and where it runs.
#[derive(Args)]
pub(super) struct Forward {
    /// Arrays to run: any format that can be read (an archive's array as FILE:ARRAY), or IDX as MNIST has it; random numbers if left
    /// out
    #[arg(long, value_name = "[INPUT=]FILE[:ARRAY]")]
    input: Vec<String>,
    /// Divide the numbers of --input, in binary32: 255 for images of bytes
    #[arg(long, value_name = "NUMBER", requires = "input")]
    divide: Option<f32>,
    /// Chess positions to run: FEN, or a file of one on each line
    #[arg(long, value_name = "FEN|FILE", conflicts_with = "divide")]
    fen: Vec<String>,
    /// Seed of random inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Examples of random inputs
    #[arg(long, value_name = "N", default_value_t = 8)]
    batch: usize,
    /// Memory for values and tensors
    #[arg(long, value_name = "SIZE", default_value = "4g")]
    max_memory: String,
}

impl Forward {
    pub(super) fn inputs(&self, limits: &Limits) -> Result<Inputs> {
        let mut positions = Vec::new();
        for text in &self.fen {
            positions.extend(read_positions(text, limits)?);
        }
        if self.divide.is_some_and(|by| by == 0.0 || !by.is_finite()) {
            return Err(Error::usage("numbers cannot be divided by this").field("--divide"));
        }
        Ok(Inputs {
            files: self.input.iter().map(|text| input_file(text, limits)).collect(),
            divide: self.divide,
            positions,
            seed: self.seed,
            batch: self.batch,
        })
    }

    pub(super) fn memory(&self) -> Result<u64> {
        parse_size(&self.max_memory).ok_or_else(|| {
            Error::usage("the size is not a number")
                .field("--max-memory")
                .found(format!("'{}'", self.max_memory))
        })
    }
}

/// `INPUT=FILE:ARRAY`, of which only the file is needed. What exists as a file is one, whatever is in its name.
fn input_file(text: &str, limits: &Limits) -> InputFile {
    let exists = |text: &str| Path::new(text).exists();
    let (input, rest) = match text.split_once('=') {
        Some((input, rest)) if !exists(text) => (Some(input.to_owned()), rest),
        _ => (None, text),
    };
    let (path, key) = match rest.rsplit_once(':') {
        Some((path, key)) if !exists(rest) && exists(path) => (path, Some(key.to_owned())),
        _ => (rest, None),
    };
    InputFile { input, path: PathBuf::from(path), key, limits: limits.clone() }
}

/// A position, or those of a file.
fn read_positions(text: &str, limits: &Limits) -> Result<Vec<Position>> {
    let path = Path::new(text);
    if !path.is_file() {
        return Ok(vec![Position::parse(text)?]);
    }
    let content = read_text(path, limits, ckpt_api::Limit::TextBytes)?;
    let lines = content.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let positions = lines.map(|(line, number)| {
        Position::parse(line.trim_end())
            .map_err(|error| error.file(path.display().to_string()).field(format!("line {number}")))
    });
    positions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_may_name_itself_its_file_and_an_array_in_it() {
        let parsed = |text: &str| {
            let file = input_file(text, &Limits::default());
            (file.input, file.path.display().to_string(), file.key)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parsed("x.npy"), (None, "x.npy".to_owned(), None));
        assert_eq!(parsed("input=x.npy"), (some("input"), "x.npy".to_owned(), None));
        assert_eq!(parsed("input=Cargo.toml:x"), (some("input"), "Cargo.toml".to_owned(), some("x")));
        assert_eq!(parsed("missing.npz:x"), (None, "missing.npz:x".to_owned(), None));
    }
}
