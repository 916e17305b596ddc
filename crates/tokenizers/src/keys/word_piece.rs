//! WordPiece, of the BERT family.

use super::source::{Found, Source};
use super::{special, vocabulary};
use crate::key;
use crate::token::{Token, TokenType};
use ckpt_api::{MetadataMap, Result};

/// The name of the pre-tokenizer that BERT's own vocabulary has. llama.cpp ignores it for WordPiece.
const PRE: &str = "jina-v2-en";

/// Returns the keys of `tokenizer.json`.
pub(super) fn keys(source: &mut Source) -> Result<Found> {
    if source.model_of("WordPiece").is_none() {
        return Ok(None);
    }
    let Some(model) = source.take_model() else { return Ok(None) };
    let mut tokens = vocabulary::of_json(source, model.vocab).map_err(|error| source.in_json(error))?;
    tokens.iter_mut().for_each(mark_word_start);
    vocabulary::check_texts(&tokens).map_err(|error| source.in_json(error))?;
    let mut pairs = MetadataMap::new();
    pairs.insert(key::MODEL, key::model::WORD_PIECE);
    pairs.insert(key::PRE, source.request.pre.or(source.request.family_pre).unwrap_or(PRE));
    let vocab_size = tokens.len();
    vocabulary::write(&mut pairs, tokens, false);
    let mut notes = Vec::new();
    special::write(source, Some(vocab_size), &mut pairs, &mut notes)?;
    Ok(Some((pairs, notes)))
}

/// Marks the tokens that begin a word, where WordPiece marks those that go on.
fn mark_word_start(token: &mut Token) {
    if token.token_type != TokenType::Control {
        token.text = match token.text.strip_prefix("##") {
            Some(rest) => rest.to_owned(),
            None => format!("▁{}", token.text),
        };
    }
}
