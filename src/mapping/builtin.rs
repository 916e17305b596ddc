//! The mappings that come with the program: `schemas/mappings/*.toml`.

use super::definition::Mapping;

/// Includes files by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../schemas/mappings/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "albert-tf-to-hf",
    "bert-tf-to-hf",
    "bullet-to-tf-adam",
    "clip-openai-to-hf",
    "electra-generator-tf-to-hf",
    "electra-tf-to-hf",
    "fp8-blocks-to-bf16",
    "fp8-scales-to-bf16",
    "gemma-hf-to-gguf",
    "gemma2-hf-to-gguf",
    "gpt2-swift-paths-to-hf",
    "gpt2-swift-to-hf",
    "gpt2-tf-to-hf",
    "llama-hf-to-gguf",
    "llama-meta-to-hf",
    "mixtral-experts-to-stacked",
    "mt5-mesh-to-hf",
    "mxfp4-to-bf16",
    "phi-hf-to-gguf",
    "phi-microsoft-to-hf",
    "phi3-hf-to-gguf",
    "qwen-experts-to-stacked",
    "qwen-hf-to-gguf",
    "resnet-keras-to-torchvision",
    "t5-mesh-to-hf",
    "vit-timm-to-hf",
    "whisper-openai-to-hf",
];

impl Mapping {
    /// Returns a built-in mapping by its name.
    ///
    /// ```
    /// let gpt2 = ckpt::mapping::Mapping::builtin("gpt2-tf-to-hf").expect("it is built in");
    /// let applied = gpt2.apply(&["model/h0/attn/c_attn/w"], &ckpt_api::Limits::default())?;
    /// assert_eq!(applied.targets[0].name, "h.0.attn.c_attn.weight");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn builtin(name: &str) -> Option<Self> {
        // A test reads every file, so `ok` hides no error.
        let mapping =
            Mapping::from_toml(Self::builtin_text(name)?, &format!("built-in mapping {name}")).ok()?;
        Some(Mapping { is_builtin: true, ..mapping })
    }

    /// Returns the file of a built-in mapping.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Returns the names of the built-in mappings.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }
}
