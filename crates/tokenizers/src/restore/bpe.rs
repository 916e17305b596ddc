//! Byte-pair encoding over bytes.

use super::document::{Added, Document, Ids, Model};
use super::processor::PostProcessor;
use super::stated::Stated;
use crate::key;
use crate::pre::{self, Rule};
use crate::token::{Token, TokenType};
use ckpt_api::Result;
use serde_json::{Value, json};

/// Names of families whose files say that texts are normalized, which GGUF cannot.
const NFC: [&str; 3] = ["qwen2", "deepseek-r1-qwen", "qwen35"];

/// Returns `tokenizer.json`. `None` if nobody knows the rules of the pre-tokenizer.
pub(super) fn document<'a>(
    stated: &'a Stated,
    processor: PostProcessor,
    notes: &mut Vec<String>,
) -> Result<Option<Document<'a>>> {
    let name = stated.text(key::PRE).unwrap_or(key::DEFAULT_PRE);
    let Some((rules, ignores_merges)) = pre::find(name) else {
        notes.push(format!(
            "tokenizer.json is left out: the rules of the pre-tokenizer '{}' are not known",
            name.chars().take(80).collect::<String>().escape_debug()
        ));
        return Ok(None);
    };
    let (vocab, added_tokens) = vocabulary(stated, |token| !matches!(token.token_type, TokenType::Normal));
    Ok(Some(Document {
        version: "1.0",
        truncation: (),
        padding: (),
        added_tokens,
        normalizer: if NFC.contains(&name) { json!({"type": "NFC"}) } else { Value::Null },
        pre_tokenizer: pre_tokenizer(&rules),
        post_processor: processor.value,
        decoder: byte_level(true, true),
        model: Model::Bpe {
            dropout: (),
            unk_token: None,
            continuing_subword_prefix: (),
            end_of_word_suffix: (),
            fuse_unk: false,
            byte_fallback: false,
            ignore_merges: ignores_merges,
            vocab,
            merges: stated.merges()?,
        },
    }))
}

/// Returns the vocabulary of the model, and the added tokens.
///
/// The library `tokenizers` numbers added tokens that the model does not have by itself, from the size of the vocabulary on. So the
/// vocabulary has those that such numbers would not fit.
pub(super) fn vocabulary<'a>(
    stated: &'a Stated,
    is_added: impl Fn(&Token) -> bool,
) -> (Ids<'a>, Vec<Added<'a>>) {
    let used = stated.used(|id, token| token.is_padding(id));
    let tokens = stated.tokens.get(..used).unwrap_or_default();
    let at_end = tokens.iter().rev().take_while(|token| is_added(token)).count();
    let has_padding = tokens.iter().enumerate().any(|(id, token)| token.is_padding(id));
    let start = if has_padding { used } else { used - at_end };
    let present = || tokens.iter().enumerate().filter(|(id, token)| !token.is_padding(*id));
    let vocab = present().filter(|(id, _)| *id < start).map(|(id, token)| (token.text.as_str(), id));
    let added = present().filter(|(_, token)| is_added(token));
    let added =
        added.map(|(id, token)| Added::new(id, &token.text, token.token_type != TokenType::UserDefined));
    (Ids(vocab.collect()), added.collect())
}

/// Returns the rules as `tokenizer.json` states them.
fn pre_tokenizer(rules: &[Rule]) -> Value {
    let words = Rule::words();
    let mut parts: Vec<Value> = rules
        .iter()
        .map(|rule| match rule {
            rule if *rule == words => byte_level(false, true),
            Rule::Isolate(regex) => {
                json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
            }
            Rule::Punctuation => json!({"type": "Punctuation", "behavior": "Contiguous"}),
        })
        .collect();
    if !rules.contains(&words) {
        parts.push(byte_level(false, false));
    }
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => json!({"type": "Sequence", "pretokenizers": parts}),
    }
}

fn byte_level(add_prefix_space: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex})
}
