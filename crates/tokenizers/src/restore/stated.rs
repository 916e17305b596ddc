//! The keys of a tokenizer, parsed.

use crate::key;
use crate::token::{Token, TokenType};
use ckpt_api::{Error, Limit, Limits, MetadataMap, MetadataValue, Result};

/// What the keys state.
#[derive(Debug)]
pub(super) struct Stated<'a> {
    pub(super) pairs: &'a MetadataMap,
    pub(super) model: &'a str,
    /// In the order of ids.
    pub(super) tokens: Vec<Token>,
    pub(super) has_scores: bool,
    /// Ids of special tokens, by the name in Hugging Face's files, in the order of the keys.
    pub(super) ids: Vec<(&'static str, usize)>,
    /// Which tokens are added to a text, in the order of the keys.
    pub(super) flags: Vec<(&'static str, bool)>,
    /// What is left out, one sentence each.
    pub(super) notes: Vec<String>,
}

impl<'a> Stated<'a> {
    /// Parses the keys.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if there is no tokenizer, [`ckpt_api::Kind::Corrupt`] for a key of another type, lists of different
    /// lengths and an id that is no number.
    pub(super) fn parse(pairs: &'a MetadataMap, limits: &Limits) -> Result<Self> {
        let model = pairs.get(key::MODEL).and_then(MetadataValue::as_text);
        let model = model.ok_or_else(|| {
            Error::usage("the file has no tokenizer")
                .field(key::MODEL)
                .expected("the name of a tokenizer's model")
        })?;
        let texts = list(pairs, key::TOKENS)?.unwrap_or_default();
        limits.check(Limit::MetadataEntries, texts.len() as u64).map_err(|error| error.field(key::TOKENS))?;
        let (types, scores) = (list(pairs, key::TOKEN_TYPE)?, list(pairs, key::SCORES)?);
        for (name, values) in [(key::TOKEN_TYPE, types), (key::SCORES, scores)] {
            if let Some(values) = values.filter(|values| values.len() != texts.len()) {
                return Err(Error::corrupt("a list does not have a value for each token")
                    .field(name)
                    .found(ckpt_api::count(values.len(), "value"))
                    .expected(ckpt_api::count(texts.len(), "value")));
            }
        }
        let mut tokens = Vec::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            let wrong = |key: &'static str, expected: &'static str| {
                Error::corrupt("a value of a token has another type")
                    .field(format!("{key}[{id}]"))
                    .expected(expected)
            };
            let text = text.as_text().ok_or_else(|| wrong(key::TOKENS, "a text in UTF-8"))?.to_owned();
            let number = |values: Option<&'a [MetadataValue]>| values.and_then(|values| values.get(id));
            let token_type = match number(types) {
                Some(value) => value.as_i64().and_then(TokenType::from_number),
                None => Some(TokenType::Normal),
            };
            let token_type = token_type.ok_or_else(|| wrong(key::TOKEN_TYPE, "a number from 1 to 6"))?;
            let score = match number(scores) {
                Some(MetadataValue::F32(score)) => *score,
                Some(_) => return Err(wrong(key::SCORES, "an f32")),
                None => 0.0,
            };
            tokens.push(Token { text, token_type, score });
        }
        let has_scores = scores.is_some();
        let (ids, flags, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut stated = Stated { pairs, model, tokens, has_scores, ids, flags, notes };
        for (name, value) in pairs.iter() {
            stated.special(name, value)?;
        }
        Ok(stated)
    }

    fn special(&mut self, name: &str, value: &MetadataValue) -> Result<()> {
        let mut ids = key::IDS.iter().chain(&[("cls", key::CLS_ID)]);
        if let Some((token, _)) = ids.find(|(_, key)| *key == name) {
            let id = value.as_u64().ok_or_else(|| {
                Error::corrupt("the id of a special token is no number")
                    .field(name)
                    .found(value.to_string().chars().take(80).collect::<String>())
                    .expected(format!("an id below {}", self.tokens.len()))
            })?;
            match usize::try_from(id).ok().filter(|id| *id < self.tokens.len()) {
                Some(id) => self.ids.push((token, id)),
                // llama.cpp takes its default in place of such an id.
                None => self.notes.push(format!("{name} is left out: {id} is no id of a token")),
            }
        }
        if let Some((token, _)) = key::FLAGS.iter().find(|(_, key)| *key == name) {
            let flag = value.as_bool();
            let flag = flag.ok_or_else(|| Error::corrupt("a flag is not a truth value").field(name))?;
            self.flags.push((token, flag));
        }
        Ok(())
    }

    /// The text of a special token.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        let (_, id) = self.ids.iter().find(|(own, _)| *own == name)?;
        self.tokens.get(*id).map(|token| token.text.as_str())
    }

    /// Whether a token is added to a text, if the keys state it.
    pub(super) fn adds(&self, name: &str) -> Option<bool> {
        self.flags.iter().find(|(own, _)| *own == name).map(|(_, flag)| *flag)
    }

    /// A truth value.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.pairs.get(key).and_then(MetadataValue::as_bool)
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.pairs.get(key).and_then(MetadataValue::as_text)
    }

    /// The merges.
    pub(super) fn merges(&self) -> Result<Vec<(&'a str, &'a str)>> {
        let merges = list(self.pairs, key::MERGES)?.unwrap_or_default().iter().enumerate();
        let parsed = merges.map(|(index, merge)| {
            let text = merge.as_text();
            text.and_then(|text| text.split_once(' ')).ok_or_else(|| {
                Error::corrupt("a merge does not have two tokens")
                    .field(format!("{}[{index}]", key::MERGES))
                    .found(merge.to_string().chars().take(80).collect::<String>())
                    .expected("two tokens with one space in between")
            })
        });
        parsed.collect()
    }

    /// The number of tokens before those at the end that all are of some sort, such as padding.
    pub(super) fn used(&self, is_unused: impl Fn(usize, &Token) -> bool) -> usize {
        let unused = self.tokens.iter().enumerate().rev().take_while(|(id, token)| is_unused(*id, token));
        self.tokens.len() - unused.count()
    }
}

/// Returns a list; an empty one if the file has an empty array.
fn list<'a>(pairs: &'a MetadataMap, name: &'static str) -> Result<Option<&'a [MetadataValue]>> {
    match pairs.get(name) {
        None => Ok(None),
        Some(MetadataValue::List(values)) => Ok(Some(values)),
        Some(MetadataValue::Map(_)) => Ok(Some(&[])),
        Some(_) => Err(Error::corrupt("a key is not a list")
            .field(name)
            .expected("a list with a value for each token")),
    }
}
