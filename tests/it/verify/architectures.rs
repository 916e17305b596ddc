//! Checkpoints without a graph that run by a built-in architecture.

use super::command::ckpt;
use ckpt_forward::Random;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const WIDTH: u64 = 4;

/// A GPT-2 of one layer, with random weights.
fn gpt2(path: &Path, change: impl Fn(&str, &mut Vec<f32>), more: &[(&str, &[u64])]) {
    let w = WIDTH;
    let tensors: &[(&str, &[u64])] = &[
        ("wte.weight", &[7, w]),
        ("wpe.weight", &[6, w]),
        ("h.0.ln_1.weight", &[w]),
        ("h.0.ln_1.bias", &[w]),
        ("h.0.attn.c_attn.weight", &[w, 3 * w]),
        ("h.0.attn.c_attn.bias", &[3 * w]),
        ("h.0.attn.c_proj.weight", &[w, w]),
        ("h.0.attn.c_proj.bias", &[w]),
        ("h.0.ln_2.weight", &[w]),
        ("h.0.ln_2.bias", &[w]),
        ("h.0.mlp.c_fc.weight", &[w, 2 * w]),
        ("h.0.mlp.c_fc.bias", &[2 * w]),
        ("h.0.mlp.c_proj.weight", &[2 * w, w]),
        ("h.0.mlp.c_proj.bias", &[w]),
        ("ln_f.weight", &[w]),
        ("ln_f.bias", &[w]),
    ];
    let mut random = Random::new(1);
    let values = |(name, shape): &(&str, &[u64])| {
        #[expect(clippy::cast_possible_truncation, reason = "random numbers")]
        let mut values: Vec<f32> = (0..shape.iter().product()).map(|_| random.real() as f32).collect();
        change(name, &mut values);
        values
    };
    let values: Vec<Vec<f32>> = tensors.iter().chain(more).map(values).collect();
    let mut writer = ckpt::Writer::to(path);
    for ((name, shape), values) in tensors.iter().chain(more).zip(&values) {
        writer = writer.tensor(name, shape, values).unwrap();
    }
    writer.finish().unwrap();
}

fn run(directory: &Path, tokens: &[i32], arguments: &[&str]) -> (Vec<f64>, String) {
    let len = tokens.len() as u64;
    ckpt::Writer::to(directory.join("tokens.safetensors"))
        .overwrite(true)
        .tensor("input_ids", &[1, len], tokens)
        .unwrap()
        .finish()
        .unwrap();
    let all =
        [&["run", "m.safetensors", "--input", "tokens.safetensors", "--format", "json"], arguments].concat();
    let output = ckpt(directory, &all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let logits =
        report["outputs"].as_array().unwrap().iter().find(|output| output["name"] == "logits").unwrap();
    assert_eq!(logits["shape"], json!([1, len, 7]));
    let values = logits["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
    (values.collect(), report["notes"].to_string())
}

fn fails(directory: &Path, arguments: &[&str]) -> String {
    let output = ckpt(directory, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_checkpoint_runs_by_the_architecture_whose_names_it_has() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    let error = fails(place.path(), &["run", "m.safetensors"]);
    assert!(
        error.contains("the number of attention heads") && error.contains("--set arch.heads=VALUE"),
        "{error}"
    );
    let (logits, notes) = run(place.path(), &[1, 2, 3, 4], &["--set", "arch.heads=2"]);
    assert!(notes.contains("architecture gpt2") && notes.contains("set: heads 2"), "{notes}");
    fs::write(place.path().join("config.json"), r#"{"model_type": "gpt2", "n_head": 2}"#).unwrap();
    let (configured, notes) = run(place.path(), &[1, 2, 3, 4], &[]);
    assert!(notes.contains("from config.json: heads 2"), "{notes}");
    assert_eq!(configured, logits);
    assert_eq!(run(place.path(), &[1, 2, 3, 4], &["--arch", "gpt2"]).0, logits);
    assert_ne!(run(place.path(), &[1, 2, 3, 4], &["--set", "arch.heads=1"]).0, logits);
}

#[test]
fn inspect_shows_the_graph_of_the_architecture_whose_names_a_checkpoint_has() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    let error = fails(place.path(), &["inspect", "m.safetensors", "--graph"]);
    assert!(error.contains("--set arch.heads=VALUE"), "{error}");
    let output = ckpt(place.path(), &["inspect", "m.safetensors", "--graph", "--set", "arch.heads=2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("embeddings ")).unwrap();
    assert!(line.contains("wte, wpe"), "{text}");
    let page = |more: &[&str], name: &str| {
        let all = [&["inspect", "m.safetensors", "--html", name][..], more].concat();
        assert!(ckpt(place.path(), &all).status.success());
        fs::read_to_string(place.path().join(name)).unwrap()
    };
    assert!(page(&["--set", "arch.heads=2"], "with.html").contains("h.0.attn.c_attn"));
    let without = page(&[], "without.html");
    assert!(without.contains("the tensors have the names of architecture gpt2"), "{without}");
    // A directory of the architecture's name does not hide it.
    fs::create_dir(place.path().join("gpt2")).unwrap();
    let named = ["inspect", "m.safetensors", "--arch", "gpt2", "--graph", "--set", "arch.heads=2"];
    assert_eq!(String::from_utf8(ckpt(place.path(), &named).stdout).unwrap(), text);
}

#[test]
fn a_token_sees_none_behind_it() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    let heads = ["--set", "arch.heads=2"];
    let (whole, _) = run(place.path(), &[1, 2, 3, 4, 5, 6], &heads);
    for len in 1..6 {
        let (part, _) = run(place.path(), &[1, 2, 3, 4, 5, 6][..len], &heads);
        assert_eq!(part, whole[..len * 7], "{len}");
    }
    let output =
        ckpt(place.path(), &["run", "m.safetensors", "--set", "arch.heads=2", "--batch", "3", "--argmax"]);
    assert!(output.status.success(), "random tokens are as many as there are positions: {output:?}");
}

#[test]
fn a_model_that_only_has_the_names_of_an_architecture_is_refused_with_its_other_tensors() {
    let place = tempfile::tempdir().unwrap();
    let more: &[(&str, &[u64])] = &[("h.0.adapter.weight", &[2]), ("h.0.attn.bias", &[1])];
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, more);
    let error = fails(place.path(), &["run", "m.safetensors", "--set", "arch.heads=2"]);
    assert!(error.contains("also h.0.adapter.weight") && error.contains("gpt2 with --arch"), "{error}");
    let (_, notes) = run(place.path(), &[1], &["--arch", "gpt2", "--set", "arch.heads=2"]);
    assert!(notes.contains("does not use these weights: h.0.adapter.weight"), "{notes}");
    fs::write(place.path().join("config.json"), r#"{"model_type": "other", "n_head": 2}"#).unwrap();
    let error = fails(place.path(), &["run", "m.safetensors", "--arch", "gpt2"]);
    assert!(error.contains("'other'"), "{error}");
    let error = fails(place.path(), &["run", "m.safetensors"]);
    assert!(error.contains("no graph to run"), "{error}");
}

#[test]
fn verify_runs_both_sides_and_finds_a_fault_in_its_layer() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    gpt2(&path("a.safetensors"), |_, _| {}, &[]);
    gpt2(&path("b.safetensors"), |_, _| {}, &[]);
    let swap = |name: &str, values: &mut Vec<f32>| {
        if name == "h.0.attn.c_proj.weight" {
            values.rotate_left(8);
        }
    };
    gpt2(&path("c.safetensors"), swap, &[]);
    let heads = ["--a-set", "arch.heads=2", "--b-set", "arch.heads=2"];
    let verify = |b: &str| ckpt(place.path(), &[&["verify", "a.safetensors", b][..], &heads].concat());
    let same = verify("b.safetensors");
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    assert!(!String::from_utf8_lossy(&same.stdout).contains("nothing was run"));
    let faulty = verify("c.safetensors");
    assert_eq!(faulty.status.code(), Some(4));
    let said = String::from_utf8_lossy(&faulty.stdout).into_owned();
    assert!(said.contains("layer 'h.0.attn.c_proj' is the first that diverges"), "{said}");
    // Without heads, the tensors are compared, and a note names the option.
    let unknown = ckpt(place.path(), &["verify", "a.safetensors", "b.safetensors"]);
    let said = String::from_utf8_lossy(&unknown.stdout).into_owned();
    assert!(said.contains("nothing was run") && said.contains("arch.heads"), "{said}");
}

#[test]
fn the_page_shows_what_a_mapping_makes_the_tensors_of_a_layer_of() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    let convert =
        ["convert", "m.safetensors", "tf.ckpt", "--to", "tf2", "--map", "gpt2-tf-to-hf", "--inverse", "-q"];
    let converted = ckpt(place.path(), &convert);
    assert!(converted.status.success(), "{converted:?}");
    let verify = ["verify", "tf.ckpt", "m.safetensors", "--map", "gpt2-tf-to-hf", "--per-layer"];
    let heads = ["--a-set", "arch.heads=2", "--b-set", "arch.heads=2"];
    let pages = ["--html", "page.html", "--report", "report.json"];
    let verified = ckpt(place.path(), &[&verify[..], &heads, &pages].concat());
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("from model/h0/attn/c_attn/w: squeeze 0"), "{page}");
    let report = fs::read_to_string(place.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let layers = report["runs"][0]["layers"].as_array().unwrap();
    let layer = layers.iter().find(|layer| layer["a"] == "h.0.attn.c_attn").unwrap();
    let weight = layer["tensors"].as_array().unwrap().iter().find(|pair| pair["role"] == "weight").unwrap();
    assert_eq!(weight["a"]["stored_as"], "model/h0/attn/c_attn/w: squeeze 0");
    assert!(weight["b"].get("stored_as").is_none());
}

#[test]
fn a_padded_text_computes_what_it_computes_alone() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    let tokens = |mask: &[i32], name: &str| {
        let len = mask.len() as u64;
        let ids = &[5i32, 6, 3, 1, 4][..mask.len()];
        ckpt::Writer::to(place.path().join(name))
            .tensor("input_ids", &[1, len], ids)
            .unwrap()
            .tensor("attention_mask", &[1, len], mask)
            .unwrap()
            .finish()
            .unwrap();
    };
    tokens(&[1, 1, 1], "short.safetensors");
    tokens(&[1, 1, 1, 0, 0], "padded.safetensors");
    tokens(&[1, 0, 1], "gap.safetensors");
    let logits = |file: &str| {
        let arguments =
            ["run", "m.safetensors", "--set", "arch.heads=2", "--input", file, "--format", "json"];
        let output = ckpt(place.path(), &arguments);
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let outputs = report["outputs"].as_array().unwrap();
        let logits = outputs.iter().find(|output| output["name"] == "logits").unwrap();
        logits["values"].as_array().unwrap()[..21].to_vec()
    };
    assert_eq!(logits("padded.safetensors"), logits("short.safetensors"));
    assert_eq!(logits("gap.safetensors")[..7], logits("short.safetensors")[..7]);
    assert_ne!(logits("gap.safetensors")[14..], logits("short.safetensors")[14..]);
}

#[test]
fn a_graph_that_inspect_prints_is_an_architecture_file() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    let heads = ["--set", "arch.heads=2"];
    let inspect =
        ["inspect", "m.safetensors", "--format", "json", "--arch", "gpt2", "--from-set", "arch.heads=2"];
    let output = ckpt(place.path(), &inspect);
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tensors = found["tensors"].as_array().unwrap().iter();
    let axes =
        tensors.filter_map(|tensor| Some((tensor["name"].as_str()?.to_owned(), tensor.get("axes")?.clone())));
    let axes: serde_json::Map<String, Value> = axes.collect();
    let mut graph = json!({ "graph": found["graph"], "axes": axes });
    let write = |graph: &Value| fs::write(place.path().join("graph.json"), graph.to_string()).unwrap();
    write(&graph);
    let tokens = [1, 2, 3];
    assert_eq!(run(place.path(), &tokens, &["--arch", "graph.json"]).0, run(place.path(), &tokens, &heads).0);
    graph["graph"]["nodes"][0]["parameters"]["weight"] = "wte.wieght".into();
    write(&graph);
    let error = fails(place.path(), &["run", "m.safetensors", "--arch", "graph.json"]);
    assert!(error.contains("did you mean 'wte.weight'") && error.contains("graph.json"), "{error}");
}

#[test]
fn options_and_names_of_architectures_that_do_not_exist_are_errors() {
    let place = tempfile::tempdir().unwrap();
    gpt2(&place.path().join("m.safetensors"), |_, _| {}, &[]);
    super::support::archive(&place.path().join("x.safetensors"), "x", &[1, 2], &[1.0, 2.0]);
    for (arguments, part) in [
        (&["run", "m.safetensors", "--set", "arch.haeds=2"][..], "did you mean 'heads'"),
        (&["run", "m.safetensors", "--arch", "gtp2"], "did you mean 'gpt2'"),
        (&["run", "m.safetensors", "--arch", "vit"], "no tensor 'embeddings.cls_token'"),
        (&["run", "x.safetensors", "--set", "arch.heads=2"], "no architecture takes this option"),
        (
            &["convert", "x.safetensors", "y.npz", "--set", "arch.heads=2"],
            "no architecture takes this option",
        ),
    ] {
        let error = fails(place.path(), arguments);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}
