//! SentencePiece: `tokenizer.model`, and tokens that were added beside it.

use super::source::{Found, Source};
use super::vocabulary::{self, Slots, added_token};
use super::{bpe, special};
use crate::files::{Piece, SentencePieceModel, from_directory, name};
use crate::token::{ADDED_SCORE, Token, TokenType};
use crate::{SpacePrefix, key};
use ckpt_api::{Error, MetadataMap, Result};
use std::collections::BTreeMap;

/// Returns the keys of `tokenizer.model`. `is_phi3` for the rules of that family: a token is special only if the files say so,
/// and those of `tokenizer.json` count, too.
pub(super) fn keys(source: &Source, is_phi3: bool) -> Result<Found> {
    let file = SentencePieceModel::from_directory(source.directory, name::SENTENCE_PIECE, source.limits)?;
    let Some((model, file)) = file else { return Ok(None) };
    let mut notes = Vec::new();
    let mut slots = of_pieces(source, &model.pieces).map_err(|error| error.file(file))?;
    add_listed(source, &mut slots, &mut notes)?;
    add_decoded(source, &mut slots, is_phi3, &mut notes)?;
    let tokens = slots.into_tokens()?;
    let mut pairs = MetadataMap::new();
    bpe::space_prefix(source, &mut pairs);
    pairs.insert(key::MODEL, key::model::SENTENCE_PIECE);
    pairs.insert(key::PRE, key::DEFAULT_PRE);
    let vocab_size = tokens.len();
    vocabulary::write(&mut pairs, tokens, true);
    special::write(source, Some(vocab_size), &mut pairs, &mut notes)?;
    if source.request.space_prefix == SpacePrefix::False {
        pairs.insert(key::ADD_SPACE_PREFIX, false);
    }
    Ok(Some((pairs, notes)))
}

/// Returns a vocabulary with the tokens of a model.
pub(super) fn of_pieces(source: &Source, pieces: &[Piece]) -> Result<Slots> {
    let mut slots = Slots::new(source, pieces.len() as u64)?;
    for (id, piece) in pieces.iter().enumerate() {
        let token_type = match piece.piece_type {
            // The converter asks SentencePiece for each type, and it has no query for this one.
            TokenType::UserDefined => TokenType::Normal,
            other => other,
        };
        slots.add(id as u64, Token { text: piece.text.clone(), token_type, score: piece.score })?;
    }
    Ok(slots)
}

/// Adds the tokens of `added_tokens.json`: ids by text.
pub(super) fn add_listed(source: &Source, slots: &mut Slots, notes: &mut Vec<String>) -> Result<()> {
    let listed =
        from_directory::<BTreeMap<String, u64>>(source.directory, name::ADDED_TOKENS, source.limits)?;
    for (text, id) in listed.into_iter().flat_map(|file| file.value) {
        let token = Token { text, token_type: TokenType::UserDefined, score: ADDED_SCORE };
        set(slots, id, token, name::ADDED_TOKENS, notes);
    }
    Ok(())
}

/// Adds the tokens of `added_tokens_decoder` in `tokenizer_config.json`, and for Phi-3 those of `tokenizer.json`.
fn add_decoded(source: &Source, slots: &mut Slots, is_phi3: bool, notes: &mut Vec<String>) -> Result<()> {
    let token = |content: &str, is_special: bool| match (is_phi3, is_special) {
        (false, _) => added_token(content, is_special),
        (true, true) => {
            Token { text: content.to_owned(), token_type: TokenType::Control, score: ADDED_SCORE }
        }
        (true, false) => {
            Token { text: content.to_owned(), token_type: TokenType::UserDefined, score: ADDED_SCORE }
        }
    };
    if let Some(config) = &source.config {
        for (id, added) in &config.value.added_tokens_decoder {
            let id = id.parse::<u64>().map_err(|_| {
                Error::corrupt("the id of an added token is not a number")
                    .file(&config.file)
                    .field("added_tokens_decoder")
                    .found(format!("'{}'", id.escape_debug()))
            })?;
            set(slots, id, token(&added.content, added.special), name::TOKENIZER_CONFIG, notes);
        }
    }
    let json = source.json.as_ref().filter(|_| is_phi3);
    for added in json.iter().flat_map(|json| &json.value.added_tokens) {
        set(slots, added.id, token(&added.content, added.special), name::TOKENIZER_JSON, notes);
    }
    Ok(())
}

/// Sets a token, which may replace one of the model. The embedding has no row for an id that is too large: the converter leaves
/// such a token out, and Gemma 3 has one.
fn set(slots: &mut Slots, id: u64, token: Token, file: &str, notes: &mut Vec<String>) {
    match slots.slot(id) {
        Some(slot) => *slot = Some(token),
        None => notes.push(format!(
            "{} of {file} has the id {id}, for which the model has no row: left out",
            vocabulary::shown(&token.text)
        )),
    }
}
