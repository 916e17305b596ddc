//! All values of a file.

use super::array_bytes::ArrayBytes;
use super::token::{Token, token};
use ckpt_api::fields::{Bytes, be, field, text};
use ckpt_api::{Error, Fields, File, Limit, Limits, MetadataValue, Result};
use std::collections::HashSet;

/// Values within each other, at most.
const MOST_DEPTH: usize = 128;

/// The number of a value in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(usize);

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number, a text or another value that is stored natively.
    Native(MetadataValue),
    /// A complex number, or bytes: values without a counterpart.
    Other,
    Array(ArrayBytes),
    List(Vec<Id>),
    Map(Vec<(String, Id)>),
}

/// All values of a file.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) values: Vec<Value>,
}

impl Tree {
    pub(crate) const ROOT: Id = Id(0);

    pub(crate) fn value(&self, id: Id) -> &Value {
        const NOTHING: &Value = &Value::Other;
        self.values.get(id.0).unwrap_or(NOTHING)
    }

    /// The value of a key of a map.
    pub(crate) fn entry(&self, id: Id, key: &str) -> Option<&Value> {
        let Value::Map(entries) = self.value(id) else { return None };
        entries.iter().find(|(own, _)| own == key).map(|(_, id)| self.value(*id))
    }

    /// The native text of a key of a map.
    pub(crate) fn text(&self, id: Id, key: &str) -> Option<&str> {
        match self.entry(id, key)? {
            Value::Native(value) => value.as_text(),
            _ => None,
        }
    }

    /// Parses a whole file.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`], [`ckpt_api::Kind::Limit`] and those of reading.
    pub(crate) fn parse(file: &File, limits: &Limits) -> Result<Tree> {
        let mut parser = Parser { fields: Fields::new(file), limits, values: Vec::new(), open: Vec::new() };
        parser.run().map_err(|error| error.file(file.name()))?;
        match parser.fields.remaining() {
            0 => Ok(Tree { values: parser.values }),
            left => Err(Error::corrupt("bytes follow the tree")
                .file(file.name())
                .offset(parser.fields.position())
                .found(ckpt_api::count(left, "byte"))),
        }
    }
}

fn unknown_key(at: u64) -> Error {
    Error::unsupported("a key of the tree is neither a text nor a whole number").offset(at)
}

/// A list or a map that is not complete.
struct Open {
    id: Id,
    left: u64,
    /// The keys so far; `None` in a list.
    keys: Option<HashSet<String>>,
}

struct Parser<'a> {
    fields: Fields<'a>,
    limits: &'a Limits,
    values: Vec<Value>,
    open: Vec<Open>,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<()> {
        self.value(None)?;
        while let Some(open) = self.open.last_mut() {
            let Some(left) = open.left.checked_sub(1) else {
                self.open.pop();
                continue;
            };
            open.left = left;
            let key = if open.keys.is_some() { Some(self.key()?) } else { None };
            self.value(key)?;
        }
        Ok(())
    }

    fn key(&mut self) -> Result<String> {
        let at = self.fields.position();
        let wrong = |what: &'static str| Error::corrupt(what).offset(at);
        let key = match self.fields.parse(token)? {
            Token::Text(len) => {
                let limits = self.limits;
                self.fields
                    .parse(|input| field("key", text(len, limits, Limit::NameBytes))(input).map(owned))?
            }
            // Flax numbers the items of a list of modules.
            Token::Native(number) => match number.as_i64() {
                Some(number) => number.to_string(),
                None => return Err(unknown_key(at).found(number.to_string())),
            },
            _ => return Err(unknown_key(at)),
        };
        let keys = self.open.last_mut().and_then(|open| open.keys.as_mut());
        match keys.is_none_or(|keys| keys.insert(key.clone())) {
            true => Ok(key),
            false => {
                Err(wrong("a key of the tree is there twice").found(format!("'{}'", key.escape_debug())))
            }
        }
    }

    /// Parses a value up to its first child, and adds it to the list or map that is open.
    fn value(&mut self, key: Option<String>) -> Result<()> {
        let at = self.fields.position();
        let token = self.fields.parse(token)?;
        let id = Id(self.values.len());
        self.limits.check(Limit::GraphNodes, id.0 as u64 + 1).map_err(|error| error.offset(at))?;
        let (value, children) = match token {
            Token::Native(value) => (Value::Native(value), None),
            Token::Text(len) => (Value::Native(self.long_text(len)?.into()), None),
            Token::Bytes(len) => {
                self.fields.skip(len)?;
                (Value::Other, None)
            }
            Token::Extension(len) => (self.extension(len)?, None),
            Token::List(len) => (Value::List(Vec::new()), Some((len, None))),
            Token::Map(len) => (Value::Map(Vec::new()), Some((len, Some(HashSet::new())))),
        };
        self.values.push(value);
        if let Some(open) = self.open.last() {
            match (self.values.get_mut(open.id.0), key) {
                (Some(Value::Map(entries)), Some(key)) => entries.push((key, id)),
                (Some(Value::List(items)), None) => items.push(id),
                _ => return Err(Error::defect("a value within no list or map")),
            }
        }
        let Some((left, keys)) = children else { return Ok(()) };
        let least = if keys.is_some() { 2 } else { 1 };
        if left.saturating_mul(least) > self.fields.remaining() {
            return Err(Error::corrupt("the file is cut short, or claims more than it holds")
                .offset(at)
                .found(ckpt_api::count(self.fields.remaining(), "byte"))
                .expected(ckpt_api::count(left, "value")));
        }
        if self.open.len() >= MOST_DEPTH {
            return Err(Error::limit("too many values are within each other")
                .offset(at)
                .expected(format!("at most {MOST_DEPTH}")));
        }
        self.open.push(Open { id, left, keys });
        Ok(())
    }

    fn long_text(&mut self, len: u64) -> Result<String> {
        let at = self.fields.position();
        self.limits.check(Limit::TextBytes, len).map_err(|error| error.offset(at))?;
        let bytes = self.fields.bytes(len)?;
        String::from_utf8(bytes).map_err(|_| Error::corrupt("the text is not UTF-8").offset(at))
    }

    fn extension(&mut self, len: u64) -> Result<Value> {
        let at = self.fields.position();
        let kind = self.fields.parse(|input| field("extension", be::<u8>)(input))?;
        let start = self.fields.position();
        let end = start.checked_add(len).filter(|_| len <= self.fields.remaining());
        let end = end.ok_or_else(|| {
            Error::corrupt("the file is cut short")
                .offset(start)
                .found(ckpt_api::count(self.fields.remaining(), "byte"))
                .expected(ckpt_api::count(len, "byte"))
        })?;
        let value = match kind {
            1 | 3 => Value::Array(ArrayBytes::parse(&mut self.fields, end)?),
            2 => {
                self.fields.skip(len)?;
                Value::Other
            }
            other => {
                return Err(Error::corrupt("the extension is none of Flax's")
                    .offset(at)
                    .found(other.to_string())
                    .expected("1 (array), 2 (complex number) or 3 (scalar)"));
            }
        };
        match self.fields.position() == end {
            true => Ok(value),
            false => Err(Error::corrupt("an array has another length than its extension states").offset(at)),
        }
    }
}

fn owned<'a>((rest, text): (Bytes<'a>, &str)) -> (Bytes<'a>, String) {
    (rest, text.to_owned())
}
