//! The mapping file: TOML to [`Mapping`].

use super::parse::{Context, Lines, Roles, RuleText, parse_steps};
use super::pattern::{Pattern, Separators};
use super::rule::Rule;
use super::{Mapping, dead, quote};
use ckpt_api::{Error, Limit, Limits, Result, Role, nearest};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingFile {
    title: Option<String>,
    separator: Option<String>,
    target_separator: Option<String>,
    #[serde(default)]
    identity: bool,
    #[serde(default)]
    ordered: bool,
    #[serde(default)]
    ignore: Vec<Spanned<String>>,
    #[serde(default)]
    ignore_roles: Vec<Spanned<String>>,
    #[serde(default)]
    roles: BTreeMap<String, Spanned<Vec<String>>>,
    #[serde(default)]
    lookup: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    rule: Vec<RuleText>,
}

/// The lines of what a mapping says outside its rules; none for one that was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// By source.
    pub(super) lookup: BTreeMap<String, usize>,
    /// In the order of the patterns.
    pub(super) ignore: Vec<usize>,
}

/// Reads a mapping file.
pub(super) fn parse(text: &str, file: &str, limits: &Limits) -> Result<Mapping> {
    limits.check(Limit::TextBytes, text.len() as u64)?;
    let raw: MappingFile = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    check_count("rule", raw.rule.len(), limits)?;
    check_count("ignore", raw.ignore.len(), limits)?;
    check_count("roles", raw.roles.len(), limits)?;
    let lines = Lines::new(text);
    let places = Places {
        lookup: raw
            .lookup
            .iter()
            .map(|(name, target)| (name.clone(), lines.of(target.span().start)))
            .collect(),
        ignore: raw.ignore.iter().map(|pattern| lines.of(pattern.span().start)).collect(),
    };
    let lookup = raw.lookup.iter().map(|(name, target)| (name.clone(), target.get_ref().clone())).collect();
    check_lookup(&lookup, limits, |name| places.lookup.get(name).copied())?;
    let source = separator("separator", raw.separator.as_deref())?;
    let target = separator("target_separator", raw.target_separator.as_deref())?;
    let ignore = raw.ignore.iter().map(|text| {
        let at = || format!("line {}, ignore, {}", lines.of(text.span().start), quote(text.get_ref()));
        Pattern::ignored(text.get_ref(), limits).map_err(|error| error.field(at()))
    });
    let ignore = ignore.collect::<Result<_>>()?;
    let ignore_roles = raw.ignore_roles.iter().map(|name| ignored_role(&lines, name));
    let ignore_roles = ignore_roles.collect::<Result<_>>()?;
    let roles = roles(&lines, &raw, limits)?;
    let numbered = raw.rule.iter().zip(1..);
    let rules =
        numbered.map(|(rule, number)| rule.parse(&Context { lines: &lines, number, roles: &roles, limits }));
    let mapping = Mapping {
        file: Some(file.to_owned()),
        title: raw.title,
        separators: Separators { source: source.unwrap_or('/'), target: target.or(source).unwrap_or('/') },
        identity: raw.identity,
        ordered: raw.ordered,
        ignore,
        ignore_roles,
        builtin: false,
        lookup,
        places,
        rules: rules.collect::<Result<Vec<Rule>>>()?,
        roles,
    };
    dead::check(&mapping)?;
    Ok(mapping)
}

/// A role whose tensors may be dropped without changing what the model computes.
fn ignored_role(lines: &Lines, name: &Spanned<String>) -> Result<Role> {
    let known = || Role::ALL.into_iter().filter(|role| *role != Role::Weight);
    known().find(|role| role.name() == name.get_ref()).ok_or_else(|| {
        let error = Error::mapping("no tensors of this role can be ignored")
            .field(format!("line {}, ignore_roles", lines.of(name.span().start)))
            .found(quote(name.get_ref()));
        match name.get_ref() == Role::Weight.name() {
            true => error.help("weights are dropped by their names: list them in 'ignore'"),
            false => error.help(nearest(name.get_ref(), known().map(Role::name))),
        }
    })
}

/// The steps of every role; each must be used.
fn roles(lines: &Lines, raw: &MappingFile, limits: &Limits) -> Result<Roles> {
    let used: BTreeSet<&str> = raw.rule.iter().filter_map(RuleText::role).collect();
    let mut roles = Roles::new();
    for (name, steps) in &raw.roles {
        let at = |error: Error| {
            error.field(format!("line {}, roles, {}", lines.of(steps.span().start), quote(name)))
        };
        if !used.contains(name.as_str()) {
            return Err(at(
                Error::mapping("no rule has this role").help("name it in a rule (role = …), or remove it")
            ));
        }
        roles.insert(name.clone(), parse_steps(steps.get_ref(), limits).map_err(at)?);
    }
    Ok(roles)
}

/// Checks that the table's names are names, and its targets are distinct.
/// `line` knows where a file gives a source.
pub(super) fn check_lookup(
    lookup: &BTreeMap<String, String>,
    limits: &Limits,
    line: impl Fn(&str) -> Option<usize>,
) -> Result<()> {
    limits.check(Limit::Tensors, lookup.len() as u64)?;
    let mut sources = BTreeMap::new();
    for (source, target) in lookup {
        let at = || {
            let line = line(source).map(|line| format!("line {line}, ")).unwrap_or_default();
            format!("{line}lookup, {}", quote(source))
        };
        for name in [source, target] {
            limits.check(Limit::NameBytes, name.len() as u64).map_err(|error| error.field(at()))?;
            if name.is_empty() {
                let error = Error::mapping("the lookup has an empty name").field(at());
                return Err(error.help("to drop a source name, list it in 'ignore'"));
            }
        }
        if let Some(other) = sources.insert(target, source) {
            return Err(Error::mapping("the lookup gives two sources one target")
                .field(at())
                .found(format!("{} and {} both become {}", quote(other), quote(source), quote(target)))
                .help("give each its own target, or list one in 'ignore'"));
        }
    }
    Ok(())
}

fn syntax(text: &str, error: &toml::de::Error) -> Error {
    let wrong = Error::mapping(format!("this is no mapping file: {}", error.message().trim()))
        .help(advice(error.message()));
    let Some(start) = error.span().map(|span| span.start) else { return wrong };
    let before = text.get(..start).unwrap_or_default();
    wrong
        .offset(u64::try_from(start).unwrap_or(u64::MAX))
        .field(format!("line {}", before.matches('\n').count() + 1))
}

/// Says what should perhaps stand there. The parser's message quotes an unknown key, then the known ones; of a wrong
/// type, it says the expected one last.
fn advice(message: &str) -> String {
    let place = "keys of the whole file stand before the first [lookup], [roles] or [[rule]]";
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown) if message.starts_with("unknown field") => {
            format!("{}; {place}", nearest(unknown, quoted))
        }
        _ if message.starts_with("missing field") => {
            "a [[rule]] has at least from = \"…\" and to = \"…\"".to_owned()
        }
        _ if message.starts_with("duplicate key") => "each key stands once: remove one of them".to_owned(),
        _ if message.starts_with("invalid type") => match message.rsplit_once("expected ") {
            Some((_, "a string")) => "write text in quotation marks: \"…\"".to_owned(),
            Some((_, "a boolean")) => "write true or false, without quotation marks".to_owned(),
            Some((_, "a sequence")) => {
                "write a list in brackets, [\"…\", \"…\"]; each rule begins with [[rule]]".to_owned()
            }
            Some((_, "a map")) => {
                "write a table: its heading in brackets, then lines of key = value".to_owned()
            }
            Some((_, expected)) => format!("write {expected}"),
            None => place.to_owned(),
        },
        _ => place.to_owned(),
    }
}

pub(super) fn check_count(key: &str, count: usize, limits: &Limits) -> Result<()> {
    limits.check(Limit::Rules, count as u64).map_err(|error| error.field(key))
}

/// One character that no typed capture can hold and that no pattern gives a meaning.
fn separator(key: &str, text: Option<&str>) -> Result<Option<char>> {
    let Some(text) = text else { return Ok(None) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if !c.is_alphanumeric() && !c.is_control() && !"_{}*".contains(c) => Ok(Some(c)),
        _ => Err(Error::mapping("the separator is not one punctuation character")
            .field(key)
            .found(quote(text))
            .expected("one character such as '/', '.' or ':'")),
    }
}
