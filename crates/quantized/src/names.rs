//! Names of modules in configurations: patterns of them, as each library writes them.

use ckpt_api::{Limits, Result};
use ckpt_engine::pattern::Expression;

/// What begins a target that is a regular expression.
const REGEX: &str = "re:";

/// Patterns of modules, of which each is a name, the name of a class, or a regular expression behind `re:`.
pub(crate) struct Targets(Vec<Target>);

enum Target {
    /// A module, or a class of modules.
    Name(String),
    Pattern(Expression),
}

impl Targets {
    /// Reads the patterns.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a regular expression of another dialect; [`ckpt_api::Kind::Limit`] for a long one.
    pub(crate) fn new<'t>(texts: impl Iterator<Item = &'t str>, limits: &Limits) -> Result<Self> {
        let target = |text: &str| match text.strip_prefix(REGEX) {
            None => Ok(Target::Name(text.to_owned())),
            Some(pattern) => Expression::new(pattern, limits).map(Target::Pattern),
        };
        texts.map(target).collect::<Result<_>>().map(Targets)
    }

    /// Whether a pattern is this name, or matches it from its beginning.
    pub(crate) fn have(&self, module: &str) -> bool {
        self.0.iter().any(|target| match target {
            Target::Name(name) => name == module,
            Target::Pattern(pattern) => pattern.begins(module),
        })
    }

    /// Whether one may be the name of a class of modules, which tensors do not show.
    pub(crate) fn have_class(&self) -> bool {
        self.0.iter().any(|target| matches!(target, Target::Name(name) if !name.contains('.')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_name_or_a_pattern_of_the_beginning() {
        let texts = ["lm_head", "re:.*self_attn\\.(q|k)_proj$", "Linear"];
        let targets = Targets::new(texts.into_iter(), &Limits::default()).unwrap();
        assert!(targets.have("lm_head") && targets.have("model.layers.0.self_attn.k_proj"));
        assert!(!targets.have("model.lm_head") && !targets.have("model.layers.0.self_attn.v_proj"));
        assert!(targets.have_class());
    }

    #[test]
    fn a_pattern_of_another_dialect_is_refused() {
        assert!(Targets::new(["re:(?!a)b"].into_iter(), &Limits::default()).is_err());
    }
}
