//! Tensors added to another, box by box.

use super::memory::to_usize;
use crate::layout::Addend;
use ckpt_api::{AddedAxis, Error, Region, Result, Scaling, Shape};

/// What numbers are added to.
pub(super) struct Sum<'a> {
    /// The box of the tensor.
    pub(super) region: &'a Region,
    /// The order in which its axes are.
    pub(super) order: &'a [usize],
    /// How many elements are before it, for errors.
    pub(super) first: u64,
}

/// Adds the `values` of the box `wanted` of an addend to `floats`, which hold a box of the tensor; as whole units where
/// they are to be `rounded`.
///
/// # Errors
/// [`ckpt_api::Kind::Lossy`] for a sum that is too large for 32-bit floats, naming the element.
pub(super) fn add(
    addend: &Addend,
    (wanted, values): (&Region, &[u8]),
    to: &Sum<'_>,
    rounded: Option<Scaling>,
    floats: &mut [u8],
) -> Result<()> {
    let (values, floats) = (values.as_chunks::<4>().0, floats.as_chunks_mut::<4>().0);
    for (at, from) in Walk::new(addend, to.region, to.order, &wanted.shape)?.pairs() {
        if let (Some(sum), Some(value)) = (floats.get_mut(at), values.get(from)) {
            let terms = [f32::from_le_bytes(*sum), f32::from_le_bytes(*value)];
            let total = sum_of(terms, rounded);
            if !total.is_finite() && terms.iter().all(|term| term.is_finite()) {
                return Err(Error::lossy("a sum is too large for f32")
                    .field(format!("element {}", to.first + at as u64))
                    .found(format!("{} + {} of '{}'", terms[0], terms[1], addend.transfer.tensor))
                    .expected(format!("at most {}", f32::MAX)));
            }
            *sum = total.to_le_bytes();
        }
    }
    Ok(())
}

fn sum_of([a, b]: [f32; 2], rounded: Option<Scaling>) -> f32 {
    match rounded {
        None => a + b,
        // The number closest to these units; rounding to nearest leads back to them, as they are at most 2^16.
        Some(scaling) => ((scaling.units(a) + scaling.units(b)) / f64::from(scaling.scale.get())) as f32,
    }
}

/// The box of the addend that is added within `region`; `None` if nothing is.
pub(super) fn needed(addend: &Addend, region: &Region) -> Option<Region> {
    let rank = addend.transfer.shape.rank();
    let (mut start, mut len) = (vec![0; rank], vec![0; rank]);
    for (axis, (first, count)) in addend.axes.iter().zip(region.start.iter().zip(region.shape.iter())) {
        match *axis {
            AddedAxis::Along(own) => {
                *start.get_mut(own)? = *first;
                *len.get_mut(own)? = *count;
            }
            AddedAxis::At(index) if index < *first || index - first >= *count => return None,
            AddedAxis::At(_) | AddedAxis::Every => {}
        }
    }
    Some(Region { start, shape: Shape::new(len).ok()? })
}

/// Positions in the box and in the addend that belong together.
struct Walk {
    /// For each axis, slowest first: how many steps, and how far each goes in the box and in the addend.
    axes: Vec<[usize; 3]>,
    /// The first position in the box.
    base: usize,
}

impl Walk {
    fn new(addend: &Addend, region: &Region, order: &[usize], wanted: &Shape) -> Result<Self> {
        let mut strides = vec![1u64; wanted.rank()];
        for own in (1..wanted.rank()).rev() {
            strides[own - 1] = strides[own] * wanted[own];
        }
        let (mut axes, mut base, mut step) = (Vec::with_capacity(order.len()), 0, 1u64);
        for axis in order.iter().rev() {
            let count = region.shape[*axis];
            let (steps, far) = match addend.axes[*axis] {
                AddedAxis::Along(own) => (count, strides[own]),
                AddedAxis::Every => (count, 0),
                AddedAxis::At(index) => {
                    base += to_usize((index - region.start[*axis]) * step)?;
                    (1, 0)
                }
            };
            axes.push([to_usize(steps)?, to_usize(step)?, to_usize(far)?]);
            step *= count;
        }
        axes.reverse();
        Ok(Walk { axes, base })
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (inner, outer) =
            self.axes.split_last().map_or(([1, 0, 0], &[][..]), |(inner, outer)| (*inner, outer));
        let count: usize = outer.iter().map(|[count, ..]| count).product();
        (0..count).flat_map(move |mut rest| {
            let (mut at, mut from) = (self.base, 0);
            for [count, step, far] in outer.iter().rev() {
                at += rest % count * step;
                from += rest % count * far;
                rest /= count;
            }
            let [count, step, far] = inner;
            (0..count).map(move |k| (at + k * step, from + k * far))
        })
    }
}
