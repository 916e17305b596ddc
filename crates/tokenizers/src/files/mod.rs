//! The files of a tokenizer.

mod json;
mod protobuf;
mod sentence_piece;
mod tokenizer_config;
mod tokenizer_json;

pub(crate) use json::{Json, from_directory};
pub(crate) use sentence_piece::{ModelType, Piece, SentencePieceModel};
pub(crate) use tokenizer_config::{ChatTemplate, NamedTemplate, TokenField, TokenizerConfig};
pub(crate) use tokenizer_json::{
    Merge, Model, Normalizer, Pattern, PreTokenizer, Processor, TokenizerJson, Vocabulary,
};

/// Names of the files.
pub(crate) mod name {
    pub(crate) const TOKENIZER_JSON: &str = "tokenizer.json";
    pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
    pub(crate) const SENTENCE_PIECE: &str = "tokenizer.model";
    pub(crate) const OLD_SENTENCE_PIECE: &str = "spiece.model";
    pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";
    pub(crate) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
    pub(crate) const MERGES: &str = "merges.txt";
    pub(crate) const TEMPLATE: &str = "chat_template.jinja";
    pub(crate) const TEMPLATE_JSON: &str = "chat_template.json";
    pub(crate) const MORE_TEMPLATES: &str = "additional_chat_templates";
}
