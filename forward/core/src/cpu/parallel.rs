//! Computes the rows of an output on several threads.

use std::num::NonZero;
use std::sync::OnceLock;

/// Multiplications below which a thread costs more than it saves.
const MIN_WORK: usize = 1 << 18;

/// Calls `compute(first, part)` on consecutive parts of `y`, in rows of `row` elements; `first` is the index of the
/// part's first row.
///
/// `work` is the total number of multiplications. One call computes each element, so the result does not depend on
/// the number of threads.
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
    let threads = most_threads().min(work / MIN_WORK).clamp(1, count.max(1));
    if threads == 1 {
        return compute(0, y);
    }
    let each = count.div_ceil(threads);
    let compute = &compute;
    std::thread::scope(|scope| {
        let parts = y.chunks_mut(each * row).enumerate();
        let running: Vec<_> = parts.map(|(part, y)| scope.spawn(move || compute(part * each, y))).collect();
        // A panic of a thread is a panic of the call.
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// The threads that the system gives the process. Asking takes as long as a small kernel, because the system reads files.
pub(super) fn most_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}
