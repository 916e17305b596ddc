//! Expressions of templates: `dim('{prefix}wte.weight', 1) // heads`.
//!
//! An expression is parsed once, into reverse Polish notation, by precedence and without recursion.

use super::functions::Function;
use super::lexer::{Sign, Token, tokens};
use super::value::Value;
use serde::Deserialize;

/// Most bytes of one expression.
const MAX_BYTES: usize = 2048;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Expression {
    source: String,
    items: Vec<Item>,
}

/// An item of reverse Polish notation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Value(Value),
    Text(Text),
    Variable(String),
    Unary(Sign),
    Binary(Sign),
    Call(Function),
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// What is wrong, as a clause.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        Self::parse_with(source, true)
    }

    /// Parses an expression without texts.
    pub(super) fn parse_plain(source: &str) -> Result<Self, String> {
        Self::parse_with(source, false)
    }

    fn parse_with(source: &str, may_have_texts: bool) -> Result<Self, String> {
        let wrong = |what: &str| format!("the expression '{}' {what}", source.escape_debug());
        if source.len() > MAX_BYTES {
            return Err(format!("an expression has {} bytes, and may have {MAX_BYTES}", source.len()));
        }
        let mut parser = Parser::default();
        for token in tokens(source).map_err(|what| wrong(&what))? {
            if !may_have_texts && matches!(token, Token::Text(_)) {
                return Err(wrong("has a text where only numbers and names may stand"));
            }
            parser.add(token).map_err(|what| wrong(&what))?;
        }
        let items = parser.finish().map_err(|what| wrong(&what))?;
        Ok(Expression { source: source.to_owned(), items })
    }

    /// The expression as it is written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }
}

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        Expression::parse(&source)
    }
}

/// The shunting-yard algorithm.
#[derive(Default)]
struct Parser {
    items: Vec<Item>,
    waiting: Vec<Waiting>,
    /// Whether the last token ends an operand.
    after_operand: bool,
}

/// What waits for its operands.
enum Waiting {
    Unary(Sign),
    Binary(Sign),
    Open,
    /// A function, and the number of its arguments so far.
    Call(Function, usize),
}

impl Parser {
    fn add(&mut self, token: Token) -> Result<(), String> {
        if self.after_operand { self.after_operand(token) } else { self.before_operand(token) }
    }

    fn before_operand(&mut self, token: Token) -> Result<(), String> {
        match token {
            Token::Value(value) => self.operand(Item::Value(value)),
            Token::Text(text) => self.operand(Item::Text(Text::parse(&text)?)),
            Token::Name(name) => self.operand(Item::Variable(name)),
            Token::Function(name) => {
                let function = Function::from_name(&name).ok_or_else(|| {
                    format!("calls '{name}'; {}", ckpt_api::nearest(&name, Function::names()))
                })?;
                self.waiting.push(Waiting::Call(function, 1));
            }
            Token::Open => self.waiting.push(Waiting::Open),
            Token::Sign(sign @ (Sign::Subtract | Sign::Not)) => self.waiting.push(Waiting::Unary(sign)),
            Token::Sign(_) | Token::Close | Token::Comma => return Err("lacks an operand".to_owned()),
        }
        Ok(())
    }

    fn after_operand(&mut self, token: Token) -> Result<(), String> {
        match token {
            Token::Sign(sign) if sign != Sign::Not => {
                self.apply_from(sign.precedence());
                self.waiting.push(Waiting::Binary(sign));
                self.after_operand = false;
            }
            Token::Comma => {
                self.apply_from(0);
                match self.waiting.last_mut() {
                    Some(Waiting::Call(_, arguments)) => *arguments += 1,
                    _ => return Err("has a comma outside of a call".to_owned()),
                }
                self.after_operand = false;
            }
            Token::Close => {
                self.apply_from(0);
                match self.waiting.pop() {
                    Some(Waiting::Open) => {}
                    Some(Waiting::Call(function, arguments)) => {
                        if arguments != function.arity() {
                            return Err(format!(
                                "gives '{}' {arguments} arguments; it takes {}",
                                function.name(),
                                function.arity()
                            ));
                        }
                        self.items.push(Item::Call(function));
                    }
                    _ => return Err("closes a parenthesis that is not open".to_owned()),
                }
            }
            _ => return Err("lacks an operator".to_owned()),
        }
        Ok(())
    }

    fn operand(&mut self, item: Item) {
        self.items.push(item);
        self.after_operand = true;
    }

    /// Applies the operators that wait and bind at least as strongly as `precedence`.
    fn apply_from(&mut self, precedence: u8) {
        while let Some(waiting) = self.waiting.pop() {
            match waiting {
                Waiting::Unary(sign) if sign.unary_precedence() >= precedence => {
                    self.items.push(Item::Unary(sign));
                }
                Waiting::Binary(sign) if sign.precedence() >= precedence => {
                    self.items.push(Item::Binary(sign));
                }
                other => {
                    self.waiting.push(other);
                    return;
                }
            }
        }
    }

    fn finish(mut self) -> Result<Vec<Item>, String> {
        if !self.after_operand {
            return Err("lacks an operand".to_owned());
        }
        self.apply_from(0);
        if self.waiting.is_empty() { Ok(self.items) } else { Err("lacks a closing parenthesis".to_owned()) }
    }
}

/// A parsed text. `{}` stands for itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Text(Vec<Piece>);

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Literal(String),
    Expression(Expression),
}

impl Text {
    /// Parses a text.
    ///
    /// # Errors
    /// What is wrong, as a clause.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), source);
        while let Some((before, after)) = rest.split_once('{') {
            literal.push_str(before);
            let unclosed = || format!("the text '{}' has a brace that is not closed", source.escape_debug());
            let (inner, after) = after.split_once('}').ok_or_else(unclosed)?;
            if inner.is_empty() {
                literal.push_str("{}");
            } else {
                pieces.extend(
                    Some(std::mem::take(&mut literal)).filter(|text| !text.is_empty()).map(Piece::Literal),
                );
                pieces.push(Piece::Expression(Expression::parse_plain(inner)?));
            }
            rest = after;
        }
        literal.push_str(rest);
        pieces.extend(Some(literal).filter(|text| !text.is_empty()).map(Piece::Literal));
        Ok(Text(pieces))
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        Text::parse(&source)
    }
}
