//! Flattened images in graphs: a dense layer takes them in the order in which the Flatten before it has their elements.
//!
//! Keras flattens `[height, width, channels]`, PyTorch `[channels, height, width]`. In a graph, images have their
//! channels first; a Transpose before a Flatten moves them to the end. Where a step reorders the weight behind the
//! Flatten, this Transpose goes, or comes.

mod alike;
mod convolutions;
mod images;
mod kernels;
mod lengths;
mod likely;
mod network;
mod stated;
mod steps;

pub(super) use alike::steps_to_order_of;
pub(crate) use steps::ImageSteps;

use crate::recipe::{AxisStep, Target};
use ckpt_api::{Attribute, Contents, Error, Graph, Loss, LossKind, Node, Op, Result, Tensor};
use images::{Flattened, Image, channels_last, flattened, images};
use kernels::Channels;
use std::collections::{HashMap, HashSet};
use steps::{has_one_order, image_of, step_on_inputs, step_to};

/// Changes the graph as the steps on flattened images change the tensors, which still have the names of the source.
/// Removes the graph if it does not show the images, and returns that as a loss.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if only some tensors behind a Flatten are reordered, or images have other channels.
pub(super) fn reorder_images(
    graph: &mut Option<Graph>,
    tensors: &HashMap<&str, &Tensor>,
    targets: &[Target],
) -> Result<Option<Loss>> {
    let reordered = targets.iter().filter(|target| target.recipe.steps.iter().any(AxisStep::is_of_image));
    let mut left: HashSet<&str> =
        reordered.clone().filter_map(|target| target.sources.first().map(String::as_str)).collect();
    let Some(found) = graph.as_mut().filter(|_| !left.is_empty()) else { return Ok(None) };
    let steps: HashMap<&str, &AxisStep> = reordered
        .filter_map(|target| {
            let source = target.sources.first()?.as_str();
            Some((source, step_on_inputs(target, tensors.get(source)?)?))
        })
        .collect();
    let images = images(found, tensors);
    let all = flattened(found);
    let mut moves = Vec::new();
    for flattened in &all {
        let wanted = |tensor: &String| steps.get(tensor.as_str()).copied();
        let Some(step) = flattened.tensors.iter().find_map(wanted) else { continue };
        check_all(flattened, step, wanted)?;
        let before = images.get(&flattened.node);
        check_channels(flattened, step, before)?;
        check_direction(flattened, step, before)?;
        let change = match (step, flattened.transpose) {
            _ if !flattened.others.is_empty() => None,
            (AxisStep::FlattenOrder(_), Some(transpose)) => Some(Move::Without(transpose)),
            (AxisStep::UnflattenOrder(_), None) => before.map(|before| Move::Last(before.rank)),
            _ => None,
        };
        if let Some(change) = change {
            flattened.tensors.iter().for_each(|tensor| {
                left.remove(tensor.as_str());
            });
            moves.push((flattened.node, change));
        }
    }
    rewire(found, moves);
    let needed = found.nodes.iter().find_map(|node| {
        let tensor = node.tensors().map(|(_, name)| name).find(|name| left.contains(*name))?;
        Some(format!("layer '{}' needs '{tensor}', whose inputs are reordered", node.name))
    });
    Ok(needed.map(|why| {
        *graph = None;
        Loss::new(LossKind::GraphDropped, "graph", why)
    }))
}

/// Returns a loss for each tensor that takes flattened images in another order than the one that belongs to the kernels
/// of the convolutions before it, as a mapping or transforms left them.
pub(super) fn conventions(source: &Contents, mapped: &Contents, steps: &ImageSteps) -> Vec<Loss> {
    let stored = kernels::stored(source);
    let moved = kernels::moved_kernels(&stored, mapped);
    if moved.is_empty() && steps.is_empty() {
        return Vec::new();
    }
    match &mapped.checkpoint.graph {
        Some(graph) => stated::conventions(graph, mapped, &moved, steps),
        None => likely::conventions(&stored, mapped, &moved, steps),
    }
}

/// All tensors behind a Flatten are reordered alike, or none.
fn check_all<'s>(
    flattened: &Flattened,
    step: &AxisStep,
    wanted: impl Fn(&String) -> Option<&'s AxisStep>,
) -> Result<()> {
    let image = |step: &AxisStep| image_of(step).map(|(image, channels)| (channels, image.lens.clone()));
    let differs = |tensor: &&String| wanted(tensor).and_then(image) != image(step);
    match flattened.tensors.iter().find(differs) {
        None => Ok(()),
        Some(other) => {
            Err(Error::mapping("tensors that take the same flattened images are reordered differently")
                .tensor(other)
                .expected(format!("'{step}', as for the others")))
        }
    }
}

/// The channels of the step are those of the convolution before the Flatten.
fn check_channels(flattened: &Flattened, step: &AxisStep, before: Option<&Image>) -> Result<()> {
    let Some((image, _)) = image_of(step) else { return Ok(()) };
    match before {
        Some(Image { channels, .. }) if *channels != image.channels() => {
            let error = Error::mapping("the images that are flattened have another number of channels");
            let error = flattened.tensors.iter().fold(error, |error, tensor| error.tensor(tensor));
            Err(error.found(format!("'{step}'")).expected(format!("{channels} channels, the last number")))
        }
        _ => Ok(()),
    }
}

/// The step moves the channels to where they are not yet.
fn check_direction(flattened: &Flattened, step: &AxisStep, before: Option<&Image>) -> Result<()> {
    let Some((image, to)) = image_of(step).filter(|_| before.is_some()) else { return Ok(()) };
    if to != flattened.channels() || has_one_order(image) {
        return Ok(());
    }
    let (place, other) = match to {
        Channels::First => ("first", Channels::Last),
        Channels::Last => ("last", Channels::First),
    };
    let error = Error::mapping(format!("the flattened images have their channels {place} already"));
    let error = flattened.tensors.iter().fold(error, |error, tensor| error.tensor(tensor));
    Err(error.found(format!("'{step}'")).expected(format!("no such step, or '{}'", step_to(other))))
}

/// How the images come to a Flatten.
enum Move {
    /// Without this Transpose.
    Without(usize),
    /// Through a new Transpose of values of this rank, which moves the channels to the end.
    Last(usize),
}

/// Changes how images come to these Flattens.
fn rewire(graph: &mut Graph, moves: Vec<(usize, Move)>) {
    let mut removed: HashSet<usize> = HashSet::new();
    let mut added: HashMap<usize, Node> = HashMap::new();
    let mut names = FreeNames::new(graph);
    for (flatten, change) in moves {
        match change {
            Move::Without(transpose) => {
                let before = graph.nodes.get(transpose).and_then(|node| node.inputs.first()).cloned();
                let input = graph.nodes.get_mut(flatten).and_then(|node| node.inputs.first_mut());
                if let (Some(before), Some(input)) = (before, input) {
                    *input = before;
                    removed.insert(transpose);
                }
            }
            Move::Last(rank) => {
                let input = graph.nodes.get_mut(flatten).and_then(|node| node.inputs.first_mut());
                let Some(input) = input else { continue };
                let name = names.next();
                let before = std::mem::replace(input, name.clone());
                let mut node = Node::new(name.clone(), Op::Transpose)
                    .attribute("perm", Attribute::Ints(channels_last(rank)));
                (node.inputs, node.outputs) = (vec![before], vec![name]);
                added.insert(flatten, node);
            }
        }
    }
    let inputs = graph.nodes.iter().flat_map(|node| &node.inputs);
    let used: HashSet<String> =
        inputs.chain(graph.outputs.iter().map(|output| &output.name)).cloned().collect();
    for (index, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        graph.nodes.extend(added.remove(&index));
        if !removed.contains(&index) || node.outputs.iter().any(|output| used.contains(output)) {
            graph.nodes.push(node);
        }
    }
}

/// Names for new nodes and their values.
struct FreeNames {
    taken: HashSet<String>,
    number: u64,
}

impl FreeNames {
    fn new(graph: &Graph) -> Self {
        let nodes = graph.nodes.iter().flat_map(|node| node.outputs.iter().chain([&node.name]));
        let taken = nodes.chain(graph.inputs.iter().map(|input| &input.name)).cloned().collect();
        FreeNames { taken, number: 0 }
    }

    fn next(&mut self) -> String {
        loop {
            self.number += 1;
            let name = match self.number {
                1 => "to_channels_last".to_owned(),
                number => format!("to_channels_last#{number}"),
            };
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests;
