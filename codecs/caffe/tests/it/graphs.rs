//! One test for each rule of the layers of a `.prototxt`.

use crate::build::{blob, input, layer, model, old_layer, single};
use ckpt_api::{Contents, Graph};
use ckpt_caffe::Caffe;

const INPUT: &str = "layer { name: 'data' type: 'Input' top: 'data' input_param { shape: { dim: 1 dim: 2 dim: 6 dim: 5 } } }\n";

fn read(model: Vec<u8>, text: &str) -> Contents {
    let contents = ckpt_conformance::read(&Caffe, &input(model, text), &[]).unwrap().0;
    contents.check(&ckpt_api::Limits::default()).unwrap();
    contents
}

/// The graph of layers on an image of 2 channels.
fn graph(layers: &[Vec<u8>], text: &str) -> Graph {
    let contents = read(model(layers), &format!("{INPUT}{text}"));
    let missing = contents.missing_graph.clone();
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{missing:?}"))
}

/// Why there is no graph.
fn reason(layers: &[Vec<u8>], text: &str) -> String {
    let contents = read(model(layers), &format!("{INPUT}{text}"));
    contents.missing_graph.expect("no graph").reason.as_str().to_owned()
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph
        .nodes
        .iter()
        .map(|node| node.op.name())
        .filter(|op| !matches!(*op, "Constant" | "Reshape"))
        .collect()
}

fn outputs(graph: &Graph) -> Vec<(&str, &[Option<u64>])> {
    graph.outputs.iter().map(|output| (output.name.as_str(), &output.shape[..])).collect()
}

fn any() -> Vec<Vec<u8>> {
    vec![layer("other", "Scale", &[single(1.0)])]
}

#[test]
fn layers_that_name_their_input_again_follow_each_other() {
    let text = "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'x' relu_param { negative_slope: 0.1 } }
        layer { name: 's' type: 'Sigmoid' bottom: 'x' top: 'x' } layer { name: 'd' type: 'Dropout' bottom: 'x' top: 'x' }";
    let graph = graph(&any(), text);
    assert_eq!(ops(&graph), ["LeakyRelu", "Sigmoid", "Identity"]);
    assert_eq!(outputs(&graph), [("x", &[None, Some(2), Some(6), Some(5)][..])]);
}

#[test]
fn pooling_rounds_up_within_the_padded_image() {
    let text = |options: &str| {
        format!("layer {{ name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param {{ {options} }} }}")
    };
    for (options, rows, columns) in [
        ("kernel_size: 2 stride: 2", 3, 3),
        ("kernel_size: 3 stride: 2", 3, 2),
        // The window that would begin in the padding is not there.
        ("kernel_size: 3 stride: 3 pad: 1", 3, 2),
        ("kernel_h: 2 kernel_w: 5 stride_h: 4 pool: AVE", 2, 1),
        ("kernel_size: 2 stride: 2 round_mode: FLOOR", 3, 2),
        ("global_pooling: true", 1, 1),
    ] {
        let graph = graph(&any(), &text(options));
        assert_eq!(outputs(&graph), [("p", &[None, Some(2), Some(rows), Some(columns)][..])], "{options}");
    }
    assert!(reason(&any(), &text("kernel_size: 1 stride: 5")).contains("begins behind its image"));
    assert!(reason(&any(), &text("kernel_size: 2 pool: STOCHASTIC")).contains("STOCHASTIC"));
}

#[test]
fn statistics_are_divided_by_the_third_blob() {
    let text = "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' }";
    let bn = |factor: f32| vec![layer("bn", "BatchNorm", &[blob(&[2]), blob(&[2]), single(factor)])];
    let plain = ["Sub", "Add", "Sqrt", "Div"];
    assert_eq!(ops(&graph(&bn(1.0), text)), plain);
    let divided = ["Reciprocal", "Mul", "Reciprocal", "Mul", "Sub", "Add", "Sqrt", "Div"];
    assert_eq!(ops(&graph(&bn(999.98), text)), divided);
    assert_eq!(ops(&graph(&bn(0.0), text)), ["Mul", "Mul", "Sub", "Add", "Sqrt", "Div"]);
}

#[test]
fn layers_for_training_are_left_out() {
    let text = "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' }
        layer { name: 't' type: 'Unknown' top: 't' include { phase: TRAIN } }
        layer { name: 'u' type: 'Unknown' top: 'u' exclude { phase: TEST } }
        layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'a' top: 'loss' }";
    let contents = read(model(&any()), &format!("{INPUT}{text}"));
    assert_eq!(outputs(contents.checkpoint.graph.as_ref().unwrap()).len(), 1);
    assert!(
        contents.all_notes().any(|note| note.contains("layer 'loss' (SoftmaxWithLoss) is not in the graph"))
    );
}

#[test]
fn texts_of_2014_state_inputs_outside_of_layers() {
    let text = "input: 'data' input_dim: 1 input_dim: 2 input_dim: 6 input_dim: 5
        layers { name: 'fc' type: INNER_PRODUCT bottom: 'data' top: 'fc' inner_product_param { num_output: 3 } }";
    let contents = read(model(&[old_layer("fc", 14, &[blob(&[1, 1, 3, 60]), blob(&[1, 1, 1, 3])])]), text);
    let graph = contents.checkpoint.graph.unwrap();
    assert_eq!(ops(&graph), ["Flatten", "Gemm"]);
    assert_eq!(outputs(&graph), [("fc", &[None, Some(3)][..])]);
}

#[test]
fn losses_and_outputs_of_2014_are_left_out() {
    let text = "layers { name: 'a' type: ABSVAL bottom: 'data' top: 'a' }
        layers { name: 'b' type: BNLL bottom: 'a' top: 'b' }
        layers { name: 'loss' type: EUCLIDEAN_LOSS bottom: 'b' bottom: 'data' top: 'loss' }
        layers { name: 'right' type: ACCURACY bottom: 'b' top: 'right' } layers { name: 's' type: SILENCE bottom: 'b' }";
    let graph = graph(&any(), text);
    assert_eq!(ops(&graph), ["Abs", "Softplus"]);
    assert_eq!(outputs(&graph).len(), 1);
}

#[test]
fn shapes_keep_lengths_and_infer_one() {
    let text = |options: &str| {
        format!("layer {{ name: 'r' type: 'Reshape' bottom: 'data' top: 'r' reshape_param {{ {options} }} }}")
    };
    for (options, shape) in [
        ("shape { dim: 0 dim: -1 dim: 3 }", &[None, Some(20), Some(3)][..]),
        ("shape { dim: 3 dim: 2 } axis: 2 num_axes: 1", &[None, Some(2), Some(3), Some(2), Some(5)]),
        ("shape { dim: -1 } axis: -2", &[None, Some(2), Some(30)]),
    ] {
        assert_eq!(outputs(&graph(&any(), &text(options))), [("r", shape)], "{options}");
    }
    assert!(reason(&any(), &text("shape { dim: 7 dim: -1 }")).contains("gives 60 numbers the shape [7, -1]"));
}

#[test]
fn parts_are_named_and_joined() {
    let text = "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' slice_param { axis: 2 slice_point: 2 } }
        layer { name: 'c' type: 'Concat' bottom: 'b' bottom: 'a' top: 'c' concat_param { axis: 2 } }
        layer { name: 'p' type: 'Permute' bottom: 'c' top: 'p' permute_param { order: 0 order: 2 order: 3 order: 1 } }";
    let graph = graph(&any(), text);
    assert_eq!(ops(&graph), ["Slice", "Slice", "Concat", "Transpose"]);
    assert_eq!(outputs(&graph), [("p", &[None, Some(6), Some(5), Some(2)][..])]);
}

#[test]
fn a_weight_of_another_shape_is_the_reason_for_no_graph() {
    let text = "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'
        convolution_param { num_output: 4 kernel_size: 3 bias_term: false } }";
    let own = |dims: &[u64]| vec![layer("c", "Convolution", &[blob(dims)])];
    assert_eq!(outputs(&graph(&own(&[4, 2, 3, 3]), text)), [("c", &[None, Some(4), Some(4), Some(3)][..])]);
    let why = reason(&own(&[4, 3, 3, 3]), text);
    assert!(why.contains("layer 'c' (Convolution) needs a weight of shape [4, 2, 3, 3]"), "{why}");
    assert!(reason(&any(), text).contains("has no blob 0 in the model"));
    assert!(
        reason(&any(), "layer { name: 'x' type: 'Odd' bottom: 'data' top: 'x' }")
            .contains("'x' (Odd) is not supported")
    );
}

#[test]
fn layers_that_take_the_results_of_left_out_ones_alone_are_left_out() {
    let text = "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' }
        layer { name: 'p' type: 'PriorBox' bottom: 'a' bottom: 'data' top: 'p' }
        layer { name: 'all' type: 'Concat' bottom: 'p' bottom: 'p' top: 'all' }
        layer { name: 'd' type: 'DetectionOutput' bottom: 'a' bottom: 'all' top: 'd' }";
    let contents = read(model(&any()), &format!("{INPUT}{text}"));
    assert_eq!(outputs(contents.checkpoint.graph.as_ref().unwrap()).len(), 1);
    assert!(contents.all_notes().any(|note| note.contains("layer 'all' (Concat)")));
    let mixed = text.replace("bottom: 'p' bottom: 'p'", "bottom: 'p' bottom: 'a'");
    let why = reason(&any(), &mixed);
    assert!(
        why.contains("'all' (Concat) takes the result of layer 'p' (PriorBox), which no graph has"),
        "{why}"
    );
    let why = reason(&any(), "layer { name: 'r' type: 'ReLU' bottom: 'nothing' top: 'r' }");
    assert!(why.contains("takes 'nothing', which nothing makes"), "{why}");
}

#[test]
fn values_have_at_most_as_many_axes_as_blobs_of_caffe() {
    let reshape = |axes: usize| {
        let dims = "dim: 1 ".repeat(axes - 2);
        format!(
            "layer {{ name: 'r' type: 'Reshape' bottom: 'data' top: 'r' reshape_param {{ shape {{ dim: 0 dim: -1 {dims}}} }} }}"
        )
    };
    assert_eq!(outputs(&graph(&any(), &reshape(32)))[0].1.len(), 32);
    assert!(reason(&any(), &reshape(33)).contains("33 axes, and Caffe has at most 32"));
}
