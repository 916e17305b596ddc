//! The shapes of what the nodes of a graph make.

use crate::length::Length;
use crate::shape::{
    Dims, broadcast_all, joined, product_of_matrices, reduced, remaining, resolve, resolve_all, sliced,
    unsqueezed,
};
use crate::window::{Padding, Window};
use ckpt_api::{Axis, Node, Op, Tensor};
use std::collections::HashMap;

/// What is known of a node's inputs and tensors.
pub trait Known {
    /// Returns the lengths of a value, if its rank is known.
    fn dims(&self, value: &str) -> Option<Dims>;

    /// Returns a tensor of the checkpoint.
    fn tensor(&self, name: &str) -> Option<&Tensor>;
}

/// Returns the shape of each result of a node; `None` for a result of unknown rank, and nothing for an operator whose
/// results are not known.
pub fn infer(node: &Node, known: &impl Known) -> Vec<Option<Dims>> {
    let of = Of { node, known };
    match node.op {
        Op::LSTM | Op::GRU | Op::RNN => of.recurrent().into_iter().flatten().map(Some).collect(),
        Op::Split => of.split(),
        _ => vec![of.one()],
    }
}

/// A node, and what is known of its inputs.
struct Of<'a, K> {
    node: &'a Node,
    known: &'a K,
}

impl<K: Known> Of<'_, K> {
    fn input(&self, at: usize) -> Option<Dims> {
        self.known.dims(self.node.inputs.get(at)?)
    }

    fn int(&self, name: &str, default: i64) -> Option<i64> {
        self.node.int(name, default).ok()
    }

    fn ints(&self, name: &str) -> Option<Option<&[i64]>> {
        self.node.ints(name).ok()
    }

    /// Returns the length of an axis of the tensor in a role.
    fn axis(&self, role: &str, axis: Axis) -> Length {
        let tensor = self.node.parameters.get(role).and_then(|name| self.known.tensor(name));
        let len = tensor.and_then(|tensor| tensor.shape.get(tensor.axis(axis)?).copied());
        Length::from(len)
    }

    fn one(&self) -> Option<Dims> {
        let (node, x) = (self.node, || self.input(0));
        match &node.op {
            Op::Gemm => with(x()?, -1, self.axis("weight", Axis::Out)),
            Op::Conv | Op::ConvTranspose => self.convolution(),
            Op::MaxPool | Op::AveragePool => {
                let kernel = self.ints("kernel_shape")??;
                let kernel =
                    kernel.iter().map(|len| u64::try_from(*len).ok()).collect::<Option<Vec<u64>>>()?;
                windowed(node, x()?, &kernel)
            }
            Op::GlobalAveragePool | Op::GlobalMaxPool => {
                let mut dims = x()?;
                dims.iter_mut().skip(2).for_each(|len| *len = Length::Known(1));
                Some(dims)
            }
            Op::Flatten => {
                let (dims, axis) = (x()?, self.int("axis", 1)?);
                let at = if Length::from(dims.len()).is(Length::Known(axis)) {
                    dims.len()
                } else {
                    resolve(axis, dims.len())?
                };
                let (before, after) = dims.split_at_checked(at)?;
                Some(vec![before.iter().product(), after.iter().product()])
            }
            Op::Reshape => reshaped(&x()?, self.ints("shape")??, self.int("allowzero", 0)? == 0),
            Op::Transpose => {
                let dims = x()?;
                match self.ints("perm")? {
                    None => Some(dims.into_iter().rev().collect()),
                    Some(perm) => {
                        perm.iter().map(|axis| dims.get(usize::try_from(*axis).ok()?).copied()).collect()
                    }
                }
            }
            Op::Squeeze => {
                let dims = x()?;
                let axes = resolve_all(self.ints("axes")??, dims.len())?;
                Some(reduced(&dims, &axes, false))
            }
            Op::Unsqueeze => {
                let (dims, axes) = (x()?, self.ints("axes")??);
                let axes = resolve_all(axes, dims.len().checked_add(axes.len())?)?;
                Some(unsqueezed(&dims, &axes))
            }
            Op::Concat => {
                let all = (0..node.inputs.len()).map(|at| self.input(at)).collect::<Option<Vec<Dims>>>()?;
                let axis = resolve(self.int("axis", 1)?, all.first()?.len())?;
                joined(axis, all.iter().map(Vec::as_slice))
            }
            Op::Pad => {
                let (dims, pads) = (x()?, self.ints("pads")??);
                let (begins, ends) =
                    pads.split_at_checked(dims.len()).filter(|(_, ends)| ends.len() == dims.len())?;
                Some(
                    dims.iter()
                        .zip(begins)
                        .zip(ends)
                        .map(|((len, begin), end)| *len + *begin + *end)
                        .collect(),
                )
            }
            Op::Slice => self.slice(x()?),
            Op::Gather => match self.input(1) {
                Some(indices) => {
                    let data = x()?;
                    let axis = resolve(self.int("axis", 0)?, data.len())?;
                    Some([data.get(..axis)?, &indices, data.get(axis + 1..)?].concat())
                }
                None if node.inputs.len() == 1 => Some([x()?, vec![self.axis("weight", Axis::Out)]].concat()),
                None => None,
            },
            Op::GatherElements => self.input(1),
            Op::GatherND => {
                let (data, mut places) = (x()?, self.input(1)?);
                let depth = usize::try_from(places.pop()?.known()?).ok()?;
                let batch = usize::try_from(self.int("batch_dims", 0)?).ok()?;
                places.extend_from_slice(data.get(batch.checked_add(depth)?..)?);
                Some(places)
            }
            Op::Constant => self.constant(),
            Op::MatMul => product_of_matrices(&x()?, &self.input(1)?),
            Op::ArgMax | Op::ArgMin => {
                let dims = x()?;
                let axis = resolve(self.int("axis", 0)?, dims.len())?;
                Some(reduced(&dims, &[axis], self.int("keepdims", 1)? != 0))
            }
            op if op.name().starts_with("Reduce") => {
                let dims = x()?;
                let axes = match self.ints("axes")? {
                    Some(axes) => resolve_all(axes, dims.len())?,
                    None => (0..dims.len()).collect(),
                };
                Some(reduced(&dims, &axes, self.int("keepdims", 1)? != 0))
            }
            Op::Resize => self.resize(x()?),
            Op::CumSum | Op::CumProd => x(),
            Op::Tile => {
                let repeats = self.ints("repeats")??;
                Some(x()?.into_iter().zip(repeats).map(|(len, times)| len * *times).collect())
            }
            Op::Expand => {
                let wanted = self.ints("shape")??;
                // -1 keeps the value's own length.
                let wanted: Dims =
                    wanted.iter().map(|len| Length::Known(if *len < 0 { 1 } else { *len })).collect();
                broadcast_all([&x()?[..], &wanted])
            }
            Op::Einsum => self.einsum(),
            op if is_elementwise(op) => {
                let names = node.inputs.iter().filter(|name| !name.is_empty());
                let all = names.map(|name| self.known.dims(name)).collect::<Option<Vec<Dims>>>()?;
                broadcast_all(all.iter().map(Vec::as_slice)).filter(|_| !all.is_empty())
            }
            _ => None,
        }
    }

    fn convolution(&self) -> Option<Dims> {
        let weight = self.known.tensor(self.node.parameters.get("weight")?)?;
        let sides =
            [Axis::KernelZ, Axis::KernelY, Axis::KernelX].into_iter().filter_map(|axis| weight.axis(axis));
        let kernel = sides.map(|axis| weight.shape.get(axis).copied()).collect::<Option<Vec<u64>>>()?;
        let dims = windowed(self.node, self.input(0)?, &kernel)?;
        let own = self.axis("weight", Axis::Out);
        let outputs = match (&self.node.op, own) {
            (Op::ConvTranspose, _) => own * self.int("group", 1)?,
            (_, Length::Unknown) => self.axis("weight", Axis::In) * self.axis("weight", Axis::Multiplier),
            _ => own,
        };
        with(dims, 1, outputs)
    }

    fn slice(&self, mut dims: Dims) -> Option<Dims> {
        let (starts, ends) = (self.ints("starts")??, self.ints("ends")??);
        let own: Vec<i64> = (0..).take(starts.len()).collect();
        let axes = resolve_all(self.ints("axes")?.unwrap_or(&own), dims.len())?;
        let steps = self.ints("steps")?;
        for (at, axis) in axes.into_iter().enumerate() {
            let step = steps.map_or(Some(1), |steps| steps.get(at).copied())?;
            let len = dims.get_mut(axis)?;
            *len = sliced(*len, *starts.get(at)?, *ends.get(at)?, step);
        }
        Some(dims)
    }

    fn split(&self) -> Vec<Option<Dims>> {
        let parts = self.node.outputs.len();
        let part = |at: usize| {
            let mut dims = self.input(0)?;
            let axis = resolve(self.int("axis", 0)?, dims.len())?;
            let len = dims.get_mut(axis)?;
            *len = match self.ints("split")? {
                Some(lens) => Length::Known(*lens.get(at)?),
                None if self.node.computed_attributes().next().is_some() => Length::Unknown,
                None => len.floor_div(Length::from(parts)),
            };
            Some(dims)
        };
        (0..parts).map(part).collect()
    }

    /// Returns the shapes of all outputs, of the last one, and of the last memory.
    fn recurrent(&self) -> Option<[Dims; 3]> {
        let [steps, batch, _] = self.input(0)?[..] else { return None };
        let (one, hidden) = (Length::Known(1), self.axis("recurrent_weight", Axis::In));
        let last = vec![one, batch, hidden];
        Some([vec![steps, one, batch, hidden], last.clone(), last])
    }

    fn einsum(&self) -> Option<Dims> {
        let (from, to) = self.node.text("equation").ok()??.split_once("->")?;
        let mut lens: HashMap<char, Length> = HashMap::new();
        for (at, letters) in from.split(',').enumerate() {
            let (dims, letters) = (self.input(at)?, letters.trim());
            if letters.chars().count() != dims.len() {
                return None;
            }
            for (letter, len) in letters.chars().zip(dims) {
                let known = lens.entry(letter).or_insert(len);
                *known = if known.known().is_some() { *known } else { len };
            }
        }
        to.trim().chars().map(|letter| lens.get(&letter).copied()).collect()
    }

    fn constant(&self) -> Option<Dims> {
        if let Some(name) = self.node.parameters.get("value") {
            return Some(crate::shape::of_sizes(&self.known.tensor(name)?.shape));
        }
        if let Some(shape) = self.ints("shape")? {
            return Some(shape.iter().map(|len| Length::Known(*len)).collect());
        }
        let has = |name: &str| self.node.attributes.contains_key(name);
        match (has("value_float") || has("value_int"), has("value_floats") || has("value_ints")) {
            (true, _) => Some(Dims::new()),
            (_, true) => Some(vec![Length::Unknown]),
            _ => None,
        }
    }

    fn resize(&self, dims: Dims) -> Option<Dims> {
        if let Some(sizes) = self.ints("sizes")? {
            let len = |(len, size): (Length, &i64)| if *size <= 0 { len } else { Length::Known(*size) };
            return Some(dims.into_iter().zip(sizes).map(len).collect());
        }
        let scales = self.node.floats("scales").ok()??;
        let len = |(len, scale): (Length, &f64)| match len.known() {
            _ if *scale == 1.0 => len,
            Some(len) if (0.0..65536.0).contains(scale) => Length::Known((*scale * len as f64) as i64),
            _ => Length::Unknown,
        };
        (scales.len() == dims.len()).then(|| dims.into_iter().zip(&scales).map(len).collect())
    }
}

/// Replaces the length of an axis.
fn with(mut dims: Dims, axis: i64, len: Length) -> Option<Dims> {
    let at = resolve(axis, dims.len())?;
    *dims.get_mut(at)? = len;
    Some(dims)
}

fn reshaped(dims: &[Length], shape: &[i64], copies: bool) -> Option<Dims> {
    let len = |(at, len): (usize, &i64)| match *len {
        0 if copies => dims.get(at).copied(),
        -1 => Some(Length::Unknown),
        len => Some(Length::Known(len)),
    };
    let mut made = shape.iter().enumerate().map(len).collect::<Option<Dims>>()?;
    if let Some(open) = shape.iter().position(|len| *len == -1) {
        let (before, after) = made.split_at_checked(open)?;
        made[open] = remaining(dims, &[before, after.get(1..)?].concat());
    }
    Some(made)
}

/// Returns the shape after a window of these sides, as a node states it, moved over all axes but the first two.
pub fn windowed(node: &Node, mut dims: Dims, kernel: &[u64]) -> Option<Dims> {
    let sides = dims.len().checked_sub(2)?;
    let list = |name: &str, count: usize, default: u64| match node.ints(name).ok()? {
        None => Some(vec![default; count]),
        Some(list) => {
            let list = list.iter().map(|value| u64::try_from(*value).ok()).collect::<Option<Vec<u64>>>()?;
            (list.len() >= count).then_some(list)
        }
    };
    let window = || {
        let auto = node.text("auto_pad").ok()?;
        let padding = match auto {
            None | Some("NOTSET" | "" | "VALID") => {
                let pads = list("pads", sides.checked_mul(2)?, 0)?;
                let (begins, ends) = pads.split_at_checked(sides)?;
                Padding::Explicit(begins.iter().zip(ends).map(|(begin, end)| [*begin, *end]).collect())
            }
            Some(_) => Padding::Same,
        };
        Some(Window { strides: list("strides", sides, 1)?, dilations: list("dilations", sides, 1)?, padding })
    };
    let window = window();
    let rounds_up = node.int("ceil_mode", 0).ok()? != 0;
    for (at, len) in dims.iter_mut().skip(2).enumerate() {
        let side = || {
            let (window, kernel) = (window.as_ref()?, *kernel.get(at)?);
            if node.op == Op::ConvTranspose {
                return transposed(node, window, at, kernel, *len);
            }
            // Rounded up, the last window must begin inside the axis or its first padding.
            let is_exact = !rounds_up || window.strides.get(at) == Some(&1);
            window.side(at, kernel, *len).filter(|_| is_exact).map(|side| side.out)
        };
        *len = side().unwrap_or(Length::Unknown);
    }
    Some(dims)
}

/// Returns the length of a side of a transposed convolution's result.
fn transposed(node: &Node, window: &Window, side: usize, kernel: u64, len: Length) -> Option<Length> {
    let Padding::Explicit(pads) = &window.padding else { return None };
    let [begin, end] = pads.get(side)?.map(Length::from);
    let added = match node.ints("output_padding").ok()? {
        Some(added) => *added.get(side)?,
        None => 0,
    };
    let stride = Length::from(*window.strides.get(side)?);
    let out = (len - 1) * stride + Length::from(window.reach(side, kernel)?) + 1 + added - begin - end;
    (!node.attributes.contains_key("output_shape")).then_some(out)
}

/// Whether the results of an operator are as long as its inputs, broadcast with each other.
fn is_elementwise(op: &Op) -> bool {
    const OTHERS: [&str; 48] = [
        "Abs",
        "Add",
        "And",
        "BatchNormalization",
        "BitShift",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "Ceil",
        "Clip",
        "Cos",
        "Div",
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "Greater",
        "GreaterOrEqual",
        "GroupNormalization",
        "Identity",
        "InstanceNormalization",
        "IsInf",
        "IsNaN",
        "LayerNormalization",
        "Less",
        "LessOrEqual",
        "Log",
        "LpNormalization",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "RMSNormalization",
        "Reciprocal",
        "Round",
        "Sign",
        "Sin",
        "Sqrt",
        "Sub",
        "Tan",
        "Where",
        "Xor",
    ];
    op.is_activation() || OTHERS.contains(&op.name())
}

#[cfg(test)]
mod tests;
