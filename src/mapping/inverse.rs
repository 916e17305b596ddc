//! A mapping read backwards.

use super::Mapping;
use super::file::Places;
use super::pattern::{Pattern, Separators};
use super::relation::Link;
use super::rule::{Rule, inverse_steps, twins};
use super::{dead, file};
use ckpt_api::{Error, Limits, Result};

/// Exchanges the sides of everything; each rule and capture that cannot is an error that names it.
pub(super) fn invert(mapping: &Mapping) -> Result<Mapping> {
    let rules = (0..mapping.rules.len()).map(|index| invert_rule(mapping, index));
    let rules = rules.collect::<Result<Vec<Rule>>>()?;
    if let Some((first, second)) = twins(&rules) {
        return Err(Error::mapping("two rules write targets of one form, so neither can be read backwards")
            .field(format!("rules {first} and {second}"))
            .help("give the targets of each rule a form of their own, or say inverse = false in one"));
    }
    let roles = mapping.roles.iter().map(|(name, steps)| (name.clone(), inverse_steps(steps)));
    let inverse = Mapping {
        file: mapping.file.as_ref().map(|file| format!("inverse of {file}")),
        title: mapping.title.as_ref().map(|title| format!("inverse of {title}")),
        separators: Separators { source: mapping.separators.target, target: mapping.separators.source },
        identity: mapping.identity,
        ordered: mapping.ordered,
        ignore: Vec::new(),
        ignore_roles: Vec::new(),
        builtin: mapping.builtin,
        roles: roles.collect(),
        lookup: mapping.lookup.iter().map(|(source, target)| (target.clone(), source.clone())).collect(),
        places: Places {
            lookup: mapping
                .lookup
                .iter()
                .filter_map(|(source, target)| Some((target.clone(), *mapping.places.lookup.get(source)?)))
                .collect(),
            ignore: Vec::new(),
        },
        rules,
    };
    // What hides a rule backwards does so for all names, so it cannot lead back; nor could a file say it.
    dead::check(&inverse).map_err(|error| inverse.located(error))?;
    Ok(inverse)
}

/// One rule read backwards; the error names it.
pub(super) fn invert_rule(mapping: &Mapping, index: usize) -> Result<Rule> {
    let rule = mapping.rules.get(index).ok_or_else(|| Error::mapping("no such rule"))?;
    rule.invert().map_err(|error| error.field(mapping.describe_rule(index)))
}

/// The inverse as a plain table of what was done to actual names.
pub(super) fn table(links: &[Link], separators: Separators) -> Result<Mapping> {
    let (plain, other): (Vec<_>, Vec<_>) = links.iter().partition(|link| link.is_plain());
    file::check_count("rule", other.len(), &Limits::default())?;
    let literals = |names: &[String]| names.iter().map(|name| Pattern::literal(name)).collect();
    let rules = other.iter().map(|link| link.inverse()).map(|link| Rule {
        line: None,
        from: literals(&link.sources),
        to: literals(&link.targets),
        relation: link.relation,
        role: None,
        steps: link.steps,
        invertible: true,
    });
    let lookup = plain.iter().flat_map(|link| link.targets.iter().cloned().zip(link.sources.iter().cloned()));
    Ok(Mapping {
        separators: Separators { source: separators.target, target: separators.source },
        identity: false,
        lookup: lookup.collect(),
        rules: rules.collect(),
        ..Mapping::identity()
    })
}
