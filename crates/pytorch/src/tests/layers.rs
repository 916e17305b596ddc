//! The modules of layers, and the steps of their tensors.

use super::*;

#[test]
fn a_dense_layer_is_linear_with_its_matrix_transposed() {
    let graph = graph(json!([null, 4]), json!([dense("dense", "x")]));
    let tensors = tensors(&[
        ("dense/kernel", json!([4, 3]), json!(["in", "out"])),
        ("dense/bias", json!([3]), json!(null)),
    ]);
    let translation = translated(&graph, &tensors);
    assert_eq!(
        made(&translation, &tensors),
        ["dense.bias <- dense/bias: ", "dense.weight <- dense/kernel: transpose"]
    );
    assert_eq!(lines(&translation), ["self.dense = nn.Linear(4, 3)", "x = self.dense(x)", "return x"]);
}

#[test]
fn convolutions_have_their_channels_first_and_depthwise_ones_in_groups() {
    let conv = |name: &str, input: &str, more: Value| {
        let parameters = json!({ "weight": format!("{name}/kernel") });
        node(name, "Conv", &[input], json!({ "parameters": parameters, "attributes": more }))
    };
    let nodes = json!([
        conv("a", "x", json!({ "strides": [2, 2], "pads": [1, 1, 1, 1] })),
        conv("b", "a", json!({ "group": 8 })),
        conv("c", "b", json!({ "group": 2, "dilations": [2, 1] })),
    ]);
    let graph = graph(json!([null, 3, 32, 32]), nodes);
    let kernel = json!(["kernel_y", "kernel_x", "in", "out"]);
    let tensors = tensors(&[
        ("a/kernel", json!([3, 3, 3, 8]), kernel.clone()),
        ("b/kernel", json!([3, 5, 8, 2]), json!(["kernel_y", "kernel_x", "in", "multiplier"])),
        ("c/kernel", json!([3, 3, 8, 4]), kernel),
    ]);
    let translation = translated(&graph, &tensors);
    let expected = [
        "a.weight <- a/kernel: permute 3 2 0 1",
        "b.weight <- b/kernel: permute 2 3 0 1, reshape 8 2 -> 16 1",
        "c.weight <- c/kernel: permute 3 2 0 1",
    ];
    assert_eq!(made(&translation, &tensors), expected);
    let expected = [
        "self.a = nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1, bias=False)",
        "self.b = nn.Conv2d(8, 16, kernel_size=(3, 5), groups=8, bias=False)",
        "self.c = nn.Conv2d(16, 4, kernel_size=3, dilation=(2, 1), groups=2, bias=False)",
    ];
    assert_eq!(lines(&translation)[..3], expected);
    assert!(translation.conventions.is_empty());
}

#[test]
fn padding_that_differs_by_side_is_stated_by_the_code_and_a_loss_without_it() {
    let parameters = json!({ "weight": "conv/kernel" });
    let pads = json!({ "strides": [2, 2], "pads": [0, 0, 1, 1] });
    let nodes =
        json!([node("conv", "Conv", &["x"], json!({ "parameters": parameters, "attributes": pads }))]);
    let graph = graph(json!([null, 3, 8, 8]), nodes);
    let tensors =
        tensors(&[("conv/kernel", json!([3, 3, 3, 4]), json!(["kernel_y", "kernel_x", "in", "out"]))]);
    let translation = translated(&graph, &tensors);
    assert!(lines(&translation).contains(&"x = F.pad(x, (0, 1, 0, 1))"), "{:?}", lines(&translation));
    assert_eq!(translation.conventions.len(), 1);
    assert_eq!(translation.conventions[0].subject, "conv");
}

#[test]
fn padding_that_depends_on_the_size_of_the_input_is_computed_by_the_code() {
    let parameters = json!({ "weight": "conv/kernel" });
    let same = json!({ "strides": [2, 2], "auto_pad": "SAME_UPPER" });
    let nodes =
        json!([node("conv", "Conv", &["x"], json!({ "parameters": parameters, "attributes": same }))]);
    let tensors =
        tensors(&[("conv/kernel", json!([3, 3, 3, 4]), json!(["kernel_y", "kernel_x", "in", "out"]))]);
    let any = graph(json!([null, 3, null, null]), nodes.clone());
    let translation = translated(&any, &tensors);
    assert!(lines(&translation).contains(&"x = pad_same(x, [3, 3], [2, 2])"));
    assert!(translation.code.as_ref().unwrap().contains("def pad_same"));
    let known = translated(&graph(json!([null, 3, 8, 9]), nodes), &tensors);
    assert!(lines(&known).contains(&"x = F.pad(x, (1, 1, 0, 1))"), "{:?}", lines(&known));
}

#[test]
fn transposed_convolutions_pad_alike_or_are_cut() {
    let up = |name: &str, input: &str, more: Value| {
        let parameters = json!({ "weight": format!("{name}/kernel") });
        node(name, "ConvTranspose", &[input], json!({ "parameters": parameters, "attributes": more }))
    };
    let nodes = json!([
        up("even", "x", json!({ "strides": [2, 2], "pads": [1, 1, 1, 1] })),
        up("longer", "even", json!({ "strides": [2, 2], "pads": [1, 1, 0, 0] })),
        up("cut", "longer", json!({ "strides": [2, 2], "pads": [0, 0, 1, 1] })),
    ]);
    let graph = graph(json!([null, 3, 8, 8]), nodes);
    let axes = json!(["kernel_y", "kernel_x", "out", "in"]);
    let tensors = tensors(&[
        ("even/kernel", json!([4, 4, 3, 3]), axes.clone()),
        ("longer/kernel", json!([3, 3, 3, 3]), axes.clone()),
        ("cut/kernel", json!([3, 3, 5, 3]), axes),
    ]);
    let translation = translated(&graph, &tensors);
    let expected = [
        "self.even = nn.ConvTranspose2d(3, 3, kernel_size=4, stride=2, padding=1, bias=False)",
        "self.longer = nn.ConvTranspose2d(3, 3, kernel_size=3, stride=2, padding=1, output_padding=1, bias=False)",
        "self.cut = nn.ConvTranspose2d(3, 5, kernel_size=3, stride=2, bias=False)",
        "x = self.even(x)",
        "x = self.longer(x)",
        "x = self.cut(x)[:, :, :-1, :-1]",
        "return x",
    ];
    assert_eq!(lines(&translation), expected);
    assert_eq!(translation.conventions.len(), 1);
    assert!(made(&translation, &tensors).contains(&"cut.weight <- cut/kernel: permute 3 2 0 1".to_owned()));
}

#[test]
fn a_batch_normalization_states_its_epsilon_and_momentum_and_lacks_what_keras_left_out() {
    let roles = |more: &[&str]| {
        let all = ["mean", "variance"].iter().chain(more);
        json!(
            all.map(|role| ((*role).to_owned(), json!(format!("norm/{role}"))))
                .collect::<serde_json::Map<_, _>>()
        )
    };
    let nodes = |more: &[&str]| {
        let attributes = json!({ "epsilon": 0.001 });
        json!([node(
            "norm",
            "BatchNormalization",
            &["x"],
            json!({ "parameters": roles(more), "attributes": attributes })
        )])
    };
    let all = ["mean", "variance", "scale", "bias"];
    let names = all.map(|role| format!("norm/{role}"));
    let tensors = tensors(&names.each_ref().map(|name| (name.as_str(), json!([4]), json!(null))));
    let of = |more: &[&str]| translated(&graph(json!([null, 4, 8, 8]), nodes(more)), &tensors);
    let both = of(&["scale", "bias"]);
    assert_eq!(lines(&both)[0], "self.norm = nn.BatchNorm2d(4, eps=0.001, momentum=0.01)");
    assert_eq!(both.counters, ["norm.num_batches_tracked"]);
    assert!(both.notes[0].contains("eps=0.001, momentum=0.01"), "{:?}", both.notes);
    assert_eq!(lines(&of(&["bias"]))[1], "self.norm.weight = None");
    assert_eq!(lines(&of(&[]))[0], "self.norm = nn.BatchNorm2d(4, eps=0.001, momentum=0.01, affine=False)");
}

#[test]
fn an_lstm_has_a_second_bias_of_zeros_and_is_batch_first_where_the_graph_turns_its_input() {
    let turn = |name: &str, input: &str| {
        node(name, "Transpose", &[input], json!({ "attributes": { "perm": [1, 0, 2] } }))
    };
    let parameters =
        json!({ "weight": "lstm/kernel", "recurrent_weight": "lstm/recurrent_kernel", "bias": "lstm/bias" });
    let nodes = json!([
        turn("t", "x"),
        node("lstm", "LSTM", &["t"], json!({ "parameters": parameters, "attributes": { "gates": "ifco" } })),
        node("s", "Squeeze", &["lstm"], json!({ "attributes": { "axes": [1] } })),
        turn("u", "s"),
    ]);
    let graph = graph(json!([null, 7, 4]), nodes);
    let tensors = tensors(&[
        ("lstm/kernel", json!([4, 20]), json!(["in", "out"])),
        ("lstm/recurrent_kernel", json!([5, 20]), json!(["in", "out"])),
        ("lstm/bias", json!([20]), json!(null)),
    ]);
    let translation = translated(&graph, &tensors);
    let expected = [
        "lstm.bias_hh_l0 <- lstm/bias: zeros of the same shape",
        "lstm.bias_ih_l0 <- lstm/bias: ",
        "lstm.weight_hh_l0 <- lstm/recurrent_kernel: transpose",
        "lstm.weight_ih_l0 <- lstm/kernel: transpose",
    ];
    assert_eq!(made(&translation, &tensors), expected);
    let expected = ["self.lstm = nn.LSTM(4, 5, batch_first=True)", "x, _ = self.lstm(x)", "return x"];
    assert_eq!(lines(&translation), expected);
    let back = translation.mapping.inverse().unwrap();
    let names = ["lstm.bias_hh_l0", "lstm.bias_ih_l0", "lstm.weight_hh_l0", "lstm.weight_ih_l0"];
    let back = back.apply(&names, &ckpt_api::Limits::default()).unwrap();
    assert!(
        back.targets.iter().any(|target| target.name == "lstm/bias" && target.recipe.describe() == "the sum")
    );
}

fn gru(flag: i64, bias: Value) -> (Graph, Vec<Tensor>) {
    let parameters =
        json!({ "weight": "gru/kernel", "recurrent_weight": "gru/recurrent_kernel", "bias": "gru/bias" });
    let attributes = json!({ "linear_before_reset": flag });
    let graph = graph(
        json!([7, null, 4]),
        json!([node("gru", "GRU", &["x"], json!({ "parameters": parameters, "attributes": attributes }))]),
    );
    let axes = json!(["in", "out"]);
    let tensors = tensors(&[
        ("gru/kernel", json!([4, 15]), axes.clone()),
        ("gru/recurrent_kernel", json!([5, 15]), axes),
        ("gru/bias", bias, json!(null)),
    ]);
    (graph, tensors)
}

#[test]
fn the_gates_of_a_gru_change_places_and_its_two_biases_are_two_tensors() {
    let (graph, tensors) = gru(1, json!([2, 15]));
    let translation = translated(&graph, &tensors);
    let expected = [
        "gru.bias_hh_l0 <- gru/bias: part 2 of 2 along axis 0, reshape 1 15 -> 15, parts 1 0 2 on 0",
        "gru.bias_ih_l0 <- gru/bias: part 1 of 2 along axis 0, reshape 1 15 -> 15, parts 1 0 2 on 0",
        "gru.weight_hh_l0 <- gru/recurrent_kernel: transpose, parts 1 0 2 on 0",
        "gru.weight_ih_l0 <- gru/kernel: transpose, parts 1 0 2 on 0",
    ];
    assert_eq!(made(&translation, &tensors), expected);
}

#[test]
fn a_gru_that_resets_before_the_product_is_a_loss_and_has_no_code() {
    let (graph, tensors) = gru(0, json!([15]));
    let translation = translated(&graph, &tensors);
    let error = translation.code.as_ref().unwrap_err().to_string();
    assert!(error.contains("'gru'") && error.contains("reset_after=False"), "{error}");
    assert_eq!(translation.conventions.len(), 1);
    assert!(translation.conventions[0].detail.contains("no equivalent"));
}

#[test]
fn a_product_with_a_constant_is_linear_whatever_axes_the_constant_has() {
    let nodes = json!([
        node("k", "Constant", &[], json!({ "parameters": { "value": "m/heads/kernel" } })),
        node("f", "Flatten", &["k"], json!({})),
        node("p", "MatMul", &["x", "f"], json!({})),
        node("r", "Reshape", &["p"], json!({ "attributes": { "shape": [0, 6, 2, 3] } })),
        node("b", "Constant", &[], json!({ "parameters": { "value": "m/heads/bias" } })),
        node("a", "Add", &["r", "b"], json!({})),
    ]);
    let graph = graph(json!([null, 6, 8]), nodes);
    let tensors = tensors(&[
        ("m/heads/kernel", json!([8, 2, 3]), json!(null)),
        ("m/heads/bias", json!([2, 3]), json!(null)),
    ]);
    let translation = translated(&graph, &tensors);
    let expected = [
        "heads.bias <- m/heads/bias: reshape 2 3 -> 6",
        "heads.weight <- m/heads/kernel: reshape 2 3 -> 6 on 1, transpose",
    ];
    assert_eq!(made(&translation, &tensors), expected);
    let expected = [
        "self.heads = nn.Linear(8, 6)",
        "x = self.heads(x)",
        "x = x.reshape(x.shape[0], 6, 2, 3)",
        "return x",
    ];
    assert_eq!(lines(&translation), expected);
}

#[test]
fn a_tensor_of_no_layer_is_a_loss_and_states_of_a_training_are_not() {
    let graph = graph(json!([null, 4]), json!([dense("dense", "x")]));
    let mut tensors = tensors(&[
        ("dense/kernel", json!([4, 3]), json!(["in", "out"])),
        ("dense/bias", json!([3]), json!(null)),
        ("left", json!([1]), json!(null)),
        ("step", json!([]), json!(null)),
    ]);
    let step = tensors.pop().unwrap();
    tensors.push(of_role(step, Role::Counter));
    let translation = translated(&graph, &tensors);
    assert_eq!(translation.losses.iter().map(|loss| loss.subject.as_str()).collect::<Vec<_>>(), ["left"]);
}
