//! Models that other programs wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Codec, Contents, Input, Limits, Options, TensorId};
use ckpt_conformance::cases;
use ckpt_onnx::Onnx;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a model, and checks what the engine checks before a conversion.
fn read(path: &Path) -> ckpt_api::Result<(Input, Contents)> {
    let input = Input::open(path)?;
    let limits = Limits::default();
    let contents = Onnx.read(&input, &Options::default(), &limits)?;
    contents.check(&limits)?;
    contents.check_data(&input, (0..contents.placements.len()).map(TensorId))?;
    Ok((input, contents))
}

/// A tensor's elements in whole bytes.
fn value(input: &Input, contents: &Contents, id: usize) -> Vec<u8> {
    let placement = &contents.placements[id];
    let mut bytes = Vec::new();
    for extent in &placement.extents {
        let file = input.file(&contents.files[extent.file.0]).unwrap();
        bytes.extend(extent.open(&file).unwrap().bytes(0, extent.len).unwrap());
    }
    bytes
}

fn dtype_name(dtype: &str) -> String {
    dtype.to_lowercase()
}

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = cases("onnx") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (path, expected) in &cases {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let expect = expected["expect"].as_str().unwrap();
        *seen.entry(expect.to_owned()).or_default() += 1;
        match (read(&path.join(expected["open"].as_str().unwrap())), expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((input, contents)), _) => {
                if let Err(why) = compare(&input, &contents, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
            (Err(_), _) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        seen,
        [("ok", 33), ("ok-or-refuse", 4), ("refuse", 25)].map(|(k, n)| (k.to_owned(), n)).into()
    );
}

fn compare(input: &Input, contents: &Contents, expected: &Value) -> Result<(), String> {
    let mut found: BTreeMap<&str, usize> = contents
        .checkpoint
        .tensors
        .iter()
        .enumerate()
        .map(|(id, tensor)| (tensor.name.as_str(), id))
        .collect();
    for tensor in expected["tensors"].as_array().unwrap() {
        let name = tensor["name"].as_str().unwrap();
        let Some(id) = found.remove(name) else {
            if tensor["optional"] == true {
                continue;
            }
            return Err(format!("'{name}' is missing"));
        };
        let own = &contents.checkpoint.tensors[id];
        let shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        if own.dtype.name() != dtype_name(tensor["dtype"].as_str().unwrap()) || own.shape[..] != shape[..] {
            return Err(format!("'{name}' is {} {}", own.dtype, own.shape));
        }
        let digest = Sha256::digest(value(input, contents, id));
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if hex != tensor["sha256"].as_str().unwrap() {
            return Err(format!("'{name}' has other values"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}

#[test]
fn the_graphs_of_all_cases_of_supported_operators_are_read() {
    let Some(cases) = cases("onnx") else { return };
    let mut missing = BTreeMap::new();
    for (path, expected) in &cases {
        let Ok((_, contents)) = read(&path.join(expected["open"].as_str().unwrap())) else { continue };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(contents.checkpoint.graph.is_none(), contents.missing_graph.is_some(), "{name}");
        if let Some(why) = contents.missing_graph {
            missing.insert(name, why.reason);
        }
    }
    let names: Vec<&str> = missing.keys().map(String::as_str).collect();
    assert_eq!(names, ["custom_operator"], "{missing:#?}");
}
