//! CNN2 files through the engine: other formats, other dtypes, other orders of axes.

#![cfg(all(feature = "cnn2", feature = "nn", feature = "safetensors"))]

mod common;

use ckpt::{Conversion, Kind, Policy, Registry};
use common::{convert, open};
use std::path::{Path, PathBuf};

fn accepted() -> Vec<PathBuf> {
    common::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/cnn2/accept"), ".bin")
}

fn is_strict(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy();
    !["gaps", "other_order"].contains(&&*name) && !name.ends_with("_lenient")
}

#[test]
fn a_file_comes_back_byte_for_byte_by_way_of_safetensors() {
    let work = tempfile::tempdir().unwrap();
    let (between, back) = (work.path().join("a.safetensors"), work.path().join("b.bin"));
    let files: Vec<PathBuf> = accepted().into_iter().filter(|path| is_strict(path)).collect();
    for path in &files {
        for options in [&[][..], &[("border", "clamp"), ("activation", "relu")]] {
            let again = Conversion { overwrite: true, ..Conversion::default() };
            convert(open(path, options), &between, &again);
            convert(open(&between, &[]), &back, &again);
            assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(path).unwrap(), "{}", path.display());
        }
    }
    assert_eq!(files.len(), 9);
}

#[test]
fn f32_is_rounded_to_nearest_even_and_only_if_narrowing_is_allowed() {
    let work = tempfile::tempdir().unwrap();
    let (input, output) = (work.path().join("a.safetensors"), work.path().join("b.bin"));
    // Half way between two halves, a little off, the smallest subnormal and half of it, −0, the largest.
    let values = [1.000_488_3f32, 1.001_464_8, 1.000_489, 5.960_464_5e-8, 2.980_232_2e-8, -0.0, 65504.0, 0.1];
    let halves: [u16; 8] = [0x3c00, 0x3c02, 0x3c01, 0x0001, 0x0000, 0x8000, 0x7bff, 0x2e66];
    let header = r#"{"layer1.weight":{"dtype":"F32","shape":[1,8,1,1],"data_offsets":[0,32]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::write(&input, bytes).unwrap();

    let refused = Conversion::default().plan(&Registry::builtin(), open(&input, &[]), &output);
    let error = refused.expect_err("narrowing is not allowed unasked");
    assert!(error.to_string().contains("--allow narrowed"), "{error}");
    let mut policy = Policy::default();
    policy.accept("narrowed").unwrap();
    convert(open(&input, &[]), &output, &Conversion { policy, ..Conversion::default() });
    let written = std::fs::read(&output).unwrap();
    let found: Vec<u16> =
        written[36..].chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]])).collect();
    assert_eq!(found, halves);
}

#[test]
fn formats_without_a_common_layer_refuse_each_other_with_the_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let refusal = |input: &str, options: &[(&str, &str)], output: &str| {
        let planned =
            Conversion::default().plan(&Registry::builtin(), open(&root.join(input), options), output);
        planned.expect_err("one holds convolutions, the other none")
    };
    let dense = refusal("nn/accept/b_mlp.nn", &[], "o.bin");
    assert_eq!(dense.kind(), Kind::Lossy, "{dense}");
    assert!(dense.to_string().contains("'layer0'") && dense.to_string().contains("Gemm"), "{dense}");
    let stated = [("activation", "relu"), ("border", "zero")];
    let convolution = refusal("cnn2/accept/version_2_mip_0.bin", &stated, "o.nn");
    assert_eq!(convolution.kind(), Kind::Lossy, "{convolution}");
    assert!(convolution.to_string().contains("'layer1'") && convolution.to_string().contains("Conv"));
}
