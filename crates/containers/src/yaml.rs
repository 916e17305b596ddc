//! YAML as a tree that knows where its values are, without tags and anchors.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use std::fmt;

/// How deep lists and mappings may nest.
const DEEPEST: usize = 64;

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The line, from 1 on.
    pub line: usize,
    /// The column in characters, from 1 on.
    pub column: usize,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// A text without quotes, which may stand for something else, such as a number.
    Plain(String),
    /// A text in quotes or in lines of its own.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in the order of the text.
    Mapping(Vec<(Node, Node)>),
    /// The name of a value elsewhere, which is not followed.
    Alias,
}

/// Why a text is no YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong, and where.
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Node {
    /// Its text; `None` for a list, a mapping, and what is not there.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Plain(text) | Value::Text(text) => Some(text),
            Value::Null | Value::List(_) | Value::Mapping(_) | Value::Alias => None,
        }
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        format!("line {}, column {}", self.line, self.column)
    }
}

/// Reads the first document of a text; `None` if there is none.
///
/// # Errors
/// [`Malformed`] for what is no YAML, and for lists that nest too deeply.
///
/// ```
/// use ckpt_containers::yaml::{Value, parse};
/// let document = parse("models:\n- a\n")?.expect("it is not empty");
/// let Value::Mapping(entries) = &document.value else { panic!("it is a mapping") };
/// assert_eq!((entries[0].0.text(), entries[0].1.line), (Some("models"), 2));
/// # Ok::<(), ckpt_containers::yaml::Malformed>(())
/// ```
pub fn parse(text: &str) -> Result<Option<Node>, Malformed> {
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Malformed { reason: error.to_string() })?;
        let node = |value| Node { value, line: span.start.line(), column: span.start.col() + 1 };
        let closed = match event {
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == DEEPEST => {
                let reason = format!("lists in lists, more than {DEEPEST} deep");
                return Err(Malformed { reason });
            }
            Event::SequenceStart(..) => {
                open.push(Open::new(span, false));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::new(span, true));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(open) => open.close(),
                None => continue,
            },
            Event::Scalar(text, style, ..) => node(scalar(&text, style)),
            Event::Alias(_) => node(Value::Alias),
            _ => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.add(closed),
            None => return Ok(Some(closed)),
        }
    }
    Ok(None)
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        (ScalarStyle::Plain, _) => Value::Plain(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

/// A list or a mapping whose end was not read yet.
struct Open {
    start: Span,
    items: Vec<Node>,
    /// If it is a mapping, whose keys are among the items: the values come after them.
    is_mapping: bool,
}

impl Open {
    fn new(start: Span, is_mapping: bool) -> Self {
        Open { start, items: Vec::new(), is_mapping }
    }

    fn add(&mut self, node: Node) {
        self.items.push(node);
    }

    fn close(self) -> Node {
        let value = match self.is_mapping {
            false => Value::List(self.items),
            true => {
                let (mut items, mut entries) = (self.items.into_iter(), Vec::new());
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    entries.push((key, value));
                }
                Value::Mapping(entries)
            }
        };
        Node { value, line: self.start.start.line(), column: self.start.start.col() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What YAML gives a meaning to, and some letters.
    const PIECES: [&str; 24] = [
        "a", "-", "- ", ":", ": ", "?", "[", "]", "{", "}", ",", "\n", "  ", "#", "&", "*", "!", "|", ">",
        "'", "\"", "%", "é", "\\",
    ];

    proptest! {
        #[test]
        fn text_of_any_kind_never_panics(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60)) {
            let _ = parse(&pieces.concat());
        }
    }

    #[test]
    fn values_know_their_places() {
        let document = parse("a: [1, 'x']\nb:\n  - c: ~\n").unwrap().unwrap();
        let Value::Mapping(entries) = document.value else { panic!("{document:?}") };
        let Value::List(items) = &entries[0].1.value else { panic!("{entries:?}") };
        assert_eq!(items[0].value, Value::Plain("1".to_owned()));
        assert_eq!(
            (items[1].value.clone(), items[1].place()),
            (Value::Text("x".to_owned()), "line 1, column 8".to_owned())
        );
        let Value::List(items) = &entries[1].1.value else { panic!("{entries:?}") };
        let Value::Mapping(inner) = &items[0].value else { panic!("{items:?}") };
        assert_eq!((inner[0].0.place(), &inner[0].1.value), ("line 3, column 5".to_owned(), &Value::Null));
    }

    #[test]
    fn what_is_no_yaml_or_too_deep_is_an_error_and_nothing_is_no_document() {
        assert_eq!(parse("# a comment\n"), Ok(None));
        assert!(parse("a: [b\n").is_err());
        assert!(parse(&"[".repeat(200)).unwrap_err().reason.contains("deep"));
        assert!(parse(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_ok());
    }
}
