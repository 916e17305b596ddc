//! Whole conversions of bullet's checkpoints, by the engine. `CKPT_CASES` names the folder that holds real ones.

use crate::common::bullet_cases::CASES;
use crate::common::{cases, convert, floats, open};
use ckpt::Conversion;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn to(format: &str, options: &[(&str, &str)]) -> Conversion {
    Conversion::new().to(format).set_all(options.iter().copied())
}

/// Every file below a directory.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in ["", "optimiser_state"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                found.insert(
                    path.strip_prefix(root).unwrap().to_string_lossy().into_owned(),
                    std::fs::read(&path).unwrap(),
                );
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn directories_survive_the_engine_and_safetensors_byte_for_byte() {
    let Some(directory) = cases("bullet") else { return };
    for (name, preset) in CASES {
        let case = directory.join(name);
        let work = tempfile::tempdir().unwrap();
        let (middle, out, back) =
            (work.path().join("m.safetensors"), work.path().join("out"), work.path().join("back"));
        convert(open(&case, &[("arch", preset)]), &out, &to("bullet", &[]));
        assert!(tree(&out) == tree(&case), "{name}");
        convert(open(&case, &[("arch", preset)]), &middle, &to("safetensors", &[]));
        convert(open(&middle, &[]), &back, &to("bullet", &[]));
        assert!(tree(&back) == tree(&case), "{name} by way of safetensors");
    }
}

/// As bullet wrote checkpoints before 2024-10: without records, in the directory itself.
#[test]
fn a_checkpoint_of_the_first_version_survives_other_formats_in_its_place() {
    let own =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/bullet/accept/before_2024_10/optimiser_state");
    let work = tempfile::tempdir().unwrap();
    let first = work.path().join("first");
    std::fs::create_dir(&first).unwrap();
    for name in ["params.bin", "momentum.bin", "velocity.bin"] {
        std::fs::copy(own.join(name), first.join(name)).unwrap();
    }
    std::fs::write(first.join("log.txt"), "superbatch: 1,batch: 32,loss: 0.5\n").unwrap();
    let run = |arguments: &[&str]| {
        let output = ckpt(work.path(), &[&["convert", "--verify"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let arch = ["--from", "bullet", "--from-set", "arch=simple:3x2x1,buckets=2"];
    run(&[&arch[..], &["first", "m.safetensors"]].concat());
    run(&["m.safetensors", "back", "--to", "bullet"]);
    run(&[&arch[..], &["first", "copy", "--to", "bullet"]].concat());
    let read = |path: &str| {
        let entries = std::fs::read_dir(work.path().join(path)).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: PathBuf| (path.file_name().unwrap().to_owned(), std::fs::read(path).unwrap());
        entries.map(read).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(read("first").len(), 4);
    assert!(read("back") == read("first") && read("copy") == read("first"));
    // A single file of slots comes back, too.
    run(&[&arch[..], &["--from-set", "records=headerless", "first/momentum.bin", "slots.safetensors"]]
        .concat());
    std::fs::create_dir(work.path().join("again")).unwrap();
    run(&["slots.safetensors", "again/momentum.bin", "--to", "bullet"]);
    assert_eq!(
        read("again").first_key_value(),
        read("first").iter().find(|(name, _)| *name == "momentum.bin")
    );
}

/// The weights of (768→32)x2→1: id, the scale of its integers, values.
fn net_768() -> [(&'static str, f64, Vec<f32>); 4] {
    let values = |count: u16, seed: u16| -> Vec<f32> {
        (0..count).map(|at| (f32::from((at.wrapping_mul(37) ^ seed) % 509) - 254.0) / 512.0).collect()
    };
    [
        ("l0w", 255.0, values(768 * 32, 1)),
        ("l0b", 255.0, values(32, 2)),
        ("l1w", 64.0, values(64, 3)),
        ("l1b", 16_320.0, values(1, 4)),
    ]
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Integers of 16 bits, truncated as bullet does.
fn truncated(scale: f64, values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| ((scale * f64::from(*value)) as i16).to_le_bytes()).collect()
}

/// Converts a directory to safetensors and back, and directly, and compares all files.
fn comes_back(files: &BTreeMap<String, Vec<u8>>, architecture: &[(&str, &str)], options: &[&str]) {
    let work = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = work.path().join("first").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for (name, text) in architecture {
        std::fs::write(work.path().join(name), text).unwrap();
    }
    let run = |arguments: &[&str]| {
        let output = ckpt(work.path(), &[&["convert", "--verify"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&[&["--from", "bullet", "first", "m.safetensors"], options].concat());
    run(&["m.safetensors", "back", "--to", "bullet"]);
    run(&[&["--from", "bullet", "first", "copy", "--to", "bullet"], options].concat());
    for output in ["back", "copy"] {
        let mut found = BTreeMap::new();
        for folder in ["", "optimiser_state/"] {
            let Ok(entries) = std::fs::read_dir(work.path().join(output).join(folder)) else { continue };
            for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                let name = format!("{folder}{}", path.file_name().unwrap().to_str().unwrap());
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
        let names: Vec<_> = found.keys().collect();
        assert!(found == *files, "{output}: {names:?}");
    }
}

/// As bullet's first version wrote it: no records, the quantized net under the name of the checkpoint, the log beside it.
#[test]
fn a_net_under_the_name_of_its_checkpoint_comes_back_beside_files_without_records() {
    let net = net_768();
    let flat = |factor: f32| -> Vec<u8> {
        net.iter()
            .flat_map(|(.., values)| bytes(&values.iter().map(|value| value * factor).collect::<Vec<_>>()))
            .collect()
    };
    let mut quantised: Vec<u8> =
        net.iter().flat_map(|(_, scale, values)| truncated(*scale, values)).collect();
    quantised.resize(quantised.len().next_multiple_of(64), 0);
    let files = [
        ("params.bin", flat(1.0)),
        ("momentum.bin", flat(0.5)),
        ("velocity.bin", flat(0.25)),
        ("simple-10.bin", quantised),
        ("log.txt", b"1,32,0.0171\n1,64,0.0162\n".to_vec()),
    ];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    comes_back(
        &files,
        &[],
        &["--from-set", "arch=builder:768x32x1,transpose=false", "--from-set", "check=true"],
    );
}

/// A bias that `SavedFormat::empty()` saves again: `raw.bin` does not have it.
const AGAIN: &str = r#"
format = "bullet"
input = { features = 768 }
layers = [{ size = 32, activation = "screlu" }, { size = 1 }]
saved = [
  { id = "l0w", type = "i16", scale = 255 }, { id = "l0b", type = "i16", scale = 255 },
  { id = "l1w", type = "i16", scale = 64 }, { id = "l1b", type = "i32", scale = 16320 }, { id = "l1b", raw = false },
]
"#;

#[test]
fn a_header_of_known_length_and_a_bias_that_is_saved_in_two_types_come_back() {
    let net = net_768();
    let records = |factor: f32| -> Vec<u8> {
        let record = |(id, _, values): &(&str, f64, Vec<f32>)| {
            let values: Vec<f32> = values.iter().map(|value| value * factor).collect();
            [format!("{id}\n").into_bytes(), (values.len() as u64).to_le_bytes().to_vec(), bytes(&values)]
                .concat()
        };
        net.iter().flat_map(record).collect()
    };
    let mut quantised = b"CBNF\x01\0\x80\x02 engine\xff".to_vec();
    for (id, scale, values) in &net {
        match *id {
            "l1b" => quantised.extend(((scale * f64::from(values[0])) as i32).to_le_bytes()),
            _ => quantised.extend(truncated(*scale, values)),
        }
    }
    quantised.extend(bytes(&net[3].2));
    let missing = quantised.len().next_multiple_of(64) - quantised.len();
    quantised.extend(b"bullet".iter().cycle().take(missing));
    let files = [
        ("raw.bin", net.iter().flat_map(|(.., values)| bytes(values)).collect()),
        ("quantised.bin", quantised),
        ("optimiser_state/weights.bin", records(1.0)),
        ("optimiser_state/momentum.bin", records(0.5)),
        ("optimiser_state/velocity.bin", records(0.25)),
    ];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    let options = ["--arch", "net.toml", "--from-set", "header=16", "--from-set", "check=true"];
    comes_back(&files, &[("net.toml", AGAIN)], &options);
}

/// A header, and weights that are saved in 16 bits and in 8.
const TWICE: &str = r#"
format = "bullet"
input = { features = 3 }
layers = [{ size = 2, activation = "crelu" }, { size = 1 }]
output_buckets = { count = 2 }
saved = [
  { bytes = "4e4e554501000000" },
  { id = "l0w", type = "i8", scale = 64 }, { id = "l0w", type = "i16", scale = 255, round = true },
  { id = "l0b" }, { id = "l1w" }, { id = "l1b" }, { id = "l1w", type = "i8", scale = 32, transpose = true },
]
"#;

#[test]
fn a_header_and_weights_that_are_saved_twice_survive_the_engine_and_safetensors() {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("net.toml"), TWICE).unwrap();
    let adamw = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/bullet/accept/folder");
    let run = |arguments: &[&str]| {
        let output = ckpt(work.path(), &[&["convert", "--verify", "--arch", "net.toml"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let read = |file: &str| std::fs::read(work.path().join(file)).unwrap();
    run(&[adamw, "quantised.bin", "--to", "bullet", "--allow", "quantized"]);
    let mut own = read("quantised.bin");
    assert_eq!(own[..8], *b"NNUE\x01\0\0\0");
    // What no weight makes in both entries.
    own[8] ^= 1;
    std::fs::write(work.path().join("quantised.bin"), &own).unwrap();
    run(&["quantised.bin", "copy.bin", "--from", "bullet", "--to", "bullet"]);
    assert_eq!(read("copy.bin"), own);
    let text = run(&["quantised.bin", "all.safetensors", "--from", "bullet", "--include", "**"]);
    assert!(!text.contains("duplicate-dropped"), "{text}");
    run(&["all.safetensors", "back.bin", "--to", "bullet", "--to-set", "content=quantised"]);
    assert_eq!(read("back.bin"), own);
    let text = run(&["quantised.bin", "some.safetensors", "--from", "bullet"]);
    assert!(text.contains("duplicate-dropped (2)") && text.contains("l0w#1, l1w#2"), "{text}");
    let text = run(&["quantised.bin", "weights.bin", "--from", "bullet", "--to", "bullet"]);
    assert!(text.contains("duplicate-dropped (2)"), "{text}");
}

/// To TensorFlow under the tensors' own names, or with the moments as Adam's slots, and back.
#[cfg(feature = "tf2")]
fn by_way_of_tensorflow(case: &Path, preset: &str, map: Option<&str>) -> BTreeMap<String, Vec<u8>> {
    let work = tempfile::tempdir().unwrap();
    let (middle, back) = (work.path().join("m"), work.path().join("back"));
    let mapping = map.map(|name| ckpt::Registry::builtin().mapping(name).unwrap());
    let plain = mapping.into_iter().fold(to("tf2", &[("names", "plain")]), Conversion::mapping);
    convert(open(case, &[("arch", preset)]), &middle, &plain);
    let read = open(&work.path().join("m.index"), &[]);
    let slots = read.contents().checkpoint.tensors.iter().filter_map(|tensor| tensor.slot.as_ref());
    let weights = read.contents().checkpoint.tensors.len() / 3;
    assert_eq!(slots.count(), if map.is_some() { 2 * weights } else { 0 });
    convert(read, &back, &to("bullet", &[("arch", preset)]));
    tree(&back)
}

#[cfg(feature = "tf2")]
#[test]
fn adamws_moments_survive_tensorflow_as_adams_slots_or_under_their_names() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/bullet/accept/adamw");
    let mut all = vec![(own, "simple:3x2x1,buckets=2")];
    if let Some(directory) = cases("bullet") {
        let folders = CASES.into_iter().map(|(name, preset)| (directory.join(name), preset));
        // RAdam's steps have no place, and a quantised.bin without bytes is not what weights make.
        let is_kept = |(case, _): &(PathBuf, &str)| {
            let quantized = std::fs::metadata(case.join("quantised.bin")).unwrap().len();
            quantized > 0 && !case.join("optimiser_state/step.txt").exists()
        };
        all.extend(folders.filter(is_kept));
        assert_eq!(all.len(), 5);
    }
    for (case, preset) in all {
        for map in [None, Some("bullet-to-tf-adam")] {
            let back = by_way_of_tensorflow(&case, preset, map);
            assert!(back == tree(&case), "{} {map:?}", case.display());
        }
    }
}

#[test]
fn an_engines_file_is_made_by_the_engine_and_leads_back_to_weights_that_make_it_again() {
    let Some(directory) = cases("bullet") else { return };
    let work = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let both =
            ["convert", "--from", "bullet", "--to", "bullet", "--allow", "quantized", "--allow", "clipped"];
        let output = ckpt(work.path(), &[&both[..], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for (name, profile) in [("simple", "plain"), ("buckets8", "plain"), ("multi", "multi-avx2")] {
        let (_, preset) = CASES.iter().find(|case| case.0 == name).unwrap();
        let case = directory.join(name);
        let (arch, profile) = (format!("arch={preset}"), format!("profile={profile}"));
        let names = [".nnue", "", "-again.nnue"].map(|ending| format!("{name}{ending}"));
        let [net, back, again] = names.each_ref().map(String::as_str);
        run(&["--from-set", &arch, "--to-set", &profile, case.to_str().unwrap(), net]);
        run(&["--from-set", &arch, "--from-set", &profile, "--from-set", "content=engine", net, back]);
        run(&["--from-set", &arch, "--to-set", &profile, "--max-memory", "8m", back, again]);
        let read = |file: &str| std::fs::read(work.path().join(file)).unwrap();
        assert!(read(net) == read(again), "{name}");
        if name == "multi" {
            assert_eq!(read(net)[..64], [b"NNUE\x01\0\0\0".as_slice(), &[0; 56]].concat());
            continue;
        }
        // Every member but the last is a multiple of 64 bytes, so that this is bullet's own file with another filler.
        let mut own = std::fs::read(case.join("quantised.bin")).unwrap();
        let last = if name == "simple" { 2 } else { 16 };
        let end = own.len() - 64 + last;
        own[end..].fill(0);
        assert!(read(net) == own, "{name}");
    }
}

/// Two layers of which the second is in groups of 2 inputs, behind a header.
const PACKED: &str = r#"
format = "bullet"
input = { features = 3, perspectives = 1 }
layers = [{ size = 4 }, { size = 2 }]
output_buckets = { count = 3 }
saved = [{ id = "l0w" }, { id = "l0b" }, { id = "l1w" }, { id = "l1b" }]
[engine]
header = "454e47"
align = 4
members = [
  { id = "l0b" },
  { id = "l1w", layout = ["bucket", "in/2", "out", "in%2"] },
  { id = "l0w", layout = ["out%2", "feature", "out/2"] },
  { id = "l1b" },
]
"#;

#[test]
fn axes_of_what_is_stored_in_parts_are_reordered_as_those_of_what_is_not() {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("net.toml"), PACKED).unwrap();
    let numbers = |count: u16| (0..count).flat_map(|k| f32::from(k).to_le_bytes());
    let file: Vec<u8> = b"ENG\0".iter().copied().chain(numbers(4 + 24 + 12 + 6)).collect();
    std::fs::write(work.path().join("net.nnue"), file).unwrap();
    let run = |arguments: &[&str]| {
        let output = ckpt(work.path(), &[&["convert", "--to-set", "metadata=none"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let from = ["--from", "bullet", "--arch", "net.toml", "net.nnue"];
    let steps = ["l1w: permute 2 0 1", "l1w: unsqueeze 1", "l0w: transpose", "l0b: unsqueeze 0"];
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--transform", step]).collect();
    run(&[&from[..], &["plain.safetensors"]].concat());
    run(&[&from[..], &steps, &["at-once.safetensors"]].concat());
    run(&[&["plain.safetensors", "then.safetensors"], &steps[..]].concat());
    let read = |file: &str| open(&work.path().join(file), &[]);
    let (once, then) = (read("at-once.safetensors"), read("then.safetensors"));
    assert!(ckpt::diff::diff(&once, &then, Default::default()).unwrap().agrees());
    // Parts that end where the stored parts end are cut out; others are refused.
    let map = |sizes: &str| {
        let rule = format!("from = 'l1w'\nto = ['a', 'b']\nsplit = 2\nsizes = {sizes}");
        std::fs::write(work.path().join("m.toml"), format!("identity = true\n[[rule]]\n{rule}")).unwrap();
    };
    let cut = ["--map", "m.toml"];
    map("[2, 2]");
    run(&[&from[..], &cut, &["cut.safetensors"]].concat());
    run(&[&["plain.safetensors", "cut-then.safetensors"], &cut[..]].concat());
    let (once, then) = (read("cut.safetensors"), read("cut-then.safetensors"));
    assert!(ckpt::diff::diff(&once, &then, Default::default()).unwrap().agrees());
    map("[1, 3]");
    let refused = ckpt(work.path(), &[&["convert"], &from[..], &cut, &["never.safetensors"]].concat());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("ends within a tile"), "{error}");
    let plain = read("plain.safetensors");
    // Bucket 0, output 1: inputs 0 and 1 are behind those of output 0, 2 and 3 behind the next group's.
    assert_eq!(floats(&plain.tensor("l1w").unwrap().bytes().unwrap())[4..8], [6.0, 7.0, 10.0, 11.0]);
    // Output 1, features 0 to 2: the second half, every other number.
    assert_eq!(floats(&plain.tensor("l0w").unwrap().bytes().unwrap())[3..6], [34.0, 36.0, 38.0]);
}

fn ckpt(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ckpt")).current_dir(directory).args(arguments).output().unwrap()
}

/// One input, one hidden neuron of one side, as a TOML architecture file.
const TINY: &str = r#"
format = "bullet"
input = { features = 2, perspectives = 1 }
layers = [{ size = 1 }]
saved = [{ id = "l0w", type = "i8", scale = 100 }, { id = "l0b" }]
"#;

fn tiny(weight: f32) -> tempfile::TempDir {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("net.toml"), TINY).unwrap();
    let raw: Vec<u8> = [0.5, weight, 0.25f32].into_iter().flat_map(f32::to_le_bytes).collect();
    std::fs::write(work.path().join("raw.bin"), raw).unwrap();
    work
}

const QUANTIZE: [&str; 8] =
    ["convert", "--from", "bullet", "--to", "bullet", "--arch", "net.toml", "--allow=quantized"];

#[test]
fn an_architecture_file_of_toml_tells_both_sides_what_the_net_is() {
    let work = tiny(-1.25);
    let output = ckpt(work.path(), &[&QUANTIZE[..], &["raw.bin", "quantised.bin"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read(work.path().join("quantised.bin")).unwrap();
    assert_eq!(written[..6], [&[50, 131][..], &0.25f32.to_le_bytes()].concat());
    assert_eq!(written.len(), 64);
}

#[test]
fn an_overflow_names_the_weight_the_value_and_the_largest_that_fits_and_writes_nothing() {
    let work = tiny(1.5);
    let output = ckpt(work.path(), &[&QUANTIZE[..], &["raw.bin", "quantised.bin"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(["l0w", "1.5", "1.27"].iter().all(|part| error.contains(part)), "{error}");
    assert!(!work.path().join("quantised.bin").exists());
}

#[test]
fn an_architecture_files_format_is_the_inputs_where_that_shows_none() {
    let work = tiny(0.0);
    let output = ckpt(work.path(), &["inspect", "--arch", "net.toml", "raw.bin"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(work.path().join("raw.bin"), [0; 8]).unwrap();
    let refused = ckpt(work.path(), &["inspect", "--arch", "net.toml", "raw.bin"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.contains("does not fit") && error.contains("l0b") && error.contains("1 too few"),
        "{error}"
    );
}

#[test]
fn an_architecture_file_of_another_format_is_refused() {
    let work = tiny(0.0);
    std::fs::write(work.path().join("net.json"), r#"{"format":"cnn2"}"#).unwrap();
    let output = ckpt(work.path(), &["inspect", "--from", "bullet", "--arch", "net.json", "raw.bin"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("a different format") && error.contains("net.json"),
        "{error}"
    );
}

#[test]
fn a_source_of_another_format_needs_the_architecture_for_the_target_only() {
    let work = tiny(0.0);
    let run = |arguments: &[&str]| {
        let output = ckpt(work.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&[
        "convert",
        "--from",
        "bullet",
        "--arch",
        "net.toml",
        "--to-set",
        "metadata=none",
        "raw.bin",
        "m.safetensors",
    ]);
    run(&[
        "convert",
        "--to",
        "bullet",
        "--arch",
        "net.toml",
        "m.safetensors",
        "again.bin",
        "--set",
        "content=raw",
    ]);
    let read = |name: &str| std::fs::read(work.path().join(name)).unwrap();
    assert_eq!(read("again.bin"), read("raw.bin"));
}

#[cfg(feature = "cnn2")]
#[test]
fn an_extension_that_two_formats_share_is_refused_with_both() {
    let registry = ckpt::Registry::builtin();
    let error = registry.for_extension("net.bin").err().expect("bullet and CNN2 both have it");
    let said = error.to_string();
    assert!(said.contains(r#"`Conversion::to("bullet")` or `Conversion::to("cnn2")`"#), "{said}");
}

/// (3→2)x2→1 with two output buckets, of which only the first layer is quantized.
const HALF: &str = r#"
format = "bullet"
input = { features = 3 }
layers = [{ size = 2, activation = "crelu" }, { size = 1 }]
output_buckets = { count = 2 }
saved = [
  { id = "l0w", type = "i16", scale = 255 }, { id = "l0b", type = "i16", scale = 255 }, { id = "l1w" }, { id = "l1b" },
]
"#;

#[cfg(feature = "forward")]
#[test]
fn integer_arithmetic_is_refused_without_integers_and_noted_where_it_ends() {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("net.toml"), HALF).unwrap();
    let weights = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/bullet/accept/folder");
    let refused = ckpt(work.path(), &["run", weights, "--arch", "net.toml", "--integers", "400"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(
        error.contains("no layer can be computed in integers") && error.contains("with a scale"),
        "{error}"
    );

    let arguments = ["convert", "--to", "bullet", "--allow", "quantized", "--arch", "net.toml", weights];
    let made = ckpt(work.path(), &[&arguments[..], &["quantised.bin"]].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let arguments = ["run", "quantised.bin", "--from", "bullet", "--arch", "net.toml", "--integers", "400"];
    let ran = ckpt(work.path(), &arguments);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        text.contains("'l1'; the scale 400 does not apply"),
        "{text}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
