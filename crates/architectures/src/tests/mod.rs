mod families;
mod signature;

use crate::expression::Expression;
use crate::expression::Text;
use crate::scope::Scope;
use crate::tensors::Tensors;
use crate::value::Value;
use crate::{Described, Template, builtin};
use ckpt_api::{ArchitectureFile, Attribute, Axis, DType, Input, Kind, Limit, Limits, Result, Shape, Tensor};
use ckpt_engine::formats::Choices;
use ckpt_engine::source::Configuration;

fn tensors(all: &[(&str, &[u64])]) -> Vec<Tensor> {
    all.iter().map(|(name, shape)| Tensor::new(*name, DType::F32, Shape::new(*shape).unwrap())).collect()
}

fn evaluate(expression: &str) -> Result<Value> {
    let tensors = tensors(&[("h.0.w", &[4, 6]), ("h.1.w", &[4, 6]), ("h.3.w", &[1])]);
    let tensors = Tensors::new(&tensors);
    let mut scope = Scope::new(&tensors);
    scope.set("i", Value::Int(1));
    scope.set("name", Value::Text("h.0".to_owned()));
    scope.evaluate(&Expression::parse(expression).unwrap())
}

#[test]
fn an_expression_has_the_usual_precedence() {
    for (expression, value) in [
        ("1 + 2 * 3", Value::Int(7)),
        ("(1 + 2) * 3", Value::Int(9)),
        ("2 - 3 - 4", Value::Int(-5)),
        ("-i * 2 + 7", Value::Int(5)),
        ("7 % 4 == 3 and not (1 > 2)", Value::Bool(true)),
        ("1 == 2 or 2 == 2 and 1 < 2", Value::Bool(true)),
        ("not 1 == 2", Value::Bool(true)),
        ("1 / 4", Value::Real(0.25)),
        ("1e-5", Value::Real(1e-5)),
        ("max(2, min(5, 3)) + isqrt(17)", Value::Int(7)),
        ("floor(7 / 2)", Value::Int(3)),
        ("choose(i == 1, 'a', 'b')", Value::Text("a".to_owned())),
    ] {
        assert_eq!(evaluate(expression).unwrap(), value, "{expression}");
    }
}

#[test]
fn an_expression_reads_lengths_and_counts_off_the_tensors() {
    for (expression, value) in [
        ("dim('{name}.w', 1) // 3", Value::Int(2)),
        ("dim('h.{i - 1}.w', 0)", Value::Int(4)),
        ("rank('h.3.w')", Value::Int(1)),
        // Up to the first number that is missing.
        ("count('h.{}.w')", Value::Int(2)),
        ("count('g.{}.w')", Value::Int(0)),
        ("has('h.2.w')", Value::Bool(false)),
    ] {
        assert_eq!(evaluate(expression).unwrap(), value, "{expression}");
    }
}

#[test]
fn what_an_expression_does_not_use_may_be_missing() {
    assert_eq!(evaluate("has('g') and dim('g', 0) == 2").unwrap(), Value::Bool(false));
    assert_eq!(evaluate("choose(has('g'), dim('g', 0), 5)").unwrap(), Value::Int(5));
    let error = evaluate("dim('h.2.w', 0)").unwrap_err();
    assert_eq!((error.kind(), error.context().tensor), (Kind::Usage, Some("h.2.w")));
}

#[test]
fn an_expression_that_does_not_fit_names_what_is_wrong() {
    for (expression, wrong) in [
        ("7 // 2", "no remainder"),
        ("1 // 0", "another divisor than 0"),
        ("1 % 0", "another divisor than 0"),
        ("nme", "'nme'"),
        ("'a' + 1", "a number"),
        ("1 and true", "true or false"),
        ("dim('h.0.w', 2)", "axis 2"),
        ("9223372036854775807 + 1", "63 bits"),
        ("rotary_frequencies(3, 1e4)", "even"),
        ("distance_buckets(4, 1)", "distance"),
    ] {
        let error = evaluate(expression).unwrap_err().to_string();
        assert!(error.contains(wrong), "{expression}: {error}");
    }
}

#[test]
fn a_malformed_expression_is_refused_with_its_text() {
    for (expression, wrong) in [
        ("", "lacks an operand"),
        ("1 +", "lacks an operand"),
        ("1 2", "lacks an operator"),
        ("(1", "closing parenthesis"),
        ("1)", "not open"),
        ("min(1)", "takes 2"),
        ("cuont('a')", "did you mean 'count'"),
        ("(1, 2)", "comma"),
        ("'a", "does not end"),
        ("1 & 2", "unknown sign '&'"),
        ("1.2.3", "unknown number"),
        ("has('{i')", "not closed"),
        ("has('{has(x)}{y')", "not closed"),
    ] {
        let error = Expression::parse(expression).unwrap_err();
        assert!(error.contains(wrong), "{expression}: {error}");
    }
    assert!(Expression::parse(&"(".repeat(2000)).is_err());
    assert!(Expression::parse(&"1 + ".repeat(2000)).unwrap_err().contains("bytes"));
}

#[test]
fn a_text_has_expressions_in_braces_and_empty_braces_stay() {
    let none = Tensors::new(&[]);
    let mut scope = Scope::new(&none);
    scope.set("layer", Value::Int(3));
    let text = |text: &str| scope.text(&Text::parse(text).unwrap()).unwrap();
    assert_eq!(text("h.{layer + 1}.{}.{layer}"), "h.4.{}.3");
    assert!(Text::parse("{'a'}").is_err());
}

#[test]
fn buckets_of_distances_are_those_of_t5() {
    let Value::Ints(starts) = evaluate("distance_buckets(16, 128)").unwrap() else { panic!() };
    // transformers: T5Attention._relative_position_bucket, 32 buckets in both directions.
    assert_eq!(starts, [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]);
}

#[test]
fn rotary_frequencies_fall_from_one_by_equal_factors() {
    let Value::Reals(frequencies) = evaluate("rotary_frequencies(8, 10000)").unwrap() else { panic!() };
    for (found, expected) in frequencies.iter().zip([1.0, 0.1, 0.01, 0.001]) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{frequencies:?}");
    }
    let Value::Reals(halved) = evaluate("rotary_frequencies(8, 10000) / 2").unwrap() else { panic!() };
    assert_eq!(halved[0], 0.5);
}

#[test]
fn scaled_rotary_frequencies_are_those_of_transformers() {
    // modeling_rope_utils.py: _compute_yarn_parameters, _compute_longrope_parameters.
    for (expression, begin, expected) in [
        ("rotary_yarn(8, 10000, 4.0, 32.0, 1.0, 16.0, true)", 0, [1.0, 2.5e-2, 2.5e-3, 2.5e-4]),
        ("rotary_yarn(32, 10000, 4.0, 32, 1, 4096, true)", 4, [0.1, 0.056234129, 0.028234623, 0.013972196]),
        ("rotary_factors(8, 10000, rotary_frequencies(8, 16.0))", 0, [1.0, 0.2, 0.04, 0.008]),
    ] {
        let Value::Reals(found) = evaluate(expression).unwrap() else { panic!() };
        for (found, expected) in found[begin..].iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 1e-6, "{expression}: {found}");
        }
    }
    let error = evaluate("rotary_factors(8, 10000, rotary_frequencies(4, 1.0))").unwrap_err();
    assert_eq!((error.kind(), error.context().expected), (Kind::Usage, Some("4")));
}

const TWO_LAYERS: &str = r#"{
    "title": "test", "recognize": ["{prefix}w0"], "prefixes": ["", "net."], "unused": ["mask*"],
    "configurations": ["config.json"], "model_types": ["net"],
    "parameters": [
        { "name": "width", "value": "dim('{prefix}w0', 1)" },
        { "name": "slope", "config": ["slope", "old.slope"], "meaning": "the slope" },
        { "name": "bound", "config": ["bound"], "default": "6.0" }
    ],
    "requires": [{ "holds": "slope > 0", "otherwise": "a slope of {slope}" }],
    "axes": { "Gemm": ["out", "in"] },
    "inputs": [{ "name": "x", "shape": ["batch", "=width"], "example": [3, 2] }],
    "outputs": [{ "name": "y", "value": "{x}", "shape": ["batch", "free"] }],
    "blocks": { "layer": [
        { "name": "dense{n}", "op": "Gemm", "inputs": ["{x}"], "parameters": { "weight": "{prefix}w{n}", "bias": "{prefix}b{n}?" } },
        { "name": "{act}", "op": "LeakyRelu", "inputs": ["dense{n}"], "attributes": { "alpha": "=slope" }, "when": "n == 0" }
    ] },
    "nodes": [
        { "set": { "x": "x" } },
        { "repeat": "count('{prefix}w{}')", "as": "n", "nodes": [
            { "use": "layer", "with": { "act": "act{n}" } },
            { "set": { "x": "act{n}" }, "when": "n == 0" },
            { "set": { "x": "dense{n}" }, "when": "n != 0" }
        ] },
        { "name": "clip", "op": "Clip", "inputs": ["{x}"], "attributes": { "max": "=bound", "sizes": [1, "=width"] } },
        { "set": { "x": "clip" } }
    ]
}"#;

fn template(json: &str) -> Template {
    Template::parse(&ArchitectureFile::from_json(json).unwrap().named("test.json")).unwrap()
}

fn choices(settings: &[(&str, &str)]) -> Choices {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut choices = Choices::default();
    choices.settings.extend(settings);
    choices
}

fn describe(json: &str, all: &[(&str, &[u64])], settings: &[(&str, &str)]) -> Result<Described> {
    template(json).describe(&tensors(all), None, &choices(settings), &Limits::default())
}

const NET: &[(&str, &[u64])] = &[("net.w0", &[5, 4]), ("net.b0", &[5]), ("net.w1", &[2, 5])];

#[test]
fn a_template_becomes_the_graph_of_the_tensors_that_exist() {
    let described = describe(TWO_LAYERS, NET, &[("slope", "0.1")]).unwrap();
    let graph = &described.expanded.graph;
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["dense0", "act0", "dense1", "clip", "y"]);
    assert_eq!(graph.nodes[0].parameters.len(), 2);
    assert_eq!(graph.nodes[2].parameters.len(), 1, "a bias that is missing is left out");
    assert_eq!(graph.nodes[2].inputs, ["act0"]);
    assert_eq!(graph.nodes[1].attributes["alpha"], Attribute::Float(0.1));
    assert_eq!(graph.nodes[3].attributes["sizes"], Attribute::Ints(vec![1, 4]));
    assert_eq!(graph.inputs[0].shape, [None, Some(4)]);
    assert_eq!(described.expanded.axes["net.w1"], [Axis::Out, Axis::In]);
    assert!(described.unused.is_empty());
}

#[test]
fn numbers_of_the_graph_have_32_bits_and_those_of_its_operators_64() {
    let nodes = r#""nodes": [{ "set": { "x": "c" } }, { "name": "c", "op": "Constant", "attributes": { "value_float": "=1 / 3", "epsilon": "=1 / 3" } }]"#;
    let described = describe(&with_nodes(nodes), NET, &[("slope", "1")]).unwrap();
    let attributes = &described.expanded.graph.nodes[0].attributes;
    assert_eq!(attributes["value_float"], Attribute::Float(f64::from(1.0f32 / 3.0)));
    assert_eq!(attributes["epsilon"], Attribute::Float(1.0 / 3.0));
}

#[test]
fn what_only_a_configuration_states_is_asked_for() {
    let error = describe(TWO_LAYERS, NET, &[]).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let text = error.to_string();
    for part in ["the tensors do not show the slope", "slope or old.slope", "arch.slope=VALUE"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_parameter_that_the_template_does_not_have_cannot_be_set() {
    for name in ["slpe", "width"] {
        let error = describe(TWO_LAYERS, NET, &[(name, "1")]).map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("arch.{name}")) && error.contains("slope"), "{error}");
    }
}

#[test]
fn a_condition_that_does_not_hold_names_what_is_wrong() {
    let error = describe(TWO_LAYERS, NET, &[("slope", "-1")]).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("a slope of -1"), "{error}");
}

#[test]
fn tensors_that_are_missing_are_named_with_the_template_and_the_nearest() {
    let error = describe(TWO_LAYERS, &[("net.w", &[5, 4])], &[("slope", "1")]).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("test.json") && text.contains("'w0'"), "{text}");
    let bad = [("w0", &[5, 4][..]), ("w1", &[5])];
    let error = describe(TWO_LAYERS, &bad, &[("slope", "1")]).map(drop).unwrap_err().to_string();
    assert!(error.contains("tensor w1") && error.contains("2 axes out, in"), "{error}");
}

#[test]
fn weights_that_the_graph_does_not_use_are_listed_but_for_those_that_the_template_expects() {
    let mut all = NET.to_vec();
    all.extend([("mask0", &[1][..]), ("net.extra", &[1])]);
    assert_eq!(describe(TWO_LAYERS, &all, &[("slope", "1")]).unwrap().unused, ["net.extra"]);
}

fn configuration(json: &str) -> Result<Option<Configuration>> {
    let files = [("m.npz".to_owned(), Vec::new()), ("config.json".to_owned(), json.as_bytes().to_vec())];
    let input = Input::memory("m.npz", files.into());
    Configuration::beside(&input, &["config.json".to_owned()], &Limits::default())
}

#[test]
fn a_configuration_states_parameters_and_the_type_of_model() {
    let template = template(TWO_LAYERS);
    let describe = |json: &str| {
        let found = configuration(json)?;
        template.describe(&tensors(NET), found.as_ref(), &Choices::default(), &Limits::default())
    };
    let described = describe(r#"{"model_type": "net", "slope": null, "old": {"slope": 0.5}}"#).unwrap();
    assert_eq!(described.expanded.graph.nodes[1].attributes["alpha"], Attribute::Float(0.5));
    let error = describe(r#"{"model_type": "other", "slope": 1}"#).map(drop).unwrap_err();
    assert!(error.to_string().contains("'other'"), "{error}");
    assert_eq!(describe("{").map(drop).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn a_key_that_no_statement_has_is_an_error_with_its_place() {
    for (from, to, wrong) in [
        ("\"as\": \"n\", ", "", "missing field `as`"),
        ("\"when\": \"n == 0\" }\n", "\"wehn\": \"n == 0\" }\n", "unknown key 'wehn'"),
        ("\"when\": \"n == 0\" }\n", "\"as\": \"n\" }\n", "no field `as`"),
        ("dim('{prefix}w0', 1)", "dim('{prefix}w0' 1)", "lacks an operator"),
    ] {
        assert!(TWO_LAYERS.contains(from), "{from}");
        let file = ArchitectureFile::from_json(&TWO_LAYERS.replacen(from, to, 1)).unwrap();
        let error = Template::parse(&file).map(drop).unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains("field"), "{error}");
    }
}

fn with_nodes(nodes: &str) -> String {
    let (before, _) = TWO_LAYERS.split_once("\"blocks\"").unwrap();
    format!("{before} {nodes} }}")
}

#[test]
fn hostile_templates_end_at_a_limit() {
    let limits = Limits::default().with(Limit::GraphNodes, 1000);
    for nodes in [
        r#""nodes": [{ "repeat": "9000000000000000000", "as": "i", "nodes": [] }]"#,
        r#""nodes": [{ "repeat": "1000000", "as": "i", "nodes": [{ "repeat": "1000000", "as": "j", "nodes": [] }] }]"#,
        r#""blocks": { "b": [{ "use": "b" }] }, "nodes": [{ "use": "b" }]"#,
        r#""blocks": { "b": [{ "use": "c" }, { "use": "c" }], "c": [{ "use": "b" }] }, "nodes": [{ "use": "b" }]"#,
        r#""nodes": [{ "set": { "a": "xx" } }, { "repeat": "64", "as": "i", "nodes": [{ "set": { "a": "{a}{a}" } }] }]"#,
        r#""nodes": [{ "repeat": "100000", "as": "i", "nodes": [{ "name": "n{i}", "op": "Relu", "inputs": ["x"] }] }]"#,
    ] {
        let choices = choices(&[("slope", "1")]);
        let described = template(&with_nodes(nodes)).describe(&tensors(NET), None, &choices, &limits);
        assert_eq!(described.map(drop).unwrap_err().kind(), Kind::Limit, "{nodes}");
    }
}

#[test]
fn every_built_in_template_can_be_read() {
    for name in builtin::names() {
        let file = builtin::file(name).unwrap_or_else(|| panic!("{name}"));
        let template = Template::parse(&file).unwrap();
        assert_eq!(template.name(), name);
        for mapping in template.signature.mappings() {
            assert!(ckpt::Registry::builtin().mapping(mapping).is_some(), "{name}: {mapping}");
        }
    }
}
