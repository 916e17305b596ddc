//! Patterns that a user gives to choose tensors: each must match one.

use super::hint::hints;
use super::parts::{Pattern, SEPARATOR};
use super::set::PatternSet;
use ckpt_api::{Error, Limit, Limits, Result, nearest};

/// A pattern of tensor names, with the text that the user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    pattern: Pattern,
}

impl Selector {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a malformed pattern.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        // The limits are for files of others; this is the user's own text.
        let limits = [Limit::Captures, Limit::NameBytes, Limit::PatternBytes]
            .into_iter()
            .fold(Limits::default(), |limits, limit| limits.with(limit, u64::MAX));
        let pattern = Pattern::selecting(text, &limits).map_err(|error| usage(&error, text))?;
        Ok(Selector { text: text.to_owned(), pattern })
    }

    /// Returns the text that was parsed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns, for each name, the indices of the selectors that match it, in order.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a selector that matches no name.
    pub(crate) fn matches(selectors: &[Selector], names: &[&str]) -> Result<Vec<Vec<usize>>> {
        let mut set = PatternSet::new(selectors.iter().map(|selector| &selector.pattern), SEPARATOR);
        let matches: Vec<Vec<usize>> = names.iter().map(|name| set.matches(name)).collect();
        let mut is_used = vec![false; selectors.len()];
        for index in matches.iter().flatten() {
            is_used.get_mut(*index).into_iter().for_each(|is_used| *is_used = true);
        }
        match selectors.iter().zip(is_used).find(|(_, is_used)| !is_used) {
            Some((unused, _)) => Err(unused.no_match(names)),
            None => Ok(matches),
        }
    }

    /// Returns, for each name, whether an `include` pattern matches it, or there is none, and no `exclude` pattern
    /// does.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a malformed pattern, for one that matches nothing, or when no name is left.
    pub fn choose(include: &[String], exclude: &[String], names: &[&str]) -> Result<Vec<bool>> {
        let any = |patterns: &[String]| -> Result<Vec<bool>> {
            let selectors = patterns.iter().map(|text| Selector::parse(text)).collect::<Result<Vec<_>>>()?;
            let matches = Selector::matches(&selectors, names)?;
            Ok(matches.iter().map(|selectors| !selectors.is_empty()).collect())
        };
        let (included, excluded) = (any(include)?, any(exclude)?);
        let is_chosen = |(included, excluded): (&bool, &bool)| (include.is_empty() || *included) && !excluded;
        let chosen: Vec<bool> = included.iter().zip(&excluded).map(is_chosen).collect();
        if !names.is_empty() && !chosen.contains(&true) {
            return Err(Error::usage("no tensor is left").help("include more tensors, or exclude fewer"));
        }
        Ok(chosen)
    }

    fn no_match(&self, names: &[&str]) -> Error {
        let hint = hints(&[&self.pattern], names.iter().copied(), SEPARATOR).pop().flatten();
        let help = hint.map(|hint| format!("{hint}: '*' does not cross '{SEPARATOR}'"));
        Error::usage("the pattern matches no tensor")
            .field(self.text.as_str())
            .help(help.unwrap_or_else(|| nearest(&self.text, names.iter().copied())))
    }
}

/// Turns the error of a pattern in a file into that of an argument.
fn usage(error: &Error, text: &str) -> Error {
    let context = error.context();
    let mut usage = Error::usage(error.message()).field(text);
    if let Some(found) = context.found {
        usage = usage.found(found);
    }
    if let Some(expected) = context.expected {
        usage = usage.expected(expected);
    }
    match context.help {
        Some(help) => usage.help(help),
        None => usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    const NAMES: [&str; 4] = ["digits/hidden/kernel", "digits/hidden/bias", "digits/kernel", "step"];

    fn matches(patterns: &[&str]) -> Result<Vec<Vec<usize>>> {
        let selectors = patterns.iter().map(|text| Selector::parse(text)).collect::<Result<Vec<_>>>()?;
        Selector::matches(&selectors, &NAMES)
    }

    #[test]
    fn every_name_gets_the_selectors_that_match_it() {
        let found = matches(&["digits/*", "**/kernel", "{x}"]).unwrap();
        assert_eq!(found, [vec![1], vec![], vec![0, 1], vec![2]]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_says_what_it_would_match_if_stars_crossed_separators() {
        let error = matches(&["**/kernel", "*/bias"]).unwrap_err();
        assert_eq!((error.kind(), error.context().field), (Kind::Usage, Some("*/bias")));
        let help = "'**/bias' would match 1 name, such as 'digits/hidden/bias': '*' does not cross '/'";
        assert_eq!(error.context().help, Some(help));
        let error = matches(&["stop"]).unwrap_err();
        assert!(error.to_string().contains("did you mean 'step'"), "{error}");
    }

    #[test]
    fn a_malformed_pattern_is_an_error_of_usage_with_its_text() {
        let error = matches(&["a/{x"]).unwrap_err();
        assert_eq!((error.kind(), error.context().field), (Kind::Usage, Some("a/{x")));
        assert!(error.to_string().contains("'{' without '}'"), "{error}");
    }

    #[test]
    fn the_length_of_an_argument_is_not_limited() {
        assert!(Selector::parse(&"*a".repeat(10_000)).is_ok());
    }
}
