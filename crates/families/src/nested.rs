//! A language model that is part of a larger one, beside a tower for images.

use crate::config::Config;
use crate::family::Family;
use ckpt_api::{Error, Result, first_few};
use ckpt_engine::formats::{ModelRequest, ModelTranslation};
use ckpt_engine::mapping::Mapping;
use ckpt_engine::words::printable;

/// How the names of such a language model begin, and what that is in place of: versions 4 and 5 of transformers.
const FORMS: [(&str, &[(&str, &str)]); 2] = [
    (
        "language_model.model.",
        &[("model.", "language_model.model."), ("lm_head.", "language_model.lm_head.")],
    ),
    ("model.language_model.", &[("model.", "model.language_model.")]),
];
/// How the names of what is no language model begin.
const OTHERS: [&str; 6] = [
    "vision_tower.",
    "vision_model.",
    "multi_modal_projector.",
    "model.vision_tower.",
    "model.vision_model.",
    "model.multi_modal_projector.",
];

/// Adapts the mapping of a family to the names of the larger model, and leaves out what belongs to images.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a language model of another kind.
pub(crate) fn adapt(
    family: &Family,
    config: &Config,
    request: &ModelRequest<'_>,
    mapping: Mapping,
    translation: &mut ModelTranslation,
) -> Result<Mapping> {
    if family.nested.is_empty() {
        return Ok(mapping);
    }
    let kind = config.model_type().unwrap_or_default();
    if config.has_text() && !family.nested.iter().any(|own| own == kind) {
        return Err(Error::unsupported(
            "the language model within the model is of a kind that is not known here",
        )
        .file(config.shown())
        .field("text_config.model_type")
        .found(printable(kind))
        .expected(first_few(family.nested.iter(), 4)));
    }
    let names = || request.source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
    let others: Vec<&str> = names().filter(|name| OTHERS.iter().any(|own| name.starts_with(own))).collect();
    if !others.is_empty() {
        let note = format!(
            "left out: {} tensors of the part for images, such as '{}'; llama.cpp reads them from a second file (mmproj), which is not written",
            others.len(),
            others.first().map(|name| printable(name)).unwrap_or_default()
        );
        translation.notes.push(note.into());
        translation.exclude.extend(others.into_iter().map(str::to_owned));
    }
    let form = FORMS.iter().find(|(beginning, _)| names().any(|name| name.starts_with(beginning)));
    Ok(match form {
        Some((_, renames)) => mapping.with_source_beginnings(renames),
        None => mapping,
    })
}
