//! The fields of a layer in an architecture file, of which each type of layer has some.

use super::{ArchitectureLayer, ConvolutionWindow, Padding, WeightedLayer};
use crate::{Activation, Axis};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU32;

/// Every field that a layer may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerFields {
    r#type: LayerType,
    name: Option<String>,
    weight: Option<String>,
    bias: Option<String>,
    weight_axes: Option<Vec<Axis>>,
    activation: Option<Activation>,
    strides: Option<[NonZeroU32; 2]>,
    padding: Option<Padding>,
    pads: Option<[u32; 4]>,
    dilations: Option<[NonZeroU32; 2]>,
    group: Option<NonZeroU32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LayerType {
    Dense,
    Conv,
    Flatten,
    Activation,
}

impl<'de> Deserialize<'de> for ArchitectureLayer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        LayerFields::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl TryFrom<LayerFields> for ArchitectureLayer {
    type Error = String;

    fn try_from(mut fields: LayerFields) -> Result<Self, String> {
        let layer = match fields.r#type {
            LayerType::Dense => ArchitectureLayer::Dense(fields.take_weighted()),
            LayerType::Conv => ArchitectureLayer::Conv(fields.take_weighted(), fields.take_window()),
            LayerType::Flatten => ArchitectureLayer::Flatten,
            LayerType::Activation => {
                ArchitectureLayer::Activation(fields.activation.take().ok_or("missing field `activation`")?)
            }
        };
        match fields.left() {
            None => Ok(layer),
            Some(field) => Err(format!("this type of layer has no field `{field}`")),
        }
    }
}

impl LayerFields {
    fn take_weighted(&mut self) -> WeightedLayer {
        WeightedLayer {
            name: self.name.take(),
            weight: self.weight.take(),
            bias: self.bias.take(),
            weight_axes: self.weight_axes.take(),
            activation: self.activation.take().unwrap_or_default(),
        }
    }

    fn take_window(&mut self) -> ConvolutionWindow {
        const ONE: NonZeroU32 = NonZeroU32::MIN;
        ConvolutionWindow {
            strides: self.strides.take().unwrap_or([ONE; 2]),
            padding: self.padding.take(),
            pads: self.pads.take(),
            dilations: self.dilations.take().unwrap_or([ONE; 2]),
            group: self.group.take().unwrap_or(ONE),
        }
    }

    /// Returns a field that the type of layer did not take.
    fn left(&self) -> Option<&'static str> {
        let fields = [
            ("name", self.name.is_some()),
            ("weight", self.weight.is_some()),
            ("bias", self.bias.is_some()),
            ("weight_axes", self.weight_axes.is_some()),
            ("activation", self.activation.is_some()),
            ("strides", self.strides.is_some()),
            ("padding", self.padding.is_some()),
            ("pads", self.pads.is_some()),
            ("dilations", self.dilations.is_some()),
            ("group", self.group.is_some()),
        ];
        fields.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
    }
}
