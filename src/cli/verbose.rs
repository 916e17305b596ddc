//! The log of `--verbose` on stderr: what was opened and planned, and how long each phase took.

use super::render;
use super::stderr::tell;
use ckpt_engine::Phase;
use ckpt_engine::plan::Plan;
use ckpt_engine::source::Source;
use ckpt_engine::words::count;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Decides for the command line that runs in this process.
pub(super) fn turn(on: bool) {
    IS_ON.store(on, Ordering::Relaxed);
}

pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Prints what `text` returns, with `--verbose`.
pub(super) fn say(text: impl FnOnce() -> String) {
    if is_on() {
        tell(&(text() + "\n"));
    }
}

/// Reports what was opened since `started`.
pub(super) fn opened(path: &Path, source: &Source, started: Instant) {
    say(|| {
        let (contents, graph) = (source.contents(), source.checkpoint().graph.as_ref());
        format!(
            "opened {} in {}: {} ({}), {}, {} of values, {}, {}",
            render::plain(&ckpt_api::Address::display(path)),
            time(started.elapsed()),
            source.format(),
            render::plain(source.reason()),
            count(source.checkpoint().tensors.len(), "tensor"),
            render::bytes(source.value_bytes()),
            graph.map_or("no graph".to_owned(), |graph| count(graph.nodes.len(), "layer")),
            count(contents.files.len(), "file"),
        )
    });
}

/// Reports what was planned since `started`.
pub(super) fn planned(plan: &Plan, started: Instant) {
    say(|| {
        format!(
            "planned {} to {} in {}: {} in {}, reads {}, writes {} to {}; {}; {}, at most {} of memory",
            plan.from(),
            plan.to(),
            time(started.elapsed()),
            count(plan.tensors().len(), "tensor"),
            count(plan.items().len(), "item"),
            render::bytes(plan.bytes_read),
            render::bytes(plan.bytes_written),
            count(plan.files().len(), "file"),
            match plan.losses.len() {
                1 => "1 loss".to_owned(),
                losses => format!("{losses} losses"),
            },
            count(plan.threads, "thread"),
            render::bytes(plan.peak_memory),
        )
    });
}

/// Reports how long each phase of an execution took, at its end.
#[derive(Clone, Default)]
pub(super) struct Phases(Arc<Mutex<Option<(Phase, Instant)>>>);

impl Phases {
    /// Ends the phase that runs.
    pub(super) fn begin(&self, phase: Phase) {
        self.replace(Some((phase, Instant::now())));
    }

    pub(super) fn end(&self) {
        self.replace(None);
    }

    fn replace(&self, next: Option<(Phase, Instant)>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), next);
        if let Some((phase, started)) = before {
            say(|| format!("{} in {}", done(phase), time(started.elapsed())));
        }
    }
}

fn done(phase: Phase) -> &'static str {
    match phase {
        Phase::Stage => "prepared temporary files",
        Phase::Write => "wrote the tensors",
        Phase::Finish => "wrote headers and checksums",
        Phase::ReadBack => "read the output back",
        Phase::Compute => "compared what the graphs compute",
        Phase::Sync => "waited for the disk",
        Phase::Commit => "committed the output",
        _ => "finished a step",
    }
}

/// A duration with three digits: `1.23 ms`, `45.6 s`.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.9995.. => format!("{} s", three_digits(seconds)),
        _ => format!("{} ms", three_digits(seconds * 1e3)),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Reports how long the command took, and its memory where the system counts that.
pub(super) fn ended(started: Instant) {
    say(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let memory = kib.and_then(|kib| kib.checked_mul(1024)).map(render::bytes);
        let memory = memory.map(|bytes| format!(", at most {bytes} of memory")).unwrap_or_default();
        format!("ended after {}{memory}", time(started.elapsed()))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let shown = [0, 1_234, 45_678, 999_400, 999_600, 12_345_678, 123_456_789]
            .map(|micros| time(Duration::from_micros(micros)));
        assert_eq!(shown, ["0.00 ms", "1.23 ms", "45.7 ms", "999 ms", "1.00 s", "12.3 s", "123 s"]);
    }
}
