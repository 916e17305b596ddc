//! Images that are read or written at places that the graph computes.

use super::super::values::{Attributes, Read};
use super::parts::{Parts, product};
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::resolve;

/// How places outside an image are read.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

impl Parts<'_, '_> {
    /// Images at the places of a grid, whose coordinates go from −1 to 1, the last axis first.
    pub(super) fn sample(&mut self) -> Read<()> {
        let (x, grid) = (self.input(0)?, self.input(1)?);
        let (lens, places) = (self.lens(&x)?, self.lens(&grid)?);
        let outside = match self.node.text("padding_mode").unwrap_or("zeros") {
            "zeros" => Outside::Zeros,
            "border" => Outside::Border,
            "reflection" => Outside::Reflection,
            other => return Err(format!("has the unknown padding_mode '{}'", other.escape_debug())),
        };
        let mode = self.node.text("mode").unwrap_or("linear").to_owned();
        let is_aligned = self.node.int("align_corners").unwrap_or(0) != 0;
        let ([batch, channels, sides @ ..], [_, made @ .., _]) = (&lens[..], &places[..]) else {
            return Err("takes no images".to_owned());
        };
        if sides.is_empty() || sides.len() > 3 || made.len() != sides.len() {
            return Err(format!("takes images of {} sides and a grid of {}", sides.len(), made.len()));
        }
        if mode == "cubic" && matches!(outside, Outside::Border) && !is_aligned {
            return Err(
                "is cubic with a border between whose places and its edge there are others".to_owned()
            );
        }
        let count = product(made)?;
        let mut axes = Vec::with_capacity(sides.len());
        for (axis, side) in sides.iter().enumerate() {
            let at = self.integer(sides.len() as i64 - 1 - axis as i64);
            let own = self.gather(&grid, &at, -1);
            let own = self.reshape(&own, &[*batch, 1, count]);
            let place = self.denormalized(&own, *side, is_aligned);
            axes.push(self.taps(&place, *side, &mode, (outside, is_aligned))?);
        }
        let flat = self.reshape(&x, &[*batch, *channels, product(sides)?]);
        let shape = [*batch, *channels, count];
        // Every combination of a tap of each axis.
        let mut sum = None;
        let total: usize = axes.iter().map(Vec::len).product();
        for number in 0..total {
            let (mut place, mut weight, mut rest): (Option<String>, Option<String>, usize) =
                (None, None, number);
            for (taps, side) in axes.iter().zip(sides) {
                let (own, by) = &taps[rest % taps.len()];
                rest /= taps.len();
                place = Some(match place {
                    None => own.clone(),
                    Some(before) => {
                        let side = self.integer(*side);
                        let scaled = self.mul(&before, &side);
                        self.add(&scaled, own)
                    }
                });
                weight = match (weight, by) {
                    (Some(before), Some(by)) => Some(self.mul(&before, by)),
                    (before, by) => before.or_else(|| by.clone()),
                };
            }
            let place = self.expand(&place.ok_or("takes no images")?, &shape);
            let attributes = Attributes::new().int("axis", 2);
            let mut value = self.with(Op::GatherElements, &[&flat, &place], attributes);
            if let Some(weight) = weight {
                value = self.mul(&value, &weight);
            }
            sum = self.both(sum, Some(value));
        }
        let shape = [&[*batch, *channels], made].concat();
        let value = self.reshape(&sum.ok_or("takes no images")?, &shape);
        self.finish(0, &value);
        Ok(())
    }

    /// A coordinate from −1 to 1 as a place of an axis.
    fn denormalized(&mut self, own: &str, side: i64, is_aligned: bool) -> String {
        let (one, two) = (self.number(1.0), self.number(2.0));
        let raised = self.add(own, &one);
        if is_aligned {
            let (half, span) = (self.div(&raised, &two), self.number((side - 1) as f64));
            return self.mul(&half, &span);
        }
        let span = self.number(side as f64);
        let scaled = self.mul(&raised, &span);
        let lowered = self.sub(&scaled, &one);
        self.div(&lowered, &two)
    }

    /// The elements of an axis that a place takes, and their weights; without weights for the nearest one.
    fn taps(
        &mut self,
        place: &str,
        side: i64,
        mode: &str,
        how: (Outside, bool),
    ) -> Read<Vec<(String, Option<String>)>> {
        let mut place = place.to_owned();
        if mode == "nearest" {
            place = self.apply(Op::Round, &[&place]);
        }
        place = self.brought_inside(&place, side, how);
        if mode == "nearest" {
            return Ok(vec![self.element(&place, side, None, how)]);
        }
        let floor = self.apply(Op::Floor, &[&place]);
        let part = self.sub(&place, &floor);
        let one = self.number(1.0);
        let weights = match mode {
            "linear" | "bilinear" => vec![(0.0, self.sub(&one, &part)), (1.0, part)],
            "cubic" | "bicubic" => self.cubic(&part),
            other => return Err(format!("has the unknown mode '{}'", other.escape_debug())),
        };
        let mut taps = Vec::with_capacity(weights.len());
        for (distance, weight) in weights {
            let distance = self.number(distance);
            let own = self.add(&floor, &distance);
            taps.push(self.element(&own, side, Some(weight), how));
        }
        Ok(taps)
    }

    /// A whole place as an index, and its weight, which is 0 outside the image.
    fn element(
        &mut self,
        place: &str,
        side: i64,
        weight: Option<String>,
        how: (Outside, bool),
    ) -> (String, Option<String>) {
        let last = (side - 1) as f64;
        let mut weight = weight;
        let place = match how.0 {
            Outside::Reflection => self.brought_inside(place, side, how),
            _ => place.to_owned(),
        };
        if how.0 == Outside::Zeros {
            let (nothing, last) = (self.number(0.0), self.number(last));
            let is_above = self.apply(Op::LessOrEqual, &[&nothing, &place]);
            let is_below = self.apply(Op::LessOrEqual, &[&place, &last]);
            let is_inside = self.apply(Op::And, &[&is_above, &is_below]);
            let is_inside = self.cast(&is_inside, "float");
            weight = Some(match weight {
                Some(weight) => self.mul(&weight, &is_inside),
                None => is_inside,
            });
        }
        let bounded = self.clip(&place, 0.0, last);
        (self.cast(&bounded, "int"), weight)
    }

    /// A place outside the image, moved to its border or mirrored at it.
    fn brought_inside(&mut self, place: &str, side: i64, (outside, is_aligned): (Outside, bool)) -> String {
        match outside {
            Outside::Zeros => place.to_owned(),
            Outside::Border => self.clip(place, 0.0, (side - 1) as f64),
            Outside::Reflection => {
                let (least, span) = if is_aligned { (0.0, (side - 1) as f64) } else { (-0.5, side as f64) };
                if span == 0.0 {
                    return self.clip(place, 0.0, 0.0);
                }
                // Within two spans, the second one goes back.
                let (least, span, two) = (self.number(least), self.number(span), self.number(2.0 * span));
                let moved = self.sub(place, &least);
                let distance = self.apply(Op::Abs, &[&moved]);
                let ratio = self.div(&distance, &two);
                let whole = self.apply(Op::Floor, &[&ratio]);
                let periods = self.mul(&whole, &two);
                let rest = self.sub(&distance, &periods);
                let back = self.sub(&two, &rest);
                let is_forth = self.apply(Op::LessOrEqual, &[&rest, &span]);
                let own = self.choose(&is_forth, &rest, &back);
                self.add(&own, &least)
            }
        }
    }

    /// The weights of the four elements around a place, by cubic convolution with −0.75.
    fn cubic(&mut self, part: &str) -> Vec<(f64, String)> {
        let a = -0.75;
        // Polynomials of the distance from an element: near, and far.
        let near = [1.0, 0.0, -(a + 3.0), a + 2.0];
        let far = [-4.0 * a, 8.0 * a, -5.0 * a, a];
        let one = self.number(1.0);
        let rest = self.sub(&one, part);
        let mut weights = Vec::with_capacity(4);
        for (distance, from, beyond) in
            [(-1.0, part, 1.0), (0.0, part, 0.0), (1.0, &rest, 0.0), (2.0, &rest, 1.0)]
        {
            let beyond = self.number(beyond);
            let own = self.add(from, &beyond);
            let factors = if distance == 0.0 || distance == 1.0 { near } else { far };
            let mut value = self.number(factors[3]);
            for factor in factors.iter().rev().skip(1) {
                let (product, factor) = (self.mul(&value, &own), self.number(*factor));
                value = self.add(&product, &factor);
            }
            weights.push((distance, value));
        }
        weights
    }

    /// The places of images that a linear map takes: the map of each image, and their shape.
    pub(super) fn affine_grid(&mut self) -> Read<()> {
        let theta = self.input(0)?;
        let shape = self.reader.list(self.node, 1, "size")?.ok_or("lacks its size")?;
        let sides = shape.get(2..).unwrap_or_default();
        if !matches!(sides.len(), 2 | 3) || sides.iter().any(|side| *side < 1) {
            return Err("has a size of neither images nor volumes".to_owned());
        }
        let is_aligned = self.node.int("align_corners").unwrap_or(0) != 0;
        let count = product(sides)?;
        // Coordinates of every place, the last axis first, and 1.
        let mut values = Vec::with_capacity(count as usize * (sides.len() + 1));
        for number in 0..count {
            let mut rest = number;
            for side in sides.iter().rev() {
                let place = (rest % side) as f64;
                rest /= side;
                let side = *side as f64;
                values.push(if is_aligned {
                    -1.0 + place * 2.0 / (side - 1.0)
                } else {
                    (2.0 * place + 1.0) / side - 1.0
                });
            }
            values.push(1.0);
        }
        if values.iter().any(|value| value.is_nan()) {
            return Err("aligns the corners of a side of one place".to_owned());
        }
        let width = sides.len() as i64;
        let places = self.numbers(values, &[count, width + 1]);
        let turned = self.transpose(&theta, &[0, 2, 1]);
        let mapped = self.apply(Op::MatMul, &[&places, &turned]);
        let value = self.reshape(&mapped, &[&[-1], sides, &[width]].concat());
        self.finish(0, &value);
        Ok(())
    }

    /// Columns of blocks as images, in which overlapping ones add up.
    pub(super) fn columns_to_images(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let list = |parts: &Self, at: usize, name: &str| -> Read<Vec<i64>> {
            parts.reader.list(parts.node, at, name)?.ok_or_else(|| format!("lacks its {name}"))
        };
        let (sides, block) = (list(self, 1, "image_shape")?, list(self, 2, "block_shape")?);
        let rank = sides.len();
        let own = |name: &str, count: usize, default: i64, least: i64| -> Read<Vec<i64>> {
            let values = self.node.ints(name).map_or_else(|| vec![default; count], <[i64]>::to_vec);
            let fits = values.len() == count && values.iter().all(|value| (least..1 << 20).contains(value));
            if fits { Ok(values) } else { Err(format!("has {name} that do not fit its image")) }
        };
        let (strides, dilations) = (own("strides", rank, 1, 1)?, own("dilations", rank, 1, 1)?);
        let pads = own("pads", rank * 2, 0, 0)?;
        product(&sides)?;
        if block.len() != rank || sides.iter().chain(&block).any(|side| *side < 1) {
            return Err("has blocks that do not fit its image".to_owned());
        }
        let (batch, columns) = (self.len(&x, 0)?, self.len(&x, 1)?);
        let volume = product(&block)?;
        let channels = columns.checked_div(volume).filter(|channels| channels * volume == columns);
        let channels = channels.ok_or("has columns that are no blocks")?;
        let padded: Vec<i64> = (0..rank).map(|axis| sides[axis] + pads[axis] + pads[axis + rank]).collect();
        let counts: Vec<i64> = (0..rank)
            .map(|axis| {
                (padded[axis] - dilations[axis].saturating_mul(block[axis] - 1) - 1) / strides[axis] + 1
            })
            .collect();
        if counts.iter().any(|count| *count < 1) {
            return Err("has blocks that do not fit its image".to_owned());
        }
        let (blocks, places) = (product(&counts)?, product(&padded)?);
        let total = product(&[volume, blocks])?;
        let mut indices = Vec::with_capacity(total as usize);
        for number in 0..total {
            let (mut within, mut which) = (number / blocks, number % blocks);
            let (mut place, mut step) = (0, 1);
            for axis in (0..rank).rev() {
                let (tap, at) = (within % block[axis], which % counts[axis]);
                (within, which) = (within / block[axis], which / counts[axis]);
                place += (at * strides[axis] + tap * dilations[axis]) * step;
                step *= padded[axis];
            }
            indices.push(place);
        }
        let images = product(&[batch, channels])?;
        let flat = self.reshape(&x, &[images, total]);
        let indices = self.integers(indices, &[1, total]);
        let indices = self.expand(&indices, &[images, total]);
        let nothing = self.number(0.0);
        let empty = self.expand(&nothing, &[images, places]);
        let attributes =
            Attributes::new().int("axis", 1).with("reduction", Attribute::Text("add".to_owned()));
        let made = self.with(Op::ScatterElements, &[&empty, &indices, &flat], attributes);
        let mut value = self.reshape(&made, &[&[batch, channels], &padded[..]].concat());
        for (axis, side) in sides.iter().enumerate() {
            if padded[axis] != *side {
                value = self.slice(&value, axis as i64 + 2, pads[axis], pads[axis] + side);
            }
        }
        self.finish(0, &value);
        Ok(())
    }

    /// The elements that a pooling chose, at their places, and 0 elsewhere.
    pub(super) fn unpool(&mut self) -> Read<()> {
        let (x, places) = (self.input(0)?, self.input(1)?);
        let lens = self.lens(&x)?;
        let sides = lens.len().checked_sub(2).ok_or("takes no images")?;
        let own = |name: &str, count: usize, default: i64| -> Read<Vec<i64>> {
            let values = self.node.ints(name).map_or_else(|| vec![default; count], <[i64]>::to_vec);
            let fits = values.len() == count && values.iter().all(|value| (0..1 << 20).contains(value));
            if fits { Ok(values) } else { Err(format!("has {name} that do not fit its image")) }
        };
        let (kernel, strides) = (own("kernel_shape", sides, 1)?, own("strides", sides, 1)?);
        let pads = own("pads", sides * 2, 0)?;
        product(&lens)?;
        let mut inner = lens.clone();
        for axis in 0..sides {
            inner[axis + 2] =
                (lens[axis + 2] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + sides];
        }
        let shape = match self.given(2) {
            Some(_) => self.reader.list(self.node, 2, "output_shape")?.ok_or("lacks its output_shape")?,
            None => inner.clone(),
        };
        if shape.len() != inner.len() {
            return Err("has an output_shape of another rank".to_owned());
        }
        let (count, total) = (product(&lens)?, product(&inner)?);
        let (flat, places) = (self.reshape(&x, &[count]), self.reshape(&places, &[count]));
        let nothing = self.number(0.0);
        let empty = self.expand(&nothing, &[total]);
        let made =
            self.with(Op::ScatterElements, &[&empty, &places, &flat], Attributes::new().int("axis", 0));
        let mut value = self.reshape(&made, &inner);
        if shape != inner {
            let ends: Vec<i64> =
                shape.iter().zip(&inner).map(|(wanted, own)| wanted.saturating_sub(*own)).collect();
            let pads = [vec![0; shape.len()], ends].concat();
            let mode = Attribute::Text("constant".to_owned());
            value = self.with(Op::Pad, &[&value], Attributes::new().ints("pads", pads).with("mode", mode));
        }
        self.finish(0, &value);
        Ok(())
    }

    /// Rows of a cache, replaced from a place of each example on.
    pub(super) fn write_cache(&mut self) -> Read<()> {
        let (cache, update) = (self.input(0)?, self.input(1)?);
        let (lens, own) = (self.lens(&cache)?, self.lens(&update)?);
        let axis = resolve(self.node.int("axis").unwrap_or(-2), lens.len());
        let axis = axis.filter(|axis| *axis > 0 && own.len() == lens.len());
        let axis = axis.ok_or("has an axis that does not exist")?;
        let mut place = self.count(own[axis], axis, own.len())?;
        if let Some(first) = self.optional(2)? {
            let mut shape = vec![1; own.len()];
            shape[0] = -1;
            let first = self.reshape(&first, &shape);
            place = self.add(&place, &first);
        }
        if self.node.text("mode") == Some("circular") {
            let len = self.integer(lens[axis]);
            place = self.apply(Op::Mod, &[&place, &len]);
        }
        let place = self.expand(&place, &own);
        let attributes = Attributes::new().int("axis", axis as i64);
        let value = self.with(Op::ScatterElements, &[&cache, &place, &update], attributes);
        self.reader.set_shape(&value, Some(lens.iter().map(|len| ckpt_graph::Length::Known(*len)).collect()));
        self.finish(0, &value);
        Ok(())
    }
}
