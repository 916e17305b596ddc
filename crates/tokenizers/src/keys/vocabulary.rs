//! The vocabulary: a token for each id.

use super::source::Source;
use crate::files::{Merge, Model, Vocabulary};
use crate::key;
use crate::token::{ADDED_SCORE, Token, TokenType};
use ckpt_api::{Error, Limit, MetadataMap, Result};
use std::collections::HashSet;

/// A vocabulary that is filled id by id.
#[derive(Debug)]
pub(super) struct Slots(Vec<Option<Token>>);

impl Slots {
    /// A vocabulary of `vocab_size` ids, which `tokens` tokens need at least.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if there are more tokens than ids; [`ckpt_api::Kind::Limit`].
    pub(super) fn new(source: &Source, tokens: u64) -> Result<Self> {
        let size = source.request.vocab_size.unwrap_or(tokens);
        if tokens > size {
            return Err(Error::corrupt("the tokenizer has more tokens than config.json states")
                .field("vocab_size")
                .found(ckpt_api::count(tokens, "token"))
                .expected(format!("at most {size}, which is vocab_size"))
                .help("the tokenizer belongs to another model, or tokens were added without resizing the embedding: copy both from one place"));
        }
        source.limits.check(Limit::MetadataEntries, size)?;
        Ok(Slots(vec![None; usize::try_from(size).unwrap_or(usize::MAX)]))
    }

    /// The token of an id. `None` if the vocabulary ends before.
    pub(super) fn slot(&mut self, id: u64) -> Option<&mut Option<Token>> {
        self.0.get_mut(usize::try_from(id).ok()?)
    }

    /// Sets the token of an id.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if the id has another token, or no place in the vocabulary.
    pub(super) fn add(&mut self, id: u64, token: Token) -> Result<()> {
        let size = self.0.len();
        let slot = self.slot(id).ok_or_else(|| {
            Error::corrupt("the id of a token is not in the vocabulary")
                .field(shown(&token.text))
                .found(format!("id {id}"))
                .expected(format!("an id below {size}"))
        })?;
        if let Some(other) = slot {
            return Err(Error::corrupt("two tokens have the same id")
                .field(shown(&token.text))
                .found(format!("id {id}, which is also that of {}", shown(&other.text)))
                .expected("an id for each token"));
        }
        *slot = Some(token);
        Ok(())
    }

    /// Returns the tokens, with a padding token for each id that has none.
    ///
    /// # Errors
    /// Those of [`check_texts`].
    pub(super) fn into_tokens(self) -> Result<Vec<Token>> {
        let fill = |(id, token): (usize, Option<Token>)| token.unwrap_or_else(|| Token::padding(id));
        let tokens: Vec<Token> = self.0.into_iter().enumerate().map(fill).collect();
        check_texts(&tokens)?;
        Ok(tokens)
    }
}

/// Checks that every token has a text of its own.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`]: llama.cpp ends when it loads two tokens with one text.
pub(super) fn check_texts(tokens: &[Token]) -> Result<()> {
    let mut texts = HashSet::with_capacity(tokens.len());
    let twice =
        tokens.iter().enumerate().find(|(_, token)| !token.text.is_empty() && !texts.insert(&*token.text));
    match twice {
        Some((id, token)) => Err(Error::corrupt("two tokens have the same text")
            .field(shown(&token.text))
            .found(format!("id {id}, and a smaller one"))
            .expected("a text for each id: llama.cpp does not load the file otherwise")),
        None => Ok(()),
    }
}

/// A token's text as messages show it.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    format!("token '{}'", cut.escape_debug())
}

/// Returns the tokens of `tokenizer.json`, those of its model and those that were added.
///
/// # Errors
/// Those of [`Slots`].
pub(super) fn of_json(source: &Source, vocab: Vocabulary) -> Result<Vec<Token>> {
    let vocab = ids(vocab)?;
    let added = source.json.iter().flat_map(|json| &json.value.added_tokens);
    let ids = vocab.iter().map(|(_, id)| *id).chain(added.clone().map(|token| token.id));
    let tokens = ids.max().map_or(0, |id| id.saturating_add(1));
    if tokens == 0 {
        return Err(Error::corrupt("the tokenizer has no tokens").field("model.vocab"));
    }
    let mut slots = Slots::new(source, tokens)?;
    for (text, id) in vocab {
        slots.add(id, Token { text, token_type: TokenType::Normal, score: 0.0 })?;
    }
    for token in added {
        let of_model = slots.slot(token.id).and_then(|slot| slot.take_if(|own| own.text == token.content));
        drop(of_model);
        slots.add(token.id, added_token(&token.content, token.special))?;
    }
    slots.into_tokens()
}

/// Returns tokens with their ids.
pub(super) fn ids(vocab: Vocabulary) -> Result<Vec<(String, u64)>> {
    match vocab {
        Vocabulary::Ids(ids) => Ok(ids),
        Vocabulary::Scores => {
            Err(Error::corrupt("the vocabulary is a list").field("model.vocab").expected("an object of ids"))
        }
    }
}

/// A token that is matched in the text itself.
pub(crate) fn added_token(content: &str, is_special: bool) -> Token {
    let (text, token_type) = match is_special || looks_special(content) {
        true => (content.to_owned(), TokenType::Control),
        // llama.cpp matches it before it escapes spaces.
        false => (content.replace('▁', " "), TokenType::UserDefined),
    };
    Token { text, token_type, score: ADDED_SCORE }
}

/// Whether a token is special, although the files of some models do not say so. llama.cpp's converter has this list.
pub(super) fn looks_special(text: &str) -> bool {
    let is_between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || is_between("<|", "|>")
        || is_between("<｜", "｜>")
        || is_between("<unused", ">")
}

/// Checks that the vocabulary has the tokens of every merge.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] with the merge.
pub(super) fn check_merges(model: &Model, merges: &[Merge]) -> Result<()> {
    let Vocabulary::Ids(vocab) = &model.vocab else { return Ok(()) };
    let texts: HashSet<&str> = vocab.iter().map(|(text, _)| text.as_str()).collect();
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or_default();
    let mut result = String::new();
    for (index, merge) in merges.iter().enumerate() {
        let (left, right) = (merge.left(), merge.right());
        result.clear();
        result.push_str(left);
        result.push_str(right.strip_prefix(prefix).unwrap_or(right));
        if let Some(missing) = [left, right, &result].into_iter().find(|text| !texts.contains(text)) {
            return Err(Error::corrupt("a merge names a token that is not in the vocabulary")
                .field(format!("merge {index}, '{}' + '{}'", left.escape_debug(), right.escape_debug()))
                .found(format!("no {}", shown(missing)))
                .expected("both parts and their result in model.vocab")
                .help(
                    "the vocabulary and the merges belong to different tokenizers: copy them from one place",
                ));
        }
    }
    Ok(())
}

/// Appends the tokens and their types, and in between their scores if the model has them.
pub(super) fn write(pairs: &mut MetadataMap, tokens: Vec<Token>, has_scores: bool) {
    let scores: Vec<f32> = tokens.iter().map(|token| token.score).collect();
    let types: Vec<i32> = tokens.iter().map(|token| token.token_type as i32).collect();
    let texts: Vec<String> = tokens.into_iter().map(|token| token.text).collect();
    pairs.insert(key::TOKENS, texts);
    if has_scores {
        pairs.insert(key::SCORES, scores);
    }
    pairs.insert(key::TOKEN_TYPE, types);
}
