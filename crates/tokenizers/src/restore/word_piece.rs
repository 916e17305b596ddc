//! WordPiece.

use super::document::{Added, Document, Ids, Model};
use super::processor::PostProcessor;
use super::stated::Stated;
use crate::key;
use crate::token::{Token, TokenType};
use serde_json::json;

/// Marks the tokens that go on with a word, as `tokenizer.json` does, where GGUF marks those that begin one.
pub(super) fn unmark(stated: &mut Stated) {
    for token in &mut stated.tokens {
        if token.token_type != TokenType::Control {
            token.text = match token.text.strip_prefix('▁') {
                Some(rest) => rest.to_owned(),
                None => format!("##{}", token.text),
            };
        }
    }
}

/// Returns `tokenizer.json`.
pub(super) fn document<'a>(stated: &'a Stated, processor: PostProcessor) -> Document<'a> {
    let used = stated.used(|id, token| token.is_padding(id));
    let tokens = stated.tokens.get(..used).unwrap_or_default();
    let is_added = |token: &Token| token.token_type == TokenType::Control;
    let added = tokens.iter().enumerate().filter(|(_, token)| is_added(token));
    let vocab = tokens.iter().enumerate().map(|(id, token)| (token.text.as_str(), id));
    Document {
        version: "1.0",
        truncation: (),
        padding: (),
        added_tokens: added.map(|(id, token)| Added::new(id, &token.text, true)).collect(),
        normalizer: json!({
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": true,
            "strip_accents": stated.flag(key::STRIP_ACCENTS),
            "lowercase": stated.flag(key::LOWERCASE).unwrap_or(true),
        }),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: processor.value,
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        model: Model::WordPiece {
            unk_token: stated.text_of("unk").unwrap_or("[UNK]"),
            continuing_subword_prefix: "##",
            max_input_chars_per_word: 100,
            vocab: Ids(vocab.collect()),
        },
    }
}
