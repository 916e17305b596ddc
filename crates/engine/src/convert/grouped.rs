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

/// The option of a target that names the scheme by which weights are quantized.
const QUANTIZE: &str = "quantize";

impl Conversion {
    /// The scheme by which the weights are quantized.
    pub(super) fn scheme(&self) -> Option<&str> {
        self.options.iter().find(|(key, _)| key == QUANTIZE).map(|(_, scheme)| scheme.as_str())
    }

    /// The source with the tensors that the scheme stores for its weights, if one is asked for.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a conversion that changes weights otherwise, or that has no configuration to state the
    /// scheme; those of [`TensorGroups::quantize`](crate::formats::TensorGroups::quantize).
    pub(super) fn with_scheme<'s>(
        &self,
        registry: &Registry,
        source: &'s Source,
        output: &Destination,
    ) -> Result<Cow<'s, Source>> {
        let Some(scheme) = self.scheme() else { return Ok(Cow::Borrowed(source)) };
        if self.writer(registry, output).is_ok_and(|codec| codec.info().quantizes_itself) {
            return Ok(Cow::Borrowed(source));
        }
        let refused = |found: &str, help: &str| {
            let option = format!("{QUANTIZE}={scheme}");
            Err(Error::usage("the weights cannot be quantized in this conversion")
                .field(option)
                .found(found.to_owned())
                .help(help.to_owned()))
        };
        if source.grouped().is_some() || source.options().parts {
            return refused(
                "weights that are quantized already",
                "decode them first, into a directory of plain numbers",
            );
        }
        if self.mapping.is_some() || !self.transforms.is_empty() || self.dtype.is_some() {
            return refused(
                "a mapping, a transform or a dtype",
                "convert in two steps: first the tensors, then quantize the directory that this gives",
            );
        }
        if !self.as_directory(registry, source, output)?.directory {
            return refused(
                "an output that is a file",
                "name a directory for the output, and one with a config.json as the input: the configuration states the scheme",
            );
        }
        source.quantized_by(registry, scheme).map(Cow::Owned)
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

/// What the weights lose that are stored as numbers, or that a scheme rounds.
pub(super) fn losses(source: &Source, excluded: &[String]) -> Vec<Loss> {
    let is_kept = |name: &str| !excluded.iter().any(|excluded| excluded == name);
    let groups = source.grouped().into_iter().flat_map(Grouped::groups);
    let decoded = groups.filter(|group| is_kept(&group.tensor.name)).map(|group| {
        let detail = format!("stored as {}, and now as plain numbers", group.scheme);
        Loss::new(LossKind::Dequantized, group.tensor.name.to_string(), detail)
    });
    let quantized = source.quantized().into_iter().flat_map(|quantized| {
        let names = quantized.weights.iter().filter(|name| is_kept(name));
        names.map(|name| {
            Loss::new(LossKind::Narrowed, name.clone(), format!("rounded to {}", quantized.scheme))
        })
    });
    decoded.chain(quantized).collect()
}
