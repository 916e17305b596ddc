//! Rows of an output, computed by several threads.

use std::num::NonZero;

/// Multiplications below which starting a thread costs more than it saves.
const LEAST: usize = 1 << 18;

/// Calls `compute(first, rows)` on consecutive parts of `y`, which has `row` elements for each row: `first` is the number of the part's
/// first row. `work` is the number of multiplications of all. Each element is computed by one call, so that the result does not
/// depend on the number of threads.
pub(super) fn rows<T: Send>(
    y: &mut [T],
    row: usize,
    work: usize,
    compute: impl Fn(usize, &mut [T]) -> Option<()> + Sync,
) -> Option<()> {
    if row == 0 || y.is_empty() {
        return Some(());
    }
    let count = y.len() / row;
    let threads =
        std::thread::available_parallelism().map_or(1, NonZero::get).min(work / LEAST).clamp(1, count.max(1));
    if threads == 1 {
        return compute(0, y);
    }
    let each = count.div_ceil(threads);
    let compute = &compute;
    std::thread::scope(|scope| {
        let parts = y.chunks_mut(each * row).enumerate();
        let running: Vec<_> = parts.map(|(part, y)| scope.spawn(move || compute(part * each, y))).collect();
        // A thread that panics makes the whole call panic, as if there were one.
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
