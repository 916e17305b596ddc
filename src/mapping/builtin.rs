//! The mappings that come with the program: `schemas/mappings/*.toml`.

use super::definition::{Generator, Mapping};
use crate::pytorch::{KERAS_TO_TORCH, TorchNames};
use ckpt_api::{Error, Result};

/// What the generated mapping does.
const TITLE: &str = "Keras to PyTorch, made for the graph of each checkpoint";

/// Includes files by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../schemas/mappings/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "albert-tf-to-hf",
    "bert-h5-to-hf",
    "bert-tf-to-hf",
    "bullet-to-tf-adam",
    "clip-openai-to-hf",
    "electra-generator-tf-to-hf",
    "electra-tf-to-hf",
    "fp8-blocks-to-bf16",
    "fp8-scales-to-bf16",
    "gemma-google-to-hf",
    "gemma-hf-to-gguf",
    "gemma2-hf-to-gguf",
    "gpt2-h5-to-hf",
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
        if name == KERAS_TO_TORCH {
            let generator = Generator { names: TorchNames::default(), is_inverse: false };
            return Some(Mapping {
                origin: Some(name.to_owned()),
                title: Some(TITLE.to_owned()),
                is_builtin: true,
                generator: Some(generator),
                ..Mapping::empty()
            });
        }
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
        let before = FILES.iter().map(|(name, _)| *name).filter(|name| *name < KERAS_TO_TORCH);
        let after = FILES.iter().map(|(name, _)| *name).filter(|name| *name > KERAS_TO_TORCH);
        before.chain([KERAS_TO_TORCH]).chain(after)
    }

    /// Whether the mapping is made for the graph of each checkpoint: it has no rules of its own.
    pub(crate) fn is_generated(&self) -> bool {
        self.generator.is_some()
    }

    /// Whether a generated mapping leads from PyTorch to Keras.
    pub(crate) fn is_inverse(&self) -> bool {
        self.generator.is_some_and(|generator| generator.is_inverse)
    }

    /// Chooses how a generated mapping names PyTorch's modules: `layers`, `sequential` or `torchvision`.
    ///
    /// ```
    /// let mapping = ckpt::mapping::Mapping::builtin("keras-to-torch").expect("it is built in");
    /// assert!(mapping.clone().with_names("sequential").is_ok());
    /// assert!(mapping.with_names("tensorflow").is_err());
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for other names, and for a mapping that is not generated.
    pub fn with_names(mut self, names: &str) -> Result<Self> {
        let Some(generator) = &mut self.generator else {
            let error = Error::usage("the mapping has no parameter 'names': its file states all names");
            return Err(self.located(error));
        };
        generator.names = TorchNames::parse(names)?;
        Ok(self)
    }
}
