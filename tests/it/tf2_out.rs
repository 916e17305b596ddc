//! TensorFlow checkpoints through the engine: written as they were, and by way of safetensors. `CKPT_CASES` names the
//! folder of real files.

use crate::common::{cases, convert, open};
use ckpt::{Conversion, Resources};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Cases that have no data, or whose tensors share bytes.
const LEFT_OUT: [&str; 5] =
    ["odd_shared_data", "swift_minigo", "swift_resnet", "swift_style", "swift_transformer"];

/// Cases with strings, variants or complex128, which safetensors has no place for.
const NOT_FOR_SAFETENSORS: [&str; 17] = [
    "all_dtypes",
    "odd_align4096",
    "odd_align42",
    "odd_base",
    "odd_big_endian",
    "odd_newer_producer",
    "odd_no_meta_block",
    "odd_no_shape",
    "odd_no_version",
    "odd_trailing_data",
    "odd_unknown_fields",
    "old_string_tensors_like",
    "partitioned_unrestorable_dtype",
    "shapes",
    "shards2",
    "strings",
    "variant_list",
];

#[test]
fn every_valid_checkpoint_comes_back_byte_for_byte_whatever_the_budget_and_threads() {
    let Some(all) = valid_cases() else { return };
    let mut seen = 0;
    for (name, prefix) in all {
        let work = tempfile::tempdir().unwrap();
        let small = Resources::new().max_memory(96 << 20).threads(3);
        for (number, resources) in [Resources::default(), small].into_iter().enumerate() {
            let output = work.path().join(format!("{number}")).join(prefix.file_name().unwrap());
            std::fs::create_dir(output.parent().unwrap()).unwrap();
            convert(open(&prefix, &[]), &output, &to_tf2(resources));
            compare(&name, &output, &prefix);
        }
        seen += 1;
    }
    assert_eq!(seen, 43);
}

#[test]
fn a_checkpoint_comes_back_byte_for_byte_by_way_of_safetensors() {
    let Some(all) = valid_cases() else { return };
    let mut seen = 0;
    for (name, prefix) in all {
        if NOT_FOR_SAFETENSORS.contains(&name.as_str()) {
            continue;
        }
        let work = tempfile::tempdir().unwrap();
        let middle = work.path().join("m.safetensors");
        let output = work.path().join(prefix.file_name().unwrap());
        // Without a pattern, second copies of tensors are left out of other formats.
        let copies = (name == "keras3_export").then_some("**");
        let conversion = copies.into_iter().fold(Conversion::new(), Conversion::include);
        convert(open(&prefix, &[]), &middle, &conversion);
        convert(open(&middle, &[]), &output, &to_tf2(Resources::default()));
        compare(&name, &output, &prefix);
        seen += 1;
    }
    assert_eq!(seen, 26);
}

fn to_tf2(resources: Resources) -> Conversion {
    Conversion::new().to("tf2").resources(resources)
}

/// Valid cases and odd ones: their names and prefixes.
fn valid_cases() -> Option<Vec<(String, PathBuf)>> {
    let root = cases("tf2")?;
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let directory = entry.unwrap().path();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(text) = std::fs::read_to_string(directory.join("expected.json")) else { continue };
        let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        let valid = matches!(expected["kind"].as_str(), Some("valid" | "odd"));
        if valid && !LEFT_OUT.contains(&name.as_str()) {
            all.push((name, directory.join(expected["prefix"].as_str().unwrap())));
        }
    }
    all.sort();
    Some(all)
}

fn compare(case: &str, output: &Path, prefix: &Path) {
    let (found, expected) = (bundle(output), bundle(prefix));
    assert!(found.keys().eq(expected.keys()), "{case}: {:?}", found.keys());
    for (ending, bytes) in &found {
        assert!(*bytes == expected[ending], "{case}: {ending} differs");
    }
}

/// The files of a checkpoint by what follows the prefix.
fn bundle(prefix: &Path) -> BTreeMap<String, Vec<u8>> {
    let stem = prefix.file_name().unwrap().to_string_lossy().into_owned();
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(prefix.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ending = name.strip_prefix(&stem).filter(|rest| *rest == ".index" || rest.starts_with(".data-"));
        if let Some(ending) = ending {
            files.insert(ending.to_owned(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// Names that a conversion of the example SavedModel to safetensors or TensorFlow writes, and its losses of duplicates.
fn written(to: &str, conversion: Conversion) -> (Vec<String>, Vec<String>) {
    let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits_saved_model");
    let work = tempfile::tempdir().unwrap();
    let registry = ckpt::Registry::builtin();
    let source = open(&saved, &[]);
    let planned = conversion.to(to).verify(true).plan(&registry, &source, work.path().join("out")).unwrap();
    let losses = planned.plan().losses.iter();
    let losses = losses.filter(|loss| loss.kind == ckpt::api::LossKind::DuplicateDropped);
    let losses = losses.map(|loss| loss.subject.clone()).collect();
    let mut names: Vec<String> = planned.plan().tensors().map(|entry| entry.to.name.to_string()).collect();
    names.sort();
    planned.execute(&ckpt::Execution::new().sync(false), &|_| ()).unwrap();
    (names, losses)
}

fn copies() -> Vec<String> {
    (0..4).map(|number| format!("_all_variables/{number}/.ATTRIBUTES/VARIABLE_VALUE")).collect()
}

#[test]
fn a_second_copy_is_written_in_another_format_only_if_a_pattern_or_a_rule_names_it_or_its_original_is_not() {
    let weights = ["digits/digit/bias", "digits/digit/kernel", "digits/hidden/bias", "digits/hidden/kernel"];
    assert_eq!(written("safetensors", Conversion::new()), (weights.map(str::to_owned).into(), copies()));
    let excluded = written("safetensors", Conversion::new().exclude("_all_variables/**"));
    assert_eq!(excluded, (weights.map(str::to_owned).into(), Vec::new()));
    let (names, losses) = written("safetensors", Conversion::new().exclude("digits/hidden/bias"));
    let (original, copies_of_others) = (&copies()[3], &copies()[..3]);
    assert!(
        names.contains(original) && names.len() == 4 && losses == copies_of_others,
        "{names:?} {losses:?}"
    );
    let (names, losses) = written("safetensors", Conversion::new().include("**/VARIABLE_VALUE"));
    assert_eq!((names, losses), (copies(), Vec::new()));

    let mapping = |text: &str| ckpt::mapping::Mapping::from_toml(text, "m.toml").unwrap();
    let renamed = mapping("ignore_roles = ['bookkeeping']\n[[rule]]\nfrom = 'digits/{x:path}'\nto = '{x}'\n");
    let (names, losses) = written("safetensors", Conversion::new().mapping(renamed));
    assert_eq!((names, losses), (weights.map(|name| name.replace("digits/", "")).into(), copies()));
    let named = mapping("identity = true\n[[rule]]\nfrom = '_all_variables/0/{x:path}'\nto = 'copy/{x}'\n");
    let (names, losses) = written("safetensors", Conversion::new().mapping(named));
    assert_eq!((names[0].as_str(), names.len()), ("copy/.ATTRIBUTES/VARIABLE_VALUE", 5));
    assert_eq!(losses, copies()[1..]);
}

#[test]
fn second_copies_stay_in_their_own_format_and_where_their_originals_are_left_out() {
    let (names, losses) = written("tf2", Conversion::new());
    assert_eq!((names.len(), losses.len()), (9, 0), "{names:?}");
    let (names, losses) = written("safetensors", Conversion::new().exclude("digits/**"));
    assert_eq!((names, losses), (copies(), Vec::new()));
}
