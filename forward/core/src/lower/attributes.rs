//! A node's attributes, as the types that its operator wants.

use super::{Info, Site};
use ckpt_api::{Attribute, Error, Result};

/// The greatest side, step or padding of a window.
const MOST: usize = 1 << 16;

impl<'a> Site<'a> {
    /// Refuses attributes that the operator does not know: they would change what is computed.
    pub(super) fn knows(&self, names: &[&str]) -> Result<()> {
        match self.node.attributes.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => {
                Err(Error::unsupported(format!("{} has an attribute that is not known", self.node.op))
                    .found(format!("'{name}'"))
                    .expected(if names.is_empty() { "none".to_owned() } else { names.join(", ") }))
            }
            None => Ok(()),
        }
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.node.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(wrong(name, other, "an integer")),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.int(name, 0)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(wrong(name, &Attribute::Int(other), "0 or 1")),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an integer where a number is meant is a small one")]
    pub(super) fn float(&self, name: &str, default: f64) -> Result<f64> {
        match self.node.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) if !value.is_nan() => Ok(*value),
            Some(Attribute::Int(value)) => Ok(*value as f64),
            Some(other) => Err(wrong(name, other, "a number")),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Text(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(name, other, "a text")),
        }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(wrong(name, other, "a list of integers")),
        }
    }

    /// So many lengths of at least `least`; far more than windows have is refused.
    pub(super) fn lengths<const N: usize>(&self, name: &str, least: usize) -> Result<Option<[usize; N]>> {
        let Some(values) = self.ints(name)? else { return Ok(None) };
        let lengths = values
            .iter()
            .map(|value| usize::try_from(*value).ok().filter(|len| (least..=MOST).contains(len)))
            .collect::<Option<Vec<_>>>();
        lengths.and_then(|lengths| <[usize; N]>::try_from(lengths).ok()).map(Some).ok_or_else(|| {
            let expected = format!("{N} integers from {least} to {MOST}");
            wrong(name, &Attribute::Ints(values.to_vec()), &expected)
        })
    }

    /// The axis that attribute `axis` names; negative ones count from the end.
    pub(super) fn axis(&self, info: &Info, default: i64) -> Result<usize> {
        let axis = self.int("axis", default)?;
        place(axis, info.shape.len()).ok_or_else(|| no_axis("axis", axis, info))
    }
}

/// Which of `rank` axes is meant; negative ones count from the end.
pub(super) fn place(axis: i64, rank: usize) -> Option<usize> {
    let signed = i64::try_from(rank).ok()?;
    usize::try_from(if axis < 0 { axis.checked_add(signed)? } else { axis }).ok().filter(|axis| *axis < rank)
}

pub(super) fn no_axis(name: &str, axis: i64, info: &Info) -> Error {
    Error::corrupt(format!("attribute '{name}' names an axis that the value has not"))
        .found(format!("{axis} for a value of shape {:?}", info.shape))
}

pub(super) fn wrong(name: &str, found: &Attribute, expected: &str) -> Error {
    let found = match found {
        Attribute::Int(value) => value.to_string(),
        Attribute::Float(value) => value.to_string(),
        Attribute::Text(value) => format!("'{}'", value.escape_debug()),
        Attribute::Ints(values) => format!("{values:?}"),
        _ => "another type".to_owned(),
    };
    Error::corrupt(format!("attribute '{name}' makes no sense")).found(found).expected(expected)
}
