//! Recognizes normalizations and Gelu.

use super::facts::{int, keeps_dims};
use super::pattern::{View, near};
use super::reach::Edge;
use ckpt_graph::Length;
use ckpt_graph::shape::resolve;

/// A normalization by stored statistics, over the last axis.
#[derive(Debug)]
pub(super) struct BatchNorm {
    pub input: Edge,
    /// Roles in the graph and keys.
    pub parameters: Vec<(&'static str, String)>,
    pub epsilon: f64,
}

/// A normalization by the statistics of the last axis.
#[derive(Debug)]
pub(super) struct LayerNorm {
    pub input: Edge,
    pub scale: Option<String>,
    pub bias: Option<String>,
    pub epsilon: f64,
    /// Whether the mean is not subtracted.
    pub is_rms: bool,
}

/// Sums of two values.
const SUM: [&str; 2] = ["AddV2", "Add"];

impl View<'_> {
    /// Recognizes an unfused batch normalization: `x·s + (beta − mean·s)` with `s = rsqrt(variance + epsilon)·gamma`.
    pub fn batch_norm(&self, edge: Edge) -> Option<BatchNorm> {
        let (scaled, shift) = self.pair(edge, &SUM)?;
        let (input, scale) = self.pair(scaled, &["Mul"])?;
        let (bias, moved) = match self.pair(shift, &["Sub"]) {
            Some((bias, moved)) => (Some(self.vector(bias)?), moved),
            None => (None, shift),
        };
        let (mean, factor) = self.pair(moved, &["Mul"])?;
        // Without beta, the mean itself has the other sign.
        let mean = if bias.is_some() { mean } else { self.only(mean, &["Neg"])? };
        if self.passed(factor) != self.passed(scale) {
            return None;
        }
        let scale = self.passed(scale);
        let (root, gamma) = match self.pair(scale, &["Mul"]) {
            Some((root, gamma)) => (root, Some(self.vector(gamma)?)),
            None => (scale, None),
        };
        let (variance, epsilon) = self.pair(self.only(root, &["Rsqrt"])?, &SUM)?;
        let mut parameters = vec![("mean", self.vector(mean)?.to_owned())];
        parameters.push(("variance", self.vector(variance)?.to_owned()));
        parameters.extend(gamma.map(|key| ("scale", key.to_owned())));
        parameters.extend(bias.map(|key| ("bias", key.to_owned())));
        Some(BatchNorm { input, parameters, epsilon: self.number(epsilon)? })
    }

    /// Recognizes Keras 3's layer normalization: `x·s + (−mean·s + beta)` with `s = rsqrt(variance + epsilon)·gamma`.
    pub fn layer_norm(&self, edge: Edge) -> Option<LayerNorm> {
        let (scaled, shift) = self.pair(edge, &SUM)?;
        let (input, scale) = self.pair(scaled, &["Mul"])?;
        let (moved, bias) = match self.pair(shift, &SUM) {
            Some((moved, bias)) => (moved, Some(self.last_axis(bias, input)?)),
            None => (shift, None),
        };
        let (mean, factor) = self.pair(moved, &["Mul"])?;
        let mean = self.only(mean, &["Neg"])?;
        if factor != scale {
            return None;
        }
        let (root, gamma) = match self.pair(scale, &["Mul"]) {
            Some((root, gamma)) => (root, Some(self.last_axis(gamma, input)?)),
            None => (scale, None),
        };
        let (variance, epsilon) = self.pair(self.only(root, &["Rsqrt"])?, &SUM)?;
        let squares = self.mean_of_last(variance)?;
        let (x, center) = self.pair(squares, &["SquaredDifference"])?;
        if x != input || center != mean || self.mean_of_last(mean)? != input {
            return None;
        }
        Some(LayerNorm { input, scale: gamma, bias, epsilon: self.number(epsilon)?, is_rms: false })
    }

    /// Recognizes Keras 3's RMS normalization: `x·rsqrt(mean(x²) + epsilon)·scale`.
    pub fn rms_norm(&self, edge: Edge) -> Option<LayerNorm> {
        let (scaled, scale) = self.pair(edge, &["Mul"])?;
        let (input, root) = self.pair(scaled, &["Mul"])?;
        let (mean, epsilon) = self.pair(self.only(root, &["Rsqrt"])?, &SUM)?;
        let squares = self.mean_of_last(mean)?;
        let is_square = self.only(squares, &["Square"]) == Some(input)
            || self.pair(squares, &["Mul"]) == Some((input, input));
        let scale = self.last_axis(scale, input)?;
        is_square.then_some(())?;
        Some(LayerNorm {
            input,
            scale: Some(scale),
            bias: None,
            epsilon: self.number(epsilon)?,
            is_rms: true,
        })
    }

    /// Returns the key of a vector as long as the last axis of `x`.
    fn last_axis(&self, edge: Edge, x: Edge) -> Option<String> {
        let key = self.vector(edge)?;
        let fits = self.features(edge)?.is(self.features(x)?);
        fits.then(|| key.to_owned())
    }

    /// Returns the value of which the mean over the last axis is taken, which stays.
    fn mean_of_last(&self, edge: Edge) -> Option<Edge> {
        let (x, axes) = self.pair(edge, &["Mean"])?;
        let rank = self.dims(x)?.len();
        let [axis] = self.ints(axes)?[..] else { return None };
        let is_last = resolve(axis, rank)? + 1 == rank;
        (is_last && keeps_dims(self.op(edge)?)).then_some(x)
    }

    /// Recognizes Gelu: `0.5·x·erfc(−x/√2)`, `0.5·x·(1 + erf(x/√2))` or `0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`,
    /// and returns its input and whether it is the last one, an approximation.
    pub fn gelu(&self, edge: Edge) -> Option<(Edge, bool)> {
        if self.kind(edge) != "Mul" {
            return None;
        }
        let product = self.product(edge)?;
        let [first, second] = product.factors[..] else { return None };
        if !near(product.constant, 0.5) {
            return None;
        }
        let of = |value: Edge, gate: Edge| self.gate_of(gate, value).map(|approximate| (value, approximate));
        of(first, second).or_else(|| of(second, first))
    }

    /// Returns whether Gelu is the approximation, if `gate` is the factor that Gelu multiplies `value` by.
    fn gate_of(&self, gate: Edge, value: Edge) -> Option<bool> {
        const HALF_ROOT: f64 = std::f64::consts::FRAC_1_SQRT_2;
        let is_multiple = |edge: Edge, factor: f64| {
            let product = self.product(edge);
            product.is_some_and(|product| product.factors[..] == [value] && near(product.constant, factor))
        };
        if let Some(inner) = self.only(gate, &["Erfc"]) {
            return is_multiple(inner, -HALF_ROOT).then_some(false);
        }
        let (a, b) = self.pair(gate, &SUM)?;
        let other = if self.number(a) == Some(1.0) {
            b
        } else if self.number(b) == Some(1.0) {
            a
        } else {
            return None;
        };
        if let Some(inner) = self.only(other, &["Erf"]) {
            return is_multiple(inner, HALF_ROOT).then_some(false);
        }
        self.is_cubic(self.only(other, &["Tanh"])?, value).then_some(true)
    }

    /// Whether a value is `√(2/π)·(x + 0.044715·x³)`.
    fn is_cubic(&self, edge: Edge, value: Edge) -> bool {
        let Some(outer) = self.product(edge) else { return false };
        let [sum] = outer.factors[..] else { return false };
        let Some((a, b)) = self.pair(sum, &SUM) else { return false };
        let cube = if a == value { b } else { a };
        if !near(outer.constant, (2.0 / std::f64::consts::PI).sqrt()) || (a != value && b != value) {
            return false;
        }
        let Some(cube) = self.product(cube) else { return false };
        let is_third = match cube.factors[..] {
            [power] => match self.pair(power, &["Pow"]) {
                Some((x, exponent)) => x == value && self.number(exponent) == Some(3.0),
                None => false,
            },
            [a, b, c] => [a, b, c] == [value; 3],
            _ => false,
        };
        is_third && near(cube.constant, 0.044_715)
    }

    /// Recognizes `x·sigmoid(x)`.
    pub fn swish(&self, edge: Edge) -> Option<Edge> {
        let (a, b) = self.pair(edge, &["Mul"])?;
        let is_gate = |gate: Edge, x: Edge| {
            let inner = self.only(gate, &["Sigmoid"]);
            inner.is_some_and(|inner| {
                let product = self.product(inner);
                product.is_some_and(|product| product.constant == 1.0 && product.factors[..] == [x])
            })
        };
        if is_gate(b, a) { Some(a) } else { is_gate(a, b).then_some(b) }
    }

    /// Recognizes an index that Keras 3 counts from the end if it is negative: `i < 0 ? i + rows : i`.
    pub fn index(&self, edge: Edge, rows: Length) -> Edge {
        let found = || {
            let [condition, added, index] = self.inputs(edge) else { return None };
            let (x, zero) = self.pair(*condition, &["Less"])?;
            let (y, count) = self.pair(*added, &SUM)?;
            let is_zero = self.ints(zero)? == [0] && self.facts.get(count).ints.as_ref()?.only()?.is(rows);
            (self.kind(edge) == "SelectV2" && is_zero && x == *index && y == *index).then_some(*index)
        };
        found().unwrap_or(edge)
    }

    /// Returns an attribute of a gather: axes of the batch.
    pub fn batch_dims(&self, edge: Edge) -> i64 {
        self.op(edge).and_then(|op| int(op, "batch_dims")).unwrap_or(0)
    }
}
