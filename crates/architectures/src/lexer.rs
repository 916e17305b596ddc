//! The tokens of an expression.

use super::value::Value;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Value(Value),
    Text(String),
    Name(String),
    /// A name, and the parenthesis behind it.
    Function(String),
    Sign(Sign),
    Open,
    Close,
    Comma,
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Or,
    And,
    Not,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    /// Of real numbers.
    Divide,
    /// Of integers, without remainder.
    Quotient,
    Remainder,
}

const SIGNS: &[(&str, Sign)] = &[
    ("==", Sign::Equal),
    ("!=", Sign::Unequal),
    ("<=", Sign::LessOrEqual),
    (">=", Sign::GreaterOrEqual),
    ("//", Sign::Quotient),
    ("<", Sign::Less),
    (">", Sign::Greater),
    ("+", Sign::Add),
    ("-", Sign::Subtract),
    ("*", Sign::Multiply),
    ("/", Sign::Divide),
    ("%", Sign::Remainder),
];

impl Sign {
    /// How strongly it binds its operands, from 1.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Sign::Or => 1,
            Sign::And => 2,
            Sign::Not => 3,
            Sign::Equal
            | Sign::Unequal
            | Sign::Less
            | Sign::LessOrEqual
            | Sign::Greater
            | Sign::GreaterOrEqual => 4,
            Sign::Add | Sign::Subtract => 5,
            Sign::Multiply | Sign::Divide | Sign::Quotient | Sign::Remainder => 6,
        }
    }

    /// As [`Sign::precedence`], of the operator before its one operand.
    pub(super) fn unary_precedence(self) -> u8 {
        if self == Sign::Not { 3 } else { 7 }
    }
}

/// Splits an expression.
///
/// # Errors
/// What is wrong, as a clause.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let (mut found, mut rest) = (Vec::new(), source.trim_start());
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '(' => (Token::Open, &rest[1..]),
            ')' => (Token::Close, &rest[1..]),
            ',' => (Token::Comma, &rest[1..]),
            '\'' => {
                let (text, after) = rest[1..].split_once('\'').ok_or("has a text that does not end")?;
                (Token::Text(text.to_owned()), after)
            }
            first if first.is_ascii_digit() => number(rest)?,
            first if is_letter(first) => word(rest),
            _ => {
                let sign = SIGNS.iter().find_map(|(text, sign)| Some((*sign, rest.strip_prefix(text)?)));
                let (sign, after) =
                    sign.ok_or_else(|| format!("has the unknown sign '{}'", first.escape_debug()))?;
                (Token::Sign(sign), after)
            }
        };
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

fn word(rest: &str) -> (Token, &str) {
    let end = rest.find(|letter: char| !is_letter(letter) && !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    let token = match word {
        "true" => Token::Value(Value::Bool(true)),
        "false" => Token::Value(Value::Bool(false)),
        "and" => Token::Sign(Sign::And),
        "or" => Token::Sign(Sign::Or),
        "not" => Token::Sign(Sign::Not),
        name => match after.strip_prefix('(') {
            Some(after) => return (Token::Function(name.to_owned()), after),
            None => Token::Name(name.to_owned()),
        },
    };
    (token, after)
}

fn number(rest: &str) -> Result<(Token, &str), String> {
    let is_part = |at: usize, letter: char| {
        let after_exponent = at > 0 && matches!(rest.as_bytes().get(at - 1), Some(b'e'));
        letter.is_ascii_digit() || letter == '.' || letter == 'e' || (letter == '-' && after_exponent)
    };
    let end =
        rest.char_indices().find(|(at, letter)| !is_part(*at, *letter)).map_or(rest.len(), |(at, _)| at);
    let (number, after) = rest.split_at(end);
    match Value::parse(number) {
        Value::Text(_) => Err(format!("has the unknown number '{number}'")),
        value => Ok((Token::Value(value), after)),
    }
}
