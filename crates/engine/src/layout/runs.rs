//! Contiguous runs of bytes that two boxes have in common.

use ckpt_api::Region;

/// Contiguous runs of bytes that a box has in common in an extent (at the source) and in the gathered box (the target).
pub(crate) struct Runs {
    /// Bytes of one run.
    pub(crate) len: u64,
    /// Outer axes, slowest first: length, distance in the source, distance in the target, in bytes.
    outer: Vec<[u64; 3]>,
    pub(crate) source: u64,
    target: u64,
}

impl Runs {
    /// One run, as long as everything that is handed out at once.
    pub(crate) fn one(source: u64, len: u64) -> Self {
        Runs { len, outer: Vec::new(), source, target: 0 }
    }

    /// The runs of `tile`, a box of `whole` whose axes are stored in `order`, by elements of `size` bytes.
    pub(crate) fn of_tile(whole: &Region, tile: &Region, order: &[usize], size: u64) -> Self {
        Self::new(whole, tile, tile, order, size)
    }

    pub(crate) fn new(stored: &Region, wanted: &Region, common: &Region, order: &[usize], size: u64) -> Self {
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

    /// How far apart neighbors begin at the source; `None` if there is one run.
    pub(crate) fn row(&self) -> Option<u64> {
        self.outer.last().map(|[_, step, _]| *step)
    }

    /// Where the last run ends at the source.
    pub(crate) fn end(&self) -> u64 {
        let last: u64 = self.outer.iter().map(|[count, step, _]| (count - 1) * step).sum();
        self.source + last + self.len
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.len * self.outer.iter().map(|[count, ..]| count).product::<u64>()
    }

    /// (offset in the extent, offset in the gathered box) of every run, in the extent's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
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
