//! The mapping of two factors in the place of the tensor that their product is added to.

use super::decide::{Decider, Fate, Match};
use super::definition::Mapping;
use super::relation::Relation;
use super::rule::Rule;
use crate::pattern::Pattern;
use crate::recipe::{AxisStep, Factor};
use ckpt_api::{Error, Limits, Result};

/// The two factors of a product that is added to a matrix of a model: `left` has a row for each row of the matrix, and `right` a
/// column for each of its columns.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'n> {
    /// The name of the matrix.
    pub matrix: &'n str,
    /// The name of the left factor, and what is put behind the target's name for it.
    pub left: (&'n str, &'n str),
    /// The name of the right factor, and what is put behind the target's name for it.
    pub right: (&'n str, &'n str),
    /// Whether the right factor is stored by its columns in the target.
    pub transpose_right: bool,
    /// By what the left factor is multiplied.
    pub scale: Option<Factor>,
}

impl Mapping {
    /// Gives factors the names of the matrices that this mapping has, with an ending; the steps on the rows of a matrix are those on the
    /// rows of its left factor.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a matrix that the mapping drops, makes a part of another one, or whose columns it reorders;
    /// [`ckpt_api::Kind::Mapping`] for one that it does not know.
    pub fn of_factors(&self, all: &[Factors<'_>], limits: &Limits) -> Result<Mapping> {
        let mut decider = Decider::new(self);
        let mut mapping = Mapping { frameworks: self.frameworks.clone(), ..Mapping::empty() };
        mapping.is_builtin = self.is_builtin;
        for factors in all {
            let (target, steps) = self.target_of(&mut decider, factors.matrix, limits)?;
            let mut of_left: Vec<AxisStep> = factors.scale.map(AxisStep::Scale).into_iter().collect();
            of_left.extend(steps);
            let of_right = if factors.transpose_right { vec![AxisStep::Transpose] } else { Vec::new() };
            for ((name, ending), steps) in [(factors.right, of_right), (factors.left, of_left)] {
                let to = Pattern::literal(&format!("{target}{ending}"));
                mapping.rules.push(Rule::new(vec![Pattern::literal(name)], vec![to], Relation::One, steps));
            }
        }
        Ok(mapping)
    }

    /// The target of a matrix, and the steps on its rows.
    fn target_of(
        &self,
        decider: &mut Decider<'_>,
        name: &str,
        limits: &Limits,
    ) -> Result<(String, Vec<AxisStep>)> {
        let refused = |what: &str, found: String| {
            let help = "merge the adapter into its base: ckpt merge BASE --lora ADAPTER OUTPUT";
            Err(self.located(Error::unsupported(what.to_owned()).tensor(name).found(found).help(help)))
        };
        match decider.decide(name)? {
            Fate::Renamed(target, _) => Ok((target, Vec::new())),
            Fate::Matched(Match { rule: index, values, .. }) => {
                let found = || self.describe_rule(index);
                let rule = self.rules.get(index).ok_or_else(|| Error::defect("a rule is not there"))?;
                if rule.relation != Relation::One {
                    return refused("the target has no matrix of its own for a product", found());
                }
                if !keep_columns(&rule.steps) {
                    return refused(
                        "the target reorders the columns of a matrix that a product is added to",
                        found(),
                    );
                }
                let target = rule.targets(&values, self.separators, limits)?.into_iter().next();
                let target = target.ok_or_else(|| Error::defect("a rule has no target"))?;
                Ok((target, rule.steps.clone()))
            }
            Fate::Dropped(index) => {
                refused("the target lacks the matrix that a product is added to", self.describe_ignore(index))
            }
            Fate::Unmapped => {
                let error =
                    Error::mapping("no rule names the matrix that a product is added to").tensor(name);
                Err(self.located(error))
            }
        }
    }
}

/// Whether steps on a matrix leave its columns where they are, so that they are steps on a matrix of the same rows.
fn keep_columns(steps: &[AxisStep]) -> bool {
    let mut rank = 2usize;
    steps.iter().all(|step| match step {
        AxisStep::Permute(order) => order.last().is_some_and(|last| last + 1 == rank),
        AxisStep::Reshape(reshape) => {
            let keeps = reshape.axis + reshape.from.len() < rank;
            rank = (rank + reshape.to.len()).saturating_sub(reshape.from.len());
            keeps
        }
        AxisStep::Parts { axis, .. } => axis + 1 < rank,
        AxisStep::Scale(_) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = r#"
        separator = "."
        ignore = ["*.buffer"]
        [[rule]]
        from = "h.{n:int}.q"
        to = "blk.{n}.q"
        steps = ["reshape _ -> 2 2 _", "permute 0 2 1 3", "reshape 2 _ 2 -> _"]
        [[rule]]
        from = "h.{n:int}.dense"
        to = "blk.{n}.dense"
        steps = ["transpose"]
        [[rule]]
        from = "h.{n:int}.expert.{e:int}"
        to = "blk.{n}.experts"
        stack = "e"
    "#;

    fn factors<'n>(matrix: &'n str) -> Factors<'n> {
        let scale = None;
        Factors { matrix, left: ("up", ".b"), right: ("down", ".a"), transpose_right: false, scale }
    }

    fn mapped(factors: Factors<'_>) -> Result<Mapping> {
        let limits = Limits::default();
        Mapping::from_toml(NAMES, "names.toml").unwrap().of_factors(&[factors], &limits)
    }

    #[test]
    fn the_left_factor_takes_the_steps_on_rows_and_the_right_one_none() {
        let mapping = mapped(factors("h.3.q")).unwrap();
        let rules: Vec<String> = mapping.rules.iter().map(Rule::describe).collect();
        assert_eq!(rules[0], "'down' -> 'blk.3.q.a'");
        assert!(rules[1].starts_with("'up' -> 'blk.3.q.b', reshape"), "{rules:?}");
        let transposed = Factors { transpose_right: true, ..factors("h.3.q") };
        assert_eq!(mapped(transposed).unwrap().rules[0].describe(), "'down' -> 'blk.3.q.a', transpose");
    }

    #[test]
    fn a_matrix_whose_factors_have_no_place_is_refused_with_its_rule() {
        for (matrix, kind) in [
            ("h.0.dense", ckpt_api::Kind::Unsupported),
            ("h.0.expert.1", ckpt_api::Kind::Unsupported),
            ("h.buffer", ckpt_api::Kind::Unsupported),
            ("unknown", ckpt_api::Kind::Mapping),
        ] {
            let error = mapped(factors(matrix)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(matrix), "{error}");
        }
    }
}
