//! The mapping from the first checkpoint's names to the second's.

use crate::options::NamedMapping;
use ckpt_api::{Limits, Result, Tensor};
use ckpt_engine::mapping::{Decision, Decisions};
use ckpt_engine::recipe::Target;
use std::collections::HashMap;

/// A mapping applied to the names of a checkpoint. Without one, every name stays.
pub(crate) struct MappedNames<'a> {
    decisions: Option<Decisions<'a>>,
    targets: Vec<Target>,
    /// Indices into `targets`, by source name.
    by_source: HashMap<String, Vec<usize>>,
}

impl<'a> MappedNames<'a> {
    /// Applies the mapping to the names of `tensors`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`], as a conversion with it would report.
    pub(crate) fn new(
        mapping: Option<&'a NamedMapping>,
        tensors: &[Tensor],
        limits: &Limits,
    ) -> Result<Self> {
        let targets = match mapping {
            Some(named) => named.mapping.apply_to(tensors, limits)?.targets,
            None => Vec::new(),
        };
        let mut by_source: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, target) in targets.iter().enumerate() {
            for source in &target.sources {
                by_source.entry(source.clone()).or_default().push(index);
            }
        }
        let decisions = mapping.map(|named| Decisions::new(&named.mapping));
        Ok(MappedNames { decisions, targets, by_source })
    }

    /// Returns the names of the tensors that a tensor becomes, or becomes a part of.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        match self.decisions {
            None => vec![name.to_owned()],
            Some(_) => self.targets_of(name).map(|target| target.name.clone()).collect(),
        }
    }

    /// Returns the rule that maps a name, with its steps; `None` without a mapping.
    pub(crate) fn rule(&self, name: &str) -> Option<String> {
        let decision = match self.decisions.as_ref()?.of(name)? {
            Decision::Rule { rule } => rule,
            Decision::Lookup { line: Some(line) } => format!("lookup at line {line}"),
            Decision::Lookup { line: None } => "lookup".to_owned(),
            Decision::Ignored { pattern, .. } => format!("ignore '{pattern}'"),
            Decision::Identity => "identity".to_owned(),
            _ => return None,
        };
        let steps =
            self.targets_of(name).map(|target| target.recipe.describe()).find(|steps| !steps.is_empty());
        Some(match steps {
            Some(steps) => format!("{decision}: {steps}"),
            None => decision,
        })
    }

    fn targets_of(&self, name: &str) -> impl Iterator<Item = &Target> {
        let indices = self.by_source.get(name).into_iter().flatten();
        indices.filter_map(|index| self.targets.get(*index))
    }
}
