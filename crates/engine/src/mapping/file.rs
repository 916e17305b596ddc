//! Reads a mapping file.

use super::dead;
use super::definition::{Frameworks, Ignore, Mapping, Need, Parameters, Roles};
use super::lookup::{Entry, Lookup, check_lookup};
use super::needs;
use super::parameters;
use super::rule::{Rule, Separators, check_count};
use super::rule_text::{Context, Lines, RuleText, parse_steps};
use crate::pattern::{Pattern, SEPARATOR};
use crate::words::quote;
use ckpt_api::{Error, Limit, Limits, Result, Role, nearest};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

impl Mapping {
    /// Reads a mapping file; `file` names it in errors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] with the line, key or rule that is wrong; [`ckpt_api::Kind::Limit`] for a file,
    /// name, pattern or number of rules that is too large.
    pub fn from_toml(text: &str, file: &str) -> Result<Self> {
        Self::from_toml_within(text, file, &Limits::default())
    }

    /// As [`Mapping::from_toml`], within limits of the caller's.
    ///
    /// # Errors
    /// As [`Mapping::from_toml`].
    pub fn from_toml_within(text: &str, file: &str, limits: &Limits) -> Result<Self> {
        let mapping = parse(text, limits).map_err(|error| error.file(file))?;
        Ok(Mapping { origin: Some(file.to_owned()), ..mapping })
    }
}

/// A mapping file as TOML has it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingFile {
    title: Option<String>,
    source_framework: Option<String>,
    target_framework: Option<String>,
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
    parameters: Parameters,
    #[serde(default)]
    needs: Vec<Need>,
    #[serde(default)]
    lookup: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    rule: Vec<RuleText>,
}

fn parse(text: &str, limits: &Limits) -> Result<Mapping> {
    limits.check(Limit::TextBytes, text.len() as u64)?;
    check_tokens(text, limits)?;
    let raw: MappingFile = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    check_count("rule", raw.rule.len(), limits)?;
    check_count("ignore", raw.ignore.len(), limits)?;
    check_count("roles", raw.roles.len(), limits)?;
    check_count("parameters", raw.parameters.len(), limits)?;
    check_count("needs", raw.needs.len(), limits)?;
    let lines = Lines::new(text);
    let source = separator("separator", raw.separator.as_deref())?;
    let target = separator("target_separator", raw.target_separator.as_deref())?;
    let roles = roles(&lines, &raw, limits)?;
    let rules = rules(&lines, &raw.rule, &roles, limits)?;
    let ignore = raw.ignore.iter().map(|text| ignore(&lines, text, limits));
    let ignore_roles = raw.ignore_roles.iter().map(|name| ignored_role(&lines, name));
    let mapping = Mapping {
        origin: None,
        title: raw.title,
        frameworks: Frameworks { source: raw.source_framework, target: raw.target_framework },
        separators: Separators {
            source: source.unwrap_or(SEPARATOR),
            target: target.or(source).unwrap_or(SEPARATOR),
        },
        identity: raw.identity,
        ordered: raw.ordered,
        ignore: ignore.collect::<Result<_>>()?,
        ignore_roles: ignore_roles.collect::<Result<_>>()?,
        is_builtin: false,
        lookup: lookup(&lines, raw.lookup),
        rules,
        roles,
        parameters: raw.parameters,
        needs: raw.needs,
        generated: None,
    };
    parameters::check(&mapping, limits)?;
    needs::check(&mapping.needs)?;
    check_lookup(&mapping.lookup, limits)?;
    dead::check(&mapping)?;
    Ok(mapping)
}

/// Checks the number of tokens of a TOML text before the parser allocates memory for each: about 100 bytes, for a token
/// that may be a single byte of the text.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub fn check_tokens(text: &str, limits: &Limits) -> Result<()> {
    // The lexer adds one for the end of the text.
    let tokens = toml_parser::Source::new(text).lex().skip(1).count();
    limits.check(Limit::TextTokens, tokens as u64)
}

fn lookup(lines: &Lines, entries: BTreeMap<String, Spanned<String>>) -> Lookup {
    let entries = entries.into_iter().map(|(source, target)| {
        let line = Some(lines.of(target.span().start));
        (source, Entry { target: target.into_inner(), line })
    });
    entries.collect()
}

fn rules(lines: &Lines, texts: &[RuleText], roles: &Roles, limits: &Limits) -> Result<Vec<Rule>> {
    let numbered = texts.iter().zip(1..);
    numbered.map(|(rule, number)| rule.parse(&Context { lines, number, roles, limits })).collect()
}

fn ignore(lines: &Lines, text: &Spanned<String>, limits: &Limits) -> Result<Ignore> {
    let line = lines.of(text.span().start);
    let pattern = Pattern::selecting(text.get_ref(), limits)
        .map_err(|error| error.field(format!("line {line}, ignore, {}", quote(text.get_ref()))))?;
    Ok(Ignore { pattern, line: Some(line) })
}

/// Parses a role whose tensors can be dropped without changing what the model computes.
fn ignored_role(lines: &Lines, name: &Spanned<String>) -> Result<Role> {
    let known = || Role::ALL.into_iter().filter(|role| *role != Role::Weight);
    known().find(|role| role.name() == name.get_ref()).ok_or_else(|| {
        let error = Error::mapping("'ignore_roles' does not accept this role")
            .field(format!("line {}, ignore_roles", lines.of(name.span().start)))
            .found(quote(name.get_ref()));
        match name.get_ref() == Role::Weight.name() {
            true => error.help("drop weights by their names: list them in 'ignore'"),
            false => error.help(nearest(name.get_ref(), known().map(Role::name))),
        }
    })
}

/// Parses the steps of every role; a rule must name each.
fn roles(lines: &Lines, raw: &MappingFile, limits: &Limits) -> Result<Roles> {
    let used: BTreeSet<&str> = raw.rule.iter().filter_map(RuleText::role).collect();
    let mut roles = Roles::new();
    for (name, steps) in &raw.roles {
        let located = |error: Error| {
            error.field(format!("line {}, roles, {}", lines.of(steps.span().start), quote(name)))
        };
        if !used.contains(name.as_str()) {
            return Err(located(
                Error::mapping("no rule uses this role").help("name it in a rule (role = …), or remove it"),
            ));
        }
        roles.insert(name.clone(), parse_steps(steps.get_ref(), limits).map_err(located)?);
    }
    Ok(roles)
}

fn syntax(text: &str, error: &toml::de::Error) -> Error {
    let wrong = Error::mapping(format!("the mapping file cannot be read: {}", error.message().trim()))
        .help(advice(error.message()));
    let Some(start) = error.span().map(|span| span.start) else { return wrong };
    let before = text.get(..start).unwrap_or_default();
    wrong
        .offset(u64::try_from(start).unwrap_or(u64::MAX))
        .field(format!("line {}", before.matches('\n').count() + 1))
}

/// Suggests a correction for a message of the TOML parser, which quotes an unknown key before the known ones, and names
/// the expected type last.
fn advice(message: &str) -> String {
    let place = "write keys of the whole file before the first [lookup], [roles] or [[rule]]";
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown) if message.starts_with("unknown field") => {
            format!("{}; {place}", nearest(unknown, quoted))
        }
        _ if message.starts_with("missing field") => {
            "a [[rule]] needs from = \"…\" and to = \"…\"".to_owned()
        }
        _ if message.starts_with("duplicate key") => "remove one of the two".to_owned(),
        _ if message.starts_with("invalid type") => match message.rsplit_once("expected ") {
            Some((_, "a string")) => "write text in quotation marks: \"…\"".to_owned(),
            Some((_, "a boolean")) => "write true or false, without quotation marks".to_owned(),
            Some((_, "a sequence")) => {
                "write a list in brackets, [\"…\", \"…\"]; begin each rule with [[rule]]".to_owned()
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

/// Parses a separator: one character that is in no number or word, and that patterns give no meaning.
fn separator(key: &str, text: Option<&str>) -> Result<Option<char>> {
    let Some(text) = text else { return Ok(None) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if !c.is_alphanumeric() && !c.is_control() && !"_{}*?".contains(c) => Ok(Some(c)),
        _ => Err(Error::mapping("the separator is not a punctuation character")
            .field(key)
            .found(quote(text))
            .expected("one character such as '/', '.' or ':'")),
    }
}
