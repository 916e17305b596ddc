//! Whether a conversion takes quantized weights as numbers, or as the tensors that are stored for them.

use super::Conversion;
use crate::registry::Registry;
use crate::settings::KEEP_QUANTIZED;
use crate::source::{Grouped, Source};
use crate::store::Destination;
use ckpt_api::{DType, Error, Loss, LossKind, Result, Setting, first_few, text};
use std::borrow::Cow;

/// Names that an error lists.
const SHOWN: usize = 3;

impl Conversion {
    /// The source as this conversion takes it.
    ///
    /// Stored tensors are carried if nothing touches them: the format stays, and so do names, axes and dtypes. Numbers are taken
    /// if floats are asked for, by a dtype or by a target that takes models. What is neither stops here.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Lossy`] for a conversion that would take stored tensors for numbers; what is wrong with a weight whose
    /// numbers are needed.
    pub(super) fn with_numbers<'s>(
        &self,
        registry: &Registry,
        source: &'s Source,
        output: &Destination,
    ) -> Result<Cow<'s, Source>> {
        let Some(grouped) = source.grouped() else {
            return match self.dtype.is_some_and(DType::is_float) {
                true => source.with_scaled_integers(),
                false => Ok(Cow::Borrowed(source)),
            };
        };
        let is_decoded_by_mapping = self.mapping.as_ref().is_some_and(|mapping| mapping.dequantizes());
        if self.keep_quantized || is_decoded_by_mapping {
            return Ok(Cow::Owned(source.stored()));
        }
        if !source.input().others().is_empty() && self.dtype.is_none() {
            return Err(undecided());
        }
        if self.dtype.is_some_and(DType::is_float) {
            return numbers(source, grouped, self.dtype);
        }
        if self.mapping.is_none() && self.transforms.is_empty() && self.dtype.is_none() {
            let conversion = self.as_directory(registry, source, output)?;
            let writer = conversion.writer(registry, output)?;
            if writer.info().id == source.format() {
                return Ok(Cow::Owned(source.stored()));
            }
            if let Some(model) = conversion.translate_model(registry, source, writer.info())? {
                return match model.takes_stored {
                    true => Ok(Cow::Owned(source.stored())),
                    false => numbers(source, grouped, model.dtype),
                };
            }
        }
        Err(stop(grouped))
    }
}

/// The numbers of all weights, as their libraries round them on the way to a dtype.
fn numbers<'s>(source: &'s Source, grouped: &Grouped, dtype: Option<DType>) -> Result<Cow<'s, Source>> {
    match grouped.problem() {
        Some(problem) => Err(problem.without_cause()),
        None => Ok(Cow::Owned(source.rounded_to(dtype))),
    }
}

/// The error of a merge into quantized weights, whose result has no dtype of its own.
fn undecided() -> Error {
    Error::usage("the weights of the base are quantized, and merged weights are plain numbers")
        .expected(text!["a dtype for them, with ", Setting::DTYPE.of("bf16")])
}

/// The error of a conversion that would take stored tensors for numbers.
fn stop(grouped: &Grouped) -> Error {
    let kind = LossKind::ScaleDropped.name();
    let names: Vec<&str> = grouped.groups().map(|group| group.tensor.name.as_str()).collect();
    let schemes = grouped.groups().next().map(|group| format!(" ({})", group.scheme)).unwrap_or_default();
    let error = Error::lossy(
        "the weights are quantized, and this conversion would take their stored tensors for numbers",
    )
    .help(text![
        "to store the numbers that they stand for, use ",
        Setting::DTYPE.of("bf16"),
        "; to carry the stored tensors as they are, use ",
        KEEP_QUANTIZED
    ]);
    match names.is_empty() {
        true => {
            error.found(format!("{kind}: {}", grouped.problem().map(ToString::to_string).unwrap_or_default()))
        }
        false => error.found(format!("{kind}: {}{schemes}", first_few(&names, SHOWN))),
    }
}

/// What the weights lose that are stored as numbers.
pub(super) fn losses(source: &Source, excluded: &[String]) -> Vec<Loss> {
    let groups = source.grouped().into_iter().flat_map(Grouped::groups);
    let kept = groups.filter(|group| !excluded.iter().any(|name| *name == *group.tensor.name));
    kept.map(|group| {
        let detail = format!("stored as {}, and now as plain numbers", group.scheme);
        Loss::new(LossKind::Dequantized, group.tensor.name.to_string(), detail)
    })
    .collect()
}
