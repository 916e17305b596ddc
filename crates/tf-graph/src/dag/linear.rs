//! Recognizes products and convolutions with stored weights, and their biases.

use super::super::node::{flag, text};
use super::facts::{is_channels_first, is_channels_last, squeezed, subscripts, window};
use super::pattern::View;
use super::reach::Edge;
use ckpt_graph::shape::resolve;
use ckpt_graph::{Dims, Length, Padding, Window};

/// A layer with a weight.
#[derive(Debug)]
pub(super) struct Linear {
    pub input: Edge,
    pub weight: String,
    pub bias: Option<String>,
    pub kind: LinearKind,
    /// Whether the values are images of one row, and the weight is that of a convolution of sequences.
    pub is_row: bool,
    /// Whether the images have their channels first in TensorFlow, too.
    pub is_first: bool,
}

#[derive(Debug)]
pub(super) enum LinearKind {
    /// The product of the last axis with a matrix, stored as `[out, in]` if it is transposed.
    Dense { is_transposed: bool },
    /// A convolution of values `[N, …, C]`, whose weight is stored as `[…, in, out]`.
    Conv(Window),
    /// A convolution of each channel by itself, whose weight is stored as `[…, channels, multiplier]`.
    Depthwise(Window),
    /// A transposed convolution, whose weight is stored as `[…, out, in]`.
    Transposed(Window),
}

impl View<'_> {
    /// Recognizes a product or convolution, with a bias added to it or without.
    pub fn linear(&self, edge: Edge) -> Option<Linear> {
        let sides: &[(usize, usize)] = match self.kind(edge) {
            "BiasAdd" => &[(0, 1)],
            "AddV2" | "Add" => &[(0, 1), (1, 0)],
            _ => return self.product_or_convolution(edge),
        };
        let [a, b, ..] = self.inputs(edge) else { return None };
        let is_last = self.op(edge).is_some_and(is_channels_last);
        let is_first = self.op(edge).is_some_and(is_channels_first);
        for (value, bias) in sides.iter().map(|(value, bias)| ([*a, *b][*value], [*a, *b][*bias])) {
            let Some(key) = self.vector(bias) else { continue };
            let Some(linear) = self.product_or_convolution(value) else { continue };
            let features =
                if linear.is_first { self.dims(value)?.get(1).copied() } else { self.features(value) };
            let fits = match (features, self.features(bias)) {
                (Some(out), Some(len)) => out.is(len),
                _ => false,
            };
            let rank = |edge| self.dims(edge).map(Vec::len);
            let is_same = if linear.is_first { is_first } else { is_last };
            if fits && is_same && rank(bias) <= rank(value) {
                return Some(Linear { bias: Some(key.to_owned()), ..linear });
            }
        }
        None
    }

    fn product_or_convolution(&self, edge: Edge) -> Option<Linear> {
        let edge = self.passed(edge);
        match self.kind(edge) {
            "MatMul" | "BatchMatMulV2" | "BatchMatMul" => self.matrix_product(edge),
            "Einsum" => self.einsum_product(edge),
            "Reshape" => self.tensor_product(edge),
            _ => self.convolution(edge),
        }
    }

    fn dense(&self, input: Edge, weight: Edge, is_transposed: bool) -> Option<Linear> {
        let key = self.variable(weight)?;
        let [rows, columns] = self.dims(weight)?[..] else { return None };
        let inner = if is_transposed { columns } else { rows };
        let fits = self.features(input).is_some_and(|len| len.is(inner) || matches!(len, Length::Unknown));
        fits.then(|| Linear {
            input,
            weight: key.to_owned(),
            bias: None,
            kind: LinearKind::Dense { is_transposed },
            is_row: false,
            is_first: false,
        })
    }

    fn matrix_product(&self, edge: Edge) -> Option<Linear> {
        let op = self.op(edge)?;
        let [x, weight, ..] = self.inputs(edge) else { return None };
        if flag(op, "transpose_a") || flag(op, "adj_x") || self.dims(*x)?.len() < 2 {
            return None;
        }
        self.dense(*x, *weight, flag(op, "transpose_b") || flag(op, "adj_y"))
    }

    /// Recognizes the product of the last axis by an equation, such as `abc,cd->abd`.
    fn einsum_product(&self, edge: Edge) -> Option<Linear> {
        let [x, weight] = self.inputs(edge) else { return None };
        let ranks = [self.dims(*x)?.len(), self.dims(*weight)?.len()];
        let (operands, result) = subscripts(text(self.op(edge)?, "equation")?, &ranks)?;
        let [left, right] = &operands[..] else { return None };
        let ([before @ .., inner], [a, b]) = (&left[..], &right[..]) else { return None };
        let (kept, is_transposed) = if a == inner { (b, false) } else { (a, b == inner) };
        let is_product = (a == inner) != (b == inner)
            && result.split_last() == Some((kept, before))
            && !before.is_empty()
            && !before.contains(inner)
            && !before.contains(kept);
        if is_product { self.dense(*x, *weight, is_transposed) } else { None }
    }

    /// Recognizes `Reshape(MatMul(Reshape(x), w))`, which multiplies the last axis of `x`.
    fn tensor_product(&self, edge: Edge) -> Option<Linear> {
        let product = self.only(edge, &["Reshape"])?;
        let (rows, weight) = self.pair(product, &["MatMul"])?;
        let op = self.op(product)?;
        if flag(op, "transpose_a") || flag(op, "transpose_b") {
            return None;
        }
        let mut x = self.only(rows, &["Reshape"])?;
        if let Some((inner, perm)) = self.pair(x, &["Transpose"]) {
            let is_kept =
                self.ints(perm)?.iter().enumerate().all(|(at, axis)| usize::try_from(*axis) == Ok(at));
            x = if is_kept { inner } else { return None };
        }
        let (found, before) = self.dims(edge)?.split_last()?;
        let (inner, own) = self.dims(x)?.split_last()?;
        let is_same = own.len() == before.len() && own.iter().zip(before).all(|(a, b)| a.is(*b));
        let is_row = inner.is(self.features(rows)?) && found.is(self.features(product)?);
        if is_same && is_row && !own.is_empty() {
            self.dense(x, self.unreshaped(weight), false)
        } else {
            None
        }
    }

    /// Follows reshapings of a matrix to its own shape.
    fn unreshaped(&self, edge: Edge) -> Edge {
        let is_same = |a: &Dims, b: &Dims| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(*b));
        let Some(inner) = self.only(edge, &["Reshape", "Transpose"]) else { return edge };
        let is_kept = match self.kind(edge) {
            "Transpose" => {
                self.inputs(edge).get(1).and_then(|perm| self.ints(*perm)).is_some_and(|perm| perm == [0, 1])
            }
            _ => true,
        };
        match (self.dims(inner), self.dims(edge)) {
            (Some(a), Some(b)) if is_kept && is_same(a, b) => self.unreshaped_once(inner),
            _ => edge,
        }
    }

    fn unreshaped_once(&self, edge: Edge) -> Edge {
        match self.only(edge, &["Transpose"]) {
            Some(inner)
                if self
                    .inputs(edge)
                    .get(1)
                    .and_then(|perm| self.ints(*perm))
                    .is_some_and(|perm| perm == [0, 1]) =>
            {
                inner
            }
            _ => edge,
        }
    }

    /// Recognizes a convolution: of images or volumes, of sequences as images of one row, and of a dilated one's
    /// pieces.
    fn convolution(&self, edge: Edge) -> Option<Linear> {
        // BatchToSpaceND around the rest; Squeeze within or around it.
        let mut pieces = None;
        let mut row = None;
        let mut at = edge;
        for _ in 0..2 {
            match self.kind(at) {
                "BatchToSpaceND" if pieces.is_none() => {
                    pieces = Some(at);
                    at = *self.inputs(at).first()?;
                }
                "Squeeze" if row.is_none() => {
                    row = Some(self.squeezed_axis(at)?);
                    at = *self.inputs(at).first()?;
                }
                _ => break,
            }
        }
        let op = self.op(at)?;
        let (x, weight) = match self.inputs(at) {
            [_, weight, x] if matches!(op.op.as_str(), "Conv2DBackpropInput" | "Conv3DBackpropInputV2") => {
                (*x, *weight)
            }
            [x, weight] if matches!(op.op.as_str(), "Conv2D" | "Conv3D" | "DepthwiseConv2dNative") => {
                (*x, *weight)
            }
            _ => return None,
        };
        let rank = self.dims(x)?.len();
        let is_first = is_channels_first(op);
        let is_plain = row.is_none() && pieces.is_none() && !op.op.ends_with("BackpropInput");
        if !(is_channels_last(op) || is_first && is_plain) {
            return None;
        }
        let mut window = window(op, rank)?;
        let (mut x, mut weight) = (x, weight);
        let mut outer = false;
        if let Some(axis) = row {
            let is_one = |window: &Window| {
                let side = axis - 1;
                window.strides.len() == 2 && side < 2
            };
            if !is_one(&window) {
                return None;
            }
            // Pieces of a sequence are made before it becomes an image, or after.
            if pieces.is_some() && self.kind(x) == "SpaceToBatchND" {
                x = self.undilated(x, pieces?, &mut window)?;
                outer = true;
            }
            x = self.expanded(x, axis)?;
            weight = self.expanded(weight, axis - 1)?;
            let side = axis - 1;
            window.strides.remove(side);
            window.dilations.remove(side);
            if let Padding::Explicit(pads) = &mut window.padding {
                if pads.get(side) != Some(&[0, 0]) {
                    return None;
                }
                pads.remove(side);
            }
        }
        if let Some(pieces) = pieces.filter(|_| !outer) {
            x = self.undilated(x, pieces, &mut window)?;
        }
        let is_image = row.is_none() && window.strides.len() == 2 && !is_first;
        let single = self.expanded(weight, 0).filter(|_| is_image);
        let is_row = single.is_some() && self.dims(x)?.get(1)?.known() == Some(1) && pieces.is_none();
        if let Some(inner) = single.filter(|_| is_row) {
            weight = inner;
            window.strides.remove(0);
            window.dilations.remove(0);
            if matches!(window.padding, Padding::Explicit(_)) {
                return None;
            }
        }
        let kind = match op.op.as_str() {
            "Conv2D" | "Conv3D" => LinearKind::Conv(window),
            "DepthwiseConv2dNative" => LinearKind::Depthwise(window),
            // A transposed convolution of pieces pads what it takes, not what it makes.
            _ if pieces.is_some() => return None,
            _ => LinearKind::Transposed(window),
        };
        let key = self.variable(weight)?;
        Some(Linear { input: x, weight: key.to_owned(), bias: None, kind, is_row, is_first })
    }

    /// Returns the only axis that a `Squeeze` of an image removes.
    fn squeezed_axis(&self, edge: Edge) -> Option<usize> {
        let inner = self.only(edge, &["Squeeze"])?;
        let dims = self.dims(inner)?;
        let kept = squeezed(self.op(edge)?, dims)?;
        let mut removed = (0..dims.len()).filter(|axis| !kept.contains(axis));
        match (removed.next(), removed.next()) {
            (Some(axis @ 1..=2), None) if dims.len() == 4 => Some(axis),
            _ => None,
        }
    }

    /// Returns what `ExpandDims` gives an axis.
    fn expanded(&self, edge: Edge, axis: usize) -> Option<Edge> {
        let edge = self.passed(edge);
        let (inner, at) = self.pair(edge, &["ExpandDims"])?;
        let rank = self.dims(edge)?.len();
        let at = resolve(self.facts.get(at).ints.as_ref()?.only()?.known()?, rank)?;
        (at == axis).then_some(inner)
    }

    /// Returns what is cut into pieces for a dilated convolution, and gives the window its dilations and padding.
    fn undilated(&self, x: Edge, pieces: Edge, window: &mut Window) -> Option<Edge> {
        let [inner, blocks, pads] = self.inputs(x) else { return None };
        let [_, back, crops] = self.inputs(pieces) else { return None };
        let (blocks, back) = (self.ints(*blocks)?, self.ints(*back)?);
        let (pads, crops) = (self.ints(*pads)?, self.ints(*crops)?);
        let is_plain = self.kind(x) == "SpaceToBatchND"
            && blocks == back
            && blocks.len() == window.strides.len()
            && window.padding == Padding::Valid
            && window.strides.iter().chain(&window.dilations).all(|value| *value == 1)
            && pads.len() == crops.len()
            && pads.len() == 2 * blocks.len();
        if !is_plain {
            return None;
        }
        let mut explicit = Vec::new();
        for (pad, crop) in pads.chunks_exact(2).zip(crops.chunks_exact(2)) {
            let end = pad[1].checked_sub(crop[1])?;
            if crop[0] != 0 {
                return None;
            }
            explicit.push([u64::try_from(pad[0]).ok()?, u64::try_from(end).ok()?]);
        }
        window.dilations = blocks.iter().map(|block| u64::try_from(*block).ok()).collect::<Option<_>>()?;
        window.padding = Padding::Explicit(explicit);
        Some(*inner)
    }
}

/// Returns the sides of a kernel and its last two lengths.
pub(super) fn kernel_lens(dims: &[Length]) -> Option<(Vec<u64>, u64, u64)> {
    let [sides @ .., a, b] = dims else { return None };
    Some((sides.iter().map(|len| len.size()).collect::<Option<_>>()?, a.size()?, b.size()?))
}
