//! Reports what a CNN2 file does not hold as the source has it.

use super::model::{Bias, Layer, Model};
use crate::format::{layer_name, weight_name};
use ckpt_api::{Checkpoint, Error, Loss, LossKind, Result, Tensor, first_few};

/// Returns the losses that only this format has.
pub(super) fn losses(checkpoint: &Checkpoint, model: &Model<'_>) -> Result<Vec<Loss>> {
    refuse_shared(checkpoint, model)?;
    let mut losses = Vec::new();
    for layer in &model.layers {
        require_float(layer.weight)?;
        losses.extend(layer.bias.as_ref().map(|bias| folded(layer, bias)));
    }
    losses.extend(names_loss(model));
    losses.extend(graph_loss(&model.stated));
    Ok(losses)
}

fn require_float(weight: &Tensor) -> Result<()> {
    if weight.quantization.is_some() || !weight.dtype.is_float() {
        let found = if weight.quantization.is_some() { "scaled integers" } else { weight.dtype.name() };
        return Err(Error::unsupported("the weight is not floating-point")
            .tensor(&weight.name)
            .found(found)
            .expected("a floating-point dtype: CNN2 stores f16"));
    }
    Ok(())
}

fn folded(layer: &Layer<'_>, bias: &Bias<'_>) -> Loss {
    let (tap, channel) = (layer.shape.kernel / 2, bias.channel);
    let detail = format!(
        "added to '{}' at [out, {channel}, {tap}, {tap}]: input {channel} is always 1.0",
        layer.weight.name
    );
    Loss::new(LossKind::Merged, &bias.tensor.name, detail)
}

/// Refuses a weight that two layers share.
fn refuse_shared(checkpoint: &Checkpoint, model: &Model<'_>) -> Result<()> {
    let mut used = vec![false; checkpoint.tensors.len()];
    for layer in &model.layers {
        if used.get_mut(layer.id.0).is_none_or(|used| std::mem::replace(used, true)) {
            return Err(Error::unsupported("two layers share a weight, which CNN2 cannot store")
                .field(&layer.name)
                .tensor(&layer.weight.name));
        }
    }
    Ok(())
}

fn names_loss(model: &Model<'_>) -> Option<Loss> {
    let keeps_names = |(index, layer): &(usize, &Layer<'_>)| {
        layer.name == layer_name(*index) && layer.weight.name == weight_name(*index)
    };
    let count = model.layers.iter().enumerate().filter(|layer| !keeps_names(layer)).count();
    let verb = if count == 1 { "becomes" } else { "become" };
    let layers = ckpt_api::count(count, "layer");
    let detail = format!("{layers} {verb} layer1, layer2, …: CNN2 stores no names");
    (count > 0).then(|| Loss::new(LossKind::NamesDropped, "names", detail))
}

/// What the user must set in the renderer, because the file does not store it.
fn graph_loss(stated: &[String]) -> Option<Loss> {
    const SHOWN: usize = 8;
    (!stated.is_empty()).then(|| {
        let detail = format!("CNN2 stores neither activations nor borders: {}", first_few(stated, SHOWN));
        Loss::new(LossKind::GraphDropped, "activations and borders", detail)
    })
}
