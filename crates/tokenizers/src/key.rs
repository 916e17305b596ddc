//! Names of the keys.

pub(crate) const MODEL: &str = "tokenizer.ggml.model";
pub(crate) const PRE: &str = "tokenizer.ggml.pre";
pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
pub(crate) const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
pub(crate) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub(crate) const REMOVE_EXTRA_WHITESPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
pub(crate) const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
pub(crate) const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
pub(crate) const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";
pub(crate) const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
pub(crate) const CHAT_TEMPLATES: &str = "tokenizer.chat_templates";

/// The keys of ids, by the name that Hugging Face's files give the token. The third one is spelled so.
pub(crate) const IDS: [(&str, &str); 8] = [
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("unk", "tokenizer.ggml.unknown_token_id"),
    ("sep", "tokenizer.ggml.seperator_token_id"),
    ("pad", "tokenizer.ggml.padding_token_id"),
    ("mask", "tokenizer.ggml.mask_token_id"),
    ("eot", "tokenizer.ggml.eot_token_id"),
    ("eom", "tokenizer.ggml.eom_token_id"),
];

/// The key of the id of a special token, by what it is: `bos`, `eot` and the like.
pub fn id_key(name: &str) -> Option<&'static str> {
    IDS.iter().find(|(own, _)| *own == name).map(|(_, key)| *key)
}

/// The key of an id that the converter wrote until 2025, for WordPiece.
pub(crate) const CLS_ID: &str = "tokenizer.ggml.cls_token_id";

/// The keys that say which tokens are added to a text.
pub(crate) const FLAGS: [(&str, &str); 3] = [
    ("bos", "tokenizer.ggml.add_bos_token"),
    ("eos", "tokenizer.ggml.add_eos_token"),
    ("sep", "tokenizer.ggml.add_sep_token"),
];

/// The names of models.
pub(crate) mod model {
    pub(crate) const BPE: &str = "gpt2";
    pub(crate) const SENTENCE_PIECE: &str = "llama";
    pub(crate) const UNIGRAM: &str = "t5";
    pub(crate) const WORD_PIECE: &str = "bert";
}

/// The name of the pre-tokenizer of models that have none.
pub(crate) const DEFAULT_PRE: &str = "default";
