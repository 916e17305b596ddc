//! Patterns of names, without captures: `*`, `**` and `?` as everywhere in the program.

use ckpt_api::{Error, Result};

/// A pattern, which matches a whole name.
#[derive(Debug)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// One character of a segment.
    One,
    /// Any text within a segment.
    Segment,
    /// Any text.
    All,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for an empty pattern, and for braces that enclose neither `*` nor `?`: captures have no use
    /// here.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            let (token, len) = match first {
                '*' if rest.starts_with("**") => (Token::All, 2),
                '*' => (Token::Segment, 1),
                '?' => (Token::One, 1),
                '{' | '}' => escaped(rest).ok_or_else(|| {
                    Error::usage("the pattern has a brace that escapes nothing")
                        .found(format!("'{text}'"))
                        .expected("{*}, {?}, {{ or }}: captures have no use here")
                })?,
                other => (Token::Char(other), other.len_utf8()),
            };
            tokens.push(token);
            rest = rest.get(len..).unwrap_or_default();
        }
        if tokens.is_empty() {
            return Err(Error::usage("the pattern is empty").help("** matches every name"));
        }
        Ok(Pattern { tokens })
    }

    /// Whether the pattern matches the whole name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        // What the tokens so far match of the name so far: one row for each character.
        let mut matched = vec![false; self.tokens.len() + 1];
        matched[0] = true;
        self.skip_empty(&mut matched);
        for own in name.chars() {
            let mut next = vec![false; matched.len()];
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| matched[*at]) {
                match token {
                    Token::Char(expected) => next[at + 1] |= *expected == own,
                    Token::One => next[at + 1] |= own != SEPARATOR,
                    Token::Segment => next[at] |= own != SEPARATOR,
                    Token::All => next[at] = true,
                }
            }
            self.skip_empty(&mut next);
            matched = next;
        }
        matched[self.tokens.len()]
    }

    /// Lets tokens that may match nothing do so.
    fn skip_empty(&self, matched: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            if matched[at] && matches!(token, Token::Segment | Token::All) {
                matched[at + 1] = true;
            }
        }
    }
}

/// What divides a name into segments.
const SEPARATOR: char = '/';

/// Returns the character that an escape at the beginning stands for, and the length of the escape.
fn escaped(text: &str) -> Option<(Token, usize)> {
    let escapes = [("{*}", '*'), ("{?}", '?'), ("{{", '{'), ("}}", '}')];
    let (escape, own) = escapes.into_iter().find(|(escape, _)| text.starts_with(escape))?;
    Some((Token::Char(own), escape.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_within_a_segment_or_across() {
        for (pattern, name, expected) in [
            ("blk.*.attn_v.weight", "blk.17.attn_v.weight", true),
            ("blk.*.attn_v.weight", "blk.17.attn_v.bias", false),
            ("blk.?.ffn_down.weight", "blk.7.ffn_down.weight", true),
            ("blk.?.ffn_down.weight", "blk.17.ffn_down.weight", false),
            ("**", "a/b", true),
            ("*", "a/b", false),
            ("a/**", "a/b/c", true),
            ("**/c", "a/b/c", true),
            ("*a*b", "aab", true),
            ("*a*b", "ba", false),
            ("output.weight", "output.weight", true),
            ("output.weight", "blk.output.weight", false),
            ("{*}{{}}", "*{}", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn captures_and_empty_patterns_are_refused() {
        for pattern in ["", "{x}", "a}", "a{"] {
            assert_eq!(Pattern::parse(pattern).unwrap_err().kind(), ckpt_api::Kind::Usage, "{pattern}");
        }
    }
}
