//! Real files, found through `CKPT_CASES`.

use crate::build::{floats, read, rewrite};
use ckpt_api::{Axis, Checkpoint, Contents, Kind, Op};
use std::path::{Path, PathBuf};

/// The folder `nn/NAME` of the cases; `None`, said aloud, if there are none.
fn folder(name: &str) -> Option<PathBuf> {
    let Some(cases) = std::env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES is not set");
        return None;
    };
    Some(PathBuf::from(cases).join("nn").join(name))
}

fn models(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "nn"));
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

/// DataCode stops in the middle of saving it, for its layer has no bias.
const UNFINISHED: &str = "cur_nobias.nn";

/// Every file that DataCode finished: at least as many as there are today.
fn valid() -> Option<Vec<(PathBuf, String, Vec<u8>)>> {
    let mut all = Vec::new();
    for (name, least) in [("real", 2), ("current", 5), ("v2_1_0", 2)] {
        let folder = folder(name)?;
        let models = models(&folder);
        assert!(models.len() >= least, "{}: only {} models", folder.display(), models.len());
        all.extend(models.into_iter().map(|(name, bytes)| (folder.clone(), name, bytes)));
    }
    all.retain(|(_, name, _)| name != UNFINISHED);
    assert!(all.len() >= 8);
    Some(all)
}

#[test]
fn every_valid_file_goes_back_to_the_same_bytes() {
    for (folder, name, bytes) in valid().into_iter().flatten() {
        let (contents, _) = read(&bytes, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let dialect = if folder.ends_with("v2_1_0") { "a" } else { "b" };
        assert_eq!(contents.checkpoint.metadata.text("nn", "dialect"), Some(dialect), "{name}");
        assert!(contents.repairs.is_empty(), "{name}: {:?}", contents.repairs);
        assert!(rewrite(&bytes, &[], &[]).unwrap() == bytes, "{name}");
    }
}

#[test]
fn every_valid_file_changes_dialect_and_back() {
    for (_, name, bytes) in valid().into_iter().flatten() {
        let (contents, values) = read(&bytes, &[]).unwrap();
        let own = contents.checkpoint.metadata.text("nn", "dialect").unwrap();
        let other = if own == "a" { "b" } else { "a" };
        let converted = rewrite(&bytes, &[], &[("dialect", other)]).unwrap();
        let (there, there_values) = read(&converted, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(there.checkpoint.metadata.text("nn", "dialect"), Some(other), "{name}");
        for (old, new) in contents.checkpoint.tensors.iter().zip(&there.checkpoint.tensors) {
            let permuted = old.axis(Axis::In).is_some() && old.shape.rank() == 2;
            let expected = if permuted { old.shape.permuted(&[1, 0]) } else { old.shape.clone() };
            assert_eq!(expected.elements(), new.shape.elements(), "{name}: {}", old.name);
            assert!(!permuted || expected == new.shape, "{name}: {}", old.name);
        }
        let (_, back) = read(&rewrite(&converted, &[], &[("dialect", own)]).unwrap(), &[]).unwrap();
        assert!(values == back, "{name}");
        assert!(values.iter().zip(&there_values).all(|(old, new)| old.len() == new.len()), "{name}");
    }
}

#[test]
fn a_file_that_datacode_did_not_finish_says_so() {
    let Some(folder) = folder("current") else { return };
    let bytes = std::fs::read(folder.join(UNFINISHED)).unwrap();
    let error = read(&bytes, &[("lenient", "true")]).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("without bias"), "{error}");
}

/// File, outcome when strict, outcome when lenient (number of repairs).
type Expected = (&'static str, Result<(), Kind>, Result<usize, Kind>);

const MALFORMED: &[Expected] = &[
    ("edge_badjson.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_badmagic.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_bias2d.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_bias_first.nn", Ok(()), Ok(0)),
    ("edge_bias_wrong.nn", Err(Kind::Corrupt), Ok(1)),
    ("edge_dup.nn", Err(Kind::Corrupt), Ok(1)),
    ("edge_float_in.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_minimal_json.nn", Ok(()), Ok(0)),
    ("edge_no_layers.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_noin.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_notype.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_scalar0d.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_short.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_trailing.nn", Err(Kind::Corrupt), Ok(1)),
    ("edge_unknown_suffix.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
    ("edge_ver2.nn", Err(Kind::Unsupported), Err(Kind::Unsupported)),
    ("edge_weird_train.nn", Ok(()), Ok(0)),
    ("edge_zerodim.nn", Err(Kind::Corrupt), Err(Kind::Corrupt)),
];

#[test]
fn malformed_files_end_as_the_table_says() {
    let Some(folder) = folder("malformed") else { return };
    let mut known = 0;
    for (name, bytes) in models(&folder) {
        let strict = read(&bytes, &[]).map(|_| ()).map_err(|error| error.kind());
        let lenient = read(&bytes, &[("lenient", "true")]).map(|(contents, _)| contents.repairs.len());
        let lenient = lenient.map_err(|error| error.kind());
        if strict.is_ok() {
            assert!(rewrite(&bytes, &[], &[]).unwrap() == bytes, "{name}");
        }
        if let Some((_, strictly, leniently)) = MALFORMED.iter().find(|(known, ..)| *known == name) {
            assert_eq!((&strict, &lenient), (strictly, leniently), "{name}");
            known += 1;
        }
    }
    assert_eq!(known, MALFORMED.len());
}

#[test]
fn the_forward_pass_over_the_values_gives_what_datacode_gives() {
    let mut compared = 0;
    let valid = valid();
    for (folder, name, bytes) in valid.iter().flatten() {
        let (contents, values) = read(bytes, &[]).unwrap();
        for ending in ["forward.json", "peer_forward.json"] {
            let path = folder.join(format!("{}{ending}", name.trim_end_matches("nn")));
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let bits = json.get("bits").or(json.get("logits_f32_bits")).unwrap().as_array().unwrap();
            let bits = bits.iter().map(|bits| u32::try_from(bits.as_u64().unwrap()).unwrap());
            let expected: Vec<f32> = bits.map(f32::from_bits).collect();
            let found = forward(&contents, &values);
            assert_eq!(found.len(), expected.len());
            let mut largest = 0.0f64;
            for ((found, bound), expected) in found.iter().zip(expected) {
                let difference = (found - f64::from(expected)).abs();
                largest = largest.max(difference / bound);
                assert!(difference <= *bound, "{}: off by {difference:e}, bound {bound:e}", path.display());
            }
            eprintln!("{}: the largest error is {largest:.1e} of its bound", path.display());
            compared += 1;
        }
    }
    assert!(valid.is_none() || compared >= 6, "only {compared} forward passes compared");
}

/// The outputs for linspace(0, 1) in f64, each with how far an f32 computation in any order may be off. A sum of n
/// products errs by up to n·2⁻²⁴ times the sum of their magnitudes if all roundings conspire; independent ones
/// give √n, and 4√n leaves room. Errors of the inputs are independent, too, and add in quadrature. ReLU passes
/// errors on; softmax at most doubles the largest and adds a few roundings.
fn forward(contents: &Contents, values: &[Vec<u8>]) -> Vec<(f64, f64)> {
    const U: f64 = 1.01 / (1u64 << 24) as f64;
    let graph = contents.checkpoint.graph.as_ref().unwrap();
    let inputs = graph.inputs[0].shape[1].unwrap();
    let mut x: Vec<(f64, f64)> =
        (0..inputs).map(|k| (f64::from((k as f64 / (inputs - 1) as f64) as f32), 0.0)).collect();
    for node in graph.chain().unwrap() {
        match node.op {
            Op::Gemm => {
                let weight = matrix(&contents.checkpoint, values, &node.parameters["weight"]);
                let (bias, _) = contents.checkpoint.tensor(&node.parameters["bias"]).unwrap();
                let bias = floats(&values[bias.0]);
                let rounding = 4.0 * ((x.len() + 2) as f64).sqrt() * U;
                let output = |(output, bias): (usize, &f32)| {
                    let (mut sum, mut sizes, mut passed) = (f64::from(*bias), f64::from(bias.abs()), 0.0);
                    for (input, (x, error)) in x.iter().enumerate() {
                        let w = weight(input, output);
                        sum += w * x;
                        sizes += (w * x).abs();
                        passed += (w * error).powi(2);
                    }
                    (sum, (passed + (rounding * sizes).powi(2)).sqrt())
                };
                x = bias.iter().enumerate().map(output).collect();
            }
            Op::Relu => x.iter_mut().for_each(|(x, _)| *x = x.max(0.0)),
            Op::Softmax => {
                let largest = x.iter().map(|(x, _)| *x).fold(f64::MIN, f64::max);
                let error = x.iter().map(|(_, error)| *error).fold(0.0, f64::max);
                let sum: f64 = x.iter().map(|(x, _)| (x - largest).exp()).sum();
                x.iter_mut().for_each(|x| *x = ((x.0 - largest).exp() / sum, 2.0 * error + 8.0 * U));
            }
            ref other => panic!("no arithmetic for {other}"),
        }
    }
    x
}

/// The weight at (in, out).
fn matrix(checkpoint: &Checkpoint, values: &[Vec<u8>], name: &str) -> impl Fn(usize, usize) -> f64 {
    let (id, tensor) = checkpoint.tensor(name).unwrap();
    let values = floats(&values[id.0]);
    let columns = usize::try_from(tensor.shape[1]).unwrap();
    let in_first = tensor.axis(Axis::In) == Some(0);
    move |input, output| {
        let (row, column) = if in_first { (input, output) } else { (output, input) };
        f64::from(values[row * columns + column])
    }
}
