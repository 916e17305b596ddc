//! Operators that move elements.

use super::{Builder, Reason, Tag, Val, int, ints};
use crate::length::Length;
use crate::order::{Layout, to_first, to_last};
use crate::shape::{Dims, joined, show, sliced, unsqueezed};
use ckpt_api::{Attribute, Op};

/// A range of an axis in the source's order. Negative ends count from the end of the axis.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The axis.
    pub axis: usize,
    /// The first index.
    pub begin: i64,
    /// The index before which the range ends.
    pub end: i64,
    /// From one index to the next.
    pub step: i64,
}

impl Range {
    /// Returns the indices of an axis from one up to another.
    pub fn new(axis: usize, begin: i64, end: i64) -> Range {
        Range { axis, begin, end, step: 1 }
    }

    /// Returns one index of an axis, which counts from the end if it is negative.
    pub fn index(axis: usize, at: i64) -> Range {
        Range::new(axis, at, if at == -1 { i64::MAX } else { at.saturating_add(1) })
    }

    /// Returns the whole axis, backwards.
    pub fn backwards(axis: usize) -> Range {
        Range { axis, begin: -1, end: i64::MIN, step: -1 }
    }
}

impl<K: Tag> Builder<K> {
    /// Reshapes a value. A length that depends on the input must be that of the same axis, but for one.
    ///
    /// # Errors
    /// As [`Builder::plain`], and if several lengths would have to be inferred.
    pub fn reshape(&mut self, x: &Val<K>, dims: Dims) -> Result<Val<K>, Reason> {
        if dims.len() == x.rank() && dims.iter().zip(&x.dims).all(|(len, own)| len.is(*own)) {
            return Ok(x.clone());
        }
        let from = self.readable(x)?;
        match (&dims[..], &from.physical()[..]) {
            ([batch, features], [own, _, _, ..]) if own.is(*batch) && *features != Length::Known(0) => {
                self.plain(self.node(Op::Flatten), &[&from], dims)
            }
            _ => self.reshaped(&from, dims),
        }
    }

    /// Reshapes a value with a `Reshape`, whatever its shape is.
    ///
    /// # Errors
    /// As [`Builder::reshape`].
    pub fn reshaped(&mut self, x: &Val<K>, dims: Dims) -> Result<Val<K>, Reason> {
        let from = self.readable(x)?;
        let entries = reshaping(&from.physical(), &dims).ok_or_else(|| {
            format!(
                "it reshapes {} to {}, of which more than one length depends on the input",
                show(&x.dims),
                show(&dims)
            )
        })?;
        let node = self.node(Op::Reshape).attribute("shape", Attribute::Ints(entries));
        self.plain(node, &[&from], dims)
    }

    /// Returns a value whose numbers are in the source's order.
    fn readable(&mut self, x: &Val<K>) -> Result<Val<K>, Reason> {
        if x.is_pixel() { Ok(x.clone()) } else { self.last(x) }
    }

    /// Adds axes of length 1, whose positions are those in the result.
    ///
    /// # Errors
    /// As [`Builder::plain`].
    pub fn unsqueeze(&mut self, x: &Val<K>, axes: &[usize]) -> Result<Val<K>, Reason> {
        let x = self.last(x)?;
        let node = self.node(Op::Unsqueeze).attribute("axes", ints(axes)?);
        self.plain(node, &[&x], unsqueezed(&x.dims, axes))
    }

    /// Removes axes of length 1.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn squeeze(&mut self, x: &Val<K>, axes: &[usize]) -> Result<Val<K>, Reason> {
        let x = self.last(x)?;
        if axes.is_empty() {
            return Ok(x);
        }
        let dims = crate::shape::reduced(&x.dims, axes, false);
        let node = self.node(Op::Squeeze).attribute("axes", ints(axes)?);
        self.plain(node, &[&x], dims)
    }

    /// Reorders axes: axis `k` of the result is axis `order[k]`.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn transpose(&mut self, x: &Val<K>, order: &[usize]) -> Result<Val<K>, Reason> {
        let dims: Dims = order.iter().map(|axis| x.len(*axis)).collect();
        let own: Vec<usize> = order.iter().map(|axis| x.axis(*axis)).collect();
        if own.is_sorted() {
            return Ok(Val { name: x.name.clone(), layout: Layout::Last, dims, tag: x.tag.passed() });
        }
        let node = self.node(Op::Transpose).attribute("perm", ints(&own)?);
        self.plain(node, &[x], dims)
    }

    /// Reorders axes as [`Builder::transpose`] does. Between the two orders of images, the elements stay where they are.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn reorder(&mut self, x: &Val<K>, order: &[usize]) -> Result<Val<K>, Reason> {
        let rank = order.len();
        match rank > 2 {
            true if order == to_last(rank) => self.as_channels_last(x),
            true if order == to_first(rank) => self.restored_first(x),
            _ => self.transpose(x, order),
        }
    }

    /// Joins values along an axis; one alone stays as it is.
    ///
    /// # Errors
    /// As [`Builder::add`], and for values of different ranks.
    pub fn join(&mut self, axis: usize, all: &[Val<K>]) -> Result<Val<K>, Reason> {
        if let [only] = all {
            return Ok(only.clone());
        }
        let is_first = all.iter().any(|val| val.layout == Layout::First);
        let turned = all.iter().map(|val| if is_first { self.first(val) } else { self.last(val) });
        let turned = turned.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = turned.first() else { return Err("it joins no values".to_owned()) };
        let is_alike = turned.iter().all(|val| val.rank() == first.rank());
        let dims = joined(axis, turned.iter().map(|val| &val.dims[..])).filter(|_| is_alike);
        let dims = dims.ok_or("it joins values of different numbers of axes")?;
        let node = self.node(Op::Concat).attribute("axis", Attribute::Int(int(first.axis(axis))?));
        let tag = K::combined(turned.iter().map(|val| &val.tag));
        let name = self.push(node, turned.iter().map(|val| val.name.clone()).collect())?;
        Ok(self.val(name, first.layout, dims, tag))
    }

    /// Takes ranges of axes.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn slice(&mut self, x: &Val<K>, ranges: &[Range]) -> Result<Val<K>, Reason> {
        let mut dims = x.dims.clone();
        for range in ranges {
            if let Some(len) = dims.get_mut(range.axis) {
                *len = sliced(*len, range.begin, range.end, range.step);
            }
        }
        self.slice_of(x, ranges, dims)
    }

    /// Takes ranges of axes, of which the source states the lengths.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn slice_of(&mut self, x: &Val<K>, ranges: &[Range], dims: Dims) -> Result<Val<K>, Reason> {
        if ranges.is_empty() {
            return Ok(x.clone());
        }
        let list = |of: fn(&Range) -> i64| Attribute::Ints(ranges.iter().map(of).collect());
        let axes: Vec<usize> = ranges.iter().map(|range| x.axis(range.axis)).collect();
        let mut node = self
            .node(Op::Slice)
            .attribute("starts", list(|range| range.begin))
            .attribute("ends", list(|range| range.end))
            .attribute("axes", ints(&axes)?);
        if ranges.iter().any(|range| range.step != 1) {
            node = node.attribute("steps", list(|range| range.step));
        }
        self.same(node, x, dims)
    }

    /// Returns the attribute `pads` for what is added before and after each axis, all begins before all ends.
    pub fn pads(x: &Val<K>, pairs: impl Iterator<Item = [i64; 2]>) -> Attribute {
        let mut pads = vec![0; x.rank().saturating_mul(2)];
        for (axis, [begin, end]) in pairs.enumerate().take(x.rank()) {
            let at = x.axis(axis);
            pads[at] = begin;
            pads[at + x.rank()] = end;
        }
        Attribute::Ints(pads)
    }
}

/// Returns ONNX's specification of a reshaping: 0 copies a length, and -1 is inferred.
fn reshaping(from: &[Length], to: &[Length]) -> Option<Vec<i64>> {
    let mut is_open = false;
    let mut entry = |(at, len): (usize, &Length)| match len.known() {
        Some(len) => (len > 0).then_some(len),
        None if from.get(at).is_some_and(|own| own.is(*len)) => Some(0),
        None => (!std::mem::replace(&mut is_open, true)).then_some(-1),
    };
    to.iter().enumerate().map(&mut entry).collect()
}
