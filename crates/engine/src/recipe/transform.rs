//! The type [`Transform`]: a step for the tensors that match a pattern.

use super::step::AxisStep;
use crate::pattern::Selector;
use ckpt_api::{Error, Result};

/// A step for every tensor whose name matches a [pattern](crate::pattern).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    pub(crate) selector: Selector,
    pub(crate) step: AxisStep,
}

impl Transform {
    /// Parses `PATTERN: STEP`, such as `**/kernel: transpose`; the step as [`AxisStep::parse`] reads it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a missing or unknown step, or a malformed pattern.
    ///
    /// ```
    /// let transform = ckpt::recipe::Transform::parse("**/kernel: permute 3 2 0 1")?;
    /// assert_eq!(transform.to_string(), "**/kernel: permute 3 2 0 1");
    /// assert!(ckpt::recipe::Transform::parse("**/kernel").is_err());
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        // No step has a colon; a pattern may have some.
        let (pattern, step) = text.rsplit_once(':').ok_or_else(|| {
            Error::usage("a transform has no step")
                .found(format!("'{text}'"))
                .expected("PATTERN: STEP, such as '**/kernel: transpose'")
        })?;
        let step = AxisStep::parse(step.trim()).map_err(|error| as_usage(&error))?;
        Ok(Transform { selector: Selector::parse(pattern.trim())?, step })
    }
}

/// The error about a step, which is not of a mapping; without the field, which names the rule.
pub(crate) fn as_usage(error: &Error) -> Error {
    let context = error.context();
    let mut usage = Error::usage(error.message());
    if let Some(found) = context.found {
        usage = usage.found(found);
    }
    if let Some(expected) = context.expected {
        usage = usage.expected(expected);
    }
    if let Some(help) = context.help {
        usage = usage.help(help);
    }
    usage
}

impl std::fmt::Display for Transform {
    /// As [`Transform::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.selector.text(), self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn the_last_colon_separates_the_pattern_from_the_step() {
        let parsed = Transform::parse("model:0/*: transpose").unwrap();
        let selector = Selector::parse("model:0/*").unwrap();
        assert_eq!(parsed, Transform { selector, step: AxisStep::Transpose });
        assert_eq!(Transform::parse("w").unwrap_err().kind(), Kind::Usage);
        assert_eq!(Transform::parse("w: flip").unwrap_err().kind(), Kind::Usage);
    }
}
