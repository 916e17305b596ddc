//! What `inspect`, `plan` and `map check` print of tensors.

#![cfg(all(feature = "cli", feature = "npz", feature = "safetensors", feature = "tf2"))]

#[path = "common/workplace.rs"]
mod workplace;

use serde_json::{Value, json};
use workplace::{DIGITS, Tensor, Workplace};

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
