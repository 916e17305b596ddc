//! SentencePiece's byte-pair encoding, of which only `tokenizer.json` is left: it has merges in place of scores.

use super::source::{Found, Source};
use super::vocabulary::{self, Slots};
use super::{bpe, special};
use crate::files::{Merge, TokenField, TokenizerConfig, Vocabulary, from_directory, name};
use crate::key;
use crate::token::{ADDED_SCORE, Token, TokenType};
use ckpt_api::{MetadataMap, Result};
use std::collections::{HashMap, HashSet};

/// Returns the keys of `tokenizer.json`. `is_ranked` if scores follow from the merges; otherwise all tokens have one score.
pub(super) fn keys(source: &mut Source, is_ranked: bool) -> Result<Found> {
    let falls_back = source.model_of("BPE").is_some_and(|model| model.byte_fallback);
    let decoder = source.json.as_ref().and_then(|json| json.value.decoder.as_ref());
    if !falls_back || decoder.is_none_or(|decoder| decoder.kind != "Sequence") {
        return Ok(None);
    }
    let Some(model) = source.take_model() else { return Ok(None) };
    vocabulary::check_merges(&model, &model.merges).map_err(|error| source.in_json(error))?;
    let special_texts = special_texts(source)?;
    let mut tokens = tokens(source, model.vocab, &special_texts).map_err(|error| source.in_json(error))?;
    let mut notes = Vec::new();
    match is_ranked {
        true => rank(&mut tokens, &model.merges),
        false => notes.push(
            "tokenizer.model is not there, so the tokens have no scores: llama.cpp merges them in another order than \
             tokenizer.json says"
                .to_owned(),
        ),
    }
    let mut pairs = MetadataMap::new();
    bpe::space_prefix(source, &mut pairs);
    pairs.insert(key::MODEL, key::model::SENTENCE_PIECE);
    pairs.insert(key::PRE, key::DEFAULT_PRE);
    let vocab_size = tokens.len();
    vocabulary::write(&mut pairs, tokens, true);
    special::write(source, Some(vocab_size), &mut pairs, &mut notes)?;
    Ok(Some((pairs, notes)))
}

fn tokens(source: &Source, vocab: Vocabulary, special: &HashSet<String>) -> Result<Vec<Token>> {
    let vocab = vocabulary::ids(vocab)?;
    let added = source.json.iter().flat_map(|json| &json.value.added_tokens);
    let ids = vocab.iter().map(|(_, id)| *id).chain(added.clone().map(|token| token.id));
    let mut slots = Slots::new(source, ids.max().map_or(0, |id| id.saturating_add(1)))?;
    for (text, id) in vocab {
        let token_type = match special.contains(&text) {
            _ if is_byte(&text) => TokenType::Byte,
            true => TokenType::Control,
            false => TokenType::Normal,
        };
        slots.add(id, Token { text, token_type, score: ADDED_SCORE })?;
    }
    for token in added {
        if slots.slot(token.id).is_some_and(|slot| slot.as_ref().is_some_and(|own| own.text == token.content))
        {
            continue;
        }
        let token_type =
            if special.contains(&token.content) { TokenType::Control } else { TokenType::UserDefined };
        slots.add(token.id, Token { text: token.content.clone(), token_type, score: ADDED_SCORE })?;
    }
    slots.into_tokens()
}

/// Gives each token the score of the first merge whose result it is: llama.cpp merges what has the largest score first.
fn rank(tokens: &mut [Token], merges: &[Merge]) {
    let mut ranks = HashMap::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        ranks.entry([merge.left(), merge.right()].concat()).or_insert(rank);
    }
    for token in tokens.iter_mut().filter(|token| token.token_type == TokenType::Normal) {
        let rank = ranks.get(&token.text).copied().unwrap_or(merges.len());
        // Not the negation, which is -0 for the first.
        token.score = 0.0 - rank as f32;
    }
}

/// Whether a token stands for one byte: `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The texts of the tokens that `tokenizer_config.json` and `special_tokens_map.json` name.
fn special_texts(source: &Source) -> Result<HashSet<String>> {
    let map = from_directory::<TokenizerConfig>(source.directory, name::SPECIAL_TOKENS, source.limits)?;
    let configs = source.config.iter().chain(&map).map(|file| &file.value);
    Ok(configs.flat_map(stated).filter_map(TokenField::content).map(str::to_owned).collect())
}

fn stated(config: &TokenizerConfig) -> impl Iterator<Item = &TokenField> {
    let TokenizerConfig {
        bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token, ..
    } = config;
    let one =
        [bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token].into_iter().flatten();
    let more = config.additional_special_tokens.as_ref().and_then(|more| more.get());
    one.chain(more.into_iter().flatten())
}
