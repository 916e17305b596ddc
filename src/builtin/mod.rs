//! What comes with the program: codecs, mappings, architectures, and what it knows of formats that it does not read.

mod mappings;

use crate::foreign::ForeignFormats;
use ckpt_api::Codec;
use ckpt_architectures::BuiltinArchitectures;
use ckpt_engine::Registry;
use ckpt_engine::formats::Formats;
use ckpt_families::KnownFamilies;
use ckpt_quantized::KnownSchemes;
use std::sync::Arc;

/// The codecs that this build contains, the mappings and architectures that come with the program, with the feature
/// `forward` the verifier that runs graphs, and with `remote` what opens URLs.
pub(crate) fn registry() -> Registry {
    let codecs: Vec<Arc<dyn Codec>> = vec![
        #[cfg(feature = "bullet")]
        Arc::new(ckpt_bullet::Bullet),
        #[cfg(feature = "caffe")]
        Arc::new(ckpt_caffe::Caffe),
        #[cfg(feature = "cnn2")]
        Arc::new(ckpt_cnn2::Cnn2),
        #[cfg(feature = "coreml")]
        Arc::new(ckpt_coreml::CoreMl),
        #[cfg(feature = "darknet")]
        Arc::new(ckpt_darknet::Darknet),
        #[cfg(feature = "orbax")]
        Arc::new(ckpt_orbax::Flax),
        #[cfg(feature = "gguf")]
        Arc::new(ckpt_gguf::Gguf),
        #[cfg(feature = "keras")]
        Arc::new(ckpt_keras::Keras),
        #[cfg(feature = "mxnet")]
        Arc::new(ckpt_mxnet::Mxnet),
        #[cfg(feature = "nn")]
        Arc::new(ckpt_nn::Nn),
        #[cfg(feature = "nnue")]
        Arc::new(ckpt_nnue::Nnue),
        #[cfg(feature = "npz")]
        Arc::new(ckpt_npz::Npz),
        #[cfg(feature = "onnx")]
        Arc::new(ckpt_onnx::Onnx),
        #[cfg(feature = "orbax")]
        Arc::new(ckpt_orbax::Orbax),
        #[cfg(feature = "paddle")]
        Arc::new(ckpt_paddle::Paddle),
        #[cfg(feature = "safetensors")]
        Arc::new(ckpt_safetensors::Safetensors),
        #[cfg(feature = "tf2")]
        Arc::new(ckpt_tf2::Tf1),
        #[cfg(feature = "tf2")]
        Arc::new(ckpt_tf2::Tf2),
        #[cfg(feature = "tfjs")]
        Arc::new(ckpt_tfjs::Tfjs),
        #[cfg(feature = "tflite")]
        Arc::new(ckpt_tflite::Tflite),
        #[cfg(feature = "torch")]
        Arc::new(ckpt_torch::Torch),
        #[cfg(feature = "torch7")]
        Arc::new(ckpt_torch7::Torch7),
    ];
    let formats = Formats::with(codecs, mappings::all())
        .with_architectures(BuiltinArchitectures)
        .with_model_kinds(KnownFamilies)
        .with_groups(KnownSchemes)
        .with_unread(ForeignFormats);
    #[cfg(feature = "remote")]
    let formats = formats.with_opener(ckpt_remote::RemoteAddresses);
    let registry = Registry::of(formats);
    #[cfg(feature = "forward")]
    let registry = registry.with_verifier(ckpt_verify::GraphVerifier);
    registry
}
