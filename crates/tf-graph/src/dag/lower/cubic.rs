//! Cubic and area interpolation of images, as products with matrices of weights.
//!
//! TensorFlow rounds the place between two pixels to a 1024th for cubic interpolation, which no operator of ONNX does.

use super::super::super::no_chain::NoChain;
use super::super::reach::Edge;
use super::lowering::{Lowering, lost, refuse};
use super::values::Val;
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::{Length, ints};

/// Parts of the distance between two pixels.
const PARTS: f32 = 1024.0;

/// Limit on the elements of a matrix of weights.
const MAX_ELEMENTS: usize = 1 << 20;

/// How pixels of the result are among those of the image.
#[derive(Clone, Copy)]
pub(super) enum Weights {
    /// Cubic, with the pixels' centers at halves, or at whole numbers.
    Cubic {
        half: bool,
        corners: bool,
    },
    Area {
        corners: bool,
    },
}

impl Lowering<'_> {
    /// Resizes an image by a product for its rows, and one for its columns.
    pub(super) fn weighted_resize(
        &mut self,
        op: &NodeDef,
        edge: Edge,
        x: &Val,
        weights: Weights,
    ) -> Result<Val, NoChain> {
        let [rows, columns] = self.list(edge, 1)?[..] else { return Err(lost()) };
        let [_, Length::Known(height), Length::Known(width), _] = x.dims[..] else {
            return Err(refuse(op, "resizes images of a size that depends on the input"));
        };
        let mut dims = x.dims.clone();
        let x = self.values.first(x)?;
        let vertical = self.weights(op, weights, height, rows, false)?;
        let horizontal = self.weights(op, weights, width, columns, true)?;
        (dims[1], dims[2]) = (Length::Known(rows), Length::Known(columns));
        let node = self.values.node("MatMul");
        let tall = self.values.push(node.clone(), vec![vertical, x.name])?;
        let name = self.values.push(node, vec![tall, horizontal])?;
        Ok(self.values.val(name, x.layout, dims, x.tag))
    }

    /// Makes the matrix of weights `[to, from]`, or `[from, to]` if it is turned.
    fn weights(
        &mut self,
        op: &NodeDef,
        weights: Weights,
        from: i64,
        to: i64,
        is_turned: bool,
    ) -> Result<String, NoChain> {
        let size = |len: i64| u16::try_from(len).ok().filter(|len| *len > 0);
        let (Some(from), Some(to)) = (size(from), size(to)) else {
            return Err(refuse(op, "resizes images of a size that is not supported"));
        };
        let (len, out) = (usize::from(from), usize::from(to));
        if len * out > MAX_ELEMENTS {
            return Err(refuse(op, "resizes images that are too large"));
        }
        let mut matrix = vec![0.0; len * out];
        for row in 0..to {
            for (at, weight) in weights.row(from, to, row) {
                let (row, at) = (usize::from(row), at.min(len - 1));
                let place = if is_turned { at * out + row } else { row * len + at };
                matrix[place] += f64::from(weight);
            }
        }
        let shape = if is_turned { [len, out] } else { [out, len] };
        let node = Node::new(format!("{}/weights", self.values.place), Op::Constant)
            .attribute("shape", ints(&shape)?)
            .attribute("value_floats", Attribute::Floats(matrix));
        Ok(self.values.push(node, Vec::new())?)
    }
}

impl Weights {
    /// Returns the pixels of `from` that make pixel number `row` of `to`, with their weights.
    fn row(self, from: u16, to: u16, row: u16) -> Vec<(usize, f32)> {
        let (len, out, row) = (f32::from(from), f32::from(to), f32::from(row));
        let scale = |corners: bool| if corners && to > 1 { (len - 1.0) / (out - 1.0) } else { len / out };
        match self {
            Weights::Cubic { half, corners } => {
                let place = if half { (row + 0.5) * scale(corners) - 0.5 } else { row * scale(corners) };
                cubic(place, len, half)
            }
            Weights::Area { corners } => area(row, scale(corners), len),
        }
    }
}

/// Returns four pixels and their weights. With Keys's kernel, those outside the image have none.
fn cubic(place: f32, len: f32, is_keys: bool) -> Vec<(usize, f32)> {
    let a = if is_keys { -0.5f32 } else { -0.75 };
    let near = |x: f32| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    let first = place.floor();
    let part = ((place - first) * PARTS).round_ties_even() / PARTS;
    let weights = [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)];
    let taps = weights.into_iter().zip([-1.0, 0.0, 1.0, 2.0]).map(|(weight, offset)| {
        let at: f32 = first + offset;
        let bound = at.clamp(0.0, len - 1.0);
        (index(bound), if is_keys && bound != at { 0.0 } else { weight })
    });
    let mut taps: Vec<(usize, f32)> = taps.collect();
    if is_keys {
        let sum: f32 = taps.iter().map(|(_, weight)| weight).sum();
        if sum.abs() >= 1000.0 * f32::MIN_POSITIVE {
            taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
    }
    taps
}

/// Returns the pixels that a pixel of the result covers, with the covered parts of its area.
fn area(row: f32, scale: f32, len: f32) -> Vec<(usize, f32)> {
    let (begin, end) = (row * scale, (row + 1.0) * scale);
    let mut taps = Vec::new();
    let mut at = begin.floor();
    while at < end.ceil() {
        let covered = if at < begin {
            if at + 1.0 > end { scale } else { at + 1.0 - begin }
        } else if at + 1.0 > end {
            end - at
        } else {
            1.0
        };
        taps.push((index(at.clamp(0.0, len - 1.0)), covered / scale));
        at += 1.0;
    }
    taps
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a clamped index below 2^16")]
fn index(at: f32) -> usize {
    at as usize
}
