//! Models with what they hold: the directory that `CKPT_CASES` names; without it, these tests say that they skip.

use ckpt_api::{Codec, Contents, Input, Kind, Match};
use ckpt_caffe::Caffe;
use ckpt_conformance::cases;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

#[test]
fn every_case_is_read_with_its_values_and_written_again_or_refused() {
    let Some(cases) = cases("caffe") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (path, expected) in &cases {
        let name = path.file_name().unwrap().to_string_lossy();
        let expect = expected["expect"].as_str().unwrap();
        *seen.entry(expect.to_owned()).or_default() += 1;
        let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
        match (ckpt_conformance::read(&Caffe, &input, &[]), expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((contents, values)), _) => {
                if let Err(why) = compare(&contents, &values, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
                if !matches!(Caffe.probe(&input).unwrap(), Match::Certain(_)) {
                    wrong.push(format!("{name}: not recognized"));
                }
                let has_text = path.join("deploy.prototxt").exists();
                if contents.checkpoint.graph.is_some() != has_text {
                    wrong.push(format!("{name}: {:?}", contents.missing_graph));
                }
                let files =
                    ckpt_conformance::write(&Caffe, &contents.checkpoint, &values, "out.caffemodel", &[]);
                if name == "unpacked" {
                    assert!(files.unwrap_err().to_string().contains("like=FILE"));
                    continue;
                }
                let files = files.unwrap();
                let read = |file: &str| std::fs::read(path.join(file)).unwrap();
                assert!(files["out.caffemodel"] == read("model.caffemodel"), "{name}");
                assert!(!has_text || files["out.prototxt"] == read("deploy.prototxt"), "{name}");
            }
            (Err(error), _) => {
                let context = error.context();
                let is_known = matches!(error.kind(), Kind::Corrupt | Kind::Unsupported);
                let is_placed = context.offset.is_some() || context.field.is_some() || context.help.is_some();
                if !is_known || context.file.is_none() || !is_placed {
                    wrong.push(format!("{name}: does not say where and what: {error}"));
                }
                eprintln!("{name}: {}: {error}", expected["why"]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        seen,
        [("ok", 8), ("ok-or-refuse", 2), ("refuse", 15)].map(|(sort, count)| (sort.to_owned(), count)).into()
    );
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
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}
