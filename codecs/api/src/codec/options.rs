//! Options of a codec: typed, documented, and never silently ignored.

use crate::{ArchitectureFile, Checkpoint, DType, Error, Phases, Result, nearest, parse_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One option that a codec knows.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The key, as `--set` takes it.
    pub name: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// When it applies.
    pub side: Side,
    /// What it does, in one line, with the default.
    pub help: &'static str,
}

/// Name of [`OptionSpec::lenient`].
pub(crate) const LENIENT: &str = "lenient";

impl OptionSpec {
    /// An option of any kind.
    pub const fn new(name: &'static str, kind: OptionKind, side: Side, help: &'static str) -> Self {
        OptionSpec { name, kind, side, help }
    }

    /// The flag `lenient`: reading accepts what breaks the format's rules but has a meaning, and reports each repair.
    /// [`crate::Rules::new`] reads it.
    pub const fn lenient(help: &'static str) -> Self {
        OptionSpec::new(LENIENT, OptionKind::Flag, Side::Read, help)
    }
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// A number of bytes; `k`, `m`, `g` multiply by 1024 each.
    Size,
    /// A number of things, in digits.
    Count,
    /// Any text.
    Text,
    /// Words separated by commas.
    List,
}

/// When an option applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// When the format is read.
    Read,
    /// When the format is written.
    Write,
    /// Both.
    Both,
}

impl Side {
    /// Whether an option of this side applies to `other`.
    pub fn includes(self, other: Side) -> bool {
        self == Side::Both || other == Side::Both || self == other
    }
}

/// Checked option values, and the architecture file if one of the codec's own was given.
#[derive(Clone, Debug, Default)]
pub struct Options {
    values: BTreeMap<&'static str, String>,
    architecture: Option<ArchitectureFile>,
    model: Option<Arc<Checkpoint>>,
    phases: Option<Phases>,
    dtype: Option<DType>,
    framework: Option<String>,
}

impl Options {
    /// Checks `pairs` against what `format` knows for this `side`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`]: an unknown key (listing the known ones), a repeated key, a value of the wrong kind.
    pub fn parse(
        format: &str,
        specs: &'static [OptionSpec],
        side: Side,
        pairs: &[(String, String)],
    ) -> Result<Self> {
        let mut values = BTreeMap::new();
        for (key, value) in pairs {
            let known = || specs.iter().filter(|spec| spec.side.includes(side));
            let spec = known().find(|spec| spec.name == key).ok_or_else(|| {
                Error::usage(format!("format '{format}' has no such option"))
                    .field(key.as_str())
                    .help(nearest(key, known().map(|spec| spec.name)))
            })?;
            check_value(spec, value)?;
            if values.insert(spec.name, canonical(spec, value)).is_some() {
                return Err(Error::usage("the option is given twice").field(key.as_str()));
            }
        }
        Ok(Options { values, ..Options::default() })
    }

    /// The same options with an architecture file of the codec's own.
    #[must_use]
    pub fn with_architecture(mut self, architecture: Option<ArchitectureFile>) -> Self {
        self.architecture = architecture;
        self
    }

    /// The architecture file, if one was given whose [`format`](ArchitectureFile::format) is the codec's.
    pub fn architecture(&self) -> Option<&ArchitectureFile> {
        self.architecture.as_ref()
    }

    /// The same options with a model of the same network.
    #[must_use]
    pub fn with_model(mut self, model: Option<Arc<Checkpoint>>) -> Self {
        self.model = model;
        self
    }

    /// A model of the same network, if one was given beside the source: its graph, the tensors of the graph without their
    /// elements, and what its format states of it.
    ///
    /// For implementers: a codec whose files name tensors by other rules than the model does may find out which tensor is
    /// which, give its contents a graph with its own names, and set [`adopts_model`](crate::Contents::adopts_model). The
    /// engine takes the model's graph by the names of its tensors otherwise.
    pub fn model(&self) -> Option<&Checkpoint> {
        self.model.as_deref()
    }

    /// The same options, where the output can share blocks with the source.
    #[must_use]
    pub fn with_phases(mut self, phases: Option<Phases>) -> Self {
        self.phases = phases;
        self
    }

    /// Where the source's tensors begin within a block, if the output can share blocks with it: see [`Phases`]. A codec that
    /// ignores it is right, too.
    pub fn phases(&self) -> Option<&Phases> {
        self.phases.as_ref()
    }

    /// The same options, where the user names the dtype of all weights.
    #[must_use]
    pub fn with_dtype(mut self, dtype: Option<DType>) -> Self {
        self.dtype = dtype;
        self
    }

    /// The dtype that the user names for all weights, which have it already: it goes before what the format does by itself.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// The same options, if the tensors have the names of this framework.
    #[must_use]
    pub fn with_framework(mut self, framework: Option<&str>) -> Self {
        self.framework = framework.map(str::to_owned);
        self
    }

    /// The framework whose names the tensors have, as files name it, such as `pt`.
    pub fn framework(&self) -> Option<&str> {
        self.framework.as_deref()
    }

    /// The names and values of the options that were given, by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The text of an option.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether a flag is set; `false` if it was not given.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// The number of a size option.
    pub fn size(&self, name: &str) -> Option<u64> {
        parse_size(self.text(name)?)
    }

    /// The number of a count option.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The words of a list option.
    pub fn list(&self, name: &str) -> Option<Vec<&str>> {
        let words = self.text(name)?.split(',').map(str::trim);
        Some(words.filter(|word| !word.is_empty()).collect())
    }
}

/// Returns a word of a choice as the choice has it, and other values as they are.
fn canonical(spec: &OptionSpec, value: &str) -> String {
    let OptionKind::Choice(words) = spec.kind else { return value.to_owned() };
    word(words, value).unwrap_or(value).to_owned()
}

/// Returns the word that a text in any case means.
fn word(words: &[&'static str], text: &str) -> Option<&'static str> {
    words.iter().copied().find(|word| word.eq_ignore_ascii_case(text))
}

fn check_value(spec: &OptionSpec, value: &str) -> Result<()> {
    let expected = match spec.kind {
        OptionKind::Flag if !matches!(value, "true" | "false") => "true or false".to_owned(),
        OptionKind::Choice(words) if word(words, value).is_none() => words.join(" or "),
        OptionKind::Size if parse_size(value).is_none() => "a number such as 4096, 64k or 2g".to_owned(),
        OptionKind::Count if value.parse::<u64>().is_err() => "a number such as 4".to_owned(),
        _ => return Ok(()),
    };
    Err(Error::usage("the option has a wrong value")
        .field(spec.name)
        .found(format!("'{value}'"))
        .expected(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[OptionSpec] = &[
        OptionSpec { name: "dialect", kind: OptionKind::Choice(&["a", "b"]), side: Side::Both, help: "" },
        OptionSpec { name: "lenient", kind: OptionKind::Flag, side: Side::Read, help: "" },
        OptionSpec { name: "parts", kind: OptionKind::Count, side: Side::Write, help: "" },
    ];

    fn parse(side: Side, key: &str, value: &str) -> Result<Options> {
        Options::parse("nn", SPECS, side, &[(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let error = parse(Side::Read, "dialekt", "a").unwrap_err().to_string();
        assert!(error.contains("did you mean 'dialect'") && error.contains("lenient"), "{error}");
    }

    #[test]
    fn an_option_of_the_other_side_is_unknown() {
        assert!(parse(Side::Write, "lenient", "true").is_err());
        assert!(parse(Side::Read, "lenient", "true").unwrap().flag("lenient"));
    }

    #[test]
    fn a_count_is_a_number_without_a_unit() {
        assert_eq!(parse(Side::Write, "parts", "12").unwrap().count("parts"), Some(12));
        let error = parse(Side::Write, "parts", "2k").unwrap_err().to_string();
        assert!(error.contains("'2k'") && error.contains("a number such as 4"), "{error}");
    }

    #[test]
    fn a_value_outside_the_choice_is_refused() {
        assert!(parse(Side::Read, "dialect", "c").is_err());
        assert!(parse(Side::Read, "lenient", "True").is_err());
    }

    #[test]
    fn a_word_of_a_choice_may_have_any_case_and_is_read_as_the_choice_has_it() {
        assert_eq!(parse(Side::Read, "dialect", "B").unwrap().text("dialect"), Some("b"));
    }
}
