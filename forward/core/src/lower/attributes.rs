//! A node's attributes, parsed to the types that its operator expects.

use super::lowering::{Info, Lowering};
use ckpt_api::{Attribute, Error, Result};

/// The largest side, step or padding of a window.
const MAX: usize = 1 << 16;

impl<'a> Lowering<'a> {
    /// Fails for an attribute other than `names`, which would change the result.
    pub(super) fn allow_attributes(&self, names: &[&str]) -> Result<()> {
        match self.node.attributes.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(Error::unsupported(format!("{} has an unknown attribute", self.node.op))
                .found(format!("'{name}'"))
                .expected(if names.is_empty() { "none".to_owned() } else { names.join(", ") })),
            None => Ok(()),
        }
    }

    /// Returns an integer.
    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.node.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(wrong(name, other, "an integer")),
        }
    }

    /// Returns 0 or 1 as a flag; `false` if it is absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.int(name, 0)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(wrong(name, &Attribute::Int(other), "0 or 1")),
        }
    }

    /// Returns a number; NaN is refused.
    #[expect(clippy::cast_precision_loss, reason = "an integer in place of a number is small")]
    pub(super) fn float(&self, name: &str, default: f64) -> Result<f64> {
        match self.node.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) if !value.is_nan() => Ok(*value),
            Some(Attribute::Int(value)) => Ok(*value as f64),
            Some(other) => Err(wrong(name, other, "a number")),
        }
    }

    /// Returns a text, if it is present.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Text(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(name, other, "a text")),
        }
    }

    /// Returns a list of integers, if it is present.
    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(wrong(name, other, "a list of integers")),
        }
    }

    /// Returns `N` lengths of at least `least`; lengths that are far larger than those of windows are refused.
    pub(super) fn lengths<const N: usize>(&self, name: &str, least: usize) -> Result<Option<[usize; N]>> {
        let Some(values) = self.ints(name)? else { return Ok(None) };
        let lengths = values
            .iter()
            .map(|value| usize::try_from(*value).ok().filter(|len| (least..=MAX).contains(len)))
            .collect::<Option<Vec<_>>>();
        lengths.and_then(|lengths| <[usize; N]>::try_from(lengths).ok()).map(Some).ok_or_else(|| {
            let expected = format!("{N} integers from {least} to {MAX}");
            wrong(name, &Attribute::Ints(values.to_vec()), &expected)
        })
    }

    /// Returns the axis that attribute `axis` names; negative values count from the end.
    pub(super) fn axis(&self, info: &Info, default: i64) -> Result<usize> {
        let axis = self.int("axis", default)?;
        resolve_axis(axis, info.shape.len()).ok_or_else(|| no_axis("axis", axis, info))
    }
}

/// Resolves an axis of `rank` axes; negative values count from the end.
pub(super) fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let signed = i64::try_from(rank).ok()?;
    usize::try_from(if axis < 0 { axis.checked_add(signed)? } else { axis }).ok().filter(|axis| *axis < rank)
}

/// The error for an axis that a value does not have.
pub(super) fn no_axis(name: &str, axis: i64, info: &Info) -> Error {
    Error::corrupt(format!("attribute '{name}' names an axis that the value does not have"))
        .found(format!("{axis} for a value of shape {:?}", info.shape))
}

/// The error for an attribute with a wrong value.
pub(super) fn wrong(name: &str, found: &Attribute, expected: &str) -> Error {
    let found = match found {
        Attribute::Int(value) => value.to_string(),
        Attribute::Float(value) => value.to_string(),
        Attribute::Text(value) => format!("'{}'", value.escape_debug()),
        Attribute::Ints(values) => format!("{values:?}"),
        _ => "another type".to_owned(),
    };
    Error::corrupt(format!("attribute '{name}' is not valid")).found(found).expected(expected)
}
