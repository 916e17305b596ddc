//! Where the chunks of a dataset are.

use super::arrays::{Entry, ExtensibleArray, FixedArray};
use super::message::{Filters, Index};
use super::space::Space;
use super::tree1::{self, Kind};
use super::tree2::{CHUNKS, FILTERED_CHUNKS, Tree};
use ckpt_api::fields::le;
use ckpt_api::{Error, Limit, Result, Shape};
use nom::Parser;
use std::collections::HashMap;

/// A stored chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) address: u64,
    /// Bytes in the file.
    pub(crate) stored: u64,
    /// Which filters were left out.
    pub(crate) mask: u32,
}

/// The chunks of a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Grid<'a> {
    pub(crate) shape: &'a Shape,
    /// The greatest length of each axis; `None` if it is not limited.
    pub(crate) most: &'a [Option<u64>],
    /// The shape of a chunk, as many axes.
    pub(crate) chunk: &'a [u64],
    /// Bytes of a chunk before filters.
    pub(crate) bytes: u64,
    pub(crate) filters: Filters,
    pub(crate) filters_edges: bool,
}

impl Grid<'_> {
    /// The number of chunks along each axis.
    fn counts(&self) -> Vec<u64> {
        self.shape.iter().zip(self.chunk).map(|(len, chunk)| len.div_ceil(*chunk)).collect()
    }

    /// The number of chunks along each axis when it has its greatest length.
    fn most_counts(&self) -> Vec<Option<u64>> {
        self.most.iter().zip(self.chunk).map(|(len, chunk)| Some(len.as_ref()?.div_ceil(*chunk))).collect()
    }

    /// The steps that the chunks at these places went through; edges may have gone through none.
    pub(crate) fn filters_at(&self, place: &[u64]) -> Filters {
        let lens = self.shape.iter().zip(self.chunk);
        let is_edge =
            place.iter().zip(lens).any(|(place, (len, chunk))| (place + 1).saturating_mul(*chunk) > *len);
        if is_edge && !self.filters_edges { Filters::default() } else { self.filters }
    }

    /// Lists all places of chunks, and the chunk at each that was written.
    pub(crate) fn chunks(
        &self,
        space: &Space<'_>,
        index: Index,
        address: Option<u64>,
    ) -> Result<Vec<(Vec<u64>, Option<Chunk>)>> {
        let counts = self.counts();
        let count = counts.iter().try_fold(1u64, |product, count| product.checked_mul(*count));
        let count = count.unwrap_or(u64::MAX);
        space.limits.check(Limit::Slices, count)?;
        let mut found = Found::read(self, space, index, address)?;
        let mut chunks = Vec::with_capacity(count as usize);
        let mut place = vec![0; counts.len()];
        for _ in 0..count {
            let chunk = found.at(self, space, &place)?;
            chunks.push((place.clone(), chunk));
            advance(&mut place, &counts);
        }
        Ok(chunks)
    }

    fn plain(&self, address: u64) -> Chunk {
        Chunk { address, stored: self.bytes, mask: 0 }
    }

    fn entry(&self, entry: Entry) -> Chunk {
        let (stored, mask) = entry.filtered.unwrap_or((self.bytes, 0));
        Chunk { address: entry.address, stored, mask }
    }
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

/// The number of a place, row-major; the first axis needs no length.
fn number(place: &[u64], counts: &[Option<u64>]) -> Option<u64> {
    place.iter().zip(counts).enumerate().try_fold(0u64, |number, (axis, (own, count))| match (axis, count) {
        (0, _) => Some(*own),
        (_, count) => number.checked_mul((*count)?)?.checked_add(*own),
    })
}

/// An index that was read.
enum Found {
    Nothing,
    Listed(HashMap<Vec<u64>, Chunk>),
    Implicit(u64),
    Fixed(FixedArray),
    /// With the axis that is not limited.
    Extensible(ExtensibleArray, usize),
}

impl Found {
    fn read(grid: &Grid<'_>, space: &Space<'_>, index: Index, address: Option<u64>) -> Result<Self> {
        let Some(address) = address else { return Ok(Found::Nothing) };
        let is_filtered = !grid.filters.is_empty();
        Ok(match index {
            Index::Tree1 => Found::Listed(listed_by_tree_1(grid, space, address)?),
            Index::Tree2 => Found::Listed(listed_by_tree_2(grid, space, address)?),
            Index::Single { filtered } => {
                let chunk = grid.entry(Entry { address, filtered });
                Found::Listed(HashMap::from([(vec![0; grid.chunk.len()], chunk)]))
            }
            Index::Implicit => Found::Implicit(address),
            Index::FixedArray => Found::Fixed(FixedArray::read(space, address, is_filtered)?),
            Index::ExtensibleArray => {
                let axis = grid.most.iter().position(Option::is_none);
                let axis = axis.ok_or_else(|| {
                    Error::corrupt("the chunks of a limited dataset have an extensible array")
                })?;
                Found::Extensible(ExtensibleArray::read(space, address, is_filtered)?, axis)
            }
        })
    }

    fn at(&mut self, grid: &Grid<'_>, space: &Space<'_>, place: &[u64]) -> Result<Option<Chunk>> {
        let overflow = || Error::corrupt("a chunk's number is too large");
        match self {
            Found::Nothing => Ok(None),
            Found::Listed(chunks) => Ok(chunks.get(place).copied()),
            Found::Implicit(start) => {
                let number =
                    number(place, &grid.most_counts()).and_then(|number| number.checked_mul(grid.bytes));
                let address = number.and_then(|offset| start.checked_add(offset)).ok_or_else(overflow)?;
                Ok(Some(grid.plain(address)))
            }
            Found::Fixed(array) => {
                let number = number(place, &grid.most_counts()).ok_or_else(overflow)?;
                Ok(array.entry(space, number)?.map(|entry| grid.entry(entry)))
            }
            Found::Extensible(array, axis) => {
                // The axis without a limit comes first.
                let (mut place, mut counts) = (place.to_vec(), grid.most_counts());
                if let (Some(place), Some(counts)) = (place.get_mut(..=*axis), counts.get_mut(..=*axis)) {
                    place.rotate_right(1);
                    counts.rotate_right(1);
                }
                let number = number(&place, &counts).ok_or_else(overflow)?;
                Ok(array.entry(space, number)?.map(|entry| grid.entry(entry)))
            }
        }
    }
}

fn listed_by_tree_1(grid: &Grid<'_>, space: &Space<'_>, root: u64) -> Result<HashMap<Vec<u64>, Chunk>> {
    let mut chunks = HashMap::new();
    tree1::walk(space, root, Kind::Chunks(grid.chunk.len()), |key, address| {
        let at = key.position();
        let (stored, mask) = key.parse((le::<u32>.map(u64::from), le::<u32>))?;
        let mut place = Vec::with_capacity(grid.chunk.len());
        for chunk in grid.chunk {
            let start = key.number(8)?;
            if start % chunk != 0 {
                return Err(Error::corrupt("a chunk does not lie on the grid")
                    .offset(at)
                    .found(start.to_string()));
            }
            place.push(start / chunk);
        }
        add(&mut chunks, place, Chunk { address, stored, mask }, at)
    })?;
    Ok(chunks)
}

fn listed_by_tree_2(grid: &Grid<'_>, space: &Space<'_>, root: u64) -> Result<HashMap<Vec<u64>, Chunk>> {
    let kind = if grid.filters.is_empty() { CHUNKS } else { FILTERED_CHUNKS };
    let tree = Tree::read(space, root, &[kind])?;
    let fixed = u64::from(space.sizes.address) + 8 * grid.chunk.len() as u64;
    let len_bytes = match tree.kind() {
        CHUNKS => 0,
        _ => tree.record.saturating_sub(fixed + 4).min(8) as u8,
    };
    let mut chunks = HashMap::new();
    tree.walk(space, |record| {
        let at = record.position();
        let address = record.some_address("a chunk")?;
        let (stored, mask) = match kind {
            CHUNKS => (grid.bytes, 0),
            _ => (record.number(len_bytes)?, record.parse(le::<u32>)?),
        };
        let place = grid.chunk.iter().map(|_| record.number(8)).collect::<Result<Vec<_>>>()?;
        add(&mut chunks, place, Chunk { address, stored, mask }, at)
    })?;
    Ok(chunks)
}

fn add(chunks: &mut HashMap<Vec<u64>, Chunk>, place: Vec<u64>, chunk: Chunk, at: u64) -> Result<()> {
    match chunks.insert(place, chunk) {
        None => Ok(()),
        Some(_) => Err(Error::corrupt("two chunks of a dataset have the same place").offset(at)),
    }
}
