//! Runs the kit's steps one by one: a step that panics, allocates too much or ends the process is known by name.

use crate::allocation::Peak;
use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one step may add to the process's memory: the largest default of a limit in bytes.
///
/// Samples are small. A codec that allocates more did so for a number that it found in the file.
pub(crate) const ALLOWED: u64 = 256 << 20;

/// Runs steps and records which one is under way.
pub(crate) struct Steps {
    progress: RefCell<Option<Progress>>,
    peak: Peak,
}

impl Steps {
    /// Creates the progress file and prints its path.
    pub(crate) fn new(id: &str) -> Self {
        let progress = Progress::create(id);
        // Not by `eprintln`: the test harness would keep that to itself, and lose it when the process dies.
        let mut stderr = std::io::stderr().lock();
        let _ = match &progress {
            Ok(progress) => writeln!(
                stderr,
                "conformance kit: if the process dies, {} names the step",
                progress.path.display()
            ),
            Err(error) => writeln!(stderr, "conformance kit: no progress file: {error}"),
        };
        Steps { progress: RefCell::new(progress.ok()), peak: Peak::new() }
    }

    /// Runs one step.
    ///
    /// # Panics
    /// If the step does; the message then begins with `what`.
    pub(crate) fn run<T>(&self, what: &dyn fmt::Display, step: impl FnOnce() -> T) -> T {
        if let Some(progress) = &mut *self.progress.borrow_mut() {
            progress.record(what);
        }
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
            panic!("{what}: the codec panics: {text}")
        })
    }

    /// Runs one step that must not allocate more than [`ALLOWED`].
    ///
    /// # Panics
    /// If it does, or if the step panics; the message begins with `what`.
    pub(crate) fn run_small<T>(&self, what: &dyn fmt::Display, step: impl Fn() -> T) -> T {
        let (result, grown) = self.peak.growth(ALLOWED, || self.run(what, &step));
        if let Some(grown) = grown {
            panic!(
                "{what}: reading adds {} MiB to the process's memory, for a sample of some bytes: check a count \
                 against a limit and against the bytes that are left before allocating for it",
                grown >> 20
            );
        }
        result
    }
}

/// A small file that is rewritten before each step.
struct Progress {
    file: File,
    path: PathBuf,
    /// Bytes of the longest text so far.
    longest: usize,
}

impl Progress {
    fn create(id: &str) -> std::io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ckpt-conformance-{id}-{}-{number}.txt", process::id()));
        Ok(Progress { file: File::create(&path)?, path, longest: 0 })
    }

    fn record(&mut self, what: &dyn fmt::Display) {
        let text = what.to_string();
        self.longest = self.longest.max(text.len());
        let line = format!("{text:<0$}\n", self.longest);
        // A full disk must not fail the codec.
        let _ = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(line.as_bytes()));
    }
}

/// A process that lives needs no file: messages name the step.
impl Drop for Progress {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
