//! Pre-tokenizers of byte-pair encoding: the rules that split a text into words.
//!
//! GGUF stores a name, under which llama.cpp has regular expressions and flags. `tokenizer.json` states the rules themselves. A
//! [`Class`] is a list of rules and the names of those that llama.cpp splits by them.

mod rules;
mod table;

use crate::Request;
use crate::files::TokenizerJson;
use ckpt_api::{Error, Result, Setting, nearest, text};
pub(crate) use rules::Rule;
use table::{CLASSES, Class, Name};

/// A name, and facts that it does not hold.
#[derive(Debug)]
pub(crate) struct PreTokenizerName {
    pub(crate) name: String,
    pub(crate) notes: Vec<String>,
}

/// Names under which llama.cpp has simpler expressions: they split letters from their marks.
const SPLITS_MARKS: [&str; 6] = ["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "tekken"];

/// Returns the name of a pre-tokenizer: the one that the user chose, or one of those that split as `tokenizer.json` says.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] if the user chose a name that llama.cpp does not know; [`ckpt_api::Kind::Unsupported`] with the rules
/// if no name has them.
pub(crate) fn name(json: &TokenizerJson, request: &Request) -> Result<PreTokenizerName> {
    if let Some(name) = request.pre {
        return match find(name) {
            Some(_) => Ok(PreTokenizerName { name: name.to_owned(), notes: Vec::new() }),
            None => Err(Error::usage("llama.cpp has no pre-tokenizer of this name")
                .field("pre")
                .found(format!("'{}'", name.escape_debug()))
                .help(nearest(name, names()))),
        };
    }
    let mut split = rules::of_json(json)?;
    let ignores_merges = json.model.as_ref().is_some_and(|model| model.ignore_merges);
    let class = CLASSES.iter().find(|class| class.has(&split.rules)).ok_or_else(|| unknown(&split.rules))?;
    let of_family = class.names.iter().find(|name| Some(name.name) == request.family_pre);
    let same_flag = || class.names.iter().find(|name| name.ignores_merges == ignores_merges);
    let name = of_family.or_else(same_flag).or(class.names.first());
    let name = name.ok_or_else(|| Error::defect("a class of pre-tokenizers has no name"))?;
    if SPLITS_MARKS.contains(&name.name) {
        split.notes.push(format!(
            "llama.cpp splits letters with marks, as in Devanagari or Thai, in another way under '{}' than tokenizer.json says",
            name.name
        ));
    }
    Ok(PreTokenizerName { name: name.name.to_owned(), notes: split.notes })
}

/// Returns the rules of a name, and whether llama.cpp takes words that are tokens without merging.
pub(crate) fn find(name: &str) -> Option<(Vec<Rule>, bool)> {
    CLASSES.iter().find_map(|class| {
        let name: &Name = class.names.iter().find(|own| own.name == name)?;
        Some((class.rules(), name.ignores_merges))
    })
}

/// Every name that is known.
fn names() -> impl Iterator<Item = &'static str> {
    CLASSES.iter().flat_map(|class: &Class| class.names).map(|name| name.name)
}

fn unknown(rules: &[Rule]) -> Error {
    let shown: Vec<String> = rules.iter().map(|rule| format!("{rule}")).collect();
    let found = match shown.is_empty() {
        true => "no rule that splits words".to_owned(),
        false => shown.join(", then "),
    };
    Error::unsupported("llama.cpp has no pre-tokenizer with the rules of the tokenizer")
        .field("pre_tokenizer")
        .found(found)
        .expected("the rules of a pre-tokenizer that llama.cpp knows by name")
        .help(text![
            "if you know the name of one that splits in the same way, set it with ",
            Setting::WRITE_OPTION.of("pre=NAME")
        ])
}

#[cfg(test)]
mod tests;
