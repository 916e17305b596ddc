//! `ckpt map`: what its commands print, write and refuse.

#[path = "common/workplace.rs"]
mod workplace;

use serde_json::Value;
use std::fs;
use workplace::{DIGITS, Tensor, Workplace};

type Tensors = Vec<Tensor>;

/// Values that no other tensor has.
fn values(seed: usize, shape: &[usize]) -> (Vec<usize>, Vec<f32>) {
    let count = shape.iter().product();
    (shape.to_vec(), (0..count).map(|k| (seed * 1000 + k) as f32).collect())
}

fn tensor(name: &str, (shape, values): (Vec<usize>, Vec<f32>)) -> Tensor {
    (name.to_owned(), shape, values)
}

fn transposed((shape, values): (Vec<usize>, Vec<f32>)) -> (Vec<usize>, Vec<f32>) {
    let (rows, columns) = (shape[0], shape[1]);
    let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
    (vec![columns, rows], turned.map(|k| values[k]).collect())
}

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
    assert_eq!(names, ckpt::mapping::Mapping::builtin_names().collect::<Vec<_>>());
    let text = place.says(&["map", "list"]);
    for name in names {
        assert!(text.contains(name), "{text}");
        let shown = place.says(&["map", "show", name]);
        assert_eq!(shown, ckpt::mapping::Mapping::builtin_text(name).unwrap());
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
    place.refuses(&["map", "invert", "m.toml", "-o", "back.toml"], 1, &["back.toml"]);
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

/// Two checkpoints of one model: `layer_N/kernel` transposed to `h.(N-1).weight`, biases all zero.
fn models() -> (Tensors, Tensors) {
    let (mut a, mut b) = (Tensors::new(), Tensors::new());
    for n in 1..=3 {
        // Square, so that the shape does not show the transpose.
        let kernel = values(n, &[4, 4]);
        a.push(tensor(&format!("layer_{n}/kernel"), kernel.clone()));
        b.push(tensor(&format!("h.{}.weight", n - 1), transposed(kernel)));
        let zeros = (vec![4], vec![0.0; 4]);
        a.push(tensor(&format!("layer_{n}/bias"), zeros.clone()));
        b.push(tensor(&format!("h.{}.bias", n - 1), zeros));
    }
    let embedding = values(9, &[7, 4]);
    a.push(tensor("embedding", embedding.clone()));
    b.extend([tensor("in.weight", embedding.clone()), tensor("out.weight", embedding)]);
    a.push(tensor("step", values(7, &[3])));
    b.push(tensor("extra", values(8, &[5])));
    (a, b)
}

#[test]
fn suggest_finds_names_and_steps_that_make_the_other_checkpoint() {
    let place = Workplace::new();
    let (a, b) = models();
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    for words in [
        "from = \"layer_{n:int}/kernel\"\nto = \"h.{n-1}.weight\"\nsteps = [\"transpose\"]",
        "from = \"layer_{n:int}/bias\"\nto = \"h.{n-1}.bias\"",
        "to = [\"in.weight\", \"out.weight\"]\ntie = true",
        "ignore = [\"step\"]",
        "# Only in the second checkpoint, so no source:\n#   'extra'",
        "# Check these pairs: several tensors have the same value",
        "#   'layer_1/bias' -> 'h.0.bias'",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    assert_eq!(place.says(&["map", "suggest", "a.safetensors", "b.safetensors", "-o", "m.toml"]), "");
    assert_eq!(fs::read_to_string(place.path("m.toml")).unwrap(), text);
    let check = place.says(&["map", "check", "m.toml", "a.safetensors"]);
    assert!(
        check.contains("8 target names")
            && check.contains("the mapping works in both directions (--inverse)"),
        "{check}"
    );
    let convert =
        ["convert", "a.safetensors", "o.safetensors", "--map", "m.toml", "-q", "--no-sync", "--allow", "all"];
    place.says(&convert);
    let same = String::from_utf8(place.ckpt(&["diff", "o.safetensors", "b.safetensors"]).stdout).unwrap();
    assert!(
        same.contains("8 of 8 common tensors are equal") && same.contains("only in the second: extra"),
        "{same}"
    );
}

/// The command must ask these questions and write nothing.
fn asks(place: &Workplace, command: &[&str], says: &[&str]) {
    let before = place.names();
    let output = place.ckpt(command);
    let asked = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{asked}");
    assert!(output.stdout.is_empty() && asked.starts_with("question: "), "{asked}");
    for text in says {
        assert!(asked.contains(text), "{command:?} does not say {text:?}:\n{asked}");
    }
    assert_eq!(place.names(), before);
}

#[test]
fn suggest_never_guesses_between_equal_candidates() {
    let place = Workplace::new();
    let zeros = || (vec![4], vec![0.0; 4]);
    place.checkpoint("a.safetensors", &[tensor("p.bias", zeros()), tensor("q.bias", zeros())]);
    place.checkpoint("b.safetensors", &[tensor("x.bias", zeros()), tensor("y.bias", zeros())]);
    let asked = [
        "question: what is 'p.bias': 'x.bias', 'y.bias'?\nquestion: what is 'q.bias'",
        "leave 2 questions open",
        "--accept-ambiguous",
    ];
    asks(&place, &["map", "suggest", "a.safetensors", "b.safetensors", "-o", "m.toml"], &asked);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors", "--accept-ambiguous"]);
    for words in [
        "ignore = [\"p.bias\", \"q.bias\"]",
        "# Ambiguous, so ignored; each could be any of:\n#   'p.bias': 'x.bias', 'y.bias'\n#   'q.bias': 'x.bias', \
         'y.bias'",
        "so no source:\n#   'x.bias'\n#   'y.bias'",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    let json = place.json(&["map", "suggest", "a.safetensors", "b.safetensors", "--accept-ambiguous"]);
    assert_eq!(json["suggestion"]["ambiguous"].as_array().unwrap().len(), 2);
    assert_eq!(json["suggestion"]["pairs"], serde_json::json!([]));
}

/// Every pair of them would be gigabytes.
#[test]
fn suggest_takes_thousands_of_equal_tensors_by_the_numbers_in_their_names() {
    const COUNT: usize = 5000;
    let place = Workplace::new();
    let zeros = |name: String| tensor(&name, (vec![4], vec![0.0; 4]));
    let of = |name: fn(usize) -> String| (0..COUNT).map(|k| zeros(name(k))).collect::<Tensors>();
    place.checkpoint("a.safetensors", &of(|k| format!("model/layer_{k}/bias")));
    place.checkpoint("b.safetensors", &of(|k| format!("net.{k}.bias")));
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    let rule = "from = \"model/layer_{n:int}/bias\"\nto = \"net.{n}.bias\"";
    assert!(
        text.contains("5000 pairs: several tensors have the same value") && text.contains(rule),
        "{:.400}",
        text
    );
}

/// The number of rules and patterns is limited; a lookup and `**` have the same effect.
#[test]
fn suggest_ignores_more_names_than_it_could_list() {
    let place = Workplace::new();
    let letters = |k: usize| [k / 676, k / 26 % 26, k % 26].map(|k| char::from(b'a' + k as u8));
    let of = |prefix: &str| {
        let name = |k| format!("{prefix}{}", letters(k).iter().collect::<String>());
        (0..2000).map(|k| tensor(&name(k), (vec![4], vec![0.0; 4]))).collect::<Tensors>()
    };
    let (mut a, mut b) = (of("left"), of("right"));
    a.push(tensor("own", values(3, &[4])));
    b.push(tensor("other", values(3, &[4])));
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    place.write("map.toml", &text);
    assert!(text.contains("ignore = [\"**\"]\n\n[lookup]\n\"own\" = \"other\""), "{text:.400}");
    let checked = place.says(&["map", "check", "map.toml", "a.safetensors"]);
    assert!(checked.contains("1 target name, one to one; 2000 source names dropped"), "{checked:.400}");
}

/// A tie has at most 64 names: a file with more could not be read back.
#[test]
fn suggest_ties_no_more_names_than_a_rule_may_have() {
    let place = Workplace::new();
    let copies =
        |count: usize| (0..count).map(|k| tensor(&format!("copy.{k}"), values(1, &[4]))).collect::<Tensors>();
    place.checkpoint("one.safetensors", &copies(1));
    for (count, ties) in [(64, 1), (65, 0)] {
        place.checkpoint(&format!("{count}.safetensors"), &copies(count));
        let other = format!("{count}.safetensors");
        let text = place.says(&["map", "suggest", "one.safetensors", &other, "--accept-ambiguous"]);
        place.write("map.toml", &text);
        assert_eq!(text.matches("tie = true").count(), ties, "{text}");
        place.says(&["map", "check", "map.toml", "one.safetensors"]);
        std::fs::remove_file(place.path("map.toml")).unwrap();
    }
}

#[test]
fn suggest_pairs_by_name_and_shape_if_values_differ_and_reports_that() {
    let place = Workplace::new();
    let of = |prefix: &str, seed: usize, separator: char| -> Tensors {
        let shapes: [(&str, &[usize]); 3] = [("one", &[2, 3]), ("two", &[2, 3]), ("three", &[6])];
        let named = shapes.iter().zip(seed..);
        named
            .map(|((name, shape), seed)| tensor(&format!("{prefix}{separator}{name}"), values(seed, shape)))
            .collect()
    };
    place.checkpoint("a.safetensors", &of("m", 1, '/'));
    place.checkpoint("b.safetensors", &of("n", 5, '.'));
    let json = place.json(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    let pairs = json["suggestion"]["pairs"].as_array().unwrap().iter();
    let pairs: Vec<Value> = pairs
        .map(|pair| serde_json::json!([pair["sources"][0], pair["targets"][0], pair["basis"]]))
        .collect();
    assert_eq!(
        Value::from(pairs),
        serde_json::json!([
            ["m/one", "n.one", "name"],
            ["m/three", "n.three", "shape"],
            ["m/two", "n.two", "name"]
        ])
    );
    assert!(json["toml"].as_str().unwrap().contains("Check these pairs: the values differ"));
}

/// The steps that `map suggest` gives for each source, and their reason.
fn suggested(a: &Tensors, b: &Tensors) -> Vec<(String, String, String)> {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", a);
    place.checkpoint("b.safetensors", b);
    let json = place.json(&["map", "suggest", "a.safetensors", "b.safetensors", "--accept-ambiguous"]);
    let text = |value: &Value| value.to_string().replace('"', "");
    let pairs = json["suggestion"]["pairs"].as_array().unwrap().iter();
    pairs.map(|pair| (text(&pair["sources"][0]), text(&pair["steps"]), text(&pair["steps_basis"]))).collect()
}

/// The names and shapes of a tensor in two checkpoints.
type Pair<'a> = (&'a str, &'a str, &'a [usize], &'a [usize]);

/// Two checkpoints with other values: tensors with names and shapes.
fn untrained(tensors: &[Pair<'_>]) -> (Tensors, Tensors) {
    let of = |seed: usize, side: fn(&Pair<'_>) -> (String, Vec<usize>)| {
        let named = tensors.iter().map(side).enumerate();
        named.map(|(k, (name, shape))| tensor(&name, values(seed + k, &shape))).collect()
    };
    (
        of(1, |(name, _, shape, _)| ((*name).to_owned(), shape.to_vec())),
        of(100, |(_, name, _, shape)| ((*name).to_owned(), shape.to_vec())),
    )
}

/// As in BERT: the square kernels of the attention need what those of the feed-forward layers need, and the embeddings not.
#[test]
fn suggest_gives_square_kernels_the_steps_that_kernels_with_such_names_need() {
    let (a, b) = untrained(&[
        ("bert/layer_0/query/kernel", "bert.layer.0.query.weight", &[4, 4], &[4, 4]),
        ("bert/layer_0/output/kernel", "bert.layer.0.output.weight", &[6, 4], &[4, 6]),
        ("bert/layer_1/query/kernel", "bert.layer.1.query.weight", &[4, 4], &[4, 4]),
        ("bert/layer_1/output/kernel", "bert.layer.1.output.weight", &[6, 4], &[4, 6]),
        ("bert/embeddings/weight", "bert.embeddings.weight", &[9, 4], &[9, 4]),
    ]);
    for (a, b) in [(&a, &b), (&b, &a)] {
        let suggested = suggested(a, b);
        assert_eq!(suggested.len(), 5);
        for (name, steps, basis) in suggested {
            let expected = if name.contains("embeddings") { "[]" } else { "[transpose]" };
            assert_eq!(steps, expected, "{name}");
            assert_eq!(basis, if name.contains("query") { "neighbors" } else { "only" }, "{name}");
        }
    }
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    let note = "# 2 pairs: have the steps that all pairs with such names fit";
    let rule = "to = \"bert.layer.{n}.query.weight\"\nsteps = [\"transpose\"]";
    assert!(text.contains(note) && text.contains(rule), "{text}");
}

/// As in MobileNetV2: three colors and a kernel of 3 by 3 allow six orders, two of them with rows before columns.
#[test]
fn suggest_keeps_rows_before_columns_in_the_same_place_of_all_kernels() {
    let (a, b) = untrained(&[
        ("net/first/kernel", "net.first.weight", &[3, 3, 3, 5], &[5, 3, 3, 3]),
        ("net/point/kernel", "net.point.weight", &[1, 1, 5, 7], &[7, 5, 1, 1]),
        ("net/depthwise/kernel", "net.depthwise.weight", &[3, 3, 7, 1], &[7, 1, 3, 3]),
    ]);
    let steps: Vec<(String, String)> =
        suggested(&a, &b).into_iter().map(|(name, steps, _)| (name, steps)).collect();
    let expected = [
        ("net/depthwise/kernel", "[{permute:[2,3,0,1]}]"),
        ("net/first/kernel", "[{permute:[3,2,0,1]}]"),
        ("net/point/kernel", "[{permute:[3,2,0,1]}]"),
    ];
    assert_eq!(steps, expected.map(|(name, steps)| (name.to_owned(), steps.to_owned())));
}

#[test]
fn suggest_asks_for_steps_that_nothing_decides() {
    let (a, b) = untrained(&[("m/one/kernel", "m.one.weight", &[4, 4], &[4, 4])]);
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    let command = ["map", "suggest", "a.safetensors", "b.safetensors"];
    let question = "question: which steps does 'm/one/kernel' -> 'm.one.weight' need: no step, or transpose?";
    asks(&place, &command, &[question, "leave 1 question open"]);
    let error = place.refused(&[&command[..], &["--format", "json"]].concat());
    assert!(error.contains("no step, or transpose?"), "{error}");
    let text = place.says(&[&command[..], &["--accept-ambiguous"]].concat());
    assert!(
        text.contains("# Check these steps: others are equally possible:\n#   'm/one/kernel': no step"),
        "{text}"
    );
}

#[test]
fn suggest_leaves_a_tensor_of_the_same_name_as_it_is() {
    let (a, b) = untrained(&[("m.one.weight", "m.one.weight", &[4, 4], &[4, 4])]);
    assert_eq!(suggested(&a, &b), [("m.one.weight".to_owned(), "[]".to_owned(), "name".to_owned())]);
}

#[test]
fn suggest_fails_if_nothing_matches() {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("x", values(1, &[2, 3]))]);
    place.checkpoint("b.safetensors", &[tensor("y", values(2, &[5]))]);
    let command = ["map", "suggest", "a.safetensors", "b.safetensors", "-o", "m.toml"];
    place.refuses(&command, 3, &["no tensor of the first checkpoint matches", "1 tensor in the first"]);
    place.refuses(&[&command[..], &["--accept-ambiguous"]].concat(), 3, &["no tensor of the first"]);
    assert!(!place.path("m.toml").exists());
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
        ("identity = true\n[lookup]\nw = \"../x\"".to_owned(), 1, "lookup at line 3"),
    ] {
        place.write("m.toml", &text);
        place.refuses(&["convert", "a.safetensors", "o.npz", "--map", "m.toml"], code, &[words, "m.toml"]);
        if code == 3 {
            place.refuses(&["map", "check", "m.toml", "a.safetensors"], code, &[words, "m.toml"]);
        }
    }
}

#[test]
fn suggest_reads_each_side_with_its_own_options() {
    let place = Workplace::new();
    let options = ["--a-from", "tf2", "--a-set", "keys=true", "--b-from", "tf2"];
    let text = place.says(&[&["map", "suggest", DIGITS, DIGITS], &options[..]].concat());
    assert!(text.contains("/.ATTRIBUTES/VARIABLE_VALUE"), "{text}");
    place.refuses(&["map", "suggest", DIGITS, DIGITS, "--a-set", "nonsense=1"], 2, &["nonsense"]);
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
