//! `ckpt map suggest`: what it proposes, and what it asks.

use crate::common::tensors::{Tensors, Values, tensor, transposed, values};
use crate::common::workplace::{DIGITS, Workplace};
use serde_json::Value;
use std::fs;

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
    let summary = "wrote m.toml\n4 pairs: matched by value, which no other tensor has\n3 pairs: several tensors have the \
                   same value; matched by the most similar names\n";
    assert_eq!(place.says(&["map", "suggest", "a.safetensors", "b.safetensors", "-o", "m.toml"]), summary);
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
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors", "--accept-ambiguous"]);
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

/// As in BERT: the square kernels of the attention need what those of the feed-forward layers need, and the embeddings
/// not.
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
    let note = "# 2 pairs have the steps that all pairs with such names fit";
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

#[test]
fn suggest_reads_each_side_with_its_own_options() {
    let place = Workplace::new();
    let options = ["--a-from", "tf2", "--a-set", "keys=true", "--b-from", "tf2"];
    let text = place.says(&[&["map", "suggest", DIGITS, DIGITS], &options[..]].concat());
    assert!(text.contains("/.ATTRIBUTES/VARIABLE_VALUE"), "{text}");
    place.refuses(&["map", "suggest", DIGITS, DIGITS, "--a-set", "nonsense=1"], 2, &["nonsense"]);
}

/// A matrix whose rows are the pixels of images of so many channels, flattened with the channels last; and the same
/// with the channels first, transposed.
fn behind_flatten(seed: usize, [pixels, channels, outputs]: [usize; 3]) -> [Values; 2] {
    let (inputs, last) = (pixels * channels, values(seed, &[pixels * channels, outputs]));
    let input = |k: usize| k % pixels * channels + k / pixels;
    let first = (0..outputs).flat_map(|o| (0..inputs).map(move |k| input(k) * outputs + o));
    let first = (vec![outputs, inputs], first.map(|k| last.1[k]).collect());
    [last, first]
}

/// Two checkpoints of one convolutional network, with channels last and with channels first.
fn convolutional([pixels, channels, outputs]: [usize; 3]) -> (Tensors, Tensors) {
    let [last, first] = behind_flatten(2, [pixels, channels, outputs]);
    // One pixel and one color: only the channels move.
    let kernel = values(1, &[2, 3, 1, channels]);
    let turned = (0..channels).flat_map(|o| (0..6).map(move |k| k * channels + o));
    let turned = (vec![channels, 1, 2, 3], turned.map(|k| kernel.1[k]).collect());
    (
        vec![tensor("net/conv/kernel", kernel), tensor("net/dense/kernel", last)],
        vec![tensor("0.weight", turned), tensor("2.weight", first)],
    )
}

#[test]
fn suggest_finds_the_step_of_a_dense_layer_behind_a_flatten_by_values() {
    // A square matrix; an image with as many pixels as channels; and one that is both.
    for lens in [[6, 4, 5], [6, 4, 24], [4, 4, 5], [4, 4, 16]] {
        let [pixels, channels, outputs] = lens;
        let (a, b) = convolutional(lens);
        let place = Workplace::new();
        place.checkpoint("a.safetensors", &a);
        place.checkpoint("b.safetensors", &b);
        for (from, to, step) in [("a", "b", "flatten_order"), ("b", "a", "unflatten_order")] {
            let [from, to, out, map] = [from, to, "out", "map"]
                .map(|name| format!("{name}.{}", if name == "map" { "toml" } else { "safetensors" }));
            place.says(&["map", "suggest", &from, &to, "--output", &map]);
            let text = fs::read_to_string(place.path(&map)).unwrap();
            let axis = if step == "unflatten_order" && pixels * channels == outputs { " on 1" } else { "" };
            let axis = if step == "flatten_order" && pixels * channels == outputs { " on 0" } else { axis };
            let steps = format!("steps = [\"{step} {pixels} {channels}{axis}\", \"transpose\"]");
            assert!(
                text.contains(&steps) && text.contains("# 2 pairs: matched by value"),
                "{steps}:\n{text}"
            );
            place.says(&["convert", &from, &out, "--map", &map, "-q", "--no-sync"]);
            assert!(place.says(&["diff", &out, &to]).contains("2 of 2 common tensors are equal bit for bit"));
            fs::remove_file(place.path(&map)).unwrap();
            fs::remove_file(place.path(&out)).unwrap();
        }
    }
}

/// The bias of a dense layer before images, and the statistics of a normalization behind a Flatten, have one axis.
#[test]
fn suggest_finds_the_order_of_vectors_of_images_by_values() {
    let [last, first] = behind_flatten(1, [3, 4, 1]);
    let (a, b) = (tensor("norm/mean", (vec![12], last.1)), tensor("norm.mean", (vec![12], first.1)));
    let suggested = suggested(&vec![a], &vec![b]);
    let steps = "[{flatten-order:{lens:[3,4]}}]".to_owned();
    assert_eq!(suggested, [("norm/mean".to_owned(), steps, "only".to_owned())]);
}

/// As the gates of a GRU: blocks of one tensor have other places in the other.
#[test]
fn suggest_asks_for_an_order_that_no_steps_make() {
    let kernel = values(1, &[2, 6]);
    let order = [2, 3, 0, 1, 5, 4];
    let gates = (0..12).map(|k| kernel.1[k / 6 * 6 + order[k % 6]]).collect();
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("gru/kernel", kernel)]);
    place.checkpoint("b.safetensors", &[tensor("gru.weight", (vec![2, 6], gates))]);
    let question =
        "question: in which order does 'gru.weight' have the elements of 'gru/kernel'? no steps make it";
    asks(&place, &["map", "suggest", "a.safetensors", "b.safetensors"], &[question, "leave 1 question open"]);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors", "--accept-ambiguous"]);
    let comment = "# Check these pairs: the elements are the same, in an order that no steps make:\n#   'gru/kernel' -> 'gru.weight'";
    assert!(text.contains(comment), "{text}");
}

/// As a classifier of another task: the steps that its shape suggests may not be all.
#[test]
fn suggest_asks_for_pairs_whose_values_differ_where_most_are_equal() {
    let of = |names: [&str; 3], seed: usize, turn: fn(Values) -> Values| {
        let seeds = [1, 2, seed];
        names
            .into_iter()
            .zip(seeds)
            .map(|(name, seed)| tensor(name, turn(values(seed, &[4, 6]))))
            .collect::<Tensors>()
    };
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &of(["m/one", "m/two", "m/head"], 3, |values| values));
    place.checkpoint("b.safetensors", &of(["n.one", "n.two", "n.head"], 4, transposed));
    let question = "question: does 'm/head' -> 'n.head' need transpose? these values differ, but most tensors have equal values";
    asks(&place, &["map", "suggest", "a.safetensors", "b.safetensors"], &[question, "leave 1 question open"]);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors", "--accept-ambiguous"]);
    let comment =
        "# Check these steps: most tensors have equal values, but not these:\n#   'm/head': transpose";
    assert!(text.contains(comment), "{text}");
}

#[test]
fn suggest_asks_nothing_about_a_matrix_that_equals_its_transpose() {
    let symmetric = || (vec![3, 3], vec![1.0, 2.0, 3.0, 2.0, 4.0, 5.0, 3.0, 5.0, 6.0]);
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[tensor("m/graph", symmetric())]);
    place.checkpoint("b.safetensors", &[tensor("n.table", symmetric())]);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    let comment = "# Check these steps for other values: these values are equal with others, too:\n#   'm/graph': no step";
    assert!(text.contains("\"m/graph\" = \"n.table\"") && text.contains(comment), "{text}");
}

/// One of the copies is transposed: one rule cannot make both.
#[test]
fn suggest_pairs_a_tensor_with_the_copy_of_the_most_similar_name_if_the_copies_need_different_steps() {
    let (a, b) = (values(1, &[3, 3]), transposed(values(1, &[3, 3])));
    let b = vec![tensor("n.one", b), tensor("n.two", a.clone())];
    let suggested = suggested(&vec![tensor("m/one", a)], &b);
    assert_eq!(suggested, [("m/one".to_owned(), "[transpose]".to_owned(), "only".to_owned())]);
}

#[test]
fn suggest_compares_values_in_the_smaller_of_two_dtypes() {
    let (mut a, mut b) = convolutional([6, 4, 5]);
    // One has numbers that 16 bits do not hold.
    a.push(tensor("net/dense/bias", (vec![5], vec![1e6; 5])));
    b.push(tensor("2.bias", values(1, &[5])));
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    place.says(&[
        "convert",
        "b.safetensors",
        "h.safetensors",
        "--dtype",
        "f16",
        "-q",
        "--no-sync",
        "--allow",
        "all",
    ]);
    for (command, step, bias) in [
        (
            ["map", "suggest", "a.safetensors", "h.safetensors"],
            "flatten_order 6 4",
            "'net/dense/bias' -> '2.bias'",
        ),
        (
            ["map", "suggest", "h.safetensors", "a.safetensors"],
            "unflatten_order 6 4",
            "'2.bias' -> 'net/dense/bias'",
        ),
    ] {
        asks(&place, &command, &[&format!("question: does {bias} need no step?"), "leave 1 question open"]);
        let text = place.says(&[&command[..], &["--accept-ambiguous"]].concat());
        assert!(text.contains("# 2 pairs: matched by value") && text.contains(step), "{text}");
    }
}

/// Equal after rounding is not equal: the dtypes do not differ.
#[test]
fn suggest_rounds_no_values_of_tensors_of_one_dtype() {
    let near = |name: &str, one: f32| tensor(name, (vec![3], vec![one, 2.0, 3.0]));
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &[near("m/x", 1.0)]);
    place.checkpoint("b.safetensors", &[near("n.x", 1.000001)]);
    place.checkpoint("c.safetensors", &[near("n.y", 1.0)]);
    place.says(&["convert", "c.safetensors", "h.npz", "--dtype", "f16", "-q", "--no-sync", "--allow", "all"]);
    place.says(&["convert", "b.safetensors", "b.npz", "-q", "--no-sync"]);
    let json = place.json(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    assert_eq!(json["suggestion"]["pairs"][0]["basis"], "shape");
    let json = place.json(&["map", "suggest", "b.npz", "h.npz"]);
    assert_eq!(json["suggestion"]["pairs"][0]["basis"], "value");
}

/// A matrix cut along its columns into transposed ones of these widths.
fn columns(whole: &Values, widths: &[usize]) -> Vec<Values> {
    let (rows, width) = (whole.0[0], whole.0[1]);
    let starts = widths.iter().scan(0, |start, width| Some(std::mem::replace(start, *start + width)));
    let parts = starts.zip(widths).map(|(start, part)| {
        let transposed = (0..*part).flat_map(|c| (0..rows).map(move |r| r * width + start + c));
        (vec![*part, rows], transposed.map(|k| whole.1[k]).collect())
    });
    parts.collect()
}

/// As in GPT-2: queries, keys and values are one matrix, or three; with grouped queries, of several widths.
#[test]
fn suggest_splits_and_merges_tensors_by_values() {
    let (even, uneven) = (values(1, &[4, 12]), values(2, &[8, 16]));
    let bias = values(3, &[12]);
    let mut b: Tensors = Vec::new();
    let parts = columns(&even, &[4; 3]).into_iter().chain(columns(&uneven, &[8, 4, 4]));
    b.extend(["q", "k", "v", "g.q", "g.k", "g.v"].iter().zip(parts).map(|(name, part)| tensor(name, part)));
    b.extend((0..3).map(|k| tensor(&format!("bias.{k}"), (vec![4], bias.1[4 * k..4 * k + 4].to_vec()))));
    let place = Workplace::new();
    let a = [tensor("attn", even), tensor("grouped", uneven), tensor("bias", bias)];
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    for (from, to, rules) in [
        (
            "a.safetensors",
            "b.safetensors",
            [
                "from = \"attn\"\nto = [\"q\", \"k\", \"v\"]\nsplit = 1\nsteps = [\"transpose\"]",
                "from = \"bias\"\nto = [\"bias.0\", \"bias.1\", \"bias.2\"]\nsplit = 0",
                "to = [\"g.q\", \"g.k\", \"g.v\"]\nsplit = 1\nsizes = [8, 4, 4]\nsteps = [\"transpose\"]",
            ],
        ),
        (
            "b.safetensors",
            "a.safetensors",
            [
                "from = [\"q\", \"k\", \"v\"]\nto = \"attn\"\nmerge = 1\nsteps = [\"transpose\"]",
                "from = [\"bias.0\", \"bias.1\", \"bias.2\"]\nto = \"bias\"\nmerge = 0",
                "to = \"grouped\"\nmerge = 1\nsizes = [8, 4, 4]\nsteps = [\"transpose\"]",
            ],
        ),
    ] {
        let text = place.says(&["map", "suggest", from, to]);
        for rule in rules {
            assert!(text.contains(rule), "{rule} is not in:\n{text}");
        }
        place.write("map.toml", &text);
        let out = format!("{from}.out.safetensors");
        place.says(&["convert", from, &out, "--map", "map.toml", "-q", "--no-sync"]);
        let same = place.says(&["diff", &out, to]);
        assert!(same.contains("tensors are equal bit for bit") && !same.contains("only in"), "{same}");
    }
}

#[test]
fn suggest_has_one_rule_for_the_parts_of_all_layers() {
    let (mut a, mut b) = (Tensors::new(), Tensors::new());
    for n in 0..3 {
        let whole = values(n, &[4, 12]);
        let parts = columns(&whole, &[4; 3]);
        a.push(tensor(&format!("h.{n}.attn"), whole));
        b.extend(
            ["q", "k", "v"]
                .iter()
                .zip(parts)
                .map(|(name, part)| tensor(&format!("layer.{}.{name}", n + 1), part)),
        );
    }
    let place = Workplace::new();
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &b);
    let split = "from = \"h.{n:int}.attn\"\nto = [\"layer.{n+1}.q\", \"layer.{n+1}.k\", \"layer.{n+1}.v\"]\nsplit = 1";
    let merge = "from = [\"layer.{n:int}.q\", \"layer.{n:int}.k\", \"layer.{n:int}.v\"]\nto = \"h.{n-1}.attn\"\nmerge = 1";
    for (from, to, rule) in
        [("a.safetensors", "b.safetensors", split), ("b.safetensors", "a.safetensors", merge)]
    {
        let text = place.says(&["map", "suggest", from, to]);
        assert!(text.contains(rule) && text.matches("[[rule]]").count() == 1, "{text}");
        place.write("map.toml", &text);
        let out = format!("{from}.out.safetensors");
        place.says(&["convert", from, &out, "--map", "map.toml", "-q", "--no-sync"]);
        assert!(place.says(&["diff", &out, to]).contains("tensors are equal bit for bit"));
    }
}

/// The heads of an attention layer whose elements are in an order that no step makes.
#[test]
fn suggest_asks_what_makes_the_elements_of_a_tensor_in_another_shape() {
    let heads = |name: &str, seed: usize| tensor(name, values(seed, &[4, 2, 3]));
    let flat = values(1, &[24]).1.into_iter().chain(values(2, &[24]).1).collect();
    // Zeros are the same in every shape.
    let zeros = |name: &str, shape: &[usize]| tensor(name, (shape.to_vec(), vec![0.0; 35]));
    let place = Workplace::new();
    let a = [heads("a/q", 1), heads("a/k", 2), heads("a/o", 3), zeros("a/zeros", &[5, 7])];
    place.checkpoint("a.safetensors", &a);
    let reversed = values(3, &[24]).1.into_iter().rev().collect();
    let out = tensor("b.out", (vec![6, 4], reversed));
    place.checkpoint("b.safetensors", &[tensor("b.in", (vec![8, 6], flat)), out, zeros("b.zeros", &[35])]);
    let command = ["map", "suggest", "a.safetensors", "b.safetensors"];
    let asked = ["question: what makes 'b.out' of 'a/o'?", "question: what makes 'b.in' of 'a/q', 'a/k'?"];
    asks(&place, &command, &[&asked[..], &["leave 2 questions open"]].concat());
    asks(
        &place,
        &["map", "suggest", "b.safetensors", "a.safetensors"],
        &["what makes 'a/q', 'a/k' of 'b.in'?"],
    );
}
