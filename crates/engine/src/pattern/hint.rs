//! Hints for patterns that match nothing.

use super::parts::Pattern;
use super::set::PatternSet;
use crate::words::{count, quote};

/// Returns, for each pattern, which names it would match if its `*` crossed separators, as it does in Python's
/// `fnmatch`; `None` if that makes no difference. For patterns that match none of the names.
pub(crate) fn hints<'n>(
    patterns: &[&Pattern],
    names: impl Iterator<Item = &'n str>,
    separator: char,
) -> Vec<Option<String>> {
    let wider: Vec<Option<Pattern>> = patterns.iter().map(|pattern| pattern.across_segments()).collect();
    if wider.iter().all(Option::is_none) {
        return vec![None; patterns.len()];
    }
    // A pattern without a `*` stays as it is, and matches nothing here, either.
    let compiled = wider.iter().zip(patterns).map(|(wider, own)| wider.as_ref().unwrap_or(own));
    let mut set = PatternSet::new(compiled, separator);
    let mut matched: Vec<(usize, &str)> = vec![(0, ""); patterns.len()];
    for name in names {
        for number in set.matches(name) {
            if let Some((count, last)) = matched.get_mut(number) {
                *count += 1;
                *last = name;
            }
        }
    }
    let hint = |(wider, (matches, last)): (Option<Pattern>, (usize, &str))| {
        let wider = wider.filter(|_| matches > 0)?;
        let matches = count(matches, "name");
        Some(format!("{} would match {matches}, such as {}", quote(&wider.as_source()), quote(last)))
    };
    wider.into_iter().zip(matched).map(hint).collect()
}
