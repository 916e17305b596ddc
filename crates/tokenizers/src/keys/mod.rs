//! From files to keys.

mod bpe;
mod chat_template;
mod llama_bpe;
mod sentence_piece;
mod source;
mod special;
mod unigram;
mod vocabulary;
mod word_piece;

use crate::{Keys, Request, TokenizerKind};
use ckpt_api::{Error, Input, Limits, Result};
use source::Source;
pub(crate) use vocabulary::added_token;

/// Returns the `tokenizer.*` keys of a directory's tokenizer.
///
/// # Errors
/// - [`ckpt_api::Kind::Usage`] if the directory has no tokenizer, or the user chose an unknown pre-tokenizer.
/// - [`ckpt_api::Kind::Corrupt`] for a file that is cut short or not JSON, more tokens than `vocab_size`, two tokens with one id
///   or text, and a merge of tokens that the vocabulary does not have.
/// - [`ckpt_api::Kind::Unsupported`] for a model of another type, and a pre-tokenizer that llama.cpp does not have.
/// - [`ckpt_api::Kind::Limit`], [`ckpt_api::Kind::Io`].
pub fn to_gguf(directory: &Input, request: &Request, limits: &Limits) -> Result<Keys> {
    let mut source = Source::open(directory, request, limits)?;
    for kind in request.kinds {
        let keys = match kind {
            TokenizerKind::Bpe => bpe::keys(&mut source)?,
            TokenizerKind::SentencePiece => sentence_piece::keys(&source, false)?,
            TokenizerKind::Phi3SentencePiece => sentence_piece::keys(&source, true)?,
            TokenizerKind::LlamaBpe => llama_bpe::keys(&mut source, false)?,
            TokenizerKind::RankedBpe => llama_bpe::keys(&mut source, true)?,
            TokenizerKind::Unigram => unigram::keys(&source)?,
            TokenizerKind::WordPiece => word_piece::keys(&mut source)?,
        };
        if let Some((pairs, notes)) = keys {
            return Ok(Keys { pairs, kind: *kind, notes });
        }
    }
    Err(no_tokenizer(&source))
}

/// The error for a directory without a tokenizer of the kinds that the family has.
fn no_tokenizer(source: &Source) -> Error {
    let files: Vec<&str> = source.request.kinds.iter().map(|kind| files(*kind)).collect();
    let expected = files.join(", or ");
    let Some(json) = &source.json else {
        return Error::usage("the directory has no tokenizer")
            .file(source.directory.display(""))
            .expected(expected)
            .help("copy the tokenizer's files into the directory: they belong to the model");
    };
    let kind = json.value.model.as_ref().map_or("", |model| model.kind());
    let message = match kind {
        "" => "the tokenizer has no model",
        "BPE" | "WordPiece" | "Unigram" | "WordLevel" => {
            "models of this family have another kind of tokenizer"
        }
        _ => "the tokenizer's model has an unknown type",
    };
    let found =
        if kind.is_empty() { "no field 'model'".to_owned() } else { format!("'{}'", kind.escape_debug()) };
    Error::unsupported(message).file(&json.file).field("model.type").found(found).expected(expected)
}

/// The files that a kind needs.
fn files(kind: TokenizerKind) -> &'static str {
    match kind {
        TokenizerKind::Bpe => "tokenizer.json with a model of type 'BPE'",
        TokenizerKind::SentencePiece | TokenizerKind::Phi3SentencePiece => "tokenizer.model",
        TokenizerKind::LlamaBpe | TokenizerKind::RankedBpe => {
            "tokenizer.json with a model of type 'BPE' and byte_fallback"
        }
        TokenizerKind::Unigram => "spiece.model or tokenizer.model",
        TokenizerKind::WordPiece => "tokenizer.json with a model of type 'WordPiece'",
    }
}
