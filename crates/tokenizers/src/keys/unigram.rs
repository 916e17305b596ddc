//! SentencePiece's unigram model, of the T5 family.

use super::source::{Found, Source};
use super::{sentence_piece, special, vocabulary};
use crate::files::{ModelType, SentencePieceModel, name};
use crate::key;
use ckpt_api::{Error, MetadataMap, MetadataValue, Result};

/// Returns the keys of `tokenizer.model` or `spiece.model`.
pub(super) fn keys(source: &Source) -> Result<Found> {
    let open = |name| SentencePieceModel::from_directory(source.directory, name, source.limits);
    let file = match open(name::SENTENCE_PIECE)? {
        Some(file) => Some(file),
        None => open(name::OLD_SENTENCE_PIECE)?,
    };
    let Some((model, file)) = file else { return Ok(None) };
    match model.model_type {
        ModelType::Unigram => {}
        // Models of the Pile-T5 family.
        ModelType::Bpe => return sentence_piece::keys(source, false),
        ModelType::Other(number) => {
            return Err(Error::unsupported("the model of SentencePiece has another type")
                .file(file)
                .field("trainer_spec.model_type")
                .found(number.to_string())
                .expected("1 (unigram) or 2 (BPE)"));
        }
    }
    let mut notes = Vec::new();
    let mut slots = sentence_piece::of_pieces(source, &model.pieces).map_err(|error| error.file(file))?;
    sentence_piece::add_listed(source, &mut slots, &mut notes)?;
    let tokens = slots.into_tokens()?;
    let mut pairs = MetadataMap::new();
    pairs.insert(key::MODEL, key::model::UNIGRAM);
    pairs.insert(key::PRE, key::DEFAULT_PRE);
    let vocab_size = tokens.len();
    vocabulary::write(&mut pairs, tokens, true);
    pairs.insert(key::ADD_SPACE_PREFIX, model.add_dummy_prefix);
    pairs.insert(key::REMOVE_EXTRA_WHITESPACES, model.remove_extra_whitespaces);
    if !model.charsmap.is_empty() {
        pairs.insert(key::CHARSMAP, MetadataValue::Bytes(model.charsmap));
    }
    special::write(source, Some(vocab_size), &mut pairs, &mut notes)?;
    Ok(Some((pairs, notes)))
}
