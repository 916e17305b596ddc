//! Every codec is asked about every input, under names that make each of them look closer.

use crate::inputs;

const NAMES: [&str; 16] = [
    "x",
    "x.bin",
    "x.pt",
    "x.bin.index.json",
    "quantised.bin",
    "x.gguf",
    "x.nn",
    "x.npz",
    "x.onnx",
    "x.safetensors",
    "x.safetensors.index.json",
    "x.index",
    "x.pb",
    "checkpoint",
    "model.json",
    "weights_manifest.json",
];

/// What an index of TensorFlow ends with.
const TABLE: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();

pub(super) fn fuzz(data: &[u8]) {
    let codecs: [&dyn ckpt_api::Codec; 21] = [
        &ckpt_bullet::Bullet,
        &ckpt_caffe::Caffe,
        &ckpt_cnn2::Cnn2,
        &ckpt_coreml::CoreMl,
        &ckpt_darknet::Darknet,
        &ckpt_orbax::Flax,
        &ckpt_gguf::Gguf,
        &ckpt_mxnet::Mxnet,
        &ckpt_nn::Nn,
        &ckpt_nnue::Nnue,
        &ckpt_npz::Npz,
        &ckpt_onnx::Onnx,
        &ckpt_orbax::Orbax,
        &ckpt_paddle::Paddle,
        &ckpt_safetensors::Safetensors,
        &ckpt_tf2::Tf1,
        &ckpt_tf2::Tf2,
        &ckpt_tfjs::Tfjs,
        &ckpt_tflite::Tflite,
        &ckpt_torch::Torch,
        &ckpt_torch7::Torch7,
    ];
    // An input that ends as one format does can begin as another: then two codecs are certain, and rightly.
    let tail = &data[data.len().saturating_sub(64)..];
    let ends_with_name = tail.windows(6).any(|bytes| bytes == b"bullet");
    let ends_with_sign = ends_with_name || data.ends_with(&TABLE);
    for name in NAMES {
        let input = inputs::single(name, data);
        let certain = codecs.iter().filter(|codec| {
            let verdict = codec.probe(&input).expect("memory can always be read");
            matches!(verdict, ckpt_api::Match::Certain(_))
        });
        assert!(certain.count() <= 1 || ends_with_sign, "two codecs are certain of the same input");
    }
}
