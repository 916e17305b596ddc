//! Tensors that a target needs beside those that a mapping makes, if the model's configuration says so.

use super::definition::{Mapping, Need};
use ckpt_api::{Error, Loss, LossKind, Result};

impl Mapping {
    /// The mapping with those needs stated that the configuration has, whose texts `find` returns by their keys.
    pub(crate) fn with_needs_of(mut self, find: impl Fn(&str) -> Option<String>) -> Self {
        for need in &mut self.needs {
            need.stated = need.config.iter().find_map(|key| {
                let value = find(key).filter(|value| need.values.contains(value))?;
                Some(format!("{key} is '{value}'"))
            });
        }
        self
    }

    /// The losses of tensors that are needed and not there.
    pub(crate) fn unmet_needs(&self, is_there: impl Fn(&str) -> bool) -> Vec<Loss> {
        let unmet = self.needs.iter().filter(|need| !is_there(&need.tensor));
        let loss = |need: &Need| {
            let stated = need.stated.as_ref()?;
            let detail =
                format!("the model's configuration needs '{}' ({stated}): {}", need.tensor, need.reason);
            Some(Loss::new(LossKind::Unloadable, &need.tensor, detail))
        };
        unmet.filter_map(loss).collect()
    }
}

/// Checks the needs of a file.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for one without a name, a key, a value or a reason.
pub(super) fn check(needs: &[Need]) -> Result<()> {
    let is_empty = |need: &Need| {
        let texts = [&need.tensor, &need.reason];
        need.config.is_empty() || need.values.is_empty() || texts.iter().any(|text| text.is_empty())
    };
    match needs.iter().position(is_empty) {
        Some(index) => Err(Error::mapping("a need of the mapping is empty")
            .field(format!("needs {}", index.saturating_add(1)))
            .expected("a tensor, keys of the configuration, values, and a reason")),
        None => Ok(()),
    }
}
