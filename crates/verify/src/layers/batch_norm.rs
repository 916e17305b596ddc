//! Bounds the effect of storage on a batch normalization, whose tensors are no weights of a sum.

use crate::parameters::{SourceParameters, StorageError};
use ckpt_api::{Attribute, Node, Result};
use ckpt_forward::{Parameters, Value};
use std::collections::HashMap;

/// ONNX's default.
const EPSILON: f64 = 1e-5;

/// Returns the bound on the error of each element of `y = (x − m)·g·s + b`, `g = 1/√(v + ε)`, if storage changes `m`,
/// `v`, `s` and `b`, each in the worst direction.
///
/// # Errors
/// Whatever keeps a tensor from being read.
pub(super) fn storage_bound(
    node: &Node,
    parameters: &SourceParameters,
    errors: &HashMap<String, StorageError>,
    x: &Value,
) -> Result<Vec<f64>> {
    let load = |role: &str, default: f64| -> Result<PerChannel> {
        let Some(name) = node.parameters.get(role) else {
            return Ok(PerChannel { values: Vec::new(), default, error: None });
        };
        let values = parameters.load(name)?.to_f64();
        Ok(PerChannel { values, default, error: errors.get(name).copied() })
    };
    let (scale, bias) = (load("scale", 1.0)?, load("bias", 0.0)?);
    let (mean, variance) = (load("mean", 0.0)?, load("variance", 1.0)?);
    let epsilon = match node.attributes.get("epsilon") {
        Some(Attribute::Float(epsilon)) => *epsilon,
        #[expect(clippy::cast_precision_loss, reason = "this epsilon is not valid")]
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
        // Rounding keeps the sign.
        let most = 1.0 / ((v - dv).max(0.0) + epsilon).sqrt();
        let (s, more) = (s.abs(), s.abs() + ds);
        db + most * more * dm + (x - m).abs() * (more * most - s * gain)
    };
    Ok(x.array.to_f64().into_iter().enumerate().map(of).collect())
}

/// A tensor with one number for each channel.
struct PerChannel {
    values: Vec<f64>,
    /// The number of all channels if there is no tensor.
    default: f64,
    error: Option<StorageError>,
}

impl PerChannel {
    /// Returns a channel's number and the bound on its storage error.
    fn at(&self, channel: usize) -> (f64, f64) {
        let value = self.values.get(channel).copied().unwrap_or(self.default);
        (value, self.error.map_or(0.0, |error| error.of(value)))
    }
}
