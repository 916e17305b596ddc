//! Signals that ask a conversion to stop.

use ckpt_api::Error;
use signal_hook::consts;
use signal_hook::flag;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

#[cfg(unix)]
const SIGNALS: [c_int; 3] = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];
#[cfg(not(unix))]
const SIGNALS: [c_int; 2] = [consts::SIGINT, consts::SIGTERM];

/// The one that came last; 0 before.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on, such a signal sets `canceled`, and a second one ends the process at once: what that leaves is removed by
/// the next conversion to the same output, or kept by `--resume`.
pub(super) fn watch(canceled: &Arc<AtomicBool>) {
    for signal in SIGNALS {
        // Fails only for signals that cannot be caught.
        let _ = flag::register_conditional_shutdown(signal, code_of(signal), Arc::clone(canceled));
        let _ = flag::register(signal, Arc::clone(canceled));
        let _ = flag::register_usize(signal, Arc::clone(&RECEIVED), usize::try_from(signal).unwrap_or(0));
    }
    // A file that may not become so large is an error like a full disk, and no reason to be killed.
    #[cfg(unix)]
    drop(flag::register(consts::SIGXFSZ, Arc::default()));
}

/// As shells give it to a process that a signal ended; `None` where none ended this one.
pub(super) fn exit_code(error: &Error) -> Option<u8> {
    let source = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    let received = c_int::try_from(RECEIVED.load(Ordering::Relaxed)).ok().filter(|signal| *signal > 0);
    let signal = received.filter(|_| source.kind() == io::ErrorKind::Interrupted)?;
    u8::try_from(code_of(signal)).ok()
}

fn code_of(signal: c_int) -> c_int {
    128 + signal
}
