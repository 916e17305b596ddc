//! Progress bars, where somebody looks.

use super::stderr::set_bar;
use super::verbose;
use ckpt_api::Result;
use ckpt_engine::source::Source;
use ckpt_engine::words::bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes, speed and the time that is left.
const BAR: &str = "{wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  ETA {eta}";
/// Bytes that were read, where nobody knows how many there will be.
#[cfg(feature = "forward")]
const SPINNER: &str = "{spinner} {msg}: {binary_bytes} read  {elapsed}";

/// What is done before shows no bar: it would flash.
const PATIENCE: Duration = Duration::from_millis(100);

/// Works with a bar of so many bytes.
pub(super) fn with_bar<T>(
    bytes: u64,
    quiet: bool,
    work: impl FnOnce(ckpt_engine::execute::Progress) -> Result<T>,
) -> Result<T> {
    if quiet || !is_watched() {
        return work(&|_| ());
    }
    let bar = hidden(ProgressBar::new(bytes), BAR);
    let result = shown_later(&bar, || work(&|bytes| bar.inc(bytes)));
    bar.finish_and_clear();
    result
}

/// Works with a bar of the bytes of all values of these sources, each of which is read once.
pub(super) fn while_reading<T>(sources: &[&Source], work: impl FnOnce() -> Result<T>) -> Result<T> {
    watched("reading", sources, work, || {
        let bytes = sources.iter().fold(0u64, |sum, source| sum.saturating_add(source.value_bytes()));
        hidden(ProgressBar::new(bytes), BAR)
    })
}

/// Works with a sign of life: values are read an unknown number of times, and computing takes longer.
#[cfg(feature = "forward")]
pub(super) fn while_computing<T>(
    what: &'static str,
    sources: &[&Source],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    watched(what, sources, work, || {
        let spinner = hidden(ProgressBar::new_spinner().with_message(what), SPINNER);
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    })
}

/// Works with a bar; reports what was done, its bytes and its time, with `--verbose`.
fn watched<T>(
    what: &str,
    sources: &[&Source],
    work: impl FnOnce() -> Result<T>,
    bar: impl FnOnce() -> ProgressBar,
) -> Result<T> {
    if !is_watched() && !verbose::is_on() {
        return work();
    }
    let (started, bar) = (Instant::now(), bar());
    for source in sources {
        let bar = bar.clone();
        source.on_read(move |bytes| bar.inc(bytes));
    }
    let result = if is_watched() { shown_later(&bar, work) } else { work() };
    let read = bytes(bar.position());
    bar.finish_and_clear();
    verbose::say(|| format!("{what}: {read} of values in {}", verbose::time(started.elapsed())));
    result
}

fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

fn hidden(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_draw_target(ProgressDrawTarget::hidden());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Works, and shows the bar if that takes longer than [`PATIENCE`].
fn shown_later<T>(bar: &ProgressBar, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (done, waiting) = mpsc::channel::<()>();
    set_bar(Some(bar.clone()));
    let result = thread::scope(|scope| {
        let show = || bar.set_draw_target(ProgressDrawTarget::stderr());
        let timer = thread::Builder::new().spawn_scoped(scope, move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                show();
            }
        });
        if timer.is_err() {
            show();
        }
        let result = work();
        drop(done);
        result
    });
    set_bar(None);
    result
}
