//! What a misspelled name may have meant.

use crate::first_few;

/// "did you mean" and the known names, as an error's help.
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let scored = scored(wrong, known);
    let Some((best, _)) = scored.first().copied() else {
        return "there are none".to_owned();
    };
    // Of names that end in a number, the highest is the newest.
    let alike = scored.iter().take_while(|(score, _)| *score >= best).map(|(_, name)| *name);
    let name = alike.max().unwrap_or_default();
    let mut names: Vec<&str> = scored.iter().map(|(_, name)| *name).collect();
    let shown = names.len().min(SHOWN);
    names.get_mut(..shown).unwrap_or_default().sort_unstable();
    let known = format!("known: {}", first_few(names, SHOWN));
    if best > ALIKE { format!("did you mean '{name}'? {known}") } else { known }
}

/// The known names that may have been meant, the most alike first.
pub(crate) fn all_alike<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let scored = scored(wrong, known).into_iter();
    scored.take_while(|(score, _)| *score > ALIKE).map(|(_, name)| name).collect()
}

/// Names that are more alike than this may have been meant.
const ALIKE: f64 = 0.8;

/// How alike each name is, the most alike first. What is far longer than a name that somebody types is not looked at
/// in its whole length.
fn scored<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Vec<(f64, &'a str)> {
    const COMPARED: usize = 256;
    let cut = |name: &str| name.chars().take(COMPARED).collect::<String>();
    let wrong = cut(wrong);
    let mut scored: Vec<(f64, &str)> =
        known.map(|name| (strsim::jaro_winkler(&wrong, &cut(name)), name)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored
}
