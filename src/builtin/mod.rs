//! What comes with the program: codecs, mappings, architectures, and what it knows of formats that it does not read.

mod mappings;

use crate::foreign::ForeignFormats;
use crate::formats::Formats;
use crate::registry::Registry;
use crate::template::BuiltinArchitectures;
use ckpt_api::Codec;
use std::sync::Arc;

impl Registry {
    /// The codecs that this build contains, the mappings and architectures that come with the program, and, with the feature
    /// `forward`, the verifier that runs graphs.
    pub fn builtin() -> Self {
        let codecs: Vec<Arc<dyn Codec>> = vec![
            #[cfg(feature = "bullet")]
            Arc::new(ckpt_bullet::Bullet),
            #[cfg(feature = "cnn2")]
            Arc::new(ckpt_cnn2::Cnn2),
            #[cfg(feature = "gguf")]
            Arc::new(ckpt_gguf::Gguf),
            #[cfg(feature = "keras")]
            Arc::new(ckpt_keras::Keras),
            #[cfg(feature = "nn")]
            Arc::new(ckpt_nn::Nn),
            #[cfg(feature = "npz")]
            Arc::new(ckpt_npz::Npz),
            #[cfg(feature = "onnx")]
            Arc::new(ckpt_onnx::Onnx),
            #[cfg(feature = "safetensors")]
            Arc::new(ckpt_safetensors::Safetensors),
            #[cfg(feature = "tf2")]
            Arc::new(ckpt_tf2::Tf2),
            #[cfg(feature = "torch")]
            Arc::new(ckpt_torch::Torch),
        ];
        let registry = Registry::of(
            Formats::with(codecs, mappings::all())
                .with_architectures(BuiltinArchitectures)
                .with_unread(ForeignFormats),
        );
        #[cfg(feature = "forward")]
        let registry = registry.with_verifier(crate::verify::GraphVerifier);
        registry
    }
}
