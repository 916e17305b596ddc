//! What can be written, what is refused, and what is a loss.

use crate::build::{EXAMPLE, MIXED, Parts, place, read, write};
use ckpt_api::{
    Added, AddedAxis, Attribute, Axis, Checkpoint, DType, Graph, Kind, Loss, LossKind, Node, Op, Shape,
    Tensor, TensorId, Value,
};

const OIHW: [Axis; 4] = [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
const HWIO: [Axis; 4] = [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];

fn weight(name: &str, dims: [u64; 4], axes: [Axis; 4]) -> Tensor {
    Tensor::new(name, DType::F32, Shape::new(dims).unwrap()).with_axes(axes)
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn conv(name: &str, pad: i64) -> Node {
    Node::new(name, Op::Conv)
        .parameter("weight", format!("{name}/kernel"))
        .attribute("strides", ints(&[1, 1]))
        .attribute("pads", ints(&[pad; 4]))
}

/// Conv2D(4, 3), ReLU, Conv2D(2, 1) on images `[N, H, W, 8]`, as TensorFlow's codec describes it.
fn keras() -> Checkpoint {
    let transpose = |name: &str, perm: &[i64]| Node::new(name, Op::Transpose).attribute("perm", ints(perm));
    let nodes = vec![
        transpose("first", &[0, 3, 1, 2]),
        conv("a", 1),
        Node::new("a/activation", Op::Relu),
        Node::new("dropout", Op::Identity),
        conv("b", 0),
        transpose("last", &[0, 2, 3, 1]),
    ];
    let image = |channels| vec![None, None, None, Some(channels)];
    Checkpoint {
        graph: Some(Graph::sequential("", image(8), image(2), nodes)),
        tensors: vec![weight("a/kernel", [3, 3, 8, 4], HWIO), weight("b/kernel", [1, 1, 4, 2], HWIO)],
        ..Checkpoint::default()
    }
}

/// The same with f16 weights: the conformance kit does not cast.
fn halves() -> (Checkpoint, Vec<Vec<u8>>) {
    let mut checkpoint = keras();
    let mut values = Vec::new();
    for tensor in &mut checkpoint.tensors {
        tensor.dtype = DType::F16;
        values.push((0..tensor.shape.elements() as u16).flat_map(u16::to_le_bytes).collect());
    }
    (checkpoint, values)
}

/// Asserts that the net is refused after `change`, with an error that contains `words`.
fn refused(change: impl FnOnce(&mut Checkpoint), kind: Kind, words: &[&str]) {
    let mut checkpoint = keras();
    change(&mut checkpoint);
    let error = place(&checkpoint, &[]).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "'{word}' is not in: {error}");
    }
}

fn node<'a>(checkpoint: &'a mut Checkpoint, name: &str) -> &'a mut Node {
    let nodes = &mut checkpoint.graph.as_mut().unwrap().nodes;
    nodes.iter_mut().find(|node| node.name == name).unwrap()
}

fn set(checkpoint: &mut Checkpoint, name: &str, attribute: &str, value: Attribute) {
    node(checkpoint, name).attributes.insert(attribute.to_owned(), value);
}

#[test]
fn a_chain_of_convolutions_is_written_whatever_the_order_of_its_axes() {
    let (checkpoint, values) = halves();
    let (contents, written) = read(&write(&checkpoint, &values, &[]).unwrap(), &[]).unwrap();
    for (own, (tensor, value)) in
        checkpoint.tensors.iter().zip(contents.checkpoint.tensors.iter().zip(&written))
    {
        let [height, width, inputs, outputs] = own.shape[..] else { panic!("rank") };
        assert_eq!(tensor.shape.to_vec(), [outputs, inputs, height, width]);
        let mut expected = Vec::new();
        for (o, i) in (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i))) {
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                expected.push((((y * width + x) * inputs + i) * outputs + o) as u16);
            }
        }
        let found: Vec<u16> =
            value.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(written.len(), 2);
}

#[test]
fn a_net_of_another_format_loses_names_activations_and_borders() {
    let checkpoint = keras();
    let losses = place(&checkpoint, &[]).unwrap().losses;
    let named: Vec<(LossKind, &str)> = losses.iter().map(|loss| (loss.kind, &*loss.subject)).collect();
    assert_eq!(
        named,
        [(LossKind::NamesDropped, "names"), (LossKind::GraphDropped, "activations and borders"),]
    );
    assert!(losses[1].detail.contains("zero border of 'a', relu of 'a'"), "{}", losses[1].detail.as_str());
}

#[test]
fn floats_are_stored_as_f16_and_integers_are_refused() {
    let mut checkpoint = keras();
    checkpoint.tensors[0].dtype = DType::F8E5m2;
    checkpoint.tensors[1].dtype = DType::Bf16;
    let placements = place(&checkpoint, &[]).unwrap().placements;
    assert!(placements.iter().all(|placement| placement.encoding.dtype == DType::F16));
    refused(|net| net.tensors[0].dtype = DType::I16, Kind::Unsupported, &["a/kernel", "i16", "f16"]);
}

fn add_bias(net: &mut Checkpoint, layer: &str, dims: &[u64]) {
    let name = format!("{layer}/bias");
    net.tensors.push(Tensor::new(&name, DType::F32, Shape::new(dims).unwrap()).with_axes([Axis::Out]));
    node(net, layer).parameters.insert("bias".to_owned(), name);
}

#[test]
fn a_bias_is_folded_into_the_center_tap_of_the_channel_that_is_always_1() {
    let mut checkpoint = keras();
    add_bias(&mut checkpoint, "a", &[4]);
    let placed = place(&checkpoint, &[]).unwrap();
    let [a, b] = &placed.placements[..] else { panic!("two layers") };
    // The axes of the weight are [ky, kx, in, out].
    let axes = vec![AddedAxis::At(1), AddedAxis::At(1), AddedAxis::At(7), AddedAxis::Along(0)];
    assert_eq!((a.added(), b.added()), (&[Added { tensor: TensorId(2), axes }][..], &[][..]));
    let told: Vec<&Loss> = placed.losses.iter().filter(|loss| loss.kind == LossKind::Merged).collect();
    let [loss] = &told[..] else { panic!("one bias") };
    assert_eq!(loss.subject, "a/bias");
    assert!(loss.detail.contains("'a/kernel' at [out, 7, 1, 1]"), "{}", loss.detail.as_str());

    checkpoint.tensors[0] = weight("a/kernel", [5, 5, 8, 4], HWIO);
    set(&mut checkpoint, "a", "pads", ints(&[2; 4]));
    let placed = place(&checkpoint, &[]).unwrap();
    assert_eq!(placed.placements[0].added()[0].axes[..2], [AddedAxis::At(2), AddedAxis::At(2)]);
    assert!(
        placed.losses.iter().any(|loss| loss.detail.contains("at [out, 7, 2, 2]")),
        "{:?}",
        placed.losses
    );
}

#[test]
fn padding_can_be_automatic_and_kernel_shapes_stated() {
    for pad in ["SAME_UPPER", "SAME_LOWER"] {
        let mut checkpoint = keras();
        checkpoint.tensors[0] = weight("a/kernel", [5, 5, 8, 4], HWIO);
        node(&mut checkpoint, "a").attributes.remove("pads");
        set(&mut checkpoint, "a", "auto_pad", Attribute::Text(pad.into()));
        set(&mut checkpoint, "a", "kernel_shape", ints(&[5, 5]));
        place(&checkpoint, &[]).unwrap();
    }
    let valid = |net: &mut Checkpoint| {
        node(net, "a").attributes.remove("pads");
        set(net, "a", "auto_pad", Attribute::Text("VALID".into()));
    };
    refused(valid, Kind::Lossy, &["'a'", "padding of 0"]);
}

#[test]
fn a_bias_that_cannot_be_folded_is_refused_with_the_layer_and_the_reason() {
    let words = ["layer 'b'", "b/bias", "does not take the static features"];
    refused(|net| add_bias(net, "b", &[2]), Kind::Lossy, &words);
    refused(|net| add_bias(net, "a", &[1]), Kind::Lossy, &["layer 'a'", "a/bias", "shape [1]", "[4]"]);
    let half = |net: &mut Checkpoint| {
        add_bias(net, "a", &[4]);
        net.tensors[0].dtype = DType::F16;
    };
    refused(
        half,
        Kind::Lossy,
        &["layer 'a'", "weight of f16 and a bias of f32", "`Conversion::dtype` of f32"],
    );
    let absent = |net: &mut Checkpoint| {
        node(net, "a").parameters.insert("bias".to_owned(), "a/bias".to_owned());
    };
    refused(absent, Kind::Mapping, &["'a'", "a/bias"]);
}

#[test]
fn a_graph_that_cnn2_cannot_hold_is_refused_with_the_layer_and_the_reason() {
    refused(|net| node(net, "b").op = Op::Gemm, Kind::Lossy, &["'b'", "Gemm"]);
    refused(|net| set(net, "a", "strides", ints(&[2, 2])), Kind::Lossy, &["'a'", "strides [2, 2]"]);
    refused(|net| set(net, "a", "dilations", ints(&[2, 1])), Kind::Lossy, &["'a'", "dilations [2, 1]"]);
    refused(|net| set(net, "a", "group", Attribute::Int(2)), Kind::Lossy, &["'a'", "group"]);
    refused(|net| set(net, "a", "pads", ints(&[0; 4])), Kind::Lossy, &["'a'", "padding of 0", "same size"]);
    refused(|net| set(net, "a", "pads", ints(&[2; 4])), Kind::Lossy, &["'a'", "padding of 2"]);
    for pads in [[2, 1, 1, 1], [1, 2, 1, 1], [1, 1, 2, 1], [1, 1, 1, 2], [1, 1, 2, 2], [-1; 4]] {
        let text = format!("pads {pads:?}");
        refused(|net| set(net, "a", "pads", ints(&pads)), Kind::Lossy, &["'a'", &text, "all four sides"]);
    }
    refused(
        |net| set(net, "a", "auto_pad", Attribute::Text("X".into())),
        Kind::Lossy,
        &["'a'", "auto_pad X"],
    );
    refused(|net| set(net, "a", "kernel_shape", ints(&[5, 5])), Kind::Lossy, &["'a'", "kernel_shape"]);
    refused(|net| set(net, "a", "alpha", Attribute::Int(2)), Kind::Lossy, &["'a'", "attribute 'alpha'"]);
    refused(|net| set(net, "a/activation", "alpha", Attribute::Int(2)), Kind::Lossy, &["attribute 'alpha'"]);
    refused(|net| node(net, "a/activation").op = Op::Elu, Kind::Lossy, &["'a/activation'", "Elu", "relu"]);
    refused(
        |net| node(net, "a/activation").op = Op::Clip,
        Kind::Lossy,
        &["Clip with other limits", "0 and 1"],
    );
    refused(|net| node(net, "dropout").op = Op::Tanh, Kind::Lossy, &["'dropout'", "one activation"]);
}

#[test]
fn sizes_that_cnn2_cannot_hold_are_refused() {
    let even = |net: &mut Checkpoint| net.tensors[0] = weight("a/kernel", [2, 2, 8, 4], HWIO);
    refused(even, Kind::Lossy, &["'a'", "a/kernel", "kernel_size 2", "odd"]);
    let oblong = |net: &mut Checkpoint| net.tensors[0] = weight("a/kernel", [3, 1, 8, 4], HWIO);
    refused(oblong, Kind::Lossy, &["'a'", "3 × 1"]);
    let many = |net: &mut Checkpoint| net.tensors[0] = weight("a/kernel", [3, 3, 8, 9], HWIO);
    refused(many, Kind::Lossy, &["'a'", "out_channels 9", "1 to 8"]);
    let rgb = |net: &mut Checkpoint| net.tensors[0] = weight("a/kernel", [3, 3, 3, 4], HWIO);
    refused(rgb, Kind::Lossy, &["'a'", "static features", "in_channels 3", "8 to 15"]);
    let misfit = |net: &mut Checkpoint| net.tensors[1] = weight("b/kernel", [1, 1, 5, 2], HWIO);
    refused(misfit, Kind::Lossy, &["'b'", "in_channels 5", "4 (its output) or 12"]);
    let depthwise = |net: &mut Checkpoint| {
        net.tensors[0].axes = Some([Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier].into());
    };
    refused(depthwise, Kind::Lossy, &["'a'", "multiplier"]);
    refused(|net| net.tensors[0].axes = None, Kind::Usage, &["a/kernel", "does not name the axes"]);
}

#[test]
fn a_graph_with_another_wiring_is_refused() {
    // 12 channels, but without the static features among them.
    let claims = |net: &mut Checkpoint| net.tensors[1] = weight("b/kernel", [1, 1, 12, 2], HWIO);
    refused(claims, Kind::Lossy, &["'b'", "12 channels of another origin"]);
    let shared = |net: &mut Checkpoint| {
        net.tensors[0] = weight("a/kernel", [1, 1, 8, 8], HWIO);
        set(net, "a", "pads", ints(&[0; 4]));
        node(net, "b").parameters.insert("weight".to_owned(), "a/kernel".to_owned());
    };
    refused(shared, Kind::Unsupported, &["'a/kernel'", "share"].map(|word| word.trim_matches('\'')));
    let skips = |net: &mut Checkpoint| node(net, "dropout").inputs = vec!["a".to_owned()];
    refused(skips, Kind::Lossy, &["'b'", "another origin"]);
    let early = |net: &mut Checkpoint| net.graph.as_mut().unwrap().outputs[0].name = "a".to_owned();
    refused(early, Kind::Lossy, &["outputs", "the output of the last layer"]);
    let none = |net: &mut Checkpoint| net.graph = Some(Graph::default());
    refused(none, Kind::Lossy, &["no convolution"]);
    refused(|net| net.tensors.truncate(1), Kind::Mapping, &["'b'", "b/kernel"]);
}

#[test]
fn static_features_come_after_the_output_of_the_layer_before() {
    let image = |name: &str, channels| Value::new(name, vec![None, Some(channels), None, None]);
    let join = |inputs: [&str; 2]| {
        let mut node = Node::new("join", Op::Concat).attribute("axis", Attribute::Int(1));
        (node.inputs, node.outputs) = (inputs.map(str::to_owned).to_vec(), vec!["join".into()]);
        node
    };
    let net = |inputs: [&str; 2]| {
        let (mut first, mut second) = (conv("a", 0), conv("b", 0));
        (first.inputs, first.outputs) = (vec!["f".into()], vec!["a".into()]);
        (second.inputs, second.outputs) = (vec!["join".into()], vec!["b".into()]);
        let graph = Graph {
            name: String::new(),
            inputs: vec![image("f", 8), image("g", 8)],
            outputs: vec![image("b", 2)],
            nodes: vec![first, join(inputs), second],
        };
        let tensors = vec![weight("a/kernel", [4, 8, 1, 1], OIHW), weight("b/kernel", [2, 12, 1, 1], OIHW)];
        Checkpoint { graph: Some(graph), tensors, ..Checkpoint::default() }
    };
    place(&net(["a", "f"]), &[]).unwrap();
    for others in [["f", "a"], ["a", "g"], ["g", "f"], ["a", "a"]] {
        let error = place(&net(others), &[]).unwrap_err();
        assert!(error.to_string().contains("followed by the static features"), "{others:?}: {error}");
    }
}

#[test]
fn without_a_graph_tensors_are_found_by_name() {
    let (contents, values) = read(&Parts::of(&MIXED).bytes(), &[]).unwrap();
    let mut bare = contents.checkpoint.clone();
    bare.graph = None;
    bare.tensors.iter_mut().for_each(|tensor| tensor.axes = None);
    assert_eq!(write(&bare, &values, &[]).unwrap(), Parts::of(&MIXED).bytes());
    bare.tensors[0].name = "conv1.weight".into();
    let error = place(&bare, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("layer1.weight"), "{error}");
    bare.tensors[0] = Tensor::new("layer1.weight", DType::F16, Shape::new([1, 8, 1]).unwrap());
    let error = place(&bare, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("does not name the axes"), "{error}");
}

#[test]
fn a_tensor_after_a_gap_in_the_numbers_is_dropped() {
    let (mut contents, _) = read(&Parts::of(&EXAMPLE).bytes(), &[]).unwrap();
    contents.checkpoint.graph = None;
    contents.checkpoint.tensors[1].name = "other".into();
    let placed = place(&contents.checkpoint, &[]).unwrap();
    let dropped: Vec<&str> =
        placed.unplaced(&contents.checkpoint).map(|(_, tensor)| tensor.name.as_str()).collect();
    assert_eq!(dropped, ["other", "layer3.weight"]);
}

#[test]
fn a_layer_that_only_lenient_reading_accepts_is_not_written() {
    let (contents, _) = read(&Parts::of(&[[2, 8, 4]]).bytes(), &[("lenient", "true")]).unwrap();
    let error = place(&contents.checkpoint, &[]).unwrap_err();
    assert!(error.to_string().contains("kernel_size 2"), "{error}");
}

#[test]
fn names_are_a_loss() {
    let mut renamed = read(&Parts::of(&EXAMPLE).bytes(), &[]).unwrap().0.checkpoint;
    renamed.rename(&[("layer1.weight".to_owned(), "first".to_owned())].into()).unwrap();
    let losses = place(&renamed, &[]).unwrap().losses;
    let expected = "1 layer becomes layer1, layer2, …: CNN2 stores no names";
    assert_eq!(losses, [Loss::new(LossKind::NamesDropped, "names", expected)]);
}

#[test]
fn metadata_that_is_no_setting_is_a_loss() {
    let (mut contents, values) = read(&Parts::of(&EXAMPLE).version_2(1).bytes(), &[]).unwrap();
    let metadata = &mut contents.checkpoint.metadata;
    metadata.insert("cnn2", "mip", 9);
    metadata.insert("cnn2", "version", "two");
    metadata.insert("cnn2", "author", "x");
    let losses = place(&contents.checkpoint, &[]).unwrap().losses;
    let subjects: Vec<&str> = losses.iter().map(|loss| loss.subject.as_str()).collect();
    assert_eq!(subjects, ["cnn2.version", "cnn2.mip", "cnn2.author"]);
    assert_eq!(write(&contents.checkpoint, &values, &[]).unwrap(), Parts::of(&EXAMPLE).bytes());
}
