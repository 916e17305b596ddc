//! Integers with scales and zero points, as PyTorch's quantized tensors are: what they stand for, and what tells them apart.

use ckpt::{Conversion, Execution, OpenOptions, Registry, Source};
use ckpt_api::{DType, LossKind};
use std::path::Path;

/// `q`, of 8-bit integers with one scale, and `rows`, with a scale for each row.
const QUANTIZED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/torch/accept/quantized.pt");

fn open(path: impl AsRef<Path>) -> Source {
    Source::open(&Registry::builtin(), path.as_ref(), &OpenOptions::new()).unwrap()
}

fn numbers(source: &Source, name: &str) -> Vec<f32> {
    source.tensor(name).unwrap().read::<f32>().unwrap()
}

#[test]
fn a_dtype_of_floats_stores_the_numbers_that_integers_stand_for() {
    let directory = tempfile::tempdir().unwrap();
    for (format, name) in [
        ("npz", "o.npz"),
        ("gguf", "o.gguf"),
        ("safetensors", "o.safetensors"),
        ("torch", "o.pt"),
        ("tf2", "o"),
    ] {
        let output = directory.path().join(name);
        let conversion = Conversion::new().to(format).dtype(DType::F32).allow(LossKind::Unloadable);
        let planned = conversion.plan(&Registry::builtin(), &open(QUANTIZED), &output).unwrap();
        let kinds = |kind| planned.plan().losses.iter().filter(|loss| loss.kind == kind).count();
        assert_eq!((kinds(LossKind::Dequantized), kinds(LossKind::ScaleDropped)), (2, 0), "{format}");
        planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
        let written = open(if name == "o" { output.with_extension("index") } else { output });
        assert_eq!(numbers(&written, "q"), [3.5, -11.5, 13.5], "{format}");
        // Scales of rows are multiplied in 64 bits, as PyTorch does.
        assert_eq!(numbers(&written, "rows"), [0.1, 0.2, -1.0, -0.75], "{format}");
    }
}

#[test]
fn equal_integers_with_other_scales_differ_in_comparison_and_hash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.safetensors");
    let plan = Conversion::new().plan(&Registry::builtin(), &open(QUANTIZED), &path).unwrap();
    plan.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    let file = std::fs::read(&path).unwrap();
    let at = file.windows(10).position(|part| part == b"0.1,0.25],").expect("the scales of rows");
    let mut other = file.clone();
    other[at + 2] = b'3';
    std::fs::write(directory.path().join("b.safetensors"), other).unwrap();
    let (a, b) = (open(&path), open(directory.path().join("b.safetensors")));
    let found = ckpt::diff::diff(&a, &b, None).unwrap();
    let differ: Vec<&str> = found
        .tensors
        .iter()
        .filter(|tensor| tensor.scales_differ())
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!((found.agrees(), &differ[..]), (false, &["rows"][..]));
    let hash = |source: &Source| ckpt::digest::digest(source, 1).unwrap().sha256;
    assert_ne!(hash(&a), hash(&b));
}
