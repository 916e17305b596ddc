//! What an architecture file gives a checkpoint.

use crate::{Architecture, ArchitectureFile, Attribute, Axis, Checkpoint, DType, Op, Result, Shape, Tensor};

fn checkpoint() -> Checkpoint {
    let tensor = |name: &str, dims: &[u64]| Tensor::new(name, DType::F32, Shape::new(dims).unwrap());
    let tensors = vec![tensor("w", &[4, 2]), tensor("b", &[2]), tensor("k", &[3, 3, 4, 2])];
    Checkpoint { tensors, ..Checkpoint::default() }
}

fn apply(json: &str) -> Result<Checkpoint> {
    let mut checkpoint = checkpoint();
    Architecture::from_json(json)?.apply(&mut checkpoint)?;
    Ok(checkpoint)
}

#[test]
fn an_architecture_gives_a_graph_and_axes_to_bare_tensors() {
    let json = r#"{"layers":[{"type":"dense","weight":"w","bias":"b","weight_axes":["in","out"],"activation":"relu"}]}"#;
    let checkpoint = apply(json).unwrap();
    let graph = checkpoint.graph.as_ref().unwrap();
    assert_eq!(graph.nodes[1].op, Op::Relu);
    assert_eq!(graph.inputs[0].shape, [None, Some(4)]);
    assert_eq!(checkpoint.tensor("b").unwrap().1.axes, Some([Axis::Out].into()));
}

#[test]
fn axes_that_nobody_states_are_asked_for() {
    let error = apply(r#"{"layers":[{"type":"dense","weight":"w"}]}"#).unwrap_err();
    assert!(error.to_string().contains("weight_axes"), "{error}");
}

#[test]
fn help_is_in_the_syntax_of_the_file() {
    for (name, axes, weight) in [
        ("net.json", "\"weight_axes\": [\"in\", \"out\"]", "\"weight\": \"NAME\""),
        ("net.toml", "weight_axes = [\"in\", \"out\"]", "weight = \"NAME\""),
    ] {
        for (layer, help) in [(r#"{"type":"dense","weight":"w"}"#, axes), (r#"{"type":"dense"}"#, weight)] {
            let file = ArchitectureFile::from_json(&format!(r#"{{"layers":[{layer}]}}"#)).unwrap();
            let layers = file.named(name).layers().unwrap();
            let error = layers.apply(&mut checkpoint()).unwrap_err().to_string();
            assert!(error.contains(&format!("add {help}")), "{error}");
        }
    }
}

#[test]
fn a_tensor_that_is_missing_is_named() {
    let error = apply(r#"{"layers":[{"type":"dense","weight":"v"}]}"#).unwrap_err();
    assert!(error.to_string().contains("tensor v"), "{error}");
}

#[test]
fn an_unknown_field_is_an_error() {
    assert!(apply(r#"{"layers":[{"type":"dense","wieght":"w"}]}"#).is_err());
}

#[test]
fn a_field_of_another_type_of_layer_is_an_error() {
    for (layer, field) in [
        (r#"{"type":"dense","strides":[1,1]}"#, "strides"),
        (r#"{"type":"flatten","name":"f"}"#, "name"),
        (r#"{"type":"activation","activation":"relu","group":1}"#, "group"),
        (r#"{"type":"activation"}"#, "activation"),
    ] {
        let error = apply(&format!(r#"{{"layers":[{layer}]}}"#)).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}`")), "{error}");
    }
}

const HWIO: &str = r#""weight":"k","weight_axes":["kernel_y","kernel_x","in","out"]"#;

fn conv(rest: &str) -> Result<Checkpoint> {
    apply(&format!(r#"{{"layers":[{{"type":"conv",{HWIO}{rest}}}]}}"#))
}

#[test]
fn a_convolution_takes_images_and_says_how_it_slides() {
    let rest =
        r#","bias":"b","strides":[2,1],"padding":"same","dilations":[1,2],"group":2,"activation":"softmax""#;
    let checkpoint = conv(rest).unwrap();
    let graph = checkpoint.graph.as_ref().unwrap();
    let node = &graph.nodes[0];
    assert_eq!((&node.op, &graph.nodes[1].op), (&Op::Conv, &Op::Softmax));
    let ints = |values: &[i64]| Some(Attribute::Ints(values.to_vec()));
    assert_eq!(node.attributes.get("strides").cloned(), ints(&[2, 1]));
    assert_eq!(node.attributes.get("dilations").cloned(), ints(&[1, 2]));
    assert_eq!(node.attributes.get("group"), Some(&Attribute::Int(2)));
    assert_eq!(node.attributes.get("auto_pad"), Some(&Attribute::Text("SAME_UPPER".into())));
    assert_eq!(graph.nodes[1].attributes.get("axis"), Some(&Attribute::Int(1)));
    assert_eq!(graph.inputs[0].shape, [None, Some(8), None, None]);
    assert_eq!(graph.outputs[0].shape, [None, Some(2), None, None]);
    let axes = vec![Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
    assert_eq!(checkpoint.tensor("k").unwrap().1.axes, Some(axes.into()));
    assert_eq!(checkpoint.tensor("b").unwrap().1.axes, Some([Axis::Out].into()));
    let padded = conv(r#","pads":[1,2,3,4]"#).unwrap();
    let pads = padded.graph.as_ref().unwrap().nodes[0].attributes.get("pads").cloned();
    assert_eq!(pads, ints(&[1, 2, 3, 4]));
}

#[test]
fn a_convolution_that_makes_no_sense_is_refused_with_the_layer() {
    for rest in [r#","strides":[0,1]"#, r#","dilations":[1,0]"#, r#","group":0"#, r#","pads":[-1,0,0,0]"#] {
        assert_eq!(conv(rest).unwrap_err().kind(), crate::Kind::Usage, "{rest}");
    }
    let both = conv(r#","padding":"same","pads":[1,1,1,1]"#).unwrap_err().to_string();
    assert!(both.contains("layers[0]") && both.contains("padding or pads"), "{both}");
    for axes in [r#"["in","out"]"#, r#"["in","in","kernel_y","kernel_x"]"#] {
        let json = format!(r#"{{"layers":[{{"type":"conv","weight":"k","weight_axes":{axes}}}]}}"#);
        assert!(apply(&json).unwrap_err().to_string().contains("do not fit"), "{axes}");
    }
    let error = apply(r#"{"layers":[{"type":"conv","weight":"k"}]}"#).unwrap_err();
    assert!(error.to_string().contains("weight_axes"), "{error}");
}

#[test]
fn what_follows_a_convolution_must_take_images() {
    for next in [r#"{"type":"flatten"}"#, r#"{"type":"dense","weight":"w","weight_axes":["in","out"]}"#] {
        let error = apply(&format!(r#"{{"layers":[{{"type":"conv",{HWIO}}},{next}]}}"#)).unwrap_err();
        assert!(error.to_string().contains("layers[1]"), "{error}");
    }
}
