//! The chunks of an array as extents of a tensor.

use super::array::Array;
use super::chain::{ByteCodec, Chain, Sharding, Step, composed, inverse, permuted, row_major};
use super::shard::read_index;
use crate::decode;
use crate::ocdbt::{Files, StoredValue, Value};
use ckpt_api::{Compression, Decoder, Encoding, Error, Extent, Limit, Limits, Region, Result, Shape, Window};
use std::ops::Range;

/// Finds the value of a chunk by its name; `None` if there is none.
pub(crate) type FindChunk<'a> = dyn Fn(&mut Files<'_>, &str) -> Result<Option<Value>> + 'a;

/// Where the elements of an array are, and how they are encoded.
pub(crate) struct Placed {
    pub(crate) extents: Vec<Extent>,
    pub(crate) window: Option<Window>,
    pub(crate) encoding: Encoding,
}

/// A chunk that is stored by itself, or an outer one that holds others.
struct Piece {
    /// First index on each axis, and the lengths, both in the order of `axes`.
    start: Vec<u64>,
    lens: Vec<u64>,
    value: Value,
}

/// Finds the chunks of an array.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a chunk that is missing or has another length, [`ckpt_api::Kind::Limit`] for too many.
pub(crate) fn placed(
    array: &Array,
    find: &FindChunk<'_>,
    files: &mut Files<'_>,
    limits: &Limits,
) -> Result<Placed> {
    let innermost = innermost(&array.chain, &array.chunk);
    // Chunks at the edge are stored whole: the array is a window of what they cover together.
    let whole: Option<Vec<u64>> = array
        .shape
        .iter()
        .zip(&innermost.lens)
        .map(|(len, chunk)| len.div_ceil(*chunk).checked_mul(*chunk))
        .collect();
    let whole = Shape::new(whole.ok_or_else(|| Error::limit("the grid of chunks is too large"))?)?;
    let mut walk = Walk { array, find, files, limits, leaves: Vec::new() };
    walk.grid()?;
    let mut leaves = walk.leaves;
    let encoding = array.stored.encoding(&innermost.order);
    let is_cut = whole != array.shape && edges_begin_with_elements(&array.shape, &innermost);
    let whole = match is_cut && leaves.iter().all(|extent| extent.compression().is_none()) {
        true => {
            let element = array.stored.bytes();
            leaves.iter_mut().for_each(|extent| cut(extent, &array.shape, element));
            array.shape.clone()
        }
        false => whole,
    };
    if is_contiguous(&whole, &innermost) {
        leaves.iter_mut().for_each(|extent| extent.set_region(None));
    }
    let window = (whole != array.shape).then(|| Window::new(vec![0; whole.rank()], whole));
    Ok(Placed { extents: leaves, window, encoding })
}

/// The chunks that hold elements: their lengths, by the axes of the array, and the order of the axes in them.
struct Innermost {
    lens: Vec<u64>,
    order: Vec<usize>,
}

fn innermost(chain: &Chain, chunk: &[u64]) -> Innermost {
    let (mut chain, mut lens) = (chain, chunk.to_vec());
    let mut order = row_major(chunk.len());
    loop {
        lens = permuted(&lens, &chain.order);
        order = composed(&order, &chain.order);
        match &chain.step {
            Step::Bytes { .. } => return Innermost { lens: permuted(&lens, &inverse(&order)), order },
            Step::Sharding(sharding) => {
                lens.clone_from(&sharding.chunk);
                chain = &sharding.chain;
            }
        }
    }
}

/// Whether the chunks, one after the other, are the array: they are cut along the slowest axis only.
fn is_contiguous(whole: &Shape, innermost: &Innermost) -> bool {
    let is_row_major = innermost.order.iter().copied().eq(0..innermost.order.len());
    let is_whole = whole.iter().zip(&innermost.lens).skip(1).all(|(whole, chunk)| whole == chunk);
    is_whole && (is_row_major || whole.iter().zip(&innermost.lens).all(|(whole, chunk)| whole == chunk))
}

/// Whether a chunk at the edge begins with the elements of the array, and ends with what is beyond it.
fn edges_begin_with_elements(shape: &Shape, innermost: &Innermost) -> bool {
    let is_row_major = innermost.order.iter().copied().eq(0..innermost.order.len());
    let edge =
        shape.iter().zip(&innermost.lens).rposition(|(len, chunk)| !len.is_multiple_of((*chunk).max(1)));
    let before = innermost.lens.iter().take(edge.unwrap_or_default());
    is_row_major && before.into_iter().all(|chunk| *chunk == 1)
}

/// Cuts off what a chunk has beyond the array, which is behind its elements.
fn cut(extent: &mut Extent, shape: &Shape, element: u64) {
    let Some(region) = extent.region_mut() else { return };
    let lens = region.shape.iter().zip(&region.start).zip(shape.iter());
    let lens = lens.map(|((len, start), whole)| (*len).min(whole.saturating_sub(*start)));
    let Ok(lens) = Shape::new(lens) else { return };
    let bytes = lens.elements().saturating_mul(element);
    region.shape = lens;
    extent.len = bytes;
}

struct Walk<'a, 'f> {
    array: &'a Array,
    find: &'a FindChunk<'a>,
    files: &'a mut Files<'f>,
    limits: &'a Limits,
    leaves: Vec<Extent>,
}

impl Walk<'_, '_> {
    /// Goes over the chunks of the array in row-major order; the first that is missing ends it.
    fn grid(&mut self) -> Result<()> {
        let Array { shape, chunk, .. } = self.array;
        let counts: Vec<u64> = shape.iter().zip(chunk).map(|(len, chunk)| len.div_ceil(*chunk)).collect();
        let count = counts.iter().try_fold(1u64, |product, count| product.checked_mul(*count));
        let count = count.unwrap_or(u64::MAX);
        self.limits.check(Limit::Slices, count)?;
        let mut place = vec![0; counts.len()];
        for _ in 0..count {
            let key = self.array.keys.key(&place);
            let value = (self.find)(self.files, &key)?.ok_or_else(|| missing(&key))?;
            let start = place.iter().zip(chunk).map(|(place, chunk)| place.saturating_mul(*chunk)).collect();
            let piece = Piece { start, lens: chunk.clone(), value };
            let axes = row_major(counts.len());
            self.piece(piece, &self.array.chain, &axes)
                .map_err(|error| error.field(format!("chunk {key}")))?;
            advance(&mut place, &counts);
        }
        Ok(())
    }

    /// Adds a chunk, or those within it. `axes` are the axes of the array that those of the chunk are.
    fn piece(&mut self, piece: Piece, chain: &Chain, axes: &[usize]) -> Result<()> {
        let axes = composed(axes, &chain.order);
        let piece = Piece {
            start: permuted(&piece.start, &chain.order),
            lens: permuted(&piece.lens, &chain.order),
            value: piece.value,
        };
        match &chain.step {
            Step::Bytes { codecs, .. } => {
                let region = region(&piece, &axes)?;
                let len = region.shape.elements().checked_mul(self.array.stored.bytes());
                let len = len.ok_or_else(|| Error::limit("a chunk has too many bytes"))?;
                self.leaves.push(extent(&piece.value, len, codecs)?.with_region(region));
                Ok(())
            }
            Step::Sharding(sharding) => self.shard(&piece, sharding, &axes),
        }
    }

    fn shard(&mut self, shard: &Piece, sharding: &Sharding, axes: &[usize]) -> Result<()> {
        let counts: Vec<u64> =
            shard.lens.iter().zip(&sharding.chunk).map(|(len, chunk)| len / chunk).collect();
        let count = counts.iter().try_fold(1u64, |product, count| product.checked_mul(*count));
        let count = count.ok_or_else(|| Error::corrupt("a shard has too many chunks"))?;
        let ranges = read_index(&shard.value, count, sharding.index, self.files)?;
        let mut place = vec![0u64; counts.len()];
        for range in ranges {
            let start: Vec<u64> = (shard.start.iter().zip(&place).zip(&sharding.chunk))
                .map(|((start, place), chunk)| start.saturating_add(place.saturating_mul(*chunk)))
                .collect();
            advance(&mut place, &counts);
            let lens = permuted(&self.array.shape, axes);
            if start.iter().zip(&lens).any(|(start, len)| start >= len) {
                // Outside of the array, where nothing is stored, or nothing that counts.
                continue;
            }
            self.limits.check(Limit::Slices, self.leaves.len() as u64 + 1)?;
            let lens = sharding.chunk.clone();
            match range {
                Some(range) => {
                    let value = part(&shard.value, range)?;
                    self.piece(Piece { start, lens, value }, &sharding.chain, axes)?;
                }
                None => self.hole(Piece { start, lens, value: shard.value.clone() }, sharding, axes)?,
            }
        }
        Ok(())
    }

    /// A chunk that the index of its shard leaves out: all of it has the value that fills the array.
    fn hole(&mut self, piece: Piece, sharding: &Sharding, axes: &[usize]) -> Result<()> {
        let Step::Bytes { .. } = sharding.chain.step else {
            return Err(Error::corrupt("a shard within a shard is missing").help("copy the checkpoint again"));
        };
        if !self.array.fills_with_zeros {
            return Err(Error::unsupported("a chunk that is not stored has another value than zero"));
        }
        let region = region(&piece, axes)?;
        let len = region.shape.elements().checked_mul(self.array.stored.bytes());
        let len = len.ok_or_else(|| Error::limit("a chunk has too many bytes"))?;
        let (file, offset) = match &piece.value {
            Value::Inline { file, node, .. } => (*file, *node),
            Value::Stored(stored) => (stored.file, stored.offset),
        };
        let zeros = Compression::new(Decoder::REPEATED, 0);
        self.leaves.push(Extent::new(file, offset, len).with_compression(zeros).with_region(region));
        Ok(())
    }
}

fn missing(key: &str) -> Error {
    Error::corrupt("a chunk of the array is missing")
        .field(format!("chunk {key}"))
        .help("copy all files of the checkpoint, or use another step")
}

/// The box of the array that a chunk holds whose axes are these of the array.
fn region(piece: &Piece, axes: &[usize]) -> Result<Region> {
    let back = inverse(axes);
    Ok(Region { start: permuted(&piece.start, &back), shape: Shape::new(permuted(&piece.lens, &back))? })
}

/// A part of a value.
fn part(value: &Value, range: Range<u64>) -> Result<Value> {
    let outside = || Error::corrupt("a chunk of a shard ends after it");
    match value {
        Value::Stored(StoredValue { file, offset, .. }) => Ok(Value::Stored(StoredValue {
            file: *file,
            offset: offset.checked_add(range.start).ok_or_else(outside)?,
            len: range.end.checked_sub(range.start).ok_or_else(outside)?,
        })),
        Value::Inline { bytes, file, node, at } => {
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let bytes = bytes.get(index(range.start)..index(range.end)).ok_or_else(outside)?;
            let at = at.checked_add(range.start).ok_or_else(outside)?;
            Ok(Value::Inline { bytes: bytes.into(), file: *file, node: *node, at })
        }
    }
}

/// The extent of a value that decodes to so many bytes.
fn extent(value: &Value, len: u64, codecs: &[ByteCodec]) -> Result<Extent> {
    if codecs.is_empty() && value.len() != len {
        return Err(Error::corrupt("a chunk has another length than its shape")
            .found(ckpt_api::count(value.len(), "byte"))
            .expected(ckpt_api::count(len, "byte")));
    }
    Ok(match value {
        Value::Stored(stored) => Extent::new(stored.file, stored.offset, len)
            .with_compression(decode::of_stored(codecs, stored.len)),
        Value::Inline { bytes, file, node, at } => {
            Extent::new(*file, *node, len).with_compression(decode::of_inline(codecs, bytes, *at))
        }
    })
}

/// Goes to the next place, the last axis first.
fn advance(place: &mut [u64], counts: &[u64]) {
    for (own, count) in place.iter_mut().zip(counts).rev() {
        *own += 1;
        if *own < *count {
            return;
        }
        *own = 0;
    }
}
