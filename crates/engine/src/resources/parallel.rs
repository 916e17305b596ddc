//! The same work for many things, on several threads.

use super::address_space::{PER_THREAD, address_space_left};
use super::budget::Budget;
use ckpt_api::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `work` for every item, handed out in order; the results are in that order too. An error stops the rest; of
/// several, the one that comes first in `items` is returned.
pub fn in_parallel<T: Copy + Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(*item);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without that thread it takes longer; the work is done all the same.
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect::<Result<Vec<R>, Error>>()
}

/// As many threads as there are processors and room for, at most four.
pub fn default_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let each = PER_THREAD + Budget::default().peak(u64::MAX, Some(u64::MAX));
    let roomy =
        address_space_left().map_or(usize::MAX, |room| usize::try_from(room / each).unwrap_or(usize::MAX));
    processors.min(roomy.max(1)).min(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;

    #[test]
    fn as_many_threads_work_as_were_asked_for_and_no_more() {
        for threads in 1..=5 {
            // Nobody passes before so many have come.
            let barrier = Barrier::new(threads);
            let items = vec![(); 3 * threads];
            let worked = in_parallel(&items, threads, |()| {
                barrier.wait();
                Ok(std::thread::current().id())
            });
            assert_eq!(worked.unwrap().into_iter().collect::<HashSet<_>>().len(), threads);
        }
    }
}
