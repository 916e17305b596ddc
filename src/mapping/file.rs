//! The mapping file: TOML to [`Mapping`] and back.

use super::pattern::{Pattern, Separators};
use super::rule::{Rule, twins};
use super::{MAX_RULES, Mapping, quote};
use ckpt_api::{Error, Limits, Result};
use std::collections::BTreeMap;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingFile {
    separator: Option<String>,
    target_separator: Option<String>,
    #[serde(default)]
    identity: bool,
    #[serde(default)]
    ordered: bool,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    lookup: BTreeMap<String, String>,
    #[serde(default)]
    rule: Vec<RuleText>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    from: String,
    to: String,
}

/// Reads a mapping file.
pub(super) fn parse(text: &str, file: &str) -> Result<Mapping> {
    Limits::default().check("header_bytes", length(text))?;
    let raw: MappingFile = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    check_lookup(&raw.lookup)?;
    check_count("rule", raw.rule.len())?;
    check_count("ignore", raw.ignore.len())?;
    let source = separator("separator", raw.separator.as_deref())?;
    let target = separator("target_separator", raw.target_separator.as_deref())?;
    let ignore = raw
        .ignore
        .iter()
        .map(|text| Pattern::ignored(text).map_err(|error| error.field(format!("ignore, {}", quote(text)))));
    let numbered = raw.rule.iter().zip(1..);
    let rules = numbered.map(|(rule, number)| Rule::parse(number, &rule.from, &rule.to));
    let rules = rules.collect::<Result<Vec<_>>>()?;
    if let Some((first, second)) = twins(&rules) {
        return Err(Error::mapping("two rules match exactly the same names")
            .field(format!("rules {first} and {second}"))
            .help("remove one of them"));
    }
    Ok(Mapping {
        file: Some(file.to_owned()),
        separators: Separators { source: source.unwrap_or('/'), target: target.or(source).unwrap_or('/') },
        identity: raw.identity,
        ordered: raw.ordered,
        ignore: ignore.collect::<Result<_>>()?,
        lookup: raw.lookup,
        rules,
    })
}

/// Checks that the table's names are names, and its targets are distinct.
pub(super) fn check_lookup(lookup: &BTreeMap<String, String>) -> Result<()> {
    let limits = Limits::default();
    limits.check("tensors", u64::try_from(lookup.len()).unwrap_or(u64::MAX))?;
    let mut sources = BTreeMap::new();
    for (source, target) in lookup {
        let at = || format!("lookup, {}", quote(source));
        for name in [source, target] {
            limits.check("name_bytes", length(name)).map_err(|error| error.field(at()))?;
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

/// Writes what [`parse`] reads, without what is default.
pub(super) fn print(mapping: &Mapping) -> String {
    let mut text = String::new();
    let Separators { source, target } = mapping.separators;
    if source != '/' {
        text += &format!("separator = {}\n", string(&source.to_string()));
    }
    if target != source {
        text += &format!("target_separator = {}\n", string(&target.to_string()));
    }
    for (key, set) in [("identity", mapping.identity), ("ordered", mapping.ordered)] {
        if set {
            text += &format!("{key} = true\n");
        }
    }
    if !mapping.ignore.is_empty() {
        let patterns: Vec<String> = mapping.ignore.iter().map(|one| string(&one.as_source())).collect();
        text += &format!("ignore = [{}]\n", patterns.join(", "));
    }
    if !mapping.lookup.is_empty() {
        text += "\n[lookup]\n";
    }
    for (from, to) in &mapping.lookup {
        text += &format!("{} = {}\n", string(from), string(to));
    }
    for rule in &mapping.rules {
        let (from, to) = (string(&rule.from.as_source()), string(&rule.to.as_target()));
        text += &format!("\n[[rule]]\nfrom = {from}\nto = {to}\n");
    }
    text
}

/// A TOML basic string.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn syntax(text: &str, error: &toml::de::Error) -> Error {
    let wrong = Error::mapping(format!("this is no mapping file: {}", error.message().trim()))
        .help("keys are separator, target_separator, identity, ordered and ignore, before the first [lookup] or [[rule]]");
    let Some(start) = error.span().map(|span| span.start) else { return wrong };
    let before = text.get(..start).unwrap_or_default();
    wrong
        .offset(u64::try_from(start).unwrap_or(u64::MAX))
        .field(format!("line {}", before.matches('\n').count() + 1))
}

fn check_count(key: &str, count: usize) -> Result<()> {
    if count <= MAX_RULES {
        return Ok(());
    }
    Err(Error::limit(format!("the mapping has too many entries of '{key}'"))
        .field(key)
        .found(count.to_string())
        .expected(format!("at most {MAX_RULES}"))
        .help("say with one pattern what many say, or use [lookup]"))
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
