//! Patterns of modules, as the configurations of adapters have them.

use ckpt_api::{Limits, Result};
use ckpt_engine::pattern::Expression;

/// A pattern of the end of a module's name: a name, or a regular expression.
#[derive(Debug)]
pub(crate) struct Pattern(Expression);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Those of [`Expression::new`].
    pub(crate) fn new(text: &str, limits: &Limits) -> Result<Self> {
        // As peft completes it.
        Expression::new(&format!("(?:.*\\.)?(?:{text})$"), limits).map(Pattern)
    }

    /// Whether it matches the end of this name.
    pub(crate) fn matches(&self, module: &str) -> bool {
        self.0.begins(module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_end_of_a_name_or_an_expression() {
        let matches = |text, module| Pattern::new(text, &Limits::default()).unwrap().matches(module);
        assert!(matches("q_proj", "model.layers.0.self_attn.q_proj") && matches("q_proj", "q_proj"));
        assert!(!matches("q_proj", "model.layers.0.self_attn.seq_proj"));
        assert!(matches("layers\\.[01]\\..*_proj", "model.layers.1.mlp.up_proj"));
        assert!(!matches("layers\\.[01]\\..*_proj", "model.layers.2.mlp.up_proj"));
        assert!(Pattern::new("(?!a)b", &Limits::default()).is_err());
    }
}
