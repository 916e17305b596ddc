//! A plan that several processes run gives what one conversion gives, whatever the order, the repetitions and the
//! kills.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A directory with a source, and a plan for each kind of target.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("in")).unwrap();
        for entry in fs::read_dir(format!("{ROOT}/examples/data/digits")).unwrap().map(|entry| entry.unwrap())
        {
            fs::copy(entry.path(), place.path("in").join(entry.file_name())).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
        command.current_dir(self.0.path()).args(arguments).stderr(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        output
    }

    fn refused(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }

    /// Plans a conversion, and returns its number of items and the bytes that converting at once gives.
    fn plan(&self, target: &[&str]) -> (usize, Vec<(String, Vec<u8>)>) {
        fs::create_dir_all(self.path("expected")).unwrap();
        let (output, options) = target.split_first().unwrap();
        let expected = format!("expected/{output}");
        self.done(&[&["convert", "in", &expected, "-q", "--no-sync"], options].concat());
        let plan = ["plan", "in", output, "--output", "plan.json", "--item-size", "1k"];
        self.done(&[&plan[..], options].concat());
        let plan: Value = serde_json::from_slice(&fs::read(self.path("plan.json")).unwrap()).unwrap();
        (plan["items"].as_array().unwrap().len(), found(&self.path("expected")))
    }

    /// Files with a name of the output.
    fn output(&self, expected: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
        let all = found(self.0.path());
        all.into_iter().filter(|(name, _)| expected.iter().any(|(other, _)| other == name)).collect()
    }

    /// What is there beside the input, the plan and the output.
    fn left_over(&self, expected: &[(String, Vec<u8>)]) -> Vec<String> {
        let own = ["in", "expected", "plan.json", "receipts"];
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.into_string().unwrap());
        names
            .filter(|name| {
                let is_expected = |other: &String| other.split('/').next() == Some(name);
                !own.contains(&name.as_str()) && !expected.iter().any(|(other, _)| is_expected(other))
            })
            .collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The files below a directory, by their paths from there.
fn found(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(directory.join(&folder)).unwrap().map(|entry| entry.unwrap()) {
            let path = folder.join(entry.file_name());
            match entry.path().is_dir() {
                true => open.push(path),
                false => found.push((path.to_str().unwrap().to_owned(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    found.sort();
    found
}

/// One file, several, one whose checksums are between its tensors, one that is cast, one whose axes change, one in blocks, a
/// folder.
const TARGETS: [&[&str]; 7] = [
    &["o.safetensors"],
    &["o", "--to", "tf2", "--set", "shards=3"],
    &["o.npz", "--exclude", "_CHECKPOINTABLE*"],
    &["o.safetensors", "--dtype", "f16"],
    &["o.safetensors", "--transform", "**/kernel: transpose"],
    &["o.gguf", "--transform", "**/kernel: transpose", "--set", "type=q4_1", "--allow", "all"],
    &["o", "--to", "orbax", "--set", "layout=v1", "--set", "chunk=1k", "--allow", "all"],
];

/// Numbers that look random, and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn items_in_any_order_by_several_processes_repeated_and_killed_give_the_same_bytes() {
    let mut killed = 0;
    for (seed, target) in TARGETS.iter().enumerate() {
        let place = Place::new();
        let (items, expected) = place.plan(target);
        assert!(items > 5, "{target:?}");
        let mut numbers = Numbers(seed as u64);
        // Five processes at a time, of which two are killed whenever that is.
        for _ in 0..3 {
            let children: Vec<_> = (0..5)
                .map(|_| {
                    let start = numbers.below(items);
                    let end = start + 1 + numbers.below(items - start);
                    let range = format!("{start}..{end}");
                    let run =
                        ["run-plan", "plan.json", "--items", &range, "--receipts", "receipts", "-j", "1"];
                    place.command(&run).spawn().unwrap()
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(numbers.below(12) as u64));
            for (number, mut child) in children.into_iter().enumerate() {
                if number < 2 {
                    child.kill().unwrap();
                    killed += usize::from(!child.wait().unwrap().success());
                } else {
                    let output = child.wait_with_output().unwrap();
                    assert!(output.status.success(), "{target:?}: {}", said(&output));
                }
            }
        }
        assert_eq!(place.output(&expected), [], "{target:?}: nothing has a name yet");
        // Whatever was not run, or had no receipt; from the last to the first.
        for item in (0..items).rev() {
            let range = format!("{item}..{}", item + 1);
            place.done(&["run-plan", "plan.json", "--items", &range, "--receipts", "receipts", "-q"]);
        }
        place.done(&["commit", "plan.json", "receipts", "--verify", "-q"]);
        assert!(place.output(&expected) == expected, "{target:?}");
        assert_eq!(place.left_over(&expected), [""; 0], "{target:?}");
    }
    assert!(killed > 0, "no process was killed before it was done");
}

#[test]
fn a_receipt_of_the_conversion_is_the_same_by_either_way() {
    let place = Place::new();
    place.plan(&["o.safetensors"]);
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.done(&["commit", "plan.json", "receipts", "--receipt", "r.json", "-q"]);
    let checked = place.done(&["verify", "--receipt", "r.json", "--format", "json"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["files"], 4);
    let receipt: Value = serde_json::from_slice(&fs::read(place.path("r.json")).unwrap()).unwrap();
    place.done(&["convert", "in", "o.safetensors", "--force", "--receipt", "s.json", "-q"]);
    let other: Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
    assert_eq!(receipt["tensors"], other["tensors"]);
    assert_eq!(receipt["target"]["files"], other["target"]["files"]);
}

#[test]
fn the_receipt_of_a_plan_has_paths_from_the_working_directory_and_moves_with_its_files() {
    let place = Place::new();
    fs::create_dir(place.path("out")).unwrap();
    place.done(&["plan", "in", "out/o.safetensors", "--output", "plan.json"]);
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    let wrote = said(&place.done(&["commit", "plan.json", "receipts", "--receipt", "r.json"]));
    assert!(wrote.contains("wrote out/o.safetensors\n"), "{wrote}");
    let receipt = fs::read(place.path("r.json")).unwrap();
    place.done(&["convert", "in", "out/o.safetensors", "--force", "--receipt", "s.json", "-q"]);
    assert!(receipt == fs::read(place.path("s.json")).unwrap(), "both ways give one receipt");
    place.done(&["verify", "--receipt", "r.json", "--root", "."]);
    let moved = tempfile::tempdir().unwrap();
    for name in ["in", "out", "r.json"] {
        fs::rename(place.path(name), moved.path().join(name)).unwrap();
    }
    let root = moved.path().to_str().unwrap();
    place.done(&["verify", "--receipt", &format!("{root}/r.json"), "--root", root]);
}

#[test]
fn the_receipt_of_a_plan_has_absolute_paths_where_they_lie_elsewhere() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let output = elsewhere.path().canonicalize().unwrap().join("o.safetensors");
    place.done(&["plan", "in", output.to_str().unwrap(), "--output", "plan.json"]);
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.done(&["commit", "plan.json", "receipts", "--receipt", "r.json", "-q"]);
    let receipt: Value = serde_json::from_slice(&fs::read(place.path("r.json")).unwrap()).unwrap();
    assert_eq!(receipt["source"]["directory"], "in");
    assert_eq!(receipt["target"]["directory"], output.parent().unwrap().to_str().unwrap());
    place.refused(&["verify", "--receipt", "r.json", "--root", "."], 2, "outside the root");
}

#[test]
fn receipts_are_what_their_schema_says_and_items_that_have_one_are_not_run_again() {
    let schema: Value =
        serde_json::from_slice(&fs::read(format!("{ROOT}/schemas/item-receipt.schema.json")).unwrap())
            .unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let place = Place::new();
    let (items, _) = place.plan(TARGETS[3]);
    let ran = |arguments: &[&str]| -> (u64, u64) {
        let output = place.done(
            &[&["run-plan", "plan.json", "--receipts", "receipts", "--format", "json"], arguments].concat(),
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (report["run"].as_u64().unwrap(), report["known"].as_u64().unwrap())
    };
    assert_eq!(ran(&["--items", "0..3"]), (3, 0));
    assert_eq!(ran(&[]), (items as u64 - 3, 3));
    let receipts = found(&place.path("receipts"));
    assert_eq!(receipts.len(), items);
    for (name, text) in receipts {
        assert!(schema.is_valid(&serde_json::from_slice(&text).unwrap()), "{name}");
    }
}

#[test]
fn a_plan_that_was_altered_or_is_of_another_version_is_refused() {
    let place = Place::new();
    place.plan(TARGETS[0]);
    let text = fs::read_to_string(place.path("plan.json")).unwrap();
    let changes = [
        ("\"offset\": 8", "\"offset\": 9", "the plan was modified"),
        ("o.safetensors", "p.safetensors", "the plan was modified"),
        ("\"version\": 1", "\"version\": 2", "another version wrote the plan"),
        ("\"program\": \"ckpt ", "\"program\": \"ckpt 9", "another version wrote the plan"),
        ("\"items\"", "\"itens\"", "this is not a plan"),
    ];
    for (from, to, words) in changes {
        assert!(text.contains(from), "{from}");
        fs::write(place.path("plan.json"), text.replacen(from, to, 1)).unwrap();
        place.refused(&["run-plan", "plan.json", "--receipts", "receipts"], 2, words);
        place.refused(&["commit", "plan.json", "receipts"], 2, words);
    }
    assert!(!place.path("receipts").exists());
    // What running takes on another machine is no part of what the plan does.
    let threads = text.find("\"threads\": ").unwrap() + "\"threads\": ".len();
    fs::write(place.path("plan.json"), format!("{}7{}", &text[..threads], &text[threads + 1..])).unwrap();
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
}

#[test]
fn a_source_that_changed_since_the_plan_was_made_is_refused() {
    let place = Place::new();
    place.plan(TARGETS[0]);
    let data = place.path("in/ckpt-1.data-00000-of-00001");
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    fs::write(&data, fs::read(&data).unwrap()).unwrap();
    for arguments in
        [&["run-plan", "plan.json", "--receipts", "receipts"][..], &["commit", "plan.json", "receipts"]]
    {
        place.refused(arguments, 1, "the source has changed since the plan was made");
    }
}

#[test]
fn a_commit_without_all_receipts_is_refused_and_keeps_what_was_written() {
    let place = Place::new();
    let (items, expected) = place.plan(TARGETS[0]);
    place.refused(&["commit", "plan.json", "receipts"], 1, "cannot list the directory");
    fs::create_dir(place.path("receipts")).unwrap();
    place.refused(&["commit", "plan.json", "receipts"], 2, "no item of this plan has written anything yet");
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    let receipts = found(&place.path("receipts"));
    let (name, _) = &receipts[items / 2];
    fs::remove_file(place.path("receipts").join(name)).unwrap();
    place.refused(&["commit", "plan.json", "receipts"], 2, &format!("no receipt for item {}", items / 2));
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.done(&["commit", "plan.json", "receipts", "-q"]);
    assert!(place.output(&expected) == expected);
}

#[test]
fn receipts_of_files_that_are_gone_are_worth_nothing() {
    let place = Place::new();
    let (_, expected) = place.plan(TARGETS[0]);
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    for entry in fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name().to_str().unwrap().starts_with('.') {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    place.refused(&["commit", "plan.json", "receipts"], 2, "no item of this plan has written anything yet");
    place.done(&["run-plan", "plan.json", "--items", "0..1", "--receipts", "receipts", "-q"]);
    place.refused(
        &["commit", "plan.json", "receipts"],
        2,
        "receipts belong to another plan, or to files that no longer exist",
    );
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.done(&["commit", "plan.json", "receipts", "-q"]);
    assert!(place.output(&expected) == expected);
}

#[test]
fn what_was_written_can_be_discarded() {
    let place = Place::new();
    let (_, expected) = place.plan(TARGETS[1]);
    place.done(&["run-plan", "plan.json", "--items", "0..4", "--receipts", "receipts", "-q"]);
    assert!(!place.left_over(&expected).is_empty());
    place.done(&["commit", "plan.json", "receipts", "--discard"]);
    assert_eq!(place.left_over(&expected), [""; 0]);
    place.refused(
        &["commit", "plan.json", "receipts", "--discard"],
        2,
        "no item of this plan has written anything \
                                                                         yet",
    );
}

#[test]
fn an_output_that_exists_is_replaced_only_by_a_plan_that_may() {
    let place = Place::new();
    fs::write(place.path("o.safetensors"), "old").unwrap();
    let plan = ["plan", "in", "o.safetensors", "--output", "plan.json"];
    place.refused(&plan, 2, "the output exists");
    place.done(&[&plan[..], &["--force"]].concat());
    place.refused(&plan, 2, "the output exists");
    place.done(&[&plan[..], &["--force"]].concat());
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    assert_eq!(fs::read(place.path("o.safetensors")).unwrap(), b"old");
    place.done(&["commit", "plan.json", "receipts", "-q"]);
    assert!(fs::read(place.path("o.safetensors")).unwrap().len() > 30_000);
}

#[test]
fn items_that_the_plan_does_not_have_are_refused() {
    let place = Place::new();
    let (items, _) = place.plan(TARGETS[0]);
    for (range, words) in [
        (format!("0..{}", items + 1), "the plan does not have these items"),
        (format!("0..{}", usize::MAX), "the plan does not have these items"),
        ("3..2".to_owned(), "the plan does not have these items"),
        ("all".to_owned(), "items are not a range"),
        ("1..".to_owned(), "items are not a range"),
    ] {
        place.refused(&["run-plan", "plan.json", "--receipts", "receipts", "--items", &range], 2, words);
    }
}

#[test]
fn planning_reads_no_tensor_data() {
    let place = Place::new();
    place.plan(TARGETS[0]);
    // Numbers are gone; the lengths of strings, which the format stores among the data, are read.
    let data = place.path("in/ckpt-1.data-00000-of-00001");
    let mut bytes = fs::read(&data).unwrap();
    bytes[..20_000].fill(0);
    fs::write(&data, bytes).unwrap();
    fs::remove_file(place.path("plan.json")).unwrap();
    place.done(&["plan", "in", "o.safetensors", "--output", "plan.json"]);
    place.refused(&["run-plan", "plan.json", "--receipts", "receipts"], 5, "checksum");
}

#[test]
fn an_item_may_be_allowed_more_than_there_is() {
    let place = Place::new();
    let (_, expected) = place.plan(TARGETS[3]);
    let largest = ["--item-size", "18446744073709551615"];
    fs::remove_file(place.path("plan.json")).unwrap();
    let plan = ["plan", "in", "o.safetensors", "--dtype", "f16", "--output", "plan.json"];
    place.done(&[&plan[..], &largest].concat());
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.done(&["commit", "plan.json", "receipts", "-q"]);
    assert!(place.output(&expected) == expected);
}

/// The temporary file with most bytes.
fn staged(place: &Place) -> PathBuf {
    let files = found(place.0.path()).into_iter().filter(|(name, _)| name.ends_with(".ckpt-tmp"));
    place.path(&files.max_by_key(|(_, bytes)| bytes.len()).unwrap().0)
}

#[test]
fn a_commit_that_fails_keeps_what_was_written() {
    for target in [TARGETS[0], TARGETS[1]] {
        let place = Place::new();
        let (_, expected) = place.plan(target);
        place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
        let receipt = ["commit", "plan.json", "receipts", "--receipt", "none/r.json"];
        place.refused(&receipt, 2, "the receipt's directory does not exist");
        // Another byte at the end of a tensor: only reading back sees it.
        let staged = staged(&place);
        let bytes = fs::read(&staged).unwrap();
        let mut other = bytes.clone();
        *other.last_mut().unwrap() ^= 1;
        fs::write(&staged, other).unwrap();
        place.refused(&["commit", "plan.json", "receipts", "--verify"], 4, "");
        assert_eq!(place.output(&expected), [], "{target:?}");
        fs::write(&staged, bytes).unwrap();
        place.done(&["commit", "plan.json", "receipts", "--verify", "-q"]);
        assert!(place.output(&expected) == expected, "{target:?}");
        assert_eq!(place.left_over(&expected), [""; 0], "{target:?}");
    }
}

#[test]
fn a_receipt_without_a_directory_is_refused_before_anything_is_done() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    for receipt in ["none/r.json", "file/r.json"] {
        let convert = ["convert", "in", "o.safetensors", "--receipt", receipt];
        place.refused(&convert, 2, "the receipt's directory does not exist");
        assert_eq!(place.left_over(&[]), ["file"]);
    }
    fs::create_dir(place.path("some")).unwrap();
    place.done(&["convert", "in", "o.safetensors", "--receipt", "some/r.json", "-q"]);
    assert!(place.path("some/r.json").exists());
}

#[test]
fn receipts_with_numbers_that_cannot_be_are_refused_by_name_and_what_was_written_stays() {
    let place = Place::new();
    let (_, expected) = place.plan(TARGETS[0]);
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    let receipts = found(&place.path("receipts"));
    let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
    let shared = receipts.iter().find(|(_, text)| parsed(text)["sums"]["read"].is_array());
    let (name, text) = shared.expect("a tensor that several items read");
    let path = place.path("receipts").join(name);
    let commit = ["commit", "plan.json", "receipts"];
    let altered = |change: &dyn Fn(&mut Value), words: &[&str]| {
        let mut receipt = parsed(text);
        change(&mut receipt["sums"]["read"]);
        fs::write(&path, receipt.to_string()).unwrap();
        words.iter().for_each(|words| place.refused(&commit, 2, words));
    };
    let misfit = ["the receipt does not fit the plan", name.as_str()];
    altered(&|read| read[0]["bytes"] = u64::MAX.into(), &misfit);
    altered(&|read| read[0]["extent"] = u32::MAX.into(), &misfit);
    altered(&|read| read[0]["piece"] = u32::MAX.into(), &misfit);
    let twice = |read: &mut Value| {
        let first = read[0].clone();
        read.as_array_mut().unwrap().push(first);
    };
    altered(&twice, &["the receipts of the plan's items do not fit together"]);
    fs::write(&path, text).unwrap();
    place.done(&["commit", "plan.json", "receipts", "-q"]);
    assert!(place.output(&expected) == expected);
}

#[test]
fn a_plan_that_was_made_with_raised_limits_runs_with_them() {
    let place = Place::new();
    let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", "1, ".repeat(300));
    let text = format!("{dict:<1013}\n");
    let mut array = [&b"\x93NUMPY\x01\0"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    array.extend(2.5f32.to_le_bytes());
    fs::write(place.path("deep.npy"), array).unwrap();
    let raised = ["--limit", "rank=400"];
    let plan = ["plan", "deep.npy", "o.safetensors", "--output", "plan.json"];
    place.refused(&plan, 1, "exceeds the limit 'rank'");
    place.done(&[&plan[..], &raised].concat());
    let run = ["run-plan", "plan.json", "--receipts", "receipts", "-q"];
    place.refused(&run, 1, "exceeds the limit 'rank'");
    place.done(&[&run[..], &raised].concat());
    place.done(&[&["commit", "plan.json", "receipts", "-q"][..], &raised].concat());
    assert!(fs::read(place.path("o.safetensors")).unwrap().ends_with(&2.5f32.to_le_bytes()));
}

#[test]
fn a_plan_that_is_written_is_reported_as_json_where_that_is_asked_for() {
    let place = Place::new();
    let plan = ["plan", "in", "o.safetensors", "--output", "plan.json", "--format", "json"];
    let report: Value = serde_json::from_slice(&place.done(&plan).stdout).unwrap();
    let plan: Value = serde_json::from_slice(&fs::read(place.path("plan.json")).unwrap()).unwrap();
    assert_eq!(report["plan"], "plan.json");
    assert_eq!(report["sha256"], plan["sha256"]);
    assert_eq!(report["items"], plan["items"].as_array().unwrap().len());
    assert!(report["bytes"].as_u64().unwrap() > 20_000);
}

#[test]
fn no_command_runs_on_zero_threads() {
    let place = Place::new();
    place.plan(TARGETS[0]);
    let words = "at least one thread is needed";
    place.refused(&["convert", "in", "p.safetensors", "-j", "0"], 2, words);
    place.refused(&["run-plan", "plan.json", "--receipts", "receipts", "-j", "0"], 2, words);
    place.refused(&["commit", "plan.json", "receipts", "-j", "0"], 2, words);
}

/// A safetensors file of two tensors of f32.
fn two(a: (&str, [f32; 6]), b: (&str, [f32; 6])) -> Vec<u8> {
    let header = format!(
        r#"{{"a":{{"dtype":"F32","shape":{},"data_offsets":[0,24]}},"b":{{"dtype":"F32","shape":{},"data_offsets":[24,48]}}}}"#,
        a.0, b.0
    );
    let values = a.1.iter().chain(&b.1).flat_map(|value| value.to_le_bytes());
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values.collect::<Vec<u8>>()].concat()
}

#[test]
fn tensors_that_one_name_stands_for_are_compared_by_the_items_of_a_plan() {
    let place = Place::new();
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    fs::write(place.path("tie.toml"), "[[rule]]\nfrom = 't'\nto = ['a', 'b']\ntie = true\n").unwrap();
    fs::write(place.path("m.safetensors"), two(("[2,3]", values), ("[2,3]", values))).unwrap();
    let back = ["--map", "tie.toml", "--inverse"];
    place.done(&[&["convert", "m.safetensors", "expected.npz", "-q"][..], &back].concat());
    let plan = [&["plan", "m.safetensors", "o.npz", "--output", "plan.json"][..], &back].concat();
    place.done(&plan);
    let items: Value = serde_json::from_slice(&fs::read(place.path("plan.json")).unwrap()).unwrap();
    assert_eq!(items["items"][0]["do"], "compare");
    place.done(&["run-plan", "plan.json", "--receipts", "receipts", "-q"]);
    place.done(&["commit", "plan.json", "receipts", "-q"]);
    assert!(fs::read(place.path("o.npz")).unwrap() == fs::read(place.path("expected.npz")).unwrap());
    // Another value is found when the item runs, another shape when the plan is made.
    let words = "tensors that must be equal differ";
    let other = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0];
    fs::write(place.path("m.safetensors"), two(("[2,3]", values), ("[2,3]", other))).unwrap();
    let plan = |file| [&["plan", "m.safetensors", "p.npz", "--output", file][..], &back].concat();
    place.done(&plan("other.json"));
    place.refused(&["run-plan", "other.json", "--receipts", "more"], 3, words);
    fs::write(place.path("m.safetensors"), two(("[2,3]", values), ("[6]", values))).unwrap();
    place.refused(&plan("third.json"), 3, words);
}
