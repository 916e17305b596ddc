//! `ckpt map`: what its commands print, write and refuse.

use crate::common::tensors::{tensor, transposed, values};
use crate::common::workplace::{DIGITS, Workplace};
use std::fs;
use std::path::Path;

const DIGITS_MAP: &str = r#"
ignore = ["adam/**", "save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH"]
[roles]
kernel = ["transpose"]
[[rule]]
from = "digits/{layer}/kernel"
to = "{layer}.weight"
role = "kernel"
[[rule]]
from = "digits/hidden/bias"
to = ["hidden.first", "hidden.second"]
split = 0
[[rule]]
from = "digits/digit/bias"
to = "digit.bias"
"#;

#[test]
fn list_and_show_know_every_built_in_mapping() {
    let place = Workplace::new();
    let listed = place.json(&["map", "list"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ckpt::Registry::builtin().mappings().map(ckpt::RegisteredMapping::name).collect::<Vec<_>>()
    );
    let text = place.says(&["map", "list"]);
    for name in names {
        assert!(text.contains(name), "{text}");
        if let "keras-to-torch" | "flax-to-torch" | "paddle-to-torch" | "graph-to-torch" = name {
            let check = format!("map check {name}");
            place.refuses(&["map", "show", name], 2, &["made for the graph", &check]);
            continue;
        }
        let shown = place.says(&["map", "show", name]);
        let file = Path::new("data/mappings").join(name).with_extension("toml");
        assert_eq!(shown, std::fs::read_to_string(file).unwrap());
    }
    place.refuses(&["map", "show", "gpt2"], 2, &["no built-in mapping", "gpt2-tf-to-hf"]);
}

#[test]
fn check_shows_targets_with_shapes_and_steps_and_the_inverse_of_every_rule() {
    let place = Workplace::new();
    place.write("m.toml", DIGITS_MAP);
    let text = place.says(&["map", "check", "m.toml", DIGITS]);
    for words in [
        "digits/hidden/kernel  hidden.weight  [32, 64]  transpose",
        "part 2 of 2 along axis 0",
        "rule 1 at line 6 ('digits/{layer}/kernel' -> '{layer}.weight', transpose)",
        "inverse: '{layer}.weight' -> 'digits/{layer}/kernel', transpose",
        "dropped: save_counter",
        "5 target names, one to one; 12 source names dropped",
        "the mapping works in both directions (--inverse)",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    let json = place.json(&["map", "check", "m.toml", DIGITS]);
    assert_eq!(json["targets"].as_array().unwrap().len(), 5);
    assert_eq!(json["rules"].as_array().unwrap().len(), 3);
    assert_eq!(json["invertible"], true);
}

#[test]
fn check_refuses_steps_that_do_not_fit_the_shapes() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("w", values(1, &[2, 3])), tensor("v", values(2, &[2, 4]))]);
    let one = |line: &str| format!("identity = true\n[[rule]]\nfrom = 'w'\n{line}");
    for (rule, words) in [
        (one("to = 'x'\nsteps = ['squeeze 0']"), "squeeze 0"),
        (one("to = 'x'\nsteps = ['permute 0 1 2']"), "permute 0 1 2"),
        (one("to = ['x', 'y']\nsplit = 1"), "along axis 1"),
        (one("to = ['x', 'y']\nsplit = 2"), "along axis 2"),
        (one("to = ['x', 'y']\nsplit = 1\nsizes = [1, 1]"), "along axis 1"),
        ("[[rule]]\nfrom = ['w', 'v']\nto = 'x'\nmerge = 0".to_owned(), "merged along axis 0"),
    ] {
        place.write("m.toml", &rule);
        place.refuses(&["map", "check", "m.toml", "a.safetensors"], 3, &[words]);
    }
    place.write("m.toml", "[[rule]]\nfrom = ['w', 'v']\nto = 'x'\nmerge = 1\nsizes = [3, 4]");
    let text = place.says(&["map", "check", "m.toml", "a.safetensors"]);
    assert!(text.contains("w + v  x   [2, 7]"), "{text}");
}

#[test]
fn check_with_inverse_checks_the_inverse() {
    let place = Workplace::new();
    place.checkpoint("b.safetensors", &[tensor("h.3.x", values(1, &[2])), tensor("h.11.x", values(2, &[2]))]);
    place.write("m.toml", "[[rule]]\nfrom = 'layer{n:int2}/x'\nto = 'h.{n}.x'");
    let text = place.says(&["map", "check", "m.toml", "b.safetensors", "--inverse"]);
    assert!(text.contains("layer03/x") && text.contains("layer11/x"), "{text}");
}

#[test]
fn check_shows_unused_rules_and_rules_without_inverse() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("w", values(1, &[2]))]);
    place.write(
        "m.toml",
        "identity = true\n[[rule]]\nfrom = 'q{n:int}'\nto = 'r'\n[[rule]]\nfrom = '{x}w'\nto = \
                           'v'\ninverse = false",
    );
    let text = place.says(&["map", "check", "m.toml", "a.safetensors"]);
    for words in [
        "no inverse: the capture 'n' does not appear in 'to'",
        "no inverse: the rule has inverse = false",
        "unused: rule 1 at line 3",
        "the mapping works in one direction only",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

/// Tensors that are no weights need no pattern of names.
#[test]
fn ignored_roles_drop_tensors_whatever_their_names() {
    let place = Workplace::new();
    let rule = "[[rule]]\nfrom = 'digits/{layer}/{part}'\nto = '{layer}.{part}'\n";
    let lookup = "[lookup]\nsave_counter = 'saves'\n";
    place.write("m.toml", format!("ignore_roles = ['optimizer', 'counter', 'bookkeeping']\n{lookup}{rule}"));
    let json = place.json(&["map", "check", "m.toml", DIGITS]);
    assert_eq!(
        (json["targets"].as_array().unwrap().len(), json["dropped"].as_array().unwrap().len()),
        (5, 11)
    );
    let text = place.says(&["map", "explain", "m.toml", "digits/hidden/bias", "adam/x"]);
    assert_eq!(text.matches("its role is ignored: optimizer, counter, bookkeeping").count(), 2, "{text}");
    place.says(&["convert", DIGITS, "out.safetensors", "--map", "m.toml"]);
    place.write("all.toml", rule);
    place.refuses(&["map", "check", "all.toml", DIGITS], 3, &["12 source names", "'ignore_roles'"]);
}

/// A built-in mapping serves many checkpoints.
#[test]
fn unused_rules_are_reported_for_mapping_files_and_not_for_built_in_mappings() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("model/h0/ln_1/g", values(1, &[4]))]);
    place.write("own.toml", place.says(&["map", "show", "gpt2-tf-to-hf"]));
    for (map, is_reported) in [("own.toml", true), ("gpt2-tf-to-hf", false)] {
        let output = place.ckpt(&["convert", "a.safetensors", &format!("{map}.safetensors"), "--map", map]);
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{notes}");
        assert_eq!(notes.contains("nothing matched"), is_reported, "{notes}");
    }
    let text = place.says(&["map", "check", "gpt2-tf-to-hf", "a.safetensors"]);
    assert!(text.contains("unused: rule"), "{text}");
}

#[test]
fn invert_writes_the_inverse_as_a_file() {
    let place = Workplace::new();
    place.write("m.toml", DIGITS_MAP);
    let convert = |input: &str, output: &str, map: &str| {
        place.says(&[
            "convert",
            input,
            output,
            "--map",
            map,
            "-q",
            "--no-sync",
            "--to",
            "safetensors",
            "--allow",
            "all",
        ]);
    };
    convert(DIGITS, "there.safetensors", "m.toml");
    assert_eq!(place.says(&["map", "invert", "m.toml", "-o", "back.toml"]), "");
    assert_eq!(
        fs::read_to_string(place.path("back.toml")).unwrap(),
        place.says(&["map", "invert", "m.toml"])
    );
    convert("there.safetensors", "back.safetensors", "back.toml");
    place.write(
        "plain.toml",
        "ignore = ['adam/**', 'save_counter', '_CHECKPOINTABLE_OBJECT_GRAPH']\nidentity = true",
    );
    convert(DIGITS, "plain.safetensors", "plain.toml");
    let same = place.says(&["diff", "plain.safetensors", "back.safetensors"]);
    assert!(same.contains("4 of 4 common tensors are equal"), "{same}");
    place.refuses(&["map", "invert", "m.toml", "-o", "back.toml"], 2, &["back.toml"]);
}

#[test]
fn invert_writes_a_table_of_a_checkpoints_names_if_the_rules_have_no_inverse() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("a.1", values(1, &[2, 3])), tensor("b", values(2, &[3]))]);
    place.write(
        "m.toml",
        "[[rule]]\nfrom = '{x}.{n:int}'\nto = 'n{n}'\nsteps = ['transpose']\n[[rule]]\nfrom = 'b'\nto = 'c'",
    );
    place.refuses(&["map", "invert", "m.toml"], 3, &["rule 1 at line 2", "'x' does not appear", "--of"]);
    let text = place.says(&["map", "invert", "m.toml", "--of", "a.safetensors"]);
    assert_eq!(
        text,
        "[lookup]\n\"c\" = \"b\"\n\n[[rule]]\nfrom = \"n1\"\nto = \"a.1\"\nsteps = [\"transpose\"]\n"
    );
    assert_eq!(place.json(&["map", "invert", "m.toml", "--of", "a.safetensors"])["table"], true);
}

#[test]
fn explain_shows_the_decision_and_the_inverse() {
    let place = Workplace::new();
    place.write("m.toml", DIGITS_MAP);
    let text =
        place.says(&["map", "explain", "m.toml", "digits/hidden/kernel", "adam/iteration", "digits/x/gamma"]);
    for words in [
        "capture   layer = hidden",
        "becomes   hidden.weight: transpose",
        "inverse   digits/hidden/kernel: transpose",
        "dropped   ignore 'adam/**'",
        "nearest   rule 1 at line 6",
        "matches   'digits/x/', but not 'gamma'",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    let text = place.says(&["map", "explain", "m.toml", "hidden.first", "--inverse"]);
    assert!(text.contains("digits/hidden/bias = hidden.first + hidden.second"), "{text}");
    let json = place.json(&["map", "explain", "m.toml", "digits/digit/bias"]);
    assert_eq!(json[0]["decision"], "rule");
    place.refuses(&["map", "explain", "m.toml"], 2, &["KEY"]);
}

#[test]
fn a_mapping_with_a_rule_without_inverse_is_not_read_backwards() {
    let place = Workplace::new();
    place.write("m.toml", "[[rule]]\nfrom = '{x}/a'\nto = 'b'");
    place.refuses(
        &["map", "explain", "m.toml", "b", "--inverse"],
        3,
        &["rule 1 at line 2", "cannot be inverted", "m.toml"],
    );
}

/// Whatever the target refuses, the mapping's file is where it is changed.
#[test]
fn errors_about_a_tensor_that_a_mapping_made_name_the_entry_and_its_line() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("w", values(1, &[2, 3]))]);
    let rule = |more: &str| format!("identity = true\n\n[[rule]]\nfrom = 'w'\n{more}\n");
    for (text, code, words) in [
        (rule("to = 'x'\nsteps = ['permute 0 1 2']"), 3, "rule 1 at line 4 ('w' -> 'x', permute 0 1 2)"),
        (rule("to = ['x', 'y']\nsplit = 1\nsizes = [1, 1]"), 3, "rule 1 at line 4 ('w' -> 'x' + 'y'"),
        (rule("to = \"x\\u0000\""), 1, "rule 1 at line 4 ('w' ->"),
        ("identity = true\n[lookup]\nw = \"x\\u0000\"".to_owned(), 1, "lookup at line 3"),
    ] {
        place.write("m.toml", &text);
        place.refuses(&["convert", "a.safetensors", "o.npz", "--map", "m.toml"], code, &[words, "m.toml"]);
        if code == 3 {
            place.refuses(&["map", "check", "m.toml", "a.safetensors"], code, &[words, "m.toml"]);
        }
    }
}

/// Shapes are compared when the conversion is planned, values when it runs.
#[test]
fn tensors_that_a_rule_takes_for_equal_and_that_differ_are_refused_with_the_rules_line() {
    let place = Workplace::new();
    let tensors =
        [tensor("w", values(1, &[2, 3])), tensor("v", values(2, &[2, 3])), tensor("u", values(3, &[3, 2]))];
    place.checkpoint("a.safetensors", &tensors);
    for (other, words) in [("v", "rule 1 at line 4 ('w' + 'v'"), ("u", "rule 1 at line 4 ('w' + 'u'")] {
        let rule = format!("identity = true\n\n[[rule]]\nfrom = ['w', '{other}']\nto = 'x'\ntie = true\n");
        place.write("m.toml", &rule);
        place.refuses(&["convert", "a.safetensors", "o.npz", "--map", "m.toml"], 3, &[words, "m.toml"]);
    }
}

/// A name in both files, with characters that a terminal hides or obeys.
#[test]
fn invert_and_suggest_write_invisible_characters_so_that_they_can_be_read_back() {
    let place = Workplace::new();
    let name = "a\u{202e}b\u{200b}\u{ad}\u{1b}[31m\n\"\\\u{e0041}";
    place.checkpoint(
        "a.safetensors",
        &[tensor(name, values(1, &[2, 3])), tensor("step\u{202e}", values(2, &[5]))],
    );
    place.checkpoint("b.safetensors", &[tensor("b\u{feff}", transposed(values(1, &[2, 3])))]);
    let suggested = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    place.write("there.toml", &suggested);
    let inverse = place.says(&["map", "invert", "there.toml"]);
    place.write("back.toml", &inverse);
    for text in [suggested, inverse] {
        assert!(!text.contains(|c: char| c != '\n' && !(' '..='~').contains(&c)), "{text:?}");
    }
    let convert = ["convert", "a.safetensors", "there.safetensors", "--map", "there.toml", "-q", "--no-sync"];
    place.says(&convert);
    place.says(&["convert", "there.safetensors", "c.safetensors", "--map", "back.toml", "-q", "--no-sync"]);
    let names = place.json(&["inspect", "c.safetensors"]);
    assert_eq!(names["tensors"][0]["name"], name);
}
