//! Images: channels that come first, interpolation; and operations that select by position.

use super::super::*;
use super::build::{constant, float, ints, op, with};
use super::graphs::{described, node, ops};
use super::why;
use crate::proto::NodeDef;
use crate::proto::attr_value::Value;
use ckpt_api::Attribute;

fn first(node: NodeDef) -> NodeDef {
    let node = with(node, "data_format", Value::S(b"NCHW".to_vec().into()));
    with(node, "padding", Value::S(b"SAME".to_vec().into()))
}

#[test]
fn layers_of_images_with_channels_first_take_no_transpositions() {
    let conv = with(op("c", "Conv2D", &["x", "k:value:0"]), "strides", ints(&[1, 1, 2, 2]));
    let pool = with(op("p", "MaxPool", &["n:y:0"]), "strides", ints(&[1, 1, 3, 1]));
    let norm =
        op("n", "FusedBatchNormV3", &["a:output:0", "g:value:0", "b:value:0", "m:value:0", "v:value:0"]);
    let norm = with(with(norm, "is_training", Value::B(false)), "epsilon", Value::F(0.01));
    let description = described(
        &[-1, 4, 9, 8],
        vec![
            first(conv),
            first(op("a", "BiasAdd", &["c:output:0", "b:value:0"])),
            first(norm),
            first(with(pool, "ksize", ints(&[1, 1, 3, 2]))),
        ],
        vec![],
    );
    assert_eq!(ops(&description), ["Conv", "BatchNormalization", "MaxPool"]);
    let conv = node(&description, "Conv");
    assert_eq!(conv.parameters["bias"], "b");
    assert_eq!(conv.attributes["strides"], Attribute::Ints(vec![2, 2]));
    assert_eq!(conv.attributes["pads"], Attribute::Ints(vec![1, 0, 1, 1]));
    assert_eq!(node(&description, "MaxPool").attributes["kernel_shape"], Attribute::Ints(vec![3, 2]));
    assert_eq!(description.axes["k"], [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out]);
    assert_eq!(description.graph.unwrap().outputs[0].shape, [None, Some(4), Some(2), Some(4)]);
}

/// The weights by which images of 3 rows and one column become images of 5 rows.
fn weights(kind: &str, half: bool) -> Vec<f64> {
    let resize = op("r", kind, &["x", "size:output:0"]);
    let resize = with(resize, "half_pixel_centers", Value::B(half));
    let description = described(&[-1, 3, 1, 4], vec![constant("size", &[5, 1]), resize], vec![]);
    assert_eq!(ops(&description), ["Transpose", "Constant", "Constant", "MatMul", "MatMul", "Transpose"]);
    match &node(&description, "Constant").attributes["value_floats"] {
        Attribute::Floats(weights) => weights.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cubic_and_area_interpolation_have_tensorflows_weights() {
    // What tf.raw_ops makes of the rows of a unit matrix.
    let keys = [
        [1.0755255222320557, -0.07552556693553925, 0.0],
        [0.6488014459609985, 0.3960339426994324, -0.04483538866043091],
        [0.0, 1.0, 0.0],
        [-0.04483538866043091, 0.3960339426994324, 0.6488014459609985],
        [0.0, -0.07552556693553925, 1.0755255222320557],
    ];
    let legacy = [
        [1.0, 0.0, 0.0],
        [0.3884336054325104, 0.7195311188697815, -0.10796475410461426],
        [-0.09604683518409729, 0.9198534488677979, 0.17619337141513824],
        [-0.024041026830673218, 0.20023439824581146, 0.823806643486023],
        [0.0, -0.10796475410461426, 1.1079647541046143],
    ];
    let area = [
        [1.0, 0.0, 0.0],
        [0.6666666269302368, 0.33333340287208557, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.33333319425582886, 0.6666668057441711],
        [0.0, 0.0, 0.9999998211860657],
    ];
    for (kind, half, expected) in
        [("ResizeBicubic", true, keys), ("ResizeBicubic", false, legacy), ("ResizeArea", false, area)]
    {
        let found = weights(kind, half);
        let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-6;
        assert!(!found.iter().zip(expected.as_flattened()).any(differs), "{kind}, {half}: {found:?}");
    }
}

#[test]
fn a_resized_image_has_the_size_that_the_operation_states() {
    let nodes = vec![constant("size", &[31, 13]), op("r", "ResizeBilinear", &["x", "size:output:0"])];
    let description = described(&[-1, 7, 11, 4], nodes, vec![]);
    assert_eq!(node(&description, "Resize").attributes["sizes"], Attribute::Ints(vec![-1, -1, 31, 13]));
}

#[test]
fn images_of_a_free_size_are_not_resized_cubically() {
    let nodes = vec![constant("size", &[5, 5]), op("r", "ResizeBicubic", &["x", "size:output:0"])];
    let description = described(&[-1, -1, 8, 4], nodes, vec![]);
    let expected = "ResizeBicubic ('r') resizes images of a size that depends on the input";
    assert!(why(&description).contains(expected), "{}", why(&description));
}

#[test]
fn a_band_of_a_matrix_is_selected_by_a_mask() {
    let nodes = vec![
        constant("below", &[-1]),
        constant("above", &[0]),
        op("t", "MatrixBandPart", &["x", "below:output:0", "above:output:0"]),
    ];
    let description = described(&[-1, 2, 3], nodes, vec![]);
    let mask = &node(&description, "Constant").attributes["value_ints"];
    assert_eq!(*mask, Attribute::Ints(vec![1, 0, 0, 1, 1, 0]));
    assert_eq!(*ops(&description).last().unwrap(), "Where");
}

#[test]
fn one_of_several_classes_is_selected_by_a_comparison() {
    let nodes = vec![
        constant("depth", &[3]),
        float("on", 2.0),
        float("off", -1.0),
        with(op("h", "OneHot", &["x", "depth:output:0", "on:output:0", "off:output:0"]), "axis", Value::I(1)),
    ];
    let description = described(&[-1, 4], nodes, vec![]);
    assert_eq!(ops(&description), ["Unsqueeze", "Constant", "Equal", "Constant", "Constant", "Where"]);
    let classes = node(&description, "Constant");
    assert_eq!(classes.attributes["shape"], Attribute::Ints(vec![1, 3, 1]));
    assert_eq!(description.graph.unwrap().outputs[0].shape, [None, Some(3), Some(4)]);
}

#[test]
fn a_remainder_of_integers_has_the_sign_of_the_divisor() {
    let of = |kind: &str| {
        let nodes =
            vec![constant("three", &[3]), with(op("m", kind, &["x", "three:output:0"]), "T", Value::Type(3))];
        described(&[-1, 4], nodes, vec![])
    };
    assert_eq!(ops(&of("FloorMod")), ["Constant", "Mod"]);
    assert!(!node(&of("FloorMod"), "Mod").attributes.contains_key("fmod"));
    assert_eq!(ops(&of("FloorDiv")), ["Constant", "Mod", "Sub", "Div"]);
}
