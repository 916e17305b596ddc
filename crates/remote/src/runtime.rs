//! The threads on which requests run. Whoever needs an answer waits for it on a thread of its own.

use ckpt_api::{Error, Result};
use std::sync::OnceLock;
use std::sync::mpsc;
use tokio::runtime::{Builder, Runtime};

/// Requests wait more than they compute.
const THREADS: usize = 2;

fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(THREADS).thread_name("ckpt-store").enable_all();
        builder.build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| {
        Error::io("cannot start the threads that requests need", std::io::Error::other(error.as_str()))
    })
}

/// Runs a future to its end, and returns what it yields.
///
/// It may be called on any thread, also on one of an asynchronous runtime: it blocks that thread alone.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] if no thread can be started; [`ckpt_api::Kind::Defect`] if the future panics.
pub(super) fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    spawn(async move {
        // Nobody waits where the caller was unwound.
        let _ = sender.send(future.await);
    })?;
    receiver.recv().map_err(|_| Error::defect("a request ended without an answer"))
}

/// Runs a future beside the caller.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] if no thread can be started.
pub(super) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    runtime()?.spawn(future);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_on_a_thread_of_a_runtime_blocks_and_does_not_panic() {
        let answer = wait(async { tokio::task::block_in_place(|| wait(async { 7 })) });
        assert_eq!(answer.unwrap().unwrap(), 7);
    }

    #[test]
    fn a_request_that_panics_is_an_error() {
        let error = wait(async { panic!("a test's panic") }).unwrap_err();
        assert_eq!(error.kind(), ckpt_api::Kind::Defect);
    }
}
