//! Conventions where no graph shows them: which tensors are likely to take flattened images, by their shapes.
//!
//! A layer is suspicious whose inputs are a multiple of the channels of a convolution, and that nothing else explains.

use super::convolutions::Convolutions;
use super::kernels::{Channels, Kernel, Located, channels_of};
use super::network::{Network, vectors};
use super::steps::{ImageSteps, ends, has_one_order, image_of, step_to};
use crate::recipe::AxisStep;
use ckpt_api::{Contents, Loss, LossKind, first_few};
use std::collections::{BTreeMap, HashMap};

/// Returns a loss for each tensor that is likely to take flattened images with their channels at the other end than the
/// kernels now have them, and for each step that the kernels contradict. Where the kernels contradict each other, they
/// show nothing: that is the loss then.
pub(super) fn conventions(
    stored: &HashMap<&str, Located<'_>>,
    mapped: &Contents,
    moved: &[Kernel<'_>],
    steps: &ImageSteps,
) -> Vec<Loss> {
    let Some(Kernel { name: first, channels: to, .. }) = moved.first().copied() else {
        return without_kernels(mapped, steps);
    };
    if let Some(other) = moved.iter().find(|kernel| kernel.channels != to) {
        return vec![contradiction(other, first, to)];
    }
    let convolutions = Convolutions::new(moved);
    let mut losses: Vec<Loss> =
        steps.targets().filter_map(|(name, steps)| wrong_step(name, steps, to, &convolutions)).collect();
    losses.sort_by(|a, b| a.subject.cmp(&b.subject));
    let network = Network::new(stored, mapped, to, steps);
    let flattened = network.flattened(&convolutions);
    let mut add = |name: &str, detail: String| losses.push(Loss::new(LossKind::Convention, name, detail));
    let alike = network.alike(&flattened);
    let mut lens: BTreeMap<u64, String> = BTreeMap::new();
    for layer in &flattened {
        let axis = layer.axis.map_or(String::new(), |axis| format!(" on {axis}"));
        let steps = steps_for(layer.inputs, &axis, &convolutions, to);
        add(layer.name, advice(layer.inputs, &steps, &axis, to, alike.get(&layer.inputs).copied()));
        lens.insert(layer.inputs, steps_for(layer.inputs, "", &convolutions, to));
    }
    lens.extend(network.stated(steps));
    for tensor in vectors(stored, mapped, &lens, moved, steps) {
        let len = tensor.shape.elements();
        add(&tensor.name, advice(len, lens.get(&len).map_or("", String::as_str), "", to, None));
    }
    losses
}

/// The loss of a kernel whose channels moved to the other end than those of the first.
fn contradiction(kernel: &Kernel<'_>, first: &str, to: Channels) -> Loss {
    let (there, here) = ends(to);
    let detail = format!(
        "the channels of this kernel now come {here}, but those of '{first}' come {there}: a model has them at one end in all \
         kernels, so correct the steps of one of them; until then, flattened images cannot be checked"
    );
    Loss::new(LossKind::Convention, kernel.name, detail)
}

/// Losses of steps on images where no kernel moved, although some have their channels at the other end.
fn without_kernels(mapped: &Contents, steps: &ImageSteps) -> Vec<Loss> {
    let known = mapped.checkpoint.tensors.iter().filter_map(channels_of);
    let known: Vec<Channels> = known.collect();
    let mut losses: Vec<Loss> = steps
        .targets()
        .filter_map(|(name, steps)| {
            let (image, to) = steps.last().and_then(image_of)?;
            let contradicts = !known.is_empty() && !known.contains(&to) && !has_one_order(image);
            let (here, there) = ends(to);
            let detail = format!(
                "'{}' moves the channels of its flattened images to the {here} place, but the kernels of the convolutions \
                 still have their channels {there}: permute the kernels as well, or leave out the step",
                steps.last()?
            );
            contradicts.then(|| Loss::new(LossKind::Convention, name, detail))
        })
        .collect();
    losses.sort_by(|a, b| a.subject.cmp(&b.subject));
    losses
}

/// The loss of a step that moves channels to the other end than the kernels have them, or that no convolution has the
/// channels for.
fn wrong_step(name: &str, steps: &[AxisStep], to: Channels, convolutions: &Convolutions) -> Option<Loss> {
    let step = steps.last()?;
    let (image, moved) = image_of(step).filter(|(image, _)| image.channels() > 1)?;
    let detail = if moved != to {
        let (_, there) = ends(moved);
        format!(
            "'{step}' contradicts the kernels of the convolutions, which now have their channels {there}: the step is '{}'",
            step_to(to)
        )
    } else if convolutions.may_make(image.channels()) {
        return None;
    } else {
        format!(
            "'{step}' is for images of {} channels, but the convolutions make {}: the last number is that of the channels",
            image.channels(),
            first_few(&convolutions.outputs, 8)
        )
    };
    Some(Loss::new(LossKind::Convention, name, detail))
}

/// The steps for a tensor with this many inputs, in quotation marks; none if they cannot be whole images.
fn steps_for(inputs: u64, axis: &str, convolutions: &Convolutions, to: Channels) -> String {
    let steps = convolutions.channels_of(inputs).into_iter().filter_map(|channels| {
        Some(format!("'{} {} {channels}{axis}'", step_to(to), inputs.checked_div(channels)?))
    });
    steps.collect::<Vec<_>>().join(" or ")
}

fn advice(inputs: u64, steps: &str, axis: &str, to: Channels, alike: Option<&str>) -> String {
    let (here, there) = ends(to);
    let images = format!(
        "its {inputs} inputs may be flattened images with their channels {there}, but the kernels of the convolutions now \
         have their channels {here}"
    );
    let advice = if steps.is_empty() {
        format!(
            "{images}, together with other inputs: no step of a mapping reorders a part of them, so let the program that reads \
             the target do so"
        )
    } else {
        let first = if axis.is_empty() { "" } else { ", as its first step" };
        format!("{images}: if so, add the step {steps} (pixels and channels) for it to the mapping{first}")
    };
    let other = alike.map(|name| format!(", or for '{name}', which has as many inputs, if that comes first"));
    let declared =
        format!("'{} {inputs} 1{axis}' states that it takes no images, and changes nothing", step_to(to));
    format!("{advice}{}; {declared}", other.unwrap_or_default())
}

#[cfg(test)]
mod tests;
