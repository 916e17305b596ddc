//! Pieces of a file, read or written by several threads.

use crate::errors::Failure;
use crate::work::Canceled;
use ckpt::api::Error;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Bytes of a piece.
pub(super) const CHUNK: usize = 4 << 20;

/// Threads: more do not make memory faster.
const MOST: usize = 4;

/// Pieces that one thread takes at once, where they are small.
const BATCH: usize = 64;

/// Works on all pieces, in their order. An error stops the rest.
pub(super) fn in_parallel<T: Send>(
    pieces: Vec<T>,
    canceled: &Canceled,
    work: impl Fn(T) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(MOST).min(pieces.len().div_ceil(BATCH.min(2)));
    let batch = if pieces.len() > threads * BATCH { BATCH } else { 1 };
    let left = Mutex::new(pieces.into_iter());
    let failed = Mutex::new(None);
    let worker = || {
        loop {
            if canceled.load(Ordering::Relaxed) || lock(&failed).is_some() {
                return;
            }
            let taken: Vec<T> = lock(&left).by_ref().take(batch).collect();
            if taken.is_empty() {
                return;
            }
            if let Err(failure) = taken.into_iter().try_for_each(&work) {
                lock(&failed).get_or_insert(failure);
            }
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
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None if canceled.load(Ordering::Relaxed) => {
            Err(Error::io("interrupted", std::io::ErrorKind::Interrupted.into()).into())
        }
        None => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
