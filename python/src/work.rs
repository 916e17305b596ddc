//! Work without the GIL, that Ctrl-C ends.

use crate::errors::Failure;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long a signal may wait until Python looks at it.
const PATIENCE: Duration = Duration::from_millis(25);

/// Set when the work is to end.
pub(crate) type Canceled = Arc<AtomicBool>;

/// What becomes of work that Ctrl-C interrupts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// It is waited for, because it cleans up.
    Joined,
    /// It ends by itself: it changes nothing.
    Abandoned,
}

/// Does short work here, without the GIL.
pub(crate) fn short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    py.detach(|| caught(work)).map_err(|failure| failure.into_python(py))
}

/// Does work on a thread of its own, while this one looks for signals.
pub(crate) fn long<T: Send + 'static>(
    py: Python<'_>,
    interrupted: Interrupted,
    work: impl FnOnce(&Canceled) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    watched(py, interrupted, |_| Ok(()), work)
}

/// As [`long`]; calls `tell` now and then, and at the end. An exception of its own ends the work.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    interrupted: Interrupted,
    mut tell: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce(&Canceled) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let canceled = Canceled::default();
    let (sender, receiver) = channel();
    let flag = Arc::clone(&canceled);
    let run = move || {
        // Nobody waits for what was abandoned.
        let _ = sender.send(caught(|| work(&flag)));
    };
    let thread = std::thread::Builder::new().name("ckpt".to_owned()).spawn(run)?;
    // Only one thread asks; the mutex makes the receiver one that `detach` takes.
    let receiver = std::sync::Mutex::new(receiver);
    let receive = || match receiver.lock() {
        Ok(receiver) => receiver.recv_timeout(PATIENCE),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    loop {
        match py.detach(receive) {
            Ok(result) => {
                // Its last act was to send.
                let _ = py.detach(|| thread.join());
                if result.is_ok() {
                    tell(py)?;
                }
                return result.map_err(|failure| failure.into_python(py));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Panic("a thread ended early".to_owned()).into_python(py));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(signal) = py.check_signals().and_then(|()| tell(py)) {
            canceled.store(true, Ordering::Relaxed);
            if interrupted == Interrupted::Joined {
                let _ = py.detach(|| thread.join());
            }
            return Err(signal);
        }
    }
}

/// Makes a failure of a panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // What the work changed is its own.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}
