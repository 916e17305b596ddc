//! Rules of single operations. What they compute is compared with PaddlePaddle by `tests/interop/paddle_files.py`.

use super::*;
use ckpt_api::{Attribute, DType, Op, Shape};
use serde_json::{Value as Json, json};

/// A program: operations in their order, with the numbers of their values.
#[derive(Default)]
struct Written {
    operations: Vec<Json>,
    tensors: Vec<Tensor>,
    last: u64,
}

impl Written {
    /// A program with the input `x`, which is value 1.
    fn of(shape: &[i64]) -> Self {
        let mut written = Written::default();
        written.add("data", json!({"name": "x", "shape": shape}), &[]);
        written
    }

    /// Adds an operation; returns the number of its result.
    fn add(&mut self, name: &str, attributes: Json, inputs: &[u64]) -> u64 {
        self.typed("f32", name, attributes, inputs)
    }

    /// Adds an operation whose result has this type.
    fn typed(&mut self, dtype: &str, name: &str, attributes: Json, inputs: &[u64]) -> u64 {
        self.last += 1;
        let attributes = attributes.as_object().unwrap().iter();
        let attributes: Vec<Json> =
            attributes.map(|(name, value)| json!({"N": name, "AT": {"D": value}})).collect();
        let inputs: Vec<Json> = inputs.iter().map(|number| json!({"%": number})).collect();
        let output =
            json!([{"%": self.last, "TT": {"#": "0.t_dtensor", "D": [{"#": format!("0.t_{dtype}")}, [-1]]}}]);
        self.operations.push(json!({"#": format!("1.{name}"), "A": attributes, "I": inputs, "O": output}));
        self.last
    }

    /// Adds a parameter.
    fn parameter(&mut self, name: &str, shape: &[u64]) -> u64 {
        self.tensors.push(Tensor::new(name, DType::F32, Shape::new(shape.to_vec()).unwrap()));
        self.variable(name, shape, 1)
    }

    fn variable(&mut self, name: &str, shape: &[u64], persistable: u8) -> u64 {
        self.last += 1;
        let output = json!({"%": self.last, "TT": {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, shape]}});
        self.operations.push(json!({"#": "p", "A": [0, 1, 1, name], "O": output, "OA": [persistable, 0, 1]}));
        self.last
    }

    /// The program.
    fn parse(&self) -> Result<Program, String> {
        let text = json!({"base_code": {"magic": "pir"}, "program": {"regions": [{"blocks": [{"ops": self.operations}]}]}});
        Program::parse(text.to_string().as_bytes(), &Limits::default())
    }

    /// The graph whose results are these values.
    fn graph(mut self, results: &[u64]) -> Result<Graph, String> {
        for (at, result) in results.iter().enumerate() {
            self.add("fetch", json!({"name": format!("y{at}")}), &[*result]);
        }
        self.parse()?.graph(&mut self.tensors)
    }
}

/// The graph of one operation that takes an input of this shape.
fn graph(name: &str, attributes: Json, shape: &[i64]) -> Result<Graph, String> {
    let mut written = Written::of(shape);
    let result = written.add(name, attributes, &[1]);
    written.graph(&[result])
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn images_with_their_channels_last_are_refused() {
    let windows = json!({"kernel_size": [2, 2], "strides": [2, 2], "paddings": [0, 0]});
    let resized = json!({"out_h": 8, "out_w": 8, "align_mode": 0});
    for (name, own) in [
        ("max_pool2d_with_index", windows),
        ("batch_norm_", json!({"is_test": true, "epsilon": 1e-5})),
        ("instance_norm", json!({"epsilon": 1e-5})),
        ("group_norm", json!({"epsilon": 1e-5, "groups": 2})),
        ("prelu", json!({"mode": "all"})),
        ("nearest_interp", resized),
        ("pixel_shuffle", json!({"upscale_factor": 2})),
    ] {
        let graph = |format: &str| {
            let mut own = own.clone();
            own["data_format"] = format.into();
            graph(name, own, &[-1, 4, 6, 6])
        };
        let why = graph("NHWC").unwrap_err();
        assert!(
            why.ends_with("takes images with their channels last, which is not supported"),
            "{name}: {why}"
        );
        // Its slopes are not stated here.
        assert_eq!(graph("NCHW").is_ok(), name != "prelu", "{name}");
    }
}

/// The graph of a pooling of a window of 3 by 3 and strides of 2.
fn pooled(kind: &str, paddings: &[i64], others: Json, shape: &[i64]) -> Result<Graph, String> {
    let mut own = json!({"pooling_type": kind, "strides": [2, 2], "paddings": paddings});
    own.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
    let mut written = Written::of(shape);
    let kernel = written.add("full_int_array", json!({"value": [3, 3]}), &[]);
    let result = written.add("pool2d", own, &[1, kernel]);
    written.graph(&[result])
}

#[test]
fn a_mean_counts_as_much_padding_behind_a_side_as_before_it() {
    let mean = |paddings: &[i64], exclusive: bool| {
        pooled("avg", paddings, json!({"exclusive": exclusive}), &[-1, 4, 7, 7])
    };
    for alike in [&[1, 1][..], &[0, 0, 0, 0], &[1, 0, 1, 1]] {
        let graph = mean(alike, false).unwrap();
        assert!(graph.nodes[0].attributes.contains_key("count_include_pad"), "{alike:?}");
    }
    let why = mean(&[0, 1, 1, 1], false).unwrap_err();
    assert!(why.starts_with("pool2d (operation 2) counts padding of which more is behind"), "{why}");
    assert!(!mean(&[0, 1, 1, 1], true).unwrap().nodes[0].attributes.contains_key("count_include_pad"));
}

#[test]
fn windows_are_rounded_up_if_the_last_one_covers_a_pixel() {
    let pooled = |paddings: &[i64], shape: &[i64]| {
        let graph = pooled("max", paddings, json!({"ceil_mode": true}), shape)?;
        Ok::<_, String>(graph.outputs[0].shape[2..].to_vec())
    };
    assert_eq!(pooled(&[0, 0], &[-1, 4, 8, 7]), Ok(vec![Some(4), Some(3)]));
    // Whatever the size: what begins before the end begins in the image.
    assert_eq!(pooled(&[1, 1], &[-1, 4, -1, -1]), Ok(vec![None; 2]));
    assert_eq!(pooled(&[2, 1, 2, 1], &[-1, 4, -1, -1]), Ok(vec![None; 2]));
    let why = pooled(&[0, 2, 0, 2], &[-1, 4, -1, -1]).unwrap_err();
    assert!(why.ends_with("may have a last window that covers only padding"), "{why}");
    let why = pooled(&[0, 2, 0, 2], &[-1, 4, 8, 8]).unwrap_err();
    assert!(why.ends_with("has a last window that covers only padding"), "{why}");
}

#[test]
fn a_bias_becomes_part_of_the_layer_that_was_just_made() {
    let mut written = Written::of(&[-1, 5]);
    let (w, b) = (written.parameter("w", &[5, 4]), written.parameter("b", &[4]));
    let (v, c) = (written.parameter("v", &[5, 4]), written.parameter("c", &[4]));
    let first = written.add("matmul", json!({}), &[1, w]);
    let first = written.add("add", json!({}), &[first, b]);
    let second = written.add("matmul", json!({}), &[1, v]);
    let third = written.add("relu", json!({}), &[first]);
    let second = written.add("add", json!({}), &[second, c]);
    let sum = written.add("add", json!({}), &[third, second]);
    let graph = written.graph(&[sum]).unwrap();
    assert_eq!(ops(&graph), ["Gemm", "Gemm", "Relu", "Constant", "Add", "Add"]);
    let biases = graph.nodes.iter().map(|node| node.parameters.get("bias").map(String::as_str));
    assert!(biases.eq([Some("b"), None, None, None, None, None]));
}

#[test]
fn a_value_is_split_into_as_many_parts_as_a_graph_can_have() {
    let split = |len: i64, count: i64| {
        let mut written = Written::of(&[-1, len]);
        let axis = written.add("full", json!({"shape": [1], "value": 1.0}), &[]);
        let parts = written.add("split_with_num", json!({"num": count}), &[1, axis]);
        let part = written.add("split", json!({}), &[parts]);
        written.graph(&[part])
    };
    assert_eq!(split(6, 2).unwrap().outputs[0].shape[..], [None, Some(3)]);
    assert!(split(6, 4).unwrap_err().ends_with("divides [?, 6] into 4 parts"));
    let why = split(1 << 40, 1 << 40).unwrap_err();
    assert!(why.ends_with("has too many parts"), "{why}");
}

#[test]
fn a_squeeze_removes_only_axes_of_length_1() {
    let squeezed = |axes: &[i64], shape: &[i64]| {
        let mut written = Written::of(shape);
        let axes = written.add("full_int_array", json!({"value": axes}), &[]);
        let result = written.add("squeeze", json!({}), &[1, axes]);
        written.graph(&[result]).map(|graph| graph.outputs[0].shape.to_vec())
    };
    let shape = [-1, 1, 3, 1];
    assert_eq!(squeezed(&[1], &shape), Ok(vec![None, Some(3), Some(1)]));
    assert_eq!(squeezed(&[2, -1], &shape), Ok(vec![None, Some(1), Some(3)]));
    assert_eq!(squeezed(&[], &shape), Ok(vec![None, Some(3)]));
    let why = squeezed(&[0], &shape).unwrap_err();
    assert!(why.contains("removes axes [0] of [?, 1, 3, 1], of which one may be longer than 1"), "{why}");
}

#[test]
fn a_parameter_that_is_not_persistable_has_no_record() {
    let mut written = Written::of(&[-1, 5]);
    written.variable("lstm_0.dropout_state__non_persistable", &[], 0);
    let w = written.parameter("w", &[5, 4]);
    let names: Vec<String> =
        written.parse().unwrap().parameters().iter().map(|own| own.name.clone()).collect();
    assert_eq!(names, ["w"]);
    let result = written.add("matmul", json!({}), &[1, w]);
    assert_eq!(ops(&written.graph(&[result]).unwrap()), ["Gemm"]);
}

#[test]
fn pooling_of_three_sides_states_its_window_as_an_attribute() {
    let own =
        json!({"pooling_type": "avg", "kernel_size": [2, 3, 1], "strides": [2, 3, 1], "paddings": [0, 0, 0]});
    let graph = graph("pool3d", own, &[-1, 4, 6, 6, 5]).unwrap();
    assert_eq!(graph.outputs[0].shape[..], [None, Some(4), Some(3), Some(2), Some(5)]);
}

#[test]
fn convolutions_of_one_side_are_ones_of_images_of_one_column() {
    for (name, op, shape) in [
        ("conv2d", "Conv", [Some(3), Some(4), Some(1)]),
        ("conv2d_transpose", "ConvTranspose", [Some(4), Some(17), Some(1)]),
    ] {
        let mut written = Written::of(&[-1, 4, 8]);
        let kernel = written.parameter("w", if name == "conv2d" { &[3, 4, 3] } else { &[4, 4, 3] });
        let axes = written.add("full_int_array", json!({"value": [-1]}), &[]);
        let image = written.add("unsqueeze", json!({}), &[1, axes]);
        let kernel = written.add("unsqueeze", json!({}), &[kernel, axes]);
        let window = json!({"strides": [2, 1], "paddings": [if name == "conv2d" { 1 } else { 0 }, 0],
            "output_padding": [], "groups": 1});
        let result = written.add(name, window, &[image, kernel]);
        let graph = written.graph(&[result]).unwrap();
        assert_eq!(graph.nodes.last().unwrap().op.name(), op);
        assert_eq!(graph.outputs[0].shape[1..], shape, "{name}");
    }
}

#[test]
fn a_cast_makes_another_kind_of_numbers() {
    let cast = |from: &str, to: &str| {
        let mut written = Written::default();
        let x = written.typed(from, "data", json!({"name": "x", "shape": [-1, 3]}), &[]);
        let result = written.typed(to, "cast", json!({}), &[x]);
        let node = written.graph(&[result])?.nodes.remove(0);
        Ok::<_, String>((node.op, node.attributes.get("to").cloned()))
    };
    for (from, to) in [("f64", "f32"), ("f32", "f64"), ("i32", "i64"), ("bool", "bool")] {
        assert_eq!(cast(from, to), Ok((Op::Identity, None)), "{from} to {to}");
    }
    for (from, to, kind) in
        [("i64", "f32", "float"), ("bool", "f32", "float"), ("f32", "i32", "int"), ("i64", "bool", "bool")]
    {
        let kind = Attribute::Text(kind.to_owned());
        assert_eq!(cast(from, to), Ok((Op::Cast, Some(kind))), "{from} to {to}");
    }
    assert!(cast("f32", "i8").unwrap_err().ends_with("makes i8 of f32, which is not supported"));
}

#[test]
fn a_matrix_that_is_also_an_embedding_is_multiplied_as_it_is() {
    let mut written = Written::default();
    let x = written.typed("i64", "data", json!({"name": "x", "shape": [-1, 7]}), &[]);
    let w = written.parameter("w", &[10, 4]);
    let rows = written.add("embedding", json!({"padding_idx": -1}), &[x, w]);
    let result = written.add("matmul", json!({"transpose_y": true}), &[rows, w]);
    let graph = written.graph(&[result]).unwrap();
    assert_eq!(ops(&graph), ["Gather", "Constant", "Transpose", "MatMul"]);
    assert_eq!(graph.outputs[0].shape[..], [None, Some(7), Some(10)]);
}

#[test]
fn powers_sums_of_lists_and_products_of_batches_are_read() {
    let power = graph("pow", json!({"y": ["float64", 1.5]}), &[-1, 3]).unwrap();
    assert_eq!(ops(&power), ["Constant", "Pow"]);
    let mut written = Written::of(&[-1, 3, 3]);
    let square = written.add("bmm", json!({}), &[1, 1]);
    let all = written.add("combine", json!({}), &[1, square, 1]);
    let sum = written.add("add_n", json!({}), &[all]);
    assert_eq!(ops(&written.graph(&[sum]).unwrap()), ["MatMul", "Add", "Add"]);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of values")]
fn a_long_list_that_many_operations_take_needs_linear_time() {
    let mut written = Written::of(&[-1, 3]);
    let list = written.add("combine", json!({}), &vec![1; 40_000]);
    let last = (0..4_000).map(|_| written.add("split", json!({}), &[list])).last();
    assert_eq!(ops(&written.graph(&[last.unwrap()]).unwrap()), ["Identity"]);
}

#[test]
fn more_integers_than_axes_have_are_refused() {
    let mut written = Written::of(&[-1, 3]);
    let axes = written.add("full_int_array", json!({"value": vec![0; 1000]}), &[]);
    let result = written.add("reshape", json!({}), &[1, axes]);
    let why = written.graph(&[result]).unwrap_err();
    assert_eq!(why, "reshape (operation 2) takes 1000 integers as input 1, which are too many");
}
