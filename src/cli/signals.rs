//! Signals that ask a conversion to stop.

use ckpt_api::Error;
use signal_hook::consts;
use signal_hook::flag;
#[cfg(unix)]
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::io;
#[cfg(unix)]
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
#[cfg(unix)]
use std::time::Duration;

/// Those by which people end a program. A second one ends it at once, unless it follows within [`GRACE`].
#[cfg(unix)]
const URGENT: &[c_int] = &[consts::SIGINT, consts::SIGTERM, consts::SIGHUP, consts::SIGQUIT];
#[cfg(not(unix))]
const URGENT: &[c_int] = &[consts::SIGINT, consts::SIGTERM];

/// All others that end a process which does not expect them, but those of a crash (SIGSEGV and its like), after which a
/// process cannot go on: after SIGSYS, the call that the system refused would seem to succeed. A timer, or the limit on
/// processor time, sends them again and again.
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

/// Signals that come so soon after the first ask for the same: a scheduler often sends one to the process and one to
/// its group.
#[cfg(unix)]
const GRACE: Duration = Duration::from_secs(1);

/// The one that came last; 0 before.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// The one that came first, as far as [`wait`] saw it; 0 before.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// From now on, a signal that would end the process sets `canceled`, and an urgent one that comes later ends it at
/// once: what that leaves is removed by the next conversion to the same output, or kept by `--resume`.
pub(super) fn watch(canceled: &Arc<AtomicBool>) {
    let ignored = ignored();
    let is_heeded = |signal: &c_int| ignored >> (signal - 1) & 1 == 0;
    let all = URGENT.iter().chain(OTHERS).copied().chain(OF_SYSTEM.into_iter().flatten());
    let all: Vec<c_int> = all.filter(is_heeded).collect();
    let ends_at_once = wait(&all).unwrap_or_else(|_| Arc::clone(canceled));
    for signal in URGENT.iter().copied().filter(is_heeded) {
        // One that cannot be caught ends the process at once anyway.
        let _ = flag::register_conditional_shutdown(signal, code_of(signal), Arc::clone(&ends_at_once));
    }
    for signal in all {
        let _ = flag::register(signal, Arc::clone(canceled));
        let _ = flag::register_usize(signal, Arc::clone(&RECEIVED), usize::try_from(signal).unwrap_or(0));
    }
    // A file that may not become so large is an error like a full disk, and no reason to be killed.
    #[cfg(unix)]
    drop(flag::register(consts::SIGXFSZ, Arc::default()));
}

/// Starts a thread that waits for the first of these signals. It keeps which one that was, and sets the result when
/// [`GRACE`] is over.
#[cfg(unix)]
fn wait(signals: &[c_int]) -> io::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut signals = accepted(signals)?;
    let set = Arc::clone(&is_over);
    // A stack of the usual size would count against `ulimit -v`.
    std::thread::Builder::new().name("signals".to_owned()).stack_size(64 << 10).spawn(move || {
        let Some(first) = signals.forever().next() else { return };
        let _ = FIRST.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
        std::thread::sleep(GRACE);
        set.store(true, Ordering::Relaxed);
    })?;
    Ok(is_over)
}

/// Waits for those of these signals that can be caught. C libraries keep real-time signals for themselves, and differ
/// in which: glibc the first two, musl the first three.
#[cfg(unix)]
fn accepted(signals: &[c_int]) -> io::Result<Signals> {
    let caught = Signals::new(iter::empty::<c_int>())?;
    let handle = caught.handle();
    // One that is refused leaves out itself alone.
    signals.iter().for_each(|signal| drop(handle.add_signal(*signal)));
    Ok(caught)
}

#[cfg(not(unix))]
fn wait(_signals: &[c_int]) -> io::Result<Arc<AtomicBool>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Signals that the process was started to ignore, as by `nohup`: bit N − 1 for signal N. None where the system does
/// not report them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// As shells give it to a process that a signal ended; `None` if none ended this one.
pub(super) fn exit_code(error: &Error) -> Option<u8> {
    let source = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    let received = || c_int::try_from(RECEIVED.load(Ordering::Relaxed)).ok();
    let first = Some(FIRST.load(Ordering::Relaxed)).filter(|signal| *signal > 0).or_else(received);
    let signal =
        first.filter(|signal| *signal > 0).filter(|_| source.kind() == io::ErrorKind::Interrupted)?;
    u8::try_from(code_of(signal)).ok()
}

fn code_of(signal: c_int) -> c_int {
    128 + signal
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use ckpt_engine::execute::interrupted;
    use signal_hook::low_level::raise;
    use std::time::Instant;

    #[test]
    fn a_signal_that_the_system_refuses_does_not_keep_others_from_being_caught() {
        // SIGURG does nothing to a process that does not expect it.
        let mut signals = accepted(&[33, consts::SIGURG, 32]).unwrap();
        raise(consts::SIGURG).unwrap();
        assert_eq!(signals.wait().collect::<Vec<_>>(), [consts::SIGURG]);
        #[cfg(target_os = "linux")]
        assert!(Signals::new([33, consts::SIGURG]).is_err(), "the C library keeps signal 33");
    }

    /// The only test that watches signals: they are the whole process's.
    #[test]
    fn the_first_signal_gives_the_exit_code() {
        let canceled = Arc::new(AtomicBool::new(false));
        watch(&canceled);
        let started = Instant::now();
        let until = |is: &dyn Fn() -> bool| {
            while !is() && started.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        raise(consts::SIGXCPU).unwrap();
        assert!(canceled.load(Ordering::Relaxed));
        until(&|| FIRST.load(Ordering::Relaxed) != 0);
        raise(consts::SIGALRM).unwrap();
        assert_eq!(RECEIVED.load(Ordering::Relaxed), 14);
        assert_eq!(exit_code(&interrupted()), Some(128 + 24));
        // Within the time, an urgent one does not end this process.
        if started.elapsed() < GRACE / 2 {
            raise(consts::SIGTERM).unwrap();
        }
    }
}
