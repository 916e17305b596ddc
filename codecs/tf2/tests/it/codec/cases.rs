//! Each case in `CKPT_CASES`, compared with the values that TensorFlow reads.

use super::common::cases;
use ckpt_api::{Axis, Codec, Contents, DType, Input, Kind, Limits, Op, Options, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Corrupt cases, each with the expected kind of error; `None` if the right values must be read instead.
const BAD: &[(&str, Option<Kind>)] = &[
    ("bad_block_3_bytes", Some(Kind::Corrupt)),
    ("bad_crc_entry", Some(Kind::Corrupt)),
    ("bad_crc_unmasked", Some(Kind::Corrupt)),
    ("bad_data_block_crc", Some(Kind::Corrupt)),
    ("bad_data_flip", Some(Kind::Corrupt)),
    ("bad_data_truncated", Some(Kind::Corrupt)),
    ("bad_dir_as_index", Some(Kind::Usage)),
    ("bad_dtype_resource", Some(Kind::Unsupported)),
    ("bad_footer_handle_garbage", Some(Kind::Corrupt)),
    ("bad_footer_index_handle_past_eof", Some(Kind::Corrupt)),
    ("bad_index_47_bytes", Some(Kind::Corrupt)),
    ("bad_index_block_crc", Some(Kind::Corrupt)),
    ("bad_keys_duplicate", Some(Kind::Corrupt)),
    ("bad_min_producer", Some(Kind::Unsupported)),
    ("bad_no_entries", Some(Kind::Corrupt)),
    ("bad_no_header", Some(Kind::Corrupt)),
    ("bad_no_index", Some(Kind::Io)),
    ("bad_num_shards_negative", Some(Kind::Corrupt)),
    // The object graph is only used for names: a defect in it changes no value.
    ("bad_object_graph_cycle", None),
    ("bad_offset_overlap_wrong", Some(Kind::Corrupt)),
    ("bad_offset_past_eof", Some(Kind::Corrupt)),
    ("bad_restarts_zero", Some(Kind::Corrupt)),
    ("bad_shape_large_with_zero", Some(Kind::Corrupt)),
    ("bad_shard_id_too_big", Some(Kind::Corrupt)),
    ("bad_shard_missing", Some(Kind::Io)),
    ("bad_shard_one_of_two_missing", Some(Kind::Io)),
    ("bad_shared_gt_prev", Some(Kind::Corrupt)),
    ("bad_size_negative", Some(Kind::Corrupt)),
    ("bad_size_small", Some(Kind::Corrupt)),
    ("bad_slice_negative", Some(Kind::Corrupt)),
    ("bad_slice_rank", Some(Kind::Corrupt)),
    ("bad_slice_shape_differs", Some(Kind::Corrupt)),
    ("bad_slices_do_not_cover", Some(Kind::Corrupt)),
    ("bad_snappy_bomb_claim", Some(Kind::Corrupt)),
    ("bad_snappy_copy_before_start", Some(Kind::Corrupt)),
    // The input is the prefix, and the state file is not read.
    ("bad_state_traversal", None),
    ("bad_string_body", Some(Kind::Corrupt)),
    ("bad_string_len_crc", Some(Kind::Corrupt)),
    ("bad_string_len_flip_1", Some(Kind::Corrupt)),
    ("bad_string_len_past_end", Some(Kind::Corrupt)),
    ("bad_string_size_short", Some(Kind::Corrupt)),
    ("bad_variant_garbage", Some(Kind::Corrupt)),
];

/// Minimum number of valid and odd cases.
const GOOD: usize = 48;

#[test]
fn values_of_valid_cases_are_those_that_tensorflow_reads() {
    let Some(cases) = cases() else { return };
    let mut seen = 0;
    for (name, directory, expected) in &cases {
        if !matches!(expected["kind"].as_str(), Some("valid" | "odd")) {
            continue;
        }
        seen += 1;
        if name.starts_with("swift_") {
            check_listing(name, directory, expected, &Limits::default());
        } else if name == "long_names" {
            let limits = limits_for_names(1 << 20);
            let contents = check_listing(name, directory, expected, &limits);
            check_plain_values(name, directory, expected, &contents);
        } else {
            let found = read(directory, expected).unwrap_or_else(|error| panic!("{name}: {error}"));
            check_values(name, expected, &found).unwrap_or_else(|message| panic!("{name}: {message}"));
        }
    }
    assert!(seen >= GOOD, "only {seen} valid cases");
}

#[test]
fn corrupt_cases_give_the_expected_error_or_the_right_values() {
    let Some(cases) = cases() else { return };
    let mut seen = 0;
    for (name, directory, expected) in cases.iter().filter(|(_, _, expected)| expected["kind"] == "bad") {
        let result = read(directory, expected);
        let known = BAD.iter().find(|(bad, _)| bad == name);
        seen += usize::from(known.is_some());
        match (known, result) {
            (Some((_, Some(kind))), Err(error)) => {
                assert_eq!(error.kind(), *kind, "{name}: {error}");
                assert!(error.context().file.is_some(), "{name} names no file: {error}");
                println!("{name}: {error}");
            }
            (Some((_, Some(kind))), Ok(_)) => panic!("{name}: read, but must be refused as {kind}"),
            (Some((_, None)), Err(error)) => panic!("{name}: {error}"),
            (None, Err(_)) => {}
            (Some((_, None)) | None, Ok(found)) => {
                check_values(name, expected, &found).unwrap_or_else(|message| panic!("{name}: {message}"));
            }
        }
    }
    assert_eq!(seen, BAD.len(), "cases of the table that were seen");
}

#[test]
fn a_v1_checkpoint_is_recognized_and_refused() {
    let Some(cases) = cases() else { return };
    let (_, directory, _) =
        cases.iter().find(|(name, ..)| name == "tf1_v1_format").expect("the case is there");
    for entry in ["model.ckpt-7", "checkpoint", ""] {
        let input = Input::open(directory.join(entry)).unwrap();
        let error = ckpt_conformance::read(&ckpt_tf2::Tf2, &input, &[]).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{entry}: {error}");
        assert!(error.to_string().contains("V1 checkpoint"), "{entry}: {error}");
    }
}

#[test]
fn a_state_file_that_points_out_of_its_directory_is_not_followed() {
    let Some(cases) = cases() else { return };
    let (_, directory, _) =
        cases.iter().find(|(name, ..)| name == "bad_state_traversal").expect("the case is there");
    for entry in ["checkpoint", ""] {
        let error = ckpt_conformance::read(&ckpt_tf2::Tf2, &Input::open(directory.join(entry)).unwrap(), &[])
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("the directory contains ckpt"), "{error}");
    }
}

#[test]
fn every_form_of_input_gives_the_same_checkpoint() {
    let Some(cases) = cases() else { return };
    let find =
        |name: &str| cases.iter().find(|(case, ..)| case == name).expect("the case is there").1.clone();
    let (manager, tf1, saved) = (find("manager"), find("tf1_saver"), find("keras2_saved_model"));
    let forms = [
        (manager.clone(), "ckpt-5", &["", "checkpoint", "ckpt-5.index", "ckpt-5.data-00000-of-00001"][..]),
        (tf1, "model.ckpt-7", &["", "checkpoint", "model.ckpt-7.index"]),
        (
            saved,
            "sm/variables/variables",
            &["sm", "sm/saved_model.pb", "sm/variables", "sm/variables/variables.index"],
        ),
    ];
    for (directory, prefix, others) in forms {
        let names = |entry: &str| {
            let input = Input::open(directory.join(entry)).unwrap();
            let probed = ckpt_api::Codec::probe(&ckpt_tf2::Tf2, &input).unwrap();
            assert!(matches!(probed, ckpt_api::Match::Certain(_)), "{entry}: {probed:?}");
            let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &input, &key_names()).unwrap();
            let names: Vec<_> = contents.checkpoint.tensors.into_iter().map(|tensor| tensor.name).collect();
            (names, values)
        };
        let expected = names(prefix);
        for entry in others {
            assert!(names(entry) == expected, "{entry:?} of {prefix}");
        }
    }
}

#[test]
fn tensors_have_the_names_of_variables_and_keep_their_keys() {
    let Some(cases) = cases() else { return };
    let (_, directory, expected) =
        cases.iter().find(|(name, ..)| name == "keras3_mlp_adam").expect("the case is there");
    let read = |options: &[(&str, &str)]| {
        let options: Vec<_> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ckpt_conformance::read(&ckpt_tf2::Tf2, &input(directory, expected), &options)
    };
    let (contents, values) = read(&[]).unwrap();
    let (id, tensor) =
        contents.checkpoint.tensor("mlp/dense/kernel").expect("the kernel has the variable's name");
    assert_eq!(tensor.axes, Some([Axis::In, Axis::Out].into()));
    let key = &contents.placements[id.0].name;
    assert!(key.ends_with("/.ATTRIBUTES/VARIABLE_VALUE"), "{key}");
    assert_eq!(tensor.metadata.text("tf2", "key"), Some(key.as_str()));
    let (by_key, same) = read(&[("keys", "true")]).unwrap();
    assert_eq!(by_key.checkpoint.tensors[id.0].name, *key);
    assert!(values == same);
    let (given, _) = read(&[("activations", "relu,softmax")]).unwrap();
    let ops: Vec<_> = given.checkpoint.graph.unwrap().nodes.into_iter().map(|node| node.op).collect();
    assert_eq!(ops, [Op::Gemm, Op::Relu, Op::Gemm, Op::Softmax]);
    assert_eq!(read(&[("activations", "relu")]).unwrap_err().kind(), Kind::Usage);
}

/// Tensors by key.
type Found = BTreeMap<String, FoundTensor>;

struct FoundTensor {
    dtype: DType,
    shape: Vec<u64>,
    lengths: Option<Vec<u64>>,
    value: Vec<u8>,
}

fn key_names() -> Vec<(String, String)> {
    vec![("keys".to_owned(), "true".to_owned())]
}

fn read(directory: &Path, expected: &Value) -> Result<Found> {
    let prefix = expected["prefix"].as_str().expect("a prefix");
    let input = Input::open(directory.join(prefix))?;
    let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, &input, &key_names())?;
    let tensors = contents.checkpoint.tensors.into_iter().zip(values);
    let tensors = tensors.map(|(tensor, value)| {
        let found = FoundTensor {
            dtype: tensor.dtype,
            shape: tensor.shape.to_vec(),
            lengths: tensor.lengths.map(Vec::from),
            value,
        };
        (tensor.name.into(), found)
    });
    Ok(tensors.collect())
}

fn check_values(case: &str, expected: &Value, found: &Found) -> Result<(), String> {
    let tensors = expected["tensors"].as_array().expect("tensors");
    let names: Vec<_> = tensors.iter().map(|tensor| tensor["name"].as_str().expect("a name")).collect();
    if names.len() != found.len() {
        return Err(format!("{} tensors instead of {}", found.len(), names.len()));
    }
    for tensor in tensors {
        let name = tensor["name"].as_str().expect("a name");
        let FoundTensor { dtype, shape, lengths, value } =
            found.get(name).ok_or_else(|| format!("tensor {name:?} is missing"))?;
        check_kind(tensor, *dtype, shape).map_err(|message| format!("{name}: {message}"))?;
        if let Some(sha) = tensor["sha256"].as_str() {
            if hex(&Sha256::digest(value)) != sha {
                return Err(format!(
                    "{name} has other values than {sha}: {}",
                    hex(&value[..value.len().min(64)])
                ));
            }
        } else if tensor["error"].is_null() {
            check_strings(tensor, lengths.as_deref().unwrap_or_default(), value)
                .map_err(|message| format!("{name}: {message}"))?;
        } else {
            // TensorFlow cannot read this tensor, but this codec can. The values follow from how the case was made.
            let made = readable_beyond_tensorflow(case, name);
            let lengths = lengths.clone();
            if made.is_none_or(|(bytes, lens)| hex(value) != bytes || lengths != lens)
                && !case.starts_with("variant")
            {
                return Err(format!("{name}: {} {lengths:?}", hex(value)));
            }
        }
    }
    Ok(())
}

fn readable_beyond_tensorflow(case: &str, name: &str) -> Option<(&'static str, Option<Vec<u64>>)> {
    match (case, name) {
        ("partitioned_unrestorable_dtype", "h") => Some(("003c003c003c003c003c003c003c003c", None)),
        ("partitioned_unrestorable_dtype", "u") => Some(("010002000300", None)),
        ("partitioned_unrestorable_dtype", "s") => Some(("616263", Some(vec![1, 1, 1]))),
        _ => None,
    }
}

fn check_kind(expected: &Value, dtype: DType, shape: &[u64]) -> Result<(), String> {
    let dims: Vec<u64> =
        expected["shape"].as_array().expect("a shape").iter().filter_map(Value::as_u64).collect();
    let named = expected["dtype"].as_str().expect("a dtype").trim_start_matches("DT_");
    if dtype_name(named) != dtype.name() || dims != shape {
        return Err(format!("{dtype} {shape:?} instead of {named} {dims:?}"));
    }
    Ok(())
}

/// The name of a TensorFlow dtype in this project.
fn dtype_name(named: &str) -> String {
    match named {
        "float16" | "float32" | "float64" => named.replace("float", "f"),
        "bfloat16" => "bf16".into(),
        "complex64" => "c64".into(),
        "complex128" => "c128".into(),
        "float8_e4m3fn" => "f8_e4m3".into(),
        "float4_e2m1fn" => "f4_e2m1".into(),
        "VARIANT" => "variant".into(),
        _ if named.starts_with("float8_") => named.replace("float8", "f8"),
        _ if named.starts_with("int") => named.replace("int", "i"),
        _ if named.starts_with("uint") => named.replace("uint", "u"),
        _ => named.to_owned(),
    }
}

fn check_strings(expected: &Value, lengths: &[u64], value: &[u8]) -> Result<(), String> {
    let mut rest = value;
    let mut digest = Sha256::new();
    for (index, len) in lengths.iter().enumerate() {
        let (element, tail) = rest.split_at(usize::try_from(*len).expect("a length"));
        rest = tail;
        digest.update(len.to_le_bytes());
        digest.update(element);
        if let Some(wanted) = expected["strings"].get(index) {
            // Of a long element, the digest is given.
            let found = match wanted["sha256"].is_null() {
                true => Value::from(hex(element)),
                false => serde_json::json!({ "len": len, "sha256": hex(&Sha256::digest(element)) }),
            };
            if found != *wanted {
                return Err(format!("element {index} differs from {wanted:.100}"));
            }
        }
    }
    match expected["strings_sha256"].as_str() {
        Some(sha) if sha == hex(&digest.finalize()) => Ok(()),
        sha => Err(format!("strings have another digest than {sha:?}")),
    }
}

/// Checks everything except the values, for cases without data files.
fn check_listing(case: &str, directory: &Path, expected: &Value, limits: &Limits) -> Contents {
    let contents = ckpt_tf2::Tf2.read(&input(directory, expected), &Options::default(), limits).unwrap();
    contents.check(limits).unwrap();
    let tensors = expected["tensors"].as_array().expect("tensors");
    assert_eq!(contents.checkpoint.tensors.len(), tensors.len(), "{case}");
    for tensor in tensors {
        let name = tensor["name"].as_str().expect("a name");
        let (_, found) =
            contents.checkpoint.tensor(name).unwrap_or_else(|| panic!("{case}: {name} is missing"));
        check_kind(tensor, found.dtype, &found.shape)
            .unwrap_or_else(|message| panic!("{case}: {name}: {message}"));
    }
    contents
}

/// Checks values that are stored as they are.
fn check_plain_values(case: &str, directory: &Path, expected: &Value, contents: &Contents) {
    let input = input(directory, expected);
    for tensor in expected["tensors"].as_array().expect("tensors") {
        let name = tensor["name"].as_str().expect("a name");
        let (id, _) = contents.checkpoint.tensor(name).expect("the tensor is there");
        let mut digest = Sha256::new();
        for extent in &contents.placements[id.0].extents {
            let file = input.file(&contents.files[extent.file.0]).unwrap();
            digest.update(file.bytes(extent.offset, extent.len).unwrap());
        }
        assert_eq!(
            Some(hex(&digest.finalize()).as_str()),
            tensor["sha256"].as_str(),
            "{case}: a value differs"
        );
    }
}

fn input(directory: &Path, expected: &Value) -> Input {
    Input::open(directory.join(expected["prefix"].as_str().expect("a prefix"))).unwrap()
}

fn limits_for_names(bytes: u64) -> Limits {
    let mut limits = Limits::default();
    limits.set_by_name("name_bytes", &bytes.to_string()).unwrap();
    limits
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
