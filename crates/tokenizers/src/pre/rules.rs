//! The rules of `tokenizer.json`, in a form in which equal rules are equal.

use crate::files::{Pattern, PreTokenizer, TokenizerJson};
use ckpt_api::{Error, Result};
use std::fmt;

/// The regular expression of the rule `ByteLevel`.
pub(super) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Endings of English words, in any case.
const CONTRACTIONS: &str = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";

/// A rule that splits words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each match of a regular expression is a word, and so is what is between two matches.
    Isolate(String),
    /// Each run of punctuation is a word.
    Punctuation,
}

impl Rule {
    /// The rule that `ByteLevel` has.
    pub(crate) fn words() -> Self {
        Rule::Isolate(canonical(GPT2))
    }
}

/// The text that an error shows.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Isolate(regex) => write!(f, "the regular expression {}", regex.escape_debug()),
            Rule::Punctuation => f.write_str("runs of punctuation"),
        }
    }
}

/// The rules of a file.
#[derive(Debug, Default)]
pub(crate) struct Split {
    pub(crate) rules: Vec<Rule>,
    /// What llama.cpp does in another way.
    pub(crate) notes: Vec<String>,
}

/// Returns the rules of a file, in order.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a rule that does not split at a regular expression, and for tokens that are not bytes.
pub(crate) fn of_json(json: &TokenizerJson) -> Result<Split> {
    let mut split = Split::default();
    let mut is_bytes = false;
    let mut left: Vec<&PreTokenizer> = json.pre_tokenizer.iter().collect();
    while let Some(part) = left.pop() {
        match part.kind.as_str() {
            "Sequence" => left.extend(part.parts().iter().rev()),
            "ByteLevel" => {
                is_bytes = true;
                if part.use_regex.unwrap_or(true) {
                    split.rules.push(Rule::words());
                }
                if part.add_prefix_space.unwrap_or(true) {
                    let note = "tokenizer.json adds a space before each text, and llama.cpp does not";
                    split.notes.push(note.to_owned());
                }
            }
            "Digits" if part.individual_digits => split.rules.push(Rule::Isolate(r"\p{N}".to_owned())),
            "Digits" => split.rules.push(Rule::Isolate(r"\p{N}+".to_owned())),
            "Punctuation" if part.behavior.as_deref() == Some("Contiguous") => {
                split.rules.push(Rule::Punctuation)
            }
            "Split" => split.rules.push(isolated(part)?),
            other => {
                return Err(Error::unsupported("llama.cpp has no pre-tokenizer with a rule of this type")
                    .field("pre_tokenizer")
                    .found(format!("'{}'", other.escape_debug()))
                    .expected("Split, Digits, Punctuation or ByteLevel"));
            }
        }
    }
    if !is_bytes {
        return Err(Error::unsupported("the tokens of the tokenizer are not bytes")
            .field("pre_tokenizer")
            .found("no rule of type 'ByteLevel'")
            .expected("one, as every tokenizer of the model 'gpt2' has it"));
    }
    Ok(split)
}

/// Returns a rule of type "Split".
fn isolated(part: &PreTokenizer) -> Result<Rule> {
    let behavior = part.behavior.as_deref().unwrap_or_default();
    let is_isolated = match (behavior, part.invert) {
        ("Isolated", _) => true,
        // What does not match goes, and the expressions in the table match everything.
        ("Removed", true) => true,
        _ => false,
    };
    match &part.pattern {
        Some(Pattern::Regex(regex)) if is_isolated => Ok(Rule::Isolate(canonical(regex))),
        pattern => Err(Error::unsupported("llama.cpp has no pre-tokenizer with a rule that splits so")
            .field("pre_tokenizer")
            .found(match pattern {
                Some(Pattern::Regex(text) | Pattern::String(text)) => {
                    format!("'{}', behavior '{}'", text.escape_debug(), behavior.escape_debug())
                }
                None => "no pattern".to_owned(),
            })
            .expected("a regular expression whose matches are isolated")),
    }
}

/// Returns the regular expression in the spelling of the table, which matches the same.
///
/// - A character that has an escape is written with it.
/// - The endings of English words have one spelling.
/// - A repetition of a class is possessive or not: in the expressions of the table, what follows never begins with a
///   character of the class, so nothing is given back.
/// - `\s*[\r\n]` matches up to the last end of line, as `\s*[\r\n]+` does.
pub(super) fn canonical(regex: &str) -> String {
    let escaped = regex.replace('\r', r"\r").replace('\n', r"\n").replace('\t', r"\t");
    let mut text = escaped;
    for spelling in [
        "'(?i:[sdmt]|ll|ve|re)",
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
        "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])",
    ] {
        text = text.replace(spelling, CONTRACTIONS);
    }
    text = text.replace("]?+", "]?").replace("]++", "]+").replace(r"\p{N}{1}", r"\p{N}");
    text.replace(r"|\s*[\r\n]|", r"|\s*[\r\n]+|")
}
