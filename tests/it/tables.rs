//! What `inspect`, `plan`, `map check` and `show` print of tensors.

use crate::common::workplace::{DIGITS, Tensor, Workplace};
use serde_json::{Value, json};

/// Name, dtype of safetensors, shape and bytes.
type Stored<'a> = (&'a str, &'a str, &'a [usize], &'a [u8]);

/// A safetensors file of these tensors.
fn stored(place: &Workplace, file: &str, tensors: &[Stored]) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] });
        assert!(header.insert((*name).to_owned(), entry).is_none(), "{name}");
    }
    let header = Value::from(header).to_string();
    place.write(file, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat());
}

fn ones(names: &[&str]) -> Vec<Tensor> {
    names.iter().map(|name| ((*name).to_owned(), vec![1], vec![1.0])).collect()
}

/// The first cell of each line of the first table.
fn names(text: &str) -> Vec<&str> {
    let table = text.lines().skip_while(|line| !line.starts_with("  name ")).skip(1);
    table
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

const MAPPING: &str = "identity = true\n[[rule]]\nfrom = \"h.{n:int}.w\"\nto = \"model.layers.{n}.weight\"\n";

#[test]
fn one_name_of_a_million_characters_does_not_pad_the_rows_of_the_others() {
    let place = Workplace::new();
    let long = "n".repeat(1 << 20);
    let mut all: Vec<String> = (0..20_000).map(|k| format!("w{k}")).collect();
    all.push(long.clone());
    let tensors: Vec<Tensor> = all.into_iter().map(|name| (name, vec![1], vec![0.0])).collect();
    place.checkpoint("m.safetensors", &tensors);
    place.write("same.toml", "identity = true\n");
    let commands: [&[&str]; 4] = [
        &["inspect", "m.safetensors"],
        &["inspect", "m.safetensors", "--stats"],
        &["plan", "m.safetensors", "o.safetensors"],
        &["map", "check", "same.toml", "m.safetensors"],
    ];
    for command in commands {
        let text = place.says(command);
        assert!(text.len() < 20_010 * 101, "{command:?}: {} bytes", text.len());
        assert!(!text.contains(&long) && text.contains("nn…nn") && text.contains("--wide"), "{command:?}");
        let text = place.says(&[command, &["--wide"]].concat());
        assert!(text.len() < (2 << 20) + 20_010 * 400, "{command:?}: {} bytes", text.len());
        assert!(text.contains(&long) && !text.contains('…'), "{command:?}");
    }
}

#[test]
fn a_table_takes_100_columns_where_there_is_no_terminal() {
    let place = Workplace::new();
    let long = format!("encoder/{}/kernel", "block/".repeat(30));
    place.checkpoint("m.safetensors", &ones(&["a", &long]));
    for command in [&["inspect", "m.safetensors"][..], &["plan", "m.safetensors", "o.npz"]] {
        let text = place.says(command);
        let row = text.lines().find(|line| line.contains("/kernel")).unwrap();
        assert!(row.chars().count() == 100 && row.contains("  encoder/block/") && row.contains('…'), "{row}");
    }
}

#[test]
fn layer2_stands_before_layer10() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &ones(&["h.0.w", "h.1.w", "h.10.w", "h.2.w"]));
    let sorted = ["h.0.w", "h.1.w", "h.2.w", "h.10.w"];
    assert_eq!(names(&place.says(&["inspect", "m.safetensors"])), sorted);
    let plan = place.says(&["plan", "m.safetensors", "o.npz"]);
    let rows: Vec<&str> = plan.lines().filter_map(|line| line.strip_prefix("  h.")).collect();
    assert!(
        rows[1].starts_with("1.w") && rows[2].starts_with("2.w") && rows[3].starts_with("10.w"),
        "{plan}"
    );
    assert_eq!(
        names(&place.says(&["inspect", "m.safetensors", "--sort", "file"])),
        ["h.0.w", "h.1.w", "h.10.w", "h.2.w"]
    );
    let json = place.json(&["inspect", "m.safetensors"]);
    assert_eq!(json["tensors"][2]["name"], "h.10.w", "programs get the checkpoint's order");
}

#[test]
fn inspect_shows_the_tensors_that_are_asked_for_in_the_order_that_is_asked_for() {
    let place = Workplace::new();
    let shown = |more: &[&str]| place.says(&[&["inspect", DIGITS], more].concat());
    let text = shown(&["--include", "digits/**", "--exclude", "**/bias", "--sort", "size"]);
    assert_eq!(names(&text), ["digits/hidden/kernel", "digits/digit/kernel"]);
    assert!(text.contains("2 of 16 tensors, 9.25 KiB"), "{text}");
    let by_name = shown(&["--include", "digits/**", "--sort", "name"]);
    assert_eq!(names(&by_name)[0], "digits/digit/bias");
    let groups = shown(&["--depth", "1"]);
    assert_eq!(names(&groups), ["save_counter", "adam/**", "digits/**", "_CHECKPOINTABLE_OBJECT_GRAPH"]);
    let json = place.json(&["inspect", DIGITS, "--include", "digits/**", "--depth", "2", "--stats"]);
    assert_eq!(json["tensors"].as_array().unwrap().len(), 4);
    assert!(json["tensors"][0]["stats"]["min"].is_number());
    let expected = json!({ "name": "digits/hidden/**", "tensors": 2, "elements": 2080, "bytes": 8320, "dtypes": ["f32"] });
    assert_eq!(json["groups"][0], expected);
    let told = place.refused(&["inspect", DIGITS, "--include", "digits/**/kernal"]);
    assert!(told.contains("matches no tensor"), "{told}");
}

#[test]
fn statistics_are_numbers_as_people_write_them() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &[("w".to_owned(), vec![2], vec![0.0, 320.0])]);
    let text = place.says(&["inspect", "m.safetensors", "--stats"]);
    let row: Vec<&str> =
        text.lines().find(|line| line.starts_with("  w ")).unwrap().split_whitespace().collect();
    assert!(row.ends_with(&["0", "320", "160", "160", "1", "0", "0"]), "{text}");
}

#[test]
fn several_checkpoints_are_inspected_and_hashed_at_once() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &ones(&["a"]));
    place.checkpoint("b.safetensors", &ones(&["b"]));
    let text = place.says(&["hash", "a.safetensors", "b.safetensors"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].ends_with("  a.safetensors") && lines[1].ends_with("  b.safetensors")
    );
    assert_eq!(text, place.says(&["hash", "a.safetensors"]) + &place.says(&["hash", "b.safetensors"]));
    for command in ["hash", "inspect"] {
        let both = place.json(&[command, "a.safetensors", "b.safetensors"]);
        let each = ["a.safetensors", "b.safetensors"].map(|path| place.json(&[command, path]));
        assert_eq!(both, Value::from(each.to_vec()));
    }
    let texts = ["a.safetensors", "b.safetensors"].map(|path| place.says(&["inspect", path]));
    assert_eq!(place.says(&["inspect", "a.safetensors", "b.safetensors"]), texts.join("\n"));
    // What is known is printed, whatever comes after it.
    let output = place.ckpt(&["hash", "a.safetensors", "missing"]);
    assert!(!output.status.success() && output.stdout.ends_with(b"  a.safetensors\n"));
    let told = place.refused(&["inspect", "a.safetensors", "b.safetensors", "--html", "p.html"]);
    assert!(told.contains("one page shows one checkpoint") && !place.path("p.html").exists(), "{told}");
}

#[test]
fn a_plan_shows_the_names_of_the_source_and_those_of_the_target() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &ones(&["h.0.w", "h.1.w", "other"]));
    place.write("map.toml", MAPPING);
    let plan = place.says(&["plan", "m.safetensors", "o.safetensors", "--map", "map.toml"]);
    for row in [
        "  from   to                     steps  bytes",
        "  h.0.w  model.layers.0.weight  copy     4 B",
        "  other  other                  copy     4 B",
    ] {
        assert!(plan.lines().any(|line| line == row), "{row}\n{plan}");
    }
}

fn show(place: &Workplace, name: &str, more: &[&str]) -> String {
    place.says(&[&["show", "m.safetensors", name], more].concat())
}

#[test]
fn show_prints_the_values_of_a_tensor_or_of_some_rows() {
    let place = Workplace::new();
    place.checkpoint(
        "m.safetensors",
        &[("w".to_owned(), vec![3, 2], vec![0.0, 1.5, -2.0, 3e-9, f32::NAN, 320.0])],
    );
    assert_eq!(show(&place, "w", &[]), "w: f32 [3, 2]\n[[   0  1.5]\n [  -2 3e-9]\n [ NaN  320]]\n");
    assert_eq!(show(&place, "w", &["--rows", "1..2"]), "w: f32 [1, 2], rows 1..2\n[[  -2 3e-9]]\n");
    assert_eq!(show(&place, "w", &["--rows", "2"]), "w: f32 [1, 2], rows 2..3\n[[NaN 320]]\n");
    let json = place.json(&["show", "m.safetensors", "w", "--rows", "1.."]);
    let expected = json!({
        "name": "w", "dtype": "f32", "shape": [3, 2], "rows": [1, 3],
        "values": [[-2, f64::from(3e-9f32)], ["NaN", 320]],
    });
    assert_eq!(json.to_string(), expected.to_string());
    let told = place.refused(&["show", "m.safetensors", "w", "--rows", "2..4"]);
    assert!(told.contains("rows 2..4") && told.contains("within 0..3"), "{told}");
    let told = place.refused(&["show", "m.safetensors", "v"]);
    assert!(told.contains("no such tensor"), "{told}");
}

#[test]
fn show_prints_every_dtype() {
    let place = Workplace::new();
    let cases: [(Stored, &str, Value); 12] = [
        (("half", "F16", &[2], &[0x66, 0x2e, 0, 0x5d]), "[0.1 320]", json!([0.0999755859375, 320])),
        (("brain", "BF16", &[2], &[0xcd, 0x3d, 0x80, 0x7f]), "[0.1 inf]", json!([0.10009765625, "Infinity"])),
        (("f8", "F8_E4M3", &[2], &[0x38, 0xb8]), "[ 1 -1]", json!([1, -1])),
        (("scale", "F8_E8M0", &[1], &[0x80]), "[2]", json!([2])),
        (("double", "F64", &[1], &0.1f64.to_le_bytes()), "[0.1]", json!([0.1])),
        (("large", "U64", &[1], &[0xff; 8]), "[18446744073709551615]", json!([u64::MAX])),
        (("small", "I64", &[1], &i64::MIN.to_le_bytes()), "[-9223372036854775808]", json!([i64::MIN])),
        (("byte", "I8", &[1], &[0xff]), "[-1]", json!([-1])),
        (("truth", "BOOL", &[2], &[0, 1]), "[false  true]", json!([false, true])),
        (("scalar", "I32", &[], &[7, 0, 0, 0]), "7", json!(7)),
        (("empty", "F32", &[0, 3], &[]), "[]", json!([])),
        (("complex", "C64", &[1], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]), "[1-2j]", json!([[1, -2]])),
    ];
    stored(&place, "m.safetensors", &cases.each_ref().map(|case| case.0));
    for ((name, ..), text, values) in cases {
        let shown = show(&place, name, &[]);
        assert_eq!(shown.split_once('\n').unwrap().1.trim_end(), text, "{name}");
        let json = place.json(&["show", "m.safetensors", name]);
        assert_eq!(json["values"].to_string(), values.to_string(), "{name}");
    }
    let told = place.refused(&["show", "m.safetensors", "scalar", "--rows", "0..1"]);
    assert!(told.contains("a tensor with an axis"), "{told}");
    let bytes = place.says(&["show", DIGITS, "_CHECKPOINTABLE_OBJECT_GRAPH"]);
    assert!(
        bytes.contains("string []\nb\"") && bytes.lines().all(|line| line.chars().count() <= 100),
        "{bytes}"
    );
    assert!(place.json(&["show", DIGITS, "_CHECKPOINTABLE_OBJECT_GRAPH"])["values"]["hex"].is_string());
}

#[test]
fn show_prints_strings_and_those_of_some_rows() {
    let place = Workplace::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/tf2/accept/strings");
    let shown = place.says(&["show", path, "texts"]);
    assert!(shown.starts_with("texts: string [2, 2]\n[[\"\" \"a\"]\n [b\"\\xff\\x00"), "{shown}");
    assert!(shown.contains('…') && shown.ends_with(" \"ü\"]]\n"), "{shown}");
    let json = place.json(&["show", path, "texts", "--rows", "1"]);
    assert!(json["values"][0][0]["hex"].as_str().unwrap().starts_with("ff00ff00"), "{json}");
    assert_eq!(json["values"][0][1], "ü");
    assert_eq!(place.json(&["show", path, "texts", "--rows", "..1"])["values"], json!([["", "a"]]));
}

#[test]
fn show_writes_numpy_arrays_that_hold_every_value() {
    let place = Workplace::new();
    let brains: Vec<u8> =
        [0x3f80u16, 0xc000, 0x4040, 0x3f00].iter().flat_map(|value| value.to_le_bytes()).collect();
    stored(&place, "m.safetensors", &[("w", "BF16", &[2, 2], &brains)]);
    for (rows, shape, values) in
        [(&[][..], vec![2, 2], vec![1.0, -2.0, 3.0, 0.5]), (&["--rows", "1.."], vec![1, 2], vec![3.0, 0.5])]
    {
        let output = place.ckpt(&[&["show", "m.safetensors", "w", "--format", "npy"], rows].concat());
        place.write("w.npy", output.stdout);
        let (model, name) = (ckpt::open(place.path("w.npy").as_path()).unwrap(), "w");
        let tensor = model.tensor(name).unwrap();
        assert_eq!((tensor.dtype().name(), tensor.shape()[..].to_vec()), ("f32", shape));
        assert_eq!(tensor.read::<f32>().unwrap(), values);
    }
    let told = place.refused(&["show", DIGITS, "_CHECKPOINTABLE_OBJECT_GRAPH", "--format", "npy"]);
    assert!(told.contains("string") && told.contains("NumPy"), "{told}");
    let told = place.refused(&["inspect", "m.safetensors", "--format", "npy"]);
    assert!(told.contains("only the command show"), "{told}");
}

#[test]
fn of_a_large_tensor_show_prints_the_edges() {
    let place = Workplace::new();
    let values: Vec<f32> = (0u16..20_000).map(f32::from).collect();
    place.checkpoint("m.safetensors", &[("w".to_owned(), vec![200, 100], values)]);
    let expected = "w: f32 [200, 100]\n[[    0     1     2 ...    97    98    99]\n [  100   101   102 ...   197   198   199]\n \
                    [  200   201   202 ...   297   298   299]\n ...\n [19700 19701 19702 ... 19797 19798 19799]\n \
                    [19800 19801 19802 ... 19897 19898 19899]\n [19900 19901 19902 ... 19997 19998 19999]]\n\
                    … 36 of 20000 elements: --rows A..B shows some rows, --format json all\n";
    assert_eq!(show(&place, "w", &[]), expected);
    let all = place.json(&["show", "m.safetensors", "w"]);
    assert_eq!(all["values"][199][99], 19_999);
}

/// What a command prints in a terminal of so many columns; `None` if there is no `script` that makes one.
#[cfg(target_os = "linux")]
fn in_terminal(place: &Workplace, size: &str, command: &str) -> Option<String> {
    let line = format!("stty {size}; {} {command} 2>&1", env!("CARGO_BIN_EXE_ckpt"));
    let mut script = std::process::Command::new("script");
    script.current_dir(place.directory()).args(["-qec", &line, "/dev/null"]).env_remove("COLUMNS");
    let output = script.stdin(std::process::Stdio::null()).env("TERM", "dumb").output().ok()?;
    // What a progress bar drew stands before the last return or escape of its line.
    let text = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
    let lines = text.lines().map(|line| line.rsplit(['\r', '\x1b']).next().unwrap_or_default());
    Some(lines.map(|line| format!("{}\n", line.trim_start_matches("[2K"))).collect())
}

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");

#[test]
#[cfg(target_os = "linux")]
fn what_is_printed_is_no_wider_than_the_terminal() {
    let place = Workplace::new();
    let long = "layer/".repeat(60) + "kernel";
    let names: Vec<String> = (0..3).map(|k| format!("model.layers.{k}.self_attn.q_proj.weight")).collect();
    let all: Vec<&str> =
        names.iter().map(String::as_str).chain([&long[..], "重み/層/重み/層/重み/層/bias"]).collect();
    place.checkpoint("m.safetensors", &ones(&all));
    place.write(
        "map.toml",
        "identity = true\n[[rule]]\nfrom = \"model.layers.{n:int}.{rest}\"\nto = \"l/{n}/{rest}\"\n",
    );
    std::os::unix::fs::symlink(RUNS, place.path("runs")).unwrap();
    let commands = [
        "inspect m.safetensors",
        "inspect m.safetensors --stats",
        "inspect m.safetensors --depth 3",
        "inspect runs",
        "plan m.safetensors o.npz",
        "plan m.safetensors o.npz --map map.toml",
        "verify runs runs --per-layer",
        "map check map.toml m.safetensors",
        "map list",
        "formats tf2",
        "show runs digits/hidden/kernel",
    ];
    for columns in [40, 60, 80, 120] {
        for command in commands {
            let Some(text) = in_terminal(&place, &format!("rows 24 cols {columns}"), command) else {
                return eprintln!("skipped: there is no 'script' here");
            };
            assert!(text.lines().count() > 4, "{command}: {text}");
            for line in text.lines() {
                let width: usize =
                    line.chars().map(|c| if c.is_alphabetic() && !c.is_ascii() { 2 } else { 1 }).sum();
                assert!(width <= columns, "{columns} columns, {command}: {line}\n{text}");
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_without_rows_has_columns_and_one_without_columns_leaves_it_to_the_environment() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &ones(&["a", &"encoder/".repeat(40)]));
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let Some(text) = in_terminal(&place, "rows 0 cols 60", "inspect m.safetensors") else {
        return eprintln!("skipped: there is no 'script' here");
    };
    assert_eq!(widest(&text), Some(60), "{text}");
    for (size, columns) in [("rows 0 cols 0", 100), ("rows 24 cols 0; export COLUMNS=70", 70)] {
        let text = in_terminal(&place, size, "inspect m.safetensors").unwrap();
        assert_eq!(widest(&text), Some(columns), "{size}: {text}");
    }
    let text = in_terminal(&place, "rows 24 cols 60; export COLUMNS=70", "inspect m.safetensors").unwrap();
    assert_eq!(widest(&text), Some(60), "the terminal knows better: {text}");
}

#[test]
fn without_a_terminal_tables_take_the_columns_that_the_environment_has() {
    let place = Workplace::new();
    place.checkpoint("m.safetensors", &ones(&["a", &"encoder/".repeat(40)]));
    let widest = |columns: &str| {
        let output =
            place.command(&["inspect", "m.safetensors", "--stats"]).env("COLUMNS", columns).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.chars().count()).max()
    };
    assert_eq!([widest("70"), widest("0"), widest("wide")], [Some(70), Some(100), Some(100)]);
}

#[test]
fn long_metadata_is_cut_to_the_line_and_the_mappings_too() {
    let place = Workplace::new();
    let header = json!({ "__metadata__": { "k".repeat(400): "v".repeat(400), "format": "pt" } }).to_string();
    place.write("m.safetensors", [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat());
    let text = place.says(&["inspect", "m.safetensors"]);
    let line = text.lines().find(|line| line.contains("kk…kk")).unwrap();
    assert!(line.chars().count() == 100 && line.ends_with("vv… (400 characters)"), "{line}");
    assert!(text.contains("  safetensors.format: pt\n"), "{text}");
    let text = place.says(&["inspect", "m.safetensors", "--wide"]);
    assert!(text.contains(&"k".repeat(400)), "{text}");
    let list = place.command(&["map", "list"]).env("COLUMNS", "60").output().unwrap();
    assert!(String::from_utf8(list.stdout).unwrap().lines().all(|line| line.chars().count() <= 60));
    assert!(
        place
            .says(&["map", "list", "--wide"])
            .contains("ELECTRA's discriminator: Google (TensorFlow) to Hugging Face\n")
    );
}
