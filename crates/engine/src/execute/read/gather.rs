//! Boxes of a tensor, read from wherever its stored extents hold them.

use super::checks::Checks;
use super::files::Handle;
use super::memory::to_usize;
use super::opened::Opened;
use super::strided::Strided;
use crate::layout::{Runs, Tiles, intersection, whole_box};
use crate::transform::{Buffer, permute_into, strides};
use ckpt_api::{Blocks, Extent, Placement, Region, Result, ScatteredChecksum, Shape};

/// What boxes are read of.
pub(super) struct Gather<'a, 'f> {
    pub(super) opened: &'a Opened<'f>,
    pub(super) shape: &'a Shape,
    pub(super) source: &'a Placement,
}

/// Bytes that are read before they are put where they belong. Each row of the result has pages of its own, and what is
/// written to it at a time is as long as there are rows of the source: to have twice as many is worth more than a strip
/// that stays in the smallest L2 cache.
const STRIP: u64 = 1 << 20;

impl Gather<'_, '_> {
    /// Reads the box `wanted` into `out`: row-major in the source's stored axis order, blocks decoded. What is read is
    /// added to `checks`.
    pub(super) fn read(
        &self,
        wanted: &Region,
        checks: &mut Checks,
        out: &mut Buffer,
        piece: &mut Buffer,
    ) -> Result<()> {
        match self.source.encoding.blocks() {
            Some(blocks) => self.read_blocks(blocks, wanted, checks, out, piece),
            None => self.read_stored(wanted, checks, out, piece),
        }
    }

    /// Reads the blocks that have elements of the box, and cuts these out of what they decode to.
    fn read_blocks(
        &self,
        blocks: &Blocks,
        wanted: &Region,
        checks: &mut Checks,
        out: &mut Buffer,
        piece: &mut Buffer,
    ) -> Result<()> {
        let fastest = self.source.encoding.order.last().copied().unwrap_or(0);
        let unit = blocks.elements();
        let in_blocks = in_units(self.source, self.shape, fastest, unit)?;
        let wanted = within_whole(wanted, self.source);
        let (start, len) = (wanted.start[fastest], wanted.shape[fastest]);
        let range = start / unit..(start + len).div_ceil(unit);
        let region = along(&wanted, fastest, range.start, range.end - range.start)?;
        let gather = Gather { opened: self.opened, shape: &in_blocks.0, source: &in_blocks.1 };
        let mut stored = Buffer::default();
        gather.read_stored(&region, checks, &mut stored, piece)?;
        out.vec().clear();
        let row = to_usize((range.end - range.start) * blocks.bytes())?;
        let from = to_usize((start - range.start * unit) * 4)?;
        let mut numbers = Vec::new();
        for row in stored.chunks_exact(row.max(1)) {
            numbers.clear();
            blocks.decode(row, &mut numbers)?;
            out.vec().extend_from_slice(&numbers[from..from + to_usize(len * 4)?]);
        }
        Ok(())
    }

    /// Reads the box as the source stores its elements.
    fn read_stored(
        &self,
        wanted: &Region,
        checks: &mut Checks,
        out: &mut Buffer,
        piece: &mut Buffer,
    ) -> Result<()> {
        let Gather { opened, shape, source } = self;
        let size = self.stored_size();
        let first = source.extents.first().map_or(0, |extent| extent.offset);
        out.resize(to_usize(wanted.shape.elements() * size)?, first);
        let everything = whole_box(source.window().map_or(shape, |window| &window.whole));
        let wanted = &within_whole(wanted, source);
        let strides = source.window().map_or(&[][..], |window| &window.strides);
        if let Some(extent) = source.extents.first().filter(|_| !strides.is_empty() && !out.is_empty()) {
            let (file, offset) = opened.extent(extent)?;
            let strided = Strided::new(wanted, strides, &source.encoding.order, size);
            return strided.read(&file, offset, out, piece);
        }
        // Without regions, the extents together are one run of bytes, in which each begins where the last one ended.
        let mut end = 0;
        for (number, extent) in source.extents.iter().enumerate() {
            let stored = extent.region().unwrap_or(&everything);
            let begin = if extent.region().is_some() { 0 } else { end };
            end = begin + extent.len;
            let Some(common) = intersection(stored, wanted) else { continue };
            let runs = Runs::new(stored, wanted, &common, &source.encoding.order, size);
            let (file, offset) = opened.extent(extent)?;
            let mut part = Part { file, offset, begin, end, check: checks.extent(number) };
            match common == *stored {
                // Rows that are read beyond the box would have to be read again for the next one, from the beginning.
                false if extent.is_compressed() => part.read_runs(&runs, out)?,
                true => part.read_whole(&runs, out, piece)?,
                false => part.read_box(&runs, out, piece)?,
            }
        }
        Ok(())
    }

    /// As [`Gather::read`], with the axes reordered: axis `k` of `out` is the source's stored axis `order[k]`.
    pub(super) fn permuted(
        &self,
        wanted: &Region,
        order: &[usize],
        checks: &mut Checks,
        out: &mut Buffer,
        strip: &mut Buffer,
        piece: &mut Buffer,
    ) -> Result<()> {
        let stored = &self.source.encoding.order;
        let size = self.size();
        let axes: Vec<usize> = order.iter().map(|axis| stored[*axis]).collect();
        let distances = strides(&lens(&wanted.shape, &axes)?);
        out.resize(to_usize(wanted.shape.elements() * size)?, 0);
        let strips = match self.source.extents.iter().any(Extent::is_compressed) {
            // Stepping back within a compressed extent begins again.
            true => Tiles::in_order(wanted.clone(), stored, STRIP / size),
            false => Tiles::strips(wanted.clone(), stored, &axes, STRIP / size),
        };
        for part in strips {
            self.read(&part, checks, strip, piece)?;
            let mut first = 0;
            for (axis, distance) in axes.iter().zip(&distances) {
                first += to_usize(part.start[*axis] - wanted.start[*axis])? * distance;
            }
            let shape = lens(&part.shape, stored)?;
            permute_into(strip, &shape, order, to_usize(size)?, out, first, &distances);
        }
        Ok(())
    }

    /// Bytes of an element that was read.
    fn size(&self) -> u64 {
        self.source.encoding.dtype.bytes().unwrap_or(1)
    }

    /// Bytes of a stored element, or of a block, in whose place it then is.
    fn stored_size(&self) -> u64 {
        self.source.encoding.blocks().map_or(self.size(), |blocks| blocks.bytes())
    }
}

fn lens(shape: &Shape, order: &[usize]) -> Result<Vec<usize>> {
    shape.permuted(order).iter().map(|len| to_usize(*len)).collect()
}

/// Bytes read at once.
const READ: u64 = 512 << 10;
/// How many times as long as its runs a row may be that is read from end to end.
const LONGER: u64 = 8;

/// An extent that is read.
struct Part<'a, 'f> {
    file: Handle<'f>,
    /// Where it is in its file.
    offset: u64,
    /// Where it begins and ends in the run of bytes that it is a part of.
    begin: u64,
    end: u64,
    check: Option<&'a mut ScatteredChecksum>,
}

impl Part<'_, '_> {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let within = at - self.begin;
        self.file.read_at(self.offset + within, bytes)?;
        if let Some(check) = &mut self.check {
            check.update(within, bytes);
        }
        Ok(())
    }

    /// Reads every run to where it belongs. Of rows that are not much longer, the first box takes all from end to end:
    /// where they come from a disk, runs with gaps between them would be fetched one by one, and the boxes beside it
    /// find the rest in memory. Rows that are in memory already need none of that.
    fn read_box(&mut self, runs: &Runs, out: &mut [u8], spare: &mut Buffer) -> Result<()> {
        let row = runs
            .row()
            .filter(|row| *row <= LONGER * runs.len && 2 * row <= READ && runs.source.is_multiple_of(*row));
        match row.filter(|_| self.begin <= runs.source && runs.end() <= self.end) {
            Some(row) if !self.is_in_memory(runs) => self.read_rows(row, runs, out, spare),
            _ => self.read_runs(runs, out),
        }
    }

    /// Whether the last byte of runs that are in the extent is in memory.
    fn is_in_memory(&self, runs: &Runs) -> bool {
        let last = runs.end().saturating_sub(1).saturating_sub(self.begin);
        self.offset.checked_add(last).is_some_and(|offset| self.file.is_in_memory(offset))
    }

    /// Reads rows of so many bytes from end to end, in pieces that stay in the cache, and copies each run to where it
    /// belongs.
    fn read_rows(&mut self, row: u64, runs: &Runs, out: &mut [u8], spare: &mut Buffer) -> Result<()> {
        let len = to_usize(runs.len)?;
        let mut runs = runs.iter().peekable();
        while let Some(&(first, _)) = runs.peek() {
            let end = (first + READ / row * row).min(self.end);
            let place = self.offset + first - self.begin;
            spare.resize(to_usize(end - first)?, place);
            self.file.read_at(place, spare)?;
            while let Some((source, target)) = runs.next_if(|(source, _)| source + len as u64 <= end) {
                let (from, to) = (to_usize(source - first)?, to_usize(target)?);
                let piece = &spare[from..from + len];
                if let Some(check) = &mut self.check {
                    check.update(source - self.begin, piece);
                }
                out[to..to + len].copy_from_slice(piece);
            }
        }
        Ok(())
    }

    /// Reads every run, as far as it is in this part, to where it belongs.
    fn read_runs(&mut self, runs: &Runs, out: &mut [u8]) -> Result<()> {
        for (source, target) in runs.iter() {
            let (mut at, end) = (source.max(self.begin), (source + runs.len).min(self.end));
            while at < end {
                let len = (end - at).min(READ);
                let start = to_usize(target + at - source)?;
                self.read(at, &mut out[start..start + to_usize(len)?])?;
                at += len;
            }
        }
        Ok(())
    }

    /// Reads everything from end to end, in pieces that stay in the cache, and copies each run to where it belongs.
    fn read_whole(&mut self, runs: &Runs, out: &mut [u8], spare: &mut Buffer) -> Result<()> {
        let per_read = to_usize(READ / runs.len)?;
        if per_read < 2 || self.end - self.begin != runs.bytes() {
            return self.read_runs(runs, out);
        }
        let (mut at, len) = (self.begin, to_usize(runs.len)?);
        let mut runs = runs.iter().peekable();
        while runs.peek().is_some() {
            let part = to_usize((self.end - at).min((per_read * len) as u64))?;
            spare.resize(part, self.offset + at - self.begin);
            self.read(at, spare)?;
            at += spare.len() as u64;
            for (piece, (_, target)) in spare.chunks_exact(len).zip(&mut runs) {
                let start = to_usize(target)?;
                out[start..start + len].copy_from_slice(piece);
            }
        }
        Ok(())
    }
}

/// The shape and the source with blocks in the place of elements.
fn in_units(source: &Placement, shape: &Shape, fastest: usize, unit: u64) -> Result<(Shape, Placement)> {
    let divided = |shape: &Shape| {
        Shape::new(
            shape.iter().enumerate().map(|(axis, len)| if axis == fastest { len / unit } else { *len }),
        )
    };
    let mut source = source.clone();
    let whole = source.window().map_or(shape, |window| &window.whole).clone();
    source.set_window(None);
    for region in source.extents.iter_mut().filter_map(|extent| extent.region_mut()) {
        region.start[fastest] /= unit;
        region.shape = divided(&region.shape)?;
    }
    Ok((divided(&whole)?, source))
}

/// A box with another range on one axis.
fn along(region: &Region, axis: usize, start: u64, len: u64) -> Result<Region> {
    let mut region = region.clone();
    let mut dims = region.shape.to_vec();
    (region.start[axis], dims[axis]) = (start, len);
    region.shape = Shape::new(dims)?;
    Ok(region)
}

/// A box of the tensor, as a box of what its extents hold.
fn within_whole(region: &Region, source: &Placement) -> Region {
    let mut region = region.clone();
    for (start, shift) in region.start.iter_mut().zip(source.window().iter().flat_map(|window| &window.start))
    {
        *start += shift;
    }
    region
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Contents, DType, Encoding, FileId, Input, ReadAt, Tensor, TensorId};
    use std::collections::BTreeMap;
    use std::fs;
    use std::io;
    #[cfg(target_os = "linux")]
    use std::io::Write;
    use std::ops::Range;
    use std::sync::{Arc, Mutex};

    /// A file that notes the length of every read.
    #[derive(Debug)]
    struct Noting<F>(F, Mutex<Vec<usize>>);

    impl<F: ReadAt> ReadAt for Noting<F> {
        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.lock().unwrap().push(buffer.len());
            self.0.read_at(offset, buffer)
        }

        fn as_file(&self) -> Option<&fs::File> {
            self.0.as_file()
        }
    }

    const ROWS: u64 = 256;
    const COLUMNS: u64 = 64;

    fn matrix() -> Vec<u8> {
        (0..ROWS * COLUMNS).map(|number| (number % 251) as u8).collect()
    }

    /// The lengths of the reads that each of these boxes takes: ranges of columns, one after the other, from a file that
    /// holds [`matrix`].
    fn reads(file: impl ReadAt + 'static, boxes: &[Range<u64>]) -> Vec<Vec<usize>> {
        let tensor = Tensor::new("w", DType::U8, Shape::new([ROWS, COLUMNS]).unwrap());
        let extent = Extent::new(FileId(0), 0, ROWS * COLUMNS);
        let placement = Placement::new(TensorId(0), "w", vec![extent], Encoding::row_major(&tensor));
        let file = Arc::new(Noting(file, Mutex::default()));
        let files = BTreeMap::from([("f".to_owned(), file.clone() as Arc<dyn ReadAt>)]);
        let contents = Contents::default().with_files(vec!["f".into()]);
        let files = crate::execute::read::Files::new(&Input::of("f", files), &contents);
        let opened = Opened::new(&files);
        let gather = Gather { opened: &opened, shape: &tensor.shape, source: &placement };
        let (mut out, mut piece) = (Buffer::default(), Buffer::default());
        let read = |columns: &Range<u64>| {
            let shape = Shape::new([ROWS, columns.end - columns.start]).unwrap();
            let wanted = Region { start: vec![0, columns.start], shape };
            gather.read(&wanted, &mut Checks::default(), &mut out, &mut piece).unwrap();
            let row = |row: &[u8]| row[columns.start as usize..columns.end as usize].to_vec();
            let expected: Vec<u8> = matrix().chunks(COLUMNS as usize).flat_map(row).collect();
            assert_eq!(out[..], expected);
            std::mem::take(&mut *file.1.lock().unwrap())
        };
        boxes.iter().map(read).collect()
    }

    #[test]
    fn the_first_box_of_rows_reads_them_from_end_to_end_and_those_beside_it_what_they_need() {
        let found = reads(matrix(), &[0..16, 16..COLUMNS, 0..2]);
        assert_eq!(found[0], [(ROWS * COLUMNS) as usize]);
        assert_eq!(found[1], [(COLUMNS - 16) as usize; ROWS as usize]);
        // Where so little is wanted, the rest may never be.
        assert_eq!(found[2], [2; ROWS as usize]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "asks the system what it holds in memory")]
    fn no_byte_of_rows_that_are_in_memory_is_read_twice() {
        // Of tmpfs it is known, whatever the system's temporary files are on.
        let Ok(mut file) = tempfile::tempfile_in("/dev/shm") else {
            eprintln!("skipped: there is no /dev/shm");
            return;
        };
        file.write_all(&matrix()).unwrap();
        let found = reads(file, &[0..16, 16..COLUMNS]);
        assert_eq!(found, [[16; ROWS as usize], [(COLUMNS - 16) as usize; ROWS as usize]]);
    }
}
