//! What storage may do to a batch normalization, whose tensors enter otherwise than the weights of a sum.

use super::parameters::{SourceParameters, StorageError};
use ckpt_api::{Attribute, Node, Result};
use ckpt_forward::{Parameters, Value};
use std::collections::HashMap;

/// ONNX's, where the attribute is left out.
const EPSILON: f64 = 1e-5;

/// The bound on the error of each element of `y = (x − m)·g·s + b`, `g = 1/√(v + ε)`, of which storage changes `m`, `v`, `s` and
/// `b`: no more than what moves all of them the worse way.
///
/// # Errors
/// Whatever keeps a tensor from being read.
pub(super) fn of_batch(
    node: &Node,
    parameters: &SourceParameters,
    errors: &HashMap<String, StorageError>,
    x: &Value,
) -> Result<Vec<f64>> {
    let load = |role: &str, absent: f64| -> Result<Stored> {
        let Some(name) = node.parameters.get(role) else {
            return Ok(Stored { values: Vec::new(), absent, error: None });
        };
        let values = parameters.load(name)?.to_f64();
        Ok(Stored { values, absent, error: errors.get(name).copied() })
    };
    let (scale, bias) = (load("scale", 1.0)?, load("bias", 0.0)?);
    let (mean, variance) = (load("mean", 0.0)?, load("variance", 1.0)?);
    let epsilon = match node.attributes.get("epsilon") {
        Some(Attribute::Float(epsilon)) => *epsilon,
        #[expect(clippy::cast_precision_loss, reason = "an epsilon of that size is none")]
        Some(Attribute::Int(epsilon)) => *epsilon as f64,
        _ => EPSILON,
    };
    let channels = x.shape.get(1).copied().unwrap_or(1).max(1);
    let inner = x.shape.iter().skip(2).product::<usize>().max(1);
    let of = |(place, x): (usize, f64)| {
        let channel = place / inner % channels;
        let [(s, ds), (_, db), (m, dm), (v, dv)] =
            [&scale, &bias, &mean, &variance].map(|stored| stored.at(channel));
        let gain = 1.0 / (v + epsilon).sqrt();
        // What is not negative is not rounded to what is.
        let most = 1.0 / ((v - dv).max(0.0) + epsilon).sqrt();
        let (s, more) = (s.abs(), s.abs() + ds);
        db + most * more * dm + (x - m).abs() * (more * most - s * gain)
    };
    Ok(x.array.to_f64().into_iter().enumerate().map(of).collect())
}

/// A tensor of one number for each channel.
struct Stored {
    values: Vec<f64>,
    absent: f64,
    error: Option<StorageError>,
}

impl Stored {
    /// A channel's number, and how far off what is stored for it may be.
    fn at(&self, channel: usize) -> (f64, f64) {
        let value = self.values.get(channel).copied().unwrap_or(self.absent);
        (value, self.error.map_or(0.0, |error| error.of(value)))
    }
}
