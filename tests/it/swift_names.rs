//! Mappings for the names of Swift for TensorFlow's CheckpointWriter: property paths joined with a separator, elements
//! of an array as `[0]`, a repeated label with `_1`, the omissions of `ignoredTensorPaths`, and a custom
//! `tensorNameMap` or `lookupMap`.

use ckpt::mapping::Mapping;
use ckpt_api::{Kind, Limits};

/// Applies the mapping, checks its inverse, and returns (source, target, steps).
fn map(text: &str, names: &[&str]) -> Vec<(String, String, String)> {
    let applied = Mapping::from_toml(text, "names.toml").unwrap().apply(names, &Limits::default()).unwrap();
    let targets: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
    let back = applied.inverse.unwrap().apply(&targets, &Limits::default()).unwrap();
    let mut returned: Vec<_> =
        back.targets.into_iter().map(|target| target.name).chain(applied.dropped).collect();
    let mut names = names.to_vec();
    returned.sort_unstable();
    names.sort_unstable();
    assert_eq!(returned, names, "the inverse makes the sources again");
    applied
        .targets
        .iter()
        .map(|target| (target.sources.join(" "), target.name.clone(), target.recipe.describe()))
        .collect()
}

fn assert_has(mapped: &[(String, String, String)], source: &str, target: &str, steps: &str) {
    let wanted = (source.to_owned(), target.to_owned(), steps.to_owned());
    assert!(mapped.contains(&wanted), "{wanted:?} is not in {mapped:?}");
}

/// The ten tensors of `LeNet: Checkpointable`, in the writer's default naming.
const LENET: [&str; 10] = [
    "conv1/filter",
    "conv1/bias",
    "conv2/filter",
    "conv2/bias",
    "fc1/weight",
    "fc1/bias",
    "fc2/weight",
    "fc2/bias",
    "fc3/weight",
    "fc3/bias",
];

#[test]
fn lenet_is_named_by_property_paths() {
    // A filter is [height, width, in, out], a dense weight [in, out]; PyTorch's begin with out.
    let mapped = map(
        r#"
        separator = "/"
        target_separator = "."
        [roles]
        filter = ["permute 3 2 0 1"]
        dense = ["transpose"]
        [[rule]]
        from = "conv{n:int}/filter"
        to = "conv{n}.weight"
        role = "filter"
        [[rule]]
        from = "conv{n:int}/bias"
        to = "conv{n}.bias"
        [[rule]]
        from = "fc{n:int}/weight"
        to = "fc{n}.weight"
        role = "dense"
        [[rule]]
        from = "fc{n:int}/bias"
        to = "fc{n}.bias"
        "#,
        &LENET,
    );
    assert_eq!(mapped.len(), 10);
    assert_has(&mapped, "conv2/filter", "conv2.weight", "permute 3 2 0 1");
    assert_has(&mapped, "fc3/weight", "fc3.weight", "transpose");
    assert_has(&mapped, "fc3/bias", "fc3.bias", "");
}

/// The 52 tensors of SqueezeNetV1_0 whose `checkpointSeparator` is `_`.
fn squeezenet() -> Vec<String> {
    let mut modules = vec!["conv1".to_owned(), "conv10".to_owned()];
    for n in 2..=9 {
        modules.extend(["squeeze", "expand1", "expand3"].map(|part| format!("fire{n}_{part}")));
    }
    modules
        .iter()
        .flat_map(|module| ["filter", "bias"].map(|parameter| format!("{module}_{parameter}")))
        .collect()
}

/// A separator that is a letter of names, too, is written out in the patterns.
#[test]
fn squeezenet_joins_its_paths_with_underscores() {
    let names = squeezenet();
    let mapped = map(
        r#"
        target_separator = "."
        [roles]
        filter = ["permute 3 2 0 1"]
        [[rule]]
        from = "conv{n:int}_filter"
        to = "conv{n}.weight"
        role = "filter"
        [[rule]]
        from = "conv{n:int}_bias"
        to = "conv{n}.bias"
        [[rule]]
        from = "fire{n:int}_{part}_filter"
        to = "fire{n}.{part}.weight"
        role = "filter"
        [[rule]]
        from = "fire{n:int}_{part}_bias"
        to = "fire{n}.{part}.bias"
        "#,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(mapped.len(), 52);
    assert_has(&mapped, "fire2_expand3_filter", "fire2.expand3.weight", "permute 3 2 0 1");
    assert_has(&mapped, "conv10_filter", "conv10.weight", "permute 3 2 0 1");
    assert_has(&mapped, "conv10_bias", "conv10.bias", "");
}

#[test]
fn elements_of_an_array_are_in_brackets() {
    let mapped = map(
        "[[rule]]\nfrom = 'layers/[{n:int}]/weight'\nto = 'layers.{n}.weight'",
        &["layers/[0]/weight", "layers/[11]/weight"],
    );
    assert_has(&mapped, "layers/[11]/weight", "layers.11.weight", "");
}

/// The first has no number, the second `_1`: a lookup for the one, a rule for the others.
#[test]
fn a_repeated_label_is_numbered_from_the_second_on() {
    let mapped = map(
        r#"
        [lookup]
        "dense/weight" = "dense.0.weight"
        [[rule]]
        from = "dense_{n:int}/weight"
        to = "dense.{n}.weight"
        "#,
        &["dense/weight", "dense_1/weight", "dense_2/weight"],
    );
    assert_has(&mapped, "dense/weight", "dense.0.weight", "");
    assert_has(&mapped, "dense_2/weight", "dense.2.weight", "");
}

/// `ignoredTensorPaths = ["Attention.scale"]` means the property `scale` of every value of type `Attention`. A
/// checkpoint has no types: a pattern names the properties that hold one.
#[test]
fn an_ignored_property_is_dropped_wherever_its_type_occurs() {
    let ignored = "ignore = ['**/attention/scale']\nidentity = true";
    let names = [
        "layers/[0]/selfAttention/attention/scale",
        "layers/[1]/selfAttention/attention/scale",
        "layers/[0]/selfAttentionNorm/scale",
        "norm/scale",
    ];
    let mapped = map(ignored, &names);
    assert_eq!(mapped.len(), 2);
    assert_has(&mapped, "norm/scale", "norm/scale", "");
    assert_has(&mapped, "layers/[0]/selfAttentionNorm/scale", "layers/[0]/selfAttentionNorm/scale", "");
}

/// `lookupMap(table:)` falls back to the name itself: `identity = true`. Here, unlike there, a name of the table that
/// the checkpoint lacks is an error, and so are two tensors of one name, of which one overwrites the other there.
#[test]
fn a_lookup_map_is_a_lookup_with_identity() {
    let text = "identity = true\n[lookup]\n'conv1/filter' = 'c1/w'";
    let mapped = map(text, &["conv1/filter", "conv1/bias"]);
    assert_has(&mapped, "conv1/filter", "c1/w", "");
    assert_has(&mapped, "conv1/bias", "conv1/bias", "");

    let mapping = Mapping::from_toml(text, "names.toml").unwrap();
    for names in [vec!["conv1/bias"], vec!["conv1/filter", "c1/w"]] {
        let error = mapping.apply(&names, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Mapping, "{error}");
    }
}
