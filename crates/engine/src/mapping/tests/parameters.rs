//! Lengths that differ from model to model.

use super::{apply, assert_says, fails, mapping, refused};
use crate::mapping::Mapping;
use crate::recipe::Join;
use ckpt_api::{Kind, Limits};

const HEADS: &str = "
    [parameters.heads]
    description = 'attention heads'
    config = ['num_attention_heads']
    metadata = ['*.attention.head_count']
    [parameters.kv_heads]
    default = 'heads'
    [roles]
    q = ['reshape _ -> {heads} 2 _']
    [[rule]]
    from = 'q'
    to = 'Q'
    role = 'q'
    [[rule]]
    from = 'k'
    to = 'K'
    steps = ['reshape _ -> {kv_heads} 2 _ on 1']";

fn steps(mapping: &Mapping) -> Vec<String> {
    apply(mapping, &["k", "q"]).targets.iter().map(|target| target.recipe.describe()).collect()
}

#[test]
fn a_parameter_is_a_length_of_a_reshape() {
    let given = mapping(HEADS).with_parameter("heads", 8).unwrap().with_parameter("kv_heads", 2).unwrap();
    assert_eq!(steps(&given), ["reshape _ -> 2 2 _ on 1", "reshape _ -> 8 2 _"]);
    let inverse = apply(&given, &["k", "q"]).inverse.unwrap();
    assert_eq!(
        apply(&mapping(&inverse.to_toml()), &["K", "Q"]).targets[1].recipe.describe(),
        "reshape 8 2 _ -> _"
    );
}

#[test]
fn a_parameter_without_a_value_has_its_default() {
    let found = |parameter: &crate::mapping::Parameter| {
        Ok(parameter.config.first().map(|key| if key == "num_attention_heads" { 32 } else { 0 }))
    };
    assert_eq!(
        steps(&mapping(HEADS).with_parameters_of(found).unwrap()),
        ["reshape _ -> 32 2 _ on 1", "reshape _ -> 32 2 _"]
    );
    let given = mapping(HEADS).with_parameter("heads", 4).unwrap();
    assert_eq!(steps(&given.with_parameters_of(|_| Ok(None)).unwrap())[0], "reshape _ -> 4 2 _ on 1");
}

#[test]
fn a_missing_parameter_is_an_error_that_says_where_it_was_sought() {
    let error = fails(&mapping(HEADS), &["k", "q"]);
    assert_says(&error, &["'heads' (attention heads)", "'num_attention_heads' in a config.json"]);
    assert_says(&error, &["'*.attention.head_count' in its metadata", "Mapping::with_parameter"]);
    let none = mapping(HEADS).with_parameters_of(|_| Ok(None)).unwrap_err();
    assert_says(&none.to_string(), &["'heads'", "names.toml"]);
    let unknown = mapping(HEADS).with_parameter("head", 4).unwrap_err();
    assert_eq!(unknown.kind(), Kind::Usage);
    assert_says(&unknown.to_string(), &["'head'", "did you mean 'heads'"]);
    assert_eq!(mapping(HEADS).with_parameter("heads", 0).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn the_inverse_has_the_parameters_of_the_mapping_and_a_file_has_them_too() {
    let inverse = mapping(&mapping(HEADS).inverse().unwrap().to_toml());
    assert_eq!(inverse.parameters().collect::<Vec<_>>(), ["heads", "kv_heads"]);
    let inverse = inverse.with_parameter("heads", 8).unwrap().with_parameters_of(|_| Ok(None)).unwrap();
    let applied = inverse.apply(&["K", "Q"], &Limits::default()).unwrap();
    assert_eq!(applied.targets[0].recipe.describe(), "reshape 8 2 _ -> _ on 1");
}

#[test]
fn a_need_that_the_configuration_states_and_no_tensor_meets_is_unloadable() {
    let text = "
        identity = true
        [[needs]]
        tensor = 'factors'
        config = ['rope.type', 'type']
        values = ['a', 'b']
        reason = 'it computes other numbers'";
    let needs = mapping(text);
    assert_eq!(mapping(&needs.to_toml()).needs, needs.needs);
    assert!(needs.inverse().unwrap().needs.is_empty());
    assert_eq!(needs.unmet_needs(|_| false), [], "nothing is known of the model");
    let with = |value: &'static str| {
        needs.clone().with_needs_of(move |key| (key == "type").then(|| value.to_owned()))
    };
    assert_eq!(with("c").unmet_needs(|_| false), []);
    assert_eq!(with("b").unmet_needs(|name| name == "factors"), []);
    let losses = with("b").unmet_needs(|_| false);
    assert_eq!((losses.len(), losses[0].kind), (1, ckpt_api::LossKind::Unloadable));
    assert_says(&losses[0].detail, &["'factors'", "type is 'b'", "computes other numbers"]);
    refused("[[needs]]\ntensor = 'x'\nconfig = []\nvalues = ['a']\nreason = 'r'");
}

#[test]
fn parameters_and_steps_name_each_other() {
    let rule = |step: &str| format!("[[rule]]\nfrom = 'q'\nto = 'Q'\nsteps = ['{step}']");
    let wrong = |head: &str, step: &str| refused(&format!("{head}\n{}", rule(step))).to_string();
    assert_says(&wrong("", "reshape _ -> {heads} _"), &["'heads'", "[parameters]"]);
    assert_says(&wrong("[parameters.heads]", "transpose"), &["no step or size names", "'heads'"]);
    let step = "reshape _ -> {a} {b} _";
    for default in ["c", "a", "0", "b"] {
        let head = format!("[parameters.a]\ndefault = '{default}'\n[parameters.b]\ndefault = '1'");
        assert_says(&wrong(&head, step), &["default", &format!("'{default}'")]);
    }
    let head = "[parameters.a]\nmetadata = ['{']\n[parameters.b]";
    assert_says(&wrong(head, step), &["parameters, 'a'"]);
}

/// Queries, keys and values fused, of different sizes.
const FUSED: &str = "
    [parameters.heads]
    config = ['num_attention_heads']
    [parameters.kv_heads]
    default = 'heads'
    [[rule]]
    from = 'qkv'
    to = ['q', 'k', 'v']
    split = 0
    sizes = ['{heads} * 64', '{kv_heads}*64', '64 * {kv_heads}']";

#[test]
fn the_sizes_of_parts_are_products_of_numbers_and_parameters() {
    let given = mapping(FUSED).with_parameter("heads", 8).unwrap().with_parameter("kv_heads", 2).unwrap();
    let sizes = |mapping: &Mapping, names: &[&str]| match &apply(mapping, names).targets[0].recipe.join {
        Join::Part { sizes, .. } | Join::Merged { sizes, .. } => sizes.clone().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(sizes(&given, &["qkv"]), [512, 128, 128]);
    assert_eq!(sizes(&mapping(&given.to_toml()), &["qkv"]), [512, 128, 128]);
    let inverse = mapping(&mapping(FUSED).inverse().unwrap().to_toml());
    assert_says(&fails(&inverse, &["q", "k", "v"]), &["'heads'"]);
    let inverse = inverse.with_parameter("heads", 8).unwrap().with_parameters_of(|_| Ok(None)).unwrap();
    assert_eq!(sizes(&inverse, &["q", "k", "v"]), [512, 512, 512]);
    let huge = mapping(FUSED).with_parameter("heads", u64::MAX).unwrap().with_parameter("kv_heads", 1);
    assert_says(
        &huge.unwrap_err().to_string(),
        &["the sizes are not valid lengths", "18446744073709551615 * 64"],
    );
}

#[test]
fn a_size_that_is_no_product_or_names_an_unknown_parameter_is_refused() {
    let wrong = |size: &str| {
        let rule = "[[rule]]\nfrom = 'qkv'\nto = ['q', 'k']\nsplit = 0\nsizes = ";
        refused(&format!("{rule}[1, {size}]")).to_string()
    };
    for size in ["'{heads'", "'heads'", "'2 + 3'", "''", "'2 *'", "'{a b}'"] {
        assert_says(&wrong(size), &["neither a number nor a product", "line 5, rule 1, sizes"]);
    }
    assert_says(&wrong("'{heads}'"), &["'heads'", "[parameters]"]);
    assert_says(&wrong("0"), &["the sizes are not valid lengths"]);
}
