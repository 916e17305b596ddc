//! Operations that move elements.

use crate::json::Operation;
use crate::lowering::{Known, Lowering, Val};
use crate::parameter::Read;
use ckpt_api::{Attribute, Op};
use ckpt_graph::builder::MAX_NODES;
use ckpt_graph::shape::{remaining, resolve, resolve_all, show};
use ckpt_graph::{Builder, Dims, Length, Range};

impl Lowering<'_> {
    /// Lowers an operation that moves elements; `None` if it is another one.
    pub(crate) fn moved(&mut self, own: &Operation<'_>) -> Read<Option<Val>> {
        Ok(Some(match own.name {
            "flatten" | "flatten_" => self.flatten(own)?,
            "reshape" | "reshape_" => {
                let x = self.take(own, 0)?;
                let stated = self.ints(own, 1)?;
                let dims = reshaped(&x.dims, &stated);
                let dims = dims.ok_or_else(|| format!("reshapes {} to {stated:?}", show(&x.dims)))?;
                self.builder.reshape(&x, dims)?
            }
            "transpose" => {
                let x = self.take(own, 0)?;
                let stated = own.ints("perm")?;
                let order = resolve_all(&stated, x.rank()).filter(|order| {
                    let mut sorted = order.clone();
                    sorted.sort_unstable();
                    sorted.into_iter().eq(0..x.rank())
                });
                self.builder.transpose(&x, &order.ok_or_else(|| format!("has the order {stated:?}"))?)?
            }
            "concat" => {
                let all = self.values(own)?;
                let first = all.first().ok_or("joins no values")?;
                let axis = first.resolve(self.int(own, 1)?)?;
                self.builder.join(axis, &all)?
            }
            "stack" => {
                let all = self.values(own)?;
                let rank = all.first().map_or(0, Val::rank).saturating_add(1);
                let axis = resolve(own.int("axis")?, rank).ok_or("names an axis that does not exist")?;
                let all =
                    all.iter().map(|val| self.builder.unsqueeze(val, &[axis])).collect::<Read<Vec<_>>>()?;
                self.builder.join(axis, &all)?
            }
            "squeeze" | "squeeze_" => {
                let x = self.take(own, 0)?;
                let axes = self.removed(own, &x)?;
                self.builder.squeeze(&x, &axes)?
            }
            "unsqueeze" | "unsqueeze_" => {
                let x = self.take(own, 0)?;
                let count = self.ints(own, 1)?.len();
                let axes = self.axes(own, x.rank().saturating_add(count))?;
                self.builder.unsqueeze(&x, &axes)?
            }
            "slice" | "strided_slice" => self.slice(own)?,
            "pad3d" => self.pad(own)?,
            "nearest_interp" | "bilinear_interp" => self.resize(own)?,
            "pixel_shuffle" => self.shuffle(own)?,
            _ => return Ok(None),
        }))
    }

    /// Lowers an operation with several results; `None` if it is another one.
    pub(crate) fn parts(&mut self, own: &Operation<'_>) -> Read<Option<Vec<Val>>> {
        let axis = match own.name {
            "split_with_num" => self.int(own, 1)?,
            "split" => self.int(own, 2)?,
            _ => return Ok(None),
        };
        let x = self.take(own, 0)?;
        let axis = x.resolve(axis)?;
        let len = x.len(axis).known();
        let lens = match own.name {
            "split" => parts(self.many_ints(own, 1)?, len)?,
            _ => {
                let count = own.int("num")?;
                let len = len.filter(|len| (1..=*len).contains(&count) && len % count == 0);
                let len = len.ok_or_else(|| format!("divides {} into {count} parts", show(&x.dims)))?;
                let times = usize::try_from(count).ok().filter(|times| *times <= MAX_NODES);
                vec![len / count; times.ok_or("has too many parts")?]
            }
        };
        let (mut parts, mut at) = (Vec::new(), 0i64);
        for len in lens {
            let end = at.saturating_add(len);
            parts.push(self.builder.slice(&x, &[Range::new(axis, at, end)])?);
            at = end;
        }
        Ok(Some(parts))
    }

    /// Whether an operation only gives a vector of the checkpoint the axes of images.
    pub(crate) fn reshaped_parameter(&mut self, own: &Operation<'_>) -> Read<bool> {
        if !matches!(own.name, "reshape" | "reshape_") {
            return Ok(false);
        }
        let Some((id, tensor)) = self.parameter(own, 0) else { return Ok(false) };
        let (rank, len) = (tensor.shape.rank(), Length::from(tensor.shape.elements()));
        let stated = self.ints(own, 1)?;
        let is_per_channel = matches!(&stated[..], [1, _, behind @ ..] if behind.iter().all(|len| *len == 1));
        if rank != 1 || !is_per_channel {
            return Ok(false);
        }
        let mut dims = vec![Length::Known(1); stated.len()];
        if let Some(channels) = dims.get_mut(1) {
            *channels = len;
        }
        self.remember(own, Known::PerChannel(id, dims)).map(|()| true)
    }

    /// The values of the list that input 0 is.
    pub(crate) fn values(&mut self, own: &Operation<'_>) -> Read<Vec<Val>> {
        let all = self.list(own, 0)?;
        all.iter().map(|number| self.value(*number)).collect()
    }

    /// The axes that input 1 names, of a value of `rank`.
    fn axes(&self, own: &Operation<'_>, rank: usize) -> Read<Vec<usize>> {
        let axes = self.ints(own, 1)?;
        resolve_all(&axes, rank).ok_or_else(|| format!("names axes {axes:?} of a value of {rank}"))
    }

    /// The axes of length 1 among those that input 1 names; if it names none, all of length 1.
    fn removed(&self, own: &Operation<'_>, x: &Val) -> Read<Vec<usize>> {
        let stated = self.axes(own, x.rank())?;
        let is_one = |axis: &usize| x.len(*axis) == Length::Known(1);
        match stated.iter().any(|axis| x.len(*axis).known().is_none()) {
            _ if stated.is_empty() => Ok((0..x.rank()).filter(is_one).collect()),
            true => Err(format!(
                "removes axes {stated:?} of {}, of which one may be longer than 1",
                show(&x.dims)
            )),
            false => Ok(stated.into_iter().filter(is_one).collect()),
        }
    }

    fn flatten(&mut self, own: &Operation<'_>) -> Read<Val> {
        let x = self.take(own, 0)?;
        let (start, stop) = (x.resolve(own.int("start_axis")?)?, x.resolve(own.int("stop_axis")?)?);
        if start > stop {
            return Err(format!("joins the axes {start} to {stop}"));
        }
        let (before, rest) = x.dims.split_at(start);
        let (joined, behind) = rest.split_at(stop.saturating_sub(start).saturating_add(1));
        let dims = [before, &[joined.iter().product::<Length>()], behind].concat();
        if start == 1 && behind.is_empty() && x.rank() > 2 {
            return self.builder.plain(self.builder.node(Op::Flatten), &[&x], dims);
        }
        self.builder.reshape(&x, dims)
    }

    fn slice(&mut self, own: &Operation<'_>) -> Read<Val> {
        let x = self.take(own, 0)?;
        let axes = own.ints("axes")?;
        let all = resolve_all(&axes, x.rank()).ok_or_else(|| format!("names axes {axes:?}"))?;
        let (begins, ends) = (self.ints(own, 1)?, self.ints(own, 2)?);
        let steps = if own.name == "slice" { vec![1; all.len()] } else { self.ints(own, 3)? };
        if [begins.len(), ends.len(), steps.len()] != [all.len(); 3] || steps.contains(&0) {
            return Err("has other numbers of ends than of axes".to_owned());
        }
        // Ends of 32 bits stand for the end of the axis.
        let wide = |end: i64, step: i64| match end {
            2_147_483_647.. => i64::MAX,
            ..=-2_147_483_648 if step < 0 => i64::MIN,
            other => other,
        };
        let ranges =
            all.iter().zip(&begins).zip(ends.iter().zip(&steps)).map(|((axis, begin), (end, step))| Range {
                axis: *axis,
                begin: *begin,
                end: wide(*end, *step),
                step: *step,
            });
        let made = self.builder.slice(&x, &ranges.collect::<Vec<_>>())?;
        match own.has("decrease_axis") {
            true => {
                let removed = own.ints("decrease_axis")?;
                let removed = resolve_all(&removed, x.rank()).ok_or("removes an axis that does not exist")?;
                self.builder.squeeze(&made, &removed)
            }
            false => Ok(made),
        }
    }

    /// Pads the sides of images; the last side comes first in the list.
    fn pad(&mut self, own: &Operation<'_>) -> Read<Val> {
        own.has_channels_first()?;
        let x = self.take(own, 0)?;
        let stated = self.ints(own, 1)?;
        let sides = x.rank().saturating_sub(2);
        let is_known = matches!(own.text("data_format"), Some("NCDHW" | "NCHW" | "NCL"));
        if stated.len() != sides.saturating_mul(2) || !is_known {
            return Err(format!("adds {stated:?} to {}", show(&x.dims)));
        }
        let mut pairs: Vec<[i64; 2]> = stated.as_chunks().0.iter().rev().copied().collect();
        pairs.splice(0..0, [[0, 0], [0, 0]]);
        let lens = x.dims.iter().zip(&pairs);
        let dims: Dims =
            lens.map(|(len, [before, after])| *len + Length::Known(before.saturating_add(*after))).collect();
        let mode = match own.text("mode").unwrap_or_default() {
            "constant" => "constant",
            "reflect" => "reflect",
            "replicate" => "edge",
            "circular" => "wrap",
            other => return Err(format!("pads by '{}'", other.escape_debug())),
        };
        let node = self.builder.node(Op::Pad).attribute("mode", Attribute::Text(mode.to_owned()));
        let mut node = node.attribute("pads", Builder::pads(&x, pairs.into_iter()));
        if mode == "constant" {
            node = node.attribute("value", Attribute::Float(own.float("pad_value")?));
        }
        self.builder.plain(node, &[&x], dims)
    }

    fn resize(&mut self, own: &Operation<'_>) -> Read<Val> {
        own.has_channels_first()?;
        let x = self.take(own, 0)?;
        if x.rank() != 4 || (1..4).any(|index| own.input(index).is_some()) {
            return Err("makes an image whose size depends on the input".to_owned());
        }
        let is_nearest = own.name == "nearest_interp";
        let coordinates = match (own.flag("align_corners"), own.int("align_mode")?) {
            (true, _) => "align_corners",
            (false, 0) if !is_nearest => "half_pixel",
            (false, _) => "asymmetric",
        };
        let mode = if is_nearest { "nearest" } else { "linear" };
        let mut node = self.builder.node(Op::Resize).attribute("mode", Attribute::Text(mode.into()));
        node = node.attribute("coordinate_transformation_mode", Attribute::Text(coordinates.into()));
        if is_nearest {
            let nearest = if coordinates == "align_corners" { "round_prefer_ceil" } else { "floor" };
            node = node.attribute("nearest_mode", Attribute::Text(nearest.into()));
        }
        let mut dims = x.dims.clone();
        let sizes = [own.int("out_h")?, own.int("out_w")?];
        if sizes.iter().all(|size| *size > 0) {
            node = node.attribute("sizes", Attribute::Ints([&[-1, -1], &sizes[..]].concat()));
            dims.iter_mut().skip(2).zip(sizes).for_each(|(len, size)| *len = Length::Known(size));
            return self.builder.plain(node, &[&x], dims);
        }
        let scales = own.floats("scale")?;
        let [rows, columns] = scales[..] else { return Err(format!("has the scales {scales:?}")) };
        node = node.attribute("scales", Attribute::Floats(vec![1.0, 1.0, rows, columns]));
        for (len, scale) in dims.iter_mut().skip(2).zip([rows, columns]) {
            let times: Option<i64> = format!("{scale}").parse().ok();
            *len = times.map_or(Length::Unknown, |times| *len * Length::Known(times));
        }
        self.builder.plain(node, &[&x], dims)
    }

    fn shuffle(&mut self, own: &Operation<'_>) -> Read<Val> {
        own.has_channels_first()?;
        let x = self.take(own, 0)?;
        let factor = own.int("upscale_factor")?;
        if factor < 1 || x.rank() != 4 {
            return Err(format!("divides the channels of {} by the square of {factor}", show(&x.dims)));
        }
        let (times, area) = (Length::Known(factor), Length::Known(factor.saturating_mul(factor)));
        let dims = vec![x.len(0), x.len(1).floor_div(area), x.len(2) * times, x.len(3) * times];
        let node = self.builder.node(Op::DepthToSpace).attribute("blocksize", Attribute::Int(factor));
        let node = node.attribute("mode", Attribute::Text("CRD".into()));
        self.builder.plain(node, &[&x], dims)
    }
}

/// The lengths of the parts of an axis: −1 is what remains.
fn parts(mut stated: Vec<i64>, len: Option<i64>) -> Read<Vec<i64>> {
    let sum = stated.iter().filter(|own| **own >= 0).fold(0i64, |sum, own| sum.saturating_add(*own));
    let mut open = stated.iter_mut().filter(|own| **own < 0);
    match (open.next(), open.next(), len) {
        (None, _, _) => Ok(stated),
        (Some(part), None, Some(len)) if *part == -1 && sum <= len => {
            *part = len.saturating_sub(sum);
            Ok(stated)
        }
        _ => Err("divides an axis into parts whose lengths do not follow from its own".to_owned()),
    }
}

/// The lengths of a reshaped value: 0 copies a length, and −1 is what remains.
fn reshaped(dims: &[Length], stated: &[i64]) -> Option<Dims> {
    let mut made = Dims::new();
    let mut open = None;
    for (at, len) in stated.iter().enumerate() {
        made.push(match len {
            0 => dims.get(at).copied()?,
            -1 => open.replace(at).is_none().then_some(Length::Unknown)?,
            1.. => Length::Known(*len),
            _ => return None,
        });
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

    #[test]
    fn one_part_of_an_axis_is_what_remains() {
        assert_eq!(parts(vec![1, 3], None), Ok(vec![1, 3]));
        assert_eq!(parts(vec![1, -1, 2], Some(8)), Ok(vec![1, 5, 2]));
        assert!(parts(vec![1, -1], None).is_err());
        assert!(parts(vec![-1, -1], Some(8)).is_err());
        assert!(parts(vec![9, -1], Some(8)).is_err());
        assert!(parts(vec![-2], Some(8)).is_err());
    }

    #[test]
    fn a_reshaping_copies_lengths_and_infers_one() {
        let dims = [Length::free(0), Length::Known(3), Length::Known(4)];
        let known = |stated: &[i64]| {
            reshaped(&dims, stated).map(|dims| dims.into_iter().map(Length::known).collect::<Vec<_>>())
        };
        assert_eq!(known(&[0, -1]), Some(vec![None, Some(12)]));
        assert_eq!(known(&[-1, 12]), Some(vec![None, Some(12)]));
        assert_eq!(known(&[0, 3, 2, 2]), Some(vec![None, Some(3), Some(2), Some(2)]));
        assert_eq!(known(&[-1, -1]), None);
        assert_eq!(known(&[0, 0, 0, 0]), None);
    }
}
