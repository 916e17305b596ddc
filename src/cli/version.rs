//! What `--version` prints.

use std::sync::LazyLock;

/// Features of the build that decide what the program can do.
const FEATURES: [(&str, bool); 24] = [
    ("bullet", cfg!(feature = "bullet")),
    ("caffe", cfg!(feature = "caffe")),
    ("cnn2", cfg!(feature = "cnn2")),
    ("coreml", cfg!(feature = "coreml")),
    ("cuda", cfg!(feature = "cuda")),
    ("darknet", cfg!(feature = "darknet")),
    ("forward", cfg!(feature = "forward")),
    ("gguf", cfg!(feature = "gguf")),
    ("keras", cfg!(feature = "keras")),
    ("metal", cfg!(feature = "metal")),
    ("mxnet", cfg!(feature = "mxnet")),
    ("nn", cfg!(feature = "nn")),
    ("nnue", cfg!(feature = "nnue")),
    ("npz", cfg!(feature = "npz")),
    ("onnx", cfg!(feature = "onnx")),
    ("orbax", cfg!(feature = "orbax")),
    ("paddle", cfg!(feature = "paddle")),
    ("safetensors", cfg!(feature = "safetensors")),
    ("tf2", cfg!(feature = "tf2")),
    ("tfjs", cfg!(feature = "tfjs")),
    ("tflite", cfg!(feature = "tflite")),
    ("torch", cfg!(feature = "torch")),
    ("torch7", cfg!(feature = "torch7")),
    ("vulkan", cfg!(feature = "vulkan")),
];

/// The version, the commit where the build records one, and the features.
pub(super) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("CKPT_COMMIT").map(|commit| format!(" ({commit})")).unwrap_or_default();
        let built: Vec<&str> = FEATURES.iter().filter(|(_, built)| *built).map(|(name, _)| *name).collect();
        format!("{}{commit}\nfeatures: {}", env!("CARGO_PKG_VERSION"), built.join(", "))
    });
    &TEXT
}
