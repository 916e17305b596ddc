//! Weights whose groups Keras numbers by the order of layers in a model that nothing states.

use ckpt_api::{Axis, Checkpoint, Codec, DType, Input, LossKind, Options, Shape, Side, Tensor};
use ckpt_conformance::{read, write};
use ckpt_keras::Keras;

/// A layer of a functional model, with the layers that it takes.
fn layer(class: &str, name: &str, more: &str, from: &[&str]) -> String {
    let from: Vec<String> = from.iter().map(|from| format!("[\"{from}\", 0, 0, {{}}]")).collect();
    let nodes = if from.is_empty() { String::new() } else { format!("[{}]", from.join(", ")) };
    format!(
        "{{\"class_name\": \"{class}\", \"name\": \"{name}\", \"config\": {{\"name\": \"{name}\"{more}}}, \
         \"inbound_nodes\": [{nodes}]}}"
    )
}

/// A model of two dense layers of the same shape, `first` before `second` in the configuration.
fn model(first: &str, second: &str, takes_first: bool) -> Checkpoint {
    let units = ", \"units\": 2";
    let layers = [
        layer("InputLayer", "x", ", \"batch_shape\": [null, 2]", &[]),
        layer("Dense", first, units, &["x"]),
        layer("ReLU", "r", "", &[if takes_first { first } else { "x" }]),
        layer("Dense", second, units, &["r"]),
        layer("Multiply", "m", "", &[first, second]),
    ];
    let config = format!(
        "{{\"module\": \"keras\", \"class_name\": \"Functional\", \"config\": {{\"name\": \"g\", \"layers\": [{}], \
         \"input_layers\": [[\"x\", 0, 0]], \"output_layers\": [[\"m\", 0, 0]]}}}}",
        layers.join(", ")
    );
    let tensor = |group: &str, variable: u8, shape: &[u64], axes: &[Axis]| {
        let name = format!("layers/{group}/vars/{variable}");
        let mut tensor = Tensor::new(&name, DType::F32, Shape::new(shape).unwrap());
        tensor.axes = Some(axes.into());
        tensor.metadata.insert("keras", "path", name);
        tensor
    };
    let (two, one) = ([Axis::In, Axis::Out], [Axis::Out]);
    let tensors = ["dense", "dense_1"];
    let tensors =
        tensors.iter().flat_map(|group| [tensor(group, 0, &[2, 2], &two), tensor(group, 1, &[2], &one)]);
    let mut checkpoint = Checkpoint { tensors: tensors.collect(), ..Checkpoint::default() };
    checkpoint.metadata.insert("keras", "config", config);
    let values: Vec<Vec<u8>> = [16, 8, 16, 8].map(|len| vec![0; len]).into();
    let files = write(&Keras, &checkpoint, &values, "m.keras", &[]).unwrap();
    let (contents, _) = read(&Keras, &Input::memory("m.keras", files), &[]).unwrap();
    assert!(contents.checkpoint.graph.is_some(), "{:?}", contents.missing_graph);
    contents.checkpoint
}

/// The model, as another format gives it: without what Keras states.
fn foreign(mut checkpoint: Checkpoint) -> Checkpoint {
    checkpoint.metadata = Default::default();
    for tensor in &mut checkpoint.tensors {
        tensor.metadata = Default::default();
    }
    checkpoint
}

/// The layers whose numbers are in doubt.
fn in_doubt(checkpoint: &Checkpoint, name: &str) -> Vec<String> {
    let info = Keras.info();
    let options = Options::parse(info.id, info.options, Side::Write, &[]).unwrap();
    let placed = Keras.place(checkpoint, name, &options).unwrap();
    let losses = placed.losses.into_iter().filter(|loss| loss.kind == LossKind::Convention);
    losses.map(|loss| loss.subject).collect()
}

#[test]
fn two_layers_side_by_side_are_not_numbered_without_a_loss() {
    let checkpoint = foreign(model("value", "gate", false));
    assert_eq!(in_doubt(&checkpoint, "m.weights.h5"), ["layers/dense_1"]);
}

#[test]
fn layers_one_behind_the_other_have_their_numbers_from_the_graph() {
    let checkpoint = foreign(model("value", "gate", true));
    assert_eq!(in_doubt(&checkpoint, "m.weights.h5"), [""; 0]);
}

#[test]
fn a_configuration_gives_layers_their_numbers() {
    let checkpoint = model("value", "gate", false);
    assert_eq!(in_doubt(&checkpoint, "m.weights.h5"), [""; 0]);
}

#[test]
fn an_output_with_its_own_configuration_leaves_no_number_in_doubt() {
    let checkpoint = foreign(model("value", "gate", false));
    for name in ["m.keras", "m.h5", "m"] {
        assert_eq!(in_doubt(&checkpoint, name), [""; 0], "{name}");
    }
}
