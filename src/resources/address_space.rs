//! The process's address-space limit (`ulimit -v`).

use std::fs;

/// What a thread beside the first maps whether it uses it or not: its stack, and the heap that glibc reserves for it.
pub(crate) const PER_THREAD: u64 = (2 << 20) + (64 << 20);

/// Bytes that the process may still map; `None` where nobody limited them, or the system does not tell.
pub(crate) fn address_space_left() -> Option<u64> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
    let most = most(&read("limits")?)?;
    Some(most.saturating_sub(mapped(&read("status")?)?))
}

/// The soft limit of the address space, of what `/proc/self/limits` says.
fn most(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The bytes that are mapped, of what `/proc/self/status` says.
fn mapped(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_address_space_is_read_and_none_is_none() {
        let limits = |soft: &str| {
            format!(
                "Max cpu time   unlimited  unlimited  seconds\nMax address space         {soft}            unlimited            bytes\n"
            )
        };
        assert_eq!(most(&limits("104857600")), Some(100 << 20));
        assert_eq!(most(&limits("unlimited")), None);
        assert_eq!(most(""), None);
    }

    #[test]
    fn what_is_mapped_is_counted_in_bytes() {
        assert_eq!(mapped("Name:\tckpt\nVmPeak:\t  9 kB\nVmSize:\t  1024 kB\n"), Some(1 << 20));
        assert_eq!(mapped("Name:\tckpt\n"), None);
    }
}
