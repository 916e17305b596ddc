//! Reads a mapping backwards.

use super::dead;
use super::definition::{Frameworks, Generated, Mapping};
use super::lookup::Entry;
use super::relation::{Link, Relation, inverse_steps};
use super::rule::{Rule, Separators, check_count, twins};
use crate::pattern::Pattern;
use crate::words::printable;
use ckpt_api::{Error, Limits, Result};

impl Mapping {
    /// Returns the mapping read backwards. Names that `ignore` drops do not come back. That the inverse returns the
    /// sources is certain only for the names on which [`Mapping::apply`] has proved it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] naming the rule, and the capture, that has no inverse.
    pub fn inverse(&self) -> Result<Self> {
        invert(self).map_err(|error| self.located(error))
    }
}

fn invert(mapping: &Mapping) -> Result<Mapping> {
    if let Some(Generated { generator, is_inverse }) = &mapping.generated {
        let generated = Generated { generator: generator.clone(), is_inverse: !is_inverse };
        return Ok(Mapping { generated: Some(generated), ..mapping.clone() });
    }
    let rules = (0..mapping.rules.len()).map(|index| invert_rule(mapping, index));
    let rules = rules.collect::<Result<Vec<Rule>>>()?;
    if let Some((first, second)) = twins(&rules) {
        return Err(Error::mapping(
            "two rules produce the same form of target names, so neither can be inverted",
        )
        .field(format!("rules {first} and {second}"))
        .help("make the target patterns of the two rules distinct, or set inverse = false in one"));
    }
    let roles = mapping.roles.iter().map(|(name, steps)| (name.clone(), inverse_steps(steps)));
    let lookup = mapping.lookup.iter().map(|(source, Entry { target, line })| {
        (target.clone(), Entry { target: source.clone(), line: *line })
    });
    let inverse = Mapping {
        origin: mapping.origin.as_ref().map(|origin| format!("inverse of {origin}")),
        title: mapping.title.as_ref().map(|title| format!("inverse of {title}")),
        frameworks: Frameworks {
            source: mapping.frameworks.target.clone(),
            target: mapping.frameworks.source.clone(),
        },
        separators: Separators { source: mapping.separators.target, target: mapping.separators.source },
        identity: mapping.identity,
        ordered: mapping.ordered,
        ignore: Vec::new(),
        ignore_roles: Vec::new(),
        is_builtin: mapping.is_builtin,
        roles: roles.collect(),
        parameters: mapping.parameters.clone(),
        needs: Vec::new(),
        lookup: lookup.collect(),
        rules,
        generated: None,
    };
    // A rule that another hides has no effect on any name, so it is no inverse; and a file could not contain it.
    dead::check(&inverse).map_err(|error| inverse.located(error))?;
    Ok(inverse)
}

/// Returns one rule read backwards; an error names it.
pub(super) fn invert_rule(mapping: &Mapping, index: usize) -> Result<Rule> {
    let rule = mapping.rules.get(index).ok_or_else(|| Error::mapping("no such rule"))?;
    rule.invert().map_err(|error| error.field(mapping.describe_rule(index)))
}

/// Returns the inverse as a table of actual names.
pub(super) fn table(links: &[Link], separators: Separators) -> Result<Mapping> {
    let (renames, others): (Vec<_>, Vec<_>) = links.iter().partition(|link| link.is_rename());
    check_count("rule", others.len(), &Limits::default())?;
    let stack = others.iter().find(|link| matches!(link.relation, Relation::Stack(_) | Relation::Unstack(_)));
    if let Some(stack) = stack {
        return Err(Error::mapping("a table of names cannot contain the elements of a stack")
            .tensor(stack.targets.first().map(|name| printable(name)).unwrap_or_default())
            .help("write the inverse of the mapping's rules instead, or exclude the stack's tensors"));
    }
    let assembled =
        others.iter().find(|link| matches!(link.relation, Relation::Assemble(_) | Relation::Disassemble(_)));
    if let Some(assembled) = assembled {
        return Err(Error::mapping("a table of names cannot contain tensors that are assembled of several")
            .tensor(assembled.targets.first().map(|name| printable(name)).unwrap_or_default())
            .help("use the mapping's own inverse instead, or exclude these tensors"));
    }
    let lost = others.iter().find(|link| matches!(link.relation, Relation::Dequantize(_)));
    if let Some(lost) = lost {
        return Err(Error::mapping("a table of names cannot quantize numbers again")
            .tensor(lost.targets.first().map(|name| printable(name)).unwrap_or_default())
            .help("exclude the tensors that are dequantized"));
    }
    let literals = |names: &[String]| names.iter().map(|name| Pattern::literal(name)).collect();
    let rules = others.iter().map(|link| link.inverse()).map(|link| Rule {
        line: None,
        from: literals(&link.sources),
        to: literals(&link.targets),
        relation: link.relation,
        role: None,
        steps: link.steps,
        division: link.division,
        sizes: Vec::new(),
        counted_by: None,
        invertible: true,
    });
    let pairs = renames.iter().flat_map(|link| link.targets.iter().zip(&link.sources));
    let lookup = pairs.map(|(source, target)| (source.clone(), Entry { target: target.clone(), line: None }));
    Ok(Mapping {
        separators: Separators { source: separators.target, target: separators.source },
        lookup: lookup.collect(),
        rules: rules.collect(),
        ..Mapping::empty()
    })
}
