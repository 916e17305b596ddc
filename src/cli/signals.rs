//! Signals that ask a conversion to stop.

use ckpt_api::Error;
use signal_hook::consts;
use signal_hook::flag;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// Those by which people end a program. A second one ends it at once.
#[cfg(unix)]
const URGENT: &[c_int] = &[consts::SIGINT, consts::SIGTERM, consts::SIGHUP, consts::SIGQUIT];
#[cfg(not(unix))]
const URGENT: &[c_int] = &[consts::SIGINT, consts::SIGTERM];

/// All others that end a process which does not expect them, but those of a crash (SIGSEGV and its like), after which a
/// process cannot go on. A timer, or the limit on processor time, sends them again and again.
#[cfg(unix)]
const OTHERS: &[c_int] = &[
    consts::SIGABRT,
    consts::SIGALRM,
    consts::SIGPROF,
    consts::SIGTRAP,
    consts::SIGUSR1,
    consts::SIGUSR2,
    consts::SIGVTALRM,
    consts::SIGXCPU,
];
#[cfg(not(unix))]
const OTHERS: &[c_int] = &[];

/// SIGSTKFLT, SIGIO, SIGPWR, and the real-time signals that the C library leaves to programs.
#[cfg(all(
    target_os = "linux",
    not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64"))
))]
const OF_SYSTEM: [std::ops::RangeInclusive<c_int>; 3] = [16..=16, 29..=30, 34..=64];
#[cfg(not(all(
    target_os = "linux",
    not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64"))
)))]
const OF_SYSTEM: [std::ops::RangeInclusive<c_int>; 0] = [];

/// The one that came last; 0 before.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on, a signal that would end the process sets `canceled`, and an urgent one that comes second ends it at once:
/// what that leaves is removed by the next conversion to the same output, or kept by `--resume`.
pub(super) fn watch(canceled: &Arc<AtomicBool>) {
    let ignored = ignored();
    let is_heeded = |signal: &c_int| ignored >> (signal - 1) & 1 == 0;
    for signal in URGENT.iter().copied().filter(is_heeded) {
        // Fails only for signals that cannot be caught.
        let _ = flag::register_conditional_shutdown(signal, code_of(signal), Arc::clone(canceled));
    }
    let all = URGENT.iter().chain(OTHERS).copied().chain(OF_SYSTEM.into_iter().flatten());
    for signal in all.filter(is_heeded) {
        let _ = flag::register(signal, Arc::clone(canceled));
        let _ = flag::register_usize(signal, Arc::clone(&RECEIVED), usize::try_from(signal).unwrap_or(0));
    }
    // A file that may not become so large is an error like a full disk, and no reason to be killed.
    #[cfg(unix)]
    drop(flag::register(consts::SIGXFSZ, Arc::default()));
}

/// Signals that the process was started to ignore, as by `nohup`: bit N − 1 for signal N. Where the system does not say, none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
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
