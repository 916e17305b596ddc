//! Attributes as Python has them.

use super::Emitter;
use crate::arguments::list;
use crate::attributes::ints;
use crate::names::number;
use ckpt_api::{Attribute, Node, Result};

impl Emitter<'_> {
    /// An attribute that is a list, or the list that an input has in its place; `None` of Python for neither.
    pub(super) fn list(&self, node: &Node, name: &str) -> Result<String> {
        let computed = node.computed_attributes().find(|(own, _)| *own == name);
        Ok(match (node.attributes.get(name), computed) {
            (Some(Attribute::Floats(values)), _) => reals(values),
            (Some(_), _) => list(ints(node, name)?.unwrap_or_default()),
            (None, Some((_, input))) => format!("{}.tolist()", self.variable(input)?),
            (None, None) => "None".to_owned(),
        })
    }

    /// An attribute that is one integer or an input's only number; `default` for neither.
    pub(super) fn number(&self, node: &Node, name: &str, default: i64) -> Result<String> {
        let computed = node.computed_attributes().find(|(own, _)| *own == name);
        Ok(match (node.attributes.get(name), computed) {
            (None, Some((_, input))) => format!("{}.item()", self.variable(input)?),
            _ => node.int(name, default)?.to_string(),
        })
    }
}

/// A list of real numbers.
pub(super) fn reals(values: &[f64]) -> String {
    format!("[{}]", values.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", "))
}

/// A truth value.
pub(super) fn truth(holds: bool) -> String {
    if holds { "True" } else { "False" }.to_owned()
}
