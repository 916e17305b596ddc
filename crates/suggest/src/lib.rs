//! Proposes a mapping from two checkpoints of one model: by values, shapes and names.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod elements;
mod families;
mod images;
mod joins;
mod names;
mod pairs;
mod parts;
mod reorder;
mod reshaped;
mod steps;
mod suggestion;
#[cfg(test)]
mod tests;
mod values;

use ckpt_api::{Limit, Limits, Result, Role, Tensor, TensorId};
use ckpt_engine::mapping::{Ignore, Mapping, check_count, default_limit};
use ckpt_engine::pattern::{Pattern, PatternSet, SEPARATOR};
use ckpt_engine::source::Source;
use families::{Family, families, ignored};
use pairs::Pairing;
use reorder::Key;
use std::collections::BTreeSet;
use values::{Groups, equal, originals};

pub use suggestion::{
    Ambiguous, Basis, Coverage, JoinedAxis, Pair, Reshaped, StepsBasis, Suggestion, Untried,
};

/// Proposes a mapping from the names of `a` to those of `b`. Reads the values of tensors that could be the same, or
/// parts of others.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let open = || ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default());
/// let suggestion = ckpt::suggest::suggest(&open()?, &open()?)?;
/// assert!(suggestion.pairs.iter().all(|pair| pair.sources == pair.targets));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error of a tensor that cannot be read; [`ckpt_api::Kind::Limit`] for a mapping that would need too many rules.
pub fn suggest(a: &Source, b: &Source) -> Result<Suggestion> {
    let groups = groups(a, b);
    let equal = equal(a, b, &groups)?;
    let mut pairing = Pairing::new(a, b);
    pairing.decide(&groups, &equal)?;
    let (mut pairs, ambiguous, reshaped) = pairing.finish(&equal)?;
    pairs.sort_by(|a, b| a.sources.cmp(&b.sources));
    let name = |source: &Source, id: TensorId| {
        source.checkpoint().tensors.get(id.0).map(|tensor| tensor.name.to_string()).unwrap_or_default()
    };
    let ambiguous = ambiguous.iter().map(|(id, of_b)| Ambiguous {
        name: name(a, *id),
        candidates: of_b.iter().map(|id| name(b, *id)).collect(),
    });
    let ambiguous: Vec<Ambiguous> = ambiguous.collect();
    let open: BTreeSet<&str> = ambiguous.iter().map(|one| one.name.as_str()).collect();
    let paired: BTreeSet<&str> = pairs.iter().flat_map(|pair| &pair.sources).map(String::as_str).collect();
    let made: BTreeSet<&str> = pairs.iter().flat_map(|pair| &pair.targets).map(String::as_str).collect();
    let (of_a, of_b) = (Side::new(a, &paired), Side::new(b, &made));
    let mut only_in_a = of_a.alone;
    only_in_a.retain(|name| !open.contains(name.as_str()));
    let (weights_of_a, weights_of_b) = (of_a.weights, of_b.weights);
    let mapping = mapping(&pairs, &of_a.named, of_a.other_roles)?;
    let only_in_b = of_b.alone;
    Ok(Suggestion { mapping, pairs, ambiguous, reshaped, only_in_a, only_in_b, weights_of_a, weights_of_b })
}

/// The tensors of one checkpoint, by name.
struct Side {
    /// The roles of which no tensor has a partner, if not all tensors are weights; never that of weights.
    other_roles: Vec<Role>,
    /// The names of the tensors with other roles, sorted.
    named: Vec<String>,
    /// Those of them without a partner.
    alone: Vec<String>,
    weights: Coverage,
}

impl Side {
    fn new(source: &Source, with_partner: &BTreeSet<&str>) -> Self {
        let tensors = &source.checkpoint().tensors;
        let has_partner = |tensor: &&Tensor| with_partner.contains(tensor.name.as_str());
        let is_needed = |role: Role| {
            role == Role::Weight || tensors.iter().filter(has_partner).any(|tensor| tensor.role == role)
        };
        let mut other_roles: Vec<Role> = Role::ALL.into_iter().filter(|role| !is_needed(*role)).collect();
        if tensors.iter().all(|tensor| tensor.role == Role::Weight) {
            other_roles.clear();
        }
        let named = tensors.iter().filter(|tensor| !other_roles.contains(&tensor.role));
        let mut named: Vec<String> = named.map(|tensor| tensor.name.to_string()).collect();
        named.sort();
        let alone = named.iter().filter(|name| !with_partner.contains(name.as_str())).cloned().collect();
        let (paired, left): (Vec<&Tensor>, Vec<&Tensor>) =
            tensors.iter().filter(|tensor| tensor.role == Role::Weight).partition(has_partner);
        let weights = Coverage { paired: paired.len(), left: left.len() };
        Side { other_roles, named, alone, weights }
    }
}

/// Groups the tensors that could be the same by their shapes.
fn groups(a: &Source, b: &Source) -> Groups {
    let mut groups = Groups::new();
    for (side, source) in [a, b].into_iter().enumerate() {
        for (id, tensor) in originals(source) {
            let (of_a, of_b) = groups.entry(Key::new(tensor.dtype, &tensor.shape)).or_default();
            if side == 0 { of_a } else { of_b }.push(id);
        }
    }
    groups
}

/// Returns the mapping that has these pairs and ignores the other names, and other tensors by their roles: with rules
/// for families of names if these map the names in the same way, with exact names otherwise.
fn mapping(pairs: &[Pair], names: &[String], ignore_roles: Vec<Role>) -> Result<Mapping> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut mapping = by_name(pairs, &names)?;
    mapping.ignore_roles = ignore_roles;
    Ok(mapping)
}

fn by_name(pairs: &[Pair], names: &[&str]) -> Result<Mapping> {
    let exact = || write(pairs, Vec::new(), names);
    let Ok(general) = write(pairs, sound(families(pairs.iter()), pairs), names) else { return exact() };
    let mut wanted: Vec<(&[String], &[String])> = pairs
        .iter()
        .flat_map(|pair| pair.targets.chunks(1).map(|target| (target, &pair.sources[..])))
        .collect();
    wanted.sort();
    let is_equal = general.apply(names, &Limits::default()).is_ok_and(|applied| {
        let made =
            applied.targets.iter().map(|target| (std::slice::from_ref(&target.name), &target.sources[..]));
        made.eq(wanted)
    });
    if is_equal { Ok(general) } else { exact() }
}

/// Returns the largest families, as many as a mapping may have rules, without those that match the name of another
/// pair.
fn sound<'p>(mut families: Vec<Family<'p>>, pairs: &[Pair]) -> Vec<Family<'p>> {
    families.sort_by_key(|family| std::cmp::Reverse(family.pairs.len()));
    families.truncate(default_limit(Limit::Rules));
    let own = |family: &Family<'p>| {
        family.pairs.iter().flat_map(|pair| &pair.sources).collect::<BTreeSet<&String>>()
    };
    let own: Vec<BTreeSet<&String>> = families.iter().map(own).collect();
    let mut is_sound = vec![true; families.len()];
    let numbered = families.iter().enumerate();
    let forms = numbered.flat_map(|(number, family)| family.rule.from.iter().map(move |form| (number, form)));
    let (numbers, forms): (Vec<usize>, Vec<&Pattern>) = forms.unzip();
    let mut forms = PatternSet::new(forms, SEPARATOR);
    for name in pairs.iter().flat_map(|pair| &pair.sources) {
        for form in forms.matches(name) {
            let number = numbers.get(form).copied().unwrap_or_default();
            if let (Some(own), Some(is_sound)) = (own.get(number), is_sound.get_mut(number)) {
                *is_sound &= own.contains(name);
            }
        }
    }
    drop(forms);
    families.into_iter().zip(is_sound).filter_map(|(family, is_sound)| is_sound.then_some(family)).collect()
}

/// Writes the rules of families, and an entry or a rule for each other pair.
fn write(pairs: &[Pair], families: Vec<Family>, names: &[&str]) -> Result<Mapping> {
    let in_families: BTreeSet<&String> =
        families.iter().flat_map(|family| &family.pairs).flat_map(|pair| &pair.sources).collect();
    let mut mapping = Mapping::empty();
    mapping.rules = families.into_iter().map(|family| family.rule).collect();
    for pair in pairs.iter().filter(|pair| !pair.sources.iter().any(|name| in_families.contains(name))) {
        match (&pair.sources[..], &pair.targets[..]) {
            ([source], [target]) if pair.steps.is_empty() => {
                mapping.look_up(source, target);
            }
            _ => mapping.rules.push(pair.rule()),
        }
    }
    let paired: BTreeSet<&str> = pairs.iter().flat_map(|pair| &pair.sources).map(String::as_str).collect();
    let (paired, others): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| paired.contains(*name));
    let mut ignore = ignored(&others, &paired);
    if ignore.len() > default_limit(Limit::Rules) && mapping.rules.is_empty() {
        // The lookup precedes it.
        ignore = vec![Pattern::selecting("**", &Limits::default())?];
    }
    mapping.ignore = ignore.into_iter().map(Ignore::new).collect();
    check_count("rule", mapping.rules.len(), &Limits::default())?;
    check_count("ignore", mapping.ignore.len(), &Limits::default())?;
    Ok(mapping)
}
