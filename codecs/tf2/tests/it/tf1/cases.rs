//! Files that TensorFlow wrote, or that were damaged since, each with what it holds.

use super::build::{read, values};
use ckpt_api::Input;
use ckpt_conformance::cases;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = cases("graphdef") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (path, expected) in &cases {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let expect = expected["expect"].as_str().unwrap();
        *seen.entry(expect).or_default() += 1;
        let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
        let found =
            read(&input).and_then(|contents| values(&input, &contents).map(|values| (contents, values)));
        match (found, expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((contents, values)), _) => {
                let found = contents.checkpoint.tensors.iter().zip(values);
                let found = found.map(|(tensor, value)| {
                    let sum: String =
                        Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect();
                    let stated = format!("{} {:?} {sum}", tensor.dtype.name(), &tensor.shape[..]);
                    (tensor.name.to_string(), stated)
                });
                wrong.extend(compare(found.collect(), expected).err().map(|why| format!("{name}: {why}")));
            }
            (Err(_), _) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen, [("ok", 8), ("ok-or-refuse", 1), ("refuse", 18)].into());
}

fn compare(mut found: BTreeMap<String, String>, expected: &Value) -> Result<(), String> {
    for tensor in expected["tensors"].as_array().unwrap() {
        let name = tensor["name"].as_str().unwrap();
        let shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        let dtype = tensor["dtype"].as_str().unwrap().to_lowercase();
        let stated = format!("{dtype} {shape:?} {}", tensor["sha256"].as_str().unwrap());
        match found.remove(name) {
            None if tensor["optional"] == true => {}
            None => return Err(format!("'{name}' is missing")),
            Some(own) if own == stated => {}
            Some(own) => return Err(format!("'{name}' is {own}, not {stated}")),
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}

#[test]
fn the_graphs_of_all_frozen_models_are_read() {
    let Some(cases) = cases("graphdef") else { return };
    let mut seen = Vec::new();
    for (path, expected) in cases.iter().filter(|(_, expected)| expected["io"].is_string()) {
        let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
        let contents = read(&input).unwrap();
        let reason = contents.missing_graph.map(|missing| missing.reason);
        assert!(contents.checkpoint.graph.is_some(), "{}: {reason:?}", path.display());
        seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    assert_eq!(seen, ["frozen_attention", "frozen_cnn", "frozen_mlp"]);
}
