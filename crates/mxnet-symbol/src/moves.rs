//! Operators that move elements, and MXNet's special lengths of a reshaping.

use crate::attributes::wrong;
use crate::lowering::{Lowering, Val};
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::{Attribute, Op};
use ckpt_graph::builder::MAX_NODES;
use ckpt_graph::shape::{remaining, resolve, show};
use ckpt_graph::{Builder, Dims, Length, Range};

impl Lowering<'_> {
    /// Lowers an operator that moves elements; `None` if it is another one.
    pub(crate) fn moved(&mut self, step: &Step) -> Read<Option<Val>> {
        Ok(Some(match step.op.as_str() {
            "Flatten" | "flatten" => {
                let x = self.take(step, 0)?;
                self.flat(&x, None)?
            }
            "Reshape" | "reshape" => self.reshape(step)?,
            "Concat" | "concat" => {
                let all = self.take_all(step)?;
                let first = all.first().ok_or("joins no values")?;
                let axis = first.resolve(step.int("dim", 1)?)?;
                self.builder.join(axis, &all)?
            }
            "stack" => {
                let all = self.take_all(step)?;
                let rank = all.first().map_or(0, Val::rank).saturating_add(1);
                let axis = resolve(step.int("axis", 0)?, rank).ok_or("names an axis that does not exist")?;
                let all =
                    all.iter().map(|val| self.builder.unsqueeze(val, &[axis])).collect::<Read<Vec<_>>>()?;
                self.builder.join(axis, &all)?
            }
            "transpose" => {
                let x = self.take(step, 0)?;
                let stated = step.ints("axes")?;
                let order = match &stated {
                    None => (0..x.rank()).rev().collect(),
                    Some(stated) => {
                        permutation(stated, x.rank()).ok_or_else(|| wrong("axes", &format!("{stated:?}")))?
                    }
                };
                self.builder.transpose(&x, &order)?
            }
            "SwapAxis" | "swapaxes" => {
                let x = self.take(step, 0)?;
                let (a, b) = (x.resolve(step.int("dim1", 0)?)?, x.resolve(step.int("dim2", 0)?)?);
                let mut order: Vec<usize> = (0..x.rank()).collect();
                order.swap(a, b);
                self.builder.transpose(&x, &order)?
            }
            "expand_dims" => {
                let x = self.take(step, 0)?;
                let rank = x.rank().saturating_add(1);
                let axis = resolve(step.int("axis", 0)?, rank).ok_or("names an axis that does not exist")?;
                self.builder.unsqueeze(&x, &[axis])?
            }
            "squeeze" => {
                let x = self.take(step, 0)?;
                let axes: Vec<usize> = match step.ints("axis")? {
                    Some(axes) => axes.iter().map(|axis| x.resolve(*axis)).collect::<Read<_>>()?,
                    None => (0..x.rank()).filter(|axis| x.len(*axis) == Length::Known(1)).collect(),
                };
                let made = self.builder.squeeze(&x, &axes)?;
                self.with_an_axis(made)?
            }
            "slice" | "crop" => self.slice(step)?,
            "slice_axis" => {
                let x = self.take(step, 0)?;
                let axis = x.resolve(step.int("axis", 0)?)?;
                let end = step.open_ints("end")?.and_then(|end| end.first().copied().flatten());
                let range = Range::new(axis, step.int("begin", 0)?, end.unwrap_or(i64::MAX));
                self.builder.slice(&x, &[range])?
            }
            "Pad" | "pad" => self.pad(step)?,
            "UpSampling" => self.larger(step)?,
            "tile" => {
                let x = self.take(step, 0)?;
                let times = step.ints("reps")?.filter(|times| times.len() == x.rank());
                let times = times.ok_or("repeats another number of axes than it takes")?;
                let dims =
                    x.dims.iter().zip(&times).map(|(len, times)| *len * Length::Known(*times)).collect();
                let node = self.builder.node(Op::Tile).attribute("repeats", Attribute::Ints(times));
                self.builder.plain(node, &[&x], dims)?
            }
            _ => return Ok(None),
        }))
    }

    /// Lowers an operator with several results; `None` if it is another one.
    pub(crate) fn parts(&mut self, step: &Step) -> Read<Option<Vec<Val>>> {
        if !step.several() {
            return Ok(None);
        }
        let x = self.take(step, 0)?;
        let axis = x.resolve(step.int("axis", 1)?)?;
        let bounds = bounds(step, &x, axis)?;
        let is_squeezed = step.flag("squeeze_axis", false)?;
        let last = x.len(axis).known().unwrap_or(i64::MAX);
        let mut parts = Vec::new();
        for (begin, end) in bounds.iter().zip(bounds.iter().skip(1).chain([&last])) {
            let own = self.builder.slice(&x, &[Range::new(axis, *begin, *end)])?;
            parts.push(if is_squeezed { self.builder.squeeze(&own, &[axis])? } else { own });
        }
        Ok(Some(parts))
    }

    /// Gives a single number the axis that it has in MXNet.
    pub(crate) fn with_an_axis(&mut self, val: Val) -> Read<Val> {
        match val.rank() {
            0 => self.builder.reshape(&val, vec![Length::Known(1)]),
            _ => Ok(val),
        }
    }

    fn reshape(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let stated = match step.ints("shape")? {
            Some(stated) => stated,
            // Its old name, in which 0 left a length open.
            None => {
                let stated = step.ints("target_shape")?.ok_or("states no shape")?;
                stated.iter().map(|len| if *len == 0 { -1 } else { *len }).collect()
            }
        };
        let is_reversed = step.flag("reverse", false)?;
        let dims = match is_reversed {
            false => reshaped(&x.dims, &stated),
            true => {
                let mut own = x.dims.clone();
                let mut stated = stated.clone();
                own.reverse();
                stated.reverse();
                reshaped(&own, &stated).map(|mut dims| {
                    dims.reverse();
                    dims
                })
            }
        };
        let dims = dims.ok_or_else(|| format!("reshapes {} to {stated:?}", show(&x.dims)))?;
        self.builder.reshape(&x, dims)
    }

    fn slice(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let list = |key: &str| step.open_ints(key).map(Option::unwrap_or_default);
        let (begins, ends, steps) = (list("begin")?, list("end")?, list("step")?);
        let mut ranges = Vec::new();
        for axis in 0..begins.len().max(ends.len()).min(x.rank()) {
            let get = |all: &[Option<i64>]| all.get(axis).copied().flatten();
            let step = get(&steps).unwrap_or(1);
            let (first, last) = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
            let (begin, end) = (get(&begins).unwrap_or(first), get(&ends).unwrap_or(last));
            if (begin, end, step) != (0, i64::MAX, 1) {
                ranges.push(Range { axis, begin, end, step });
            }
        }
        self.builder.slice(&x, &ranges)
    }

    fn pad(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let widths = step.ints("pad_width")?.filter(|own| own.len() == x.rank().saturating_mul(2));
        let widths = widths.ok_or("adds to another number of axes than it takes")?;
        let pairs: Vec<[i64; 2]> = widths.as_chunks().0.to_vec();
        let dims = x
            .dims
            .iter()
            .zip(&pairs)
            .map(|(len, [before, after])| *len + Length::Known(before.saturating_add(*after)));
        let dims: Dims = dims.collect();
        let mode = match step.text("mode").unwrap_or_default() {
            "constant" => "constant",
            "edge" => "edge",
            "reflect" => "reflect",
            other => return Err(wrong("mode", other)),
        };
        let node = self.builder.node(Op::Pad).attribute("mode", Attribute::Text(mode.to_owned()));
        let mut node = node.attribute("pads", Builder::pads(&x, pairs.into_iter()));
        if mode == "constant" {
            node = node.attribute("value", Attribute::Float(step.float("constant_value", 0.0)?));
        }
        self.builder.plain(node, &[&x], dims)
    }

    fn larger(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let scale = step.int("scale", 1)?;
        let factor = u32::try_from(scale).ok().filter(|scale| *scale > 0 && x.rank() == 4);
        let factor = factor.ok_or_else(|| wrong("scale", &scale.to_string()))?;
        if step.text("sample_type") != Some("nearest") || step.inputs.len() != 1 {
            return Err(
                "takes a weighted mean of pixels, or several images, which is not supported".to_owned()
            );
        }
        let factor = f64::from(factor);
        let node = self.builder.node(Op::Resize).attribute("mode", Attribute::Text("nearest".into()));
        let node = node.attribute("scales", Attribute::Floats(vec![1.0, 1.0, factor, factor]));
        let node = node.attribute("coordinate_transformation_mode", Attribute::Text("asymmetric".into()));
        let node = node.attribute("nearest_mode", Attribute::Text("floor".into()));
        let times = Length::Known(scale);
        let dims = vec![x.len(0), x.len(1), x.len(2) * times, x.len(3) * times];
        self.builder.plain(node, &[&x], dims)
    }
}

/// Where the parts begin that a value is split into.
fn bounds(step: &Step, x: &Val, axis: usize) -> Read<Vec<i64>> {
    if let Some(stated) = step.ints("indices")? {
        return match stated.is_sorted() && stated.first() == Some(&0) {
            true => Ok(stated),
            false => Err(wrong("indices", &format!("{stated:?}"))),
        };
    }
    let count = step.int(if step.op == "_split_v2" { "sections" } else { "num_outputs" }, 0)?;
    let parts = usize::try_from(count).ok().filter(|parts| (1..=MAX_NODES).contains(parts));
    let len = x.len(axis).known().filter(|len| parts.is_some() && len % count == 0);
    let len = len.ok_or_else(|| format!("divides {} into {count} parts", show(&x.dims)))? / count;
    Ok((0..count).map(|part| part.saturating_mul(len)).collect())
}

fn permutation(stated: &[i64], rank: usize) -> Option<Vec<usize>> {
    let order: Vec<usize> = stated.iter().map(|axis| resolve(*axis, rank)).collect::<Option<_>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..rank).then_some(order)
}

/// The lengths of a reshaped value. 0 copies a length, −1 is what remains, −2 copies all that are left, −3 joins two,
/// and −4 splits one into the next two that are stated.
fn reshaped(dims: &[Length], stated: &[i64]) -> Option<Dims> {
    let mut made = Dims::new();
    let mut open = None;
    let (mut from, mut to) = (dims.iter().copied(), stated.iter().copied());
    while let Some(len) = to.next() {
        match len {
            0 => made.push(from.next()?),
            -1 => {
                from.next();
                (open.replace(made.len()).is_none()).then_some(())?;
                made.push(Length::Unknown);
            }
            -2 => made.extend(from.by_ref()),
            -3 => made.push(from.next()? * from.next()?),
            -4 => {
                let (whole, a, b) = (from.next()?, to.next()?, to.next()?);
                let part = |own: i64, other: i64| match own {
                    1.. => Some(Length::Known(own)),
                    -1 if other > 0 => Some(whole.floor_div(Length::Known(other))),
                    _ => None,
                };
                made.extend([part(a, b)?, part(b, a)?]);
            }
            1.. => {
                from.next();
                made.push(Length::Known(len));
            }
            _ => return None,
        }
    }
    if let Some(at) = open {
        let others: Dims =
            made.iter().enumerate().filter(|(own, _)| *own != at).map(|(_, len)| *len).collect();
        *made.get_mut(at)? = remaining(dims, &others);
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stated: &[i64]) -> Option<Vec<Option<i64>>> {
        let dims = [Length::free(0), Length::Known(3), Length::Known(4), Length::Known(5)];
        Some(reshaped(&dims, stated)?.into_iter().map(Length::known).collect())
    }

    #[test]
    fn special_lengths_of_a_reshaping_are_those_of_mxnet() {
        assert_eq!(of(&[0, -1]), Some(vec![None, Some(60)]));
        assert_eq!(of(&[0, -2]), Some(vec![None, Some(3), Some(4), Some(5)]));
        assert_eq!(of(&[0, -3, 0]), Some(vec![None, Some(12), Some(5)]));
        assert_eq!(of(&[0, 0, -4, 2, -1, 0]), Some(vec![None, Some(3), Some(2), Some(2), Some(5)]));
        assert_eq!(of(&[-2, 1, 1]).map(|dims| dims.len()), Some(6));
        assert_eq!(of(&[-1, -1]), None);
        assert_eq!(of(&[0, 0, 0, 0, 0]), None);
        assert_eq!(of(&[-5]), None);
    }
}
