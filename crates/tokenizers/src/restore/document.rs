//! `tokenizer.json` as it is written.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

/// The file.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    pub(super) version: &'static str,
    pub(super) truncation: (),
    pub(super) padding: (),
    pub(super) added_tokens: Vec<Added<'a>>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
    pub(super) model: Model<'a>,
}

/// An added token.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Added<'a> {
    pub(super) id: usize,
    pub(super) content: &'a str,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

impl<'a> Added<'a> {
    /// A token that is matched in the text as it is.
    pub(super) fn new(id: usize, content: &'a str, is_special: bool) -> Self {
        Added {
            id,
            content,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: is_special,
        }
    }
}

/// The model.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Model<'a> {
    #[serde(rename = "BPE")]
    Bpe {
        dropout: (),
        unk_token: Option<&'a str>,
        continuing_subword_prefix: (),
        end_of_word_suffix: (),
        fuse_unk: bool,
        byte_fallback: bool,
        ignore_merges: bool,
        vocab: Ids<'a>,
        merges: Vec<(&'a str, &'a str)>,
    },
    Unigram {
        unk_id: Option<usize>,
        vocab: Vec<(&'a str, f32)>,
        byte_fallback: bool,
    },
    WordPiece {
        unk_token: &'a str,
        continuing_subword_prefix: &'static str,
        max_input_chars_per_word: usize,
        vocab: Ids<'a>,
    },
}

/// Tokens and their ids.
#[derive(Debug, Default)]
pub(super) struct Ids<'a>(pub(super) Vec<(&'a str, usize)>);

impl Serialize for Ids<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (text, id) in &self.0 {
            map.serialize_entry(text, id)?;
        }
        map.end()
    }
}
