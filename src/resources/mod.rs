//! Memory and threads: what may be used, and how workers share it.

mod address_space;
mod budget;
mod parallel;

pub(crate) use address_space::{PER_THREAD, address_space_left};
pub(crate) use budget::{ALL_TILES, Budget, DECOMPRESSED};
pub(crate) use parallel::{default_threads, in_parallel};

/// What a conversion may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Resources {
    /// Bytes of memory.
    pub max_memory: u64,
    /// Threads; 0 for as many as there are processors, at most 4.
    pub threads: usize,
    /// Bytes of one item, the unit of work that resume and clusters know; 0 for a thirty-second of the output, within 1
    /// and 64 MiB.
    pub item_size: u64,
}

impl Default for Resources {
    fn default() -> Self {
        Resources { max_memory: 256 << 20, threads: 0, item_size: 0 }
    }
}
