//! SentencePiece's unigram model.

use super::document::{Document, Model};
use super::processor::PostProcessor;
use super::sentence_piece::{Parts, added_tokens};
use super::stated::Stated;
use crate::key;
use crate::token::TokenType;
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::MetadataValue;
use serde_json::{Value, json};

/// Returns `tokenizer.json`.
pub(super) fn document<'a>(stated: &'a Stated, parts: &Parts<'a>, processor: PostProcessor) -> Document<'a> {
    let adds_space = stated.flag(key::ADD_SPACE_PREFIX).unwrap_or(true);
    let scheme = if adds_space { "always" } else { "never" };
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let unknown = parts.model.iter().position(|token| token.token_type == TokenType::Unknown);
    let unknown = unknown.or_else(|| stated.ids.iter().find(|(name, _)| *name == "unk").map(|(_, id)| *id));
    // Special tokens of the model are matched in the text, too.
    let mut added = added_tokens(parts);
    let is_special = |kind| matches!(kind, TokenType::Control | TokenType::Unknown);
    let of_model = parts.model.iter().enumerate().filter(|(_, token)| is_special(token.token_type));
    added.extend(of_model.map(|(id, token)| super::document::Added::new(id, &token.text, true)));
    added.sort_by_key(|token| token.id);
    added.dedup_by_key(|token| token.id);
    Document {
        version: "1.0",
        truncation: (),
        padding: (),
        added_tokens: added,
        normalizer: normalizer(stated),
        pre_tokenizer: metaspace.clone(),
        post_processor: processor.value,
        decoder: metaspace,
        model: Model::Unigram {
            unk_id: unknown.filter(|id| *id < parts.model.len()),
            vocab: parts.model.iter().map(|token| (token.text.as_str(), token.score)).collect(),
            byte_fallback: parts.model.iter().any(|token| token.token_type == TokenType::Byte),
        },
    }
}

fn normalizer(stated: &Stated) -> Value {
    let mut parts = Vec::new();
    if let Some(table) = stated.pairs.get(key::CHARSMAP).and_then(MetadataValue::as_bytes) {
        parts.push(json!({"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(table)}));
    }
    if stated.flag(key::REMOVE_EXTRA_WHITESPACES).unwrap_or(true) {
        for (regex, content) in [(r"\A +| +\z", ""), (" {2,}", " ")] {
            parts.push(json!({"type": "Replace", "pattern": {"Regex": regex}, "content": content}));
        }
    }
    if parts.is_empty() { Value::Null } else { json!({"type": "Sequence", "normalizers": parts}) }
}
