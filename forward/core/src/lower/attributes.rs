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

    /// Returns `count` lengths of at least `least`; lengths that are far larger than those of windows are refused.
    pub(super) fn lengths(&self, name: &str, count: usize, least: usize) -> Result<Option<Vec<usize>>> {
        let Some(values) = self.node.ints(name)? else { return Ok(None) };
        let lengths = values
            .iter()
            .map(|value| usize::try_from(*value).ok().filter(|len| (least..=MAX).contains(len)))
            .collect::<Option<Vec<_>>>();
        lengths.filter(|lengths| lengths.len() == count).map(Some).ok_or_else(|| {
            let expected = format!("{count} integers from {least} to {MAX}");
            Attribute::Ints(values.to_vec()).invalid(name, expected)
        })
    }

    /// Returns the axis that attribute `axis` names; negative values count from the end.
    pub(super) fn axis(&self, info: &Info, default: i64) -> Result<usize> {
        let axis = self.node.int("axis", default)?;
        resolve_axis(axis, info.shape.len()).ok_or_else(|| no_axis("axis", axis, info))
    }
}

/// The error for an attribute that the node must have.
pub(super) fn lacks(name: &str) -> Error {
    Error::corrupt(format!("the layer lacks its attribute '{name}'"))
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
