//! Graphs that are read and then changed: a graph that the file would not imply is refused.

use crate::build::{MIXED, Parts, place, read};
use ckpt_api::{Attribute, Checkpoint, Kind, Node, Op};

/// 9 → 2 → 1: each layer follows a Concat; borders and values are clamped.
fn net() -> Checkpoint {
    let layers = [[3, 9, 2], [3, 10, 1]];
    let stated = [("border", "clamp"), ("activation", "clamp")];
    read(&Parts::of(&layers).bytes(), &stated).unwrap().0.checkpoint
}

fn node<'a>(checkpoint: &'a mut Checkpoint, name: &str) -> &'a mut Node {
    let nodes = &mut checkpoint.graph.as_mut().unwrap().nodes;
    nodes.iter_mut().find(|node| node.name == name).unwrap()
}

fn set(checkpoint: &mut Checkpoint, name: &str, attribute: &str, value: Attribute) {
    node(checkpoint, name).attributes.insert(attribute.to_owned(), value);
}

/// Inserts a node before the one called `name`.
fn insert(checkpoint: &mut Checkpoint, name: &str, mut new: Node) {
    let graph = checkpoint.graph.as_mut().unwrap();
    let at = graph.nodes.iter().position(|node| node.name == name).unwrap();
    new.outputs = vec![new.name.clone()];
    new.inputs = std::mem::replace(&mut graph.nodes[at].inputs, new.outputs.clone());
    graph.nodes.insert(at, new);
}

fn transpose(name: &str, perm: [i64; 4]) -> Node {
    Node::new(name, Op::Transpose).attribute("perm", Attribute::Ints(perm.to_vec()))
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn refused(change: impl FnOnce(&mut Checkpoint), words: &[&str]) {
    let mut net = net();
    place(&net, &[]).unwrap();
    change(&mut net);
    let error = place(&net, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Lossy, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "'{word}' is not in: {error}");
    }
}

#[test]
fn the_inputs_have_the_channels_that_the_first_layer_takes() {
    let input = |net: &mut Checkpoint, at: usize, channels| {
        net.graph.as_mut().unwrap().inputs[at].shape[1] = channels;
    };
    let words = ["'layer1'", "9 channels of another origin", "static features"];
    refused(|net| input(net, 0, Some(7)), &words);
    refused(|net| input(net, 0, None), &words);
    refused(|net| input(net, 1, Some(2)), &words);
    refused(|net| node(net, "layer1/input").inputs.reverse(), &words);
    refused(
        |net| node(net, "layer2/input").inputs.reverse(),
        &["'layer2'", "followed by the static features"],
    );
    refused(|net| set(net, "layer1/input", "axis", Attribute::Int(2)), &["'layer1/input'", "axis 1"]);
}

#[test]
fn a_clip_has_the_limits_0_and_1() {
    for limit in ["min", "max"] {
        let mut net = net();
        set(&mut net, "layer1/activation", limit, Attribute::Float(0.5));
        let error = place(&net, &[]).unwrap_err();
        assert!(error.to_string().contains("other limits"), "{error}");
    }
    let mut integers = net();
    set(&mut integers, "layer1/activation", "min", Attribute::Int(0));
    set(&mut integers, "layer1/activation", "max", Attribute::Int(1));
    place(&integers, &[]).unwrap();
}

#[test]
fn padding_is_the_same_on_all_sides_of_the_image_and_added_once() {
    refused(
        |net| set(net, "layer1/pad", "pads", ints(&[0, 1, 1, 1, 0, 0, 1, 1])),
        &["'layer1/pad'", "[0, 1, 1, 1"],
    );
    refused(|net| set(net, "layer1/pad", "pads", ints(&[0, 0, 1, 1, 0, 1, 1, 1])), &["'layer1/pad'"]);
    for side in [2, 3, 6, 7] {
        let mut pads = [0, 0, 1, 1, 0, 0, 1, 1];
        pads[side] = 2;
        refused(|net| set(net, "layer1/pad", "pads", ints(&pads)), &["'layer1/pad'", "all four sides"]);
    }
    refused(|net| set(net, "layer1/pad", "pads", ints(&[0, 0, -1, -1, 0, 0, -1, -1])), &["'layer1/pad'"]);
    refused(
        |net| set(net, "layer1/pad", "pads", ints(&[0, 0, 2, 2, 0, 0, 2, 2])),
        &["'layer1'", "padding of 2"],
    );
    refused(
        |net| set(net, "layer1/pad", "mode", Attribute::Text("reflect".into())),
        &["'layer1/pad'", "reflect"],
    );
    refused(|net| set(net, "layer1", "pads", ints(&[1; 4])), &["'layer1'", "another origin"]);
    let mut zeros = net();
    set(&mut zeros, "layer1/pad", "mode", Attribute::Text("constant".into()));
    let losses = place(&zeros, &[]).unwrap().losses;
    assert!(losses[0].detail.contains("zero border of 'layer1'"), "{losses:?}");
}

#[test]
fn the_layout_changes_only_before_the_first_layer_and_after_the_last() {
    refused(|net| insert(net, "layer1", transpose("t", [0, 3, 1, 2])), &["'t'", "Transpose [0, 3, 1, 2]"]);
    refused(
        |net| insert(net, "layer2/pad", transpose("t", [0, 2, 3, 1])),
        &["'t'", "Transpose [0, 2, 3, 1]"],
    );
    let mut chain = read(&Parts::of(&[[1, 8, 2], [1, 2, 1]]).bytes(), &[]).unwrap().0.checkpoint;
    insert(&mut chain, "layer1", transpose("first", [0, 3, 1, 2]));
    place(&chain, &[]).unwrap();
    insert(&mut chain, "layer2", transpose("between", [0, 2, 3, 1]));
    let error = place(&chain, &[]).unwrap_err();
    assert!(error.to_string().contains("a Transpose before it"), "{error}");
}

#[test]
fn stated_activations_and_borders_are_losses() {
    let bytes = Parts::of(&MIXED).bytes();
    let losses = |options| place(&read(&bytes, options).unwrap().0.checkpoint, &[]).unwrap().losses;
    assert_eq!(losses(&[]), []);
    let border = &losses(&[("border", "clamp")])[0];
    assert_eq!(border.kind, ckpt_api::LossKind::GraphDropped);
    // A 1×1 kernel needs no border.
    assert!(
        border.detail.ends_with("borders: clamp border of 'layer2', clamp border of 'layer3'"),
        "{border:?}"
    );
    let activation = &losses(&[("activation", "tanh,none,relu")])[0];
    assert!(activation.detail.ends_with("borders: tanh of 'layer1', relu of 'layer3'"), "{activation:?}");
    let many = |layers: usize| {
        let bytes = Parts::of(&[&[[1, 8, 4]][..], &vec![[1, 4, 4]; layers - 1]].concat()).bytes();
        let checkpoint = read(&bytes, &[("activation", "relu")]).unwrap().0.checkpoint;
        place(&checkpoint, &[]).unwrap().losses.remove(0).detail
    };
    assert!(many(8).ends_with("relu of 'layer8'"), "{}", many(8).as_str());
    assert!(many(10).ends_with("relu of 'layer8' and 2 more"), "{}", many(10).as_str());
}
