//! Names of modules in configurations: patterns of them, as each library writes them.

use ckpt_api::{Error, Limit, Limits, Result};
use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// What begins a target that is a regular expression.
const REGEX: &str = "re:";
/// Bytes that one pattern may take compiled, and the cache of its automaton.
const MAX_PATTERN: usize = 1 << 20;

/// Patterns of modules, of which each is a name, the name of a class, or a regular expression behind `re:`.
pub(crate) struct Targets(Vec<Target>);

enum Target {
    /// A module, or a class of modules.
    Name(String),
    Pattern(Box<dfa::DFA>),
}

impl Targets {
    /// Reads the patterns.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a regular expression of another dialect; [`ckpt_api::Kind::Limit`] for a long one.
    pub(crate) fn new<'t>(texts: impl Iterator<Item = &'t str>, limits: &Limits) -> Result<Self> {
        let target = |text: &str| match text.strip_prefix(REGEX) {
            None => Ok(Target::Name(text.to_owned())),
            Some(pattern) => {
                limits.check(Limit::NameBytes, pattern.len() as u64)?;
                compile(pattern).map(Box::new).map(Target::Pattern)
            }
        };
        texts.map(target).collect::<Result<_>>().map(Targets)
    }

    /// Whether a pattern is this name, or matches it from its beginning.
    pub(crate) fn have(&self, module: &str) -> bool {
        self.0.iter().any(|target| match target {
            Target::Name(name) => name == module,
            Target::Pattern(pattern) => {
                let mut cache = pattern.create_cache();
                let input = Input::new(module).anchored(Anchored::Yes);
                matches!(pattern.try_search_fwd(&mut cache, &input), Ok(Some(_)))
            }
        })
    }

    /// Whether one may be the name of a class of modules, which tensors do not show.
    pub(crate) fn have_class(&self) -> bool {
        self.0.iter().any(|target| matches!(target, Target::Name(name) if !name.contains('.')))
    }
}

fn compile(pattern: &str) -> Result<dfa::DFA> {
    dfa::Builder::new()
        .configure(dfa::Config::new().cache_capacity(MAX_PATTERN).skip_cache_capacity_check(true))
        .thompson(thompson::Config::new().nfa_size_limit(Some(MAX_PATTERN)))
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .build(pattern)
        .map_err(|error| {
            Error::unsupported("a pattern of modules cannot be read").found(format!("'{pattern}': {error}"))
        })
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
