//! What is wrong with a command line, as an error like any other.

use super::paths::NoPath;
use ckpt_api::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// The same facts, in the words and the order that all errors have.
pub(super) fn explained(error: &clap::Error) -> Error {
    let fact = |kind| error.get(kind).and_then(text);
    let (argument, value) = (fact(ContextKind::InvalidArg), fact(ContextKind::InvalidValue));
    let why = std::error::Error::source(error);
    if let Some(why) = why.and_then(|why| why.downcast_ref::<NoPath>()) {
        return why.error().field(argument.unwrap_or_default());
    }
    let is_option = argument.as_ref().is_some_and(|argument| argument.starts_with('-'));
    let mut usage = Error::usage(match error.kind() {
        ErrorKind::UnknownArgument if is_option => "unknown option".to_owned(),
        ErrorKind::UnknownArgument => "one argument too many".to_owned(),
        ErrorKind::InvalidSubcommand => "unknown command".to_owned(),
        ErrorKind::MissingRequiredArgument => "an argument is missing".to_owned(),
        ErrorKind::ArgumentConflict => "these arguments cannot be used together".to_owned(),
        ErrorKind::InvalidValue if value.as_deref() == Some("") => "the option needs a value".to_owned(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => "the option has a wrong value".to_owned(),
        _ => first_line(error),
    });
    let quoted = |text: &String| format!("'{text}'");
    match error.kind() {
        ErrorKind::UnknownArgument => usage = usage.found(argument.as_ref().map(quoted).unwrap_or_default()),
        ErrorKind::MissingRequiredArgument => usage = usage.expected(argument.unwrap_or_default()),
        _ => {
            if let Some(argument) = argument {
                usage = usage.field(argument);
            }
        }
    }
    let found = value.filter(|value| !value.is_empty()).or_else(|| fact(ContextKind::InvalidSubcommand));
    let found = found.as_ref().map(quoted).or_else(|| fact(ContextKind::PriorArg));
    if let Some(found) = found {
        usage = match why.map(|why| (number(why), why)) {
            None => usage.found(found),
            Some((Some(expected), _)) => usage.found(found).expected(expected),
            Some((None, why)) => usage.found(format!("{found}: {why}")),
        };
    }
    let known = fact(ContextKind::ValidValue).or_else(|| fact(ContextKind::ValidSubcommand));
    if let Some(known) = known.filter(|known| !known.is_empty()) {
        usage = usage.expected(known);
    }
    usage.help(help(error))
}

/// The number that was expected, where a text is none: the parser's own words are for programmers.
fn number(why: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if why.is::<ParseFloatError>() {
        return Some("a number such as 0.001 or 1e-3");
    }
    Some(match why.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::Zero => "a whole number from 1 on",
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "a number nearer to 0",
        _ => "a whole number such as 8",
    })
}

/// What was perhaps meant, and how the command is used.
fn help(error: &clap::Error) -> String {
    let fact = |kind| error.get(kind).and_then(text);
    let meant = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let renamed = fact(ContextKind::InvalidArg).and_then(|given| renamed(&given));
    let meant: Vec<String> = match renamed {
        Some(name) => vec![name.to_owned()],
        None => meant.into_iter().filter_map(fact).collect(),
    };
    let mut parts: Vec<String> = meant.iter().map(|name| format!("did you mean '{name}'?")).collect();
    if is_map_of_diff(error) {
        parts.push("`verify A B --map MAPPING` compares tensors whose names differ;".to_owned());
    }
    // Files are hardly called like options.
    let tip = fact(ContextKind::Suggested).filter(|tip| !tip.is_empty() && !tip.contains("as a value"));
    parts.extend(tip.map(|tip| format!("{tip};")));
    // The usage of a command with the option that clap takes for the nearest says nothing about another one.
    parts.extend(fact(ContextKind::Usage).filter(|_| renamed.is_none()).map(|usage| {
        let usage: Vec<&str> = usage.split_whitespace().collect();
        format!("{};", usage.join(" ").replacen("Usage:", "usage:", 1))
    }));
    parts.push("--help says more".to_owned());
    parts.join(" ")
}

/// What an option is called whose name was another once, or is elsewhere: the nearest name would be the format of
/// results.
fn renamed(given: &str) -> Option<&'static str> {
    match given.split_once('=').map_or(given, |(name, _)| name) {
        "--a-format" => Some("--a-from"),
        "--b-format" => Some("--b-from"),
        "--from-format" | "--input-format" => Some("--from"),
        "--to-format" | "--output-format" => Some("--to"),
        _ => None,
    }
}

/// Whether `diff` got the option of `verify` for checkpoints whose names differ.
fn is_map_of_diff(error: &clap::Error) -> bool {
    let fact = |kind| error.get(kind).and_then(text);
    let is_diff =
        fact(ContextKind::Usage).is_some_and(|usage| usage.split_whitespace().nth(2) == Some("diff"));
    is_diff && fact(ContextKind::InvalidArg).is_some_and(|given| given.split('=').next() == Some("--map"))
}

fn text(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::None => None,
        ContextValue::Bool(value) => Some(value.to_string()),
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => {
            Some(texts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        ContextValue::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The message of clap itself, without its heading.
fn first_line(error: &clap::Error) -> String {
    let shown = error.render().to_string();
    let line = shown.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::Parser;

    fn told(line: &str) -> String {
        match Cli::try_parse_from(line.split(' ')) {
            Err(error) => explained(&error).to_string(),
            Ok(_) => panic!("'{line}' is accepted"),
        }
    }

    #[test]
    fn every_sort_of_wrong_command_line_says_what_was_found_and_what_was_expected() {
        for (line, says) in [
            (
                "ckpt convert a b --no-synk",
                &["unknown option", "'--no-synk'", "did you mean '--no-sync'?"][..],
            ),
            ("ckpt inspekt a", &["unknown command", "'inspekt'", "did you mean 'inspect'?"]),
            ("ckpt map chek a b", &["unknown command", "'chek'", "did you mean 'check'?"]),
            (
                "ckpt inspect a --format jsn",
                &["wrong value", "--format", "'jsn'", "human, json", "did you mean 'json'?"],
            ),
            ("ckpt formats a b", &["one argument too many", "'b'", "usage: ckpt formats"]),
            ("ckpt convert a", &["an argument is missing", "<OUTPUT>", "usage: ckpt convert"]),
            ("ckpt convert a b -j x", &["wrong value", "--threads", "'x'", "a whole number such as 8"]),
            ("ckpt inspect a --depth 0", &["wrong value", "--depth", "'0'", "a whole number from 1 on"]),
            ("ckpt diff a b --rtol abc", &["wrong value", "--rtol", "'abc'", "a number such as 0.001"]),
            ("ckpt diff a b --map c", &["unknown option", "`verify A B --map MAPPING`"]),
            ("ckpt inspect a --graph --stats", &["cannot be used together", "--graph", "--stats"]),
            ("ckpt inspect a --graph --html p", &["cannot be used together", "--graph", "--html"]),
            (
                "ckpt convert a b --dry-run --receipt r",
                &["cannot be used together", "--dry-run", "--receipt"],
            ),
            ("ckpt convert a b --map", &["needs a value", "--map <FILE|NAME>"]),
            ("ckpt formats nn --matrix", &["cannot be used together"]),
            ("ckpt diff a b --a-format nn", &["'--a-format'", "did you mean '--a-from'?"]),
            ("ckpt completions fsh", &["'fsh'", "bash", "did you mean 'fish'?"]),
        ] {
            let told = told(line);
            for text in says {
                assert!(told.contains(text), "'{line}' does not say {text:?}: {told}");
            }
            assert!(
                told.ends_with("--help says more")
                    && !told.contains("as a value")
                    && !told.contains('\n')
                    && !told.contains(" ;"),
                "{told}"
            );
        }
    }
}
