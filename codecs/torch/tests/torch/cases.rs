//! Checkpoints that PyTorch and others wrote, each with what it holds: the directory that `CKPT_CASES` names.

use ckpt_api::{Codec, Contents, Input, Limits, Options};
use ckpt_conformance::{case_folder, cases};
use ckpt_torch::Torch;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of a case.
pub fn case_dir(name: &str) -> Option<PathBuf> {
    case_folder("torch").map(|path| path.join(name))
}

pub fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The input of a case of one file.
pub fn case_input(path: &Path, expected: &Value) -> Option<Input> {
    let open = path.join(expected["open"].as_str().unwrap());
    (open.is_file() && open.extension().is_none_or(|ending| ending != "json"))
        .then(|| Input::open(open).unwrap())
}

#[test]
fn every_case_is_read_with_its_values_or_refused() {
    let Some(cases) = cases("torch") else { return };
    let (mut seen, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (path, expected) in &cases {
        let name = name(path);
        let expect = expected["expect"].as_str().unwrap();
        let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
        let outcome = ckpt_conformance::read(&Torch, &input, &[]);
        let read = if outcome.is_ok() { "read" } else { "refused" };
        *seen.entry(format!("{expect}: {read}")).or_default() += 1;
        match (outcome, expect) {
            (Err(error), "ok") => wrong.push(format!("{name}: {error}")),
            (Ok(_), "refuse") => wrong.push(format!("{name}: read, though {}", expected["why"])),
            (Ok((contents, values)), _) => {
                if let Err(why) = compare(&contents, &values, expected) {
                    wrong.push(format!("{name}: {why}"));
                }
            }
            (Err(_), _) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected =
        [("ok-or-refuse: read", 17), ("ok-or-refuse: refused", 4), ("ok: read", 26), ("refuse: refused", 64)];
    assert_eq!(seen, expected.map(|(sort, count)| (sort.to_owned(), count)).into());
}

fn compare(contents: &Contents, values: &[Vec<u8>], expected: &Value) -> Result<(), String> {
    let tensors = contents.checkpoint.tensors.iter().zip(values);
    let mut found: BTreeMap<&str, _> = tensors.map(|pair| (pair.0.name.as_str(), pair)).collect();
    for tensor in expected["tensors"].as_array().unwrap() {
        let name = tensor["name"].as_str().unwrap();
        let Some((own, value)) = found.remove(name) else {
            if tensor["optional"] == true {
                continue;
            }
            return Err(format!("'{name}' is missing"));
        };
        let shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        let dtype = tensor["dtype"].as_str().unwrap().to_lowercase();
        if own.dtype.name() != dtype || own.shape[..] != shape[..] {
            return Err(format!("'{name}' is {} {}", own.dtype, own.shape));
        }
        let hex: String = Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect();
        if hex != tensor["sha256"].as_str().unwrap() {
            return Err(format!("'{name}' has other values"));
        }
        if let Some(quantized) = tensor.get("quantised") {
            let list = |key: &str| {
                let stated = &quantized[key];
                let numbers = stated.as_array().cloned().unwrap_or_else(|| vec![stated.clone()]);
                numbers.iter().map(|number| number.as_f64().unwrap()).collect::<Vec<f64>>()
            };
            let kept = own.quantization.as_ref().and_then(|own| own.affine());
            let kept = kept.map(|own| (own.scales().to_vec(), own.zero_points().to_vec()));
            if kept != Some((list("scale"), list("zero_point"))) {
                return Err(format!("'{name}' has other scales: {kept:?}"));
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("unexpected: {:?}", found.keys())) }
}

/// Reads a case by its name, if there are cases.
fn case(name: &str, options: &[(&str, &str)]) -> Option<Contents> {
    let (path, expected) = cases("torch")?.into_iter().find(|(path, _)| self::name(path) == name).unwrap();
    let input = Input::open(path.join(expected["open"].as_str().unwrap())).unwrap();
    let pairs: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let info = Torch.info();
    let options = Options::parse(info.id, info.options, ckpt_api::Side::Read, &pairs).unwrap();
    Some(Torch.read(&input, &options, &Limits::default()).unwrap())
}

#[test]
fn a_branch_is_read_alone_and_under_shorter_names() {
    let Some(contents) = case("train_checkpoint", &[("root", "optimizer.state.0")]) else { return };
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["step", "exp_avg", "exp_avg_sq"]);
}

#[test]
fn optimizer_state_has_its_role_and_its_slot() {
    let Some(contents) = case("train_checkpoint", &[]) else { return };
    let roles: BTreeMap<&str, String> = contents
        .checkpoint
        .tensors
        .iter()
        .map(|tensor| {
            let slot = tensor.slot.as_ref().map(|slot| format!(" {} of {}", slot.name, slot.variable));
            (tensor.name.as_str(), format!("{}{}", tensor.role.name(), slot.unwrap_or_default()))
        })
        .collect();
    for (name, role) in [
        ("model.0.weight", "weight"),
        ("optimizer.state.0.step", "counter"),
        ("optimizer.state.0.exp_avg", "optimizer m of model.0.weight"),
        ("optimizer.state.3.exp_avg_sq", "optimizer v of model.2.bias"),
        ("rng", "weight"),
    ] {
        assert_eq!(roles[name], role, "{name}");
    }
}

#[test]
fn what_is_no_tensor_becomes_metadata_or_is_reported() {
    let Some(contents) = case("lightning", &[]) else { return };
    let metadata = &contents.checkpoint.metadata;
    assert_eq!(metadata.value("torch", "epoch").and_then(|value| value.as_u64()), Some(3));
    let Some(contents) = case("hostile_class_reference", &[]) else { return };
    assert!(contents.notes.iter().any(|note| note.contains("names posix.system")), "{:?}", contents.notes);
    assert!(contents.notes.iter().any(|note| note.contains("'x' (posix.system)")), "{:?}", contents.notes);
}

#[test]
fn a_distributed_checkpoint_has_its_roles_and_its_other_values() {
    let Some(contents) = case("dcp_train", &[]) else { return };
    let metadata = &contents.checkpoint.metadata;
    assert_eq!(metadata.value("torch", "epoch").and_then(|value| value.as_u64()), Some(3));
    let scanned = "the pickle calls collections.OrderedDict, torch._utils._rebuild_tensor_v2, and names";
    assert!(contents.notes.len() == 1 && contents.notes[0].starts_with(scanned), "{:?}", contents.notes);
    let (_, slot) = contents.checkpoint.tensor("optimizer.state.w.exp_avg").unwrap();
    assert_eq!(slot.role, ckpt_api::Role::Optimizer);
}

#[test]
fn distributed_checkpoints_that_pytorch_wrote_come_back_byte_for_byte() {
    let Some(cases) = cases("torch") else { return };
    let mut seen = Vec::new();
    for (path, _) in cases.iter().filter(|(path, expected)| {
        name(path).starts_with("dcp_") && expected["expect"] == "ok" && path.join("dcp").is_dir()
    }) {
        let input = Input::open(path.join("dcp")).unwrap();
        let (contents, values) = ckpt_conformance::read(&Torch, &input, &[]).unwrap();
        let written = ckpt_conformance::write(&Torch, &contents.checkpoint, &values, "out", &[]).unwrap();
        let files: BTreeMap<String, Vec<u8>> = fs::read_dir(path.join("dcp"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (format!("out/{}", entry.file_name().display()), fs::read(entry.path()).unwrap()))
            .collect();
        assert_eq!(written, files, "{}", path.display());
        seen.push(name(path));
    }
    assert_eq!(seen, ["dcp_fsdp_2", "dcp_sharded_2", "dcp_single", "dcp_train"]);
}

#[test]
fn what_a_distributed_checkpoint_lacks_is_named() {
    for (name, lacking) in [("dcp_no_metadata", "'.metadata'"), ("dcp_missing_file", "no __0_0.distcp")] {
        let Some(cases) = cases("torch") else { return };
        let (path, _) = cases.into_iter().find(|(path, _)| self::name(path) == name).unwrap();
        let error = ckpt_conformance::read(&Torch, &Input::open(path.join("dcp")).unwrap(), &[]).unwrap_err();
        assert!(error.to_string().contains(lacking), "{error}");
    }
}

#[test]
fn a_dangerous_call_is_left_out_where_that_is_asked_for() {
    let Some(contents) = case("hostile_os_system", &[("lenient", "true")]) else { return };
    assert_eq!(contents.checkpoint.tensors.len(), 1);
    assert_eq!(contents.repairs.len(), 1);
}
