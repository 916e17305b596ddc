//! Patterns: literals, typed captures and wildcards, and how they are written.

use super::quote;
use ckpt_api::{Error, Limit, Limits, Result, nearest};

/// The characters between the segments of source and target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Separators {
    pub(super) source: char,
    pub(super) target: char,
}

impl Default for Separators {
    fn default() -> Self {
        Separators { source: '/', target: '/' }
    }
}

/// A whole name's form: parts in order, no two literals side by side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) parts: Vec<Part>,
}

/// One part of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// Exactly this text.
    Literal(String),
    /// A named part of the name; in `to`, an int may be shifted.
    Capture { name: String, class: Class, shift: i64 },
    /// `*` or `**`.
    Wildcard(Class),
}

/// What text a capture or wildcard takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Int,
    /// So many digits, padded with zeros.
    Padded(u8),
    Word,
    Segment,
    Path,
    /// `*`
    Within,
    /// `**`
    Across,
}

const CLASSES: [(&str, Class); 12] = [
    ("int", Class::Int),
    ("int2", Class::Padded(2)),
    ("int3", Class::Padded(3)),
    ("int4", Class::Padded(4)),
    ("int5", Class::Padded(5)),
    ("int6", Class::Padded(6)),
    ("int7", Class::Padded(7)),
    ("int8", Class::Padded(8)),
    ("int9", Class::Padded(9)),
    ("word", Class::Word),
    ("segment", Class::Segment),
    ("path", Class::Path),
];

/// How a pattern writes a star that belongs to the name.
const STAR: &str = "{*}";

/// The largest number that `{n+…}` adds or `{n-…}` takes away.
const MAX_SHIFT: i64 = 1_000_000;

impl Pattern {
    /// Parses a rule's `from`.
    pub(super) fn source(text: &str, limits: &Limits) -> Result<Self> {
        let parts = parse(text, limits, no_wildcard)?;
        Ok(Pattern { parts })
    }

    /// Parses an `ignore` pattern.
    pub(super) fn ignored(text: &str, limits: &Limits) -> Result<Self> {
        let parts = parse(text, limits, |stars| match stars {
            1 => Ok(Part::Wildcard(Class::Within)),
            2 => Ok(Part::Wildcard(Class::Across)),
            _ => Err(Error::mapping("a wildcard has too many stars")
                .expected("'*' (within a segment) or '**' (across segments)")),
        })?;
        Ok(Pattern { parts })
    }

    /// Parses a rule's `to`; its captures have the types that `source` gives them, an int plain unless it says how
    /// many digits.
    pub(super) fn target(text: &str, source: &Pattern, limits: &Limits) -> Result<Self> {
        let parts = lex(text, limits)?.into_iter().map(|token| match token {
            Token::Literal(text) => Ok(Part::Literal(text)),
            Token::Stars(stars) => no_wildcard(stars),
            Token::Brace(inner) => used(&inner, source),
        });
        Ok(Pattern { parts: parts.collect::<Result<_>>()? })
    }

    /// A pattern that is this name and nothing else.
    pub(super) fn literal(name: &str) -> Self {
        Pattern { parts: vec![Part::Literal(name.to_owned())] }
    }

    /// The only name that it matches, if there is only one.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Literal(name)] => Some(name),
            _ => None,
        }
    }

    /// The named captures, in order.
    pub(super) fn captures(&self) -> impl Iterator<Item = (&str, Class)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Capture { name, class, .. } => Some((name.as_str(), *class)),
            _ => None,
        })
    }

    /// How far the capture is shifted; 0 where it does not appear.
    pub(super) fn shift_of(&self, capture: &str) -> i64 {
        let shift = self.parts.iter().find_map(|part| match part {
            Part::Capture { name, shift, .. } if name == capture => Some(*shift),
            _ => None,
        });
        shift.unwrap_or_default()
    }

    /// The same with every capture's shift as `shift` says.
    pub(super) fn shifted(&self, shift: impl Fn(&str) -> i64) -> Self {
        let mut pattern = self.clone();
        for part in &mut pattern.parts {
            if let Part::Capture { name, shift: own, .. } = part {
                *own = shift(name);
            }
        }
        pattern
    }

    pub(super) fn class_of(&self, name: &str) -> Option<Class> {
        self.captures().find(|(known, _)| *known == name).map(|(_, class)| class)
    }

    /// As a file writes it on the matching side, with types.
    pub(super) fn as_source(&self) -> String {
        self.print(|name, class, _| match class {
            Class::Segment => format!("{{{name}}}"),
            _ => format!("{{{name}:{}}}", class.name()),
        })
    }

    /// As a file writes it in `to`.
    pub(super) fn as_target(&self) -> String {
        self.print(|name, class, shift| {
            let shift = if shift == 0 { String::new() } else { format!("{shift:+}") };
            match class {
                Class::Padded(_) => format!("{{{name}{shift}:{}}}", class.name()),
                _ => format!("{{{name}{shift}}}"),
            }
        })
    }

    /// The pattern without its captures' names: two with one shape match the same names.
    pub(super) fn shape(&self) -> String {
        self.print(|_, class, _| format!("{{:{}}}", class.name()))
    }

    fn print(&self, capture: impl Fn(&str, Class, i64) -> String) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Literal(text) => text.replace('{', "{{").replace('}', "}}").replace('*', STAR),
            Part::Capture { name, class, shift } => capture(name, *class, *shift),
            Part::Wildcard(class) => class.name().to_owned(),
        });
        parts.collect()
    }
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Within => "*",
            Class::Across => "**",
            typed => CLASSES.iter().find(|(_, class)| *class == typed).map_or("", |(name, _)| *name),
        }
    }

    pub(super) fn is_number(self) -> bool {
        matches!(self, Class::Int | Class::Padded(_))
    }
}

/// Parses a pattern that matches: its captures carry their types.
fn parse(text: &str, limits: &Limits, wildcard: impl Fn(usize) -> Result<Part>) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for token in lex(text, limits)? {
        let part = match token {
            Token::Literal(text) => Part::Literal(text),
            Token::Stars(stars) => wildcard(stars)?,
            Token::Brace(inner) => capture(&inner)?,
        };
        if let Part::Capture { name, .. } = &part
            && parts.iter().any(|known| matches!(known, Part::Capture { name: known, .. } if known == name))
        {
            return Err(Error::mapping("a pattern has two captures of one name")
                .found(quote(name))
                .help("give each its own name"));
        }
        parts.push(part);
    }
    let captures = parts.iter().filter(|part| !matches!(part, Part::Literal(_))).count();
    limits.check(Limit::Captures, captures as u64)?;
    Ok(parts)
}

fn capture(inner: &str) -> Result<Part> {
    // Eight widths would hide what was probably meant.
    let is_plain = |(_, class): &&(&str, Class)| !matches!(class, Class::Padded(_));
    let (name, class) = inner.split_once(':').unwrap_or((inner, "segment"));
    if is_name(name.split(['+', '-']).next().unwrap_or_default()) && name.contains(['+', '-']) {
        return Err(Error::mapping("a capture is shifted where it is matched")
            .found(quote(&format!("{{{inner}}}")))
            .help("write the shift in 'to'"));
    }
    if !is_name(name) {
        return Err(Error::mapping("a capture has no proper name")
            .found(quote(&format!("{{{inner}}}")))
            .expected("letters, digits and '_', not beginning with a digit, such as {layer:int}"));
    }
    let class = CLASSES.iter().find(|(known, _)| *known == class).ok_or_else(|| {
        Error::mapping("a capture has an unknown type")
            .found(quote(&format!("{{{inner}}}")))
            .help(nearest(class, CLASSES.iter().filter(is_plain).map(|(name, _)| *name)) + ", int2 to int9")
    })?;
    Ok(Part::Capture { name: name.to_owned(), class: class.1, shift: 0 })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What stands between braces in `to`: `name`, `name+1`, `name:int3`, `name-1:int3`.
fn used(inner: &str, source: &Pattern) -> Result<Part> {
    let found = || quote(&format!("{{{inner}}}"));
    let (shifted, width) = inner.split_once(':').map_or((inner, None), |(name, width)| (name, Some(width)));
    let (name, by) = shifted.split_at(shifted.find(['+', '-']).unwrap_or(shifted.len()));
    let Some(class) = source.class_of(name) else {
        return Err(Error::mapping("'to' uses a capture that 'from' does not have")
            .found(found())
            .help(nearest(name, source.captures().map(|(name, _)| name))));
    };
    if !class.is_number() && (width.is_some() || !by.is_empty()) {
        return Err(Error::mapping("a capture that is no number is shifted or has a type in 'to'")
            .found(format!("{}, of type {}", found(), class.name()))
            .help(format!("types belong into 'from': write {{{name}:int}} there, or only {{{name}}} here")));
    }
    let class = match width.map(|width| CLASSES.iter().find(|(known, _)| *known == width)) {
        None if class.is_number() => Class::Int,
        None => class,
        Some(Some((_, class @ Class::Padded(_)))) => *class,
        Some(_) => {
            return Err(Error::mapping("a type stands in 'to'")
                .found(found())
                .help("types belong into 'from'; here only int2 to int9 say how many digits are written"));
        }
    };
    let digits = by.get(1..).unwrap_or_default();
    let shift = match by.is_empty() {
        true => Some(0),
        // `parse` takes another sign.
        false if digits.starts_with(|c: char| c.is_ascii_digit()) => by.parse().ok(),
        false => None,
    };
    match shift.filter(|shift: &i64| shift.abs() <= MAX_SHIFT) {
        Some(shift) => Ok(Part::Capture { name: name.to_owned(), class, shift }),
        None => Err(Error::mapping("a capture is shifted by what is no number")
            .found(found())
            .expected(format!("a number up to {MAX_SHIFT}, such as {{{name}+1}}"))),
    }
}

fn no_wildcard(_: usize) -> Result<Part> {
    Err(Error::mapping("'*' stands in a rule")
        .help("'*' is a wildcard of 'ignore' only; in a rule write a capture, such as {name} or {rest:path}, or {*} for a star of the name"))
}

enum Token {
    Literal(String),
    /// What stands between `{` and `}`.
    Brace(String),
    /// A run of so many `*`.
    Stars(usize),
}

/// Splits a pattern; literals are whole, so no two stand side by side.
fn lex(text: &str, limits: &Limits) -> Result<Vec<Token>> {
    if text.is_empty() {
        return Err(Error::mapping("a pattern is empty").help("write a name, such as \"dense/kernel\""));
    }
    let (mut tokens, mut literal) = (Vec::new(), String::new());
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let token = match c {
            '{' | '}' if chars.next_if(|(_, next)| *next == c).is_some() => {
                literal.push(c);
                continue;
            }
            '{' if text.get(at..).is_some_and(|rest| rest.starts_with(STAR)) => {
                chars.nth(STAR.len() - 2);
                literal.push('*');
                continue;
            }
            '{' => Token::Brace(
                brace(&mut chars.by_ref().map(|(_, c)| c))
                    .ok_or_else(|| unbalanced(text, "'{' without '}'"))?,
            ),
            '}' => return Err(unbalanced(text, "'}' without '{'")),
            '*' => {
                let mut stars = 1;
                while chars.next_if(|(_, next)| *next == '*').is_some() {
                    stars += 1;
                }
                Token::Stars(stars)
            }
            _ => {
                literal.push(c);
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
    // A name may be as long as names are; what costs is a long one with captures.
    match tokens.as_slice() {
        [Token::Literal(name)] => limits.check(Limit::NameBytes, name.len() as u64)?,
        _ => limits.check(Limit::PatternBytes, text.len() as u64)?,
    }
    Ok(tokens)
}

/// What stands before the closing brace, if there is one.
fn brace(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut inner = String::new();
    for c in chars {
        if c == '}' {
            return Some(inner);
        }
        inner.push(c);
    }
    None
}

fn unbalanced(text: &str, found: &str) -> Error {
    Error::mapping(format!("the braces of {} do not pair", quote(text)))
        .found(found)
        .help("a brace that belongs to the name is written twice: '{{' or '}}'")
}
