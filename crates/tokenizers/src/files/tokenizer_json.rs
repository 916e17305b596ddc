//! `tokenizer.json`, the format of the library `tokenizers`.

use super::json::Few;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// The file. What decides no key is left out.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TokenizerJson {
    #[serde(default)]
    pub(crate) added_tokens: Vec<AddedToken>,
    pub(crate) normalizer: Option<Normalizer>,
    pub(crate) pre_tokenizer: Option<PreTokenizer>,
    pub(crate) post_processor: Option<Processor>,
    pub(crate) decoder: Option<Decoder>,
    pub(crate) model: Option<Model>,
}

/// A token that is matched in the text before the model runs.
#[derive(Debug, Deserialize)]
pub(crate) struct AddedToken {
    pub(crate) id: u64,
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) special: bool,
}

/// A part that has only its type here.
#[derive(Debug, Deserialize)]
pub(crate) struct Decoder {
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// A change of the text before it is split.
#[derive(Debug, Deserialize)]
pub(crate) struct Normalizer {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    pub(crate) lowercase: Option<bool>,
    pub(crate) strip_accents: Option<bool>,
    #[serde(default)]
    normalizers: Few<Normalizer>,
}

impl Normalizer {
    /// The normalizers of a sequence.
    pub(crate) fn parts(&self) -> &[Normalizer] {
        &self.normalizers.0
    }
}

/// A rule that splits the text.
#[derive(Debug, Deserialize)]
pub(crate) struct PreTokenizer {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pretokenizers: Few<PreTokenizer>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) behavior: Option<String>,
    #[serde(default)]
    pub(crate) invert: bool,
    pub(crate) add_prefix_space: Option<bool>,
    pub(crate) use_regex: Option<bool>,
    #[serde(default)]
    pub(crate) individual_digits: bool,
}

impl PreTokenizer {
    /// The rules of a sequence.
    pub(crate) fn parts(&self) -> &[PreTokenizer] {
        &self.pretokenizers.0
    }
}

/// What separates words.
#[derive(Debug, Deserialize)]
pub(crate) enum Pattern {
    Regex(String),
    String(String),
}

/// A rule that adds special tokens.
#[derive(Debug, Deserialize)]
pub(crate) struct Processor {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    processors: Option<Few<Processor>>,
    #[serde(default)]
    single: Few<TemplatePiece>,
    #[serde(default)]
    pair: Few<TemplatePiece>,
    /// The text of a token, and its id.
    pub(crate) cls: Option<(String, u64)>,
    pub(crate) sep: Option<(String, u64)>,
}

impl Processor {
    /// The rules of a sequence; otherwise the rule itself.
    pub(crate) fn parts(&self) -> &[Processor] {
        self.processors.as_ref().map_or(std::slice::from_ref(self), |parts| &parts.0)
    }

    /// The template of one text.
    pub(crate) fn single(&self) -> &[TemplatePiece] {
        &self.single.0
    }

    /// The template of two texts.
    pub(crate) fn pair(&self) -> &[TemplatePiece] {
        &self.pair.0
    }
}

/// A place of a template: a special token, or one of the texts.
#[derive(Debug, Deserialize)]
pub(crate) struct TemplatePiece {
    #[serde(rename = "SpecialToken")]
    special: Option<PieceId>,
    #[serde(rename = "Sequence")]
    sequence: Option<PieceId>,
}

#[derive(Debug, Deserialize)]
struct PieceId {
    #[serde(default)]
    id: String,
}

impl TemplatePiece {
    /// The text of a special token.
    pub(crate) fn special(&self) -> Option<&str> {
        self.special.as_ref().map(|piece| piece.id.as_str()).filter(|id| !id.is_empty())
    }

    /// The name of a text, "A" or "B".
    pub(crate) fn sequence(&self) -> Option<&str> {
        self.sequence.as_ref().map(|piece| piece.id.as_str())
    }
}

/// The model that turns words into tokens.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    pub(crate) vocab: Vocabulary,
    #[serde(default)]
    pub(crate) merges: Vec<Merge>,
    pub(crate) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(crate) byte_fallback: bool,
    #[serde(default)]
    pub(crate) ignore_merges: bool,
}

impl Model {
    /// The type. Files of before 2020 do not state it.
    pub(crate) fn kind(&self) -> &str {
        match (&self.kind, &self.vocab) {
            (Some(kind), _) => kind,
            (None, Vocabulary::Scores) => "Unigram",
            (None, _) if self.merges.is_empty() => "WordPiece",
            (None, _) => "BPE",
        }
    }
}

/// The tokens of a model.
#[derive(Debug)]
pub(crate) enum Vocabulary {
    /// Each with its id, in the order of the file.
    Ids(Vec<(String, u64)>),
    /// A list with scores, which `tokenizer.model` has, too.
    Scores,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Vocabulary::Ids(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens and ids, or a list of tokens and scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut tokens = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    tokens.push(entry);
                }
                Ok(Vocabulary::Ids(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Vocabulary::Scores)
            }
        }
        deserializer.deserialize_any(Tokens)
    }
}

/// Two tokens that become one. They are one text with a space in between, which takes half the memory of two.
#[derive(Debug)]
pub(crate) struct Merge {
    text: String,
    left_len: usize,
}

impl Merge {
    fn new(left: &str, right: &str) -> Self {
        Merge { text: format!("{left} {right}"), left_len: left.len() }
    }

    /// The merge in a text such as "a b". `None` if there is not one space.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (left, right) = text.split_once(' ')?;
        (!right.contains(' ')).then(|| Merge { text: text.to_owned(), left_len: left.len() })
    }

    /// The first token.
    pub(crate) fn left(&self) -> &str {
        self.text.get(..self.left_len).unwrap_or_default()
    }

    /// The second token.
    pub(crate) fn right(&self) -> &str {
        self.text.get(self.left_len + 1..).unwrap_or_default()
    }

    /// The text of GGUF: both tokens with one space in between. A space within a token becomes Ġ.
    pub(crate) fn into_text(self) -> String {
        if self.text.matches(' ').count() == 1 {
            return self.text;
        }
        format!("{} {}", self.left().replace(' ', "Ġ"), self.right().replace(' ', "Ġ"))
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens in a list, or in a text with one space between them")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                Merge::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
                let (left, right, more) = (
                    list.next_element::<String>()?,
                    list.next_element::<String>()?,
                    list.next_element::<String>()?,
                );
                match (left, right, more) {
                    (Some(left), Some(right), None) => Ok(Merge::new(&left, &right)),
                    _ => Err(A::Error::custom("a merge does not have two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Pair)
    }
}
