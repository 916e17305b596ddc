//! From keys to files.

mod bpe;
mod configuration;
mod document;
mod processor;
mod sentence_piece;
mod stated;
mod unigram;
mod word_piece;

use crate::Files;
use crate::files::{ModelType, name};
use crate::key::{self, model};
use ckpt_api::{Error, Limits, MetadataMap, Result};
use document::Document;
use processor::post_processor;
use stated::Stated;

/// Returns the files of a tokenizer.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] if the keys describe no tokenizer; [`ckpt_api::Kind::Corrupt`] for keys that contradict each other;
/// [`ckpt_api::Kind::Unsupported`] for a model of another name; [`ckpt_api::Kind::Limit`].
pub fn from_gguf(pairs: &MetadataMap, limits: &Limits) -> Result<Files> {
    let mut stated = Stated::parse(pairs, limits)?;
    if stated.model == model::WORD_PIECE {
        word_piece::unmark(&mut stated);
    }
    let mut files = Files { notes: std::mem::take(&mut stated.notes), ..Files::default() };
    let processor = post_processor(&stated, stated.model == model::BPE);
    if !processor.keeps_order {
        files.notes.push(
            "the flags for special tokens come in another order when the files become keys again".to_owned(),
        );
    }
    match stated.model {
        model::BPE => {
            if let Some(document) = bpe::document(&stated, processor, &mut files.notes)? {
                insert_document(&mut files, &document)?;
            }
            configuration::write(&stated, &[], &mut files)?;
        }
        model::SENTENCE_PIECE => {
            let parts = sentence_piece::parts(&stated);
            insert_model(&stated, &parts, ModelType::Bpe, name::SENTENCE_PIECE, &mut files);
            let document = sentence_piece::document(&stated, &parts, processor, limits, &mut files.notes)?;
            insert_document(&mut files, &document)?;
            configuration::write(&stated, &parts.added, &mut files)?;
        }
        model::UNIGRAM => {
            let parts = sentence_piece::parts(&stated);
            insert_model(&stated, &parts, ModelType::Unigram, name::OLD_SENTENCE_PIECE, &mut files);
            insert_document(&mut files, &unigram::document(&stated, &parts, processor))?;
            configuration::write(&stated, &parts.added, &mut files)?;
        }
        model::WORD_PIECE => {
            insert_document(&mut files, &word_piece::document(&stated, processor))?;
            configuration::write(&stated, &[], &mut files)?;
        }
        other => {
            return Err(Error::unsupported("the tokenizer's model has an unknown name")
                .field(key::MODEL)
                .found(format!("'{}'", other.chars().take(80).collect::<String>().escape_debug()))
                .expected("gpt2, llama, t5 or bert"));
        }
    }
    Ok(files)
}

fn insert_document(files: &mut Files, document: &Document) -> Result<()> {
    files.files.insert(name::TOKENIZER_JSON.to_owned(), configuration::json(document)?);
    Ok(())
}

fn insert_model(
    stated: &Stated,
    parts: &sentence_piece::Parts,
    model_type: ModelType,
    name: &str,
    files: &mut Files,
) {
    if let Some(model) = sentence_piece::model(stated, parts, model_type, &mut files.notes) {
        files.files.insert(name.to_owned(), model.to_bytes());
    }
}
