//! `tokenizer_config.json`, which the library `transformers` writes.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The file. What decides no key is left out.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TokenizerConfig {
    pub(crate) bos_token: Option<TokenField>,
    pub(crate) eos_token: Option<TokenField>,
    pub(crate) unk_token: Option<TokenField>,
    pub(crate) sep_token: Option<TokenField>,
    pub(crate) pad_token: Option<TokenField>,
    pub(crate) cls_token: Option<TokenField>,
    pub(crate) mask_token: Option<TokenField>,
    #[serde(default)]
    pub(crate) additional_special_tokens: Option<Loose<Vec<TokenField>>>,
    add_bos_token: Option<Loose<bool>>,
    add_eos_token: Option<Loose<bool>>,
    add_sep_token: Option<Loose<bool>>,
    add_prefix_space: Option<Loose<bool>>,
    /// By the text of the id.
    #[serde(default)]
    pub(crate) added_tokens_decoder: BTreeMap<String, AddedTokenData>,
    pub(crate) chat_template: Option<ChatTemplate>,
}

impl TokenizerConfig {
    /// Whether the tokenizer adds a token, such as "bos", if the file states it.
    pub(crate) fn adds(&self, token: &str) -> Option<bool> {
        let flag = match token {
            "bos" => &self.add_bos_token,
            "eos" => &self.add_eos_token,
            "sep" => &self.add_sep_token,
            _ => &None,
        };
        flag.as_ref().and_then(Loose::get).copied()
    }

    /// Whether the tokenizer puts a space before the text, if the file states it.
    pub(crate) fn adds_prefix_space(&self) -> Option<bool> {
        self.add_prefix_space.as_ref().and_then(Loose::get).copied()
    }
}

/// A value of one type; another one counts as none, because no tool reads it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Loose<T> {
    /// A value of the type.
    Value(T),
    /// Another value.
    Other(IgnoredAny),
}

impl<T> Loose<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        match self {
            Loose::Value(value) => Some(value),
            Loose::Other(_) => None,
        }
    }
}

/// A special token: its text, or an object that has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TokenField {
    Text(String),
    Object { content: String },
    Other(IgnoredAny),
}

impl TokenField {
    /// The token's text.
    pub(crate) fn content(&self) -> Option<&str> {
        match self {
            TokenField::Text(text) | TokenField::Object { content: text } => Some(text),
            TokenField::Other(_) => None,
        }
    }

    /// Whether the file states a token.
    pub(crate) fn is_stated(&self) -> bool {
        match self {
            TokenField::Text(text) => !text.is_empty(),
            TokenField::Object { .. } => true,
            TokenField::Other(_) => false,
        }
    }

    /// Whether the file states this text itself, not an object that has it.
    pub(crate) fn is_text(&self, text: &str) -> bool {
        matches!(self, TokenField::Text(own) if own == text)
    }
}

/// A token of `added_tokens_decoder`.
#[derive(Debug, Deserialize)]
pub(crate) struct AddedTokenData {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) special: bool,
}

/// The chat template.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ChatTemplate {
    One(String),
    Named(Vec<NamedTemplate>),
    Other(IgnoredAny),
}

/// One of several chat templates.
#[derive(Debug, Deserialize)]
pub(crate) struct NamedTemplate {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) template: Option<String>,
}
