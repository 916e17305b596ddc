//! Datasets: where their elements are.

use super::chunks::{Chunk, Grid};
use super::header::Message;
use super::message::{Dataspace, Fill, Filter, Filters, Layout};
use super::space::Space;
use crate::datatype::{Datatype, Described};
use crate::format::message;
use crate::tree::Stored;
use ckpt_api::{Compression, Decoder, Error, Extent, FileId, Limit, Region, Result, Shape, Window};
use ckpt_containers::decoders::{LZF, ZLIB};
use std::num::NonZeroU32;

/// What the messages of a dataset say.
pub(crate) struct Content {
    pub(crate) datatype: Datatype,
    pub(crate) shape: Shape,
    pub(crate) stored: Stored,
}

fn find(messages: &[Message], kind: u16) -> Option<&Message> {
    messages.iter().find(|message| message.kind == kind)
}

/// Whether these are the messages of a dataset.
pub(crate) fn is_dataset(messages: &[Message]) -> bool {
    find(messages, message::LAYOUT).is_some()
}

/// Describes a dataset; `filled` counts the bytes of elements that were never written.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for what cannot be read.
pub(crate) fn read(space: &Space<'_>, messages: &[Message], filled: &mut u64) -> Result<Content> {
    let needed = |kind: u16, what: &str| {
        find(messages, kind).ok_or_else(|| Error::corrupt(format!("the dataset has no {what}")))
    };
    if find(messages, message::EXTERNAL_FILES).is_some() {
        return Err(Error::unsupported("the dataset's elements lie in other files")
            .help("no other file is opened; copy the dataset into a new file with h5py"));
    }
    let dataspace = Dataspace::read(&mut needed(message::DATASPACE, "dataspace")?.fields()?, space.limits)?;
    let shape =
        dataspace.shape.ok_or_else(|| Error::unsupported("the dataset has a dataspace without elements"))?;
    let Described { datatype, size } =
        Described::read(&mut needed(message::DATATYPE, "datatype")?.fields()?)?;
    let layout = needed(message::LAYOUT, "layout")?;
    let at = layout.at;
    let layout = Layout::read(layout)?;
    if datatype.bytes().is_none() {
        let stored = Stored::default();
        return Ok(Content { datatype, shape, stored });
    }
    let filters = match find(messages, message::FILTERS) {
        Some(message) => Filters::read(message, size.into())?,
        None => Filters::default(),
    };
    let total = shape.elements().checked_mul(size.into()).filter(|_| size > 0);
    let total = total.ok_or_else(|| Error::corrupt("the dataset has too many bytes").offset(at))?;
    let fill = match find(messages, message::FILL).or_else(|| find(messages, message::OLD_FILL)) {
        Some(message) => Fill::read(message)?,
        None => Fill::Zero,
    };
    let mut placer = Placer { space, element: size, fill, filled, at };
    let stored = match layout {
        Layout::Compact { offset, len } => placer.compact(offset, len, total)?,
        Layout::Contiguous { address, len } => placer.contiguous(address, len, total)?,
        Layout::Chunked { chunk, element, index, address, filters_edges } => {
            if chunk.len() != shape.rank() || element != u64::from(size) {
                return Err(Error::corrupt("the chunks do not fit the dataset")
                    .offset(at)
                    .found(format!("chunks {chunk:?} of elements of {element} bytes"))
                    .expected(format!("{} axes, elements of {size} bytes", shape.rank())));
            }
            let bytes = chunk.iter().try_fold(u64::from(size), |bytes, len| bytes.checked_mul(*len));
            let bytes = bytes.ok_or_else(|| Error::corrupt("a chunk has too many bytes").offset(at))?;
            let most = &dataspace.most;
            let grid = Grid { shape: &shape, most, chunk: &chunk, bytes, filters, filters_edges };
            match total {
                0 => Stored::new(vec![Extent::new(FileId(0), 0, 0)]),
                _ => placer.chunked(&grid, grid.chunks(space, index, address)?)?,
            }
        }
    };
    Ok(Content { datatype, shape, stored })
}

struct Placer<'a, 's> {
    space: &'a Space<'s>,
    /// Bytes of one element.
    element: u32,
    fill: Fill,
    filled: &'a mut u64,
    at: u64,
}

impl Placer<'_, '_> {
    fn compact(&self, offset: u64, len: u64, total: u64) -> Result<Stored> {
        self.check_len(len, total)?;
        Ok(Stored::new(vec![Extent::new(FileId(0), offset, len)]))
    }

    fn check_len(&self, len: u64, total: u64) -> Result<()> {
        if len == total {
            return Ok(());
        }
        Err(Error::corrupt("the dataset's elements do not fill its storage")
            .offset(self.at)
            .found(ckpt_api::count(len, "byte"))
            .expected(format!("{total} bytes, as shape and datatype say")))
    }

    fn contiguous(&mut self, address: Option<u64>, len: Option<u64>, total: u64) -> Result<Stored> {
        if let Some(len) = len {
            self.check_len(len, total)?;
        }
        let extent = match address {
            Some(address) if total > 0 => {
                Extent::new(FileId(0), self.space.offset(address, total, "the dataset")?, total)
            }
            _ => self.never_written(total)?,
        };
        Ok(Stored::new(vec![extent]))
    }

    /// Elements that were never written have the fill value.
    fn never_written(&mut self, total: u64) -> Result<Extent> {
        if total == 0 {
            return Ok(Extent::new(FileId(0), 0, 0));
        }
        *self.filled = self.filled.saturating_add(total);
        self.space.limits.check(Limit::ChunkBytes, *self.filled).map_err(|error| error.offset(self.at))?;
        let (offset, len) = match self.fill {
            Fill::Zero => (0, 0),
            Fill::Bytes(offset, len) if len == u64::from(self.element) => (offset, len),
            Fill::Bytes(_, len) => {
                return Err(Error::corrupt("the fill value is no element")
                    .offset(self.at)
                    .found(ckpt_api::count(len, "byte"))
                    .expected(ckpt_api::count(self.element, "byte")));
            }
            Fill::Undefined => {
                return Err(
                    Error::unsupported("elements were never written, and have no fill value").offset(self.at)
                );
            }
        };
        let repeated = Compression::new(Decoder::REPEATED, len);
        Ok(Extent::new(FileId(0), offset, total).with_compression(repeated))
    }

    fn chunked(&mut self, grid: &Grid<'_>, chunks: Vec<(Vec<u64>, Option<Chunk>)>) -> Result<Stored> {
        let whole =
            grid.shape.iter().zip(grid.chunk).map(|(len, chunk)| len.div_ceil(*chunk).checked_mul(*chunk));
        let whole = whole.collect::<Option<Vec<u64>>>();
        let whole =
            Shape::new(whole.ok_or_else(|| Error::corrupt("the chunks are too large").offset(self.at))?)?;
        let shape = Shape::new(grid.chunk)?;
        let is_one = chunks.len() == 1;
        let mut extents = Vec::with_capacity(chunks.len());
        for (place, chunk) in chunks {
            let extent = match chunk {
                Some(chunk) => self.chunk(grid, &place, chunk)?,
                None => self.never_written(grid.bytes)?,
            };
            let start =
                place.iter().zip(grid.chunk).map(|(place, chunk)| place.saturating_mul(*chunk)).collect();
            let region = Region { start, shape: shape.clone() };
            extents.push(extent.with_region((!is_one).then_some(region)));
        }
        let zeros = vec![0; whole.rank()];
        let window = (whole != *grid.shape).then(|| Window::new(zeros, whole));
        Ok(Stored { extents, window })
    }

    fn chunk(&self, grid: &Grid<'_>, place: &[u64], chunk: Chunk) -> Result<Extent> {
        let offset = self.space.offset(chunk.address, chunk.stored, "a chunk")?;
        let extent = Extent::new(FileId(0), offset, grid.bytes);
        let (mut decoder, mut is_shuffled, mut has_sum, mut is_filtered) = (None, false, false, false);
        for filter in grid.filters_at(place).of_chunk(chunk.mask) {
            is_filtered = true;
            match filter {
                Filter::Shuffle => is_shuffled = self.element > 1,
                Filter::Deflate => decoder = Some(ZLIB),
                Filter::Lzf => decoder = Some(LZF),
                Filter::Fletcher32 => has_sum = true,
            }
        }
        let sum_bytes = if has_sum { 4 } else { 0 };
        if decoder.is_none() && chunk.stored != grid.bytes.saturating_add(sum_bytes) {
            return Err(Error::corrupt("a chunk that is not compressed has another length than its shape")
                .offset(offset)
                .found(ckpt_api::count(chunk.stored, "byte"))
                .expected(ckpt_api::count(grid.bytes.saturating_add(sum_bytes), "byte")));
        }
        if !is_filtered {
            return Ok(extent);
        }
        let mut compression = Compression::new(decoder.unwrap_or(Decoder::STORED), chunk.stored);
        if let Some(element) = NonZeroU32::new(self.element).filter(|_| is_shuffled) {
            compression = compression.shuffled(element);
        }
        if has_sum {
            compression = compression.with_fletcher32();
        }
        Ok(extent.with_compression(compression))
    }
}
