//! Merges by recipes.

use crate::fixture::{Array, Tensors, array, model, registry, tensors, written};
use ckpt_api::{DType, Input, Kind, Result};
use ckpt_engine::Conversion;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_merge::Recipe;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A model of two layers.
fn layers(seed: usize) -> Tensors {
    tensors([
        ("model.embed_tokens.weight", array(seed, &[5, 4])),
        ("model.layers.0.attn.weight", array(seed + 1, &[4, 4])),
        ("model.layers.0.mlp.weight", array(seed + 2, &[3, 4])),
        ("model.layers.1.attn.weight", array(seed + 3, &[4, 4])),
        ("model.layers.1.mlp.weight", array(seed + 4, &[3, 4])),
        ("model.norm.weight", array(seed + 5, &[4])),
    ])
}

fn merged(recipe: &str, models: &[&Tensors]) -> Result<Tensors> {
    let recipe = Recipe::parse(recipe)?;
    let models = models.iter().map(|tensors| model(tensors, DType::F32)).collect();
    Ok(written(&recipe.merge(models, 0)?, &Conversion::new().verify(true))?.0)
}

fn mean(a: &Array, b: &Array, [of_a, of_b]: [f32; 2]) -> Array {
    let numbers = a.numbers.iter().zip(&b.numbers).map(|(a, b)| (a * of_a + b * of_b) / (of_a + of_b));
    Array { shape: a.shape.clone(), numbers: numbers.collect() }
}

#[test]
fn parameters_differ_by_layer_and_by_filter() {
    let (a, b) = (layers(1), layers(11));
    let recipe = "
merge_method: linear
models:
- model: a
  parameters:
    weight:
    - {filter: attn, value: [0.25, 0.75]}
    - value: 0.5
- {model: b, parameters: {weight: 1}}
";
    let found = merged(recipe, &[&a, &b]).unwrap();
    for (name, weight) in [
        ("model.embed_tokens.weight", 0.5),
        ("model.layers.0.attn.weight", 0.25),
        ("model.layers.1.attn.weight", 0.75),
        ("model.layers.1.mlp.weight", 0.5),
        ("model.norm.weight", 0.5),
    ] {
        assert_eq!(found[name], mean(&a[name], &b[name], [weight, 1.0]), "{name}");
    }
}

#[test]
fn slices_are_layers_one_after_the_other() {
    let (a, b) = (layers(1), layers(11));
    let recipe = "
merge_method: passthrough
slices:
- sources: [{model: a, layer_range: [0, 2]}]
- sources: [{model: b, layer_range: [1, 2], parameters: {scale: 0.5}}]
";
    let found = merged(recipe, &[&a, &b]).unwrap();
    assert_eq!(found.len(), 8);
    for name in ["model.embed_tokens.weight", "model.layers.0.attn.weight", "model.layers.1.mlp.weight"] {
        assert_eq!(found[name], a[name], "{name}");
    }
    // The last layer and what is behind it.
    for (name, of_b) in [
        ("model.layers.2.attn.weight", "model.layers.1.attn.weight"),
        ("model.norm.weight", "model.norm.weight"),
    ] {
        assert_eq!(found[name], mean(&b[of_b], &b[of_b], [0.5, 0.5]).halved(), "{name}");
    }
}

impl Array {
    fn halved(mut self) -> Self {
        self.numbers.iter_mut().for_each(|number| *number *= 0.5);
        self
    }
}

#[test]
fn a_model_of_other_layers_states_their_number() {
    let source = |seed: usize, kinds: [&str; 2]| {
        let config = json!({"num_hidden_layers": 2, "layer_types": kinds}).to_string();
        let files = BTreeMap::from([
            ("config.json".to_owned(), config.into_bytes()),
            ("model.safetensors".to_owned(), crate::fixture::file(&layers(seed), DType::F32)),
        ]);
        Source::open(&registry(), Input::memory("model.safetensors", files), &OpenOptions::new()).unwrap()
    };
    let recipe = "
merge_method: passthrough
slices:
- sources: [{model: a, layer_range: [0, 2]}]
- sources: [{model: b, layer_range: [1, 2]}]
";
    let models = vec![source(1, ["x", "y"]), source(2, ["z", "w"])];
    let merged = Recipe::parse(recipe).unwrap().merge(models, 0).unwrap();
    let expected: [(String, Value); 2] =
        [("num_hidden_layers".to_owned(), json!(3)), ("layer_types".to_owned(), json!(["x", "y", "w"]))];
    assert_eq!(merged.reconfigured(), expected);
}

#[test]
fn a_base_gives_what_is_no_tensor_and_is_an_input_even_if_it_is_not_listed() {
    let (base, a) = (layers(1), layers(11));
    let recipe = "
merge_method: task_arithmetic
base_model: c
models: [{model: a, parameters: {weight: 0.5}}]
dtype: bfloat16
tokenizer_source: base
";
    let parsed = Recipe::parse(recipe).unwrap();
    assert_eq!((parsed.models(), parsed.dtype()), (&["c".to_owned(), "a".to_owned()][..], Some(DType::Bf16)));
    let found = merged(recipe, &[&base, &a]).unwrap();
    let name = "model.norm.weight";
    let sum = base[name].numbers.iter().zip(&a[name].numbers).map(|(base, a)| (a - base) * 0.5 + base);
    assert_eq!(found[name].numbers, sum.collect::<Vec<f32>>());
}

#[test]
fn what_is_no_recipe_is_refused_with_its_place() {
    let models = "models: [{model: a, parameters: {weight: 1}}]\n";
    for (recipe, kind, says) in [
        ("", Kind::Usage, "empty"),
        ("a: [", Kind::Usage, "no YAML"),
        ("- a\n", Kind::Usage, "no mapping"),
        ("models: []\n", Kind::Usage, "merge_method"),
        ("merge_method: tie\nmodels: []\n", Kind::Usage, "line 1, column 15"),
        ("merge_method: linear\nmodels: []\n", Kind::Usage, "no model"),
        ("merge_method: linear\n", Kind::Usage, "models or slices"),
        ("merge_method: ties\nmodels: [{model: a}]\n", Kind::Usage, "base_model"),
        (&format!("merge_method: linear\nbase: a\n{models}"), Kind::Usage, "line 2, column 1"),
        (&format!("merge_method: linear\nmodules: {{}}\n{models}"), Kind::Unsupported, "modules"),
        (&format!("merge_method: linear\ntokenizer_source: union\n{models}"), Kind::Unsupported, "union"),
        (&format!("merge_method: linear\nout_dtype: int8\n{models}"), Kind::Usage, "bfloat16"),
        (&format!("merge_method: linear\nparameters: {{t: 1}}\n{models}"), Kind::Usage, "weight, normalize"),
        (
            "merge_method: linear\nmodels: [{model: a, parameters: {normalize: true}}]\n",
            Kind::Usage,
            "each model",
        ),
        (
            "merge_method: linear\nmodels: [{model: a, parameters: {weight: {x: 1}}}]\n",
            Kind::Usage,
            "filter, value",
        ),
        (
            "merge_method: linear\nmodels: [{model: a, parameters: {weight: []}}]\n",
            Kind::Usage,
            "at least one value",
        ),
        ("merge_method: linear\nmodels: [{model: a+b}]\n", Kind::Unsupported, "--lora"),
        ("merge_method: linear\nmodels: [{model: a}, {model: a}]\n", Kind::Usage, "with itself"),
        (
            "merge_method: linear\nslices: [{sources: [{model: a, layer_range: [0]}]}]\n",
            Kind::Usage,
            "[0, 16]",
        ),
        (
            "merge_method: slerp\nbase_model: a\nmodels: [{model: a}]\n",
            Kind::Usage,
            "another number of models",
        ),
        ("merge_method: linear\nmodels: &x [{model: a}]\nparameters: *x\n", Kind::Usage, "mapping"),
    ] {
        let error = Recipe::parse(recipe).unwrap_err();
        let text = error.to_string();
        assert!(error.kind() == kind && text.contains(says), "{recipe}: {text} does not say {says}");
    }
}

#[test]
fn models_that_do_not_fit_a_recipe_are_refused() {
    let (a, b) = (layers(1), layers(11));
    let refused = |recipe: &str, models: &[&Tensors]| merged(recipe, models).unwrap_err().to_string();
    let slice = |ranges: [&str; 2]| {
        let [of_a, of_b] = ranges;
        format!(
            "merge_method: linear\nparameters: {{weight: 1}}\nslices: [{{sources: [{{model: a, layer_range: {of_a}}}, \
             {{model: b, layer_range: {of_b}}}]}}]\n"
        )
    };
    assert!(refused(&slice(["[0, 2]", "[0, 1]"]), &[&a, &b]).contains("different numbers"));
    assert!(refused(&slice(["[1, 1]", "[1, 1]"]), &[&a, &b]).contains("no layers"));
    assert!(refused(&slice(["[1, 3]", "[0, 2]"]), &[&a, &b]).contains("layer 2"));
    assert!(refused(&slice(["[0, 1]", "[2, 3]"]), &[&a, &b]).contains("model.layers.2"));
    let unset =
        "merge_method: linear\nmodels: [{model: a, parameters: {weight: [{filter: mlp, value: 1}]}}]\n";
    assert!(refused(unset, &[&a]).contains("weight"));
}
