//! Refuses rules that never apply.

use super::definition::Mapping;
use super::rule::{Rule, twins};
use crate::pattern::{Class, Part, Pattern, includes};
use crate::words::quote;
use ckpt_api::{Error, Result};

/// The most work, in bytes of names × bytes of patterns, that the search for hidden rules may take. The search is a
/// help; a hostile mapping must not use it to keep the program busy.
const MAX_WORK: usize = 100_000_000;
/// The most steps of all proofs that a pattern includes another.
const MAX_STEPS: usize = 1_000_000;

/// Refuses rules that match exactly the names of another rule, and rules of which an earlier entry takes all names.
pub(super) fn check(mapping: &Mapping) -> Result<()> {
    if let Some((first, second)) = twins(&mapping.rules) {
        return Err(Error::mapping("two rules match exactly the same names")
            .field(format!("rules {first} and {second}"))
            .found(mapping.describe_rule(second.saturating_sub(1)))
            .help("remove one of them"));
    }
    let searched = is_small(mapping);
    let mut steps = MAX_STEPS;
    for (index, rule) in mapping.rules.iter().enumerate() {
        for form in &rule.from {
            let listed = form.as_literal().filter(|name| mapping.lookup.contains_key(*name));
            let hides = match listed {
                Some(name) => {
                    Some(format!("{} is in [lookup]: {}", quote(name), mapping.describe_lookup(name)))
                }
                None if searched => hidden(mapping, index, form, &mut steps),
                None => None,
            };
            if let Some(hides) = hides {
                return Err(Error::mapping("a rule never applies")
                    .field(mapping.describe_rule(index))
                    .found(hides)
                    .help("remove the rule, narrow the entry that hides it, or change the order"));
            }
        }
    }
    Ok(())
}

/// Describes the entry that takes every name of this form before the rule can.
fn hidden(mapping: &Mapping, index: usize, form: &Pattern, steps: &mut usize) -> Option<String> {
    let separator = mapping.separators.source;
    let samples = samples(form, separator);
    let mut covers = |other: &Pattern| {
        samples.iter().all(|name| other.matches(name, separator).is_some())
            && includes(other, form, separator, steps)
    };
    if let Some(ignore) = mapping.ignore.iter().position(|ignore| covers(&ignore.pattern)) {
        let name = quote(&form.as_source());
        return Some(format!("{} drops all of {name}", mapping.describe_ignore(ignore)));
    }
    let earlier = if mapping.ordered { index } else { 0 };
    let first = mapping.rules.iter().take(earlier).position(|rule| rule.from.iter().any(&mut covers))?;
    Some(format!(
        "{} comes first, and matches all of {}",
        mapping.describe_rule(first),
        quote(&form.as_source())
    ))
}

/// Returns two names of this form whose captures share no character and no length. Few patterns match both unless they
/// match all names of the form: only these few need a proof.
fn samples(form: &Pattern, separator: char) -> [String; 2] {
    let sample = |second: bool| {
        let parts = form.parts.iter().map(|part| match part {
            Part::Literal(text) => text.clone(),
            Part::Wildcard(class) | Part::Capture { class, .. } => match (class, second) {
                (Class::Star | Class::DoubleStar, _) => String::new(),
                (Class::Int, false) => "7".to_owned(),
                (Class::Int, true) => "86".to_owned(),
                (Class::Padded(width), second) => if second { "2" } else { "0" }.repeat(usize::from(*width)),
                (Class::Word, false) => "q".to_owned(),
                (Class::Word, true) => "Z_9".to_owned(),
                // Characters of private use, which only classes of any character match.
                (Class::Path, true) => format!("\u{e001}\u{e001}{separator}\u{e001}"),
                (_, true) => "\u{e001}\u{e001}".to_owned(),
                (_, false) => "\u{e000}".to_owned(),
            },
        });
        parts.collect()
    };
    [sample(false), sample(true)]
}

fn is_small(mapping: &Mapping) -> bool {
    let size = |forms: &mut dyn Iterator<Item = &Pattern>| {
        forms.map(|form| form.as_source().len()).fold(0usize, usize::saturating_add)
    };
    let rules = size(&mut mapping.rules.iter().flat_map(|rule: &Rule| &rule.from));
    let ignored = size(&mut mapping.ignore.iter().map(|ignore| &ignore.pattern));
    rules.saturating_mul(rules.saturating_add(ignored)) <= MAX_WORK
}
