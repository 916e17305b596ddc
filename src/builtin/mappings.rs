//! The mappings that come with the program: `data/mappings/*.toml`, and those that PyTorch's modules need.

use ckpt_engine::formats::RegisteredMapping;
use ckpt_pytorch::{FlaxToTorch, GraphToTorch, KerasToTorch, PaddleToTorch};
use std::sync::Arc;

/// Includes files by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../data/mappings/", $name, ".toml")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "albert-tf-to-hf",
    "bert-flax-to-hf",
    "bert-h5-to-hf",
    "bert-heads-hf-to-gguf",
    "bert-hf-to-gguf",
    "bert-tf-to-hf",
    "bullet-to-tf-adam",
    "clip-openai-to-hf",
    "deepseek-hf-to-gguf",
    "electra-generator-tf-to-hf",
    "electra-tf-to-hf",
    "fp8-blocks-to-bf16",
    "fp8-scales-to-bf16",
    "gemma-google-to-hf",
    "gemma-hf-to-gguf",
    "gemma2-hf-to-gguf",
    "glm4-hf-to-gguf",
    "glm4moe-hf-to-gguf",
    "gpt-oss-hf-to-gguf",
    "gpt-oss-mxfp4-hf-to-gguf",
    "gpt2-flax-to-hf",
    "gpt2-h5-to-hf",
    "gpt2-swift-paths-to-hf",
    "gpt2-swift-to-hf",
    "gpt2-tf-to-hf",
    "gptneox-hf-to-gguf",
    "llama-flax-to-hf",
    "llama-hf-to-gguf",
    "llama-meta-to-hf",
    "llama4-hf-to-gguf",
    "mamba-hf-to-gguf",
    "mamba2-hf-to-gguf",
    "mixtral-experts-to-stacked",
    "modern-bert-head-hf-to-gguf",
    "modern-bert-hf-to-gguf",
    "mt5-mesh-to-hf",
    "mxfp4-to-bf16",
    "nomic-bert-hf-to-gguf",
    "olmo2-hf-to-gguf",
    "phi-hf-to-gguf",
    "phi-microsoft-to-hf",
    "phi3-hf-to-gguf",
    "qwen-experts-to-stacked",
    "qwen-hf-to-gguf",
    "resnet-keras-to-torchvision",
    "stablelm-hf-to-gguf",
    "starcoder2-hf-to-gguf",
    "t5-flax-to-hf",
    "t5-gated-hf-to-gguf",
    "t5-hf-to-gguf",
    "t5-mesh-to-hf",
    "t5-t5x-to-hf",
    "vit-flax-to-hf",
    "vit-timm-to-hf",
    "whisper-openai-to-hf",
];

/// All of them.
pub(super) fn all() -> Vec<RegisteredMapping> {
    let files = FILES.iter().map(|(name, toml)| RegisteredMapping::File { name, toml });
    let keras = RegisteredMapping::Generated(Arc::new(KerasToTorch::default()));
    let flax = RegisteredMapping::Generated(Arc::new(FlaxToTorch::default()));
    let paddle = RegisteredMapping::Generated(Arc::new(PaddleToTorch::default()));
    let graph = RegisteredMapping::Generated(Arc::new(GraphToTorch));
    files.chain([keras, flax, paddle, graph]).collect()
}
