//! Texts with expressions in braces: `h.{layer}.ln_1.weight`.

use super::expression::Expression;
use serde::Deserialize;

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
