//! Layers of one module: dense layers, convolutions, embeddings, normalizations.

use super::kinds::Kinds;
use super::output::{Output, Place, join};
use super::reading::{Hint, KNOWN, Layer, Shapes, Unknown, read};
use super::scan::Scans;
use super::tree::{Leaf, Module, Path, Tree};
use ckpt_api::Result;
use ckpt_engine::recipe::{AxisStep, Length, Reshape};

/// The pixels of a kernel that can be reversed: parts of an axis.
const MOST_PIXELS: u64 = 4096;

const CONVOLUTIONS: &str = "a kernel of four or five axes is taken for a convolution's; if it is transposed, state it, as in \
                            flax-to-torch,LAYER=conv_transpose";
const KERNELS: &str = "the kernel is taken for one without transpose_kernel; if it has that, state it, as in \
                       flax-to-torch,LAYER=transpose_kernel";
const GENERAL: &str = "a dense layer of several axes is an nn.Linear of the flattened axes";
const EPSILON: &str = "set eps=1e-6, Flax's default, if the model states no other (PyTorch's is 1e-5)";
const MOMENTUM: &str = "set momentum=0.01 to train on, which is Flax's default of 0.99";

/// Maps the leaves of one module.
pub(super) fn module<'t>(
    tree: &Tree<'t>,
    (path, module): (&Path<'t>, &Module<'t>),
    scans: &Scans<'t>,
    kinds: &Kinds,
    output: &mut Output,
) -> Result<()> {
    let place = Place::new(path, scans);
    let shapes = Shapes { module, is_scanned: place.scan.is_some() };
    let found = read(shapes, Hint::of(tree, path, kinds));
    let steps = found.and_then(|layer| Ok((layer, steps(layer, shapes).ok_or(Unknown::Shapes)?)));
    for (name, leaf) in module {
        match &steps {
            Ok((layer, steps)) if KNOWN.contains(name) => one(&place, *layer, (name, leaf), steps, output)?,
            Ok(_) => output.keep(&place, (name, leaf), Unknown::NoLayer)?,
            Err(why) => output.keep(&place, (name, leaf), *why)?,
        }
    }
    if let Ok((layer, _)) = steps {
        remark(&place, layer, output);
    }
    Ok(())
}

/// The steps of a layer's weight, and those of its bias.
struct Steps {
    weight: Vec<AxisStep>,
    bias: Vec<AxisStep>,
}

fn one(
    place: &Place<'_, '_>,
    layer: Layer,
    (name, leaf): (&str, &Leaf<'_>),
    steps: &Steps,
    output: &mut Output,
) -> Result<()> {
    match (layer, name) {
        (
            Layer::Dense | Layer::General { .. } | Layer::Conv { .. } | Layer::ConvTranspose { .. },
            "kernel",
        )
        | (Layer::Embedding, "embedding")
        | (Layer::BatchNorm | Layer::Norm, "scale")
        | (Layer::PRelu, "negative_slope") => output.one(place, leaf, "weight", steps.weight.clone()),
        (Layer::Embedding | Layer::PRelu, _) => output.keep(place, (name, leaf), Unknown::NoLayer),
        (_, "bias") => output.one(place, leaf, "bias", steps.bias.clone()),
        (Layer::BatchNorm, "mean") => output.one(place, leaf, "running_mean", Vec::new()),
        (Layer::BatchNorm, "var") => output.one(place, leaf, "running_var", Vec::new()),
        _ => output.keep(place, (name, leaf), Unknown::NoLayer),
    }
}

/// The steps from the axes of Flax to those of PyTorch; `None` for lengths that do not fit 64 bits.
fn steps(layer: Layer, shapes: Shapes<'_, '_>) -> Option<Steps> {
    let plain = |weight: Vec<AxisStep>| Steps { weight, bias: Vec::new() };
    let kernel = shapes.of("kernel").unwrap_or_default();
    let rank = kernel.len();
    Some(match layer {
        Layer::Dense => plain(vec![AxisStep::Transpose]),
        Layer::General { inputs } => {
            let (own, out) = kernel.split_at_checked(inputs)?;
            own.iter().chain(out).try_fold(1u64, |product, len| product.checked_mul(*len))?;
            let weight = join(out, inputs).into_iter().chain(join(own, 0)).chain([AxisStep::Transpose]);
            let bias = shapes.of("bias").and_then(|bias| join(bias, 0));
            Steps { weight: weight.collect(), bias: bias.into_iter().collect() }
        }
        Layer::Conv { .. } => plain(vec![AxisStep::Permute(spatial_last(rank))]),
        Layer::ConvTranspose { has_transposed_kernel: true, .. } => {
            plain(vec![AxisStep::Permute(spatial_last(rank))])
        }
        Layer::ConvTranspose { .. } => {
            let mut weight = reversed(kernel.get(..rank.checked_sub(2)?)?)?;
            weight.push(AxisStep::Permute(vec![rank - 2, rank - 1].into_iter().chain(0..rank - 2).collect()));
            plain(weight)
        }
        Layer::PRelu => plain(vec![AxisStep::Unsqueeze(0)]),
        Layer::Embedding | Layer::BatchNorm | Layer::Norm => plain(Vec::new()),
    })
}

/// The last two axes, the last one first, and then the others.
fn spatial_last(rank: usize) -> Vec<usize> {
    (0..rank).rev().take(2).chain(0..rank.saturating_sub(2)).collect()
}

/// The steps that reverse the first axes, all of them: the pixels of a kernel in the opposite order.
fn reversed(spatial: &[u64]) -> Option<Vec<AxisStep>> {
    let pixels = spatial.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    let pixels = pixels.filter(|pixels| *pixels <= MOST_PIXELS)?;
    if pixels <= 1 {
        return Some(Vec::new());
    }
    let order = (0..usize::try_from(pixels).ok()?).rev().collect();
    let parts = AxisStep::Parts { order, axis: 0 };
    let lengths = |lens: &[u64]| lens.iter().map(|len| Length::Of(*len)).collect();
    let divide = AxisStep::Reshape(Reshape::new(vec![Length::Of(pixels)], lengths(spatial), 0));
    Some(match join(spatial, 0) {
        Some(join) => vec![join, parts, divide],
        None => vec![parts],
    })
}

/// Notes what no tensor states.
fn remark(place: &Place<'_, '_>, layer: Layer, output: &mut Output) {
    match layer {
        Layer::General { .. } => output.set(place, GENERAL),
        Layer::Conv { is_named: false } => output.assume(place, CONVOLUTIONS),
        Layer::ConvTranspose { is_certain: false, .. } => output.assume(place, KERNELS),
        Layer::Norm => output.set(place, EPSILON),
        Layer::BatchNorm => {
            output.set(place, MOMENTUM);
            output.count(place);
        }
        Layer::Dense | Layer::Conv { .. } | Layer::ConvTranspose { .. } | Layer::Embedding | Layer::PRelu => {
        }
    }
}
