//! Steps for tensors that are named by a pattern, without a mapping.

use super::{AxisStep, Join, Recipe, Target, rebuild};
use crate::select::matches;
use ckpt_api::{Contents, Error, Loss, Result};

/// Reorders the axes of every tensor whose name matches a pattern, in which `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    pattern: String,
    step: AxisStep,
}

impl Transform {
    /// Parses `PATTERN: STEP`, such as `*/kernel: transpose`; the step as [`AxisStep::parse`] reads it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for an unknown step, [`ckpt_api::Kind::Usage`] where there is no step.
    ///
    /// ```
    /// let transform = ckpt::recipe::Transform::parse("*/kernel: permute 3 2 0 1")?;
    /// assert!(ckpt::recipe::Transform::parse("*/kernel").is_err());
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        // A step has no colon, and a name may have one.
        let (pattern, step) = text.rsplit_once(':').ok_or_else(|| {
            Error::usage("a transform names no step")
                .found(format!("'{text}'"))
                .expected("PATTERN: STEP, such as '*/kernel: transpose'")
        })?;
        let step = AxisStep::parse(step)?;
        Ok(Transform { pattern: pattern.trim().to_owned(), step })
    }
}

impl std::fmt::Display for Transform {
    /// As [`Transform::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.pattern, self.step)
    }
}

/// Carries out transforms, one behind the other for a tensor that several match.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a pattern that matches nothing, [`ckpt_api::Kind::Mapping`] for a step that does not fit
/// its tensor.
pub(crate) fn transform(contents: &mut Contents, transforms: &[Transform]) -> Result<Vec<Loss>> {
    let tensors = &contents.checkpoint.tensors;
    for Transform { pattern, .. } in transforms {
        if !tensors.iter().any(|tensor| matches(pattern, &tensor.name)) {
            let names = tensors.iter().map(|tensor| tensor.name.as_str());
            return Err(Error::usage("the pattern matches no tensor")
                .field(pattern.as_str())
                .help(ckpt_api::nearest(pattern, names)));
        }
    }
    if transforms.is_empty() {
        return Ok(Vec::new());
    }
    let target = |name: &String| {
        let own = transforms.iter().filter(|transform| matches(&transform.pattern, name));
        let steps = own.map(|transform| transform.step.clone()).collect();
        let recipe = Recipe { join: Join::One, steps };
        Target { name: name.clone(), sources: vec![name.clone()], recipe }
    };
    let targets: Vec<Target> = tensors.iter().map(|tensor| target(&tensor.name)).collect();
    rebuild(contents, &targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn the_last_colon_separates_the_pattern_from_the_step() {
        let parsed = Transform::parse("model:0/*: transpose").unwrap();
        assert_eq!(parsed, Transform { pattern: "model:0/*".into(), step: AxisStep::Transpose });
        assert_eq!(Transform::parse("w").unwrap_err().kind(), Kind::Usage);
        assert_eq!(Transform::parse("w: flip").unwrap_err().kind(), Kind::Mapping);
    }
}
