//! Layers: their kinds, and the axes and roles of their tensors.

use ckpt_api::{Axis, Role};

/// The kind of layer that a class is: its name without `nn.` or the name of a library with the same layers.
pub(crate) fn layer(class: &str) -> Option<&str> {
    let (library, layer) = class.split_once('.')?;
    matches!(library, "nn" | "cudnn" | "cunn" | "fbcunn").then_some(layer)
}

/// What the axes of a layer's tensor mean.
pub(crate) fn axes(layer: &str, field: &str, rank: usize) -> Option<Vec<Axis>> {
    use Axis::{In, KernelX, KernelY, Out};
    Some(match (layer, field, rank) {
        ("Linear", "weight", 2) => vec![Out, In],
        ("SpatialConvolution" | "SpatialConvolutionMM" | "SpatialDilatedConvolution", "weight", 4) => {
            vec![Out, In, KernelY, KernelX]
        }
        ("SpatialFullConvolution", "weight", 4) => vec![In, Out, KernelY, KernelX],
        ("LookupTable", "weight", 2) => vec![Axis::Feature, Out],
        (
            "Linear"
            | "SpatialConvolution"
            | "SpatialConvolutionMM"
            | "SpatialDilatedConvolution"
            | "SpatialFullConvolution",
            "bias",
            1,
        )
        | (
            "BatchNormalization" | "SpatialBatchNormalization",
            "weight" | "bias" | "running_mean" | "running_var" | "running_std",
            1,
        ) => vec![Out],
        _ => return None,
    })
}

/// What a tensor of a layer is for: gradients are of training, and results and buffers are what the last run left.
pub(crate) fn role(field: &str) -> Role {
    match field {
        "gradWeight" | "gradBias" => Role::Optimizer,
        "output" | "gradInput" | "finput" | "fgradInput" | "indices" | "noise" | "buffer" | "addBuffer"
        | "save_mean" | "save_std" => Role::Bookkeeping,
        _ if field.starts_with('_') => Role::Bookkeeping,
        _ => Role::Weight,
    }
}
