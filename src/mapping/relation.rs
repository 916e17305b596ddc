//! How many tensors a rule takes and makes, and what of them.

use crate::recipe::{AxisStep, Join, Recipe, Target};

/// One to one, or a split, a merge or a tie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// One source, one target.
    One,
    /// One source, several targets: its parts along an axis, equal where `sizes` does not say.
    Split { axis: usize, sizes: Option<Vec<u64>> },
    /// Several sources, one target: one behind the other along an axis.
    Merge { axis: usize, sizes: Option<Vec<u64>> },
    /// Names of one tensor, on one side one, on the other several.
    Tie,
}

impl Relation {
    pub(super) fn inverse(&self) -> Self {
        match self.clone() {
            Relation::Split { axis, sizes } => Relation::Merge { axis, sizes },
            Relation::Merge { axis, sizes } => Relation::Split { axis, sizes },
            same => same,
        }
    }
}

/// Tensors that belong together: what one rule, or a lookup, does to actual names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) sources: Vec<String>,
    pub(super) targets: Vec<String>,
    pub(super) relation: Relation,
    pub(super) steps: Vec<AxisStep>,
}

impl Link {
    /// A tensor that gets another name, or keeps its own.
    pub(super) fn rename(source: &str, target: &str) -> Self {
        Link {
            sources: vec![source.to_owned()],
            targets: vec![target.to_owned()],
            relation: Relation::One,
            steps: Vec::new(),
        }
    }

    pub(super) fn inverse(&self) -> Self {
        Link {
            sources: self.targets.clone(),
            targets: self.sources.clone(),
            relation: self.relation.inverse(),
            steps: super::rule::inverse_steps(&self.steps),
        }
    }

    /// Whether it gives one tensor another name, and no more.
    pub(super) fn is_plain(&self) -> bool {
        self.relation == Relation::One && self.steps.is_empty()
    }

    /// Each target with its recipe.
    pub(super) fn recipes(&self) -> impl Iterator<Item = Target> {
        let join = |part| match &self.relation {
            Relation::One => Join::One,
            Relation::Split { axis, sizes } => {
                Join::Part { axis: *axis, part, parts: self.targets.len(), sizes: sizes.clone() }
            }
            Relation::Merge { axis, sizes } => Join::Merged { axis: *axis, sizes: sizes.clone() },
            Relation::Tie if self.sources.len() > 1 => Join::Tied,
            Relation::Tie => Join::One,
        };
        self.targets.iter().enumerate().map(move |(part, name)| Target {
            name: name.clone(),
            sources: self.sources.clone(),
            recipe: Recipe { join: join(part), steps: self.steps.clone() },
        })
    }
}
