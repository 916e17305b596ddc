//! Models that TensorFlow.js and its converter wrote, each with what it holds: the directory that `CKPT_CASES` names; without
//! it, these tests say that they skip.

use ckpt_api::{Codec, Contents, DType, Input, Match};
use ckpt_conformance::cases;
use ckpt_tfjs::Tfjs;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = cases("tfjs") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (path, expected) in &cases {
        let name = path.file_name().unwrap().to_string_lossy();
        let expect = expected["expect"].as_str().unwrap();
        let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
        let outcome = ckpt_conformance::read(&Tfjs, &input, &[]);
        let read = if outcome.is_ok() { "read" } else { "refused" };
        *seen.entry(format!("{expect}: {read}")).or_default() += 1;
        match (outcome, expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((contents, values)), _) => {
                if let Err(why) = compare(&contents, &values, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
                if !matches!(Tfjs.probe(&input).unwrap(), Match::Certain(_)) {
                    wrong.push(format!("{name}: not recognized"));
                }
            }
            (Err(error), _) => eprintln!("{name}: {}: {error}", expected["why"]),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected =
        [("ok-or-refuse: read", 2), ("ok-or-refuse: refused", 1), ("ok: read", 36), ("refuse: refused", 34)];
    assert_eq!(seen, expected.map(|(sort, count)| (sort.to_owned(), count)).into());
}

fn compare(contents: &Contents, values: &[Vec<u8>], expected: &Value) -> Result<(), String> {
    let tensors = contents.checkpoint.tensors.iter().zip(values);
    let mut found: BTreeMap<&str, _> = tensors.map(|pair| (pair.0.name.as_str(), pair)).collect();
    for tensor in expected["tensors"].as_array().unwrap() {
        let name = tensor["name"].as_str().unwrap();
        let Some((own, value)) = found.remove(name) else { return Err(format!("'{name}' is missing")) };
        let shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        let dtype = tensor["dtype"].as_str().unwrap().to_lowercase();
        if own.shape[..] != shape[..] || own.dtype.name() != dtype {
            return Err(format!("'{name}' is {} {}", own.dtype, own.shape));
        }
        let hex: String = Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect();
        if hex != tensor["sha256"].as_str().unwrap() {
            return Err(format!("'{name}' has other values"));
        }
    }
    for name in expected["strings"].as_array().unwrap_or(&Vec::new()) {
        let of_texts = found.remove(name.as_str().unwrap()).map(|(tensor, _)| tensor.dtype);
        if of_texts != Some(DType::String) {
            return Err(format!("{name} is {of_texts:?}"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}
