//! Progress bars, where somebody looks.

use crate::source::Source;
use ckpt_api::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
#[cfg(feature = "forward")]
use std::time::Duration;

/// Bytes, speed and the time that is left.
const BAR: &str = "{wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  ETA {eta}";
/// Bytes that were read, where nobody knows how many there will be.
#[cfg(feature = "forward")]
const SPINNER: &str = "{spinner} {msg}: {binary_bytes} read  {elapsed}";

/// Works with a bar of so many bytes.
pub(super) fn with_bar<T>(
    bytes: u64,
    quiet: bool,
    work: impl FnOnce(crate::execute::Progress) -> Result<T>,
) -> Result<T> {
    if quiet || !is_watched() {
        return work(&|_| ());
    }
    let bar = styled(ProgressBar::new(bytes), BAR);
    let result = work(&|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    result
}

/// Works with a bar of the bytes of all values of these sources, each of which is read once.
pub(super) fn while_reading<T>(sources: &[&Source], work: impl FnOnce() -> Result<T>) -> Result<T> {
    watched(sources, work, || {
        let bytes = sources.iter().fold(0u64, |sum, source| sum.saturating_add(source.value_bytes()));
        styled(ProgressBar::new(bytes), BAR)
    })
}

/// Works with a sign of life: values are read an unknown number of times, and computing takes longer.
#[cfg(feature = "forward")]
pub(super) fn while_computing<T>(
    what: &'static str,
    sources: &[&Source],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    watched(sources, work, || {
        let spinner = styled(ProgressBar::new_spinner().with_message(what), SPINNER);
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    })
}

fn watched<T>(
    sources: &[&Source],
    work: impl FnOnce() -> Result<T>,
    bar: impl FnOnce() -> ProgressBar,
) -> Result<T> {
    if !is_watched() {
        return work();
    }
    let bar = bar();
    for source in sources {
        let bar = bar.clone();
        source.on_read(move |bytes| bar.inc(bytes));
    }
    let result = work();
    bar.finish_and_clear();
    result
}

fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
