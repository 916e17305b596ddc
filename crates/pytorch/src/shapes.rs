//! Lengths of the axes of a graph's values, as far as they are known: the batch is free.

use super::attributes::{int, ints, text};
use super::tensors::Tensors;
use super::window::{Window, padding};
use ckpt_api::{Axis, Graph, Node, Op};
use std::collections::HashMap;

/// The lengths of a value's axes; `None` for one that is free.
pub(super) type Dims = Vec<Option<u64>>;

/// The lengths of the axes of values; those that are not in it are not known.
pub(super) struct Shapes(HashMap<String, Dims>);

impl Shapes {
    /// Follows the lengths from the inputs of a graph through its nodes.
    pub(super) fn of(graph: &Graph, tensors: &Tensors<'_>) -> Self {
        let inputs = graph.inputs.iter().map(|input| (input.name.clone(), input.shape.clone()));
        Shapes(inputs.collect()).with(graph, tensors)
    }

    /// Adds those of another graph of the same values, where they are not known yet.
    pub(super) fn with(mut self, graph: &Graph, tensors: &Tensors<'_>) -> Self {
        for node in &graph.nodes {
            let made = self.after(node, tensors);
            for (name, dims) in node.outputs.iter().zip(made) {
                if let (Some(dims), false) = (dims, self.0.contains_key(name)) {
                    self.0.insert(name.clone(), dims);
                }
            }
        }
        self
    }

    /// The lengths of a value's axes.
    pub(super) fn get(&self, value: &str) -> Option<&Dims> {
        self.0.get(value)
    }

    /// The number of a value's axes.
    pub(super) fn rank(&self, value: &str) -> Option<usize> {
        self.get(value).map(Vec::len)
    }

    fn input(&self, node: &Node, number: usize) -> Option<&Dims> {
        self.get(node.inputs.get(number)?)
    }

    fn after(&self, node: &Node, tensors: &Tensors<'_>) -> Vec<Option<Dims>> {
        match node.op {
            Op::LSTM | Op::GRU | Op::RNN => self.after_recurrent(node, tensors),
            Op::Split => self.after_split(node),
            _ => vec![self.after_one(node, tensors)],
        }
    }

    fn after_one(&self, node: &Node, tensors: &Tensors<'_>) -> Option<Dims> {
        let first = || self.input(node, 0).cloned();
        match &node.op {
            Op::Gemm => with_last(first()?, tensors.axis(node, "weight", Axis::Out)),
            Op::Conv => self.after_conv(node, tensors),
            Op::ConvTranspose => {
                let (x, out) = (first()?, tensors.axis(node, "weight", Axis::Out));
                let group = u64::try_from(int(node, "group", 1).ok()?).ok()?;
                let out = out.and_then(|out| out.checked_mul(group));
                Some([x.first().copied()?, out].into_iter().chain((2..x.len()).map(|_| None)).collect())
            }
            Op::MaxPool | Op::AveragePool => {
                let x = first()?;
                let kernel = ints(node, "kernel_shape").ok()??;
                let channels = x.get(1).copied()?;
                windowed(node, &x, kernel, channels)
            }
            Op::GlobalAveragePool | Op::GlobalMaxPool => {
                let x = first()?;
                Some(x.iter().enumerate().map(|(axis, len)| if axis < 2 { *len } else { Some(1) }).collect())
            }
            Op::Flatten => {
                let x = first()?;
                let (batch, rest) = x.split_first()?;
                Some(vec![*batch, product(rest)])
            }
            Op::Reshape => reshaped(&first()?, ints(node, "shape").ok()??),
            Op::Transpose => {
                let x = first()?;
                match ints(node, "perm").ok()? {
                    None => Some(x.into_iter().rev().collect()),
                    Some(perm) => {
                        perm.iter().map(|axis| x.get(usize::try_from(*axis).ok()?).copied()).collect()
                    }
                }
            }
            Op::Squeeze => squeezed(first()?, ints(node, "axes").ok()?),
            Op::Unsqueeze => unsqueezed(first()?, ints(node, "axes").ok()??),
            Op::Concat => self.after_concat(node),
            Op::Pad => {
                let (mut x, pads) = (first()?, ints(node, "pads").ok()??);
                let rank = x.len();
                for (axis, len) in x.iter_mut().enumerate() {
                    let both = pads.get(axis)?.checked_add(*pads.get(axis.checked_add(rank)?)?)?;
                    *len = len.and_then(|len| len.checked_add_signed(both));
                }
                Some(x)
            }
            Op::Slice => sliced(node, first()?),
            Op::Gather if node.inputs.len() == 1 => {
                let mut x = first()?;
                x.push(tensors.axis(node, "weight", Axis::Out));
                Some(x)
            }
            Op::Constant => constant(node, tensors),
            Op::MatMul => {
                let (mut a, b) = (first()?, self.input(node, 1)?);
                if a.len() < 2 || (b.len() != 2 && a.len() != b.len()) {
                    return None;
                }
                *a.last_mut()? = *b.last()?;
                Some(a)
            }
            Op::ReduceSum
            | Op::ReduceMean
            | Op::ReduceMax
            | Op::ReduceMin
            | Op::ReduceProd
            | Op::ReduceL2
            | Op::ReduceSumSquare
            | Op::ReduceLogSumExp => reduced(node, first()?),
            Op::Resize => resized(node, first()?),
            Op::CumSum => first(),
            Op::Tile => {
                let repeats = ints(node, "repeats").ok()??;
                let own = |(len, times): (Option<u64>, &i64)| match *times {
                    1 => len,
                    times => len?.checked_mul(u64::try_from(times).ok()?),
                };
                Some(first()?.into_iter().zip(repeats).map(own).collect())
            }
            Op::Expand => {
                let (x, shape) = (first()?, ints(node, "shape").ok()??);
                let wanted: Dims = shape.iter().map(|len| u64::try_from(*len).ok()).collect();
                let rank = x.len().max(wanted.len());
                let padded = |dims: &Dims| -> Dims {
                    std::iter::repeat_n(Some(1), rank - dims.len()).chain(dims.iter().copied()).collect()
                };
                let own = |(own, wanted): (Option<u64>, Option<u64>)| match wanted {
                    None | Some(1) => own,
                    wanted => wanted,
                };
                Some(padded(&x).into_iter().zip(padded(&wanted)).map(own).collect())
            }
            Op::Einsum => self.after_einsum(node),
            op if is_elementwise(op) => self.broadcast(node),
            _ => None,
        }
    }

    fn after_conv(&self, node: &Node, tensors: &Tensors<'_>) -> Option<Dims> {
        let x = self.input(node, 0)?;
        let kernel: Vec<i64> =
            tensors.window(node)?.into_iter().map(|len| i64::try_from(len).ok()).collect::<Option<_>>()?;
        let out = tensors.axis(node, "weight", Axis::Out).or_else(|| {
            let inputs = tensors.axis(node, "weight", Axis::In)?;
            inputs.checked_mul(tensors.axis(node, "weight", Axis::Multiplier)?)
        });
        windowed(node, x, &kernel, out)
    }

    fn after_concat(&self, node: &Node) -> Option<Dims> {
        let all: Vec<&Dims> = (0..node.inputs.len()).map(|at| self.input(node, at)).collect::<Option<_>>()?;
        let mut dims = (*all.first()?).clone();
        let axis = at_axis(int(node, "axis", 1).ok()?, dims.len())?;
        let lens: Option<Vec<u64>> = all.iter().map(|own| own.get(axis).copied().flatten()).collect();
        *dims.get_mut(axis)? =
            lens.and_then(|lens| lens.iter().try_fold(0u64, |sum, len| sum.checked_add(*len)));
        Some(dims)
    }

    fn after_split(&self, node: &Node) -> Vec<Option<Dims>> {
        let parts = node.outputs.len();
        let part = |number: usize| {
            let mut x = self.input(node, 0)?.clone();
            let axis = at_axis(int(node, "axis", 0).ok()?, x.len())?;
            let len = x.get_mut(axis)?;
            *len = match ints(node, "split").ok()? {
                Some(lens) => u64::try_from(*lens.get(number)?).ok(),
                None => len.and_then(|len| len.checked_div(parts as u64)),
            };
            Some(x)
        };
        (0..parts).map(part).collect()
    }

    fn after_recurrent(&self, node: &Node, tensors: &Tensors<'_>) -> Vec<Option<Dims>> {
        let made = || {
            let [steps, batch, _] = self.input(node, 0)?[..] else { return None };
            let hidden = tensors.axis(node, "recurrent_weight", Axis::In);
            let one = Some(1);
            Some([vec![steps, one, batch, hidden], vec![one, batch, hidden], vec![one, batch, hidden]])
        };
        made().map(|made| made.into_iter().map(Some).collect()).unwrap_or_default()
    }

    fn after_einsum(&self, node: &Node) -> Option<Dims> {
        let equation = text(node, "equation", "").ok()?;
        let (from, to) = equation.split_once("->")?;
        let mut lens: HashMap<char, Option<u64>> = HashMap::new();
        for (number, letters) in from.split(',').enumerate() {
            let dims = self.input(node, number)?;
            let letters: Vec<char> = letters.trim().chars().collect();
            if letters.len() != dims.len() {
                return None;
            }
            for (letter, len) in letters.into_iter().zip(dims) {
                let known = lens.entry(letter).or_insert(*len);
                *known = known.or(*len);
            }
        }
        to.trim().chars().map(|letter| lens.get(&letter).copied()).collect()
    }

    /// The lengths of inputs that are broadcast with each other.
    fn broadcast(&self, node: &Node) -> Option<Dims> {
        let used =
            (0..node.inputs.len()).filter(|at| node.inputs.get(*at).is_some_and(|name| !name.is_empty()));
        let all: Vec<&Dims> = used.map(|at| self.input(node, at)).collect::<Option<_>>()?;
        let rank = all.iter().map(|dims| dims.len()).max()?;
        let axis = |from_end: usize| {
            let mut lens = all.iter().filter_map(|dims| dims.iter().rev().nth(from_end).copied());
            let wide = lens.clone().find(|len| len.is_some_and(|len| len != 1));
            wide.unwrap_or_else(|| lens.find(Option::is_none).unwrap_or(Some(1)))
        };
        Some((0..rank).rev().map(axis).collect())
    }
}

fn is_elementwise(op: &Op) -> bool {
    op.is_activation()
        || matches!(
            op,
            Op::Add
                | Op::Sub
                | Op::Mul
                | Op::Div
                | Op::Mod
                | Op::Pow
                | Op::Max
                | Op::Min
                | Op::Where
                | Op::PRelu
                | Op::Equal
                | Op::Less
                | Op::LessOrEqual
                | Op::Greater
                | Op::GreaterOrEqual
                | Op::And
                | Op::Or
                | Op::Abs
                | Op::Neg
                | Op::Sign
                | Op::Reciprocal
                | Op::Sqrt
                | Op::Exp
                | Op::Log
                | Op::Sin
                | Op::Cos
                | Op::Tan
                | Op::Erf
                | Op::Floor
                | Op::Ceil
                | Op::Round
                | Op::Not
                | Op::Clip
                | Op::Identity
                | Op::Cast
                | Op::BatchNormalization
                | Op::LayerNormalization
                | Op::GroupNormalization
                | Op::InstanceNormalization
                | Op::RMSNormalization
                | Op::LpNormalization
        )
}

fn windowed(node: &Node, x: &Dims, kernel: &[i64], channels: Option<u64>) -> Option<Dims> {
    let window = Window::of(node, kernel).ok()?;
    let sides = x.get(2..)?;
    let pads = padding(node, &window, sides).ok()?;
    let side = |(at, len): (usize, &Option<u64>)| {
        let (begin, end) = *pads.as_ref()?.get(at)?;
        let padded = i64::try_from((*len)?).ok()?.checked_add(begin)?.checked_add(end)?;
        let left = padded.checked_sub(window.reach(at)?)?;
        u64::try_from(left.checked_div_euclid(*window.strides.get(at)?)?.checked_add(1)?).ok()
    };
    let strided = |(at, len): (usize, &Option<u64>)| match pads {
        Some(_) => side((at, len)),
        None => None,
    };
    Some([*x.first()?, channels].into_iter().chain(sides.iter().enumerate().map(strided)).collect())
}

fn with_last(mut dims: Dims, len: Option<u64>) -> Option<Dims> {
    *dims.last_mut()? = len;
    Some(dims)
}

pub(super) fn product(dims: &[Option<u64>]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, len| product.checked_mul((*len)?))
}

/// The number of an axis that may be counted from the end.
pub(super) fn at_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    usize::try_from(axis).ok().filter(|_| axis < rank)
}

fn reshaped(x: &Dims, shape: &[i64]) -> Option<Dims> {
    let mut dims = Dims::with_capacity(shape.len());
    for (axis, len) in shape.iter().enumerate() {
        dims.push(match len {
            0 => *x.get(axis)?,
            -1 => None,
            len => Some(u64::try_from(*len).ok()?),
        });
    }
    // What is left for the one free axis is known where all others are.
    if let Some(free) = shape.iter().position(|len| *len == -1) {
        let is_batch = x.first()?.is_none() && dims.first()?.is_none() && free != 0;
        let skipped = usize::from(is_batch);
        let others: Dims = dims
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != free)
            .skip(skipped)
            .map(|(_, len)| *len)
            .collect();
        let left = product(x.get(skipped..)?).zip(product(&others));
        *dims.get_mut(free)? = left.and_then(|(all, others)| all.checked_div(others));
    }
    Some(dims)
}

fn squeezed(x: Dims, axes: Option<&[i64]>) -> Option<Dims> {
    let axes: Vec<usize> = match axes {
        Some(axes) => axes.iter().map(|axis| at_axis(*axis, x.len())).collect::<Option<_>>()?,
        None => return None,
    };
    Some(x.into_iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, len)| len).collect())
}

fn unsqueezed(x: Dims, axes: &[i64]) -> Option<Dims> {
    let rank = x.len().checked_add(axes.len())?;
    let axes: Vec<usize> = axes.iter().map(|axis| at_axis(*axis, rank)).collect::<Option<_>>()?;
    let mut rest = x.into_iter();
    (0..rank).map(|axis| if axes.contains(&axis) { Some(Some(1)) } else { rest.next() }).collect()
}

fn sliced(node: &Node, mut x: Dims) -> Option<Dims> {
    let (starts, ends) = (ints(node, "starts").ok()??, ints(node, "ends").ok()??);
    let own: Vec<i64> = (0..).take(starts.len()).collect();
    let axes = ints(node, "axes").ok()?.unwrap_or(&own);
    let steps = ints(node, "steps").ok()?;
    for (at, axis) in axes.iter().enumerate() {
        let axis = at_axis(*axis, x.len())?;
        let len = x.get_mut(axis)?;
        let step = steps.map_or(Some(1), |steps| steps.get(at).copied())?;
        *len = len.and_then(|len| slice_len(len, *starts.get(at)?, *ends.get(at)?, step));
    }
    Some(x)
}

fn slice_len(len: u64, start: i64, end: i64, step: i64) -> Option<u64> {
    let len = i64::try_from(len).ok()?;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let count = if step > 0 {
        let (start, end) = (from_end(start).clamp(0, len), from_end(end).clamp(0, len));
        end.saturating_sub(start).max(0).checked_add(step.checked_sub(1)?)?.checked_div(step)?
    } else {
        let (start, end) = (from_end(start).clamp(-1, len.saturating_sub(1)), from_end(end).clamp(-1, len));
        let step = step.checked_neg().filter(|step| *step > 0)?;
        start.saturating_sub(end).max(0).checked_add(step.checked_sub(1)?)?.checked_div(step)?
    };
    u64::try_from(count).ok()
}

fn constant(node: &Node, tensors: &Tensors<'_>) -> Option<Dims> {
    if let Some(name) = node.parameters.get("value") {
        return Some(tensors.shape(name)?.iter().map(|len| Some(*len)).collect());
    }
    if let Some(shape) = ints(node, "shape").ok()? {
        return shape.iter().map(|len| Some(u64::try_from(*len).ok())).collect();
    }
    let listed = |name: &str| node.attributes.contains_key(name);
    match (listed("value_float") || listed("value_int"), listed("value_floats") || listed("value_ints")) {
        (true, _) => Some(Vec::new()),
        (_, true) => Some(vec![None]),
        _ => None,
    }
}

fn reduced(node: &Node, x: Dims) -> Option<Dims> {
    let keeps = int(node, "keepdims", 1).ok()? != 0;
    let axes: Vec<usize> = match ints(node, "axes").ok()? {
        Some(axes) => axes.iter().map(|axis| at_axis(*axis, x.len())).collect::<Option<_>>()?,
        None => (0..x.len()).collect(),
    };
    let len = |(axis, len): (usize, Option<u64>)| match axes.contains(&axis) {
        true => keeps.then_some(Some(1)),
        false => Some(len),
    };
    Some(x.into_iter().enumerate().filter_map(len).collect())
}

fn resized(node: &Node, x: Dims) -> Option<Dims> {
    if let Some(sizes) = ints(node, "sizes").ok()? {
        let own =
            |(len, size): (&Option<u64>, &i64)| if *size <= 0 { *len } else { u64::try_from(*size).ok() };
        return Some(x.iter().zip(sizes).map(own).collect());
    }
    let Some(ckpt_api::Attribute::Floats(scales)) = node.attributes.get("scales") else { return None };
    let own = |(len, scale): (&Option<u64>, &f64)| match len {
        Some(len) if scale.fract() == 0.0 && (1.0..65536.0).contains(scale) => len.checked_mul(*scale as u64),
        Some(len) if *scale == 1.0 => Some(*len),
        _ => None,
    };
    Some(x.iter().zip(scales).map(own).collect())
}
