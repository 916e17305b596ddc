//! Reports what a CNN2 file does not hold as the source has it.

use super::model::{Bias, Layer, Model};
use crate::format::{layer_name, weight_name};
use ckpt_api::{Checkpoint, DType, Error, Loss, LossKind, Result, Role, Tensor, first_few};

/// Returns the losses of the layers and tensors.
pub(super) fn losses(checkpoint: &Checkpoint, model: &Model<'_>) -> Result<Vec<Loss>> {
    let mut losses = Vec::new();
    for layer in &model.layers {
        losses.extend(dtype_loss(layer.weight)?);
        losses.extend(layer.bias.as_ref().map(|bias| folded(layer, bias)));
    }
    losses.extend(dropped(checkpoint, model)?);
    losses.extend(metadata_loss(model));
    losses.extend(names_loss(model));
    losses.extend(graph_loss(&model.stated));
    Ok(losses)
}

fn dtype_loss(weight: &Tensor) -> Result<Option<Loss>> {
    if weight.quantization.is_some() || !weight.dtype.is_float() {
        let found = if weight.quantization.is_some() { "scaled integers" } else { weight.dtype.name() };
        return Err(Error::unsupported("the weight is not floating-point")
            .tensor(&weight.name)
            .found(found)
            .expected("a floating-point dtype: CNN2 stores f16"));
    }
    Ok(match weight.dtype {
        DType::F16 => None,
        dtype @ (DType::F64 | DType::F32 | DType::Bf16 | DType::F8E8m0) => {
            Some(Loss::new(LossKind::Narrowed, &weight.name, format!("{dtype} is stored as f16")))
        }
        dtype => {
            Some(Loss::new(LossKind::Retyped, &weight.name, format!("{dtype} is stored as f16, exactly")))
        }
    })
}

fn folded(layer: &Layer<'_>, bias: &Bias<'_>) -> Loss {
    let (tap, channel) = (layer.shape.kernel / 2, bias.channel);
    let detail = format!(
        "added to '{}' at [out, {channel}, {tap}, {tap}]: input {channel} is always 1.0",
        layer.weight.name
    );
    Loss::new(LossKind::Merged, &bias.tensor.name, detail)
}

/// The tensors that no layer uses. Refuses a weight that two layers share.
fn dropped(checkpoint: &Checkpoint, model: &Model<'_>) -> Result<Vec<Loss>> {
    let mut used = vec![false; checkpoint.tensors.len()];
    for layer in &model.layers {
        if used.get_mut(layer.id.0).is_none_or(|used| std::mem::replace(used, true)) {
            return Err(Error::unsupported("two layers share a weight, which CNN2 cannot store")
                .field(&layer.name)
                .tensor(&layer.weight.name));
        }
        if let Some(used) = layer.bias.as_ref().and_then(|bias| used.get_mut(bias.id.0)) {
            *used = true;
        }
    }
    let unused = checkpoint.tensors.iter().zip(&used).filter(|(_, used)| !**used);
    let loss = |(tensor, _): (&Tensor, &bool)| {
        let detail = "no layer uses it, and CNN2 stores only the weights of layers";
        Loss::new(LossKind::of_dropping(tensor.role), &tensor.name, detail)
    };
    Ok(unused.map(loss).collect())
}

fn metadata_loss(model: &Model<'_>) -> Option<Loss> {
    let is_described =
        |tensor: &Tensor| !tensor.metadata.is_empty() || tensor.role != Role::Weight || tensor.slot.is_some();
    let count = model.layers.iter().filter(|layer| is_described(layer.weight)).count();
    let detail = format!("metadata of {count} tensor(s) has no place in a CNN2 file");
    (count > 0).then(|| Loss::new(LossKind::MetadataDropped, "metadata", detail))
}

fn names_loss(model: &Model<'_>) -> Option<Loss> {
    let keeps_names = |(index, layer): &(usize, &Layer<'_>)| {
        layer.name == layer_name(*index) && layer.weight.name == weight_name(*index)
    };
    let count = model.layers.iter().enumerate().filter(|layer| !keeps_names(layer)).count();
    let detail = format!("{count} layer(s) become layer1, layer2, …: CNN2 stores no names");
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
