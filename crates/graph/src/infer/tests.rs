use super::*;
use ckpt_api::Attribute;

const N: Length = Length::free(0);

/// Values by name: `x` and `y`.
struct Values(Vec<(&'static str, Dims)>);

impl Known for Values {
    fn dims(&self, value: &str) -> Option<Dims> {
        self.0.iter().find(|(name, _)| *name == value).map(|(_, dims)| dims.clone())
    }

    fn tensor(&self, _name: &str) -> Option<&Tensor> {
        None
    }
}

fn node(op: &str, lists: &[(&str, &[i64])]) -> Node {
    let mut node = Node::new("node", Op::from(op));
    node.inputs = vec!["x".to_owned()];
    node.outputs = vec!["out".to_owned()];
    lists.iter().fold(node, |node, (name, values)| node.attribute(name, Attribute::Ints(values.to_vec())))
}

fn of(node: &Node, x: &[Length]) -> Option<Dims> {
    infer(node, &Values(vec![("x", x.to_vec()), ("y", vec![Length::Known(1), Length::Known(5)])])).remove(0)
}

fn known(len: i64) -> Length {
    Length::Known(len)
}

fn slid(node: &Node, len: Length, kernel: u64) -> Length {
    windowed(node, vec![N, known(3), len], &[kernel]).unwrap()[2]
}

#[test]
fn a_window_leaves_the_positions_at_which_it_fits() {
    let stem = node("Conv", &[("strides", &[2]), ("pads", &[3, 3])]);
    assert_eq!(slid(&stem, known(224), 7), known(112));
    assert_eq!(slid(&stem, Length::free(1), 7), Length::Unknown);
    let dilated = node("Conv", &[("dilations", &[2])]);
    assert_eq!(slid(&dilated, known(10), 3), known(6));
    let same = node("Conv", &[("pads", &[1, 1])]);
    assert_eq!(slid(&same, Length::free(1), 3), Length::free(1));
}

#[test]
fn a_transposed_convolution_leaves_the_length_that_the_other_one_takes() {
    let up = node("ConvTranspose", &[("strides", &[2]), ("pads", &[1, 1])]);
    assert_eq!(slid(&up, known(16), 4), known(32));
    assert_eq!(slid(&up, Length::free(1), 4), Length::free(1) * 2);
    let stated = node("ConvTranspose", &[("output_shape", &[32])]);
    assert_eq!(slid(&stated, known(16), 4), Length::Unknown);
}

#[test]
fn a_list_that_is_too_short_leaves_the_length_unknown() {
    assert_eq!(slid(&node("MaxPool", &[("pads", &[1])]), known(9), 3), Length::Unknown);
    assert_eq!(slid(&node("MaxPool", &[("strides", &[0])]), known(9), 3), Length::Unknown);
}

#[test]
fn a_pooling_that_rounds_up_is_known_if_it_moves_by_one() {
    let ceil = node("MaxPool", &[]).attribute("ceil_mode", Attribute::Int(1));
    assert_eq!(slid(&ceil, known(9), 3), known(7));
    let wide = node("MaxPool", &[("strides", &[2])]).attribute("ceil_mode", Attribute::Int(1));
    assert_eq!(slid(&wide, known(10), 3), Length::Unknown);
}

#[test]
fn a_reshape_copies_infers_and_cancels_lengths() {
    let x = [N, known(4), known(6)];
    assert_eq!(of(&node("Reshape", &[("shape", &[0, -1])]), &x), Some(vec![N, known(24)]));
    assert_eq!(of(&node("Reshape", &[("shape", &[-1, 6])]), &x), Some(vec![N * 4, known(6)]));
    assert_eq!(of(&node("Reshape", &[("shape", &[0, 0, 0, 0])]), &x), None);
    assert_eq!(of(&node("Flatten", &[]), &x), Some(vec![N, known(24)]));
}

#[test]
fn axes_are_moved_added_and_removed() {
    let x = [N, known(4), known(1)];
    assert_eq!(of(&node("Transpose", &[]), &x), Some(vec![known(1), known(4), N]));
    assert_eq!(of(&node("Transpose", &[("perm", &[0, 2, 1])]), &x), Some(vec![N, known(1), known(4)]));
    assert_eq!(of(&node("Squeeze", &[("axes", &[-1])]), &x), Some(vec![N, known(4)]));
    assert_eq!(of(&node("Unsqueeze", &[("axes", &[0, -1])]), &x[..1]), Some(vec![known(1), N, known(1)]));
    assert_eq!(of(&node("Transpose", &[("perm", &[7])]), &x), None);
}

#[test]
fn slices_and_pads_keep_free_lengths() {
    let x = [N, known(8)];
    let slice = node("Slice", &[("starts", &[1, 0]), ("ends", &[i64::MAX, -2])]);
    assert_eq!(of(&slice, &x), Some(vec![N - 1, known(6)]));
    assert_eq!(of(&node("Pad", &[("pads", &[1, 0, 2, 3])]), &x), Some(vec![N + 3, known(11)]));
    assert_eq!(of(&node("Pad", &[("pads", &[1, 0])]), &x), None);
    assert_eq!(of(&node("Tile", &[("repeats", &[2, 1])]), &x), Some(vec![N * 2, known(8)]));
    assert_eq!(of(&node("Expand", &[("shape", &[3, -1, 8])]), &x), Some(vec![known(3), N, known(8)]));
}

#[test]
fn reductions_keep_their_axes_unless_they_say_otherwise() {
    let x = [N, known(8)];
    assert_eq!(of(&node("ReduceMean", &[("axes", &[-1])]), &x), Some(vec![N, known(1)]));
    let all = node("ReduceSum", &[]).attribute("keepdims", Attribute::Int(0));
    assert_eq!(of(&all, &x), Some(Dims::new()));
    assert_eq!(of(&node("ArgMax", &[]), &x), Some(vec![known(1), known(8)]));
}

#[test]
fn several_inputs_are_broadcast_joined_or_multiplied() {
    let with = |op: &str| {
        let mut node = node(op, &[]);
        node.inputs.push("y".to_owned());
        node
    };
    assert_eq!(of(&with("Add"), &[N, known(1)]), Some(vec![N, known(5)]));
    assert_eq!(
        of(&with("Concat").attribute("axis", Attribute::Int(0)), &[N, known(5)]),
        Some(vec![N + 1, known(5)])
    );
    assert_eq!(of(&with("MatMul"), &[N, known(3), known(1)]), Some(vec![N, known(3), known(5)]));
    assert_eq!(of(&with("Gather"), &[known(9), N]), Some(vec![known(1), known(5), N]));
    let einsum = with("Einsum").attribute("equation", Attribute::Text("ab, cd -> adb".into()));
    assert_eq!(of(&einsum, &[N, known(3)]), Some(vec![N, known(5), known(3)]));
}

#[test]
fn parts_are_those_that_the_node_states_or_equal() {
    let parts = |lists: &[(&str, &[i64])]| {
        let mut node = node("Split", lists);
        node.outputs.push("other".to_owned());
        infer(&node, &Values(vec![("x", vec![N * 2])]))
    };
    assert_eq!(parts(&[]), [Some(vec![N]), Some(vec![N])]);
    assert_eq!(parts(&[("split", &[1, 2])]), [Some(vec![known(1)]), Some(vec![known(2)])]);
}

#[test]
fn an_operator_that_is_not_known_has_no_shape() {
    assert_eq!(of(&node("bullet.Screlu", &[]), &[N]), None);
    assert_eq!(of(&node("Resize", &[("sizes", &[-1, 4])]), &[N, known(2)]), Some(vec![N, known(4)]));
}
