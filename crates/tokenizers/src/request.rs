//! What callers ask for and what they get.

use ckpt_api::MetadataMap;
use std::collections::BTreeMap;

/// A kind of tokenizer, by the files that describe it and the model that GGUF names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenizerKind {
    /// Byte-pair encoding over bytes: `tokenizer.json`. Model "gpt2".
    Bpe,
    /// SentencePiece: `tokenizer.model`. Model "llama".
    SentencePiece,
    /// SentencePiece with the added tokens of Phi-3, which `tokenizer.json` also lists. Model "llama".
    Phi3SentencePiece,
    /// Byte-pair encoding over characters with a fallback to bytes: `tokenizer.json`. Model "llama". All tokens have one score, as
    /// llama.cpp's converter writes it for the Llama family, so llama.cpp gives other ids than `tokenizer.json` for some texts.
    LlamaBpe,
    /// As [`TokenizerKind::LlamaBpe`], with scores that follow from the merges, so llama.cpp gives the ids of `tokenizer.json`. The
    /// converter has no such kind.
    RankedBpe,
    /// Unigram: `spiece.model` or `tokenizer.model`. Model "t5".
    Unigram,
    /// WordPiece: `tokenizer.json`. Model "bert".
    WordPiece,
}

/// When the key `tokenizer.ggml.add_space_prefix` is written. Unigram tokenizers have it always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpacePrefix {
    /// Never.
    #[default]
    Unset,
    /// First, if `tokenizer_config.json` states `add_prefix_space`: the Llama family.
    Stated,
    /// Last, and false: the Gemma family.
    False,
}

/// What a family of models and the user state about the tokenizer.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The number of rows of the embedding, as `config.json` states it. Ids without a token are padded up to it. `None` for as
    /// many as there are tokens.
    pub vocab_size: Option<u64>,
    /// The kinds to try, in order. The first one whose files are there is taken.
    pub kinds: &'a [TokenizerKind],
    /// The name of the pre-tokenizer that the user chose. It is written whatever the files say.
    pub pre: Option<&'a str>,
    /// The name that the family's own tokenizers have. It is written if it names the same regular expressions as the files.
    pub family_pre: Option<&'a str>,
    /// Special tokens that count if no file states them: what they are, such as `eot`, and their texts.
    pub fallback_tokens: &'a [(&'a str, &'a str)],
    /// `config.json`, for `bos_token_id` and the like.
    pub config: &'a serde_json::Value,
    /// When the key `tokenizer.ggml.add_space_prefix` is written.
    pub space_prefix: SpacePrefix,
}

impl<'a> Request<'a> {
    /// A request for one of these kinds, with the usual settings.
    pub fn new(kinds: &'a [TokenizerKind], config: &'a serde_json::Value) -> Self {
        Request {
            vocab_size: None,
            kinds,
            pre: None,
            family_pre: None,
            fallback_tokens: &[],
            config,
            space_prefix: SpacePrefix::Unset,
        }
    }
}

/// The keys of a tokenizer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Keys {
    /// The keys and their values, in the order in which llama.cpp's converter writes them.
    pub pairs: MetadataMap,
    /// The kind whose files were read.
    pub kind: TokenizerKind,
    /// Facts of the files that the keys do not hold, as sentences.
    pub notes: Vec<String>,
}

/// The files of a tokenizer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Files {
    /// Bytes by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The ids that `config.json` states, such as `bos_token_id`.
    pub config: BTreeMap<String, u64>,
    /// What the keys were not enough for, as sentences.
    pub notes: Vec<String>,
}
