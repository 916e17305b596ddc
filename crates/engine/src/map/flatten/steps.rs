//! Steps on flattened images, by the tensors that have them.

use super::kernels::Channels;
use crate::recipe::{AxisStep, FlattenedImage, Target};
use ckpt_api::{Axis, Tensor};
use std::collections::HashMap;

/// The steps on flattened images that a mapping and transforms take, by the names of the targets.
#[derive(Default)]
pub(crate) struct ImageSteps(HashMap<String, Vec<AxisStep>>);

impl ImageSteps {
    /// Adds the steps of these targets.
    pub(crate) fn add(&mut self, targets: &[Target]) {
        for target in targets {
            let mut own = target.recipe.steps.iter().filter(|step| step.is_of_image()).peekable();
            if own.peek().is_some() {
                self.0.entry(target.name.clone()).or_default().extend(own.cloned());
            }
        }
    }

    /// The steps of a target.
    pub(super) fn of(&self, target: &str) -> &[AxisStep] {
        self.0.get(target).map_or(&[], Vec::as_slice)
    }

    /// Returns whether no tensor has any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The targets that have steps.
    pub(super) fn targets(&self) -> impl Iterator<Item = (&str, &[AxisStep])> {
        self.0.iter().map(|(name, steps)| (name.as_str(), steps.as_slice()))
    }
}

/// The images of a step, and where their channels are after it.
pub(super) fn image_of(step: &AxisStep) -> Option<(&FlattenedImage, Channels)> {
    match step {
        AxisStep::FlattenOrder(image) => Some((image, Channels::First)),
        AxisStep::UnflattenOrder(image) => Some((image, Channels::Last)),
        _ => None,
    }
}

/// Whether images have one order only: those of one channel, or of one pixel.
pub(super) fn has_one_order(image: &FlattenedImage) -> bool {
    image.channels() == 1 || image.pixels() == 1
}

/// The name of the step that moves channels there.
pub(super) fn step_to(channels: Channels) -> &'static str {
    match channels {
        Channels::First => "flatten_order",
        Channels::Last => "unflatten_order",
    }
}

/// The end at which the channels are, and the other one.
pub(super) fn ends(channels: Channels) -> (&'static str, &'static str) {
    match channels {
        Channels::First => ("first", "last"),
        Channels::Last => ("last", "first"),
    }
}

/// The only step of a target on flattened images, if it is one on the inputs of this source tensor.
pub(super) fn step_on_inputs<'t>(target: &'t Target, source: &Tensor) -> Option<&'t AxisStep> {
    let mut axes: Vec<Option<usize>> = (0..source.shape.rank()).map(Some).collect();
    let is_input = |axis: &Option<usize>| match (axis, &source.axes) {
        (Some(axis), Some(axes)) if axes.contains(&Axis::In) => axes.get(*axis) == Some(&Axis::In),
        _ => true,
    };
    let mut found = None;
    for step in &target.recipe.steps {
        match step {
            AxisStep::Transpose => axes.reverse(),
            AxisStep::Permute(order) => {
                axes = order.iter().map(|axis| axes.get(*axis).copied().flatten()).collect();
            }
            AxisStep::Squeeze(axis) if *axis < axes.len() => drop(axes.remove(*axis)),
            AxisStep::Unsqueeze(axis) if *axis <= axes.len() => axes.insert(*axis, None),
            AxisStep::Squeeze(_)
            | AxisStep::Unsqueeze(_)
            | AxisStep::Cast { .. }
            | AxisStep::CastAny { .. }
            | AxisStep::Stay { .. }
            | AxisStep::Scale(_)
            | AxisStep::Add(_)
            | AxisStep::Exp
            | AxisStep::Log
            | AxisStep::Parts { .. } => {}
            AxisStep::Reshape(reshape) => {
                let first = reshape.axis.min(axes.len());
                let end = first.saturating_add(reshape.from.len()).min(axes.len());
                axes.splice(first..end, reshape.to.iter().map(|_| None));
            }
            AxisStep::FlattenOrder(image) | AxisStep::UnflattenOrder(image) => {
                let names_another = image.axis.is_some_and(|axis| !axes.get(axis).is_some_and(is_input));
                if found.is_some() || names_another {
                    return None;
                }
                found = Some(step);
            }
        }
    }
    found
}
