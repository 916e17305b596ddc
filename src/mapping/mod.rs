//! Names: what each target tensor is made of, decided before any tensor byte is read.
//!
//! A mapping is a TOML file (JSON Schema: `schemas/mapping.schema.json`), a built-in table, or made in code.
//!
//! ```toml
//! title = "These names to those"   # one line, for people
//! separator = "/"            # of source names; segments are what lies between; default "/"
//! target_separator = "."     # of target names; default: the same
//! identity = true            # a name that nothing matches keeps its name; default false: it is an error
//! ordered = false            # true: the first rule that matches wins; default: two that match are an error
//! ignore = ["save_counter/**", "optimizer/**"]   # source names that are dropped
//! ignore_roles = ["optimizer", "counter", "bookkeeping", "duplicate"]   # and what the format says is no weight
//!
//! [roles]                    # steps by the role that a tensor plays
//! kernel = ["transpose"]
//!
//! [lookup]                   # exact names
//! "a/b" = "c.d"
//!
//! [[rule]]
//! from = "model/h{layer:int}/attn/{part}"
//! to = "h.{layer}.{part}"
//! role = "kernel"            # or its own: steps = ["transpose"]
//! ```
//!
//! **What decides**, first to last: `lookup`, `ignore` and `ignore_roles`, the rules, `identity`. A lookup's source must exist; a
//! rule or an ignore pattern that matches nothing is only reported ([`Applied::unused`]), so a rule without
//! captures is a lookup that may be absent. A rule that what goes before it hides, whatever the names, is an error.
//!
//! **Captures** stand in `from`, each name once; `to` uses them as `{name}`.
//!
//! | written | matches |
//! |---|---|
//! | `{x}`, `{x:segment}` | one character or more, no separator |
//! | `{x:int}` | decimal digits without leading zeros |
//! | `{x:int2}` … `{x:int9}` | exactly so many decimal digits; the value is the number |
//! | `{x:word}` | one or more of `A-Z a-z 0-9 _` |
//! | `{x:path}` | one or more non-empty segments with the separators between them, which become `target_separator` in the target |
//!
//! `{{` and `}}` are braces, `{*}` is a star of the name. In `ignore`, `*` is any run of characters within a segment and `**` across
//! segments, both possibly empty; captures are allowed there too. Elsewhere `*` is refused.
//!
//! In `to`, `{n}` writes a number plainly, `{n:int3}` padded with zeros to three digits, `{n+1}` and `{n-1}` shifted,
//! `{n-1:int3}` both. A number that does not fit its padding, or falls below 0, is an error.
//!
//! **Steps** ([`crate::recipe::AxisStep`]): `transpose`, `permute 3 2 0 1`, `squeeze 0`, `unsqueeze 0`.
//!
//! **Several tensors** are said by a list, whose names have the same captures:
//!
//! | in the rule | `from` | `to` | |
//! |---|---|---|---|
//! | `split = 1` | one | a list | cut along that axis of the source, into equal parts or `sizes = [768, 64, 64]`; then steps on each part |
//! | `merge = 0` | a list | one | steps on each source; then one behind the other along that axis |
//! | `tie = true` | one | a list | the same tensor under each name |
//! | `tie = true` | a list | one | tensors that must be equal; the first is taken |
//!
//! A rule with a list in `from` matches a name that has any of its forms; for the same captures, all sources must be
//! there, or none.
//!
//! **Matching** covers the whole name. Where captures could divide it in several ways, the first capture takes
//! the shortest text with which the rest still matches, then the second, and so on. It takes time
//! proportional to name length × pattern length, whatever they say.
//!
//! **Inverse** ([`Mapping::inverse`]): a rule whose captures all appear once in each name of `to` is read backwards:
//! separators exchanged, padding and shifts taken back, steps undone from last to first, a split merged, a merge split, a
//! tie read from its other side. [`Mapping::apply`] then proves on the actual names that it leads back. A rule with
//! `inverse = false` says that it has none. What `ignore` drops does not come back.

mod builtin;
mod check;
mod dead;
mod explain;
mod file;
mod inclusion;
mod inverse;
mod matching;
mod parse;
mod pattern;
mod print;
mod problems;
#[cfg(test)]
mod properties;
mod relation;
mod rule;
pub mod suggest;
#[cfg(test)]
mod tests;

use crate::recipe::Target;
use ckpt_api::{Error, LibraryWords, Limit, Limits, Result, Role, Tensor, Vocabulary};
pub use explain::{Back, Decision, Explanation, Nearest, RuleReport};
use file::Places;
use parse::Roles;
use pattern::{Pattern, Separators};
use relation::Link;
use rule::Rule;
use std::collections::BTreeMap;

/// Says for every source name what becomes of it: its target names, and the steps on the way there.
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
/// assert_eq!(applied.targets[1].name, "h.11.attn.bias");
/// assert_eq!(applied.targets[1].sources, ["model/h11/attn/bias"]);
/// assert_eq!(applied.dropped, ["save_counter/value"]);
///
/// let back = applied.inverse?.apply(&["h.11.attn.bias", "wte.weight"], &ckpt_api::Limits::default())?;
/// assert_eq!(back.targets[0].name, "model/h11/attn/bias");
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Where it came from, for errors.
    file: Option<String>,
    title: Option<String>,
    separators: Separators,
    identity: bool,
    ordered: bool,
    ignore: Vec<Pattern>,
    /// Tensors that are dropped whatever their names.
    ignore_roles: Vec<Role>,
    builtin: bool,
    roles: Roles,
    lookup: BTreeMap<String, String>,
    places: Places,
    rules: Vec<Rule>,
}

/// What a mapping does to actual names.
#[derive(Debug)]
pub struct Applied {
    /// Every target tensor and what it is made of, sorted by name; no two names are equal.
    pub targets: Vec<Target>,
    /// Source names that `ignore` drops, sorted.
    pub dropped: Vec<String>,
    /// Rules and `ignore` patterns that matched nothing (or, with `ordered`, came too late), in words.
    pub unused: Vec<String>,
    /// The mapping that leads from exactly these target names back to exactly these source names, or why the
    /// rules give none; [`Applied::inverse_table`] exists even then.
    pub inverse: Result<Mapping>,
    separators: Separators,
    links: Vec<Link>,
}

impl Mapping {
    /// Every name keeps its name.
    ///
    /// ```
    /// let same = ckpt::mapping::Mapping::identity().apply(&["a/b"], &ckpt_api::Limits::default())?;
    /// assert_eq!(same.targets[0].name, "a/b");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn identity() -> Self {
        Mapping {
            file: None,
            title: None,
            separators: Separators::default(),
            identity: true,
            ordered: false,
            ignore: Vec::new(),
            ignore_roles: Vec::new(),
            builtin: false,
            roles: Roles::new(),
            lookup: BTreeMap::new(),
            places: Places::default(),
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
        file::check_lookup(&lookup, &Limits::default(), |_| None)?;
        Ok(Mapping { lookup, ..Self::identity() })
    }

    /// Reads a mapping file; `file` names it in errors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] with the line, key or rule that is wrong; [`ckpt_api::Kind::Limit`] for a
    /// file, name, pattern or number of rules that is too large.
    pub fn from_toml(text: &str, file: &str) -> Result<Self> {
        Self::from_toml_within(text, file, &Limits::default())
    }

    /// As [`Mapping::from_toml`], within limits other than the usual ones.
    ///
    /// # Errors
    /// As [`Mapping::from_toml`].
    pub fn from_toml_within(text: &str, file: &str, limits: &Limits) -> Result<Self> {
        file::parse(text, file, limits).map_err(|error| error.file(file))
    }

    /// The mapping as a file that [`Mapping::from_toml`] reads as the same mapping.
    pub fn to_toml(&self) -> String {
        print::print(self)
    }

    /// A built-in table by its name.
    ///
    /// ```
    /// let gpt2 = ckpt::mapping::Mapping::builtin("gpt2-tf-to-hf").expect("it is built in");
    /// let applied = gpt2.apply(&["model/h0/attn/c_attn/w"], &ckpt_api::Limits::default())?;
    /// assert_eq!(applied.targets[0].name, "h.0.attn.c_attn.weight");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn builtin(name: &str) -> Option<Self> {
        builtin::load(name)
    }

    /// The file of a built-in table.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        builtin::text(name)
    }

    /// The names that [`Mapping::builtin`] knows.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::names()
    }

    /// Where it came from: a file, or the name of a built-in table.
    pub fn origin(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Whether it came with the program: then it is made for more checkpoints than one, and what of it is unused says
    /// nothing.
    pub fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// The roles whose tensors [`Mapping::apply_to`] drops.
    pub fn ignored_roles(&self) -> &[Role] {
        &self.ignore_roles
    }

    /// What it maps, in a line.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Gives every source name its targets, and checks that it is a mapping: every name is mapped or dropped,
    /// every lookup finds its source, every merge finds all of its sources, no two targets have one name; and proves
    /// whether the inverse leads back. Whether steps fit the tensors' shapes is not known here.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] naming the sources, the rules and the nearest names;
    /// [`ckpt_api::Kind::Limit`] for too many names or one that is too long.
    pub fn apply(&self, names: &[&str], limits: &Limits) -> Result<Applied> {
        check::apply(self, names, limits).map_err(|error| self.located(error))
    }

    /// As [`Mapping::apply`], to the names of tensors; drops those whose roles it ignores.
    ///
    /// # Errors
    /// As [`Mapping::apply`].
    pub fn apply_to(&self, tensors: &[Tensor], limits: &Limits) -> Result<Applied> {
        let ignored = |tensor: &&Tensor| {
            self.ignore_roles.contains(&tensor.role) && !self.lookup.contains_key(&tensor.name)
        };
        let names: Vec<&str> =
            tensors.iter().filter(|tensor| !ignored(tensor)).map(|tensor| tensor.name.as_str()).collect();
        let mut applied = self.apply(&names, limits)?;
        applied.dropped.extend(tensors.iter().filter(ignored).map(|tensor| tensor.name.clone()));
        applied.dropped.sort();
        Ok(applied)
    }

    /// The mapping read backwards. What `ignore` drops does not come back. That it leads back is certain only
    /// for the names on which [`Mapping::apply`] has proved it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] naming the rule, and the capture, that has no inverse.
    pub fn inverse(&self) -> Result<Self> {
        inverse::invert(self).map_err(|error| self.located(error))
    }

    /// Why `name` becomes what it becomes, alone: whether other names collide with it is not looked at.
    ///
    /// ```
    /// let gpt2 = ckpt::mapping::Mapping::builtin("gpt2-tf-to-hf").expect("it is built in");
    /// let explained = gpt2.explain("model/h3/ln_1/g", &ckpt_api::Limits::default())?;
    /// assert_eq!(explained.captures["layer"], "3");
    /// assert_eq!(explained.targets[0].name, "h.3.ln_1.weight");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Mapping::apply`]: rules that overlap, a number that does not fit, a name that is too long.
    pub fn explain(&self, name: &str, limits: &Limits) -> Result<Explanation> {
        self.explain_in(name, limits, &LibraryWords)
    }

    /// As [`Mapping::explain`], with settings named as `words` does.
    pub(crate) fn explain_in(
        &self,
        name: &str,
        limits: &Limits,
        words: &dyn Vocabulary,
    ) -> Result<Explanation> {
        explain::explain(self, name, limits, words).map_err(|error| self.located(error))
    }

    /// Every rule, and its inverse or why it has none.
    pub fn rules(&self) -> Vec<RuleReport> {
        explain::rules(self)
    }

    /// `lookup at line 3`; without the line where there is none.
    fn describe_lookup(&self, source: &str) -> String {
        let line = self.places.lookup.get(source).map(|line| format!(" at line {line}"));
        format!("lookup{}", line.unwrap_or_default())
    }

    /// `ignore 'a/**' at line 3`; without the line where there is none.
    fn describe_ignore(&self, index: usize) -> String {
        let pattern = self.ignore.get(index).map(Pattern::as_source).unwrap_or_default();
        let line = self.places.ignore.get(index).map(|line| format!(" at line {line}"));
        format!("ignore {}{}", quote(&pattern), line.unwrap_or_default())
    }

    /// `rule 2 at line 7 ('from' -> 'to')`; without the line where there is none.
    fn describe_rule(&self, index: usize) -> String {
        let words = self.rules.get(index).map(|rule| format!(" ({})", rule.describe()));
        self.number_rule(index) + &words.unwrap_or_default()
    }

    /// `rule 2 at line 7`; without the line where there is none.
    fn number_rule(&self, index: usize) -> String {
        let line = self.rules.get(index).and_then(|rule| rule.line).map(|line| format!(" at line {line}"));
        format!("rule {}{}", index.saturating_add(1), line.unwrap_or_default())
    }

    fn located(&self, error: Error) -> Error {
        match &self.file {
            Some(file) => error.file(file.as_str()),
            None => error,
        }
    }
}

impl Applied {
    /// (source, target) for every target that is one source tensor as it is. A source that is tied to several names is
    /// there once for each.
    pub fn plain(&self) -> impl Iterator<Item = (&str, &str)> {
        let plain = self.targets.iter().filter(|target| target.recipe.is_plain());
        plain.filter_map(|target| Some((target.sources.first()?.as_str(), target.name.as_str())))
    }

    /// The inverse as a plain table of these names: it holds for no others, and exists even where the rules have no
    /// inverse.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] where more targets than a mapping has rules are no mere renamings.
    pub fn inverse_table(&self) -> Result<Mapping> {
        inverse::table(&self.links, self.separators)
    }
}

/// One of the usual limits, for what the program writes itself.
fn usual(limit: Limit) -> usize {
    usize::try_from(limit.default_value()).unwrap_or(usize::MAX)
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
