//! Tests of reading a configuration.

use super::*;
use ckpt_api::{Kind, Limit, Limits};

fn parse(text: &str) -> ckpt_api::Result<Model> {
    Model::parse(text, None, &Limits::default())
}

/// The paths of all variables in `.weights.h5`.
fn paths(text: &str) -> Vec<String> {
    parse(text).unwrap().variables().list.into_iter().map(|variable| variable.path).collect()
}

const SHARED: &str = r#"{"module": "keras.src.models.functional", "class_name": "Functional", "config": {"name": "m", "layers": [
    {"module": "keras.layers", "class_name": "InputLayer", "name": "a", "config": {"batch_shape": [null, 4], "name": "a"},
     "inbound_nodes": []},
    {"module": "keras.layers", "class_name": "Dense", "name": "d", "config": {"name": "d", "units": 4}, "inbound_nodes": [
      {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["a", 0, 0]}}], "kwargs": {}},
      {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["d", 0, 0]}}], "kwargs": {}}]}],
    "input_layers": [["a", 0, 0]], "output_layers": {"y": ["d", 1, 0]}}}"#;

#[test]
fn a_layer_that_is_used_twice_has_two_calls_and_its_variables_once() {
    let model = parse(SHARED).unwrap();
    assert_eq!(model.generation, Generation::Keras3);
    assert_eq!(model.layers[1].calls.len(), 2);
    assert_eq!(paths(SHARED), ["layers/dense/vars/0", "layers/dense/vars/1"]);
    let Structure::Functional { outputs, .. } = &model.structure else { panic!("{:?}", model.structure) };
    assert_eq!(outputs[..], [(Some("y".to_owned()), TensorRef { layer: 1, call: 1, result: 0 })]);
}

#[test]
fn variables_that_are_trained_come_first_in_the_group_of_a_nested_model() {
    let text = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "Sequential", "config": {"name": "inner", "layers": [
            {"class_name": "BatchNormalization", "config": {"name": "bn"}},
            {"class_name": "Dense", "config": {"name": "d", "use_bias": false}}]}},
        {"class_name": "Dense", "config": {"name": "d2", "trainable": false}}]}}"#;
    let variables = parse(text).unwrap().variables();
    let found: Vec<(&str, &str, usize, bool)> =
        variables.list.iter().map(|v| (v.name.as_str(), v.path.as_str(), v.position, v.is_trained)).collect();
    assert_eq!(
        found,
        [
            ("inner/bn/gamma", "layers/sequential/layers/batch_normalization/vars/0", 0, true),
            ("inner/bn/beta", "layers/sequential/layers/batch_normalization/vars/1", 1, true),
            ("inner/bn/moving_mean", "layers/sequential/layers/batch_normalization/vars/2", 3, false),
            ("inner/bn/moving_variance", "layers/sequential/layers/batch_normalization/vars/3", 4, false),
            ("inner/d/kernel", "layers/sequential/layers/dense/vars/0", 2, true),
            ("d2/kernel", "layers/dense/vars/0", 0, false),
            ("d2/bias", "layers/dense/vars/1", 1, false),
        ]
    );
}

#[test]
fn a_class_of_the_program_is_named_and_its_variables_are_unknown() {
    let text = r#"{"class_name": "Sequential", "config": {"layers": [
        {"module": "mine", "class_name": "Swirl", "registered_name": "Swirl", "config": {"name": "s"}}]}}"#;
    let variables = parse(text).unwrap().variables();
    assert_eq!(variables.unknown[0].0, "s");
    assert!(variables.unknown[0].1.contains("Swirl"), "{:?}", variables.unknown);
    let subclassed =
        parse(r#"{"module": "mine", "class_name": "MyModel", "config": {"layers": []}}"#).unwrap();
    assert!(matches!(subclassed.structure, Structure::Unknown(reason) if reason.contains("MyModel")));
}

#[test]
fn text_that_describes_no_model_is_refused() {
    for text in ["", "[", "3", "{}", r#"{"class_name": "Functional", "config": {"layers": [7]}}"#] {
        assert_eq!(parse(text).unwrap_err().kind(), Kind::Corrupt, "{text}");
    }
    let dangling = SHARED.replace("[\"a\", 0, 0]}}]", "[\"z\", 0, 0]}}]");
    assert!(
        parse(&dangling).unwrap_err().to_string().contains("layer of the model") || parse(&dangling).is_err()
    );
}

#[test]
#[cfg_attr(miri, ignore = "its deep configurations take minutes")]
fn configurations_that_are_long_or_deep_are_refused() {
    let limits = Limits::default().with(Limit::TextTokens, 10);
    assert_eq!(Model::parse(SHARED, None, &limits).unwrap_err().kind(), Kind::Limit);
    let limits = Limits::default().with(Limit::TextBytes, 10);
    assert_eq!(Model::parse(SHARED, None, &limits).unwrap_err().kind(), Kind::Limit);
    let (open, close) = (r#"{"class_name": "Sequential", "config": {"name": "m", "layers": ["#, "]}}");
    let deep = |levels: usize| parse(&format!("{}{}", open.repeat(levels), close.repeat(levels)));
    deep(16).unwrap();
    assert_eq!(deep(17).unwrap_err().kind(), Kind::Limit);
    assert_eq!(deep(1000).unwrap_err().kind(), Kind::Corrupt);
}

/// A Sequential model of Keras 1 with these layers.
fn keras_1(layers: &str) -> Model {
    let text = format!(r#"{{"class_name": "Sequential", "config": [{layers}]}}"#);
    Model::parse(&text, Some("1.2.2"), &Limits::default()).unwrap()
}

#[test]
fn a_model_of_keras_1_is_read_by_its_own_names_of_options() {
    let model = keras_1(
        r#"{"class_name": "Convolution2D", "config": {"name": "c", "batch_input_shape": [null, 8, 8, 3], "nb_filter": 4,
            "nb_row": 3, "nb_col": 2, "border_mode": "same", "subsample": [2, 2], "activation": "relu", "dim_ordering": "tf"}},
           {"class_name": "Flatten", "config": {"name": "f"}},
           {"class_name": "Dense", "config": {"name": "d", "output_dim": 5, "bias": false}}"#,
    );
    let graph = model.graph().unwrap();
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Transpose", "Conv", "Relu", "Transpose", "Flatten", "Gemm"]);
    assert_eq!(graph.nodes[1].ints("pads").unwrap(), Some(&[0, 0, 1, 0][..]));
    assert_eq!(graph.outputs[0].shape, [None, Some(5)]);
}

#[test]
fn what_keras_1_stores_otherwise_is_named() {
    let reason = |layer: &str| keras_1(layer).graph().unwrap_err().reason;
    let lstm = r#"{"class_name": "LSTM", "config": {"name": "l", "batch_input_shape": [null, 4, 3], "output_dim": 2}}"#;
    assert!(reason(lstm).contains("layer 'l'") && reason(lstm).contains("gates"), "{}", reason(lstm));
    let theano = r#"{"class_name": "Convolution2D", "config": {"name": "c", "batch_input_shape": [null, 3, 8, 8],
        "nb_filter": 4, "nb_row": 3, "nb_col": 3, "dim_ordering": "th"}}"#;
    assert!(reason(theano).contains("Theano"), "{}", reason(theano));
}

#[test]
fn an_option_that_no_operator_computes_is_named_with_its_layer_and_class() {
    let reason = |layer: &str| {
        let text = format!(
            r#"{{"class_name": "Sequential", "config": {{"name": "m", "layers": [
                {{"class_name": "InputLayer", "config": {{"name": "i", "batch_shape": [null, 4, 4]}}}}, {layer}]}}}}"#
        );
        parse(&text).unwrap().graph().unwrap_err().reason
    };
    for (layer, words) in [
        (
            r#"{"class_name": "Lambda", "config": {"name": "l", "function": ["4wEAAAA=", null, null]}}"#,
            ["'l'", "Lambda", "never run"],
        ),
        (
            r#"{"class_name": "Conv1D", "config": {"name": "c", "filters": 2, "kernel_size": 2, "padding": "odd"}}"#,
            ["'c'", "Conv1D", "'odd'"],
        ),
        (
            r#"{"class_name": "LSTM", "config": {"name": "r", "units": 2, "activation": "mish"}}"#,
            ["'r'", "LSTM", "'mish'"],
        ),
        (
            r#"{"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "mine"}}"#,
            ["'d'", "Dense", "'mine'"],
        ),
        (r#"{"class_name": "Dense", "config": {"name": "d", "units": "two"}}"#, ["'d'", "Dense", "'units'"]),
        (
            r#"{"class_name": "Dense", "config": {"name": "q", "units": 2, "dtype": {"config": {"mode": "int8"}}}}"#,
            ["'q'", "Dense", "int8"],
        ),
        (
            r#"{"class_name": "Swirl", "module": "mine", "config": {"name": "s"}}"#,
            ["'s'", "Swirl", "program's own"],
        ),
    ] {
        let found = reason(layer);
        assert!(words.iter().all(|word| found.contains(word)), "{found}");
    }
}

#[test]
fn a_policy_of_16_bits_is_seen_in_nested_models_too() {
    let dense = |dtype: &str| {
        format!(
            r#"{{"class_name": "Sequential", "config": {{"name": "m", "layers": [
                {{"class_name": "Sequential", "config": {{"name": "n", "layers": [
                    {{"class_name": "Dense", "config": {{"name": "d", "units": 2, "dtype": {dtype}}}}}]}}}}]}}}}"#
        )
    };
    for (dtype, is_half) in [
        (r#""float32""#, false),
        (r#""bfloat16""#, true),
        (r#"{"class_name": "DTypePolicy", "config": {"name": "mixed_float16"}}"#, true),
        (r#"{"class_name": "DTypePolicy", "config": {"name": "float32"}}"#, false),
    ] {
        assert_eq!(parse(&dense(dtype)).unwrap().computes_in_16_bits(), is_half, "{dtype}");
    }
}

#[test]
fn a_layer_that_is_quantized_or_has_lora_is_found_in_nested_models_too() {
    let dense = |options: &str| {
        let text = format!(
            r#"{{"class_name": "Sequential", "config": {{"name": "m", "layers": [
                {{"class_name": "Sequential", "config": {{"name": "n", "layers": [
                    {{"class_name": "Dense", "config": {{"name": "d", "units": 2{options}}}}}]}}}}]}}}}"#
        );
        parse(&text).unwrap().altered_layer().map(str::to_owned)
    };
    assert_eq!(dense(""), None);
    assert_eq!(dense(r#", "lora_rank": null"#), None);
    assert_eq!(dense(r#", "lora_rank": 2"#), Some("d".to_owned()));
    assert_eq!(dense(r#", "dtype": {"config": {"mode": "int8"}}"#), Some("d".to_owned()));
}

/// A functional model in which the model `inner` is called twice, with these outputs; `first` is the number of its first
/// call where an argument refers to it.
fn nested_twice(first: usize, outputs: &str) -> String {
    let input = |name: &str| {
        format!(
            r#"{{"class_name": "InputLayer", "name": "{name}", "config": {{"batch_shape": [null, 4], "name": "{name}"}},
                "inbound_nodes": []}}"#
        )
    };
    let call = |name: &str, number: usize| {
        format!(
            r#"{{"args": [{{"class_name": "__keras_tensor__", "config": {{"keras_history": ["{name}", {number}, 0]}}}}],
                "kwargs": {{}}}}"#
        )
    };
    format!(
        r#"{{"class_name": "Functional", "config": {{"name": "m", "layers": [{},
            {{"class_name": "Functional", "name": "inner", "config": {{"name": "inner", "layers": [{},
                {{"class_name": "Dense", "name": "d", "config": {{"name": "d", "units": 4}}, "inbound_nodes": [{}]}}],
              "input_layers": [["i", 0, 0]], "output_layers": [["d", 0, 0]]}}, "inbound_nodes": [{}, {}]}}],
            "input_layers": [["x", 0, 0]], "output_layers": {outputs}}}}}"#,
        input("x"),
        input("i"),
        call("i", 0),
        call("x", 0),
        call("inner", first),
    )
}

/// The calls of the outputs, and the call that the second one of `inner` takes.
fn numbered(text: &str, version: &str) -> (Vec<usize>, usize) {
    let model = Model::parse(text, Some(version), &Limits::default()).unwrap();
    let Structure::Functional { outputs, .. } = &model.structure else { panic!("{:?}", model.structure) };
    let outputs = outputs.iter().map(|(_, end)| end.call).collect();
    (outputs, model.layers[1].calls[1].references()[0].call)
}

#[test]
fn keras_3_counts_a_models_call_with_its_own_inputs_among_outputs_alone() {
    let both = r#"[["inner", 2, 0], ["inner", 1, 0]]"#;
    assert_eq!(numbered(&nested_twice(0, both), "3.15.1"), (vec![1, 0], 0));
    // Nothing but the generation tells here.
    assert_eq!(numbered(&nested_twice(0, r#"[["inner", 1, 0]]"#), "3.15.1"), (vec![0], 0));
}

#[test]
fn keras_2_counts_a_models_call_with_its_own_inputs_everywhere() {
    let both = r#"[["inner", 2, 0], ["inner", 1, 0]]"#;
    assert_eq!(numbered(&nested_twice(1, both), "2.21.0"), (vec![1, 0], 0));
    assert_eq!(numbered(&nested_twice(1, r#"[["inner", 1, 0]]"#), "2.21.0"), (vec![0], 0));
}

#[test]
fn calls_that_are_counted_from_0_stay() {
    let both = r#"[["inner", 1, 0], ["inner", 0, 0]]"#;
    assert_eq!(numbered(&nested_twice(0, both), "2.21.0"), (vec![1, 0], 0));
    assert_eq!(numbered(&nested_twice(0, both), "3.15.1"), (vec![1, 0], 0));
}

#[test]
fn a_softmax_over_all_values_has_no_graph() {
    let text = |axis: &str| {
        format!(
            r#"{{"class_name": "Sequential", "config": {{"name": "m", "layers": [
                {{"class_name": "InputLayer", "config": {{"name": "x", "batch_shape": [null, 4]}}}},
                {{"class_name": "Softmax", "config": {{"name": "s", "axis": {axis}}}}}]}}}}"#
        )
    };
    assert!(parse(&text("-1")).unwrap().graph().is_ok());
    let refused = parse(&text("null")).unwrap().graph().unwrap_err();
    assert!(refused.reason.contains("all values together"), "{}", refused.reason);
}

#[test]
fn a_relu_with_a_threshold_keeps_what_is_above_it() {
    let text = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 4]}},
        {"class_name": "ReLU", "config": {"name": "r", "threshold": 1.0, "max_value": 3.0}}]}}"#;
    let graph = parse(text).unwrap().graph().unwrap();
    let ops: Vec<String> = graph.nodes.iter().map(|node| node.op.to_string()).collect();
    assert_eq!(ops, ["Constant", "Less", "Clip", "Constant", "Where"]);
    // The threshold is less than the value, so a value that equals it is not kept.
    let less = &graph.nodes[1];
    assert_eq!(less.inputs[1], graph.inputs[0].name);
}

/// The graph of a functional model in which an operation of `keras.ops` is called with `x` of this type.
fn operation(dtype: &str, class: &str, config: &str, more: &str) -> Result<ckpt_api::Graph, NoGraph> {
    let x = r#"{"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}"#;
    let text = format!(
        r#"{{"module": "keras.src.models.functional", "class_name": "Functional", "config": {{"name": "m", "layers": [
            {{"module": "keras.layers", "class_name": "InputLayer", "name": "x",
              "config": {{"batch_shape": [null, 4], "name": "x", "dtype": "{dtype}"}}, "inbound_nodes": []}},
            {{"module": "keras.src.ops.numpy", "class_name": "{class}", "name": "o", "config": {{"name": "o"{config}}},
              "inbound_nodes": [{{"args": [{x}{more}], "kwargs": {{}}}}]}}],
            "input_layers": [["x", 0, 0]], "output_layers": [["o", 0, 0]]}}}}"#
    );
    parse(&text).unwrap().graph()
}

#[test]
fn an_option_of_an_operation_that_changes_its_result_is_refused_by_name() {
    operation("float32", "Max", r#", "axis": 1, "keepdims": false, "initial": null"#, "").unwrap();
    operation("float32", "Round", r#", "decimals": 0"#, "").unwrap();
    for (class, config, option) in [
        ("Max", r#", "axis": 1, "initial": 0.5"#, "'initial'"),
        ("Round", r#", "decimals": 1"#, "'decimals'"),
        ("Sum", r#", "where": true"#, "'where'"),
    ] {
        let refused = operation("float32", class, config, "").unwrap_err();
        assert!(refused.reason.contains(option), "{}", refused.reason);
    }
}

#[test]
fn arithmetic_of_integers_of_few_bits_is_refused() {
    for (class, more) in [
        ("Multiply", ", 2"),
        ("Subtract", ", 1"),
        ("Power", ", 2"),
        ("Square", ""),
        ("Negative", ""),
        ("Sum", ""),
    ]
    .into_iter()
    .take(if cfg!(miri) { 1 } else { 6 })
    {
        let refused = operation("uint8", class, "", more).unwrap_err();
        assert!(refused.reason.contains("wrap around"), "{class}: {}", refused.reason);
        operation("int32", class, "", more).unwrap();
    }
    operation("uint8", "Maximum", "", ", 2").unwrap();
    operation("uint8", "Divide", "", ", 2").unwrap();
    operation("uint8", "Mean", "", "").unwrap();
}

#[test]
fn new_axes_are_counted_in_the_result() {
    let graph = operation("float32", "ExpandDims", r#", "axis": [3, 1]"#, "").unwrap();
    assert_eq!(graph.outputs[0].shape, [None, Some(1), Some(4), Some(1)]);
}

#[test]
fn integers_are_cast_where_a_layer_computes_with_real_numbers() {
    let text = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 4], "dtype": "int32"}},
        {"class_name": "Dense", "config": {"name": "d", "units": 2}}]}}"#;
    let ops: Vec<String> =
        parse(text).unwrap().graph().unwrap().nodes.iter().map(|node| node.op.to_string()).collect();
    assert_eq!(ops, ["Cast", "Gemm"]);
}

#[test]
fn an_outline_has_the_layers_whose_variables_are_known() {
    let text = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [null, 4]}},
        {"class_name": "Dense", "config": {"name": "a", "units": 3}},
        {"class_name": "Lambda", "config": {"name": "code"}},
        {"module": "mine", "class_name": "Swirl", "registered_name": "Swirl", "config": {"name": "s"}},
        {"class_name": "Dense", "config": {"name": "b", "units": 2}}]}}"#;
    let model = parse(text).unwrap();
    assert!(model.graph().unwrap_err().reason.contains("'code' (Lambda)"));
    let outline = model.outline().unwrap();
    let mut tensors: Vec<&str> = outline.tensors().collect();
    tensors.sort_unstable();
    assert_eq!(tensors, ["a/bias", "a/kernel", "b/bias", "b/kernel"]);
}

#[test]
fn an_outline_does_not_guess_how_an_image_is_flattened() {
    let text = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [null, 4, 4, 3]}},
        {"class_name": "Lambda", "config": {"name": "code"}},
        {"class_name": "Flatten", "config": {"name": "f"}},
        {"class_name": "Dense", "config": {"name": "b", "units": 2}}]}}"#;
    let reason = parse(text).unwrap().outline().unwrap_err().reason;
    assert!(reason.contains("'f' (Flatten)") && reason.contains("not known"), "{reason}");
}

#[test]
fn a_quantized_layer_has_no_outline() {
    let text = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [null, 4]}},
        {"class_name": "Dense", "config": {"name": "a", "units": 3, "dtype": {"class_name": "QuantizedDTypePolicy",
         "config": {"mode": "int8"}}}}]}}"#;
    assert!(parse(text).unwrap().outline().unwrap_err().reason.contains("quantized"));
}
