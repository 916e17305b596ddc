//! A mapping read backwards.

use super::Mapping;
use super::pattern::Separators;
use super::rule::{Rule, twins};
use ckpt_api::{Error, Result};

/// Exchanges the sides of everything; each rule and capture that cannot is an error that names it.
pub(super) fn invert(mapping: &Mapping) -> Result<Mapping> {
    let numbered = mapping.rules.iter().zip(1..);
    let rules = numbered.map(|(rule, number): (&Rule, usize)| {
        rule.invert().map_err(|error| error.field(format!("rule {number}, {}", rule.describe())))
    });
    let rules = rules.collect::<Result<Vec<Rule>>>()?;
    if let Some((first, second)) = twins(&rules) {
        return Err(Error::mapping("two rules write targets of one form, so neither can be read backwards")
            .field(format!("rules {first} and {second}"))
            .help("give the targets of each rule a form of their own"));
    }
    Ok(Mapping {
        file: mapping.file.as_ref().map(|file| format!("inverse of {file}")),
        separators: Separators { source: mapping.separators.target, target: mapping.separators.source },
        identity: mapping.identity,
        ordered: mapping.ordered,
        ignore: Vec::new(),
        lookup: mapping.lookup.iter().map(|(source, target)| (target.clone(), source.clone())).collect(),
        rules,
    })
}
