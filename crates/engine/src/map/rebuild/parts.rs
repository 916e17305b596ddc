//! Puts the equal parts of an axis in another order: the gates of a recurrent layer.
//!
//! The bytes stay where they are: every run of bytes that belongs to one part becomes an extent of its own, a box of the
//! result. A checksum of all bytes is of no use to a run; whoever reads the runs has the whole tensor checked beside.

use super::placed::{PlacedTensor, STORE_WHOLE, check_fixed_size, misfit};
use crate::recipe::AxisStep;
use ckpt_api::{Error, Extent, Packing, Placement, Region, Result, Shape};

/// The runs that one tensor may consist of.
const MOST: u64 = 1 << 20;

/// Part `k` of the result is part `order[k]` of the axis.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for an axis that has no such parts, [`ckpt_api::Kind::Unsupported`] for a tensor that is
/// not stored as one run of plain elements.
pub(super) fn reorder(
    placed: &PlacedTensor,
    order: &[usize],
    axis: usize,
    step: &AxisStep,
) -> Result<PlacedTensor> {
    check_fixed_size(placed, "reordered")?;
    let count = order.len() as u64;
    let len = placed.tensor.shape.get(axis).copied().filter(|len| count > 0 && len.is_multiple_of(count));
    let len = len.ok_or_else(|| misfit(step, placed, &format!("an axis {axis} of {count} equal parts")))?;
    let each = len.checked_div(count).unwrap_or(0);
    let stored = Stored::of(placed)?;
    let mut extents = Vec::new();
    let mut runs = 0u64;
    for (to, from) in order.iter().enumerate() {
        let at = |part: usize| (part as u64).saturating_mul(each);
        let mut region =
            Region { start: vec![0; placed.tensor.shape.rank()], shape: placed.tensor.shape.clone() };
        set(&mut region.start, axis, at(*from));
        let mut lens = region.shape.to_vec();
        set(&mut lens, axis, each);
        region.shape = Shape::new(lens)?;
        runs = runs.saturating_add(stored.runs(&region));
        if runs > MOST {
            return Err(in_parts(&placed.tensor.name).found(format!("more than {MOST} runs of bytes")));
        }
        stored.extents(&region, axis, (at(*from), at(to)), &mut extents)?;
    }
    let mut made = placed.clone();
    made.placement.extents = extents.into();
    made.placement.set_window(None);
    made.placement.set_shape(None);
    Ok(made)
}

/// `len` indices of an axis, from `first` on, as runs of bytes of their own.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a tensor that is not stored as one run of plain elements.
pub(super) fn cut_out(placed: &PlacedTensor, axis: usize, first: u64, len: u64) -> Result<PlacedTensor> {
    let end = placed.axis_len(axis)?;
    if first.checked_add(len).is_none_or(|last| last > end) {
        return Err(Error::mapping("the tensor does not have this part")
            .found(format!("{len} from {first} on, of axis {axis} of {}", placed.tensor.shape)));
    }
    let stored = Stored::of(placed)?;
    let mut region =
        Region { start: vec![0; placed.tensor.shape.rank()], shape: placed.tensor.shape.clone() };
    set(&mut region.start, axis, first);
    let mut lens = region.shape.to_vec();
    set(&mut lens, axis, len);
    region.shape = Shape::new(lens)?;
    if stored.runs(&region) > MOST {
        return Err(in_parts(&placed.tensor.name).found(format!("more than {MOST} runs of bytes")));
    }
    let mut extents = Vec::new();
    stored.extents(&region, axis, (first, 0), &mut extents)?;
    if let [extent] = &mut extents[..] {
        extent.set_region(None);
    }
    let mut made = placed.clone();
    made.tensor.shape = region.shape;
    made.placement.extents = extents.into();
    made.placement.set_window(None);
    made.placement.set_shape(None);
    Ok(made)
}

fn set(values: &mut [u64], axis: usize, value: u64) {
    if let Some(own) = values.get_mut(axis) {
        *own = value;
    }
}

/// A tensor, or a box of one, in one run of bytes.
struct Stored<'p> {
    extent: &'p Extent,
    /// Where the tensor begins in the whole that is stored, and the lengths of that.
    start: Vec<u64>,
    whole: Shape,
    /// The axes, slowest first.
    order: &'p [usize],
    /// Bytes of an element.
    size: u64,
}

impl<'p> Stored<'p> {
    fn of(placed: &'p PlacedTensor) -> Result<Self> {
        let PlacedTensor { tensor, placement } = placed;
        let Placement { extents, encoding, .. } = placement;
        let window = placement.window();
        let refused = || in_parts(&tensor.name);
        let [extent] = &extents[..] else { return Err(refused()) };
        let is_plain = extent.region().is_none()
            && extent.compression().is_none()
            && !extent.is_computed()
            && encoding.tiles().is_empty()
            && encoding.blocks().is_none()
            && encoding.packing == Packing::Bytes
            && window.is_none_or(|window| window.strides.is_empty());
        let size = encoding.dtype.bytes().filter(|_| is_plain).ok_or_else(refused)?;
        let (start, whole) = match window {
            Some(window) => (window.start.clone(), window.whole.clone()),
            None => (vec![0; tensor.shape.rank()], tensor.shape.clone()),
        };
        Ok(Stored { extent, start, whole, order: &encoding.order, size })
    }

    /// How many of the fastest axes of a box are stored without a gap.
    fn joined(&self, region: &Region) -> usize {
        let is_whole = |axis: &&usize| region.shape.get(**axis) == self.whole.get(**axis);
        self.order.iter().rev().take_while(is_whole).count()
    }

    /// The axes of a box along which its runs are, and those of a run.
    fn divided(&self, region: &Region) -> (&[usize], &[usize]) {
        // The axis before those that are whole is one run, too.
        let joined = self.joined(region).saturating_add(1).min(self.order.len());
        self.order.split_at(self.order.len() - joined)
    }

    fn runs(&self, region: &Region) -> u64 {
        let (outer, _) = self.divided(region);
        outer.iter().filter_map(|axis| region.shape.get(*axis)).fold(1, |runs, len| runs.saturating_mul(*len))
    }

    /// Adds an extent for each run of a box, which moves on `axis` from one place to another.
    fn extents(
        &self,
        region: &Region,
        axis: usize,
        (from, to): (u64, u64),
        extents: &mut Vec<Extent>,
    ) -> Result<()> {
        let (outer, inner) = self.divided(region);
        let run: u64 = inner.iter().filter_map(|axis| region.shape.get(*axis)).product();
        if region.shape.elements() == 0 {
            return Ok(());
        }
        let mut lens = region.shape.to_vec();
        outer.iter().for_each(|axis| set(&mut lens, *axis, 1));
        let shape = Shape::new(lens)?;
        for number in 0..self.runs(region) {
            let mut start = region.start.clone();
            let mut rest = number;
            for axis in outer.iter().rev() {
                let len = region.shape.get(*axis).copied().unwrap_or(1).max(1);
                let first = region.start.get(*axis).copied().unwrap_or(0);
                set(&mut start, *axis, first.saturating_add(rest % len));
                rest /= len;
            }
            let offset = self.offset(&start).and_then(|offset| self.extent.offset.checked_add(offset));
            let offset = offset.ok_or_else(|| Error::defect("a tensor lies beyond the end of all files"))?;
            let own = start.get(axis).copied().unwrap_or(0);
            set(&mut start, axis, own.saturating_sub(from).saturating_add(to));
            let extent = Extent::new(self.extent.file, offset, run.saturating_mul(self.size));
            extents.push(extent.with_region(Region { start, shape: shape.clone() }));
        }
        Ok(())
    }

    /// Bytes before the element at this index of the tensor.
    fn offset(&self, index: &[u64]) -> Option<u64> {
        let position = self.order.iter().try_fold(0u64, |position, axis| {
            let own = index.get(*axis)?.checked_add(*self.start.get(*axis)?)?;
            position.checked_mul(*self.whole.get(*axis)?)?.checked_add(own)
        });
        position?.checked_mul(self.size)
    }
}

fn in_parts(name: &str) -> Error {
    Error::unsupported(
        "the parts of an axis can only be reordered in a tensor that is stored as one run of bytes",
    )
    .tensor(name)
    .help(STORE_WHOLE)
}
