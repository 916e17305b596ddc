//! Weights without a configuration, with a model that is given beside them.

use super::cases::reports;
use ckpt_api::{Axis, Checkpoint, Contents, DType, Input, Options, Shape, Tensor};
use ckpt_conformance::{read, read_given, write};
use ckpt_hdf5::{AttributeValue, Datatype, Draft};
use ckpt_keras::Keras;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Two layers with kernels of one shape.
const CONFIG: &str = r#"{"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "config": {"name": "i", "batch_input_shape": [null, 2]}},
    {"class_name": "Dense", "config": {"name": "a", "units": 2, "use_bias": false}},
    {"class_name": "Dense", "config": {"name": "b", "units": 2, "use_bias": false}}]}}"#;

/// Like [`CONFIG`], with kernels of the shapes [2, 3] and [3, 2].
fn of_two_shapes() -> String {
    CONFIG.replacen("\"units\": 2", "\"units\": 3", 1)
}

/// The model, as it is read from an `.h5` file.
fn model() -> Checkpoint {
    model_of(CONFIG, [[2, 2], [2, 2]])
}

fn model_of(config: &str, shapes: [[u64; 2]; 2]) -> Checkpoint {
    let tensor = |(path, shape): (&str, [u64; 2])| {
        let mut tensor = Tensor::new(path, DType::F32, Shape::new(shape).unwrap());
        tensor.axes = Some([Axis::In, Axis::Out].into());
        tensor.metadata.insert("keras", "path", path);
        tensor
    };
    let paths = ["layers/dense/vars/0", "layers/dense_1/vars/0"];
    let values: Vec<_> =
        shapes.iter().map(|[rows, columns]| vec![0; (rows * columns * 4) as usize]).collect();
    let tensors = paths.into_iter().zip(shapes).map(tensor).collect();
    let mut checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    checkpoint.metadata.insert("keras", "config", config);
    checkpoint.metadata.insert("keras", "keras_version", "2.15.0");
    let files = write(&Keras, &checkpoint, &values, "m.h5", &[]).unwrap();
    read(&Keras, &Input::memory("m.h5", files), &[]).unwrap().0.checkpoint
}

/// A file that `save_weights` writes, whose layers have these names.
fn weights(layers: [&str; 2]) -> Input {
    weights_of(layers, [[2, 2], [2, 2]])
}

fn weights_of(layers: [&str; 2], shapes: [[u64; 2]; 2]) -> Input {
    let texts =
        |texts: Vec<String>| AttributeValue::Texts(texts.into_iter().map(String::into_bytes).collect());
    let mut draft = Draft::default();
    draft.attribute("", "layer_names", texts(layers.map(str::to_owned).to_vec())).unwrap();
    for (layer, shape) in layers.into_iter().zip(shapes) {
        draft.attribute(layer, "weight_names", texts(vec![format!("{layer}/kernel:0")])).unwrap();
        let shape = Shape::new(shape).unwrap();
        draft.dataset(&format!("{layer}/{layer}/kernel:0"), Datatype::little(DType::F32), shape).unwrap();
    }
    let plan = draft.place().unwrap();
    let mut bytes = vec![0; plan.len as usize];
    for (offset, block) in &plan.blocks {
        bytes[*offset as usize..][..block.len()].copy_from_slice(block);
    }
    Input::memory("w.h5", BTreeMap::from([("w.h5".to_owned(), bytes)]))
}

fn read_beside(input: &Input, model: Checkpoint) -> Contents {
    read_given(&Keras, input, &Options::default().with_model(Some(Arc::new(model)))).unwrap().0
}

/// The tensor of each variable, by its path.
fn by_path(contents: &Contents) -> Vec<(String, String)> {
    let pair =
        |tensor: &Tensor| Some((tensor.metadata.text("keras", "path")?.to_owned(), tensor.name.to_string()));
    let mut pairs: Vec<_> = contents.checkpoint.tensors.iter().filter_map(pair).collect();
    pairs.sort();
    pairs
}

#[test]
fn weights_get_the_graph_of_the_model_beside_them_under_their_own_names() {
    let contents = read_beside(&weights(["a", "b"]), model());
    assert!(contents.adopts_model);
    let graph = contents.checkpoint.graph.as_ref().unwrap();
    let mut used: Vec<&str> = graph.tensors().collect();
    used.sort_unstable();
    assert_eq!(used, ["a/a/kernel:0", "b/b/kernel:0"]);
}

#[test]
fn layers_of_other_names_are_taken_in_their_order() {
    let contents = read_beside(&weights(["z", "c"]), model());
    let expected = [("layers/dense/vars/0", "z/z/kernel:0"), ("layers/dense_1/vars/0", "c/c/kernel:0")];
    assert_eq!(by_path(&contents), expected.map(|(path, name)| (path.to_owned(), name.to_owned())));
}

/// Keras 3.15 and tf_keras 2.21 give the layer `a` the kernel that the file has for `b`, unless `by_name=True` is given.
#[test]
fn layers_of_the_same_names_in_another_order_are_taken_in_their_order_as_keras_does() {
    let contents = read_beside(&weights(["b", "a"]), model());
    let expected = [("layers/dense/vars/0", "b/b/kernel:0"), ("layers/dense_1/vars/0", "a/a/kernel:0")];
    assert_eq!(by_path(&contents), expected.map(|(path, name)| (path.to_owned(), name.to_owned())));
    let node = &contents.checkpoint.graph.as_ref().unwrap().nodes[0];
    assert_eq!((node.name.as_str(), node.parameters["weight"].as_str()), ("a", "b/b/kernel:0"));
    assert!(
        contents
            .notes
            .iter()
            .any(|note| note.contains("in another order") && note.contains("of the same place")),
        "{:?}",
        contents.notes
    );
    let contents = read_beside(&weights(["a", "b"]), model());
    assert!(!contents.notes.iter().any(|note| note.contains("in another order")), "{:?}", contents.notes);
}

#[test]
fn layers_whose_shapes_fit_by_their_names_alone_are_joined_by_name() {
    let model = model_of(&of_two_shapes(), [[2, 3], [3, 2]]);
    let contents = read_beside(&weights_of(["b", "a"], [[3, 2], [2, 3]]), model);
    assert!(contents.adopts_model);
    let expected = [("layers/dense/vars/0", "a/a/kernel:0"), ("layers/dense_1/vars/0", "b/b/kernel:0")];
    assert_eq!(by_path(&contents), expected.map(|(path, name)| (path.to_owned(), name.to_owned())));
    assert!(contents.notes.iter().any(|note| note.contains("by_name=True")), "{:?}", contents.notes);
}

#[test]
fn weights_of_another_shape_keep_their_names_and_get_no_graph_but_say_which_shapes_differ() {
    let mut other = model();
    other.tensors[1].shape = Shape::new([2u64, 3]).unwrap();
    let contents = read_beside(&weights(["a", "b"]), other);
    assert!(!contents.adopts_model && contents.checkpoint.graph.is_none());
    let misfit = contents.misfit.unwrap();
    let shapes = (misfit.found.to_string(), misfit.expected.to_string());
    assert_eq!((misfit.tensor.as_str(), shapes), ("b/b/kernel:0", ("[2, 2]".into(), "[2, 3]".into())));
}

#[test]
fn weights_that_keras_saved_are_those_of_each_model_beside_them() {
    let Some(folder) = reports("keras-weights-and-arch") else { return };
    let open = |name: &str| Input::open(folder.join(name)).unwrap();
    let values = |contents: &Contents, values: &[Vec<u8>]| -> BTreeMap<String, Vec<u8>> {
        let tensors = contents.checkpoint.tensors.iter().zip(values);
        tensors
            .filter_map(|(own, value)| Some((own.metadata.text("keras", "path")?.to_owned(), value.clone())))
            .collect()
    };
    let mut pairs = 0;
    for name in ["model.h5", "model.keras"] {
        let (model, expected) = read(&Keras, &open(name), &[]).unwrap();
        let expected = values(&model, &expected);
        assert_eq!(expected.len(), 8);
        for weights in ["only_weights.h5", "only.weights.h5"] {
            let given = Options::default().with_model(Some(Arc::new(model.checkpoint.clone())));
            let (contents, found) = read_given(&Keras, &open(weights), &given).unwrap();
            assert!(contents.adopts_model, "{weights} with {name}");
            assert_eq!(values(&contents, &found), expected, "{weights} with {name}");
            pairs += 1;
        }
    }
    assert_eq!(pairs, 4);
}
