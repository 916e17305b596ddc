//! Regular expressions of names, as configurations of models have them.

use ckpt_api::{Error, Limit, Limits, Result};
use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// Bytes that one expression may take compiled, and the cache of its automaton.
const MAX_COMPILED: usize = 1 << 20;

/// A regular expression, which matches in time linear in the name.
///
/// ```
/// use ckpt_engine::pattern::Expression;
/// let keys = Expression::new(r".*self_attn\.(q|k)_proj$", &Default::default())?;
/// assert!(keys.begins("model.layers.0.self_attn.k_proj"));
/// assert!(!keys.begins("model.layers.0.self_attn.v_proj"));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Debug)]
pub struct Expression(Box<dfa::DFA>);

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for one of another dialect, such as with looking ahead; [`ckpt_api::Kind::Limit`] for a long
    /// one.
    pub fn new(text: &str, limits: &Limits) -> Result<Self> {
        limits.check(Limit::NameBytes, text.len() as u64)?;
        dfa::Builder::new()
            .configure(dfa::Config::new().cache_capacity(MAX_COMPILED).skip_cache_capacity_check(true))
            .thompson(thompson::Config::new().nfa_size_limit(Some(MAX_COMPILED)))
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .build(text)
            .map(|dfa| Expression(Box::new(dfa)))
            .map_err(|error| {
                Error::unsupported("a pattern of modules cannot be read").found(format!("'{text}': {error}"))
            })
    }

    /// Whether it matches what a name begins with.
    pub fn begins(&self, name: &str) -> bool {
        let mut cache = self.0.create_cache();
        let input = Input::new(name).anchored(Anchored::Yes);
        matches!(self.0.try_search_fwd(&mut cache, &input), Ok(Some(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_of_another_dialect_is_refused() {
        assert!(Expression::new("(?!a)b", &Limits::default()).is_err());
    }
}
