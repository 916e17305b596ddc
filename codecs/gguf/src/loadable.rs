//! What llama.cpp needs to load a file, and a file lacks.

use crate::types;
use ckpt_api::{DType, Loss, LossKind, MetadataMap, MetadataValue, Setting, Text, text};

/// The key without which nothing is loaded.
const ARCHITECTURE: &str = "general.architecture";
/// The key that says whether a file is a model.
const TYPE: &str = "general.type";
/// The key of the tokenizer, which may be "none".
const TOKENIZER: &str = "tokenizer.ggml.model";

/// Keys that every language model needs.
const COMMON: [&str; 5] =
    ["block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"];
/// Keys of the two kinds of norms.
const RMS: &str = "attention.layer_norm_rms_epsilon";
const NORM: &str = "attention.layer_norm_epsilon";

/// Architectures of language models whose keys are known, with the key of their norms.
const ARCHITECTURES: [(&str, &str); 24] = [
    ("llama", RMS),
    ("llama4", RMS),
    ("mistral3", RMS),
    ("smollm3", RMS),
    ("granite", RMS),
    ("qwen2", RMS),
    ("qwen2moe", RMS),
    ("qwen2vl", RMS),
    ("qwen3", RMS),
    ("qwen3moe", RMS),
    ("gemma", RMS),
    ("gemma2", RMS),
    ("gemma3", RMS),
    ("phi3", RMS),
    ("olmo2", RMS),
    ("deepseek2", RMS),
    ("gpt-oss", RMS),
    ("phi2", NORM),
    ("gpt2", NORM),
    ("gptneox", NORM),
    ("falcon", NORM),
    ("bloom", NORM),
    ("starcoder", NORM),
    ("bert", NORM),
];

/// Returns a loss for each key that llama.cpp needs and the file lacks.
pub(crate) fn missing_keys(pairs: &MetadataMap) -> Vec<Loss> {
    let loss = |key: String, detail: Text| Loss::new(LossKind::Unloadable, key, detail);
    let Some(architecture) = pairs.get(ARCHITECTURE).and_then(MetadataValue::as_text) else {
        let detail = text![
            "llama.cpp loads no file without this key: give the model's keys with ",
            Setting::WRITE_OPTION.of("metadata=FILE"),
            " or ",
            Setting::WRITE_OPTION.of("like=FILE"),
        ];
        return vec![loss(ARCHITECTURE.to_owned(), detail)];
    };
    let Some((_, norm)) = known(pairs) else { return Vec::new() };
    let own = COMMON.iter().chain([norm]).map(|key| format!("{architecture}.{key}"));
    let absent = own.filter(|key| pairs.get(key).is_none());
    let detail = format!("llama.cpp needs this key for the architecture '{architecture}'");
    let mut losses: Vec<Loss> = absent.map(|key| loss(key, detail.clone().into())).collect();
    if pairs.get(TOKENIZER).is_none() {
        let detail = "llama.cpp needs the keys of a tokenizer, or \"none\" here for a model without one";
        losses.push(loss(TOKENIZER.to_owned(), detail.into()));
    }
    losses
}

/// Whether the keys are those of a language model of an architecture that we know.
pub(crate) fn is_model(pairs: &MetadataMap) -> bool {
    known(pairs).is_some()
}

fn known(pairs: &MetadataMap) -> Option<&'static (&'static str, &'static str)> {
    let text = |key: &str| pairs.get(key).and_then(MetadataValue::as_text);
    let is_model = text(TYPE).is_none_or(|kind| kind == "model");
    ARCHITECTURES.iter().find(|(name, _)| is_model && Some(*name) == text(ARCHITECTURE))
}

/// Returns the loss of a tensor that llama.cpp computes with only as F32: biases, norms and others that its converter
/// writes as F32 whatever the type of the file.
pub(crate) fn short_vector(name: &str, dtype: DType) -> Option<Loss> {
    let is_short = matches!(dtype, DType::F16 | DType::Bf16);
    let option = format!("{}={}", types::TYPE, dtype.name());
    is_short.then(|| {
        let detail = text![
            format!("llama.cpp takes this tensor as f32 only, and it is {dtype}: "),
            Setting::WRITE_OPTION.of(&option),
            " writes it so",
        ];
        Loss::new(LossKind::Unloadable, name, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(pairs: &[(&str, &str)]) -> Vec<String> {
        let pairs = pairs.iter().map(|(key, value)| (*key, MetadataValue::from(*value))).collect();
        missing_keys(&pairs).into_iter().map(|loss| loss.subject).collect()
    }

    #[test]
    fn a_file_without_an_architecture_is_loaded_by_nothing() {
        assert_eq!(subjects(&[]), [ARCHITECTURE]);
    }

    #[test]
    fn the_keys_of_a_known_architecture_and_a_tokenizer_are_needed() {
        let lacks = subjects(&[(ARCHITECTURE, "gpt2"), ("gpt2.block_count", "2")]);
        assert_eq!(lacks.len(), 6, "{lacks:?}");
        assert_eq!(lacks[4..], ["gpt2.attention.layer_norm_epsilon", TOKENIZER]);
    }

    #[test]
    fn adapters_and_other_programs_architectures_need_no_keys_that_we_know() {
        assert_eq!(subjects(&[(ARCHITECTURE, "llama"), (TYPE, "adapter")]), [""; 0]);
        assert_eq!(subjects(&[(ARCHITECTURE, "flux")]), [""; 0]);
    }
}
