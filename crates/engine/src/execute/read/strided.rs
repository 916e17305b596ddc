//! Elements that are at stated distances in an extent: views that skip or repeat what is stored.
//!
//! The fastest axes whose elements are close to each other are read as one span, and their elements are picked out of
//! it; the axes around them are walked.

use super::files::Handle;
use super::memory::to_usize;
use crate::transform::Buffer;
use ckpt_api::{Region, Result};

/// Bytes read at once.
const READ: u64 = 512 << 10;
/// Bytes between neighbors that are read rather than skipped: to read a page costs what another call does.
const GAP: u64 = 4096;

/// An axis of what is picked: its length, and the distances of its neighbors at both sides in bytes.
#[derive(Clone, Copy)]
struct Axis {
    count: u64,
    source: u64,
    target: u64,
}

/// Which elements are picked.
pub(super) struct Strided {
    /// Offset of the first in the extent.
    first: u64,
    /// Axes that are walked, slowest first.
    outer: Vec<Axis>,
    /// Axes whose elements are read as one span, slowest first; the first of them is taken `at_once` indexes at a time.
    inner: Vec<Axis>,
    at_once: u64,
    /// Bytes from the first to the last of the other inner axes.
    span: u64,
    /// Bytes that are together at both sides.
    run: u64,
    /// Axes that repeat what is stored, fastest first: their first index is read, and copied to the others.
    repeated: Vec<Axis>,
}

impl Strided {
    /// The elements of `wanted`, a box of the whole, which are stored at these distances in elements of `size` bytes.
    /// They are picked to rows of the axes in `order`.
    pub(super) fn new(wanted: &Region, strides: &[u64], order: &[usize], size: u64) -> Self {
        let first =
            wanted.start.iter().zip(strides).map(|(start, stride)| start * stride).sum::<u64>() * size;
        let (mut run, mut target) = (size, size);
        let (mut axes, mut repeated) = (Vec::new(), Vec::new());
        for axis in order.iter().rev() {
            // An axis of one index may state any stride.
            let (count, source) = (wanted.shape[*axis], strides[*axis].saturating_mul(size));
            let own = Axis { count, source, target };
            match (count, source) {
                (1, _) => {}
                (_, 0) => repeated.push(own),
                _ if axes.is_empty() && source == run && target == run => run *= count,
                _ => axes.push(own),
            }
            target *= count;
        }
        let (outer, inner) = (Vec::new(), Vec::new());
        let mut strided = Strided { first, outer, inner, at_once: 1, span: run, run, repeated };
        for axis in axes {
            if strided.outer.is_empty() && strided.joins(axis) {
                continue;
            }
            strided.outer.insert(0, axis);
        }
        strided
    }

    /// Adds an axis to those that are read as one span, if it is close enough and fits.
    fn joins(&mut self, axis: Axis) -> bool {
        let whole = self.inner.first().map_or(0, |first| (first.count - 1) * first.source);
        let span = self.span + whole;
        let is_partial = self.inner.first().is_some_and(|first| self.at_once < first.count);
        if is_partial || span > READ || axis.source > span + GAP {
            return false;
        }
        let most = (READ - span).checked_div(axis.source).map_or(axis.count, |more| more + 1);
        if most < 2 {
            return false;
        }
        (self.at_once, self.span) = (most.min(axis.count), span);
        self.inner.insert(0, axis);
        true
    }

    /// Reads the elements into `out`, which is as long as they are.
    pub(super) fn read(
        &self,
        file: &Handle<'_>,
        offset: u64,
        out: &mut [u8],
        spare: &mut Buffer,
    ) -> Result<()> {
        for (source, target) in positions(&self.outer) {
            let place = offset + self.first + source;
            match self.inner.split_first() {
                None => read_run(file, place, slice(out, target, self.run)?)?,
                Some((axis, rest)) => self.read_span(axis, rest, (file, place), (out, target), spare)?,
            }
        }
        self.repeated.iter().try_for_each(|axis| repeat(axis, out))
    }

    fn read_span(
        &self,
        axis: &Axis,
        rest: &[Axis],
        (file, place): (&Handle<'_>, u64),
        (out, target): (&mut [u8], u64),
        spare: &mut Buffer,
    ) -> Result<()> {
        let mut begin = 0;
        while begin < axis.count {
            let count = (axis.count - begin).min(self.at_once);
            let at = place + begin * axis.source;
            spare.resize(to_usize(self.span + (count - 1) * axis.source)?, at);
            file.read_at(at, spare)?;
            let taken = Axis { count, ..*axis };
            let axes: Vec<Axis> = [taken].iter().chain(rest).copied().collect();
            let len = count * axis.target;
            pick(&axes, self.run, spare, slice(out, target + begin * axis.target, len)?)?;
            begin += count;
        }
        Ok(())
    }
}

/// Copies the first index of an axis to the others, wherever the axis occurs.
fn repeat(axis: &Axis, out: &mut [u8]) -> Result<()> {
    let len = to_usize(axis.target)?;
    for all in out.chunks_exact_mut(to_usize(axis.count * axis.target)?) {
        let (first, others) = all.split_at_mut(len);
        others.chunks_exact_mut(len).for_each(|other| other.copy_from_slice(first));
    }
    Ok(())
}

fn slice(out: &mut [u8], at: u64, len: u64) -> Result<&mut [u8]> {
    let at = to_usize(at)?;
    Ok(&mut out[at..at + to_usize(len)?])
}

fn read_run(file: &Handle<'_>, place: u64, out: &mut [u8]) -> Result<()> {
    let mut at = place;
    for piece in out.chunks_mut(to_usize(READ)?) {
        file.read_at(at, piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// (distance at the source, distance at the target) of every index of the axes, in order.
fn positions(axes: &[Axis]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let count: u64 = axes.iter().map(|axis| axis.count).product();
    (0..count).map(|mut rest| {
        let (mut source, mut target) = (0, 0);
        for axis in axes.iter().rev() {
            source += rest % axis.count * axis.source;
            target += rest % axis.count * axis.target;
            rest /= axis.count;
        }
        (source, target)
    })
}

/// Copies runs of so many bytes from where they are to where they belong.
fn pick(axes: &[Axis], run: u64, source: &[u8], out: &mut [u8]) -> Result<()> {
    let Some((last, outer)) = axes.split_last() else { return Ok(()) };
    let (run, step, apart) = (to_usize(run)?, to_usize(last.source)?, to_usize(last.target)?);
    let len = (to_usize(last.count)? - 1) * apart + run;
    for (from, to) in positions(outer) {
        let (from, to) = (&source[to_usize(from)?..], to_usize(to)?);
        let row = &mut out[to..to + len];
        match run {
            // Faster axes repeat what is stored.
            _ if apart != run => {
                for (index, to) in row.chunks_mut(apart).enumerate() {
                    to[..run].copy_from_slice(&from[index * step..index * step + run]);
                }
            }
            1 => pick_elements::<1>(from, step, row),
            2 => pick_elements::<2>(from, step, row),
            4 => pick_elements::<4>(from, step, row),
            8 => pick_elements::<8>(from, step, row),
            16 => pick_elements::<16>(from, step, row),
            _ => {
                for (index, to) in row.chunks_exact_mut(run).enumerate() {
                    to.copy_from_slice(&from[index * step..index * step + run]);
                }
            }
        }
    }
    Ok(())
}

fn pick_elements<const N: usize>(source: &[u8], step: usize, row: &mut [u8]) {
    let (elements, _) = row.as_chunks_mut::<N>();
    for (index, element) in elements.iter_mut().enumerate() {
        if let Some(from) = source.get(index * step..).and_then(<[u8]>::first_chunk) {
            *element = *from;
        }
    }
}
