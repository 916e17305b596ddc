//! Memory and threads: what may be used, and how workers share it.

mod address_space;
mod budget;
mod parallel;

pub(crate) use address_space::{PER_THREAD, address_space_left};
pub use address_space::{first_stack, open_files};
pub use budget::Budget;
pub(crate) use budget::{ALL_TILES, COMPUTED_ELEMENTS, COMPUTING, DECOMPRESSED};
pub use parallel::{default_threads, in_parallel};

/// What a conversion may use.
///
/// ```
/// let resources = ckpt::Resources::new().max_memory(64 << 20).threads(2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
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

impl Resources {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds the memory, in bytes. Default: 256 MiB.
    #[must_use]
    pub fn max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = bytes;
        self
    }

    /// Sets the number of threads. Default: 0, which is as many as there are processors, at most 4.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the size of an item, in bytes. Default: 0, which is a thirty-second of the output, within 1 and 64 MiB.
    #[must_use]
    pub fn item_size(mut self, bytes: u64) -> Self {
        self.item_size = bytes;
        self
    }
}
