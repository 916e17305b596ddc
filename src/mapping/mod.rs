//! Names: which source tensor becomes which target tensor, decided before any tensor byte is read.
//!
//! A mapping is a TOML file (JSON Schema: `schemas/mapping.schema.json`), a built-in table, or made in code.
//!
//! ```toml
//! separator = "/"            # of source names; segments are what lies between; default "/"
//! target_separator = "."     # of target names; default: the same
//! identity = true            # a name that nothing matches keeps its name; default false: it is an error
//! ordered = false            # true: the first rule that matches wins; default: two that match are an error
//! ignore = ["save_counter/**", "optimizer/**"]   # source names that are dropped
//!
//! [lookup]                   # exact names
//! "a/b" = "c.d"
//!
//! [[rule]]
//! from = "model/h{layer:int}/attn/{part}"
//! to = "h.{layer}.{part}"
//! ```
//!
//! **What decides**, first to last: `lookup`, `ignore`, the rules, `identity`. A lookup's source must exist; a
//! rule or an ignore pattern that matches nothing is only reported ([`Applied::unused`]), so a rule without
//! captures is a lookup that may be absent.
//!
//! **Captures** stand in `from`, each name once; `to` uses them as `{name}`.
//!
//! | written | matches |
//! |---|---|
//! | `{x}`, `{x:segment}` | one character or more, no separator |
//! | `{x:int}` | decimal digits without leading zeros |
//! | `{x:word}` | one or more of `A-Z a-z 0-9 _` |
//! | `{x:path}` | one or more non-empty segments with the separators between them, which become `target_separator` in the target |
//!
//! `{{` and `}}` are braces. In `ignore`, `*` is any run of characters within a segment and `**` across
//! segments, both possibly empty; captures are allowed there too. Elsewhere `*` is refused.
//!
//! **Matching** covers the whole name. Where captures could divide it in several ways, the first capture takes
//! the shortest text with which the rest still matches, then the second, and so on. It takes time
//! proportional to name length × pattern length, whatever they say.
//!
//! **Inverse**: a rule whose captures all appear once in `to` is read backwards with the separators exchanged
//! ([`Mapping::inverse`]); [`Mapping::apply`] then proves on the actual names that it leads back.

mod builtin;
mod check;
mod file;
mod inverse;
mod matching;
mod pattern;
#[cfg(test)]
mod properties;
mod rule;
#[cfg(test)]
mod tests;

use ckpt_api::{Error, Limits, Result};
use pattern::{Pattern, Separators};
use rule::Rule;
use std::collections::BTreeMap;

/// Most rules of a mapping, and most patterns of its `ignore`.
pub const MAX_RULES: usize = 1024;
/// Most bytes of one pattern.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// Most captures and wildcards of one pattern.
pub const MAX_CAPTURES: usize = 32;

/// Says for every source name what its target name is.
///
/// ```
/// use ckpt::mapping::Mapping;
/// let mapping = Mapping::from_toml(
///     r#"
///     ignore = ["save_counter/**"]
///     [lookup]
///     "model/wte" = "wte.weight"
///     [[rule]]
///     from = "model/h{layer:int}/attn/{part}"
///     to = "h.{layer}.attn.{part}"
///     "#,
///     "names.toml",
/// )?;
/// let names = ["model/wte", "model/h0/attn/bias", "model/h11/attn/bias", "save_counter/value"];
/// let applied = mapping.apply(&names, &ckpt_api::Limits::default())?;
/// assert_eq!(applied.names["model/h11/attn/bias"], "h.11.attn.bias");
/// assert_eq!(applied.dropped, ["save_counter/value"]);
///
/// let back = applied.inverse?.apply(&["h.11.attn.bias", "wte.weight"], &ckpt_api::Limits::default())?;
/// assert_eq!(back.names["h.11.attn.bias"], "model/h11/attn/bias");
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Where it came from, for errors.
    file: Option<String>,
    separators: Separators,
    identity: bool,
    ordered: bool,
    ignore: Vec<Pattern>,
    lookup: BTreeMap<String, String>,
    rules: Vec<Rule>,
}

/// What a mapping does to actual names.
#[derive(Debug)]
pub struct Applied {
    /// Source name to target name; no two targets are equal.
    pub names: BTreeMap<String, String>,
    /// Source names that `ignore` drops, sorted.
    pub dropped: Vec<String>,
    /// Rules and `ignore` patterns that matched nothing (or, with `ordered`, came too late), in words.
    pub unused: Vec<String>,
    /// The mapping that leads from exactly these target names back to exactly these source names, or why the
    /// rules give none; [`Applied::inverse_table`] always exists.
    pub inverse: Result<Mapping>,
}

impl Mapping {
    /// Every name keeps its name.
    ///
    /// ```
    /// let same = ckpt::mapping::Mapping::identity().apply(&["a/b"], &ckpt_api::Limits::default())?;
    /// assert_eq!(same.names["a/b"], "a/b");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn identity() -> Self {
        Mapping {
            file: None,
            separators: Separators::default(),
            identity: true,
            ordered: false,
            ignore: Vec::new(),
            lookup: BTreeMap::new(),
            rules: Vec::new(),
        }
    }

    /// The given (source, target) pairs; every other name keeps its name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`]: an empty name, a source given twice, a target given twice.
    pub fn lookup<S: Into<String>, T: Into<String>>(pairs: impl IntoIterator<Item = (S, T)>) -> Result<Self> {
        let mut lookup = BTreeMap::new();
        for (source, target) in pairs {
            let source = source.into();
            if lookup.insert(source.clone(), target.into()).is_some() {
                return Err(Error::mapping("the lookup has one source name twice").field(quote(&source)));
            }
        }
        file::check_lookup(&lookup)?;
        Ok(Mapping { lookup, ..Self::identity() })
    }

    /// Reads a mapping file; `file` names it in errors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] with the line, key or rule that is wrong; [`ckpt_api::Kind::Limit`] for a
    /// file, name, pattern or number of rules that is too large.
    pub fn from_toml(text: &str, file: &str) -> Result<Self> {
        file::parse(text, file).map_err(|error| error.file(file))
    }

    /// The mapping as a file that [`Mapping::from_toml`] reads as the same mapping.
    pub fn to_toml(&self) -> String {
        file::print(self)
    }

    /// A built-in table by its name.
    ///
    /// ```
    /// let gpt2 = ckpt::mapping::Mapping::builtin("gpt2-tf-to-hf").expect("it is built in");
    /// let applied = gpt2.apply(&["model/h0/attn/c_attn/w"], &ckpt_api::Limits::default())?;
    /// assert_eq!(applied.names["model/h0/attn/c_attn/w"], "h.0.attn.c_attn.weight");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn builtin(name: &str) -> Option<Self> {
        builtin::load(name)
    }

    /// The names that [`Mapping::builtin`] knows.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::names()
    }

    /// Gives every source name its target, and checks that it is a mapping: every name is mapped or dropped,
    /// every lookup finds its source, no two sources have one target, and the inverse leads back.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] naming the sources, the rules and the nearest names;
    /// [`ckpt_api::Kind::Limit`] for too many names or one that is too long.
    pub fn apply(&self, names: &[&str], limits: &Limits) -> Result<Applied> {
        check::apply(self, names, limits).map_err(|error| self.located(error))
    }

    /// The mapping read backwards. What `ignore` drops does not come back. That it leads back is certain only
    /// for the names on which [`Mapping::apply`] has proved it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] naming the rule, and the capture, that has no inverse.
    pub fn inverse(&self) -> Result<Self> {
        inverse::invert(self).map_err(|error| self.located(error))
    }

    fn located(&self, error: Error) -> Error {
        match &self.file {
            Some(file) => error.file(file.as_str()),
            None => error,
        }
    }
}

impl Applied {
    /// The inverse as a plain table of these names: it always exists, and holds for no others.
    pub fn inverse_table(&self) -> Mapping {
        let lookup = self.names.iter().map(|(source, target)| (target.clone(), source.clone())).collect();
        Mapping { lookup, identity: false, ..Mapping::identity() }
    }
}

/// A name as errors show it, in quotation marks.
fn quote(name: &str) -> String {
    format!("'{}'", printable(name))
}

/// A name on one line: shortened, its control characters escaped.
fn printable(name: &str) -> String {
    const SHOWN: usize = 160;
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}
