//! Layers, with the shapes of what they take and return and of their tensors.

use super::{Detection, Image};
use ckpt_api::{Axis, Error, Result, Shape};

/// The layers of a `.cfg`.
pub(crate) struct Network {
    /// What goes in.
    pub(crate) input: Image,
    /// The sections after `[net]`.
    pub(crate) layers: Vec<Layer>,
}

/// One section after `[net]`.
pub(crate) struct Layer {
    /// The name of its section, without abbreviations.
    pub(crate) section: &'static str,
    pub(crate) kind: Kind,
    /// The result of the layer before, or the input of the network.
    pub(crate) input: Image,
    pub(crate) output: Image,
    /// Why no graph has the layer, if it is so.
    pub(crate) obstacle: Option<String>,
}

/// What a layer computes. Layers are named by their numbers.
pub(crate) enum Kind {
    Convolution {
        window: Window,
        groups: u64,
        has_norm: bool,
        /// The weight is stored as `[in, y, x, out]`.
        is_flipped: bool,
        activation: Activation,
    },
    Connected {
        has_norm: bool,
        activation: Activation,
    },
    /// Maximum over windows; padding is what is added on both sides together.
    Pool(Window),
    GlobalMean,
    Route {
        from: Vec<usize>,
        groups: u64,
        group: u64,
    },
    /// Sum with the results of other layers.
    Shortcut {
        from: Vec<usize>,
        activation: Activation,
    },
    Upsample {
        stride: u64,
        scale: f64,
    },
    Reorg {
        stride: u64,
        is_reverse: bool,
    },
    /// Over all numbers, or over the channels of each place.
    Softmax {
        is_spatial: bool,
    },
    /// What acts in training only, and what no graph has.
    Identity,
    Detection(Detection),
}

/// A window that moves over an image.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) size: u64,
    pub(crate) stride: u64,
    pub(crate) padding: u64,
}

/// An activation by its name in the `.cfg`.
#[derive(Clone)]
pub(crate) struct Activation(pub(crate) String);

/// A tensor of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Bias,
    Scale,
    Mean,
    Variance,
    Weight,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Bias => "bias",
            Part::Scale => "scale",
            Part::Mean => "mean",
            Part::Variance => "variance",
            Part::Weight => "weight",
        }
    }
}

impl Layer {
    /// The tensors, in the order of the file.
    pub(crate) fn parts(&self) -> Vec<Part> {
        use Part::{Bias, Mean, Scale, Variance, Weight};
        match self.kind {
            Kind::Convolution { has_norm: true, .. } => vec![Bias, Scale, Mean, Variance, Weight],
            Kind::Connected { has_norm: true, .. } => vec![Bias, Weight, Scale, Mean, Variance],
            Kind::Convolution { .. } | Kind::Connected { .. } => vec![Bias, Weight],
            _ => Vec::new(),
        }
    }

    /// How many things are in memory for the layer: itself, and the layers that it takes or its anchors.
    pub(super) fn items(&self) -> u64 {
        let more = match &self.kind {
            Kind::Route { from, .. } | Kind::Shortcut { from, .. } => from.len(),
            Kind::Detection(detection) => detection.anchors.len(),
            _ => 0,
        };
        1 + more as u64
    }

    /// How many numbers the tensors have; `u64::MAX` if they are too many to count.
    pub(crate) fn numbers(&self) -> u64 {
        let parts = self.parts().into_iter().map(|part| {
            let shape = self.shape(part).and_then(|(dims, _)| Shape::new(dims));
            shape.map_or(u64::MAX, |shape| shape.elements())
        });
        parts.fold(0, u64::saturating_add)
    }

    /// The shape of a tensor, and what its axes mean.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a layer of more numbers than any file has.
    pub(crate) fn shape(&self, part: Part) -> Result<(Vec<u64>, &'static [Axis])> {
        let outputs = self.output.channels;
        Ok(match (part, &self.kind) {
            (Part::Weight, Kind::Convolution { window, groups, .. }) => {
                let inputs = self.input.channels.checked_div(*groups).unwrap_or(0);
                let axes = &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX];
                (vec![outputs, inputs, window.size, window.size], axes)
            }
            (Part::Weight, _) => {
                let inputs = self.input.numbers().ok_or_else(too_large)?;
                (vec![outputs, inputs], &[Axis::Out, Axis::In])
            }
            _ => (vec![outputs], &[Axis::Out]),
        })
    }

    /// The order in which the axes of a tensor are stored.
    pub(crate) fn order(&self, part: Part, is_transposed: bool) -> Vec<usize> {
        match (part, &self.kind) {
            (Part::Weight, Kind::Convolution { is_flipped: true, .. }) => vec![1, 2, 3, 0],
            (Part::Weight, Kind::Convolution { .. }) => vec![0, 1, 2, 3],
            (Part::Weight, _) if is_transposed => vec![1, 0],
            (Part::Weight, _) => vec![0, 1],
            _ => vec![0],
        }
    }
}

pub(crate) fn too_large() -> Error {
    Error::corrupt("the layers of the .cfg have more numbers than any file").expected("fewer than 2^59")
}
