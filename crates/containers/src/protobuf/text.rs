//! The text form of protocol buffers: fields with words or messages, parsed without a schema.

use ckpt_api::{Error, Limit, Limits, Result};

/// A text: its messages, of which the first is the whole.
///
/// ```
/// use ckpt_api::Limits;
/// use ckpt_containers::protobuf::Text;
/// let text = Text::parse("layer { name: 'fc' dim: 3 dim: 4 } # the last", &Limits::default())?;
/// let layer = text.root().message("layer");
/// assert_eq!((layer.word("name"), layer.ints("dim")), (Some("fc"), Ok(vec![3, 4])));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Debug)]
pub struct Text {
    messages: Vec<Vec<Field>>,
}

#[derive(Debug)]
struct Field {
    name: String,
    value: Value,
}

#[derive(Debug)]
enum Value {
    /// A number, a name, or the text between quotes.
    Word(String),
    /// The number of a message.
    Message(usize),
}

/// A message of a text. Its methods return what a field of this name states; a message that is not there states nothing.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    text: &'a Text,
    /// `None` for a message that is not there: all its fields have their defaults.
    number: Option<usize>,
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(char),
}

impl Text {
    /// Parses a text.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] with the offset of what is wrong; [`ckpt_api::Kind::Limit`] for more than
    /// [`Limit::TextTokens`].
    pub fn parse(text: &str, limits: &Limits) -> Result<Text> {
        let mut tokens = Tokens { text, at: 0, count: 0, limits, waiting: None };
        let mut parsed = Text { messages: vec![Vec::new()] };
        // The messages that are open, from the whole on, and how each ends.
        let mut open: Vec<(usize, char)> = vec![(0, '\0')];
        while let Some((at, token)) = tokens.next()? {
            let Some((message, end)) = open.last().copied() else { break };
            match token {
                Token::Sign(sign) if sign == end => drop(open.pop()),
                Token::Sign(',' | ';') => {}
                Token::Word(name) => parsed.field(&mut tokens, message, &mut open, name)?,
                other => return Err(wrong(at, &other, "the name of a field")),
            }
        }
        match open.len() {
            1 => Ok(parsed),
            _ => Err(Error::corrupt("the text ends within a message")
                .offset(text.len() as u64)
                .found("its end")
                .expected("}")),
        }
    }

    /// Parses what comes behind the name of a field.
    fn field(
        &mut self,
        tokens: &mut Tokens<'_>,
        message: usize,
        open: &mut Vec<(usize, char)>,
        name: String,
    ) -> Result<()> {
        let mut value = tokens.required("a value")?;
        let has_colon = value.1 == Token::Sign(':');
        if has_colon {
            value = tokens.required("a value")?;
        }
        let is_list = has_colon && value.1 == Token::Sign('[');
        if is_list {
            value = tokens.required("a value")?;
        }
        loop {
            match value {
                (_, Token::Sign(']')) if is_list => return Ok(()),
                (_, Token::Sign(sign @ ('{' | '<'))) if !is_list => {
                    let number = self.messages.len();
                    self.messages.push(Vec::new());
                    self.add(message, name, Value::Message(number));
                    open.push((number, if sign == '{' { '}' } else { '>' }));
                    return Ok(());
                }
                (_, Token::Word(word)) if has_colon => self.add(message, name.clone(), Value::Word(word)),
                (_, Token::Quoted(mut word)) if has_colon => {
                    // Texts that follow each other are one.
                    while let Some(more) = tokens.quoted()? {
                        word.push_str(&more);
                    }
                    self.add(message, name.clone(), Value::Word(word));
                }
                (_, Token::Sign(',')) if is_list => {}
                (at, other) => return Err(wrong(at, &other, "a value")),
            }
            if !is_list {
                return Ok(());
            }
            value = tokens.required("]")?;
        }
    }

    fn add(&mut self, message: usize, name: String, value: Value) {
        if let Some(fields) = self.messages.get_mut(message) {
            fields.push(Field { name, value });
        }
    }

    /// The whole.
    pub fn root(&self) -> Message<'_> {
        Message { text: self, number: Some(0) }
    }
}

impl<'a> Message<'a> {
    fn fields(self, name: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
        let fields = self.number.and_then(|number| self.text.messages.get(number));
        let named = fields.into_iter().flatten().filter(move |field| field.name == name);
        named.map(|field| &field.value)
    }

    /// The messages of a field.
    pub fn messages(self, name: &str) -> impl DoubleEndedIterator<Item = Message<'a>> {
        self.fields(name).filter_map(move |value| match value {
            Value::Message(number) => Some(Message { text: self.text, number: Some(*number) }),
            Value::Word(_) => None,
        })
    }

    /// The last message of a field, or an empty one.
    pub fn message(self, name: &str) -> Message<'a> {
        self.messages(name).next_back().unwrap_or(Message { text: self.text, number: None })
    }

    /// The words of a field.
    pub fn words(self, name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.fields(name).filter_map(|value| match value {
            Value::Word(word) => Some(word.as_str()),
            Value::Message(_) => None,
        })
    }

    /// The last word of a field.
    pub fn word(self, name: &str) -> Option<&'a str> {
        self.words(name).next_back()
    }

    /// The integers of a field.
    ///
    /// # Errors
    /// If it is none, as a clause about what states the field.
    pub fn ints(self, name: &str) -> std::result::Result<Vec<i64>, String> {
        self.words(name).map(|word| word.parse().map_err(|_| invalid(name, word))).collect()
    }

    /// The last integer of a field.
    ///
    /// # Errors
    /// If it is none, as a clause about what states the field.
    pub fn int(self, name: &str, default: i64) -> std::result::Result<i64, String> {
        self.word(name).map_or(Ok(default), |word| word.parse().map_err(|_| invalid(name, word)))
    }

    /// The last number of a field.
    ///
    /// # Errors
    /// If it is none, as a clause about what states the field.
    pub fn float(self, name: &str, default: f64) -> std::result::Result<f64, String> {
        let number = |word: &str| {
            let digits = word.strip_suffix(['f', 'F']).unwrap_or(word);
            digits.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| invalid(name, word))
        };
        self.word(name).map_or(Ok(default), number)
    }

    /// The last truth value of a field.
    ///
    /// # Errors
    /// If it is none, as a clause about what states the field.
    pub fn flag(self, name: &str, default: bool) -> std::result::Result<bool, String> {
        match self.word(name) {
            None => Ok(default),
            Some("true" | "True" | "t" | "1") => Ok(true),
            Some("false" | "False" | "f" | "0") => Ok(false),
            Some(word) => Err(invalid(name, word)),
        }
    }
}

fn invalid(name: &str, word: &str) -> String {
    let shown: String = word.chars().take(60).collect();
    format!("has {name}: {}, which is not valid", shown.escape_debug())
}

fn wrong(at: usize, found: &Token, expected: &'static str) -> Error {
    let shown: String = match found {
        Token::Word(word) | Token::Quoted(word) => word.chars().take(60).collect(),
        Token::Sign(sign) => sign.to_string(),
    };
    let error = Error::corrupt("the text is none of protocol buffers").offset(at as u64);
    error.found(format!("'{}'", shown.escape_debug())).expected(expected)
}

/// Cuts a text into tokens.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    count: u64,
    limits: &'a Limits,
    /// A token that was looked at.
    waiting: Option<(usize, Token)>,
}

impl Tokens<'_> {
    fn required(&mut self, expected: &'static str) -> Result<(usize, Token)> {
        self.next()?.ok_or_else(|| {
            let error = Error::corrupt("the text ends within a field").offset(self.text.len() as u64);
            error.found("its end").expected(expected)
        })
    }

    /// The next token, if it is a text between quotes.
    fn quoted(&mut self) -> Result<Option<String>> {
        match self.next()? {
            Some((_, Token::Quoted(word))) => Ok(Some(word)),
            other => {
                self.waiting = other;
                Ok(None)
            }
        }
    }

    /// The next token and its offset.
    fn next(&mut self) -> Result<Option<(usize, Token)>> {
        if let Some(token) = self.waiting.take() {
            return Ok(Some(token));
        }
        self.skip();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        self.count = self.count.saturating_add(1);
        self.limits.check(Limit::TextTokens, self.count)?;
        let at = self.at;
        let is_word = |character: char| character.is_ascii_alphanumeric() || "_.+-".contains(character);
        if is_word(first) {
            let len = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
            self.at = at.saturating_add(len);
            return Ok(Some((at, Token::Word(rest.get(..len).unwrap_or_default().to_owned()))));
        }
        self.at = at.saturating_add(first.len_utf8());
        match first {
            '"' | '\'' => self.string(first).map(|text| Some((at, Token::Quoted(text)))),
            ':' | '{' | '}' | '<' | '>' | '[' | ']' | ',' | ';' => Ok(Some((at, Token::Sign(first)))),
            other => Err(wrong(at, &Token::Sign(other), "a field")),
        }
    }

    /// Moves past spaces and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let trimmed = rest.trim_start_matches(|character: char| character.is_ascii_whitespace());
            let len = match trimmed.strip_prefix('#') {
                Some(comment) => {
                    trimmed.len().min(comment.find('\n').unwrap_or(comment.len()).saturating_add(1))
                }
                None => 0,
            };
            self.at = self.text.len().saturating_sub(trimmed.len()).saturating_add(len);
            if len == 0 {
                return;
            }
        }
    }

    /// The text up to the quote that ends it.
    fn string(&mut self, quote: char) -> Result<String> {
        let start = self.at;
        let mut text = String::new();
        let mut rest = self.text.get(start..).unwrap_or_default().char_indices();
        while let Some((offset, character)) = rest.next() {
            match character {
                '\n' => break,
                '\\' => match rest.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, own @ ('\\' | '"' | '\'' | '/'))) => text.push(own),
                    _ => break,
                },
                own if own == quote => {
                    self.at = start.saturating_add(offset).saturating_add(own.len_utf8());
                    return Ok(text);
                }
                own => text.push(own),
            }
        }
        let error = Error::corrupt("a text between quotes does not end").offset(start as u64);
        Err(error.found("the end of its line, or an escape").expected(quote.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Text> {
        Text::parse(text, &Limits::default())
    }

    #[test]
    fn fields_have_words_or_messages() {
        let text = "# a net\nname: \"a\\\"b\" 'c'  a: [1, -2,3]; m { x: 1e-3f y: true } m < x: 2 > m: { }";
        let text = parse(text).unwrap();
        let root = text.root();
        assert_eq!(root.word("name"), Some("a\"bc"));
        assert_eq!(root.ints("a").unwrap(), [1, -2, 3]);
        assert_eq!(root.messages("m").count(), 3);
        let first = root.messages("m").next().unwrap();
        assert_eq!((first.float("x", 0.0), first.flag("y", false)), (Ok(1e-3), Ok(true)));
        assert_eq!(root.message("none").int("x", 7), Ok(7));
    }

    #[test]
    fn a_text_that_is_none_is_refused_where_it_is() {
        for (text, at) in [
            ("a", 1),
            ("a:", 2),
            ("a { b: 1", 8),
            ("a: 1 }", 5),
            ("a: \"b", 4),
            ("a 1", 2),
            ("a: @", 3),
            ("a: [1 {", 6),
        ] {
            assert_eq!(parse(text).err().unwrap().context().offset, Some(at), "{text}");
        }
    }

    #[test]
    fn messages_within_messages_need_no_stack() {
        let text = parse(&"a {".repeat(100_000)).err().unwrap();
        assert_eq!(text.kind(), ckpt_api::Kind::Corrupt);
        parse(&["a {".repeat(100_000), "}".repeat(100_000)].concat()).unwrap();
    }
}
