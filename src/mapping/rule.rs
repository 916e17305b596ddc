//! One rule: a form of source names and the form of their targets.

use super::pattern::{Class, Part, Pattern, Separators};
use super::quote;
use ckpt_api::{Error, Limits, Result};
use std::collections::HashMap;

/// `from` → `to`, over the same captures.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) from: Pattern,
    pub(super) to: Pattern,
}

impl Rule {
    /// Parses both sides; the error says which side of the rule `number` is wrong.
    pub(super) fn parse(number: usize, from: &str, to: &str) -> Result<Self> {
        let at = |side: &str, text: &str| format!("rule {number}, {side} = {}", quote(text));
        let source = Pattern::source(from).map_err(|error| error.field(at("from", from)))?;
        let target = Pattern::target(to, &source).map_err(|error| error.field(at("to", to)))?;
        Ok(Rule { from: source, to: target })
    }

    /// The target of `name`, if the rule matches it.
    pub(super) fn rewrite(
        &self,
        name: &str,
        separators: Separators,
        limits: &Limits,
    ) -> Option<Result<String>> {
        let values = self.from.matches(name, separators.source)?;
        let values: HashMap<&str, &str> = self.from.captures().map(|(name, _)| name).zip(values).collect();
        Some(self.render(&values, separators, limits))
    }

    fn render(
        &self,
        values: &HashMap<&str, &str>,
        separators: Separators,
        limits: &Limits,
    ) -> Result<String> {
        let mut target = String::new();
        for part in &self.to.parts {
            let piece = match part {
                Part::Literal(text) => text.as_str(),
                Part::Capture { name, .. } => values.get(name.as_str()).copied().unwrap_or_default(),
                Part::Wildcard(_) => "",
            };
            let length = target.len().saturating_add(piece.len());
            limits.check("name_bytes", u64::try_from(length).unwrap_or(u64::MAX))?;
            match part {
                Part::Capture { class: Class::Path, .. } if separators.source != separators.target => {
                    let exchanged = |c| if c == separators.source { separators.target } else { c };
                    target.extend(piece.chars().map(exchanged));
                }
                _ => target.push_str(piece),
            }
        }
        Ok(target)
    }

    /// The rule read backwards.
    pub(super) fn invert(&self) -> Result<Self> {
        for (capture, _) in self.from.captures() {
            let uses = self.to.captures().filter(|(name, _)| *name == capture).count();
            let problem = match uses {
                1 => continue,
                0 => "does not appear in 'to', so it cannot be restored",
                _ => "appears more than once in 'to'",
            };
            return Err(Error::mapping("the rule has no inverse")
                .found(format!("the capture '{capture}' {problem}"))
                .expected("every capture of 'from' once in 'to'"));
        }
        Ok(Rule { from: self.to.clone(), to: self.from.clone() })
    }

    /// `'from' -> 'to'`, for people.
    pub(super) fn describe(&self) -> String {
        format!("{} -> {}", quote(&self.from.as_source()), quote(&self.to.as_target()))
    }
}

/// The numbers of two rules that match the same names, if there are any.
pub(super) fn twins(rules: &[Rule]) -> Option<(usize, usize)> {
    let mut seen = HashMap::new();
    let mut numbered = rules.iter().zip(1..);
    numbered.find_map(|(rule, number)| Some((seen.insert(rule.from.shape(), number)?, number)))
}
