//! The user's own rules: patterns of names, each with a type.

use super::pattern::Pattern;
use crate::blocks::BlockType;
use crate::format::{NATIVE, TensorType};
use ckpt_api::{Error, Input, Limit, Limits, Result, nearest};
use serde::Deserialize;

/// The option that names a file of rules.
pub(crate) const TYPES: &str = "types";

/// Rules, of which the first one that matches counts.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    text: String,
    pattern: Pattern,
    tensor_type: TensorType,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOfRules {
    rules: Vec<StatedRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedRule {
    pattern: String,
    #[serde(rename = "type")]
    tensor_type: String,
}

impl Rules {
    /// Reads a TOML file of rules.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a file of another shape, a wrong pattern, and a type that is unknown or not written.
    pub(crate) fn read(path: &str) -> Result<Self> {
        let limits = Limits::default();
        let file = Input::open(path)?.main()?;
        let named = |error: Error| error.file(file.name());
        limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
        Self::parse(&file.bytes(0, file.len())?).map_err(named)
    }

    fn parse(toml: &[u8]) -> Result<Self> {
        let shape = |found: String| {
            Error::usage("the rules are not valid")
                .found(found)
                .expected("[[rules]] tables, each with a pattern and a type")
        };
        let text = str::from_utf8(toml).map_err(|error| shape(error.to_string()))?;
        let stated: FileOfRules = toml::from_str(text).map_err(|error| shape(error.message().to_owned()))?;
        let rule = |StatedRule { pattern, tensor_type }: StatedRule| {
            Ok(Rule { pattern: Pattern::parse(&pattern)?, tensor_type: named(&tensor_type)?, text: pattern })
        };
        Ok(Rules { rules: stated.rules.into_iter().map(rule).collect::<Result<_>>()? })
    }

    /// Returns the type of the first rule that matches a name.
    pub(crate) fn of(&self, name: &str) -> Option<TensorType> {
        self.rules.iter().find(|rule| rule.pattern.matches(name)).map(|rule| rule.tensor_type)
    }

    /// Fails if a rule matches no name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], with the pattern.
    pub(crate) fn check<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        let unused = self.rules.iter().find(|rule| !names.clone().any(|name| rule.pattern.matches(name)));
        let Some(rule) = unused else { return Ok(()) };
        Err(Error::usage("a rule matches no tensor whose type can be chosen")
            .field(TYPES)
            .found(format!("'{}'", rule.text))
            .expected("the name of a floating-point matrix, with *, ** and ?")
            .help("vectors, norms and a few small matrices keep their type, as in llama.cpp"))
    }
}

/// Returns the type that a name in any case means.
fn named(name: &str) -> Result<TensorType> {
    let floats = NATIVE.into_iter().filter(|dtype| dtype.is_float()).map(TensorType::Plain);
    let blocks = BlockType::ALL.iter().filter(|own| own.is_encodable()).map(|own| TensorType::Blocks(*own));
    let mut known = floats.chain(blocks);
    known.clone().find(|own| own.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        Error::usage("a rule names a type that is not written")
            .field(TYPES)
            .found(format!("'{name}'"))
            .help(nearest(name, known.by_ref().map(TensorType::name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Kind};

    const RULES: &str = r#"
        [[rules]]
        pattern = "blk.0.*"
        type = "Q6_K"

        [[rules]]
        pattern = "blk.**"
        type = "f16"
    "#;

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = Rules::parse(RULES.as_bytes()).unwrap();
        assert_eq!(rules.of("blk.0.attn_q.weight"), Some(TensorType::Blocks(BlockType::Q6_K)));
        assert_eq!(rules.of("blk.1.attn_q.weight"), Some(TensorType::Plain(DType::F16)));
        assert_eq!(rules.of("output.weight"), None);
    }

    #[test]
    fn a_rule_that_matches_nothing_is_an_error_with_its_pattern() {
        let rules = Rules::parse(RULES.as_bytes()).unwrap();
        rules.check(["blk.0.a", "blk.1.a"].into_iter()).unwrap();
        let error = rules.check(["blk.1.a"].into_iter()).unwrap_err().to_string();
        assert!(error.contains("'blk.0.*'"), "{error}");
    }

    #[test]
    fn unknown_types_and_other_shapes_are_refused() {
        let rule = |rule: &str| Rules::parse(format!("[[rules]]\n{rule}").as_bytes()).unwrap_err();
        for (wrong, says) in [
            ("pattern = 'a'\ntype = 'q9_k'", "'q9_k'"),
            ("pattern = 'a'\ntype = 'iq2_xxs'", "'iq2_xxs'"),
            ("pattern = 'a'\ntype = 'i32'", "'i32'"),
            ("pattern = '{x}'\ntype = 'f16'", "'{x}'"),
            ("pattern = 'a'", "type"),
            ("pattern = 'a'\ntype = 'f16'\nmore = 1", "more"),
        ] {
            let error = rule(wrong);
            assert!(error.kind() == Kind::Usage && error.to_string().contains(says), "{wrong}: {error}");
        }
        assert!(Rules::parse(b"\xff").is_err() && Rules::parse(b"").is_err());
    }
}
