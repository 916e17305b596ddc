//! What several tests need: the folder of real files, NumPy archives, a forward pass of a few lines.

pub mod bullet_cases;
#[cfg(target_os = "linux")]
pub mod confined;
pub mod corpus;
pub mod tensors;
pub mod workplace;

use ckpt::{Conversion, Execution, OpenOptions, Registry, Source};
use std::path::{Path, PathBuf};

/// The folder of real files; `None`, said aloud, where `CKPT_CASES` is not set.
pub fn cases(part: &str) -> Option<PathBuf> {
    match std::env::var_os("CKPT_CASES") {
        None => {
            eprintln!("skipped: CKPT_CASES is not set");
            None
        }
        Some(root) => {
            let path = Path::new(&root).join(part);
            assert!(path.is_dir(), "CKPT_CASES is set, but {} is no directory", path.display());
            Some(path)
        }
    }
}

/// The files of a directory that end so, sorted.
pub fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files
}

/// Opens with read options.
pub fn open(path: &Path, options: &[(&str, &str)]) -> Source {
    let options = OpenOptions::new().set_all(options.iter().copied());
    Source::open(&Registry::builtin(), path, &options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Converts and verifies, without waiting for the disk.
pub fn convert(source: Source, output: &Path, conversion: &Conversion) {
    let conversion = conversion.clone().verify(true);
    let planned = conversion.plan(&Registry::builtin(), &source, output).unwrap();
    let summary = planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    assert_eq!(summary.verification.map(|found| found.tensors), Some(planned.plan().tensors().len()));
}

/// A float32 array of an uncompressed NumPy archive: its shape and its values.
pub fn npz(path: &Path, name: &str) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let entry = format!("{name}.npy");
    // The local file header: signature, then at 26 the lengths of the name and of the extra field.
    let at = |needle: &[u8], from: usize| {
        from + bytes[from..].windows(needle.len()).position(|w| w == needle).unwrap()
    };
    let mut header = at(b"PK\x03\x04", 0);
    loop {
        let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (name_len, extra) = (short(header + 26), short(header + 28));
        let data = header + 30 + name_len + extra;
        if bytes[header + 30..][..name_len] == *entry.as_bytes() {
            assert_eq!(short(header + 8), 0, "{entry} is compressed");
            return npy(&bytes[data..]);
        }
        header = at(b"PK\x03\x04", header + 4);
    }
}

/// The shape and the numbers of an array of f32 in NumPy's format.
pub fn npy(bytes: &[u8]) -> (Vec<usize>, Vec<f32>) {
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + len]).unwrap();
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let shape: Vec<usize> = shape.split(',').filter_map(|dim| dim.trim().parse().ok()).collect();
    let count: usize = shape.iter().product();
    (shape, floats(&bytes[10 + len..][..count * 4]))
}

/// Little-endian f32.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Runs one row through the chain of layers in f64, with weights stored `[out, in]`. Written for the tests alone.
pub fn forward(source: &Source, input: &[f32]) -> Vec<f64> {
    let graph = source.checkpoint().graph.as_ref().expect("a graph");
    let mut x: Vec<f64> = input.iter().map(|value| f64::from(*value)).collect();
    for node in graph.chain().unwrap() {
        x = match node.op.name() {
            "Gemm" => {
                let weight = floats(&source.tensor(&node.parameters["weight"]).unwrap().bytes().unwrap());
                let bias = floats(&source.tensor(&node.parameters["bias"]).unwrap().bytes().unwrap());
                assert_eq!(weight.len(), bias.len() * x.len());
                let rows = weight.chunks_exact(x.len()).zip(&bias);
                rows.map(|(row, b)| {
                    f64::from(*b) + row.iter().zip(&x).map(|(w, x)| f64::from(*w) * x).sum::<f64>()
                })
                .collect()
            }
            "Relu" => x.iter().map(|x| x.max(0.0)).collect(),
            "Tanh" => x.iter().map(|x| x.tanh()).collect(),
            "Sigmoid" => x.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
            "Softmax" => {
                let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
                x.iter().map(|x| (x - max).exp() / sum).collect()
            }
            "Flatten" => x,
            other => panic!("no arithmetic for {other}"),
        };
    }
    x
}

/// The largest difference relative to the largest expected value.
pub fn error(found: &[f64], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0f64, |max, value| max.max(f64::from(value.abs())));
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max) / largest
}
