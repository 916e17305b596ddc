//! How much memory a worker may use: what chunks and tiles are sized by.

/// How large the pieces are in which a stream works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes read at once where order does not change: a multiple of 48, which whole elements of every dtype,
    /// packed or not, fill exactly.
    pub(crate) chunk: usize,
    /// Bytes of one tile where order changes; two of them are in memory.
    pub(crate) tile: u64,
}

/// Bytes read at once: small enough to stay in the L2 cache while the checksum runs over them.
const CHUNK: u64 = 768 << 10;
/// What the tiles of all workers may have together. Of a square matrix of 64 MiB, this is rows of the result from end
/// to end, made of runs of 8 KiB; half of it is made of runs of 4 KiB, which cost twice as many system calls.
pub(crate) const ALL_TILES: u64 = 32 << 20;
/// A tile that is large enough if the order of elements changes only within smaller blocks: their runs do not get longer.
const SUFFICIENT_TILE: u64 = 1 << 20;
/// What the compressed extents that a worker keeps open may hold, unless one alone holds more.
pub(crate) const DECOMPRESSED: u64 = 8 << 20;
/// Elements that a worker computes at once, where numbers are computed from stored ones.
pub(crate) const COMPUTED_ELEMENTS: u64 = 64 << 10;
/// What a worker needs for them at most: the elements before, between and after, and the scales of their blocks.
pub(crate) const COMPUTING: u64 = 8 * 4 * COMPUTED_ELEMENTS;
/// The least that leaves runs long enough to be read one by one.
const SMALLEST_TILE: u64 = 64 << 10;
/// Source tile, result tile, and the spare that a cast needs (which may be eight times its source).
const BUFFERS: u64 = 4;

impl Default for Budget {
    fn default() -> Self {
        Budget { chunk: CHUNK as usize, tile: ALL_TILES / 2 }
    }
}

impl Budget {
    /// The least that one worker can do with.
    pub(crate) const LEAST: u64 = SMALLEST_TILE * BUFFERS;

    /// What one worker may use of `bytes`; `None` if they do not suffice.
    pub(crate) fn of(bytes: u64) -> Option<Budget> {
        let tile = (bytes / BUFFERS).min(ALL_TILES);
        if tile < SMALLEST_TILE {
            return None;
        }
        let chunk = CHUNK.min(bytes / BUFFERS) / 48 * 48;
        Some(Budget { chunk: usize::try_from(chunk).ok()?, tile })
    }

    /// The budget of one of several workers: what all hold together is bounded, however much is allowed.
    pub(crate) fn among(self, workers: usize) -> Budget {
        Budget { tile: self.tile.min((ALL_TILES / workers.max(1) as u64).max(SMALLEST_TILE)), ..self }
    }

    /// The budget of each of two streams that are read in lockstep, with what was read and not yet compared.
    pub(crate) fn of_two(self) -> Budget {
        Budget { tile: self.tile / 3, ..self.for_growth(3) }
    }

    /// Smaller chunks, so that those that grow on the way stay within the budget.
    pub(crate) fn for_growth(self, factor: usize) -> Budget {
        Budget { chunk: (self.chunk / factor / 48 * 48).max(48), ..self }
    }

    /// The budget for elements whose order changes only within blocks of so many bytes.
    pub(crate) fn for_blocks(self, bytes: u64) -> Budget {
        Budget { tile: self.tile.min(bytes.max(SUFFICIENT_TILE)), ..self }
    }

    /// What one worker with this budget holds at most for a tensor of `bytes`, whose order changes within blocks of so many bytes,
    /// if it does.
    pub(crate) fn peak(self, bytes: u64, reordered: Option<u64>) -> u64 {
        let piece = reordered.map_or(self.chunk as u64, |block| self.for_blocks(block).tile);
        piece.min(bytes) * BUFFERS
    }
}
