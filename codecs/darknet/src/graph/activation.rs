//! Activations by their names in a `.cfg`.

use super::builder::Builder;
use crate::format::Activation;
use ckpt_api::{Attribute, Op};

/// The slope of `leaky` below 0.
const LEAKY: f64 = 0.1;

impl Activation {
    pub(super) fn is_linear(&self) -> bool {
        self.0 == "linear"
    }

    /// Applies the activation to a value.
    pub(super) fn add(&self, builder: &mut Builder, value: String) -> Result<String, String> {
        let clip = |min: f64, max: f64| [("min", Attribute::Float(min)), ("max", Attribute::Float(max))];
        let (place, inputs) = ("activation", &[&*value][..]);
        let op = match self.0.as_str() {
            "linear" => return Ok(value),
            "leaky" => {
                return Ok(builder.nodes.push(
                    place,
                    Op::LeakyRelu,
                    inputs,
                    [("alpha", Attribute::Float(LEAKY))],
                ));
            }
            "relu6" => return Ok(builder.nodes.push(place, Op::Clip, inputs, clip(0.0, 6.0))),
            "hardtan" => return Ok(builder.nodes.push(place, Op::Clip, inputs, clip(-1.0, 1.0))),
            "relu" => Op::Relu,
            "logistic" => Op::Sigmoid,
            "tanh" => Op::Tanh,
            "mish" => Op::Mish,
            "swish" => Op::Swish,
            "elu" => Op::Elu,
            "selu" => Op::Selu,
            other => {
                let shown: String = other.chars().take(60).collect();
                return Err(format!("has the activation '{}', which is not supported", shown.escape_debug()));
            }
        };
        Ok(builder.nodes.push(place, op, inputs, []))
    }
}
