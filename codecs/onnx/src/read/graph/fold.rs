//! Arithmetic on shapes, which is computed while the graph is read.

use super::values::{Known, Read, Reader};
use crate::format::message::Node;
use ckpt_graph::shape::{resolve, resolve_all};
use ckpt_graph::{Integers, Length};

/// Numbers that are folded at most at once.
const MOST: usize = 1024;

impl<'a> Reader<'a> {
    /// Computes a node whose inputs are known; `false` for one that is left to the graph.
    pub(super) fn fold(&mut self, node: &'a Node) -> Read<bool> {
        let Some(output) = node.outputs.first() else { return Ok(false) };
        let known = match node.op.as_str() {
            "Constant" => {
                if let Some(tensor) = node.tensor("value") {
                    self.note_narrow(output, tensor.data_type);
                }
                Some(self.constant(node)?)
            }
            "Shape" => self.folded_shape(node),
            "Size" => {
                let shape = node.input(0).and_then(|name| self.shape(name));
                shape.map(|shape| Known::Ints(Integers::scalar(shape.iter().product())))
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
        if let Some(value) = node.float("value_float") {
            Ok(Known::Floats(vec![value.into()], Vec::new()))
        } else if let Some(value) = node.int("value_int") {
            Ok(Known::Ints(Integers::scalar(Length::Known(value))))
        } else if let Some(values) = node.floats("value_floats") {
            Ok(Known::Floats(values.iter().copied().map(f64::from).collect(), vec![values.len() as u64]))
        } else if let Some(values) = node.ints("value_ints") {
            Ok(Known::Ints(Integers::vector(values.iter().copied().map(Length::Known).collect())))
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
        Some(Known::Ints(Integers::vector(part.to_vec())))
    }

    fn constant_of_shape(&self, node: &Node) -> Option<Known> {
        let lens = self.ints(node.input(0)?)?.values;
        let value = match node.tensor("value") {
            Some(tensor) => super::pieces::numbers(self.file(), tensor)?.0,
            None => super::pieces::Numbers::Floats(vec![0.0]),
        };
        use super::pieces::Numbers;
        let known: Option<Vec<usize>> = lens.iter().map(|len| usize::try_from(len.known()?).ok()).collect();
        let number = match &value {
            Numbers::Ints(ints) => Length::Known(*ints.first()?),
            Numbers::Floats(_) => Length::Unknown,
        };
        let small = known.and_then(|lens| Integers::filled(lens, number, MOST));
        Some(match (small, value) {
            (Some(small), Numbers::Ints(_)) => Known::Ints(small),
            (Some(small), Numbers::Floats(floats)) => {
                Known::Floats(vec![*floats.first()?; small.values.len()], small.sizes())
            }
            (None, Numbers::Ints(ints)) => {
                Known::Filled { value: *ints.first()? as f64, is_int: true, shape: lens }
            }
            (None, Numbers::Floats(floats)) => {
                Known::Filled { value: *floats.first()?, is_int: false, shape: lens }
            }
        })
    }

    /// A list of integers, or one, from others. `None` for an operator that is none of shape arithmetic.
    fn folded(&self, node: &Node) -> Option<Known> {
        let input = |at: usize| self.ints(node.input(at)?);
        let made = match node.op.as_str() {
            "Identity" => input(0)?,
            // Only casts among integers keep them.
            "Cast" => input(0).filter(|_| matches!(node.int("to"), Some(6 | 7)))?,
            "Gather" => {
                let data = input(0).filter(|data| data.shape.len() == 1)?;
                data.gathered(&input(1)?, resolve(node.int("axis").unwrap_or(0), 1)?, MOST)?
            }
            "Concat" => {
                let mut all = Vec::new();
                for name in &node.inputs {
                    all.extend(self.ints(name).filter(|ints| ints.shape.len() == 1)?.values);
                    (all.len() <= MOST).then_some(())?;
                }
                Integers::vector(all)
            }
            "Unsqueeze" => {
                let ints = input(0).filter(|ints| ints.shape.is_empty())?;
                let axes = match node.input(1) {
                    Some(axes) => self.ints(axes)?.values.len(),
                    None => node.ints("axes")?.len(),
                };
                ints.with_shape(vec![1; axes])?
            }
            "Squeeze" => input(0).filter(|ints| ints.shape == [1])?.with_shape(Vec::new())?,
            "Reshape" => input(0)?.reshaped(&input(1)?.known()?, node.int("allowzero").unwrap_or(0) == 0)?,
            "Transpose" => {
                let ints = input(0)?;
                let rank = ints.shape.len();
                let order = match node.ints("perm") {
                    Some(perm) => resolve_all(perm, rank)?,
                    None => (0..rank).rev().collect(),
                };
                ints.transposed(&order)?
            }
            "Slice" => self.folded_slice(node)?,
            "ReduceProd" => {
                let ints = input(0).filter(|ints| ints.shape.len() <= 1)?;
                let has_axes = node.input(1).is_some() || node.has("axes");
                let is_copy = !has_axes && node.int("noop_with_empty_axes") == Some(1);
                let shape = if node.int("keepdims") == Some(0) { Vec::new() } else { vec![1] };
                (!is_copy).then(|| Integers { shape, values: vec![ints.values.iter().product()] })?
            }
            "Range" => {
                let bound = |at: usize| input(at)?.values.first()?.known();
                Integers::steps(bound(0)?, bound(1)?, bound(2)?, MOST)?
            }
            "Where" => {
                let all = [input(0)?, input(1)?, input(2)?];
                let pick = |[chosen, yes, no]: [Length; 3]| match chosen.known()? {
                    0 => Some(no),
                    _ => Some(yes),
                };
                each(&all, pick)?
            }
            _ => {
                let all = [input(0)?, input(1)?];
                (node.inputs.len() == 2).then_some(())?;
                each(&all, |[a, b]| combined(node, a, b))?
            }
        };
        Some(Known::Ints(made))
    }

    fn folded_slice(&self, node: &Node) -> Option<Integers> {
        let mut ints = self.ints(node.input(0)?)?;
        let list = |at: usize, name: &str| self.list(node, at, name).ok();
        let (starts, ends) = (list(1, "starts")??, list(2, "ends")??);
        let axes = list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            ints = ints.sliced(resolve(*axis, ints.shape.len())?, *start, *end, *step)?;
        }
        Some(ints)
    }
}

/// Applies a function to the elements of lists, of which those of one element are repeated.
fn each<const N: usize>(all: &[Integers; N], of: impl Fn([Length; N]) -> Option<Length>) -> Option<Integers> {
    let longest = all.iter().max_by_key(|ints| (ints.shape.len(), ints.values.len()))?;
    let len = longest.values.len();
    let fits =
        |ints: &Integers| ints.shape.len() <= 1 && matches!(ints.values.len(), own if own == 1 || own == len);
    (len <= MOST && all.iter().all(fits)).then_some(())?;
    let at = |ints: &Integers, k: usize| ints.values.get(if ints.values.len() == 1 { 0 } else { k }).copied();
    let value = |k: usize| {
        let mut own = [Length::Unknown; N];
        for (own, ints) in own.iter_mut().zip(all) {
            *own = at(ints, k)?;
        }
        of(own)
    };
    Some(Integers { shape: longest.shape.clone(), values: (0..len).map(value).collect::<Option<_>>()? })
}

fn combined(node: &Node, a: Length, b: Length) -> Option<Length> {
    let truth = |holds: fn(i64, i64) -> bool| Some(Length::Known(holds(a.known()?, b.known()?).into()));
    Some(match node.op.as_str() {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
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
