//! Nothing that a file says, and no link, leads an output out of the directory that the user named.

use crate::common::workplace::Workplace;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Names that mean something to a file system.
const HOSTILE: [&str; 14] = [
    "../../x",
    "/../../x",
    "a/../../../x",
    "..",
    "/",
    "/ckpt-absolute",
    "a\0b",
    "..\\..\\x",
    "C:\\x",
    "\\\\host\\x",
    "NUL",
    "con.npy",
    "x:stream",
    ".",
];

/// Targets of several files, or of several members, each with how many files it has; into `work`.
const TARGETS: [(&[&str], usize); 6] = [
    (&["in.safetensors", "work/o", "--to", "tf2", "--to-set", "shards=2"], 3),
    (&["in.safetensors", "work/o.safetensors", "--to-set", "shard_size=4"], 3),
    (&["in.safetensors", "work/o.safetensors"], 1),
    (&["in.safetensors", "work/o.npz"], 1),
    (&["in.safetensors", "work/o", "--to", "bullet", "--set", "parts=state"], 3),
    (&["in.safetensors", "work/o/", "--to", "bullet", "--set", "parts=state"], 3),
];

/// All files below, with their bytes.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Two tensors, one of which is called so, and an empty folder.
fn workplace(name: &str) -> Workplace {
    let place = Workplace::new();
    let tensor = |name: &str| (name.to_owned(), vec![1], vec![1.0]);
    place.checkpoint("in.safetensors", &[tensor(name), tensor("other")]);
    fs::create_dir(place.path("work")).unwrap();
    place
}

fn convert(place: &Workplace, arguments: &[&str]) -> bool {
    let output = place.ckpt(&[&["convert", "--no-sync"], arguments].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0..=3)), "{arguments:?}: {told}");
    output.status.success()
}

#[test]
fn whatever_tensors_are_called_only_files_of_the_outputs_own_names_are_made() {
    for (target, count) in TARGETS {
        let plain = workplace("plain");
        assert!(convert(&plain, target), "{target:?}");
        let expected: Vec<String> = files(&plain.path("work")).into_keys().collect();
        assert_eq!(expected.len(), count, "{target:?}: {expected:?}");
        let mut converted = 0;
        for name in HOSTILE {
            let place = workplace(name);
            let done = convert(&place, target);
            let made: Vec<String> = files(&place.path("work")).into_keys().collect();
            assert_eq!(made, if done { &expected[..] } else { &[] }, "{target:?} of {name:?}");
            assert_eq!(place.names(), ["in.safetensors", "work"], "{target:?} of {name:?}");
            converted += usize::from(done);
        }
        assert!(converted > 0, "{target:?}");
    }
    assert!(!Path::new("/ckpt-absolute").exists() && !Path::new("/x").exists());
}

#[test]
fn a_model_names_no_file_that_is_written_and_force_replaces_only_the_outputs_own() {
    let place = Workplace::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/onnx/accept/external");
    fs::create_dir(place.path("work")).unwrap();
    fs::create_dir(place.path("in")).unwrap();
    for name in ["external.onnx", "w.bin"] {
        fs::copy(corpus.join(name), place.path("in").join(name)).unwrap();
    }
    // The name comes along in the metadata of other formats.
    assert!(convert(&place, &["in/external.onnx", "carried.safetensors"]));
    place.write("work/w.bin", "precious");
    for source in ["in/external.onnx", "carried.safetensors"] {
        assert!(convert(&place, &[source, "work/out.onnx", "--force", "--verify"]), "{source}");
        let made = files(&place.path("work"));
        let names: Vec<&str> = made.keys().map(String::as_str).collect();
        assert_eq!(names, ["out.onnx", "out.onnx.data", "w.bin"], "{source}");
        assert_eq!(made["w.bin"], b"precious", "{source}");
        let said = place.json(&["diff", "in/external.onnx", "work/out.onnx"]).to_string();
        assert!(said.contains("\"equal\":1") || !said.contains("differ"), "{said}");
    }
}

#[test]
fn names_of_tensors_that_differ_only_in_case_stay_two_tensors_in_every_target() {
    for (target, _) in TARGETS {
        let place = workplace("Other");
        assert!(convert(&place, target), "{target:?}");
        let output = target[1].trim_end_matches('/');
        let mut inspect = vec!["inspect", output];
        if fs::metadata(place.path(output)).is_err() && !place.path(&format!("{output}.index")).exists() {
            inspect[1] = "work";
        }
        let told = place.json(&inspect).to_string();
        assert!(told.contains("\"Other\"") && told.contains("\"other\""), "{target:?}: {told}");
    }
}

#[test]
fn a_receipt_that_has_the_name_of_a_file_of_the_output_is_refused_however_it_is_spelled() {
    let place = workplace("plain");
    for receipt in ["work/o.npz", "./work/o.npz", "work/../work/o.npz", "work/O.npz"] {
        let arguments =
            ["convert", "in.safetensors", "work/o.npz", "--no-sync", "--force", "--receipt", receipt];
        place.refuses(&arguments, 2, &["the receipt has the same name as a file of the output"]);
        assert!(files(&place.path("work")).is_empty(), "{receipt}");
    }
}

#[test]
fn a_name_of_an_unfinished_conversions_files_is_refused_for_whatever_is_written() {
    let place = workplace("plain");
    place.write("rename.toml", "identity = true\n");
    for name in [".o.npz.ckpt-journal", ".o.npz.00000000.ckpt-tmp", "work/.O.NPZ.ckpt-old"] {
        for arguments in [
            &["convert", "in.safetensors", "o.npz", "--receipt", name][..],
            &["convert", "in.safetensors", name, "--to", "npz"],
            &["convert", "in.safetensors", name, "--to", "npz", "--force"],
            &["plan", "in.safetensors", "o.npz", "--output", name],
            &["inspect", "in.safetensors", "--html", name],
            &["verify", "in.safetensors", "in.safetensors", "--html", name],
            &["verify", "in.safetensors", "in.safetensors", "--report", name],
            &["map", "invert", "rename.toml", "--output", name],
        ] {
            place.refuses(arguments, 2, &["reserved for the files of an unfinished conversion"]);
        }
    }
}

/// Receipts that were not written by `ckpt`: what they name is not read, unless they are trusted.
#[cfg(feature = "forward")]
mod receipts {
    use super::*;
    use serde_json::{Value, json};

    /// A place with a checkpoint, `sub/o.npz` that was made of it, and the receipt.
    fn converted() -> (Workplace, Value) {
        let place = workplace("plain");
        fs::create_dir(place.path("sub")).unwrap();
        assert!(convert(&place, &["in.safetensors", "sub/o.npz", "--receipt", "r.json"]));
        let receipt = serde_json::from_slice(&fs::read(place.path("r.json")).unwrap()).unwrap();
        (place, receipt)
    }

    fn check(place: &Workplace, receipt: &Value, more: &[&str]) -> (Option<i32>, String) {
        place.write("other.json", receipt.to_string());
        let output = place.ckpt(&[&["verify", "--receipt", "other.json"], more].concat());
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), said.concat())
    }

    #[test]
    fn with_a_root_no_directory_of_a_receipt_leads_outside_of_it() {
        let (place, receipt) = converted();
        assert_eq!(check(&place, &receipt, &["--root", "."]).0, Some(0));
        let absolute = place.path("sub").display().to_string();
        for outside in ["/etc", "/", "..", "../..", "sub/../..", "sub/../../etc", absolute.as_str()] {
            for side in ["source", "target"] {
                let mut other = receipt.clone();
                other[side]["directory"] = json!(outside);
                let (code, said) = check(&place, &other, &["--root", "."]);
                assert_eq!(code, Some(2), "{outside}: {said}");
                assert!(said.contains("the receipt names files outside the root"), "{said}");
            }
        }
        let mut other = receipt.clone();
        other["target"]["files"][0]["name"] = json!("../in.safetensors");
        let (code, said) = check(&place, &other, &[]);
        assert!(code == Some(5) && said.contains("leads outside its directory"), "{code:?}: {said}");
        let mut inside = receipt;
        inside["target"]["directory"] = json!("./sub/../sub");
        assert_eq!(check(&place, &inside, &["--root", "."]).0, Some(0));
    }

    #[test]
    fn without_a_root_a_directory_outside_is_read_and_said() {
        let (place, mut receipt) = converted();
        assert!(!check(&place, &receipt, &[]).1.contains("note:"));
        let absolute = place.path("sub").display().to_string();
        receipt["target"]["directory"] = json!(absolute);
        let (code, said) = check(&place, &receipt, &[]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("note: ") && said.contains(&absolute), "{said}");
        let (_, said) = check(&place, &receipt, &["--format", "json"]);
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["outside"], json!([absolute]));
    }

    #[cfg(unix)]
    #[test]
    fn with_a_root_no_link_leads_outside_of_it_and_links_within_are_followed() {
        use std::os::unix::fs::symlink;
        let (place, receipt) = converted();
        fs::create_dir(place.path("root")).unwrap();
        fs::rename(place.path("sub"), place.path("root/sub")).unwrap();
        fs::rename(place.path("in.safetensors"), place.path("root/real")).unwrap();
        symlink("real", place.path("root/in.safetensors")).unwrap();
        assert_eq!(check(&place, &receipt, &["--root", "root"]).0, Some(0));
        // A file, then a directory.
        fs::rename(place.path("root/real"), place.path("real")).unwrap();
        fs::remove_file(place.path("root/in.safetensors")).unwrap();
        symlink("../real", place.path("root/in.safetensors")).unwrap();
        let (code, said) = check(&place, &receipt, &["--root", "root"]);
        assert!(code == Some(2) && said.contains("a symbolic link to"), "{code:?}: {said}");
        fs::remove_file(place.path("root/in.safetensors")).unwrap();
        fs::rename(place.path("real"), place.path("root/in.safetensors")).unwrap();
        fs::rename(place.path("root/sub"), place.path("sub")).unwrap();
        symlink("../sub", place.path("root/sub")).unwrap();
        let (code, said) = check(&place, &receipt, &["--root", "root"]);
        assert!(code == Some(2) && said.contains("a symbolic link to"), "{code:?}: {said}");
    }

    #[test]
    fn a_receipt_that_lists_no_files_is_no_receipt() {
        let (place, receipt) = converted();
        for side in ["source", "target"] {
            let mut other = receipt.clone();
            other[side]["files"] = json!([]);
            let (code, said) = check(&place, &other, &[]);
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains("not the receipt of a conversion") && said.contains(side), "{said}");
        }
    }

    #[test]
    fn a_plan_in_place_of_a_receipt_is_named_with_what_to_do() {
        let (place, _) = converted();
        let planned = place.ckpt(&["plan", "in.safetensors", "planned.npz", "--output", "plan.json"]);
        assert!(planned.status.success(), "{planned:?}");
        let plan: Value = serde_json::from_slice(&fs::read(place.path("plan.json")).unwrap()).unwrap();
        let (code, said) = check(&place, &plan, &[]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("a plan, which states") && said.contains("commit it with a receipt"), "{said}");
    }

    #[test]
    fn a_file_that_a_receipt_names_many_times_is_read_once_and_too_many_names_are_refused() {
        let (place, mut receipt) = converted();
        // Read 70,000 times, this would be half a terabyte.
        let large = place.path("sub/large");
        fs::File::create(&large).unwrap().set_len(8 << 20).unwrap();
        let zeros = "2daeb1f36095b44b318410b3f4e8b5d989dcc7bb023d1426c492dab0a3053e74";
        let record = json!({ "name": "large", "bytes": 8 << 20, "sha256": zeros });
        receipt["target"]["files"] = json!(vec![record; 70_000]);
        let (code, said) = check(&place, &receipt, &[]);
        assert!(code == Some(1) && said.contains("exceeds the limit 'files'"), "{code:?}: {said}");
        let (code, said) = check(&place, &receipt, &["--limit", "files=70000"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.starts_with("2 files match the receipt"), "{said}");
        // One of the names may be of something else.
        receipt["target"]["files"][69_999]["sha256"] = json!(zeros.replace('2', "3"));
        assert_eq!(check(&place, &receipt, &["--limit", "files=70000"]).0, Some(4));
    }
}

#[cfg(unix)]
mod links {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_to_a_directory_in_the_outputs_path_is_followed_and_nothing_else_there_is_touched() {
        for (target, count) in TARGETS {
            let place = workplace("plain");
            fs::create_dir(place.path("real")).unwrap();
            place.write("real/mine", "mine");
            fs::remove_dir(place.path("work")).unwrap();
            symlink("real", place.path("work")).unwrap();
            assert!(convert(&place, target), "{target:?}");
            let found = files(&place.path("real"));
            assert_eq!(found.len(), count + 1, "{target:?}: {:?}", found.keys());
            assert_eq!(found["mine"], b"mine");
            assert!(fs::symlink_metadata(place.path("work")).unwrap().is_symlink());
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_an_error_in_the_outputs_path_and_makes_nothing() {
        for (target, _) in TARGETS {
            let place = workplace("plain");
            fs::remove_dir(place.path("work")).unwrap();
            symlink("gone/too", place.path("work")).unwrap();
            assert!(!convert(&place, target), "{target:?}");
            assert_eq!(place.names(), ["in.safetensors", "work"], "{target:?}");
        }
        // The directory that a target makes for itself.
        let place = workplace("plain");
        symlink("../gone", place.path("work/o")).unwrap();
        assert!(!convert(&place, TARGETS[4].0));
        assert_eq!(place.names(), ["in.safetensors", "work"]);
    }

    #[test]
    fn a_link_in_the_place_of_an_output_file_is_refused_and_stays_with_what_it_leads_to() {
        for (target, count) in TARGETS {
            let plain = workplace("plain");
            assert!(convert(&plain, target), "{target:?}");
            let made = files(&plain.path("work"));
            let place = workplace("plain");
            place.write("precious", "precious");
            for name in made.keys() {
                let link = place.path("work").join(name);
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(place.path("precious"), link).unwrap();
            }
            for force in [&[][..], &["--force"]] {
                let said = place.refused(&[&["convert", "--no-sync"], target, force].concat());
                assert!(said.contains("the output is a symbolic link"), "{target:?}: {said}");
                assert!(!said.contains("--force"), "{target:?}: {said}");
            }
            assert_eq!(fs::read(place.path("precious")).unwrap(), b"precious", "{target:?}");
            assert!(made.len() == count && files(&place.path("work")).len() == count, "{target:?}");
            for name in made.keys() {
                let link = fs::read_link(place.path("work").join(name)).unwrap();
                assert_eq!(link, place.path("precious"), "{target:?}");
            }
        }
    }

    #[test]
    fn standard_output_is_refused_without_a_word_of_force_wherever_it_leads() {
        let place = workplace("plain");
        for force in [&[][..], &["--force"]] {
            let file = fs::File::create(place.path("work/out")).unwrap();
            let arguments = [&["convert", "in.safetensors", "/dev/stdout", "--to", "npz"], force].concat();
            let output = place.command(&arguments).stdout(file).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("cannot be standard output") && !said.contains("--force"), "{said}");
        }
    }
}
