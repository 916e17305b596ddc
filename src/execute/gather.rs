//! Boxes of a tensor, read from wherever its stored extents hold them.

use super::stream::{Files, to_usize};
use super::verify::mismatch;
use ckpt_api::{Extent, File, Placement, Region, Result, Shape, Tensor};

/// The boxes ("slabs") of at most a given size into which a box is cut, so that each is one contiguous run of the
/// result: axes before the cut axis are taken one index at a time, the cut axis in runs, those after it whole.
#[derive(Clone, Debug)]
pub(super) struct Slabs {
    wanted: Region,
    /// Stored order of the result.
    order: Vec<usize>,
    /// The axis that is cut, as a position in `order`; `None` where everything fits into one slab.
    cut: Option<usize>,
    /// Indices of the cut axis that one slab takes.
    run: u64,
    /// Which combination of indices of the axes before the cut comes next, of how many.
    position: u64,
    positions: u64,
    /// The first index of the cut axis that was not taken.
    offset: u64,
}

impl Slabs {
    /// Cuts `wanted` into slabs of at most `limit` bytes (but at least one element), in the result's stored order.
    pub(super) fn new(wanted: Region, order: &[usize], element: u64, limit: u64) -> Self {
        let dims = wanted.shape.permuted(order);
        let fitting = (limit / element).max(1);
        let (mut whole, mut inner) = (dims.len(), 1u64);
        while whole > 0 && inner.saturating_mul(dims[whole - 1]) <= fitting {
            whole -= 1;
            inner *= dims[whole];
        }
        let cut = whole.checked_sub(1);
        let positions = match wanted.shape.elements() {
            0 => 0,
            _ => dims[..cut.unwrap_or(0)].iter().product(),
        };
        let run = cut.map_or(1, |axis| (fitting / inner.max(1)).clamp(1, dims[axis].max(1)));
        Slabs { wanted, order: order.to_vec(), cut, run, position: 0, positions, offset: 0 }
    }

    /// Whether the first slab is everything.
    pub(super) fn is_one(&self) -> bool {
        self.cut.is_none() && self.positions == 1
    }
}

impl Iterator for Slabs {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        if self.position == self.positions {
            return None;
        }
        let Region { mut start, shape } = self.wanted.clone();
        let Some(cut) = self.cut else {
            self.position += 1;
            return Some(Region { start, shape });
        };
        let mut len = shape.to_vec();
        let mut rest = self.position;
        for axis in self.order[..cut].iter().rev() {
            start[*axis] += rest % shape[*axis];
            len[*axis] = 1;
            rest /= shape[*axis];
        }
        let axis = self.order[cut];
        let run = self.run.min(shape[axis] - self.offset);
        start[axis] += self.offset;
        len[axis] = run;
        self.offset += run;
        if self.offset == shape[axis] {
            (self.offset, self.position) = (0, self.position + 1);
        }
        // A part of a shape that fits fits too.
        Some(Region { start, shape: Shape::new(len).unwrap_or_default() })
    }
}

/// Reads the box `wanted` into `out`: row-major in the source's stored axis order. `whole` says that the box is the
/// whole tensor: then every extent is read from end to end and its checksum compared.
pub(super) fn gather(
    files: &Files,
    tensor: &Tensor,
    source: &Placement,
    wanted: &Region,
    whole: bool,
    out: &mut Vec<u8>,
    spare: &mut Vec<u8>,
) -> Result<()> {
    let order = &source.encoding.order;
    let size = source.encoding.dtype.bytes().unwrap_or(1);
    let total = to_usize(wanted.shape.elements() * size)?;
    out.clear();
    out.resize(total, 0);
    let stored_shape = source.window.as_ref().map_or(&tensor.shape, |window| &window.whole);
    let everything = Region { start: vec![0; stored_shape.rank()], shape: stored_shape.clone() };
    let wanted = &within_whole(wanted, source);
    for extent in &source.extents {
        let stored = extent.region.as_ref().unwrap_or(&everything);
        let Some(common) = intersection(stored, wanted) else { continue };
        let file = files.file(extent.file)?;
        let runs = Runs::new(stored, wanted, &common, order, size);
        if whole {
            read_whole(&file, extent, &runs, out, spare)?;
        } else {
            read_runs(&file, extent, &runs, out)?;
        }
    }
    Ok(())
}

/// The extent from end to end, in pieces that stay in the cache, each copied to where it belongs.
fn read_whole(file: &File, extent: &Extent, runs: &Runs, out: &mut [u8], spare: &mut Vec<u8>) -> Result<()> {
    let mut checksum = extent.checksum.as_ref().map(|checksum| checksum.start());
    let per_read = READ / runs.len;
    let (mut offset, mut iterator) = (extent.offset, runs.iter().peekable());
    if per_read == 0 {
        for (_, target) in iterator.by_ref() {
            let start = to_usize(target)?;
            for piece in out[start..start + to_usize(runs.len)?].chunks_mut(to_usize(READ)?) {
                file.read_at(offset, piece)?;
                if let Some(running) = &mut checksum {
                    running.update(piece);
                }
                offset += piece.len() as u64;
            }
        }
    }
    while iterator.peek().is_some() {
        let targets: Vec<u64> =
            iterator.by_ref().take(to_usize(per_read)?).map(|(_, target)| target).collect();
        let bytes = runs.len * targets.len() as u64;
        spare.resize(to_usize(bytes)?, 0);
        file.read_at(offset, spare)?;
        if let Some(running) = &mut checksum {
            running.update(spare);
        }
        for (piece, target) in spare.chunks_exact(to_usize(runs.len)?).zip(targets) {
            let start = to_usize(target)?;
            out[start..start + piece.len()].copy_from_slice(piece);
        }
        offset += bytes;
    }
    match (&checksum, &extent.checksum) {
        (Some(running), Some(expected)) => mismatch(file, extent, expected, running),
        _ => Ok(()),
    }
}

/// Bytes read at once when whole extents are read.
const READ: u64 = 512 << 10;

fn read_runs(file: &File, extent: &Extent, runs: &Runs, out: &mut [u8]) -> Result<()> {
    let len = to_usize(runs.len)?;
    for (source, target) in runs.iter() {
        let start = to_usize(target)?;
        file.read_at(extent.offset + source, &mut out[start..start + len])?;
    }
    Ok(())
}

/// A box of the tensor, as a box of what its extents hold.
fn within_whole(region: &Region, source: &Placement) -> Region {
    let mut region = region.clone();
    for (start, shift) in region.start.iter_mut().zip(source.window.iter().flat_map(|window| &window.start)) {
        *start += shift;
    }
    region
}

/// Contiguous runs of bytes that a box has in common in an extent (at the source) and in the gathered box (the target).
struct Runs {
    /// Bytes of one run.
    len: u64,
    /// Outer axes, slowest first: length, distance in the source, distance in the target, in bytes.
    outer: Vec<[u64; 3]>,
    source: u64,
    target: u64,
}

impl Runs {
    fn new(stored: &Region, wanted: &Region, common: &Region, order: &[usize], size: u64) -> Self {
        let (mut source_step, mut target_step) = (size, size);
        let (mut source, mut target) = (0, 0);
        let mut len = size;
        let mut outer: Vec<[u64; 3]> = Vec::new();
        for axis in order.iter().rev() {
            let count = common.shape[*axis];
            source += (common.start[*axis] - stored.start[*axis]) * source_step;
            target += (common.start[*axis] - wanted.start[*axis]) * target_step;
            if outer.is_empty() && source_step == len && target_step == len {
                len *= count;
            } else {
                outer.push([count, source_step, target_step]);
            }
            source_step *= stored.shape[*axis];
            target_step *= wanted.shape[*axis];
        }
        outer.reverse();
        Runs { len, outer, source, target }
    }

    /// (offset in the extent, offset in the gathered box) of every run, in the extent's order.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let count: u64 = self.outer.iter().map(|[count, ..]| count).product();
        (0..count).map(move |mut rest| {
            let (mut source, mut target) = (self.source, self.target);
            for [count, source_step, target_step] in self.outer.iter().rev() {
                source += rest % count * source_step;
                target += rest % count * target_step;
                rest /= count;
            }
            (source, target)
        })
    }
}

fn intersection(a: &Region, b: &Region) -> Option<Region> {
    let mut start = Vec::with_capacity(a.start.len());
    let mut len = Vec::with_capacity(a.start.len());
    for k in 0..a.start.len() {
        let first = a.start[k].max(b.start[k]);
        let end = (a.start[k] + a.shape[k]).min(b.start[k] + b.shape[k]);
        len.push(end.checked_sub(first).filter(|len| *len > 0)?);
        start.push(first);
    }
    Some(Region { start, shape: Shape::new(len).ok()? })
}
