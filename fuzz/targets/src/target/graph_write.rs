//! Graphs as JSON, with the shapes of their tensors, written as every format: refused, or readable.

use ckpt_api::{Checkpoint, Codec, Graph, Input, Tensor};
use std::collections::BTreeSet;

/// What all tensors may have together.
const VALUE_BYTES: u64 = 1 << 16;

#[derive(serde::Deserialize)]
struct Case {
    graph: Option<Graph>,
    tensors: Vec<Tensor>,
}

pub(super) fn fuzz(data: &[u8]) {
    let Ok(Case { graph, tensors }) = serde_json::from_slice(data) else { return };
    let names: BTreeSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let sizes = tensors.iter().map(|tensor| tensor.dtype.bytes().map(|_| tensor.value_bytes()));
    let total = sizes.into_iter().try_fold(0u64, |sum, size| Some(sum.saturating_add(size?)));
    if names.len() < tensors.len() || total.is_none_or(|total| total > VALUE_BYTES) {
        return;
    }
    let values: Vec<_> = tensors.iter().map(|tensor| vec![0; tensor.value_bytes() as usize]).collect();
    let checkpoint = Checkpoint { graph, tensors, ..Checkpoint::default() };
    let codecs: [(&dyn Codec, &str); 14] = [
        (&ckpt_bullet::Bullet, "weights.bin"),
        (&ckpt_cnn2::Cnn2, "m.bin"),
        (&ckpt_coreml::CoreMl, ""),
        (&ckpt_orbax::Flax, "m.msgpack"),
        (&ckpt_mxnet::Mxnet, "m.params"),
        (&ckpt_nn::Nn, "m.nn"),
        (&ckpt_npz::Npz, "m.npz"),
        (&ckpt_onnx::Onnx, "m.onnx"),
        (&ckpt_orbax::Orbax, ""),
        (&ckpt_paddle::Paddle, "m.pdparams"),
        (&ckpt_safetensors::Safetensors, "m.safetensors"),
        (&ckpt_tf2::Tf2, "m.index"),
        (&ckpt_tflite::Tflite, "m.tflite"),
        (&ckpt_tfjs::Tfjs, ""),
    ];
    for (codec, name) in codecs {
        let Ok(files) = ckpt_conformance::write(codec, &checkpoint, &values, name, &[]) else { continue };
        let input = Input::memory(name, files);
        ckpt_conformance::read(codec, &input, &[]).expect("what was written can be read");
    }
}
