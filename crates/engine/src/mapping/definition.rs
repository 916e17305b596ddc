//! The type [`Mapping`]: what a mapping consists of, and how errors describe its entries.

use super::lookup::{Entry, Lookup, check_lookup};
use super::rule::{Rule, Separators};
use crate::pattern::{Part, Pattern};
use crate::recipe::AxisStep;
use crate::words::quote;
use ckpt_api::{Error, Graph, Limits, Loss, Result, Role, Tensor, Text};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Decides for every source name which target names it gets, and by which steps.
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
    /// The file, or the name of the built-in mapping.
    pub(crate) origin: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) frameworks: Frameworks,
    pub(crate) separators: Separators,
    pub(crate) identity: bool,
    pub(crate) ordered: bool,
    /// Names that are dropped.
    pub ignore: Vec<Ignore>,
    /// Roles of tensors that are dropped.
    pub ignore_roles: Vec<Role>,
    pub(crate) is_builtin: bool,
    pub(crate) roles: Roles,
    pub(crate) parameters: Parameters,
    /// Tensors that the target needs beside those of the rules.
    pub(crate) needs: Vec<Need>,
    pub(crate) lookup: Lookup,
    /// The rules, of which the first that matches a name counts.
    pub rules: Vec<Rule>,
    /// What makes the mapping when there is a graph; until then it has no rules.
    pub(crate) generated: Option<Generated>,
}

/// The frameworks whose names a mapping reads and gives, by the names that files use for them, such as `pt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frameworks {
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
}

/// The parameters of a mapping, by name.
pub(crate) type Parameters = BTreeMap<String, Parameter>;

/// A length that a step or a size names in braces, and where its value is found.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter {
    /// What it stands for, for people.
    pub(crate) description: Option<String>,
    /// Keys of the `config.json` or `params.json` beside the checkpoint; dots lead into objects.
    #[serde(default)]
    pub(crate) config: Vec<String>,
    /// Patterns of keys of the checkpoint's metadata, in any namespace.
    #[serde(default)]
    pub(crate) metadata: Vec<String>,
    /// The value if it is found nowhere: a number, or another parameter.
    pub(crate) default: Option<String>,
}

/// A tensor that the target's program needs for models of a certain configuration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Need {
    /// Its name in the target.
    pub(crate) tensor: String,
    /// Keys of the `config.json` or `params.json` beside the checkpoint; dots lead into objects.
    pub(crate) config: Vec<String>,
    /// The texts of which one is at one of the keys if the tensor is needed.
    pub(crate) values: Vec<String>,
    /// What goes wrong without the tensor, and what to do.
    pub(crate) reason: String,
    /// What the configuration states: `rope_scaling.rope_type is 'llama3'`; `None` until it is read, and if it does not say that
    /// the tensor is needed.
    #[serde(skip)]
    pub(crate) stated: Option<String>,
}

/// A generator, and the direction in which its mapping is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    pub(crate) generator: Arc<dyn MappingGenerator>,
    /// Whether the mapping leads from the generator's target to its source.
    pub(crate) is_inverse: bool,
}

/// Makes a mapping for the graph of each checkpoint, where no file could state its names.
pub trait MappingGenerator: Debug + Send + Sync {
    /// The name by which the mapping is chosen, such as `keras-to-torch`.
    fn name(&self) -> &'static str;

    /// One line that states which names are mapped to which.
    fn title(&self) -> &'static str;

    /// The framework whose names the mapping reads, as a person writes it.
    fn source_framework(&self) -> &'static str;

    /// The framework whose names the mapping gives, as a person writes it.
    fn target_framework(&self) -> &'static str;

    /// Returns the generator that gives names of another kind.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a kind that the generator does not know.
    fn with_names(&self, names: &str) -> Result<Arc<dyn MappingGenerator>>;

    /// Returns whether the mapping is made of a graph. If not, names, shapes and roles of tensors are enough, and
    /// [`MappingGenerator::translate`] gets an empty graph.
    fn needs_graph(&self) -> bool {
        true
    }

    /// Returns the generator with a setting of its own, as the mapping's name is followed by it: `NAME,key=value`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a key or a value that the generator does not know.
    fn with_setting(&self, key: &str, value: &str) -> Result<Arc<dyn MappingGenerator>> {
        Err(Error::usage("the mapping has no such parameter").field(self.name()).found(format!(
            "{}={}",
            quote(key),
            quote(value)
        )))
    }

    /// Translates a graph and its tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] or [`ckpt_api::Kind::Mapping`], naming the layer whose tensors have no place in the
    /// target.
    fn translate(&self, graph: &Graph, tensors: &[Tensor]) -> Result<Translation>;
}

/// What a graph becomes in the target's framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Translation {
    /// From the tensors of the graph to those of the target's modules.
    pub mapping: Mapping,
    /// Names of tensors that only the target has: counters of training steps.
    pub counters: Vec<String>,
    /// The program that computes the graph in the target's framework, or why there is none.
    pub code: Result<String>,
    /// What no tensor states and the program does: losses if no program is written.
    pub conventions: Vec<Loss>,
    /// What is lost in any case.
    pub losses: Vec<Loss>,
    /// Settings of modules that differ from the framework's defaults: the program states them.
    pub notes: Vec<Text>,
    /// A note on tensors that modules hold in another dtype, those of the program, too.
    pub dtype_note: Option<String>,
}

/// A pattern of names that are dropped.
#[derive(Clone, Debug)]
pub struct Ignore {
    pub(crate) pattern: Pattern,
    /// The line of the file; `None` if the mapping was made in code.
    pub(crate) line: Option<usize>,
}

impl Ignore {
    /// Drops the names that match, in a mapping that is made in code.
    pub fn new(pattern: Pattern) -> Self {
        Ignore { pattern, line: None }
    }
}

/// The steps of every role.
pub(crate) type Roles = BTreeMap<String, Vec<AxisStep>>;

/// The entry of a mapping that gives a name its target.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    Lookup,
    /// The index of a rule.
    Rule(usize),
    Identity,
}

impl Mapping {
    /// Returns the mapping that keeps every name.
    ///
    /// ```
    /// let same = ckpt::mapping::Mapping::identity().apply(&["a/b"], &ckpt_api::Limits::default())?;
    /// assert_eq!(same.targets[0].name, "a/b");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn identity() -> Self {
        Mapping { identity: true, ..Self::empty() }
    }

    /// Returns the mapping that renames the given (source, target) pairs and keeps every other name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for an empty name, and for a source or a target that occurs twice.
    pub fn lookup<S: Into<String>, T: Into<String>>(pairs: impl IntoIterator<Item = (S, T)>) -> Result<Self> {
        let mut lookup = Lookup::new();
        for (source, target) in pairs {
            let source = source.into();
            let entry = Entry { target: target.into(), line: None };
            if lookup.insert(source.clone(), entry).is_some() {
                return Err(Error::mapping("the lookup has a source name twice").field(quote(&source)));
            }
        }
        check_lookup(&lookup, &Limits::default())?;
        Ok(Mapping { lookup, ..Self::identity() })
    }

    /// Returns the mapping under which every name is an error.
    pub fn empty() -> Self {
        Mapping {
            origin: None,
            title: None,
            frameworks: Frameworks::default(),
            separators: Separators::default(),
            identity: false,
            ordered: false,
            ignore: Vec::new(),
            ignore_roles: Vec::new(),
            is_builtin: false,
            roles: Roles::new(),
            parameters: Parameters::new(),
            needs: Vec::new(),
            lookup: Lookup::new(),
            rules: Vec::new(),
            generated: None,
        }
    }

    /// Returns an empty mapping for a generator to fill, which drops tensors that are no weights. `target_framework` is the name
    /// that files use for it, such as `pt`.
    pub fn of_generator(name: &str, title: String, target_framework: &str) -> Self {
        Mapping {
            origin: Some(name.to_owned()),
            title: Some(title),
            frameworks: Frameworks { source: None, target: Some(target_framework.to_owned()) },
            ignore_roles: Role::ALL.into_iter().filter(|role| *role != Role::Weight).collect(),
            is_builtin: true,
            ..Self::empty()
        }
    }

    /// Gives the tensor of this very name another one.
    pub fn look_up(&mut self, source: &str, target: &str) {
        self.lookup.insert(source.to_owned(), Entry { target: target.to_owned(), line: None });
    }

    /// Replaces how the source names of rules begin: names of a model that is part of a larger one. The first of the pairs whose
    /// old beginning fits a name counts.
    #[must_use]
    pub fn with_source_beginnings(mut self, renames: &[(&str, &str)]) -> Self {
        let rename = |pattern: &mut Pattern| {
            let Some(Part::Literal(text)) = pattern.parts.first_mut() else { return };
            let renamed =
                renames.iter().find_map(|(old, new)| Some(format!("{new}{}", text.strip_prefix(old)?)));
            text.clone_from(&renamed.unwrap_or_else(|| text.clone()));
        };
        for rule in &mut self.rules {
            rule.from.iter_mut().chain(&mut rule.counted_by).for_each(rename);
        }
        self
    }

    /// Returns whether a rule has a step on flattened images.
    pub fn reorders_images(&self) -> bool {
        self.rules.iter().any(|rule| rule.steps.iter().any(AxisStep::is_of_image))
    }

    /// Returns the file that the mapping was read from, or the name of the built-in mapping.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Returns whether the mapping comes with the program. Such a mapping serves many checkpoints: that one of them
    /// leaves rules unused is no sign of a mistake.
    pub fn is_builtin(&self) -> bool {
        self.is_builtin
    }

    /// Returns the roles whose tensors [`Mapping::apply_to`] drops.
    pub fn ignored_roles(&self) -> &[Role] {
        &self.ignore_roles
    }

    /// Returns one line that states which names are mapped to which.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the framework whose names the targets have, if the sources have those of `source`, if it is known.
    pub(crate) fn target_framework<'a>(&'a self, source: Option<&'a str>) -> Option<&'a str> {
        let Frameworks { source: from, target } = &self.frameworks;
        target.as_deref().or(source.filter(|_| from.is_none()))
    }

    /// Describes the entry that gives `source` its target.
    pub(crate) fn describe(&self, origin: Origin, source: &str) -> String {
        match origin {
            Origin::Lookup => self.describe_lookup(source),
            Origin::Rule(index) => self.describe_rule(index),
            Origin::Identity => "identity".to_owned(),
        }
    }

    /// Describes an entry of the lookup: `lookup at line 3`.
    pub(crate) fn describe_lookup(&self, source: &str) -> String {
        "lookup".to_owned() + &at_line(self.lookup.get(source).and_then(|entry| entry.line))
    }

    /// Describes an ignore pattern: `ignore 'a/**' at line 3`.
    pub(crate) fn describe_ignore(&self, index: usize) -> String {
        let Some(Ignore { pattern, line }) = self.ignore.get(index) else { return String::new() };
        format!("ignore {}{}", quote(&pattern.as_source()), at_line(*line))
    }

    /// Describes a rule: `rule 2 at line 7 ('from' -> 'to')`.
    pub(crate) fn describe_rule(&self, index: usize) -> String {
        let words = self.rules.get(index).map(|rule| format!(" ({})", rule.describe()));
        self.number_rule(index) + &words.unwrap_or_default()
    }

    /// Describes a rule by its place alone: `rule 2 at line 7`.
    pub(crate) fn number_rule(&self, index: usize) -> String {
        let line = self.rules.get(index).and_then(|rule| rule.line);
        format!("rule {}{}", index.saturating_add(1), at_line(line))
    }

    /// Adds the mapping's file to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        match &self.origin {
            Some(file) => error.file(file.as_str()),
            None => error,
        }
    }
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(" at line {line}")).unwrap_or_default()
}
