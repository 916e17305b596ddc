//! Several layers together: images, names, variables, and what cannot be translated.

use super::*;

fn cnn(between: Value, last: &str, rest: Value) -> (Graph, Vec<Tensor>) {
    let turn = |name: &str, input: &str, perm: Value| {
        node(name, "Transpose", &[input], json!({ "attributes": { "perm": perm } }))
    };
    let conv = json!({ "parameters": { "weight": "conv/kernel" }, "attributes": { "pads": [1, 1, 1, 1] } });
    let mut nodes = vec![turn("first", "x", json!([0, 3, 1, 2])), node("conv", "Conv", &["first"], conv)];
    nodes.extend(between.as_array().unwrap().iter().cloned());
    nodes.extend([turn("last", last, json!([0, 2, 3, 1])), node("flat", "Flatten", &["last"], json!({}))]);
    nodes.extend(rest.as_array().unwrap().iter().cloned());
    let graph = graph(json!([null, 4, 4, 3]), json!(nodes));
    let tensors = tensors(&[
        ("conv/kernel", json!([3, 3, 3, 5]), json!(["kernel_y", "kernel_x", "in", "out"])),
        ("dense/kernel", json!([80, 2]), json!(["in", "out"])),
        ("dense/bias", json!([2]), json!(null)),
    ]);
    (graph, tensors)
}

#[test]
fn a_dense_layer_behind_a_flatten_takes_images_with_their_channels_first() {
    let between = json!([node("relu", "Relu", &["conv"], json!({}))]);
    let (graph, tensors) = cnn(between, "relu", json!([dense("dense", "flat")]));
    let translation = translated(&graph, &tensors);
    assert!(
        made(&translation, &tensors)
            .contains(&"dense.weight <- dense/kernel: flatten_order 16 5 on 0, transpose".to_owned())
    );
    let expected = [
        "self.conv = nn.Conv2d(3, 5, kernel_size=3, padding=1, bias=False)",
        "self.dense = nn.Linear(80, 2)",
        "x = x.permute(0, 3, 1, 2)  # channels first",
        "x = self.conv(x).relu().flatten(1)",
        "x = self.dense(x)",
        "return x",
    ];
    assert_eq!(lines(&translation), expected);
}

#[test]
fn images_that_are_joined_with_others_keep_their_order_and_the_code_moves_them() {
    let rest = json!([node("twice", "Concat", &["flat", "flat"], json!({ "attributes": { "axis": 1 } }))]);
    let (graph, mut tensors) = cnn(json!([]), "conv", rest);
    tensors.truncate(1);
    let translation = translated(&graph, &tensors);
    assert!(
        lines(&translation).contains(&"x = x.permute(0, 2, 3, 1)  # channels last"),
        "{:?}",
        lines(&translation)
    );
}

#[test]
fn a_value_that_is_needed_later_keeps_its_variable() {
    let nodes = json!([
        dense("a", "x"),
        node("relu", "Relu", &["a"], json!({})),
        node("sum", "Add", &["relu", "x"], json!({})),
    ]);
    let graph = graph(json!([null, 4]), nodes);
    let tensors =
        tensors(&[("a/kernel", json!([4, 4]), json!(["in", "out"])), ("a/bias", json!([4]), json!(null))]);
    let translation = translated(&graph, &tensors);
    assert_eq!(lines(&translation)[1..], ["relu = self.a(x).relu()", "x = relu + x", "return x"]);
}

#[test]
fn a_layer_that_is_used_twice_is_one_module() {
    let mut second = dense("a#2", "a");
    second["parameters"] = json!({ "weight": "a/kernel", "bias": "a/bias" });
    let graph = graph(json!([null, 4]), json!([dense("a", "x"), second]));
    let tensors =
        tensors(&[("a/kernel", json!([4, 4]), json!(["in", "out"])), ("a/bias", json!([4]), json!(null))]);
    let translation = translated(&graph, &tensors);
    assert_eq!(
        lines(&translation),
        ["self.a = nn.Linear(4, 4)", "x = self.a(x)", "x = self.a(x)", "return x"]
    );
}

#[test]
fn a_tensor_that_two_modules_need_in_two_ways_is_refused() {
    let other = node("b", "Gather", &["a"], json!({ "parameters": { "weight": "a/kernel" } }));
    let graph = graph(json!([null, 4]), json!([dense("a", "x"), other]));
    let mut tensors =
        tensors(&[("a/kernel", json!([4, 4]), json!(["in", "out"])), ("a/bias", json!([4]), json!(null))]);
    let error = translate(&graph, &tensors, TorchNames::Layers).unwrap_err();
    assert!(error.to_string().contains("'b'"), "{error}");
    tensors[0].axes = None;
    assert!(
        translate(&graph, &tensors, TorchNames::Layers)
            .unwrap_err()
            .to_string()
            .contains("axes are not known")
    );
}

#[test]
fn names_that_are_code_stay_names() {
    let hostile = ["a\"\"\"\nimport os", "self", "forward", "x; y", "é"];
    let mut input = "x".to_owned();
    let (mut nodes, mut described) = (Vec::new(), Vec::new());
    for name in hostile {
        let mut made = dense(name, &input);
        made["parameters"] = json!({ "weight": format!("{name}/kernel") });
        nodes.push(made);
        described.push(format!("{name}/kernel"));
        input = name.to_owned();
    }
    let mut graph = graph(json!([null, 4]), json!(nodes));
    graph.name = "a\"\"\"\nimport os".to_owned();
    graph.inputs[0].name = "x".to_owned();
    let described: Vec<(&str, Value, Value)> =
        described.iter().map(|name| (name.as_str(), json!([4, 4]), json!(["in", "out"]))).collect();
    let tensors = tensors(&described);
    let translation = translated(&graph, &tensors);
    let code = translation.code.as_ref().unwrap();
    assert!(code.is_ascii() && !code.contains("import os") && code.matches("\"\"\"").count() == 2, "{code}");
    let expected =
        ["self.a____import_os = ", "self.self_ = ", "self.forward_ = ", "self.x__y = ", "self.layer = "];
    for (line, expected) in lines(&translation).iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
}

#[test]
fn modules_are_numbered_where_that_is_asked_for() {
    let nodes = json!([dense("a", "x"), node("relu", "Relu", &["a"], json!({})), dense("b", "relu")]);
    let graph = graph(json!([null, 4]), nodes);
    let square = || (json!([4, 4]), json!(["in", "out"]));
    let (a, b) = (square(), square());
    let tensors = tensors(&[
        ("a/kernel", a.0, a.1),
        ("a/bias", json!([4]), json!(null)),
        ("b/kernel", b.0, b.1),
        ("b/bias", json!([4]), json!(null)),
    ]);
    let translation = translate(&graph, &tensors, TorchNames::Sequential).unwrap();
    let names: Vec<String> =
        made(&translation, &tensors).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["0.bias", "0.weight", "2.bias", "2.weight"]);
    let code = translation.code.as_ref().unwrap();
    assert!(code.contains("class MyModel(nn.Sequential):") && !code.contains("def forward"), "{code}");
    assert!(code.contains("            nn.Linear(4, 4),\n            nn.ReLU(),\n"), "{code}");
}

#[test]
fn a_node_without_a_form_keeps_the_mapping_and_names_itself_where_code_is_wanted() {
    let nodes = json!([dense("a", "x"), node("odd", "Trilu", &["a"], json!({})), dense("b", "odd")]);
    let graph = graph(json!([null, 4]), nodes);
    let axes = json!(["in", "out"]);
    let tensors = tensors(&[
        ("a/kernel", json!([4, 4]), axes.clone()),
        ("a/bias", json!([4]), json!(null)),
        ("b/kernel", json!([4, 4]), axes),
        ("b/bias", json!([4]), json!(null)),
    ]);
    let translation = translated(&graph, &tensors);
    assert_eq!(made(&translation, &tensors).len(), 4);
    let error = translation.code.unwrap_err().to_string();
    assert!(error.contains("'odd'") && error.contains("Trilu"), "{error}");
}

#[test]
fn constants_are_stated_and_weights_of_no_layer_are_parameters() {
    let nodes = json!([
        node("half", "Constant", &[], json!({ "attributes": { "value_float": -0.5 } })),
        node("scaled", "Mul", &["x", "half"], json!({})),
        node("list", "Constant", &[], json!({ "attributes": { "value_floats": [1.0, 2.5] } })),
        node("shifted", "Sub", &["scaled", "list"], json!({})),
        node("m/prelu/alpha", "Constant", &[], json!({ "parameters": { "value": "m/prelu/alpha" } })),
        node("out", "Mul", &["shifted", "m/prelu/alpha"], json!({})),
    ]);
    let graph = graph(json!([null, 2]), nodes);
    let tensors = tensors(&[("m/prelu/alpha", json!([2]), json!(null))]);
    let translation = translated(&graph, &tensors);
    assert_eq!(made(&translation, &tensors), ["prelu.alpha <- m/prelu/alpha: "]);
    let expected = [
        "self.prelu = nn.ParameterDict({\"alpha\": torch.zeros([2])})",
        "self.register_buffer(\"list\", torch.tensor([1.0, 2.5]), persistent=False)",
        "x = x * (-0.5)",
        "x = x - self.list",
        "alpha = self.prelu[\"alpha\"]",
        "x = x * alpha",
        "return x",
    ];
    assert_eq!(lines(&translation), expected);
}

/// Two dense layers, whose tensors have these dtypes.
fn of_dtypes(first: &str, second: &str) -> Translation {
    let graph = graph(json!([null, 4]), json!([dense("a", "x"), dense("b", "a")]));
    let mut all = Vec::new();
    for (layer, dtype) in [("a", first), ("b", second)] {
        let kernel = (format!("{layer}/kernel"), json!([4, 4]), json!(["in", "out"]));
        let bias = (format!("{layer}/bias"), json!([4]), json!(["out"]));
        let mut own = tensors(&[(&kernel.0, kernel.1, kernel.2), (&bias.0, bias.1, bias.2)]);
        own.iter_mut().for_each(|tensor| tensor.dtype = dtype.parse().unwrap());
        all.extend(own);
    }
    translated(&graph, &all)
}

#[test]
fn a_module_has_the_dtype_of_all_its_tensors() {
    for (dtype, line) in [
        ("f64", "self.to(torch.float64)"),
        ("f16", "self.to(torch.float16)"),
        ("bf16", "self.to(torch.bfloat16)"),
    ] {
        let translation = of_dtypes(dtype, dtype);
        assert!(translation.code.as_ref().unwrap().contains(&format!("        {line}\n")), "{dtype}");
        assert_eq!(translation.dtype_note, None);
    }
    let translation = of_dtypes("f32", "f32");
    assert!(!translation.code.as_ref().unwrap().contains("self.to("));
    assert_eq!(translation.dtype_note, None);
}

#[test]
fn tensors_of_several_dtypes_are_a_note() {
    let translation = of_dtypes("f32", "f64");
    assert!(!translation.code.as_ref().unwrap().contains("self.to("));
    let note = translation.dtype_note.unwrap();
    assert!(note.contains("hold weights as f32") && note.contains("f64"), "{note}");
}
