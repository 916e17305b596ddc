//! A family of models, as its file in `data/families` describes it.

use crate::config::{Config, DefaultValue};
use ckpt_api::{Error, Result};
use ckpt_engine::formats::Formats;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::source::Source;
use ckpt_engine::words::printable;
use ckpt_tokenizers::TokenizerKind;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Characters of a value in a note.
const MOST_SHOWN: usize = 40;

/// What is known of a family.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    /// What people call it.
    pub(crate) title: String,
    /// Classes of transformers that load its models: `architectures` of `config.json`.
    pub(crate) classes: Vec<String>,
    /// What `config.json` calls the family.
    pub(crate) model_type: String,
    /// Values of `config.json` that GGUF files have no key for.
    #[serde(default)]
    pub(crate) config: BTreeMap<String, Value>,
    /// Values that transformers takes if `config.json` states none.
    #[serde(default)]
    pub(crate) defaults: BTreeMap<String, DefaultValue>,
    /// What `config.json` calls the values of keys, if that is not the first name that the key lists.
    #[serde(default)]
    pub(crate) names: BTreeMap<String, String>,
    /// Flags of `config.json` that are true if a tensor is there, by its name in GGUF, and values that such a tensor decides.
    #[serde(default)]
    pub(crate) flags: BTreeMap<String, Flag>,
    /// By what attention scales its scores, if a value of `config.json` states it.
    #[serde(default)]
    pub(crate) scores: Option<Scores>,
    /// What GGUF files do not have of a model, so that it does not come back.
    #[serde(default)]
    pub(crate) dropped: Vec<String>,
    /// The key of a GGUF file that tells this family from another one of the same architecture: it is there, and not false.
    #[serde(default)]
    pub(crate) told_by: Option<String>,
    /// The end of the name of a tensor of GGUF files that tells this family from another one of the same architecture.
    #[serde(default)]
    pub(crate) told_by_tensor: Option<String>,
    /// What `model_type` a language model of the family has where it is part of a larger model; no larger ones, if empty.
    #[serde(default)]
    pub(crate) nested: Vec<String>,
    /// The class of a directory that is made from a GGUF file, if it is not the first one.
    #[serde(default)]
    pub(crate) saved_as: Option<String>,
    /// Values of `config.json` that the value of a key decides.
    #[serde(default)]
    pub(crate) implied: Vec<Implied>,
    /// Values of `rope_scaling` that GGUF files have no key for.
    #[serde(default)]
    pub(crate) rope_scaling: BTreeMap<String, serde_json::Value>,
    /// What names of layers begin with, up to their number, if those that transformers does not load are left out.
    #[serde(default)]
    pub(crate) layers: Option<String>,
    /// The architecture that its GGUF files name, which begins their keys.
    pub(crate) architecture: String,
    /// The built-in mapping of its tensors to GGUF.
    pub(crate) mapping: String,
    /// The built-in mapping for directories with experts of MXFP4, if there is one.
    #[serde(default)]
    pub(crate) mxfp4_mapping: Option<String>,
    /// The mappings of models that have other tensors.
    #[serde(default, rename = "variant")]
    pub(crate) variants: Vec<Variant>,
    /// How the files of its tokenizers are read.
    pub(crate) tokenizer: Tokenizer,
    /// Tensors that follow from the configuration.
    #[serde(default)]
    pub(crate) constants: Vec<ConstantKind>,
    /// Whether the keys begin with those that most architectures have.
    #[serde(default = "yes")]
    pub(crate) common: bool,
    /// Keys of the common ones that the architecture does not have.
    #[serde(default)]
    pub(crate) omit: Vec<String>,
    /// The other keys, in the order of the file. One that is there already keeps its place and gets another value.
    #[serde(default, rename = "key")]
    pub(crate) keys: Vec<Key>,
}

/// Values of `config.json` that follow from the value of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Implied {
    /// The key, without the architecture that begins it.
    pub(crate) key: String,
    /// Its value.
    pub(crate) value: u64,
    /// The values.
    pub(crate) config: BTreeMap<String, serde_json::Value>,
}

/// Models of a family that have another mapping.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    /// Tensors, of which such a model has one, by their names on one side or the other.
    pub(crate) tensors: Vec<String>,
    /// The built-in mapping of its tensors to GGUF.
    pub(crate) mapping: String,
    /// The class that loads it, if that is not the first one of the family.
    #[serde(default)]
    pub(crate) class: Option<String>,
}

/// What says of a value of `config.json` what it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Flag {
    /// The name of a tensor: the value says whether it is there.
    Tensor(String),
    /// The value if a tensor is there, and the one if it is not.
    Either {
        /// The tensor's name.
        tensor: String,
        /// The value with it.
        present: Value,
        /// The value without it.
        absent: Value,
    },
}

impl Family {
    /// The mapping of a checkpoint's tensors to GGUF, whichever side they are on.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] for a name that no mapping has.
    pub(crate) fn mapping_of(&self, source: &Source, formats: &Formats) -> Result<Mapping> {
        let name = self.variant_of(source).map_or(&self.mapping, |variant| &variant.mapping);
        mapping_named(name, formats)
    }

    /// The class that loads a checkpoint.
    pub(crate) fn class_of(&self, source: &Source) -> Option<&str> {
        let own = self.variant_of(source).and_then(|variant| variant.class.as_ref());
        own.or(self.classes.first()).map(String::as_str)
    }

    fn variant_of(&self, source: &Source) -> Option<&Variant> {
        let has_one = |variant: &&Variant| variant.tensors.iter().any(|tensor| source.find(tensor).is_some());
        self.variants.iter().find(has_one)
    }

    /// Names values of a configuration that GGUF files have no key for, and that are not those of the family.
    pub(crate) fn assumed_note(&self, config: &Config) -> Option<String> {
        let is_same = |own: &Value, usual: &Value| match (own.as_f64(), usual.as_f64()) {
            (Some(own), Some(usual)) => own == usual,
            _ => own == usual,
        };
        let others = self.config.iter().filter_map(|(key, usual)| {
            let own = config.first(&[key]).filter(|own| !is_same(own, usual))?;
            Some(format!("{key} {} (llama.cpp takes {})", shown(own), shown(usual)))
        });
        let others: Vec<String> = others.collect();
        let listed = ckpt_api::first_few(others.iter().map(String::as_str), 6);
        (!others.is_empty()).then(|| format!("values of config.json that GGUF has no key for: {listed}"))
    }

    /// Names what GGUF files do not have.
    pub(crate) fn dropped_note(&self) -> Option<String> {
        let dropped = self.dropped.join(" and ");
        (!dropped.is_empty()).then(|| format!("GGUF files of {} do not have {dropped}", self.title))
    }
}

/// The built-in mapping that a family names.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] for a name that no mapping has.
pub(crate) fn mapping_named(name: &str, formats: &Formats) -> Result<Mapping> {
    let missing = || Error::defect("a family names a mapping that is not there").field(name);
    formats.mapping(name).ok_or_else(missing)
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    printable(&text.chars().take(MOST_SHOWN).collect::<String>()).to_string()
}

/// The number whose root scores of attention are divided by. No key of a GGUF file states it: llama.cpp takes the length of a head,
/// but for one size of the models.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scores {
    /// What `config.json` calls it.
    pub(crate) config: String,
    /// What it is if `config.json` does not state it.
    pub(crate) default: u64,
    /// The number of layers of the models that divide by the width that the heads divide the embedding into.
    pub(crate) wide_layers: u64,
}

impl Scores {
    /// The number whose root llama.cpp divides by.
    pub(crate) fn divisor(&self, config: &Config) -> Option<u64> {
        let is_wide = config.count(&["num_hidden_layers"]) == Some(self.wide_layers);
        if is_wide { config.head_width() } else { config.head_dim() }
    }

    /// The number that a configuration states.
    pub(crate) fn stated(&self, config: &Config) -> u64 {
        config.count(&[&self.config]).unwrap_or(self.default)
    }
}

/// How the tokenizer of a family is stored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tokenizer {
    /// Kinds of tokenizers, in the order in which their files are looked for.
    pub(crate) kinds: Vec<Kind>,
    /// The usual name of its pre-tokenizer.
    #[serde(default)]
    pub(crate) pre: Option<String>,
    /// The number of tokens is a multiple of this one, if `config.json` does not state another multiple.
    #[serde(default)]
    pub(crate) vocab_multiple: Option<u64>,
    /// Whether GGUF files state how many types of tokens the model has.
    #[serde(default)]
    pub(crate) counts_types: bool,
    /// Whether GGUF files state if a space is put before a text.
    #[serde(default)]
    pub(crate) space_prefix: Space,
    /// Special tokens that the files of the tokenizer need not state, in the order of the keys: what they are, such as `eot`,
    /// and their texts.
    #[serde(default)]
    pub(crate) tokens: Vec<(String, String)>,
    /// Keys that GGUF files have beside those of the files.
    #[serde(default, rename = "key")]
    pub(crate) keys: Vec<TokenizerKey>,
}

/// A key of a tokenizer that no file states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenizerKey {
    /// Its name after `tokenizer.ggml.`.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: TokenizerValue,
    /// The number of tokens of the models that have it; all, if there is none.
    #[serde(default)]
    pub(crate) vocab_size: Option<u64>,
    /// Whether it comes before the keys of the files, which may give it another value.
    #[serde(default)]
    pub(crate) first: bool,
}

/// The value of a key.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TokenizerValue {
    /// An id.
    Id(u32),
    /// A flag.
    Flag(bool),
}

/// A kind of tokenizer: see [`ckpt_tokenizers::TokenizerKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Pairs of bytes.
    Bpe,
    /// SentencePiece.
    Sentencepiece,
    /// SentencePiece with the added tokens of Phi 3.
    Phi3Sentencepiece,
    /// Pairs of characters, with a fallback to bytes.
    ByteFallback,
    /// Unigram.
    Unigram,
    /// WordPiece.
    Wordpiece,
}

impl From<Kind> for TokenizerKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Bpe => TokenizerKind::Bpe,
            Kind::Sentencepiece => TokenizerKind::SentencePiece,
            Kind::Phi3Sentencepiece => TokenizerKind::Phi3SentencePiece,
            Kind::ByteFallback => TokenizerKind::LlamaBpe,
            Kind::Unigram => TokenizerKind::Unigram,
            Kind::Wordpiece => TokenizerKind::WordPiece,
        }
    }
}

/// Whether files state if a space is put before a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Space {
    /// They do not.
    #[default]
    Unset,
    /// As `tokenizer_config.json` does.
    Stated,
    /// There is none, if the tokenizer is one of SentencePiece.
    None,
}

/// A tensor that follows from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConstantKind {
    /// `rope_freqs.weight`: the factors of Llama 3's rotary frequencies.
    Llama3Frequencies,
    /// `rope_factors_long.weight` and `rope_factors_short.weight`: those of long contexts.
    LongFactors,
}

/// A key of a GGUF file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// Its name, without the architecture that begins it.
    pub(crate) name: String,
    /// Its type in the file.
    #[serde(rename = "type", default)]
    pub(crate) kind: KeyType,
    /// Keys of the configuration, of which the first that has a value counts.
    #[serde(default)]
    pub(crate) config: Vec<String>,
    /// A value that is computed from several.
    #[serde(default)]
    pub(crate) compute: Option<Compute>,
    /// What a number is multiplied with.
    #[serde(default)]
    pub(crate) times: Option<f64>,
    /// Keys of the configuration whose values, if it states them, are added.
    #[serde(default)]
    pub(crate) plus: Vec<String>,
    /// Whether `config.json` states null if the file has no such key, or 0 at it.
    #[serde(default)]
    pub(crate) nullable: bool,
    /// Whether the file has no such key if the value is false.
    #[serde(default)]
    pub(crate) only_true: bool,
    /// The value if the configuration has none.
    #[serde(default)]
    pub(crate) default: Option<toml::Value>,
    /// Whether the file has no such key if the configuration has no value.
    #[serde(default)]
    pub(crate) optional: bool,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyType {
    /// An unsigned integer of 32 bits.
    #[default]
    U32,
    /// A float of 32 bits.
    F32,
    /// A truth value.
    Bool,
    /// A text.
    Text,
}

/// A value that several values of the configuration decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Compute {
    /// How the rotary frequencies are scaled, and their bases: several keys.
    Rope,
    /// The base of the rotary frequencies.
    RopeBase,
    /// The length of a head.
    HeadDim,
    /// The length that the heads divide the embedding into.
    HeadWidth,
    /// The positions that the model was first trained with; 4096 if they are not stated.
    OriginalContext,
    /// The part of a head that is rotated.
    RotaryDim,
    /// How experts are weighted.
    ExpertGating,
    /// The number by which files state the type of most tensors.
    FileType,
    /// `false`, if the configuration says that attention looks ahead.
    Causal,
    /// The length inside of a layer of a state space model.
    SsmInner,
    /// The length of the projection that its time steps are made of.
    SsmRank,
    /// The number of its heads.
    SsmHeads,
    /// How sentence-transformers makes one vector of those of the tokens.
    Pooling,
    /// The number of positions that a model of Nomic was trained with.
    NomicContext,
    /// How a classifier does.
    ClassifierPooling,
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use crate::catalog;
    use crate::config::Config;
    use serde_json::json;

    #[test]
    fn a_value_that_gguf_has_no_key_for_is_named_if_it_is_another_one() {
        let family = catalog::of_class("GPTNeoXForCausalLM").unwrap().unwrap();
        let note = |values: serde_json::Value| family.assumed_note(&Config::of(values.as_object().unwrap()));
        assert_eq!(note(json!({"hidden_act": "gelu", "rotary_emb_base": 10000})), None);
        let named = note(json!({"hidden_act": "relu", "rotary_emb_base": 5e5})).unwrap();
        let listed =
            "hidden_act relu (llama.cpp takes gelu), rotary_emb_base 500000.0 (llama.cpp takes 10000)";
        assert!(named.ends_with(listed), "{named}");
    }
}
