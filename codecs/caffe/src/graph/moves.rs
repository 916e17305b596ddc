//! Layers that move elements.

use super::builder::{Builder, Val};
use super::layers::Made;
use super::net::Layer;
use crate::format::MOST_AXES;
use ckpt_api::{Attribute, Op};
use ckpt_graph::{int, ints};

impl Builder<'_> {
    pub(super) fn concat(&mut self, layer: &Layer<'_>, inputs: &[Val]) -> Made {
        let options = layer.options("concat_param");
        let first = inputs.first().ok_or("takes no value")?;
        let axis = first.axis(options.int("axis", options.int("concat_dim", 1)?)?)?;
        let mut dims = first.dims.clone();
        for other in inputs.iter().skip(1) {
            let fits = other.dims.len() == dims.len()
                && dims.iter().zip(&other.dims).enumerate().all(|(at, (own, len))| at == axis || own == len);
            let len = dims.get_mut(axis).zip(other.dims.get(axis)).filter(|_| fits);
            let (sum, len) = len.ok_or("joins values whose shapes do not fit")?;
            *sum = sum.saturating_add(*len);
        }
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        Ok(Val {
            name: self.nodes.push("", Op::Concat, &names, [("axis", Attribute::Int(int(axis)?))]),
            dims,
        })
    }

    /// Parts of a value, each of which is a top.
    pub(super) fn slice(&mut self, layer: &Layer<'_>, x: &Val) -> Result<(), String> {
        let options = layer.options("slice_param");
        let axis = x.axis(options.int("axis", options.int("slice_dim", 1)?)?)?;
        let len = *x.dims.get(axis).ok_or("takes a value without this axis")?;
        let count = layer.tops.len() as u64;
        let points: Result<Vec<u64>, _> =
            options.ints("slice_point")?.into_iter().map(u64::try_from).collect();
        let points = points.map_err(|_| "has a negative slice_point")?;
        let points = match (points.is_empty(), len.checked_div(count)) {
            (true, Some(part)) if part.saturating_mul(count) == len => {
                (1..count).map(|number| number * part).collect()
            }
            (false, _) if points.len() as u64 + 1 == count => points,
            _ => return Err(format!("cuts {len} elements into {count} parts")),
        };
        let mut start = 0;
        for (number, (top, end)) in layer.tops.iter().zip(points.into_iter().chain([len])).enumerate() {
            if end <= start || end > len {
                return Err("has slice points that do not rise".to_owned());
            }
            let name = self.part(&format!("part{number}"), &x.name, axis, [start, end])?;
            let mut dims = x.dims.clone();
            if let Some(own) = dims.get_mut(axis) {
                *own = end - start;
            }
            self.top(top, Val { name, dims });
            start = end;
        }
        Ok(())
    }

    fn part(&mut self, suffix: &str, value: &str, axis: usize, range: [u64; 2]) -> Result<String, String> {
        let [start, end] = range;
        let attributes = [("axes", ints(&[axis])?), ("starts", ints(&[start])?), ("ends", ints(&[end])?)];
        Ok(self.nodes.push(suffix, Op::Slice, &[value], attributes))
    }

    /// The part of the first value that is as large as the second one, from an axis on.
    pub(super) fn crop(&mut self, layer: &Layer<'_>, inputs: &[Val]) -> Made {
        let options = layer.options("crop_param");
        let [x, like] = inputs else { return Err("needs two values".to_owned()) };
        let axis = x.axis(options.int("axis", 2)?)?;
        let offsets = options.ints("offset")?;
        let (mut name, mut dims) = (x.name.clone(), x.dims.clone());
        for at in axis.max(1)..x.dims.len() {
            let place = at.saturating_sub(axis);
            let offset = match offsets[..] {
                [] => 0,
                [one] => one,
                _ => *offsets.get(place).ok_or("has too few offsets")?,
            };
            let lens = dims.get(at).copied().zip(like.dims.get(at).copied()).zip(u64::try_from(offset).ok());
            let ((len, wanted), offset) = lens.ok_or("has values whose shapes do not fit")?;
            let end = offset.saturating_add(wanted);
            if end > len {
                return Err(format!("needs {end} of {len} elements"));
            }
            if wanted != len {
                name = self.part(&format!("axis{at}"), &name, at, [offset, end])?;
                if let Some(own) = dims.get_mut(at) {
                    *own = wanted;
                }
            }
        }
        Ok(Val { name: self.nodes.push("", Op::Identity, &[&name], []), dims })
    }

    pub(super) fn flatten(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("flatten_param");
        let (start, end) = (x.axis(options.int("axis", 1)?)?, x.axis(options.int("end_axis", -1)?)?);
        if end < start {
            return Err("flattens no axis".to_owned());
        }
        let flat = x.product(start..end + 1)?;
        let (before, behind) =
            (x.dims.get(..start).unwrap_or_default(), x.dims.get(end + 1..).unwrap_or_default());
        let dims = [before, &[flat], behind].concat();
        if (start, behind.is_empty()) == (1, true) {
            return Ok(Val { name: self.nodes.push("", Op::Flatten, &[&x.name], []), dims });
        }
        self.shaped(x, dims)
    }

    /// The same numbers in another shape; the batch stays free if it is the first axis of both.
    fn shaped(&mut self, x: &Val, dims: Vec<u64>) -> Made {
        let mut shape = dims.clone();
        if let (Some(own), true) = (shape.first_mut(), dims.first() == x.dims.first()) {
            *own = 0;
        }
        Ok(Val { name: self.nodes.reshaped("", &x.name, &shape)?, dims })
    }

    pub(super) fn permute(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let mut order = Vec::with_capacity(x.dims.len());
        for axis in layer.options("permute_param").ints("order")? {
            let axis = x.axis(axis)?;
            if order.contains(&axis) {
                return Err("names an axis twice".to_owned());
            }
            order.push(axis);
        }
        let rest: Vec<usize> = (0..x.dims.len()).filter(|axis| !order.contains(axis)).collect();
        order.extend(rest);
        let dims = order.iter().filter_map(|axis| x.dims.get(*axis).copied()).collect();
        let perm = order.iter().map(|axis| i64::try_from(*axis).unwrap_or(0)).collect();
        Ok(Val {
            name: self.nodes.push("", Op::Transpose, &[&x.name], [("perm", Attribute::Ints(perm))]),
            dims,
        })
    }

    /// Another shape for some axes: 0 keeps a length, and one −1 is what remains.
    pub(super) fn reshape(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("reshape_param");
        let stated = options.message("shape").ints("dim")?;
        let rank = x.dims.len();
        let start = match options.int("axis", 0)? {
            axis if axis >= 0 && usize::try_from(axis) == Ok(rank) => rank,
            axis => x.axis(axis)?,
        };
        let end = match usize::try_from(options.int("num_axes", -1)?) {
            Ok(count) => start.saturating_add(count),
            Err(_) => rank,
        };
        let within = x.dims.get(start..end).ok_or("names axes that its value does not have")?;
        let mut lens = Vec::with_capacity(stated.len());
        for (at, len) in stated.iter().enumerate() {
            lens.push(match *len {
                0 => Some(*within.get(at).ok_or("keeps an axis that its value does not have")?),
                -1 => None,
                own => Some(u64::try_from(own).map_err(|_| format!("has dim: {own}"))?),
            });
        }
        let known = lens.iter().flatten().try_fold(1u64, |product, len| product.checked_mul(*len));
        let known = known.filter(|known| *known > 0).ok_or("has a shape that no value has")?;
        let total = x.product(start..end)?;
        let rest = total / known;
        let open = lens.iter().filter(|len| len.is_none()).count();
        if open > 1 || !total.is_multiple_of(known) || (open == 0 && rest != 1) {
            return Err(format!("gives {total} numbers the shape {stated:?}"));
        }
        let own: Vec<u64> = lens.into_iter().map(|len| len.unwrap_or(rest)).collect();
        let (before, behind) =
            (x.dims.get(..start).unwrap_or_default(), x.dims.get(end..).unwrap_or_default());
        let dims = [before, &own, behind].concat();
        match dims.len() {
            0..=MOST_AXES => self.shaped(x, dims),
            many => Err(format!("makes a value of {many} axes, and Caffe has at most {MOST_AXES}")),
        }
    }
}
