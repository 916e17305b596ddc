//! Weights that several stored tensors describe together: what a conversion makes of them, and when it stops.

use crate::common::{cases, open, workplace::Workplace};
use ckpt::{Conversion, Kind, OpenOptions, Registry, Source};
use ckpt_api::{DType, LossKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Inputs and outputs of the matrix, and inputs that share a scale.
const INPUTS: usize = 64;
const OUTPUTS: usize = 16;
const GROUP: usize = 32;

/// A stored tensor: name, dtype, shape and bytes.
pub(crate) type Stored = (&'static str, &'static str, Vec<usize>, Vec<u8>);

/// Writes a directory of one safetensors file and a configuration.
pub(crate) fn directory(place: &Workplace, name: &str, config: &Value, tensors: &[Stored]) -> PathBuf {
    let directory = place.path(name);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::from(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(directory.join("model.safetensors"), file).unwrap();
    directory
}

/// The integer of 4 bits at an input and an output, and the zero point and scale of a group.
fn integer(input: usize, output: usize) -> u32 {
    ((input * 7 + output * 5) % 16) as u32
}

fn zero(group: usize, output: usize) -> u32 {
    ((group * 3 + output) % 15 + 1) as u32
}

fn scale(group: usize, output: usize) -> f32 {
    (1 + group + output) as f32 / 64.0
}

fn gptq_config() -> Value {
    json!({ "quantization_config": { "quant_method": "gptq", "bits": 4, "group_size": GROUP } })
}

/// A weight of GPTQ: with `groups`, inputs in this order of groups.
fn gptq(groups: Option<&[usize]>) -> Vec<Stored> {
    let words = |rows: usize, columns: usize, field: &dyn Fn(usize, usize, usize) -> u32| -> Vec<u8> {
        let word = |row, column| (0..8).fold(0_u32, |word, k| word | field(row, column, k) << (4 * k));
        (0..rows)
            .flat_map(|row| (0..columns).flat_map(move |column| word(row, column).to_le_bytes()))
            .collect()
    };
    let weights = words(INPUTS / 8, OUTPUTS, &|row, column, k| integer(row * 8 + k, column));
    let zeros = words(INPUTS / GROUP, OUTPUTS / 8, &|row, column, k| zero(row, column * 8 + k) - 1);
    let scales = (0..INPUTS / GROUP).flat_map(|group| (0..OUTPUTS).map(move |output| scale(group, output)));
    let scales: Vec<u8> = scales.flat_map(|scale| half::f16::from_f32(scale).to_le_bytes()).collect();
    let mut tensors = vec![
        ("m.qweight", "I32", vec![INPUTS / 8, OUTPUTS], weights),
        ("m.qzeros", "I32", vec![INPUTS / GROUP, OUTPUTS / 8], zeros),
        ("m.scales", "F16", vec![INPUTS / GROUP, OUTPUTS], scales),
        ("norm.weight", "F16", vec![1], vec![0, 60]),
    ];
    if let Some(groups) = groups {
        let bytes = groups.iter().flat_map(|group| (*group as i32).to_le_bytes()).collect();
        tensors.insert(3, ("m.g_idx", "I32", vec![groups.len()], bytes));
    }
    tensors
}

/// The numbers of the weight, [out, in].
fn numbers(groups: Option<&[usize]>) -> Vec<f32> {
    let number = |input: usize, output: usize| {
        let group = groups.map_or(input / GROUP, |groups| groups[input]);
        (integer(input, output) as f32 - zero(group, output) as f32) * scale(group, output)
    };
    (0..OUTPUTS).flat_map(|output| (0..INPUTS).map(move |input| number(input, output))).collect()
}

#[test]
fn a_weight_is_one_tensor_of_numbers_and_its_parts_are_there_when_asked_for() {
    let place = Workplace::new();
    let path = directory(&place, "model", &gptq_config(), &gptq(None));
    let source = open(&path, &[]);
    let names: Vec<&str> = source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["m.weight", "norm.weight"]);
    assert_eq!(source.tensor("m.weight").unwrap().read::<f32>().unwrap(), numbers(None));
    assert_eq!(source.grouped().unwrap().scheme("m.weight"), Some("gptq int4 g32"));
    let parts = Source::open(&Registry::builtin(), &path, &OpenOptions::new().parts(true)).unwrap();
    assert_eq!(parts.checkpoint().tensors.len(), 4);
    assert_eq!(source.stored().checkpoint(), parts.checkpoint());
}

#[test]
fn inputs_can_be_in_any_order_of_groups() {
    let place = Workplace::new();
    let groups: Vec<usize> = (0..INPUTS).map(|input| (input * 5 / 3) % 2).collect();
    let path = directory(&place, "model", &gptq_config(), &gptq(Some(&groups)));
    let read = open(&path, &[]).tensor("m.weight").unwrap().read::<f32>().unwrap();
    assert_eq!(read, numbers(Some(&groups)));
}

#[test]
fn an_index_that_names_no_group_is_an_error_that_names_the_tensor() {
    for wrong in [2, -1_i32 as usize] {
        let place = Workplace::new();
        let mut groups = vec![0; INPUTS];
        groups[5] = wrong;
        let path = directory(&place, "model", &gptq_config(), &gptq(Some(&groups)));
        let error = open(&path, &[]).tensor("m.weight").unwrap().read::<f32>().unwrap_err();
        assert_eq!((error.kind(), error.context().field), (Kind::Corrupt, Some("element 5")), "{error}");
        assert!(error.to_string().contains("m.g_idx") && error.to_string().contains("0 to 1"), "{error}");
    }
}

#[test]
fn a_weight_without_one_of_its_tensors_is_named_when_its_numbers_are_needed() {
    for lacks in ["m.scales", "m.qzeros", "m.qweight"] {
        let place = Workplace::new();
        let mut tensors = gptq(None);
        tensors.retain(|(name, ..)| *name != lacks);
        let path = directory(&place, "model", &gptq_config(), &tensors);
        let source = open(&path, &[]);
        let note = "some quantized weights are not read as numbers";
        assert!(source.contents().notes.iter().any(|note_of| note_of.contains(note)));
        let plan = |conversion: Conversion| {
            conversion.plan(&Registry::builtin(), &source, place.path("o.safetensors")).map(drop)
        };
        let error = plan(Conversion::new().dtype(DType::F32)).unwrap_err();
        assert_eq!((error.kind(), error.context().tensor), (Kind::Corrupt, Some(lacks)), "{error}");
        plan(Conversion::new()).unwrap();
    }
}

#[test]
fn a_conversion_of_a_format_to_itself_carries_the_parts_byte_for_byte() {
    let place = Workplace::new();
    let path = directory(&place, "model", &gptq_config(), &gptq(None));
    place.says(&["convert", "model", "copy.safetensors", "--clone", "never", "--verify"]);
    let (before, after) = (path.join("model.safetensors"), place.path("copy.safetensors"));
    let parts = |path: &Path| {
        let source = Source::open(&Registry::builtin(), path, &OpenOptions::new().parts(true)).unwrap();
        let tensors = source.checkpoint().tensors.clone();
        let bytes = tensors.iter().map(|tensor| source.tensor(&tensor.name).unwrap().bytes().unwrap());
        (tensors.iter().map(|tensor| tensor.name.to_string()).collect::<Vec<_>>(), bytes.collect::<Vec<_>>())
    };
    assert_eq!(parts(&before), parts(&after));
}

#[test]
fn what_would_take_parts_for_numbers_stops_and_says_both_ways_out() {
    let place = Workplace::new();
    directory(&place, "model", &gptq_config(), &gptq(None));
    place.write("rename.toml", "identity = true\n[lookup]\n\"norm.weight\" = \"n\"\n");
    for arguments in [
        &["convert", "model", "o.npz"][..],
        &["convert", "model", "o.pt"],
        &["convert", "model", "o.safetensors", "--map", "rename.toml"],
        &["convert", "model", "o.safetensors", "--transform", "norm.weight: unsqueeze 0"],
    ] {
        let said = place.refused(arguments);
        for part in ["scale-dropped", "m.weight (gptq int4 g32)", "--dtype bf16", "--keep-quantized"] {
            assert!(said.contains(part), "{arguments:?}: {said}");
        }
    }
    assert_eq!(place.names(), ["model", "rename.toml"]);
}

#[test]
fn a_dtype_decodes_and_keeping_carries_the_parts_anywhere() {
    let place = Workplace::new();
    let path = directory(&place, "model", &gptq_config(), &gptq(None));
    let source = open(&path, &[]);
    let conversion = Conversion::new().dtype(DType::F32);
    crate::common::convert(source.clone(), &place.path("numbers.npz"), &conversion);
    let read = open(&place.path("numbers.npz"), &[]).tensor("m.weight").unwrap().read::<f32>().unwrap();
    assert_eq!(read, numbers(None));
    let planned = conversion.plan(&Registry::builtin(), &source, place.path("again.npz")).unwrap();
    let lost = planned.plan().losses.iter().find(|loss| loss.subject == "m.weight").unwrap();
    assert_eq!(
        (lost.kind, lost.detail.as_str()),
        (LossKind::Dequantized, "stored as gptq int4 g32, and now as plain numbers")
    );
    crate::common::convert(source, &place.path("parts.npz"), &Conversion::new().keep_quantized(true));
    assert_eq!(open(&place.path("parts.npz"), &[]).checkpoint().tensors.len(), 4);
}

#[test]
fn a_saved_plan_of_numbers_runs_in_another_process() {
    let place = Workplace::new();
    directory(&place, "model", &gptq_config(), &gptq(None));
    place.says(&["plan", "model", "numbers.npz", "--dtype", "f32", "-o", "plan.json"]);
    place.says(&["run-plan", "plan.json", "--receipts", "first"]);
    place.says(&["commit", "plan.json", "first", "--verify"]);
    let read = open(&place.path("numbers.npz"), &[]).tensor("m.weight").unwrap().read::<f32>().unwrap();
    assert_eq!(read, numbers(None));
    place.says(&["plan", "model", "parts.npz", "--keep-quantized", "-o", "parts.json"]);
    place.says(&["run-plan", "parts.json", "--receipts", "second"]);
    place.says(&["commit", "parts.json", "second", "--verify"]);
    assert_eq!(open(&place.path("parts.npz"), &[]).checkpoint().tensors.len(), 4);
}

#[test]
fn numbers_do_not_depend_on_memory_threads_or_the_rows_that_are_read() {
    let place = Workplace::new();
    let path = directory(&place, "model", &gptq_config(), &gptq(None));
    let all = numbers(None);
    let source = open(&path, &[]);
    let weight = source.tensor("m.weight").unwrap();
    for rows in [0..1, 3..7, 15..16] {
        let wanted = &all[rows.start * INPUTS..rows.end * INPUTS];
        assert_eq!(weight.rows(rows.start as u64..rows.end as u64).unwrap().read::<f32>().unwrap(), wanted);
    }
    for more in [&["--max-memory", "24m", "-j", "1"][..], &["-j", "3", "--item-size", "1k"]] {
        place.says(&[&["convert", "model", "o.safetensors", "--dtype", "f32", "--force"][..], more].concat());
        let read = open(&place.path("o.safetensors"), &[]).tensor("m.weight").unwrap().read::<f32>().unwrap();
        assert_eq!(read, all, "{more:?}");
    }
}

#[test]
fn hash_and_diff_see_numbers() {
    let place = Workplace::new();
    directory(&place, "model", &gptq_config(), &gptq(None));
    place.says(&["convert", "model", "numbers.safetensors", "--dtype", "f32"]);
    let values = place.ckpt(&["diff", "model", "numbers.safetensors", "--format", "json"]).stdout;
    let values: Value = serde_json::from_slice(&values).unwrap();
    let tensors = values["tensors"].as_array().unwrap();
    let weight = tensors.iter().find(|tensor| tensor["name"] == "m.weight").unwrap();
    assert_eq!(weight["outcome"], "equal", "{weight}");
    let mut other = gptq(None);
    other[2].3[0] ^= 1;
    directory(&place, "other", &gptq_config(), &other);
    let said = String::from_utf8(place.ckpt(&["diff", "model", "other"]).stdout).unwrap();
    assert!(said.contains("m.weight"), "{said}");
    let hash = |name: &str| place.says(&["hash", name]).split_whitespace().next().unwrap().to_owned();
    assert_ne!(hash("model"), hash("other"));
}

/// The directories of quantized models, each with what is expected of it.
fn directories() -> Option<Vec<(PathBuf, Value)>> {
    let root = cases("quantized")?;
    let mut found: Vec<(PathBuf, Value)> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .map(|path| {
            let text = std::fs::read(path.join("expected.json")).unwrap();
            let expected = serde_json::from_slice(&text).unwrap();
            (path, expected)
        })
        .collect();
    found.sort_by(|(first, _), (second, _)| first.cmp(second));
    Some(found)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn numbers_of_real_directories_are_those_of_their_libraries() {
    let Some(directories) = directories() else { return };
    let place = Workplace::new();
    let (mut weights, mut rounded, mut models) = (0, 0, 0);
    for (path, expected) in &directories {
        if expected["expect"] == "refuse" {
            continue;
        }
        models += 1;
        let source = open(path, &[]);
        let tensors = expected["tensors"].as_array().unwrap();
        for tensor in tensors.iter().filter(|tensor| tensor["sha256_f32"].is_string()) {
            let name = tensor["name"].as_str().unwrap();
            let read = source.tensor(name).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(json!(&read.shape()[..]), tensor["shape"], "{}", path.display());
            assert_eq!(sha256(&read.bytes().unwrap()), tensor["sha256_f32"], "{}", path.display());
            weights += 1;
            let library = &tensor["library"];
            let dtype = match library["dtype"].as_str() {
                Some("F16") => DType::F16,
                Some("BF16") => DType::Bf16,
                _ => continue,
            };
            let output = place.path("rounded.safetensors");
            crate::common::convert(source.clone(), &output, &Conversion::new().dtype(dtype).overwrite(true));
            let bytes = open(&output, &[]).tensor(name).unwrap().bytes().unwrap();
            assert_eq!(sha256(&bytes), library["sha256"], "{} as {dtype}", path.display());
            rounded += 1;
        }
    }
    assert!(models >= 44 && weights >= 44 && rounded >= 30, "{models} {weights} {rounded}");
}

#[test]
fn numbers_of_bad_directories_are_refused_and_their_parts_can_be_looked_at() {
    let Some(directories) = directories() else { return };
    let place = Workplace::new();
    let mut refused = 0;
    for (path, _) in directories.iter().filter(|(_, expected)| expected["expect"] == "refuse") {
        let output = place.path("o.safetensors");
        let conversion = Conversion::new().dtype(DType::F32);
        let error = conversion.run(&Registry::builtin(), path.as_path(), output.as_path()).unwrap_err();
        assert!(matches!(error.kind(), Kind::Corrupt | Kind::Unsupported), "{}: {error}", path.display());
        assert!(!output.exists(), "{}", path.display());
        open(path, &[]);
        refused += 1;
    }
    assert!(refused >= 29, "{refused}");
}

#[test]
fn parts_never_reach_a_target_of_floats_undecoded() {
    let Some(directories) = directories() else { return };
    let place = Workplace::new();
    let registry = Registry::builtin();
    let writers = registry.codecs().filter(|codec| !codec.info().writes.is_empty());
    let writers: Vec<&str> = writers.map(|codec| codec.info().id).collect();
    let (mut carried, mut stopped, mut decoded, mut impossible) = (0, 0, 0, 0);
    for (path, _) in directories.iter().filter(|(_, expected)| expected["expect"] != "refuse") {
        let source = open(path, &[]);
        let parts = source.stored().checkpoint().tensors.len();
        for writer in &writers {
            let plan =
                |conversion: Conversion| conversion.to(*writer).plan(&registry, &source, place.path("o"));
            match plan(Conversion::new()) {
                Ok(planned) => {
                    assert_eq!((*writer, planned.plan().tensors().len()), (source.format(), parts));
                    carried += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("scale-dropped"), "{}: {error}", path.display());
                    stopped += 1;
                }
            }
            match plan(Conversion::new().dtype(DType::F32)) {
                Ok(planned) => {
                    let names: Vec<&str> = planned.plan().tensors().map(|entry| entry.tensor).collect();
                    let is_part = |group: &ckpt_engine::formats::Group| {
                        let stored = source.stored();
                        group.parts.iter().any(|part| {
                            let part = stored.checkpoint().tensors[part.0].name.clone();
                            part != group.tensor.name && names.contains(&part.as_str())
                        })
                    };
                    assert!(!source.grouped().unwrap().groups().any(is_part), "{}", path.display());
                    decoded += 1;
                }
                // Some formats store networks of other shapes only.
                Err(_) => impossible += 1,
            }
        }
    }
    assert!(
        carried >= 44 && stopped >= 44 * 5 && decoded >= 44 * 3,
        "{carried} {stopped} {decoded} {impossible}"
    );
}

#[test]
fn comfyuis_scale_stands_beside_the_weight_and_multiplies_it() {
    let place = Workplace::new();
    // 1, 2, −0.5 and 0, as 4 bits of exponent and 3 of mantissa.
    let tensors = [
        ("m.scale_weight", "F32", vec![], 0.25_f32.to_le_bytes().to_vec()),
        ("m.weight", "F8_E4M3", vec![2, 2], vec![0x38, 0x40, 0xb0, 0]),
        ("scaled_fp8", "F8_E4M3", vec![0], Vec::new()),
    ];
    let path = directory(&place, "model", &json!({}), &tensors).join("model.safetensors");
    let source = open(&path, &[]);
    assert_eq!(source.tensor("m.weight").unwrap().read::<f32>().unwrap(), [0.25, 0.5, -0.125, 0.0]);
    assert_eq!(source.grouped().unwrap().scheme("m.weight"), Some("fp8 e4m3"));
}

#[test]
fn a_number_that_16_bits_lack_is_named_by_its_place_in_the_output() {
    const LARGEST: f32 = 65504.0;
    let place = Workplace::new();
    let mut tensors = gptq(None);
    // The first as the words are stored, and the first of the output.
    let (stored_first, first) = ((0, 3), (1, 1));
    for (group, output) in [stored_first, first] {
        let at = 2 * (group * OUTPUTS + output);
        tensors[2].3[at..at + 2].copy_from_slice(&half::f16::MAX.to_le_bytes());
    }
    let source = open(&directory(&place, "model", &gptq_config(), &tensors), &[]);
    let conversion = Conversion::new().dtype(DType::F16);
    let planned = conversion.plan(&Registry::builtin(), &source, place.path("o.safetensors")).unwrap();
    let error = planned.execute(&Default::default(), &|_| ()).unwrap_err();
    let (group, output) = first;
    let number = |input| (integer(input, output) as f32 - zero(group, output) as f32) * LARGEST;
    let input = (group * GROUP..INPUTS).find(|input| number(*input).abs() > LARGEST).unwrap();
    let field = format!("element {}", output * INPUTS + input);
    assert_eq!((error.kind(), error.context().field), (Kind::Lossy, Some(&*field)), "{error}");
    assert!(error.to_string().contains(&number(input).to_string()), "{error}");
}
