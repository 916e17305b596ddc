//! Architecture files, as bullet's nets and as chains of layers. Of the bytes: JSON until the first 0, then the bytes that a
//! net's file holds. The JSON as names of activations, too.

use crate::{check, inputs};
use ckpt_api::{Architecture, ArchitectureFile, Checkpoint, DType, Graph, Node, Shape, Tensor};

/// What a source's own graph is.
const OWN: &str = r#"{"layers": [
    {"type": "dense", "weight": "w", "bias": "b", "weight_axes": ["in", "out"]},
    {"type": "conv", "weight": "k", "bias": "c", "weight_axes": ["kernel_y", "kernel_x", "in", "out"]}
]}"#;

pub(super) fn fuzz(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (text, rest) = data.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    specify(text);
    let own = Architecture::from_json(text);
    let Ok(file) = ArchitectureFile::from_json(text) else { return };
    let layers = file.layers();
    if let Ok(own) = own {
        assert_eq!(layers.as_ref().ok(), Some(&own), "what is a chain of layers alone is one in a file");
    }
    layers.into_iter().for_each(|layers| apply(&layers));
    let is_net = ckpt_bullet::check_architecture(&file).is_ok();
    let file = file.named("arch.json");
    file.layers().into_iter().for_each(|layers| apply(&layers));
    assert_eq!(ckpt_bullet::check_architecture(&file).is_ok(), is_net, "whatever the file is called");
    if is_net {
        assert_eq!(file.format(), Some("bullet"));
        net(&file, rest.get(1..).unwrap_or_default());
    }
}

/// Every file that the architecture describes.
fn net(file: &ArchitectureFile, bytes: &[u8]) {
    let codec = &ckpt_bullet::Bullet;
    for (name, options) in [
        ("weights.bin", &[][..]),
        ("raw.bin", &[]),
        ("quantised.bin", &[]),
        ("quantised.bin", &[("integers", "true")]),
        ("net.nnue", &[("content", "engine")]),
        ("net.nnue", &[("content", "engine"), ("integers", "true")]),
        ("net.nnue", &[("profile", "multi-avx2")]),
        ("raw.bin", &[("arch", "simple:3x2x1")]),
    ] {
        let options = check::options(codec, options).with_architecture(Some(file.clone()));
        check::read(codec, &inputs::single(name, bytes), &options);
    }
}

/// The text as the activations of two layers that state none.
fn specify(names: &str) {
    let nodes = ["a", "b"].map(Node::unspecified).to_vec();
    let graph = Graph::sequential("", vec![None, Some(4)], vec![None, Some(4)], nodes);
    let mut checkpoint = Checkpoint { graph: Some(graph), ..Checkpoint::default() };
    if checkpoint.specify(names.split(',')).is_ok() {
        let graph = checkpoint.graph.expect("it was there");
        assert!(graph.unspecified().is_empty());
        graph.check().expect("which can run");
    }
}

/// The architecture for tensors without a graph of their own, and for the same with one.
fn apply(architecture: &Architecture) {
    let tensor = |name: &str, dims: &[u64]| Tensor::new(name, DType::F32, Shape::new(dims).expect("small"));
    let tensors =
        vec![tensor("k", &[3, 3, 4, 2]), tensor("c", &[2]), tensor("w", &[2, 5]), tensor("b", &[5])];
    let bare = Checkpoint { tensors, ..Checkpoint::default() };
    let mut described = bare.clone();
    Architecture::from_json(OWN).and_then(|own| own.apply(&mut described)).expect("it fits");
    for mut checkpoint in [bare, described] {
        if architecture.apply(&mut checkpoint).is_ok() {
            let graph = checkpoint.graph.expect("an architecture gives a graph");
            graph.check().expect("which can run");
        }
    }
}
