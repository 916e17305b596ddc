//! What a person gives on the command line, and what the program says of it.

use crate::common::workplace::{DIGITS, Workplace};
use std::fs;

/// A command's exit code and what it says, where nothing can be written to one of its streams.
#[cfg(target_os = "linux")]
fn into_a_full_disk(place: &Workplace, arguments: &[&str], errors: bool) -> (Option<i32>, String) {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = place.command(arguments);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = if errors { command.stderr(full()) } else { command.stdout(full()) }.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn an_error_about_a_report_says_that_the_output_exists() {
    let place = Workplace::new();
    let commands: [(&[&str], &str); 3] = [
        (&["convert", DIGITS, "m.safetensors", "--format", "json"], "m.safetensors"),
        (&["plan", DIGITS, "n.safetensors", "-o", "plan.json"], "plan.json"),
        (&["map", "invert", "bert-tf-to-hf", "-o", "back.toml", "--format", "json"], "back.toml"),
    ];
    for (arguments, file) in commands {
        let (code, said) = into_a_full_disk(&place, arguments, false);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        let told = format!("only this report is missing: '{file}' exists and is complete");
        assert!(said.contains("cannot write the result") && said.contains(&told), "{arguments:?}: {said}");
        assert!(place.path(file).is_file(), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_conversion_that_cannot_tell_anybody_succeeds_all_the_same() {
    let place = Workplace::new();
    let (code, _) = into_a_full_disk(&place, &["convert", DIGITS, "m.safetensors"], true);
    assert_eq!((code, place.names()), (Some(0), vec!["m.safetensors".to_owned()]));
}

#[test]
fn a_page_is_written_instead_of_tables() {
    let place = Workplace::new();
    for (options, file) in [(&[][..], "a.html"), (&["--stats"], "b.html")] {
        let said = place.says(&[&["inspect", DIGITS, "--html", file], options].concat());
        assert!(said.starts_with(&format!("wrote {file}: ")) && said.lines().count() == 1, "{said}");
        assert!(fs::read_to_string(place.path(file)).unwrap().contains("digits/hidden/kernel"));
    }
}

/// A graph with known activations.
const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_graph_runs_and_with_advice_that_is_true() {
    let place = Workplace::new();
    place.write("old.npz", b"old");
    for (name, says) in [
        ("x.nn", &["the format stores networks", "outputs.npz"][..]),
        ("x.foo", &["does not show a format for arrays", "'x.foo'", "outputs.safetensors"]),
        ("x", &["does not show a format for arrays", "outputs.npy"]),
        ("x.nnue", &["outputs.npz"]),
        ("missing/x.npz", &["directory does not exist", "create it first"]),
    ] {
        let said = place.refused(&["run", RUNS, "-o", name]);
        for text in says {
            assert!(said.contains(text), "{name} does not say {text:?}: {said}");
        }
        // `run` has none of these, and nothing to replace.
        for option in ["--to", "--arch", "--force", "--allow"] {
            assert!(!said.contains(option), "{name} recommends {option}: {said}");
        }
    }
    assert_eq!(place.names(), ["old.npz"]);
    place.says(&["run", RUNS, "-o", "x.npy"]);
    place.says(&["run", RUNS, "-o", "x.safetensors"]);
}

#[test]
fn a_file_of_positions_that_is_missing_is_told_as_one() {
    let said = Workplace::new().refused(&["run", RUNS, "--fen", "games.fen"]);
    assert!(said.contains("games.fen") && said.contains("No such file") && said.contains("--fen"), "{said}");
}

#[test]
fn a_dtype_has_the_names_that_other_programs_give_it() {
    let place = Workplace::new();
    for (name, file) in [("bf16", "a.safetensors"), ("bfloat16", "b.safetensors"), ("BF16", "c.safetensors")]
    {
        place.says(&["convert", DIGITS, file, "--dtype", name]);
        assert!(
            fs::read(place.path(file)).unwrap() == fs::read(place.path("a.safetensors")).unwrap(),
            "{name}"
        );
    }
    let said = place.refused(&["convert", DIGITS, "d.npz", "--dtype", "bflot16"]);
    assert!(said.contains("unknown dtype") && said.contains("--dtype") && said.contains("bf16"), "{said}");
}

#[test]
fn a_dtype_that_the_target_does_not_store_is_refused() {
    let place = Workplace::new();
    for (file, dtype, stored) in [("d.npz", "bf16", "f32"), ("d.npz", "f8_e4m3", "f16")] {
        place.refuses(
            &["convert", DIGITS, file, "--dtype", dtype],
            2,
            &["the requested dtype", dtype, &format!("would store as {stored}")],
        );
        assert!(!place.path(file).exists(), "{file}");
    }
    place.says(&["convert", DIGITS, "d.npz", "--dtype", "f16"]);
}

/// Codecs that round or quantize f32 alone advise this conversion.
#[test]
fn a_dtype_that_the_target_rounds_further_is_accepted() {
    let place = Workplace::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/cnn2/accept/example.bin");
    let borders = ["--from-set", "border=zero", "--from-set", "activation=sigmoid,relu,sigmoid"];
    place.says(&[&["convert", example, "m.safetensors"], &borders[..]].concat());
    place.says(&["convert", "m.safetensors", "m.bin", "--to", "cnn2", "--dtype", "f32"]);
    assert!(fs::read(place.path("m.bin")).unwrap() == fs::read(example).unwrap());
}

#[test]
fn nothing_is_written_where_no_tensor_has_a_place() {
    let place = Workplace::new();
    place.refuses(
        &["convert", DIGITS, "d.npz", "--include", "_CHECKPOINTABLE_OBJECT_GRAPH"],
        2,
        &["format 'npz' has a place for none of the tensors", "_CHECKPOINTABLE_OBJECT_GRAPH", "string"],
    );
    assert!(!place.path("d.npz").exists());
}

#[test]
fn an_extension_of_a_format_that_is_not_supported_is_told_with_what_is() {
    let place = Workplace::new();
    for (name, says) in [
        (
            "m.ort",
            &["ending with .ort", "ONNX Runtime is not supported", ".npz or .npy (npz)", ".index (tf2)"][..],
        ),
        ("m.pkl", &["ending with .pkl", "torch.save writes"]),
        ("m.xyz", &["ending with .xyz", ".safetensors (safetensors)", "--to"]),
        ("m", &["does not show its format", ".nn (nn)", "--to"]),
        ("./m", &["does not show its format"]),
    ] {
        place.refuses(&["convert", DIGITS, name], 2, says);
    }
    place.refuses(
        &["convert", DIGITS, "m", "--to", "ort"],
        2,
        &["'ort'", "ONNX Runtime is not supported", "safetensors"],
    );
}

#[test]
fn an_address_that_no_build_reads_is_told_how_its_files_get_here() {
    let place = Workplace::new();
    let copied = "copy it to this machine first";
    place.refuses(&["inspect", "sftp://host/m.index"], 1, &["sftp://host/m.index", copied]);
    place.refuses(&["convert", "sftp://host/m.npz", "m.nn"], 1, &["sftp://host/m.npz", copied]);
    place.refuses(&["convert", "ftp://host/m.npz", "m.nn"], 1, &["ftp://host/m.npz", "download it first"]);
    place.refuses(&["convert", DIGITS, "sftp://host/m.npz"], 1, &["sftp://host/m.npz", "upload the output"]);
    place.refuses(&["inspect", DIGITS, "--html", "s3://bucket/m.html"], 1, &["cannot be written"]);
    place.refuses(&["convert", DIGITS, "m.npz", "--map", "sftp://host/m.toml"], 1, &[copied]);
}

#[test]
fn an_option_decides_about_colors_before_the_environment_does() {
    let place = Workplace::new();
    let colored = |options: &[&str], variable: Option<&str>| {
        let mut command = place.command(&[&["inspect", "missing"], options].concat());
        let output = command.envs(variable.map(|name| (name, "1"))).output().unwrap();
        String::from_utf8(output.stderr).unwrap().contains('\x1b')
    };
    assert!(colored(&["--color", "always"], None) && colored(&["--color=always"], Some("NO_COLOR")));
    assert!(!colored(&["--color", "never"], Some("FORCE_COLOR")));
    assert!(colored(&["--color", "auto"], Some("FORCE_COLOR")) && !colored(&["--color", "auto"], None));
    assert!(
        colored(&["--color", "always", "--no-such-option"], None),
        "also where the command line is wrong"
    );
    assert!(!colored(&["--", "--color", "always"], None), "what follows -- is no option");
    let help = |when| place.says(&["convert", "--help", "--color", when]).contains('\x1b');
    assert!(help("always") && !help("never") && !help("auto"));
}

#[test]
fn the_version_says_what_the_program_is_built_with() {
    let place = Workplace::new();
    let version = concat!("ckpt ", env!("CARGO_PKG_VERSION"));
    assert_eq!(place.says(&["-V"]), format!("{version}\n"));
    let said = place.says(&["--version"]);
    let features = said.lines().nth(1).and_then(|line| line.strip_prefix("features: ")).unwrap();
    assert!(said.starts_with(version) && said.lines().count() == 2, "{said}");
    let features: Vec<&str> = features.split(", ").collect();
    for (name, built) in
        [("safetensors", true), ("cuda", cfg!(feature = "cuda")), ("tf2", cfg!(feature = "tf2"))]
    {
        assert_eq!(features.contains(&name), built, "{said}");
    }
}

#[test]
fn of_several_checkpoints_those_that_can_be_read_are_shown_and_the_others_reported() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[("a".to_owned(), vec![1], vec![1.0])]);
    place.checkpoint("b.safetensors", &[("b".to_owned(), vec![1], vec![1.0])]);
    place.write("bad.safetensors", [9, 0, 0, 0, 0, 0, 0, 0, b'{']);
    for command in ["hash", "inspect"] {
        let output = place.ckpt(&[command, "a.safetensors", "missing", "bad.safetensors", "b.safetensors"]);
        let (text, told) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(1), "the code is that of the first that fails: {told}");
        assert!(text.contains("a.safetensors") && text.contains("b.safetensors"), "{text}");
        assert!(told.contains("missing") && told.contains("bad.safetensors"), "{told}");
        let output =
            place.ckpt(&[command, "a.safetensors", "bad.safetensors", "b.safetensors", "--format", "json"]);
        assert_eq!(output.status.code(), Some(5));
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all[1]["error"]["kind"], "corrupt");
        assert_eq!(all[2], place.json(&[command, "b.safetensors"]), "each stands in its place");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn help_and_version_that_cannot_be_printed_are_failures() {
    let place = Workplace::new();
    for arguments in [&["--help"][..], &["--version"], &["convert", "--help"], &["-V"]] {
        let (code, said) = into_a_full_disk(&place, arguments, false);
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(said.contains("cannot write the result") && said.contains("No space left"), "{said}");
    }
}

#[test]
fn every_command_has_a_version() {
    let place = Workplace::new();
    for command in ["convert", "show"] {
        assert!(
            place.says(&[command, "-V"]).ends_with(concat!(env!("CARGO_PKG_VERSION"), "\n")),
            "{command}"
        );
    }
    assert!(place.says(&["convert", "--version"]).contains("features: "));
}

#[test]
fn an_option_that_has_another_name_here_is_told_by_that_name() {
    let place = Workplace::new();
    for (arguments, name) in [
        (&["diff", "a", "b", "--a-format", "nn"][..], "'--a-from'"),
        (&["diff", "a", "b", "--b-format=nn"], "'--b-from'"),
        (&["convert", "a", "b", "--output-format", "nn"], "'--to'"),
    ] {
        let said = place.refused(arguments);
        assert!(said.contains(name) && !said.contains("'--format'"), "{said}");
    }
}

#[test]
fn show_lists_the_format_for_numpy_and_no_other_command_does() {
    let place = Workplace::new();
    assert!(place.says(&["show", "--help"]).contains("npy"));
    assert!(!place.says(&["inspect", "--help"]).contains("npy"));
    let said = place.refused(&["show", "a", "b", "--format", "npz"]);
    assert!(said.contains("human, json, npy"), "{said}");
    assert!(!place.refused(&["inspect", "a", "--format", "npz"]).contains("human, json, npy"));
    let script = place.says(&["completions", "bash"]);
    assert!(script.contains("human json npy"), "{script}");
}

#[test]
fn a_result_is_written_to_a_new_file_in_the_format_of_its_name() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &[("w".to_owned(), vec![2], vec![0.5, 2.0])]);
    let show =
        |file: &str, more: &[&str]| place.ckpt(&[&["show", "m.safetensors", "w", "-o", file], more].concat());
    for (file, more, starts) in [
        ("w.npy", &[][..], &b"\x93NUMPY"[..]),
        ("w.json", &[], b"{\"name\": \"w\""),
        ("w.txt", &[], b"w: f32 [2]\n[0.5   2]\n"),
        ("w", &["--format", "npy"], b"\x93NUMPY"),
    ] {
        let output = show(file, more);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("wrote {file}\n"));
        assert!(fs::read(place.path(file)).unwrap().starts_with(starts), "{file}");
    }
    let again = show("w.npy", &[]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("the output exists"));
    place.says(&["map", "show", "bert-tf-to-hf", "-o", "map.toml"]);
    assert_eq!(
        fs::read_to_string(place.path("map.toml")).unwrap(),
        place.says(&["map", "show", "bert-tf-to-hf"])
    );
}

#[test]
#[cfg(unix)]
fn a_link_at_the_receipts_name_is_told_as_the_receipt() {
    let place = Workplace::new();
    place.write("old.json", "{}");
    std::os::unix::fs::symlink("old.json", place.path("link.json")).unwrap();
    let said = place.refused(&["convert", DIGITS, "m.npz", "--receipt", "link.json", "--force"]);
    assert!(said.contains("the receipt is a symbolic link") && !said.contains("standard output"), "{said}");
    let said = place.refused(&["convert", DIGITS, "/dev/stdout", "--to", "npz"]);
    assert!(said.contains("the output is a symbolic link") && said.contains("standard output"), "{said}");
}

#[test]
fn verbose_says_what_is_opened_planned_and_done_on_stderr_alone() {
    let place = Workplace::new();
    let both = |arguments: &[&str]| {
        let output = place.ckpt(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|stream| String::from_utf8(stream).unwrap())
    };
    let convert = ["convert", DIGITS, "m.npz", "-v", "--verify", "--receipt", "r.json", "--format", "json"];
    let [text, told] = both(&convert);
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let begins = [
        "opened ",
        "planned tf2 to npz in ",
        "prepared temporary files in ",
        "wrote the tensors in ",
        "wrote headers and checksums in ",
        "read the output back in ",
        "compared what the graphs compute in ",
        "waited for the disk in ",
        "committed the output in ",
        "ended after ",
    ];
    assert_eq!(told.lines().count(), begins.len(), "{told}");
    for (line, begin) in told.lines().zip(begins) {
        assert!(line.starts_with(begin) && line.contains(['m', 's']), "{line}");
    }
    for says in [": tf2 (ckpt-1.index is", "16 tensors", "15 tensors in 1 item", "to 1 file"] {
        assert!(told.contains(says), "{says}: {told}");
    }
    let [text, told] = both(&["-v", "diff", "m.npz", "m.npz"]);
    assert_eq!(text, place.says(&["diff", "m.npz", "m.npz"]));
    assert!(
        told.matches("opened m.npz in ").count() == 2 && told.contains("reading: 56.5 KiB of values in "),
        "{told}"
    );
    let [_, told] = both(&["plan", DIGITS, "n.npz", "--map", "bullet-to-tf-adam", "--verbose"]);
    assert!(told.contains("read mapping bullet-to-tf-adam: 2 rules\n"), "{told}");
    assert!(both(&["diff", "m.npz", "m.npz"])[1].is_empty(), "only where it is asked for");
    place.refuses(&["convert", DIGITS, "o.npz", "-v", "-q"], 2, &["cannot be used together"]);
}

#[test]
fn the_output_of_a_conversion_is_an_argument_or_an_option_but_not_both() {
    let place = Workplace::new();
    place.says(&["convert", DIGITS, "a.npz", "--quiet"]);
    place.says(&["convert", DIGITS, "-o", "b.npz", "--quiet"]);
    place.says(&["convert", "--output=c.npz", DIGITS, "--quiet"]);
    let bytes = ["a.npz", "b.npz", "c.npz"].map(|name| fs::read(place.path(name)).unwrap());
    assert!(bytes[0] == bytes[1] && bytes[0] == bytes[2]);
    place.refuses(&["convert", DIGITS, "d.npz", "-o", "e.npz"], 2, &["cannot be used together", "--output"]);
    place.refuses(&["convert", DIGITS], 2, &["an argument is missing", "<OUTPUT>"]);
}

#[test]
fn an_existing_file_is_the_same_error_in_every_command() {
    let place = Workplace::new();
    let old = ["old.npz", "old.html", "old.toml", "old.json"];
    for name in old {
        place.write(name, "kept");
    }
    place.says(&["man", "--output", "man1"]);
    for (arguments, help) in [
        (&["convert", DIGITS, "old.npz"][..], "replace it with --force"),
        (&["plan", DIGITS, "new.npz", "-o", "old.json"], "replace it with --force"),
        (&["man", "--output", "man1"], "replace it with --force"),
        (&["inspect", DIGITS, "--html", "old.html"], "this command replaces no file"),
        (&["show", DIGITS, "digits/hidden/bias", "-o", "old.json"], "this command replaces no file"),
        (&["map", "suggest", DIGITS, DIGITS, "-o", "old.toml"], "this command replaces no file"),
        (&["verify", DIGITS, DIGITS, "--html", "old.html"], "this command replaces no file"),
        (&["verify", DIGITS, DIGITS, "--report", "old.json"], "this command replaces no file"),
        (&["run", DIGITS, "-o", "old.npz"], "replace it with --force"),
    ] {
        let said = place.refused(arguments);
        assert!(
            said.contains("the output exists [usage]") && said.contains("file  "),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("choose another name") && said.contains(help), "{arguments:?}: {said}");
    }
    for name in old {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), "kept");
    }
}

#[test]
fn force_replaces_the_file_of_a_plan_and_the_pages_of_the_manual() {
    let place = Workplace::new();
    place.write("plan.json", "old");
    place.says(&["plan", DIGITS, "new.npz", "-o", "plan.json", "--force"]);
    assert!(fs::read_to_string(place.path("plan.json")).unwrap().starts_with('{'));
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 1, "nothing else is left");
    let wrote = place.says(&["man", "--output", "man1"]);
    assert!(wrote.starts_with("wrote man1: ") && wrote.ends_with(" pages\n"), "{wrote}");
    place.write("man1/ckpt.1", "old");
    place.says(&["man", "--output", "man1", "--force"]);
    assert!(fs::read_to_string(place.path("man1/ckpt.1")).unwrap().contains(".TH ckpt 1"));
}

#[test]
fn a_hyphen_is_a_standard_stream_and_no_file() {
    let place = Workplace::new();
    for arguments in [
        &["inspect", "-"][..],
        &["diff", DIGITS, "-"],
        &["convert", "-", "m.npz"],
        &["map", "check", "-", DIGITS],
        &["run", DIGITS, "--input", "-"],
    ] {
        let said = place.refused(arguments);
        assert!(said.contains("the input is neither a file nor a directory"), "{arguments:?}: {said}");
        assert!(said.contains("no random access: copy it to a file first") && said.contains("./-"), "{said}");
    }
    for arguments in [
        &["convert", DIGITS, "-", "--to", "npz"][..],
        &["convert", DIGITS, "m.npz", "--receipt", "-"],
        &["inspect", DIGITS, "--html", "-"],
        &["run", DIGITS, "--output", "-"],
    ] {
        let said = place.refused(arguments);
        assert!(said.contains("the output is not a regular file"), "{arguments:?}: {said}");
        assert!(said.contains("no random access: write to a file") && said.contains("./-"), "{said}");
    }
    let said = place.refused(&["map", "show", "bert-tf-to-hf", "-o", "-"]);
    assert!(said.contains("leave the option out"), "{said}");
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0, "no file is made");
    place.says(&["show", DIGITS, "digits/hidden/bias", "-o", "./-"]);
    assert!(
        place
            .says(&["convert", DIGITS, "./-", "--to", "npz", "--force", "--format", "json"])
            .contains("files")
    );
    assert!(place.says(&["inspect", "./-"]).contains("npz"));
}

#[test]
fn an_empty_path_is_said_to_be_empty() {
    let place = Workplace::new();
    for arguments in
        [&["inspect", ""][..], &["convert", DIGITS, "", "--to", "npz"], &["map", "check", "", DIGITS]]
    {
        let said = place.refused(arguments);
        assert!(said.contains("the path is empty [usage]"), "{arguments:?}: {said}");
    }
}

#[test]
fn the_page_of_inspect_is_reported_as_json_with_its_path_and_size() {
    let place = Workplace::new();
    let text = place.says(&["inspect", DIGITS, "--html", "page.html", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let bytes = fs::metadata(place.path("page.html")).unwrap().len();
    assert_eq!(found, serde_json::json!({ "html": "page.html", "bytes": bytes }));
}

#[test]
fn a_group_has_no_statistics_in_a_table_and_both_options_are_named() {
    let place = Workplace::new();
    let said = place.refused(&["inspect", DIGITS, "--depth", "1", "--stats"]);
    assert!(said.contains("cannot be used together") && said.contains("--depth") && said.contains("--stats"));
    place.says(&["inspect", DIGITS, "--depth", "1", "--stats", "--format", "json"]);
}

#[test]
fn a_number_of_random_examples_has_no_effect_on_inputs_that_are_given() {
    let place = Workplace::new();
    for given in [["--input", "x.npy"], ["--fen", "startpos"]] {
        let said = place.refused(&[&["run", RUNS, "--batch", "4"], &given[..]].concat());
        assert!(said.contains("cannot be used together"), "{said}");
        assert!(said.contains("--batch") && said.contains(given[0]), "{said}");
    }
}

#[test]
fn a_tool_or_another_case_leads_to_its_format() {
    let place = Workplace::new();
    for (arguments, meant) in [
        (&["inspect", DIGITS, "--from", "tensorflow"][..], "did you mean 'tf2'?"),
        (&["convert", DIGITS, "m", "--to", "numpy"], "did you mean 'npz'?"),
        (&["formats", "TF2"], "did you mean 'tf2'?"),
    ] {
        assert!(place.refused(arguments).contains(meant), "{arguments:?}");
    }
}

#[test]
fn a_transform_that_fits_no_tensor_is_named() {
    let place = Workplace::new();
    let said = place.refused(&["convert", DIGITS, "m.npz", "--transform", "digits/**: transpose"]);
    assert!(said.contains("a step does not fit the tensor [usage]"), "{said}");
    assert!(said.contains("the transform 'digits/**: transpose'") && !said.contains("recipe"), "{said}");
}
