//! The README's table of what converts to what, every cell tried.

#![cfg(all(feature = "bullet", feature = "cnn2", feature = "nn", feature = "safetensors", feature = "tf2"))]

use ckpt::api::DType;
use ckpt::{Conversion, Execution, OpenOptions, Registry, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A format, a checkpoint of it, and what must be said to read and to write it.
type Network = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Formats that hold one kind of network each.
const NETWORKS: [Network; 3] = [
    ("bullet", "corpus/bullet/accept/adamw", &[("arch", "simple:3x2x1,buckets=2")]),
    ("cnn2", "corpus/cnn2/accept/example.bin", &[]),
    ("tf2", "examples/data/digits_saved_model", &[]),
];

fn options(given: &[(&str, &str)]) -> Vec<(String, String)> {
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Converts as the tensors are, or as the 32-bit floats that some formats hold alone; weights and layers must survive.
fn convert(from: (&str, &Path, &[(&str, &str)]), to: (&str, &Path)) -> Result<(), ckpt::Error> {
    convert_as(None, from, to).or_else(|_| convert_as(Some(DType::F32), from, to))
}

fn convert_as(
    dtype: Option<DType>,
    from: (&str, &Path, &[(&str, &str)]),
    to: (&str, &Path),
) -> Result<(), ckpt::Error> {
    let registry = Registry::builtin();
    let open =
        OpenOptions { format: Some(from.0.to_owned()), options: options(from.2), ..OpenOptions::default() };
    let source = Source::open(&registry, from.1, &open)?;
    let conversion = Conversion { to: Some(to.0.to_owned()), dtype, ..Conversion::default() };
    let execution = Execution { sync: false, ..Execution::default() };
    conversion.plan(&registry, source, to.1)?.execute(&execution, &|_| ()).map(drop)
}

fn output(directory: &Path, format: &str) -> PathBuf {
    directory.join(match format {
        "cnn2" => "out.bin",
        "nn" => "out.nn",
        "safetensors" => "out.safetensors",
        _ => "out",
    })
}

/// From each network to every format, and from there to every format again.
fn tried() -> BTreeMap<(String, String), Option<String>> {
    let formats: Vec<String> = Registry::builtin().codecs().map(|codec| codec.info().id.to_owned()).collect();
    let mut cells = BTreeMap::new();
    let mut note = |from: &str, to: &str, result: Result<(), ckpt::Error>| {
        let cell = cells.entry((from.to_owned(), to.to_owned())).or_insert_with(|| Some(String::new()));
        match (result, cell) {
            (Ok(()), cell) => *cell = None,
            (Err(error), Some(why)) => *why = error.to_string(),
            (Err(_), None) => {}
        }
    };
    for (format, path, given) in NETWORKS {
        for middle in &formats {
            let work = tempfile::tempdir().unwrap();
            let first = output(work.path(), middle);
            let made = convert((format, &Path::new(ROOT).join(path), given), (middle, &first));
            let went = made.is_ok();
            note(format, middle, made);
            if !went {
                continue;
            }
            for target in &formats {
                let second = tempfile::tempdir().unwrap();
                note(
                    middle,
                    target,
                    convert((middle, &first, &[]), (target, &output(second.path(), target))),
                );
            }
        }
    }
    cells
}

#[test]
fn every_cell_of_the_matrix_in_the_readme_is_what_a_conversion_does() {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let mut lines = readme.lines().skip_while(|line| !line.starts_with("| from \\ to"));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let targets = cells(lines.next().unwrap());
    let tried = tried();
    let mut seen = 0;
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let row = cells(line);
        for (target, cell) in targets.iter().zip(&row).skip(1) {
            let why =
                tried.get(&(row[0].clone(), target.clone())).unwrap_or_else(|| panic!("{line}: not tried"));
            assert_eq!(cell == "yes", why.is_none(), "{} to {target}: {why:?}", row[0]);
            seen += 1;
        }
    }
    assert_eq!(seen, Registry::builtin().codecs().count().pow(2));
}
