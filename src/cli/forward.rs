//! Arguments of the commands that run graphs.

use super::common::read_text;
use super::paths::check_input;
use ckpt_api::{Error, Limits, Result, parse_size};
use ckpt_engine::store::Addresses;
use ckpt_verify::chess::Position;
use ckpt_verify::{InputFile, Inputs};
use clap::Args;
use std::path::{Path, PathBuf};

/// The inputs of a graph, and the memory to run it in.
#[derive(Args)]
pub(super) struct Forward {
    /// Input arrays in any readable format (one array of an archive as FILE:ARRAY), or in IDX, the format of MNIST;
    /// random if left out
    #[arg(long, value_name = "[INPUT=]FILE[:ARRAY]")]
    input: Vec<String>,
    /// Divide the values of --input by this number, in f32: 255 scales bytes to 0..1
    #[arg(long, value_name = "NUMBER", requires = "input")]
    divide: Option<f32>,
    /// Chess positions as inputs: FEN, startpos, or a file with one on each line
    #[arg(long, value_name = "FEN|FILE", conflicts_with = "divide")]
    fen: Vec<String>,
    /// Seed of random inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Number of random examples
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with_all = ["input", "fen"])]
    batch: usize,
    /// Length of the free axes of random inputs, but for the first; if left out, one that the graph runs with
    #[arg(long, value_name = "N", conflicts_with_all = ["input", "fen"])]
    length: Option<usize>,
    /// Length of the free axes of this name, such as batch=1 (repeatable)
    #[arg(long, value_name = "NAME=N", conflicts_with_all = ["input", "fen"])]
    size: Vec<String>,
    /// Memory for values and tensors
    #[arg(long, value_name = "SIZE", default_value = "4g")]
    max_memory: String,
}

impl Forward {
    pub(super) fn inputs(&self, addresses: &Addresses, limits: &Limits) -> Result<Inputs> {
        let mut positions = Vec::new();
        for text in &self.fen {
            positions.extend(read_positions(addresses, text, limits)?);
        }
        if self.divide.is_some_and(|by| by == 0.0 || !by.is_finite()) {
            return Err(Error::usage("the divisor must be finite, and not 0").field("--divide"));
        }
        let files: Vec<InputFile> = self.input.iter().map(|text| input_file(text, limits)).collect();
        files.iter().try_for_each(|file| check_input(&file.path).map_err(|error| error.field("--input")))?;
        Ok(Inputs {
            files,
            arrays: Vec::new(),
            divide: self.divide,
            positions,
            seed: self.seed,
            batch: self.batch,
            length: self.length,
            sizes: self.size.iter().map(|text| named_size(text)).collect::<Result<_>>()?,
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

/// Parses `NAME=N`.
fn named_size(text: &str) -> Result<(String, usize)> {
    let parsed = text.rsplit_once('=').and_then(|(name, size)| Some((name.to_owned(), size.parse().ok()?)));
    let wrong = || Error::usage("the size of an axis is not a name and a number");
    let wrong = || wrong().field("--size").found(format!("'{text}'")).expected("NAME=N, such as batch=1");
    parsed.filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)
}

/// Parses `[INPUT=]FILE[:ARRAY]`. A text that names an existing file is that file, whatever its name contains.
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

/// Parses a position, or reads the positions of a file. FEN has spaces: what has none and is no file is a file that is
/// missing.
fn read_positions(addresses: &Addresses, text: &str, limits: &Limits) -> Result<Vec<Position>> {
    let path = Path::new(text);
    if !path.is_file() && (text == START_NAME || text.contains(' ')) {
        return Ok(vec![position(text)?]);
    }
    let expected = || format!("FEN, {START_NAME}, or a file with one on each line");
    if text.is_empty() || path.is_dir() {
        let found = if text.is_empty() { "nothing" } else { "a directory" };
        return Err(Error::usage("the position is missing").field("--fen").found(found).expected(expected()));
    }
    let content = read_text(addresses, path, limits, ckpt_api::Limit::TextBytes)
        .map_err(|error| error.field("--fen").expected(expected()))?;
    let lines = content.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let positions = lines.map(|(line, number)| {
        position(line.trim_end()).map_err(|error| error.file(format!("{}:{number}", path.display())))
    });
    positions.collect()
}

/// The start of a game, as engines call it.
const START_NAME: &str = "startpos";
const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn position(text: &str) -> Result<Position> {
    Position::parse(if text == START_NAME { START } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_axis_is_a_name_and_a_number() {
        assert_eq!(named_size("batch=3").unwrap(), ("batch".to_owned(), 3));
        assert_eq!(named_size("a=b=3").unwrap(), ("a=b".to_owned(), 3));
        for text in ["batch", "batch=", "=3", "batch=-1"] {
            assert_eq!(named_size(text).unwrap_err().kind(), ckpt_api::Kind::Usage, "{text}");
        }
    }

    #[test]
    fn an_argument_names_the_input_the_file_and_an_array_in_it() {
        let parsed = |text: &str| {
            let file = input_file(text, &Limits::default());
            (file.input, ckpt_api::Address::display(&file.path), file.key)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parsed("x.npy"), (None, "x.npy".to_owned(), None));
        assert_eq!(parsed("input=x.npy"), (some("input"), "x.npy".to_owned(), None));
        assert_eq!(parsed("input=Cargo.toml:x"), (some("input"), "Cargo.toml".to_owned(), some("x")));
        assert_eq!(parsed("missing.npz:x"), (None, "missing.npz:x".to_owned(), None));
    }

    #[test]
    fn a_position_is_fen_or_the_start_or_a_line_of_a_file() {
        let read = |text: &str| read_positions(&Addresses::local(), text, &Limits::default());
        let fen = vec![Position::parse(START).unwrap()];
        assert_eq!((read(START).unwrap(), read("startpos").unwrap()), (fen.clone(), fen.clone()));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, format!("{START}\nstartpos\n").as_bytes()).unwrap();
        assert_eq!(read(file.path().to_str().unwrap()).unwrap(), [fen.clone(), fen].concat());
    }

    #[test]
    fn a_position_that_is_wrong_is_named_with_its_file_and_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, format!("{START}\n\n8/8 w\n").as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let error = read_positions(&Addresses::local(), path, &Limits::default()).unwrap_err();
        assert_eq!(error.context().file, Some(&*format!("{path}:3")));
        for (text, found) in [("", "nothing"), (env!("CARGO_MANIFEST_DIR"), "a directory")] {
            let error = read_positions(&Addresses::local(), text, &Limits::default()).unwrap_err();
            let context = error.context();
            assert_eq!((error.kind(), context.field), (ckpt_api::Kind::Usage, Some("--fen")));
            assert_eq!(context.found, Some(found));
        }
    }

    #[test]
    fn a_file_of_positions_that_does_not_exist_is_said_to_be_missing() {
        let error = read_positions(&Addresses::local(), "no-such-file.fen", &Limits::default()).unwrap_err();
        let context = error.context();
        assert_eq!(
            (error.kind(), context.file, context.field),
            (ckpt_api::Kind::Io, Some("no-such-file.fen"), Some("--fen"))
        );
        assert!(context.expected.is_some_and(|expected| expected.contains("startpos")), "{error}");
        let wrong = read_positions(&Addresses::local(), "8/8 w", &Limits::default()).unwrap_err();
        assert!(wrong.message().contains("FEN"), "{wrong}");
    }
}
