//! Parses patterns.

use super::parts::{Class, ESCAPES, Part, Pattern, TYPES};
use crate::words::quote;
use ckpt_api::{Error, Limit, Limits, Result, nearest};

/// The largest number that `{n+…}` adds or `{n-…}` subtracts.
const MAX_SHIFT: i64 = 1_000_000;

impl Pattern {
    /// Parses a pattern that selects names: literal text, wildcards and captures.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for a malformed pattern, [`ckpt_api::Kind::Limit`] for one that is too long.
    pub fn selecting(text: &str, limits: &Limits) -> Result<Self> {
        Ok(Pattern { parts: matching(text, limits, Wildcards::Allowed)? })
    }

    /// Parses the `from` of a rule: literal text and captures. A `?` is literal text.
    ///
    /// # Errors
    /// As [`Pattern::selecting`].
    pub(crate) fn source(text: &str, limits: &Limits) -> Result<Self> {
        Ok(Pattern { parts: matching(text, limits, Wildcards::Refused)? })
    }

    /// Parses the `to` of a rule. Its captures have the types that `source` gives them; an int is written plainly
    /// unless `to` states a number of digits.
    ///
    /// # Errors
    /// As [`Pattern::selecting`].
    pub(crate) fn target(text: &str, source: &Pattern, limits: &Limits) -> Result<Self> {
        let parts = lex(text, limits, Wildcards::Refused)?.into_iter().map(|token| match token {
            Token::Literal(text) => Ok(Part::Literal(text)),
            Token::Wildcard(class) => Ok(Part::Wildcard(class)),
            Token::Brace(inner) => reference(&inner, source),
        });
        Ok(Pattern { parts: parts.collect::<Result<_>>()? })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    Allowed,
    Refused,
}

/// Parses a pattern that matches, whose captures carry their types.
fn matching(text: &str, limits: &Limits, wildcards: Wildcards) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for token in lex(text, limits, wildcards)? {
        let part = match token {
            Token::Literal(text) => Part::Literal(text),
            Token::Wildcard(class) => Part::Wildcard(class),
            Token::Brace(inner) => capture(&inner)?,
        };
        if let Part::Capture { name, .. } = &part
            && parts.iter().any(|known| matches!(known, Part::Capture { name: known, .. } if known == name))
        {
            return Err(Error::mapping("a pattern has two captures with the same name")
                .found(quote(name))
                .help("name each capture differently"));
        }
        parts.push(part);
    }
    let captures = parts.iter().filter(|part| !matches!(part, Part::Literal(_))).count();
    limits.check(Limit::Captures, captures as u64)?;
    Ok(parts)
}

/// Parses the inside of braces where a pattern matches: `name`, `name:type`.
fn capture(inner: &str) -> Result<Part> {
    let found = || quote(&format!("{{{inner}}}"));
    let (name, class) = inner.split_once(':').unwrap_or((inner, "segment"));
    if is_name(name.split(['+', '-']).next().unwrap_or_default()) && name.contains(['+', '-']) {
        return Err(Error::mapping("'from' shifts a capture").found(found()).help("write the shift in 'to'"));
    }
    if !is_name(name) {
        let error = Error::mapping("a capture needs a name")
            .found(found())
            .expected("letters, digits and '_', not beginning with a digit, such as {layer:int}");
        return Err(match inner.contains(',') {
            true => error.help("alternatives in braces are not supported: write a pattern for each"),
            false => error,
        });
    }
    let class = TYPES.iter().find(|(known, _)| *known == class).ok_or_else(|| {
        // Listing int2 to int9 one by one would bury the name that was meant.
        let is_plain = |(_, class): &&(&str, Class)| !matches!(class, Class::Padded(_));
        Error::mapping("a capture has an unknown type")
            .found(found())
            .help(nearest(class, TYPES.iter().filter(is_plain).map(|(name, _)| *name)) + ", int2 to int9")
    })?;
    Ok(Part::Capture { name: name.to_owned(), class: class.1, shift: 0 })
}

/// Returns whether a capture can have this name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses the inside of braces in `to`: `name`, `name+1`, `name:int3`, `name-1:int3`.
fn reference(inner: &str, source: &Pattern) -> Result<Part> {
    let found = || quote(&format!("{{{inner}}}"));
    let (shifted, width) = inner.split_once(':').map_or((inner, None), |(name, width)| (name, Some(width)));
    let (name, shift) = shifted.split_at(shifted.find(['+', '-']).unwrap_or(shifted.len()));
    let Some(class) = source.class_of(name) else {
        return Err(Error::mapping("'to' uses a capture that 'from' does not have")
            .found(found())
            .help(nearest(name, source.captures().map(|(name, _)| name))));
    };
    if !class.is_number() && (width.is_some() || !shift.is_empty()) {
        return Err(Error::mapping("'to' shifts or types a capture that is not a number")
            .found(format!("{}, of type {}", found(), class.name()))
            .help(format!("types belong in 'from': write {{{name}:int}} there, or only {{{name}}} here")));
    }
    let class = match width.map(|width| TYPES.iter().find(|(known, _)| *known == width)) {
        None if class.is_number() => Class::Int,
        None => class,
        Some(Some((_, class @ Class::Padded(_)))) => *class,
        Some(_) => {
            return Err(Error::mapping("'to' gives a capture a type").found(found()).help(
                "types belong in 'from'; 'to' only takes int2 to int9, the number of digits to write",
            ));
        }
    };
    match parse_shift(shift) {
        Some(shift) => Ok(Part::Capture { name: name.to_owned(), class, shift }),
        None => Err(Error::mapping("a shift is not a number, or too large")
            .found(found())
            .expected(format!("a number up to {MAX_SHIFT}, such as {{{name}+1}}"))),
    }
}

/// Parses ``, `+1` or `-1`.
fn parse_shift(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    // `parse` accepts a second sign.
    let digits = text.get(1..)?;
    let shift = digits.starts_with(|c: char| c.is_ascii_digit()).then(|| text.parse().ok())??;
    Some(shift).filter(|shift: &i64| shift.unsigned_abs() <= MAX_SHIFT.unsigned_abs())
}

enum Token {
    Literal(String),
    /// The text between `{` and `}`.
    Brace(String),
    Wildcard(Class),
}

/// Splits a pattern into tokens; no two literals stand side by side.
fn lex(text: &str, limits: &Limits, wildcards: Wildcards) -> Result<Vec<Token>> {
    if text.is_empty() {
        return Err(Error::mapping("a pattern is empty").help("write a name, such as \"dense/kernel\""));
    }
    let (mut tokens, mut literal) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((special, after)) = escaped(rest) {
            literal.push(special);
            rest = after;
            continue;
        }
        let after = rest.strip_prefix(c).unwrap_or_default();
        let token = match c {
            '{' => {
                let (inner, after) =
                    after.split_once('}').ok_or_else(|| unbalanced(text, "'{' without '}'"))?;
                rest = after;
                Token::Brace(inner.to_owned())
            }
            '}' => return Err(unbalanced(text, "'}' without '{'")),
            '*' => {
                rest = after.trim_start_matches('*');
                Token::Wildcard(star(after.len() - rest.len() + 1, wildcards)?)
            }
            '?' if wildcards == Wildcards::Allowed => {
                rest = after;
                Token::Wildcard(Class::QuestionMark)
            }
            _ => {
                literal.push(c);
                rest = after;
                continue;
            }
        };
        if !literal.is_empty() {
            tokens.push(Token::Literal(std::mem::take(&mut literal)));
        }
        tokens.push(token);
    }
    if !literal.is_empty() {
        tokens.push(Token::Literal(literal));
    }
    // A literal name may have the length of a name; only captures and wildcards cost time.
    match tokens.as_slice() {
        [Token::Literal(name)] => limits.check(Limit::NameBytes, name.len() as u64)?,
        _ => limits.check(Limit::PatternBytes, text.len() as u64)?,
    }
    Ok(tokens)
}

/// Reads an escaped character, such as `{*}`; returns it with the text after it.
fn escaped(text: &str) -> Option<(char, &str)> {
    ESCAPES.iter().find_map(|(special, written)| Some((*special, text.strip_prefix(written)?)))
}

/// Returns the wildcard of a run of stars.
fn star(count: usize, wildcards: Wildcards) -> Result<Class> {
    match (wildcards, count) {
        (Wildcards::Refused, _) => Err(Error::mapping("a rule contains '*'").help(
            "only patterns that select names have wildcards, such as those of 'ignore': here, write a capture, such \
             as {name} or {rest:path}, or {*} for a star in the name",
        )),
        (Wildcards::Allowed, 1) => Ok(Class::Star),
        (Wildcards::Allowed, 2) => Ok(Class::DoubleStar),
        (Wildcards::Allowed, _) => Err(Error::mapping("a wildcard has too many stars")
            .expected("'*' (within a segment) or '**' (across segments)")),
    }
}

fn unbalanced(text: &str, found: &str) -> Error {
    Error::mapping(format!("unbalanced braces in {}", quote(text)))
        .found(found)
        .help("write a brace that belongs to the name twice: '{{' or '}}'")
}
