//! Arithmetic on shapes, which is computed while the graph is read.

use super::integers;
use super::length::Length;
use super::values::{Known, Read, Reader};
use crate::format::dtype;
use crate::format::message::Node;
use ckpt_api::DType;

/// Numbers that are folded at most at once.
const MOST: usize = 1024;

impl<'a> Reader<'a> {
    /// Computes a node whose inputs are known; `false` for one that is left to the graph.
    pub(super) fn fold(&mut self, node: &'a Node) -> Read<bool> {
        let Some(output) = node.outputs.first() else { return Ok(false) };
        let known = match node.op.as_str() {
            "Constant" => {
                let narrow = node.tensor("value").and_then(|tensor| dtype(tensor.data_type));
                let narrow =
                    narrow.filter(|dtype| matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16));
                self.narrow.extend(narrow.map(|dtype| (output.as_str(), dtype)));
                Some(self.constant(node)?)
            }
            "Shape" => self.folded_shape(node),
            "Size" => {
                let shape = node.input(0).and_then(|name| self.shape(name));
                let size = shape.map(|shape| shape.into_iter().fold(Length::Known(1), Length::multiply));
                size.map(|size| Known::Ints(vec![size], Vec::new()))
            }
            "ConstantOfShape" => self.constant_of_shape(node),
            "Expand" => self.expanded(node),
            "Slice" if self.is_filled(node) => self.sliced_filling(node)?,
            "Identity" => self.alias(node),
            "Cast" | "CastLike" if self.is_widened_tensor(node) => self.alias(node),
            // Whether the inputs are numbers decides.
            _ if node.inputs.iter().all(|name| self.is_number(name)) => self.folded(node),
            _ => None,
        };
        Ok(known.is_some_and(|known| self.set(output, known)))
    }

    fn is_number(&self, name: &str) -> bool {
        if name.is_empty() {
            return true;
        }
        match self.known(name) {
            Known::Ints(..) => true,
            Known::Tensor(id) => self.tensors.get(*id).is_some_and(|tensor| {
                !tensor.dtype.is_float() && tensor.shape.rank() <= 1 && tensor.shape.elements() <= MOST as u64
            }),
            _ => false,
        }
    }

    fn constant(&self, node: &Node) -> Read<Known> {
        if let Some(tensor) = node.tensor("value") {
            if let Some(id) = self.listed(tensor) {
                return Ok(Known::Tensor(id));
            }
            let numbers = super::pieces::numbers(self.file(), tensor);
            let known = numbers.map(|(numbers, shape)| Known::of(numbers, shape));
            return known.ok_or_else(|| "has a tensor that is neither a weight nor a few numbers".to_owned());
        }
        let len = |count: usize| vec![count as u64];
        if let Some(value) = node.float("value_float") {
            Ok(Known::Floats(vec![value.into()], Vec::new()))
        } else if let Some(value) = node.int("value_int") {
            Ok(Known::Ints(vec![Length::Known(value)], Vec::new()))
        } else if let Some(values) = node.floats("value_floats") {
            Ok(Known::Floats(values.iter().copied().map(f64::from).collect(), len(values.len())))
        } else if let Some(values) = node.ints("value_ints") {
            Ok(Known::Ints(values.iter().copied().map(Length::Known).collect(), len(values.len())))
        } else {
            Err("has neither a tensor nor a number".to_owned())
        }
    }

    fn folded_shape(&self, node: &Node) -> Option<Known> {
        let shape = self.shape(node.input(0)?)?;
        let rank = i64::try_from(shape.len()).ok()?;
        let at = |value: i64| if value < 0 { value.saturating_add(rank) } else { value }.clamp(0, rank);
        let (start, end) = (at(node.int("start").unwrap_or(0)), at(node.int("end").unwrap_or(rank)));
        let part = shape.get(usize::try_from(start).ok()?..usize::try_from(end.max(start)).ok()?)?;
        Some(Known::Ints(part.to_vec(), vec![part.len() as u64]))
    }

    fn constant_of_shape(&self, node: &Node) -> Option<Known> {
        let (lens, _) = self.ints(node.input(0)?)?;
        let value = match node.tensor("value") {
            Some(tensor) => super::pieces::numbers(self.file(), tensor)?.0,
            None => super::pieces::Numbers::Floats(vec![0.0]),
        };
        let known: Option<Vec<u64>> = lens.iter().map(|len| u64::try_from(len.known()?).ok()).collect();
        let count = |lens: &[u64]| {
            let count = lens.iter().try_fold(1u64, |product, len| product.checked_mul(*len))?;
            usize::try_from(count).ok().filter(|count| *count <= MOST)
        };
        Some(match (known.and_then(|lens| Some((count(&lens)?, lens))), value) {
            (Some((count, lens)), super::pieces::Numbers::Ints(ints)) => {
                Known::Ints(vec![Length::Known(*ints.first()?); count], lens)
            }
            (Some((count, lens)), super::pieces::Numbers::Floats(floats)) => {
                Known::Floats(vec![*floats.first()?; count], lens)
            }
            (None, super::pieces::Numbers::Ints(ints)) => {
                Known::Filled { value: *ints.first()? as f64, is_int: true, shape: lens }
            }
            (None, super::pieces::Numbers::Floats(floats)) => {
                Known::Filled { value: *floats.first()?, is_int: false, shape: lens }
            }
        })
    }

    /// A list of integers, or one, from others. `None` for an operator that is none of shape arithmetic.
    fn folded(&self, node: &Node) -> Option<Known> {
        let input = |at: usize| self.ints(node.input(at)?);
        let axis = || node.int("axis").unwrap_or(0);
        match node.op.as_str() {
            "Identity" | "Cast" => {
                // Only casts among integers keep them.
                let is_kept = node.op == "Identity" || matches!(node.int("to")?, 6 | 7);
                let (ints, shape) = input(0).filter(|_| is_kept)?;
                Some(Known::Ints(ints, shape))
            }
            "Gather" => {
                let (data, shape) = input(0)?;
                let (indices, of_indices) = input(1)?;
                (shape.len() == 1 && matches!(axis(), 0 | -1)).then_some(())?;
                let len = i64::try_from(data.len()).ok()?;
                let pick = |index: Length| {
                    let index = index.known()?;
                    data.get(usize::try_from(if index < 0 { index.checked_add(len)? } else { index }).ok()?)
                        .copied()
                };
                Some(Known::Ints(indices.into_iter().map(pick).collect::<Option<_>>()?, of_indices))
            }
            "Concat" => {
                let mut all = Vec::new();
                for name in &node.inputs {
                    let (ints, shape) = self.ints(name)?;
                    (shape.len() == 1).then_some(())?;
                    all.extend(ints);
                    (all.len() <= MOST).then_some(())?;
                }
                let len = all.len() as u64;
                Some(Known::Ints(all, vec![len]))
            }
            "Unsqueeze" => {
                let (ints, shape) = input(0)?;
                let axes = match node.input(1) {
                    Some(axes) => self.ints(axes)?.0.len(),
                    None => node.ints("axes")?.len(),
                };
                shape.is_empty().then(|| Known::Ints(ints, vec![1; axes]))
            }
            "Squeeze" => {
                let (ints, shape) = input(0)?;
                (shape == [1]).then(|| Known::Ints(ints, Vec::new()))
            }
            "Reshape" => {
                let (ints, own) = input(0)?;
                let lens: Option<Vec<i64>> = input(1)?.0.into_iter().map(Length::known).collect();
                let shape = integers::reshaped(&own, &lens?, node.int("allowzero").unwrap_or(0) == 0)?;
                Some(Known::Ints(ints, shape))
            }
            "Transpose" => {
                let (ints, shape) = input(0)?;
                let (ints, shape) = integers::transposed(&ints, &shape, node.ints("perm"))?;
                Some(Known::Ints(ints, shape))
            }
            "Slice" => self.folded_slice(node),
            "ReduceProd" => {
                let (ints, shape) = input(0)?;
                let has_axes = node.input(1).is_some() || node.has("axes");
                let is_copy = !has_axes && node.int("noop_with_empty_axes") == Some(1);
                (shape.len() <= 1 && !is_copy).then_some(())?;
                let shape = if node.int("keepdims") == Some(0) { Vec::new() } else { vec![1] };
                Some(Known::Ints(vec![ints.into_iter().fold(Length::Known(1), Length::multiply)], shape))
            }
            "Range" => {
                let bounds: Option<Vec<i64>> = (0..3).map(|at| input(at)?.0.first()?.known()).collect();
                let &[start, limit, step] = &bounds?[..] else { return None };
                let mut values = Vec::new();
                let mut value = start;
                while (step > 0 && value < limit) || (step < 0 && value > limit) {
                    values.push(Length::Known(value));
                    (values.len() <= MOST).then_some(())?;
                    value = value.checked_add(step)?;
                }
                let len = values.len() as u64;
                Some(Known::Ints(values, vec![len]))
            }
            "Where" => {
                let ((chosen, of_chosen), (yes, of_yes), (no, of_no)) = (input(0)?, input(1)?, input(2)?);
                let (shape, len) = broadcast(&[&of_chosen, &of_yes, &of_no])?;
                let at = |ints: &[Length], k: usize| ints.get(if ints.len() == 1 { 0 } else { k }).copied();
                let pick = |k: usize| match at(&chosen, k)?.known()? {
                    0 => at(&no, k),
                    _ => at(&yes, k),
                };
                Some(Known::Ints((0..len).map(pick).collect::<Option<_>>()?, shape))
            }
            _ => {
                let ((a, of_a), (b, of_b)) = (input(0)?, input(1)?);
                let (shape, len) = broadcast(&[&of_a, &of_b])?;
                let at = |ints: &[Length], k: usize| ints.get(if ints.len() == 1 { 0 } else { k }).copied();
                let pair = |k: usize| combined(node, at(&a, k)?, at(&b, k)?);
                (node.inputs.len() == 2).then_some(())?;
                Some(Known::Ints((0..len).map(pair).collect::<Option<_>>()?, shape))
            }
        }
    }

    fn folded_slice(&self, node: &Node) -> Option<Known> {
        let (ints, shape) = self.ints(node.input(0)?)?;
        let list = |at: usize, name: &str| self.list(node, at, name).ok();
        let (starts, ends) = (list(1, "starts")??, list(2, "ends")??);
        let axes = list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        let (mut ints, mut shape) = (ints, shape);
        for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            let at = super::shapes::resolve(*axis, shape.len())?;
            (ints, shape) = integers::sliced(&ints, &shape, at, (*start, *end, *step))?;
        }
        Some(Known::Ints(ints, shape))
    }
}

/// The shape of lists that are combined, and its length.
fn broadcast(shapes: &[&[u64]]) -> Option<(Vec<u64>, usize)> {
    let longest = shapes.iter().max_by_key(|shape| (shape.len(), shape.first().copied()))?;
    let len = longest.iter().product::<u64>();
    let fits = |shape: &&[u64]| {
        shape.len() <= 1 && matches!(shape.iter().product::<u64>(), own if own == 1 || own == len)
    };
    let len = usize::try_from(len).ok().filter(|len| *len <= MOST)?;
    shapes.iter().all(fits).then(|| (longest.to_vec(), len))
}

fn combined(node: &Node, a: Length, b: Length) -> Option<Length> {
    let truth = |holds: fn(i64, i64) -> bool| Some(Length::Known(holds(a.known()?, b.known()?).into()));
    Some(match node.op.as_str() {
        "Add" => a.add(b),
        "Sub" => a.add(b.negated()),
        "Mul" => a.multiply(b),
        "Div" => a.divide(b),
        "Mod" => {
            let (a, b) = (a.known()?, b.known()?);
            let rest = a.checked_rem(b)?;
            // The sign is the divisor's, or the dividend's with `fmod`.
            let is_other = rest != 0 && (rest < 0) != (b < 0) && node.int("fmod") != Some(1);
            Length::Known(if is_other { rest.checked_add(b)? } else { rest })
        }
        "Max" if a == b => a,
        "Max" => Length::Known(a.known()?.max(b.known()?)),
        "Min" if a == b => a,
        "Min" => Length::Known(a.known()?.min(b.known()?)),
        // A length is never negative.
        "Equal" if matches!((a, b), (Length::Free { times: 1, plus: 0, .. }, Length::Known(..0))) => {
            Length::Known(0)
        }
        "Equal" => truth(|a, b| a == b)?,
        "Less" => truth(|a, b| a < b)?,
        "Greater" => truth(|a, b| a > b)?,
        "And" => truth(|a, b| a != 0 && b != 0)?,
        "Or" => truth(|a, b| a != 0 || b != 0)?,
        _ => return None,
    })
}
