//! Files that PaddlePaddle wrote, and changed ones, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Contents, DType, Input, Kind};
use ckpt_conformance::cases;
use ckpt_paddle::Paddle;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Values = Vec<Vec<u8>>;

fn read(path: &Path) -> ckpt_api::Result<(Contents, Values)> {
    ckpt_conformance::read(&Paddle, &Input::open(path)?, &[])
}

/// Every case by name, with its path and what it states.
fn all() -> Option<Vec<(String, PathBuf, Value)>> {
    let named = |(path, expected): (PathBuf, Value)| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = path.join(expected["open"].as_str().unwrap());
        (name, file, expected)
    };
    Some(cases("paddle")?.into_iter().map(named).collect())
}

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = all() else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (name, path, expected) in &cases {
        let expect = expected["expect"].as_str().unwrap();
        *seen.entry(expect.to_owned()).or_default() += 1;
        match (read(path), expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((contents, values)), _) => {
                if let Err(why) = compare(&contents, &values, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
            (Err(error), _) => {
                let context = error.context();
                if !matches!(error.kind(), Kind::Corrupt | Kind::Unsupported) || context.file.is_none() {
                    wrong.push(format!("{name}: does not say where: {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen, [("ok", 9), ("ok-or-refuse", 1), ("refuse", 18)].map(|(k, n)| (k.to_owned(), n)).into());
}

fn compare(contents: &Contents, values: &Values, expected: &Value) -> Result<(), String> {
    let tensors = &contents.checkpoint.tensors;
    let mut found: BTreeMap<&str, usize> =
        tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
    for stated in expected["tensors"].as_array().unwrap() {
        let name = stated["name"].as_str().unwrap();
        let id = found.remove(name).ok_or_else(|| format!("'{name}' is missing"))?;
        let own = &tensors[id];
        let shape: Vec<u64> = serde_json::from_value(stated["shape"].clone()).unwrap();
        let dtype = stated["dtype"].as_str().unwrap().to_lowercase();
        if own.dtype.name() != dtype || own.shape[..] != shape[..] {
            return Err(format!("'{name}' is {} {}", own.dtype, own.shape));
        }
        let digest: String = Sha256::digest(&values[id]).iter().map(|byte| format!("{byte:02x}")).collect();
        if digest != stated["sha256"].as_str().unwrap() {
            return Err(format!("'{name}' has other values"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}

#[test]
fn every_file_that_is_read_comes_back_byte_for_byte_unless_it_is_a_text() {
    let Some(cases) = all() else { return };
    let (mut same, mut others) = (0, Vec::new());
    for (name, path, expected) in &cases {
        if expected["expect"] == "refuse" {
            continue;
        }
        let (contents, values) = read(path).unwrap();
        let output = path.file_name().unwrap().to_str().unwrap();
        let files = ckpt_conformance::write(&Paddle, &contents.checkpoint, &values, output, &[]).unwrap();
        if files[output] == std::fs::read(path).unwrap() {
            same += 1;
            continue;
        }
        others.push(name.as_str());
        let (again, back) = ckpt_conformance::read(&Paddle, &Input::memory(output, files), &[]).unwrap();
        let names = |contents: &Contents| -> Vec<String> {
            contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect()
        };
        assert_eq!(names(&again), names(&contents), "{name}");
        assert!(back == values, "{name}: other values");
    }
    // In protocol 2, bytes are characters of a text.
    assert_eq!((same, &others[..]), (8, &["pdparams_big_slices", "pdparams_protocol2"][..]));
}

#[test]
fn integers_of_16_bits_are_bf16_on_request() {
    let Some(cases) = all() else { return };
    let (_, path, _) = cases.iter().find(|(name, ..)| name == "pdparams_bfloat16").unwrap();
    let input = Input::open(path).unwrap();
    let (contents, values) =
        ckpt_conformance::read(&Paddle, &input, &[("bf16".to_owned(), "true".to_owned())]).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].dtype, DType::Bf16);
    let written = ckpt_conformance::write(&Paddle, &contents.checkpoint, &values, "m.pdparams", &[]).unwrap();
    assert_eq!(written["m.pdparams"], std::fs::read(path).unwrap());
    let (plain, bits) = read(path).unwrap();
    assert_eq!((plain.checkpoint.tensors[0].dtype, bits), (DType::U16, values));
    assert!(plain.all_notes().any(|note| note.contains("bf16=true")));
}

#[test]
fn a_program_beside_the_parameters_is_the_graph() {
    let Some(cases) = all() else { return };
    let ops = |case: &str| {
        let (_, path, _) = cases.iter().find(|(name, ..)| name == case).unwrap();
        let (contents, _) = read(path).unwrap();
        let graph = contents.checkpoint.graph.unwrap();
        graph.nodes.iter().map(|node| node.op.name().to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(ops("inference_mlp"), ["Gemm", "Relu", "Gemm"]);
    assert_eq!(
        ops("inference_convnet"),
        ["Conv", "BatchNormalization", "Relu", "MaxPool", "Flatten", "Gemm"]
    );
}
