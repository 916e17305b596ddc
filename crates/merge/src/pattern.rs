//! Patterns of modules, as the configurations of adapters have them.

use ckpt_api::{Error, Limit, Limits, Result};
use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// Bytes that one pattern may take compiled, and the cache of its automaton.
const MAX_PATTERN: usize = 1 << 20;

/// A pattern of the end of a module's name: a name, or a regular expression.
#[derive(Debug)]
pub(crate) struct Pattern(Box<dfa::DFA>);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a regular expression of another dialect; [`ckpt_api::Kind::Limit`] for a long one.
    pub(crate) fn new(text: &str, limits: &Limits) -> Result<Self> {
        limits.check(Limit::NameBytes, text.len() as u64)?;
        let built = dfa::Builder::new()
            .configure(dfa::Config::new().cache_capacity(MAX_PATTERN).skip_cache_capacity_check(true))
            .thompson(thompson::Config::new().nfa_size_limit(Some(MAX_PATTERN)))
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            // As peft completes it.
            .build(&format!("(?:.*\\.)?(?:{text})$"));
        let built = built.map_err(|error| {
            Error::unsupported("a pattern of modules cannot be read").found(format!("'{text}': {error}"))
        })?;
        Ok(Pattern(Box::new(built)))
    }

    /// Whether it matches the end of this name.
    pub(crate) fn matches(&self, module: &str) -> bool {
        let mut cache = self.0.create_cache();
        let input = Input::new(module).anchored(Anchored::Yes);
        matches!(self.0.try_search_fwd(&mut cache, &input), Ok(Some(_)))
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
