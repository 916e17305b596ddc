//! Conventions that a graph shows: which tensors take flattened images, and of which convolutions.

use super::images::{Flattened, Image, flattened, images};
use super::kernels::{Channels, Kernel, channels_of};
use super::lengths::input_len;
use super::steps::{ImageSteps, ends, step_to};
use ckpt_api::{Contents, Graph, Loss, LossKind, Op, Tensor};
use std::collections::HashMap;

/// Returns a loss for each tensor and layer whose flattened images have their channels at the other end than the
/// kernels before them, where a mapping changed either.
pub(super) fn conventions(
    graph: &Graph,
    mapped: &Contents,
    moved: &[Kernel<'_>],
    steps: &ImageSteps,
) -> Vec<Loss> {
    let all = flattened(graph);
    if all.is_empty() {
        return Vec::new();
    }
    let tensors: HashMap<&str, &Tensor> =
        mapped.checkpoint.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let moved: HashMap<&str, Channels> = moved.iter().map(|kernel| (kernel.name, kernel.channels)).collect();
    let kernels = kernels_of_values(graph, &tensors, &moved);
    let images = images(graph, &tensors);
    let mut losses = Vec::new();
    for found in &all {
        let input = graph.nodes.get(found.node).and_then(|node| node.inputs.first());
        let Some(kernels) = input.and_then(|input| kernels.get(input.as_str())) else { continue };
        let is_reordered = found.tensors.iter().any(|tensor| !steps.of(tensor).is_empty());
        let image = images.get(&found.node);
        match found.channels() {
            Channels::Last if kernels.moved_first => losses.extend(misplaced(found, image, &tensors, true)),
            Channels::First if kernels.moved_last => losses.extend(misplaced(found, image, &tensors, true)),
            Channels::First if is_reordered && kernels.kept_last => {
                losses.extend(misplaced(found, image, &tensors, false));
            }
            Channels::Last if is_reordered && kernels.kept_first => {
                losses.extend(misplaced(found, image, &tensors, false));
            }
            _ => {}
        }
    }
    losses
}

/// The kernels of the convolutions that a value comes from.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Kernels {
    moved_first: bool,
    moved_last: bool,
    kept_first: bool,
    kept_last: bool,
}

impl Kernels {
    fn or(self, other: Kernels) -> Kernels {
        Kernels {
            moved_first: self.moved_first || other.moved_first,
            moved_last: self.moved_last || other.moved_last,
            kept_first: self.kept_first || other.kept_first,
            kept_last: self.kept_last || other.kept_last,
        }
    }
}

/// The kernels of all images, by the names of the values.
fn kernels_of_values<'g>(
    graph: &'g Graph,
    tensors: &HashMap<&str, &Tensor>,
    moved: &HashMap<&str, Channels>,
) -> HashMap<&'g str, Kernels> {
    let mut of_values: HashMap<&str, Kernels> = HashMap::new();
    for node in &graph.nodes {
        let before = node.inputs.iter().filter_map(|input| of_values.get(input.as_str()).copied());
        let before = before.fold(Kernels::default(), Kernels::or);
        let own = node.parameters.get("weight").map(String::as_str).filter(|_| node.op == Op::Conv);
        let mut kernels = own.map(|weight| kernels_of(weight, tensors, moved)).unwrap_or_default().or(before);
        // What comes out has no pixels, or one.
        if let Op::Flatten | Op::Gemm | Op::GlobalAveragePool = node.op {
            kernels = Kernels::default();
        }
        if kernels != Kernels::default() {
            of_values.extend(node.outputs.iter().map(|output| (output.as_str(), kernels)));
        }
    }
    of_values
}

fn kernels_of(weight: &str, tensors: &HashMap<&str, &Tensor>, moved: &HashMap<&str, Channels>) -> Kernels {
    let mut kernels = Kernels::default();
    match (moved.get(weight), tensors.get(weight).and_then(|tensor| channels_of(tensor))) {
        (Some(Channels::First), _) => kernels.moved_first = true,
        (Some(Channels::Last), _) => kernels.moved_last = true,
        (None, Some(Channels::First)) => kernels.kept_first = true,
        (None, Some(Channels::Last)) => kernels.kept_last = true,
        (None, None) => {}
    }
    kernels
}

/// The losses of all tensors and layers that take these images. `has_moved` says whether the channels of the kernels
/// moved, and those of the images did not, or the other way around.
fn misplaced(
    found: &Flattened,
    image: Option<&Image>,
    tensors: &HashMap<&str, &Tensor>,
    has_moved: bool,
) -> Vec<Loss> {
    let channels = image.map(|image| image.channels);
    let loss = |subject: &str, detail: String| Loss::new(LossKind::Convention, subject, detail);
    let of_tensors = found.tensors.iter().filter_map(|name| {
        let inputs = input_len(tensors.get(name.as_str())?)?;
        // Of one channel, or of one pixel, there is only one order.
        if channels.is_some_and(|channels| channels == 1 || channels == inputs) {
            return None;
        }
        let pixels = channels.and_then(|channels| Some((inputs.checked_div(channels)?, channels)));
        Some(loss(name, advice(found.channels(), pixels, has_moved)))
    });
    let mut losses: Vec<Loss> = of_tensors.collect();
    if channels == Some(1) || (losses.is_empty() && !found.tensors.is_empty()) {
        return losses;
    }
    losses.extend(found.others.iter().map(|name| loss(name, unreachable_order(found.channels()))));
    losses
}

fn advice(images: Channels, pixels: Option<(u64, u64)>, has_moved: bool) -> String {
    let (here, there) = ends(images);
    if !has_moved {
        return format!(
            "a step moved the channels of its flattened images to the {here} place, but the kernels of the convolutions \
             before it still have their channels {there}: permute the kernels as well, or leave out the step"
        );
    }
    let step = step_to(match images {
        Channels::First => Channels::Last,
        Channels::Last => Channels::First,
    });
    let numbers = match pixels {
        Some((pixels, channels)) => format!("'{step} {pixels} {channels}' (pixels and channels)"),
        None => format!("'{step} PIXELS CHANNELS'"),
    };
    format!(
        "its inputs are images that are flattened with their channels {here}, but the kernels of the convolutions before \
         it now have their channels {there}: add the step {numbers} for it to the mapping"
    )
}

fn unreachable_order(images: Channels) -> String {
    let (here, there) = ends(images);
    format!(
        "it takes images that are flattened with their channels {here}, but the kernels of the convolutions before it now \
         have their channels {there}; no step of a mapping reorders a part of its inputs: let the program that reads the \
         target do so"
    )
}
