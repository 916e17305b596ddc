//! Models whose tensors, names or graph were changed after they were read, as a mapping does.

use ckpt_api::{Axis, Checkpoint, DType, Input, Kind, LossKind, Options, Shape, Side, Tensor};
use ckpt_conformance::{read, write};
use ckpt_keras::Keras;
use std::collections::BTreeMap;

/// A kernel, a bias, and where Keras has them.
const KERNEL: &str = "layers/dense/vars/0";
const BIAS: &str = "layers/dense/vars/1";

/// A layer of two units for two features, whose kernel has the rows 1 2 and 3 4; `calls` times in a row.
fn config(calls: usize) -> String {
    let dense = r#"{"class_name": "Dense", "config": {"name": "d", "units": 2}}"#;
    let mut layers =
        vec![r#"{"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [null, 2]}}"#.to_owned()];
    layers.extend((0..calls).map(|call| dense.replace("\"d\"", &format!("\"d{call}\""))));
    format!(
        r#"{{"module": "keras", "class_name": "Sequential", "config": {{"name": "m", "layers": [{}]}}}}"#,
        layers.join(", ")
    )
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The model, as it is read from a directory. Its `metadata.json` is not what is written without it, so that the bytes
/// around the elements are kept.
fn model() -> (Checkpoint, Vec<Vec<u8>>) {
    let tensor = |name, shape: &[u64], axes: &[Axis]| {
        let mut tensor = Tensor::new(name, DType::F32, Shape::new(shape).unwrap());
        tensor.axes = Some(axes.into());
        tensor.metadata.insert("keras", "path", name);
        tensor
    };
    let mut checkpoint = Checkpoint {
        tensors: vec![tensor(KERNEL, &[2, 2], &[Axis::In, Axis::Out]), tensor(BIAS, &[2], &[Axis::Out])],
        ..Checkpoint::default()
    };
    checkpoint.metadata.insert("keras", "config", config(1));
    let values = [floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[5.0, 6.0])];
    let mut files = write(&Keras, &checkpoint, &values, "m", &[]).unwrap();
    files.insert("m/metadata.json".to_owned(), br#"{"keras_version": "3.15.1", "more": 1}"#.to_vec());
    let (contents, values) = read_directory(files);
    assert!(contents.metadata.value("keras.files", "parts").is_some(), "the files are kept");
    (contents, values)
}

fn read_directory(files: BTreeMap<String, Vec<u8>>) -> (Checkpoint, Vec<Vec<u8>>) {
    let files = files.into_iter().map(|(name, bytes)| (name.trim_start_matches("m/").to_owned(), bytes));
    let (contents, values) = read(&Keras, &Input::memory("", files.collect()), &[]).unwrap();
    (contents.checkpoint, values)
}

/// What is read after the checkpoint was written, by name.
fn again(checkpoint: &Checkpoint, values: &[Vec<u8>]) -> BTreeMap<String, (Tensor, Vec<u8>)> {
    let (checkpoint, values) = read_directory(write(&Keras, checkpoint, values, "m", &[]).unwrap());
    let pairs = checkpoint.tensors.into_iter().zip(values);
    pairs.map(|(tensor, value)| (tensor.name.to_string(), (tensor, value))).collect()
}

/// As a mapping leaves a tensor whose elements it moved.
fn moved(tensor: &mut Tensor, shape: &[u64], axes: Option<Vec<Axis>>) {
    tensor.shape = Shape::new(shape).unwrap();
    tensor.axes = axes.map(Into::into);
    tensor.metadata = Default::default();
}

fn place(checkpoint: &Checkpoint, name: &str) -> ckpt_api::Result<ckpt_api::OutputLayout> {
    use ckpt_api::Codec;
    let info = Keras.info();
    Keras.place(checkpoint, name, &Options::parse(info.id, info.options, Side::Write, &[])?)
}

#[test]
fn a_square_kernel_that_was_transposed_is_stored_as_the_configuration_has_it() {
    let (mut checkpoint, mut values) = model();
    moved(&mut checkpoint.tensors[0], &[2, 2], Some(vec![Axis::Out, Axis::In]));
    values[0] = floats(&[1.0, 3.0, 2.0, 4.0]);
    assert_eq!(again(&checkpoint, &values)[KERNEL].1, floats(&[1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn two_tensors_that_change_names_stay_what_they_are_in_the_model() {
    let (mut checkpoint, mut values) = model();
    checkpoint.tensors[0].name = "w".into();
    checkpoint.follow(&[(KERNEL.to_owned(), "w".to_owned())].into());
    values[0] = floats(&[4.0, 3.0, 2.0, 1.0]);
    assert_eq!(again(&checkpoint, &values)[KERNEL].1, floats(&[4.0, 3.0, 2.0, 1.0]));
}

#[test]
fn a_configuration_that_no_longer_fits_a_tensor_is_refused_with_its_name() {
    let (mut checkpoint, _) = model();
    moved(&mut checkpoint.tensors[0], &[1, 2, 2], Some(vec![Axis::Unit, Axis::In, Axis::Out]));
    for graph in [checkpoint.graph.take(), None] {
        checkpoint.graph = graph;
        for name in ["m", "m.keras"] {
            let error = place(&checkpoint, name).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(error.to_string().contains(KERNEL), "{error}");
        }
    }
    let found = place(&checkpoint, "m.weights.h5").unwrap();
    assert_eq!(found.placements.len(), 2, "weights alone need no configuration");
}

#[test]
fn a_configuration_is_not_used_for_a_tensor_that_was_reordered_where_nothing_shows_it() {
    let (mut checkpoint, _) = model();
    moved(&mut checkpoint.tensors[0], &[2, 2], Some(vec![Axis::In, Axis::Out]));
    // A mapping that reorders flattened images, or parts, takes the graph.
    checkpoint.graph = None;
    let error = place(&checkpoint, "m.keras").unwrap_err();
    assert!(error.to_string().contains(KERNEL), "{error}");
}

#[test]
fn a_graph_that_is_not_the_configuration_s_gets_a_configuration_of_its_own() {
    let (mut checkpoint, values) = model();
    checkpoint.metadata.insert(
        "keras",
        "config",
        config(1).replace("\"units\": 2", "\"units\": 2, \"activation\": \"relu\""),
    );
    let files = write(&Keras, &checkpoint, &values, "m.weights.h5", &[]).unwrap();
    let (weights, _) = read(&Keras, &Input::memory("m.weights.h5", files), &[]).unwrap();
    assert_eq!(weights.checkpoint.graph.unwrap().nodes.len(), 1, "the graph has no activation");
}

#[test]
fn a_tensor_of_no_layer_whose_name_begins_with_a_slash_has_a_path_from_the_root() {
    let (mut checkpoint, _) = model();
    checkpoint.tensors.push(Tensor::new("/part/Constant", DType::F32, Shape::new([2]).unwrap()));
    for name in ["m.keras", "m.weights.h5", "m.h5"] {
        let placed = place(&checkpoint, name).unwrap();
        let own =
            placed.placements.iter().find(|placement| placement.tensor.0 + 1 == checkpoint.tensors.len());
        assert_eq!(own.unwrap().name, "part/Constant", "{name}");
        let told = placed.losses.iter().any(|loss| loss.subject == "/part/Constant");
        assert!(told, "{name}: {:?}", placed.losses);
    }
}

#[test]
fn a_tensor_of_two_layers_is_stored_for_each() {
    let (mut checkpoint, values) = model();
    let (twice, _) = {
        let mut both = checkpoint.clone();
        both.metadata = Default::default();
        both.metadata.insert("keras", "config", config(2));
        let more: Vec<Tensor> = both
            .tensors
            .iter()
            .map(|tensor| {
                let mut tensor = tensor.clone();
                tensor.name = tensor.name.replace("dense", "dense_1").into();
                tensor.metadata.insert("keras", "path", tensor.name.as_str());
                tensor
            })
            .collect();
        both.tensors.extend(more);
        both.graph = None;
        read_directory(write(&Keras, &both, &[&values[..], &values[..]].concat(), "m", &[]).unwrap())
    };
    let mut graph = twice.graph.unwrap();
    graph.each_node_mut(|node| {
        node.parameters.values_mut().for_each(|name| *name = name.replace("dense_1", "dense"));
    });
    checkpoint.graph = Some(graph);
    for name in ["m.keras", "m.weights.h5", "m.h5"] {
        let placed = place(&checkpoint, name).unwrap();
        assert_eq!(placed.placements.len(), 4, "{name}");
        let untied = placed.losses.iter().filter(|loss| loss.kind == LossKind::Untied).count();
        assert_eq!(untied, 2, "{name}: {:?}", placed.losses);
    }
    let found = again(&checkpoint, &values);
    assert_eq!(found[KERNEL].1, found["layers/dense_1/vars/0"].1);
}

/// A model of a dense layer, and of a layer of the program's own with a weight.
fn with_a_layer_of_its_own() -> Checkpoint {
    let layers = r#"[{"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [null, 2]}},
        {"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": false}},
        {"class_name": "Swirl", "module": "mine", "registered_name": "Swirl", "config": {"name": "s"}}]"#;
    let config = format!(
        r#"{{"module": "keras", "class_name": "Sequential", "config": {{"name": "m", "layers": {layers}}}}}"#
    );
    let tensor = |name: &str| {
        let mut tensor = Tensor::new(name, DType::F32, Shape::new(vec![2, 2]).unwrap());
        tensor.axes = Some([Axis::In, Axis::Out].into());
        tensor.metadata.insert("keras", "path", name);
        tensor
    };
    let tensors = ["layers/dense/vars/0", "layers/swirl/vars/0"].map(tensor).into();
    let mut checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    checkpoint.metadata.insert("keras", "config", config);
    checkpoint
}

#[test]
fn a_weight_whose_layer_an_h5_file_could_not_list_is_refused_by_its_name() {
    let (checkpoint, values) = (with_a_layer_of_its_own(), [vec![0; 16], vec![0; 16]]);
    for name in ["m.keras", "m.weights.h5"] {
        write(&Keras, &checkpoint, &values, name, &[]).unwrap();
    }
    let error = write(&Keras, &checkpoint, &values, "m.h5", &[]).unwrap_err();
    assert!(error.to_string().contains("not known"), "{error:?}");
    assert!(format!("{error:?}").contains("layers/swirl/vars/0"), "{error:?}");
}

#[test]
fn a_model_within_a_functional_model_of_keras_2_is_one_that_keras_3_does_not_load() {
    let node = |from: &str, call: u64| format!(r#""inbound_nodes": [[["{from}", {call}, 0, {{}}]]]"#);
    let dense =
        r#"{"class_name": "Dense", "name": "d", "config": {"name": "d", "units": 2, "use_bias": false}"#;
    let input = r#"{"class_name": "InputLayer", "name": "i", "config": {"name": "i", "batch_input_shape": [null, 2]}, "inbound_nodes": []}"#;
    let functional = |layers: String, name: &str, out: &str| {
        format!(
            r#""class_name": "Model", "name": "{name}", "config": {{"name": "{name}", "layers": [{layers}], "input_layers": [["i", 0, 0]], "output_layers": [["{out}", 0, 0]]}}"#
        )
    };
    let plain = functional(format!("{input}, {dense}, {}}}", node("i", 0)), "m", "d");
    let inner = format!("{{{plain}, {}}}", node("i", 0));
    let nested = functional(format!("{input}, {inner}"), "outer", "m");
    let losses = |config: String, path: &str| {
        let mut tensor = Tensor::new(path, DType::F32, Shape::new([2u64, 2]).unwrap());
        tensor.axes = Some([Axis::In, Axis::Out].into());
        tensor.metadata.insert("keras", "path", path);
        let mut checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
        checkpoint.metadata.insert("keras", "config", format!("{{{config}}}"));
        checkpoint.metadata.insert("keras", "keras_version", "2.2.4");
        ckpt_api::Codec::place(&Keras, &checkpoint, "m.keras", &Options::default()).unwrap().losses
    };
    assert!(losses(plain, "layers/dense/vars/0").iter().all(|loss| loss.kind != LossKind::Unloadable));
    let nested = losses(nested, "layers/functional/layers/dense/vars/0");
    assert!(nested.iter().any(|loss| loss.kind == LossKind::Unloadable && loss.subject == "m"), "{nested:?}");
}
