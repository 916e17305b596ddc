//! Writes a model: the one that was read, or another one that is given, with the checkpoint's numbers; or else a new package.

mod blobs;
mod filled;
mod fresh;
mod messages;
mod names;

use crate::format::NAMESPACE;
use crate::read::{Package, kept_keys};
use ckpt_api::{
    Aspect, Checkpoint, Error, Input, Limits, Loss, LossKind, OptionKind, OptionSpec, Options, OutputLayout,
    Result, Side,
};

pub(crate) const LIKE: &str = "like";

pub(crate) const OPTIONS: &[OptionSpec] = &[OptionSpec::new(
    LIKE,
    OptionKind::Text,
    Side::Write,
    "a model whose graph and files are written, with the checkpoint's numbers (default: the model that was read)",
)];

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    if let Some(path) = options.text(LIKE) {
        let package = Input::open(path).and_then(|input| Package::read(&input, &Limits::default()));
        return filled::like(checkpoint, name, &package.map_err(|error| error.field(LIKE))?, path);
    }
    if let Some(layout) = filled::unchanged(checkpoint, name) {
        return Ok(layout);
    }
    if name.ends_with(".mlmodel") {
        return Err(Error::unsupported("a new model is a package, and no single file")
            .file(name)
            .found("an output named .mlmodel")
            .expected("one named .mlpackage"));
    }
    let mut layout = fresh::place(checkpoint, name)?;
    for aspect in [Aspect::Graph, Aspect::Axes] {
        layout.left_out.insert(aspect, "the package has the tensors alone".to_owned());
    }
    if checkpoint.metadata.namespace(NAMESPACE).is_some() {
        let lost = |subject| {
            Loss::new(LossKind::BookkeepingDropped, subject, "the files are others than those that were read")
        };
        layout.losses.extend(kept_keys().map(lost));
    }
    if let Some(number) = checkpoint.metadata.value(NAMESPACE, "operations").and_then(|value| value.as_u64())
    {
        let detail = format!(
            "{} of the model that was read: its tensors are not those of the checkpoint, or were compressed",
            ckpt_api::count(number, "operation")
        );
        layout.losses.push(Loss::new(LossKind::LayerDropped, "operations", detail));
    }
    Ok(layout)
}
