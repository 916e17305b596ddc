//! What a person at the keyboard meets: exit codes, errors, and nothing left behind.

use crate::common::workplace::{DIGITS, Workplace};
use crate::toy;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

fn valid_nn() -> Vec<u8> {
    let place = Workplace::new();
    let output = place.ckpt(&["convert", DIGITS, "m.nn", "--set", "activations=relu,softmax", "--no-sync"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(place.path("m.nn")).unwrap()
}

#[test]
fn one_command_turns_a_tensorflow_checkpoint_into_a_datacode_model() {
    let place = Workplace::new();
    let arguments =
        ["convert", "--from", "tf2", "--to", "nn", DIGITS, "m.nn", "--set", "activations=relu,softmax"];
    let output = place.ckpt(&arguments);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty(), "data belongs on stdout, and there is none");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("wrote m.nn\n"));
    assert_eq!(place.names(), ["m.nn"]);
}

#[test]
fn the_binary_convert_is_the_subcommand() {
    let place = Workplace::new();
    let convert = |program: &str, first: &[&str], name: &str| {
        let rest = [DIGITS, name, "--set", "activations=relu,softmax", "-q"];
        let status =
            Command::new(program).current_dir(place.directory()).args(first).args(rest).status().unwrap();
        assert!(status.success());
        fs::read(place.path(name)).unwrap()
    };
    let a = convert(env!("CARGO_BIN_EXE_ckpt"), &["convert"], "a.nn");
    assert!(a == convert(env!("CARGO_BIN_EXE_convert"), &[], "b.nn"));
}

#[test]
fn the_binary_convert_ends_with_the_code_of_the_subcommand() {
    let place = Workplace::new();
    let output =
        Command::new(env!("CARGO_BIN_EXE_convert")).args(["none.nn", "o.nn", "--no-such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // Where it is alone, it says what is missing.
    let alone = place.path(&format!("convert{}", std::env::consts::EXE_SUFFIX));
    fs::copy(env!("CARGO_BIN_EXE_convert"), &alone).unwrap();
    let output = Command::new(&alone).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("error: cannot start '") && text.contains("install both"), "{text}");
}

#[test]
fn bytes_that_are_no_checkpoint_are_refused_with_what_was_expected() {
    let place = Workplace::new();
    place.write("empty.nn", b"");
    place.write("text.nn", b"hello\n");
    for (name, help) in [("empty.nn", "the file is empty"), ("text.nn", "--from")] {
        place.refuses(
            &["convert", name, "o.safetensors"],
            1,
            &["not recognized", name, "safetensors, tf1, tf2", help],
        );
    }
    place.refuses(&["convert", "--from", "nn", "text.nn", "o.safetensors"], 5, &["text.nn"]);
    place.refuses(&["convert", "--from", "nn", "empty.nn", "o.safetensors"], 5, &["empty.nn"]);
}

#[test]
fn a_damaged_file_that_can_be_of_one_format_only_is_corrupt_and_says_why() {
    let place = Workplace::new();
    assert!(place.ckpt(&["convert", DIGITS, "m.safetensors"]).status.success());
    let mut bytes = fs::read(place.path("m.safetensors")).unwrap();
    bytes[20] = 0xff;
    place.write("damaged.safetensors", bytes);
    place.refuses(&["inspect", "damaged.safetensors"], 5, &["damaged.safetensors", "header"]);
}

#[test]
fn a_tensorflow_index_that_is_cut_short_is_told_as_one() {
    let place = Workplace::new();
    place.copy_digits(".");
    let index = place.names().into_iter().find(|name| name.ends_with(".index")).unwrap();
    let bytes = fs::read(place.path(&index)).unwrap();
    for len in [300, bytes.len() - 48] {
        place.write("cut.index", &bytes[..len]);
        let found = format!("{len} bytes that end with");
        let told = [
            "TensorFlow index is cut short",
            "cut.index",
            &found,
            "a footer of 48 bytes",
            "copy PREFIX.index",
        ];
        place.refuses(&["inspect", "cut.index"], 5, &told);
    }
}

#[test]
fn a_truncated_file_is_corrupt() {
    let place = Workplace::new();
    let bytes = valid_nn();
    place.write("cut.nn", &bytes[..bytes.len() - 1]);
    place.refuses(&["convert", "cut.nn", "o.safetensors"], 5, &["cut.nn", "offset"]);
}

#[test]
fn a_flipped_bit_in_tensor_data_is_found_by_its_checksum() {
    let place = Workplace::new();
    place.copy_digits(".");
    let data = place.names().into_iter().find(|name| name.contains(".data-")).unwrap();
    let mut bytes = fs::read(place.path(&data)).unwrap();
    bytes[1000] ^= 1;
    place.write(&data, bytes);
    let arguments = ["convert", ".", "o.safetensors"];
    place.refuses(&arguments, 5, &["checksum", &data, "computed", "as stored"]);
}

#[test]
fn inputs_that_cannot_be_read_are_told_apart() {
    let place = Workplace::new();
    fs::create_dir(place.path("folder")).unwrap();
    place.refuses(&["convert", "folder", "o.nn"], 1, &["not recognized", "folder"]);
    place.refuses(&["convert", "missing.nn", "o.nn", "--to", "nn"], 1, &["missing.nn", "No such file"]);
    #[cfg(unix)]
    {
        let fifo = place.path("fifo.nn");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        place.refuses(&["convert", "fifo.nn", "o.safetensors"], 2, &["neither a file nor a directory"]);
    }
}

#[test]
fn existing_output_is_kept_unless_forced() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    place.write("o.safetensors", b"precious");
    place.refuses(&["convert", "m.nn", "o.safetensors"], 2, &["the output exists", "--force"]);
    assert_eq!(fs::read(place.path("o.safetensors")).unwrap(), b"precious");
    assert!(place.ckpt(&["convert", "m.nn", "o.safetensors", "--force"]).status.success());
    assert_ne!(fs::read(place.path("o.safetensors")).unwrap(), b"precious");
}

#[test]
fn output_onto_the_input_is_refused_even_when_forced() {
    let place = Workplace::new();
    let bytes = valid_nn();
    place.write("m.nn", &bytes);
    for output in ["m.nn", "./m.nn"] {
        place.refuses(&["convert", "m.nn", output, "--force"], 2, &["the output is the input"]);
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("m.nn", place.path("link.nn")).unwrap();
        place.refuses(&["convert", "m.nn", "link.nn", "--force"], 2, &["the output is the input"]);
    }
    assert!(fs::read(place.path("m.nn")).unwrap() == bytes);
}

#[cfg(unix)]
#[test]
fn a_hard_link_to_the_input_is_the_input() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    fs::hard_link(place.path("m.nn"), place.path("hard.nn")).unwrap();
    let arguments = ["convert", "m.nn", "hard.nn", "--force", "--to-set", "dialect=a"];
    place.refuses(&arguments, 2, &["the output is the input"]);
}

#[test]
fn no_file_of_a_checkpoint_of_several_files_can_be_replaced() {
    let place = Workplace::new();
    let files = place.copy_digits("d");
    let mut refused = 0;
    for input in ["d", "d/ckpt-1", "d/ckpt-1.index", "d/checkpoint"] {
        for output in ["d/ckpt-1.index", "d/ckpt-1.data-00000-of-00001"] {
            let arguments = ["convert", input, output, "--to", "safetensors", "--force"];
            place.refuses(&arguments, 2, &["the output is the input, or a part of it"]);
            refused += 1;
        }
    }
    assert_eq!((files, refused), (3, 8));
    place.refuses(
        &["convert", "d", "d/checkpoint", "--to", "nn", "--force", "--set", "activations=relu,softmax"],
        2,
        &["part of it"],
    );
    for _ in 0..2 {
        assert!(
            place
                .ckpt(&["convert", "d", "d/result.safetensors", "--force", "--from", "tf2"])
                .status
                .success()
        );
    }
}

#[test]
fn a_dry_run_refuses_what_the_conversion_would_refuse() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    place.write("o.safetensors", b"precious");
    place.refuses(&["convert", "m.nn", "o.safetensors", "--dry-run"], 2, &["the output exists"]);
    place.refuses(&["convert", "m.nn", "m.nn", "--dry-run", "--force"], 2, &["the output is the input"]);
    assert!(place.ckpt(&["convert", "m.nn", "o.safetensors", "--dry-run", "--force"]).status.success());
    assert_eq!(fs::read(place.path("o.safetensors")).unwrap(), b"precious");
}

#[test]
fn an_output_name_may_be_as_long_as_the_system_allows() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    let name = format!("{}.safetensors", "é".repeat(120));
    assert!(place.ckpt(&["convert", "m.nn", &name]).status.success());
    assert_eq!(place.names(), ["m.nn", &name]);
}

#[cfg(target_os = "linux")]
#[test]
fn directories_whose_names_are_no_text_are_as_good_as_others() {
    use std::os::unix::ffi::OsStrExt;
    let place = Workplace::new();
    let directory = place.directory().join(OsStr::from_bytes(b"d\xff"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("m.nn"), valid_nn()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ckpt"))
        .arg("convert")
        .args([directory.join("m.nn"), directory.join("o.safetensors")])
        .args(["--format", "json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
}

#[test]
fn an_earlier_result_beside_the_input_can_be_replaced() {
    let place = Workplace::new();
    place.copy_digits("d");
    for _ in 0..2 {
        let options = ["--set", "activations=relu,softmax", "--force"];
        let done = place.ckpt(&[&["convert", "d/ckpt-1", "d/ckpt-1.nn"][..], &options].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn an_output_in_a_directory_that_does_not_exist_is_refused() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    place.refuses(&["convert", "m.nn", "no/such/o.safetensors"], 2, &["directory does not exist"]);
}

#[test]
fn unknown_formats_options_limits_and_losses_list_the_known_ones() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    let out = "o.safetensors";
    place.refuses(&["convert", "m.nn", out, "--from", "tf"], 2, &["unknown format", "did you mean 'tf2'"]);
    place.refuses(
        &["convert", "m.nn", "o", "--to", "foo"],
        2,
        &[
            "unknown format",
            "known: bullet, caffe, cnn2, coreml, darknet, flax, gguf, keras, mxnet, nn, nnue, npz, onnx, orbax, paddle, safetensors",
        ],
    );
    place.refuses(
        &["convert", "m.nn", "o.xyz"],
        2,
        &["has names ending with .xyz", ".safetensors (safetensors)", "--to"],
    );
    place.refuses(&["convert", "m.nn", out, "--set", "dialekt=a"], 2, &["dialekt", "did you mean 'dialect'"]);
    place.refuses(&["convert", "m.nn", out, "--set", "dialect=c"], 2, &["a or b"]);
    place.refuses(&["convert", "m.nn", out, "--set", "dialect"], 2, &["key=value"]);
    place.refuses(&["convert", "m.nn", out, "--limit", "tensor=3"], 2, &["unknown limit", "tensors"]);
    place.refuses(&["convert", "m.nn", out, "--limit", "tensors=3"], 1, &["limit 'tensors'"]);
    place.refuses(
        &["convert", "m.nn", out, "--allow", "everything"],
        2,
        &["unknown kind of loss", "weight-dropped"],
    );
    place.refuses(&["convert", "m.nn", out, "--exclude", "layer9*"], 2, &["matches no tensor"]);
    place.refuses(&["convert", "m.nn", out, "--dtype", "int7"], 2, &["unknown dtype"]);
    place.refuses(
        &["convert", "m.nn", out, "--max-memory", "1m"],
        1,
        &["more memory than allowed", "at least"],
    );
    place.refuses(
        &["convert", "m.nn", "o.nn", "--set", "dialect=a"],
        2,
        &["--from-set dialect=a for reading, --to-set dialect=a for writing"],
    );
}

#[test]
fn a_file_that_two_formats_claim_is_refused_with_both_reasons() {
    // Registered beside a codec for the same files, as a plugin could be.
    struct Twin;
    impl ckpt::Codec for Twin {
        fn info(&self) -> &ckpt_api::FormatInfo {
            static INFO: ckpt_api::FormatInfo = ckpt_api::FormatInfo::new("twin", "Twin")
                .with_extensions(&[])
                .with_reads(ckpt_api::Network::ALL)
                .with_writes(&[])
                .with_dtypes(&[])
                .with_free_names();
            &INFO
        }
        fn probe(&self, _: &ckpt_api::Input) -> ckpt::Result<ckpt_api::Match> {
            Ok(ckpt_api::Match::Certain("twins always are".into()))
        }
        fn read(
            &self,
            i: &ckpt_api::Input,
            o: &ckpt_api::Options,
            l: &ckpt_api::Limits,
        ) -> ckpt::Result<ckpt_api::Contents> {
            toy::Toy.read(i, o, l)
        }
        fn place(
            &self,
            c: &ckpt_api::Checkpoint,
            n: &str,
            o: &ckpt_api::Options,
        ) -> ckpt::Result<ckpt_api::OutputLayout> {
            toy::Toy.place(c, n, o)
        }
    }
    let mut registry = ckpt::Registry::empty();
    registry.add(toy::Toy).unwrap();
    registry.add(Twin).unwrap();
    let files = std::collections::BTreeMap::from([("m.toy".to_owned(), toy::file(&[]))]);
    let error = registry.identify(&ckpt_api::Input::memory("m.toy", files)).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ckpt::Kind::Usage);
    let text = error.to_string();
    assert!(
        text.contains("twins always are") && text.contains("TOY1") && text.contains("OpenOptions::format"),
        "{text}"
    );
}

#[test]
fn a_file_that_begins_as_one_format_and_ends_as_another_is_refused_until_one_is_named() {
    let place = Workplace::new();
    let mut both = valid_nn();
    both.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    place.write("both.nn", both);
    let says = ["begins with the magic number DATACODE", "is a TensorFlow index", "--from"];
    place.refuses(&["inspect", "both.nn"], 2, &says);
    place.refuses(&["inspect", "both.nn", "--from", "nn"], 5, &["both.nn"]);
}

#[test]
fn a_mapping_is_checked_before_anything_is_written() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    place.write("collide.toml", "[[rule]]\nfrom = \"layer{n:int}.{part}\"\nto = \"same.{part}\"\n");
    place.refuses(&["convert", "m.nn", "o.safetensors", "--map", "collide.toml"], 3, &["same."]);
    place.write("partial.toml", "[lookup]\n\"layer0.weight\" = \"a\"\n");
    place.refuses(&["convert", "m.nn", "o.safetensors", "--map", "partial.toml"], 3, &["layer0.bias"]);
    place.write("missing.toml", "identity = true\n[lookup]\n\"layer7.weight\" = \"a\"\n");
    place.refuses(&["convert", "m.nn", "o.safetensors", "--map", "missing.toml"], 3, &["layer7.weight"]);
    place.refuses(
        &["convert", "m.nn", "o.safetensors", "--map", "gpt2"],
        2,
        &["no built-in mapping", "gpt2-tf-to-hf"],
    );
    place.refuses(&["map", "check", "collide.toml", "m.nn"], 3, &["same."]);
}

#[test]
fn a_mapping_renames_and_its_check_shows_how() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    place.write("names.toml", "[[rule]]\nfrom = \"layer{n:int}.{part}\"\nto = \"fc{n}.{part}\"\n");
    let check = place.ckpt(&["map", "check", "names.toml", "m.nn"]);
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(
        text.contains("fc0.weight") && text.contains("the mapping works in both directions (--inverse)"),
        "{text}"
    );
    assert!(place.ckpt(&["convert", "m.nn", "o.safetensors", "--map", "names.toml"]).status.success());
    let text = String::from_utf8(place.ckpt(&["inspect", "o.safetensors"]).stdout).unwrap();
    assert!(text.contains("fc1.bias") && !text.contains("layer1.bias"), "{text}");
}

#[test]
fn a_conversion_that_would_change_the_function_stops_until_the_loss_is_allowed() {
    let place = Workplace::new();
    let options = ["--set", "activations=relu,softmax"];
    let strict = [&["convert", DIGITS, "o.nn", "--strict"][..], &options].concat();
    place.refuses(&strict, 1, &["--strict forbids", "counter-dropped"]);
    let exclude = [&["convert", DIGITS, "o.nn", "--exclude", "**bias"][..], &options].concat();
    place.refuses(&exclude, 2, &["does not describe", "which is left out"]);
    place.write("m.nn", valid_nn());
    let graph = ["convert", "m.nn", "o.safetensors", "--exclude", "layer0*", "--strict"];
    place.refuses(&graph, 1, &["--strict forbids", "graph-dropped", "layer0.bias"]);
    // What comes back byte for byte loses nothing; activations have no place beside it.
    assert!(place.ckpt(&["convert", DIGITS, "same", "--to", "tf2", "--strict"]).status.success());
    let said = [&["convert", DIGITS, "o", "--to", "tf2", "--strict"][..], &options].concat();
    place.refuses(&said, 1, &["--strict forbids", "graph-dropped"]);
    let narrow = ["convert", DIGITS, "o.safetensors", "--dtype", "f16"];
    let output = place.ckpt(&narrow);
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("narrowed"), "an asked-for loss is told, too");
    assert!(told.contains("largest rounding error: 0.00048 in "), "{told}");
    let output = place.ckpt(&[&narrow[..], &["--force", "--format", "json"]].concat());
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rounding = summary["rounding"].as_array().unwrap();
    assert_eq!(rounding.len(), 4);
    assert!(rounding.iter().all(|tensor| tensor["largest_error"].as_f64().is_some_and(|error| error < 1e-3)));
}

#[test]
fn a_model_without_stated_activations_says_which_layers_need_one() {
    let place = Workplace::new();
    place.refuses(
        &["convert", DIGITS, "o.nn"],
        2,
        &["hidden, digit", "--set activations=relu,softmax", "--arch"],
    );
}

#[test]
fn activations_can_be_given_to_any_source_that_does_not_state_them() {
    let place = Workplace::new();
    assert!(place.ckpt(&["convert", DIGITS, "m.safetensors"]).status.success());
    place.refuses(
        &["convert", "m.safetensors", "m.nn"],
        2,
        &["hidden, digit", "--set activations=relu,softmax"],
    );
    place.refuses(&["convert", "m.safetensors", "m.nn", "--set", "activations=relu"], 2, &["hidden, digit"]);
    assert!(
        place
            .ckpt(&["convert", "m.safetensors", "m.nn", "--set", "activations=relu,softmax"])
            .status
            .success()
    );
    assert!(fs::read(place.path("m.nn")).unwrap() == valid_nn());
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let place = Workplace::new();
    for command in [&["plan"][..], &["convert", "--dry-run"]] {
        let rest = [DIGITS, "o.nn", "--set", "activations=relu,softmax"];
        let output = place.ckpt(&[command, &rest].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains("transpose") && text.contains("layer0.weight"),
            "{text}"
        );
    }
    assert!(place.names().is_empty());
}

#[test]
fn every_command_speaks_json() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    place.write("n.toml", "identity = true\n");
    let commands: [&[&str]; 9] = [
        &["inspect", "m.nn", "--stats"],
        &["inspect", "m.nn", "--graph"],
        &["diff", "m.nn", "m.nn"],
        &["hash", "m.nn"],
        &["formats"],
        &["formats", "--matrix"],
        &["plan", "m.nn", "o.safetensors"],
        &["map", "check", "n.toml", "m.nn"],
        &["convert", "m.nn", "o.safetensors", "--no-sync"],
    ];
    for command in commands {
        let output = place.ckpt(&[command, &["--format", "json"]].concat());
        assert!(output.status.success(), "{command:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
    let output = place.ckpt(&["inspect", "missing", "--format", "json"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "io");
    for arguments in [&["inspect", "--format", "json"][..], &["convert", "--nope", "--format=json"]] {
        let output = place.ckpt(arguments);
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!((output.status.code(), &error["error"]["kind"]), (Some(2), &"usage".into()));
    }
}

#[test]
fn the_hash_is_of_the_values_not_of_the_file() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    assert!(place.ckpt(&["convert", "m.nn", "m.safetensors"]).status.success());
    let hash = |name: &str| String::from_utf8(place.ckpt(&["hash", name]).stdout).unwrap()[..64].to_owned();
    assert_eq!(hash("m.nn"), hash("m.safetensors"));
    assert_ne!(fs::read(place.path("m.nn")).unwrap(), fs::read(place.path("m.safetensors")).unwrap());
}

#[test]
fn diff_says_what_differs_and_exits_with_4() {
    let place = Workplace::new();
    let mut bytes = valid_nn();
    place.write("a.nn", &bytes);
    let last = bytes.len() - 1;
    bytes[last - 1] ^= 1;
    place.write("b.nn", &bytes);
    let same = place.ckpt(&["diff", "a.nn", "a.nn"]);
    assert_eq!(same.status.code(), Some(0));
    let differs = place.ckpt(&["diff", "a.nn", "b.nn"]);
    assert_eq!(differs.status.code(), Some(4));
    let text = String::from_utf8(differs.stdout).unwrap();
    assert!(text.contains("different: layer1.bias: 1 element,") && text.contains("3 of 4"), "{text}");
    let close = place.ckpt(&["diff", "a.nn", "b.nn", "--atol", "10"]);
    assert_eq!(close.status.code(), Some(0));
    for wrong in ["-1", "nan"] {
        place.refuses(&["diff", "a.nn", "b.nn", &format!("--atol={wrong}")], 2, &["--atol", "negative"]);
    }
}

#[test]
fn the_scale_of_integers_is_shown_and_compared() {
    let place = Workplace::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/bullet/accept/quantised.bin");
    let set = ["--from=bullet", "--set=arch=simple:3x2x1,buckets=2", "--set=integers=true"];
    place.says(&[&["convert", source, "a.safetensors", "--quiet"][..], &set].concat());
    let file = fs::read(place.path("a.safetensors")).unwrap();
    // The header is as long as before.
    let (from, to) = (br#"\"scale\":255"#, br#"\"scale\":128"#);
    let mut other = file.clone();
    for at in (0..file.len()).filter(|at| file[*at..].starts_with(from)) {
        other[at..at + to.len()].copy_from_slice(to);
    }
    place.write("b.safetensors", other);
    let diff = place.ckpt(&["diff", "a.safetensors", "b.safetensors"]);
    let text = String::from_utf8(diff.stdout).unwrap();
    assert_eq!(diff.status.code(), Some(4), "{text}");
    assert!(text.contains("l0w: i16 at 255 [2, 3] in the first, i16 at 128 [2, 3] in the second"), "{text}");
    assert!(text.contains("2 of 4 common tensors are equal"), "{text}");
    let verify = place.ckpt(&["verify", "a.safetensors", "b.safetensors"]);
    assert_eq!(verify.status.code(), Some(4));
    let text = String::from_utf8(verify.stdout).unwrap();
    assert!(
        text.contains(
            "\n  different: l0w: i16 at 255 [2, 3] in the first, i16 at 128 [2, 3] in the second\n"
        ),
        "{text}"
    );
    assert!(place.says(&["inspect", "a.safetensors"]).contains("i16 at 255 "));
    assert_eq!(place.json(&["inspect", "a.safetensors"])["tensors"][0]["scale"], 255);
    let hash = place.says(&["hash", "a.safetensors", "--tensors"]);
    assert!(hash.contains("l0w i16 at 255 [2, 3]"), "{hash}");
    let total = |name: &str| place.says(&["hash", name])[..64].to_owned();
    assert_ne!(total("a.safetensors"), total("b.safetensors"));
    place.refuses(&["convert", "a.safetensors", "a.npz"], 1, &["scale-dropped 'l0w'"]);
}

#[test]
fn a_set_of_shards_is_written_and_read() {
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    assert!(place.ckpt(&["convert", "m.nn", "m.safetensors", "--shard-size", "1k"]).status.success());
    let index = "m.safetensors.index.json";
    assert!(place.names().contains(&index.to_owned()), "{:?}", place.names());
    assert!(place.ckpt(&["convert", index, "back.nn"]).status.success());
    assert!(fs::read(place.path("back.nn")).unwrap() == fs::read(place.path("m.nn")).unwrap());
}

#[test]
fn completions_are_scripts_for_the_named_shell() {
    let place = Workplace::new();
    for (shell, text) in [("bash", "_ckpt()"), ("zsh", "#compdef ckpt"), ("fish", "complete -c ckpt")] {
        let output = place.ckpt(&["completions", shell]);
        assert!(String::from_utf8(output.stdout).unwrap().contains(text), "{shell}");
    }
}

#[cfg(unix)]
#[test]
fn output_gets_the_permissions_that_the_umask_gives() {
    use std::os::unix::fs::PermissionsExt;
    let place = Workplace::new();
    place.write("m.nn", valid_nn());
    let plain = fs::metadata(place.path("m.nn")).unwrap().permissions().mode();
    assert!(place.ckpt(&["convert", "m.nn", "o.safetensors"]).status.success());
    let made = fs::metadata(place.path("o.safetensors")).unwrap().permissions().mode();
    assert_eq!(made, plain);
}

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let output = Workplace::new().ckpt(&["--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["convert", "inspect", "diff", "hash", "formats", "plan", "map", "completions", "Exit codes"]
    {
        assert!(text.contains(word), "{word}");
    }
    let usage = Command::new(env!("CARGO_BIN_EXE_ckpt")).arg(OsStr::new("--nonsense")).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert!(Path::new(DIGITS).is_dir());
}
