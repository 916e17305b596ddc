//! The process's limits: of its address space (`ulimit -v`), of its first stack (`ulimit -s`) and of the files that it has open
//! (`ulimit -n`).

use std::fs;
use std::sync::OnceLock;

/// What a thread beside the first maps whether it uses it or not: its stack, and the heap that glibc reserves for it.
pub(crate) const PER_THREAD: u64 = (2 << 20) + (64 << 20);

/// Bytes that the process may still map; `None` if nobody limited them, or the system does not report it.
pub(crate) fn address_space_left() -> Option<u64> {
    let most = soft_limit(limits()?, "Max address space")?;
    Some(most.saturating_sub(mapped(&fs::read_to_string("/proc/self/status").ok()?)?))
}

/// Bytes of the first thread's stack; `None` if nobody limited them, or the system does not report it.
pub fn first_stack() -> Option<u64> {
    soft_limit(limits()?, "Max stack size")
}

/// Files that the process may have open at once; `None` if nobody limited them, or the system does not report it.
pub fn open_files() -> Option<u64> {
    soft_limit(limits()?, "Max open files")
}

/// The process's limits, as they were when somebody first asked: later, another file may not be opened.
fn limits() -> Option<&'static str> {
    static LIMITS: OnceLock<Option<String>> = OnceLock::new();
    LIMITS.get_or_init(|| fs::read_to_string("/proc/self/limits").ok()).as_deref()
}

/// A soft limit, from `/proc/self/limits`.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The bytes that are mapped, from `/proc/self/status`.
fn mapped(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_and_none_is_none() {
        let limits = |soft: &str| {
            format!(
                "Max cpu time   unlimited  unlimited  seconds\nMax address space         {soft}            unlimited            bytes\n"
            )
        };
        assert_eq!(soft_limit(&limits("104857600"), "Max address space"), Some(100 << 20));
        assert_eq!(soft_limit(&limits("unlimited"), "Max address space"), None);
        assert_eq!(soft_limit("", "Max address space"), None);
    }

    #[test]
    fn what_is_mapped_is_counted_in_bytes() {
        assert_eq!(mapped("Name:\tckpt\nVmPeak:\t  9 kB\nVmSize:\t  1024 kB\n"), Some(1 << 20));
        assert_eq!(mapped("Name:\tckpt\n"), None);
    }
}
