//! Names of the first checkpoint, and what a mapping makes of them.

use super::Named;
use crate::mapping::Decision;
use crate::recipe::Target;
use ckpt_api::{Limits, Result, Tensor};
use std::collections::HashMap;

/// What the mapping makes of each name; without one, every name stays.
pub(super) struct Mapped<'a> {
    mapping: Option<&'a Named>,
    limits: &'a Limits,
    targets: Vec<Target>,
    /// By source name, indices into `targets`.
    by_source: HashMap<String, Vec<usize>>,
}

impl<'a> Mapped<'a> {
    /// Applies the mapping to the names of tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`], as converting with it would report.
    pub(super) fn new(mapping: Option<&'a Named>, tensors: &[Tensor], limits: &'a Limits) -> Result<Self> {
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
        Ok(Mapped { mapping, limits, targets, by_source })
    }

    /// What a name becomes, or is a part of.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        match self.mapping {
            None => vec![name.to_owned()],
            Some(_) => self.of(name).map(|target| target.name.clone()).collect(),
        }
    }

    /// The rule that says what becomes of a name, and the steps; `None` without a mapping.
    pub(super) fn by(&self, name: &str) -> Option<String> {
        let explained = self.mapping?.mapping.explain(name, self.limits).ok()?;
        let decision = match explained.decision {
            Decision::Rule { rule } => rule,
            Decision::Lookup { line: Some(line) } => format!("lookup at line {line}"),
            Decision::Lookup { line: None } => "lookup".to_owned(),
            Decision::Ignored { pattern, .. } => format!("ignore '{pattern}'"),
            Decision::Identity => "identity".to_owned(),
            Decision::Nothing { .. } => return None,
        };
        let steps = self.of(name).map(|target| target.recipe.describe()).find(|steps| !steps.is_empty());
        Some(match steps {
            Some(steps) => format!("{decision}: {steps}"),
            None => decision,
        })
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &Target> {
        let indices = self.by_source.get(name).into_iter().flatten();
        indices.filter_map(|index| self.targets.get(*index))
    }
}
