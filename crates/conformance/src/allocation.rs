//! What a step allocates, where the system reports it.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// The highest size that the process's address space had, from `/proc/self/status`.
///
/// It counts memory that was reserved and never touched, which is what a hostile count makes. Where the file does not
/// exist (systems other than Linux), nothing is measured: there, an allocation that the system refuses still ends the
/// process, and the progress file names the step.
pub(crate) struct Peak(RefCell<Option<File>>);

/// Bytes of the address space: the most so far, and now.
#[derive(Clone, Copy)]
struct Size {
    peak: u64,
    now: u64,
}

impl Peak {
    pub(crate) fn new() -> Self {
        Peak(RefCell::new(File::open("/proc/self/status").ok()))
    }

    /// Runs `step`; beside its result, the bytes that it added to the peak if they are more than `allowed`.
    ///
    /// Other threads allocate, too: a step is blamed only if it adds to the peak three times in a row.
    pub(crate) fn growth<T>(&self, allowed: u64, step: impl Fn() -> T) -> (T, Option<u64>) {
        let (result, mut grown) = self.once(&step);
        for _ in 0..2 {
            if grown.is_none_or(|grown| grown <= allowed) {
                return (result, None);
            }
            let _ballast = self.ballast();
            grown = self.once(&step).1;
        }
        (result, grown.filter(|grown| *grown > allowed))
    }

    fn once<T>(&self, step: impl FnOnce() -> T) -> (T, Option<u64>) {
        let before = self.size();
        let result = step();
        let grown = before.zip(self.size()).map(|(before, after)| after.peak.saturating_sub(before.peak));
        (result, grown)
    }

    /// Reserves as much as is free below the peak, so that the next allocation of that size raises it again.
    fn ballast(&self) -> Vec<u8> {
        let mut ballast = Vec::new();
        let free = self.size().map_or(0, |size| size.peak.saturating_sub(size.now));
        // Where the system refuses, the peak stays, and nobody is blamed.
        let _ = ballast.try_reserve_exact(usize::try_from(free).unwrap_or(0));
        ballast
    }

    fn size(&self) -> Option<Size> {
        let mut file = self.0.borrow_mut();
        let file = file.as_mut()?;
        let mut text = [0; 4096];
        file.seek(SeekFrom::Start(0)).ok()?;
        let len = file.read(&mut text).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        Some(Size { peak: field(text, "VmPeak:")?, now: field(text, "VmSize:")? })
    }
}

/// A line such as `VmPeak:     5216 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    #[cfg_attr(miri, ignore = "measures the memory of the process, which is Miri's")]
    fn memory_that_is_reserved_counts_even_if_it_is_never_touched() {
        let peak = Peak::new();
        if peak.size().is_none() {
            return;
        }
        let reserve = |bytes: usize| move || drop(black_box(Vec::<u8>::with_capacity(bytes)));
        assert_eq!(peak.growth(256 << 20, reserve(1 << 20)).1, None);
        assert!(peak.growth(256 << 20, reserve(1 << 30)).1.is_some());
    }

    #[test]
    #[cfg_attr(miri, ignore = "measures the memory of the process, which is Miri's")]
    fn a_line_of_the_status_is_in_kibibytes() {
        assert_eq!(field("Name:\tx\nVmPeak:\t    5216 kB\n", "VmPeak:"), Some(5216 << 10));
        assert_eq!(field("Name:\tx\n", "VmPeak:"), None);
    }
}
