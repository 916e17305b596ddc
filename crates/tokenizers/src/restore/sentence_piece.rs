//! SentencePiece: `tokenizer.model`, and the same as `tokenizer.json`.

use super::document::{Added, Document, Ids, Model};
use super::processor::PostProcessor;
use super::stated::Stated;
use crate::files::{ModelType, Piece, SentencePieceModel};
use crate::key;
use crate::token::{ADDED_SCORE, Token, TokenType};
use ckpt_api::{Limit, Limits, MetadataValue, Result};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Bytes of a token that merges are derived of. Known ones have up to 128.
const LONGEST: usize = 512;

/// The tokens of a vocabulary in their two parts.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// Those of the model: ids from 0 on.
    pub(super) model: &'a [Token],
    /// Those that were added, with their ids; some are in the model, too.
    pub(super) added: Vec<(usize, &'a Token)>,
}

/// Splits the vocabulary.
pub(super) fn parts<'a>(stated: &'a Stated) -> Parts<'a> {
    let end = stated.used(|id, token| is_added(token) || token.is_padding(id));
    let added = stated.tokens.iter().enumerate().filter(|(_, token)| is_added(token));
    Parts { model: stated.tokens.get(..end).unwrap_or_default(), added: added.collect() }
}

/// Whether a token was added to those of the model.
fn is_added(token: &Token) -> bool {
    matches!(token.token_type, TokenType::Control | TokenType::UserDefined) && token.score == ADDED_SCORE
}

/// Whether the scores of the model are known. llama.cpp's converter writes one score for every token if it had only
/// `tokenizer.json`.
fn has_scores(model: &[Token]) -> bool {
    model.iter().any(|token| token.score != ADDED_SCORE)
}

/// Returns `tokenizer.model` or `spiece.model`; `None` with a note if the keys do not suffice.
pub(super) fn model(
    stated: &Stated,
    parts: &Parts,
    model_type: ModelType,
    notes: &mut Vec<String>,
) -> Option<SentencePieceModel> {
    if !stated.has_scores || !has_scores(parts.model) {
        notes.push("the model of SentencePiece is left out: the tokens have no scores".to_owned());
        return None;
    }
    let stated_unknown = stated.ids.iter().find(|(name, _)| *name == "unk").map(|(_, id)| *id);
    let typed_unknown = || parts.model.iter().position(|token| token.token_type == TokenType::Unknown);
    let named_unknown = || parts.model.iter().position(|token| token.text == "<unk>");
    let unknown = typed_unknown().or(stated_unknown).or_else(named_unknown);
    let unknown = unknown.filter(|id| *id < parts.model.len());
    if unknown.is_none() {
        notes.push("the model of SentencePiece is left out: it needs a token for what is unknown".to_owned());
        return None;
    }
    let piece = |(id, token): (usize, &Token)| Piece {
        text: token.text.clone(),
        score: if is_added(token) { 0.0 } else { token.score },
        piece_type: if Some(id) == unknown { TokenType::Unknown } else { token.token_type },
    };
    let charsmap = stated.pairs.get(key::CHARSMAP).and_then(MetadataValue::as_bytes);
    let is_unigram = model_type == ModelType::Unigram;
    Some(SentencePieceModel {
        pieces: parts.model.iter().enumerate().map(piece).collect(),
        model_type,
        byte_fallback: parts.model.iter().any(|token| token.token_type == TokenType::Byte),
        charsmap: charsmap.unwrap_or_default().to_vec(),
        add_dummy_prefix: stated.flag(key::ADD_SPACE_PREFIX).unwrap_or(true),
        remove_extra_whitespaces: stated.flag(key::REMOVE_EXTRA_WHITESPACES).unwrap_or(is_unigram),
    })
}

/// The added tokens as `tokenizer.json` lists them.
pub(super) fn added_tokens<'a>(parts: &Parts<'a>) -> Vec<Added<'a>> {
    let added = parts.added.iter();
    added.map(|(id, token)| Added::new(*id, &token.text, token.token_type == TokenType::Control)).collect()
}

/// Returns `tokenizer.json`: byte-pair encoding whose merges follow from the scores.
pub(super) fn document<'a>(
    stated: &'a Stated,
    parts: &Parts<'a>,
    processor: PostProcessor,
    limits: &Limits,
    notes: &mut Vec<String>,
) -> Result<Document<'a>> {
    let adds_space = stated.flag(key::ADD_SPACE_PREFIX).unwrap_or(true);
    let mut vocab: Vec<(&str, usize)> =
        parts.model.iter().enumerate().map(|(id, token)| (token.text.as_str(), id)).collect();
    // Ids that the library would not give by itself.
    let mut next = parts.model.len();
    for (id, token) in parts.added.iter().filter(|(id, _)| *id >= parts.model.len()) {
        match *id == next {
            true => next += 1,
            false => vocab.push((&token.text, *id)),
        }
    }
    Ok(Document {
        version: "1.0",
        truncation: (),
        padding: (),
        added_tokens: added_tokens(parts),
        normalizer: normalizer(adds_space),
        pre_tokenizer: Value::Null,
        post_processor: processor.value,
        decoder: decoder(adds_space),
        model: Model::Bpe {
            dropout: (),
            unk_token: stated.text_of("unk"),
            continuing_subword_prefix: (),
            end_of_word_suffix: (),
            fuse_unk: true,
            byte_fallback: parts.model.iter().any(|token| token.token_type == TokenType::Byte),
            ignore_merges: false,
            vocab: Ids(vocab),
            merges: merges(parts.model, limits, notes)?,
        },
    })
}

/// Returns the rule for spaces. `Metaspace` would not add one before a text that begins with one, and llama.cpp does.
fn normalizer(adds_space: bool) -> Value {
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    match adds_space {
        true => json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]}),
        false => replace,
    }
}

fn decoder(adds_space: bool) -> Value {
    let mut parts = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if adds_space {
        parts.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": parts})
}

/// Returns the merges: for each token every pair of tokens that it consists of, the token with the largest score first.
fn merges<'a>(
    tokens: &'a [Token],
    limits: &Limits,
    notes: &mut Vec<String>,
) -> Result<Vec<(&'a str, &'a str)>> {
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().map(|(id, token)| (token.text.as_str(), id)).collect();
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    let score = |id: &usize| tokens.get(*id).map_or(0.0, |token| token.score);
    // It is stable: tokens without scores stay in the order of ids.
    order.sort_by(|a, b| score(b).total_cmp(&score(a)));
    if !has_scores(tokens) {
        notes.push(
            "the tokens have no scores: tokenizer.json merges them in the order of their ids".to_owned(),
        );
    }
    let mut merges = Vec::new();
    let mut too_long = 0u64;
    for token in
        order.iter().filter_map(|id| tokens.get(*id)).filter(|token| token.token_type == TokenType::Normal)
    {
        if token.text.len() > LONGEST {
            too_long += 1;
            continue;
        }
        let ends = token.text.char_indices().map(|(end, _)| end).skip(1);
        let mut pairs: Vec<(usize, usize, &str, &str)> = ends
            .filter_map(|end| token.text.split_at_checked(end))
            .filter_map(|(left, right)| Some((*ids.get(left)?, *ids.get(right)?, left, right)))
            .collect();
        pairs.sort_unstable();
        limits.check(Limit::MetadataEntries, (merges.len() + pairs.len()) as u64)?;
        merges.extend(pairs.into_iter().map(|(.., left, right)| (left, right)));
    }
    if too_long > 0 {
        let tokens = ckpt_api::count(too_long, "token");
        notes.push(format!("tokenizer.json has no merges for {tokens} of more than {LONGEST} bytes"));
    }
    Ok(merges)
}
