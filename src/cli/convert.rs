//! `ckpt convert`.

use super::common::until_the_end;
use super::plan::{ConversionArguments, prepare, remarks, show_plan};
use super::progress::with_bar;
use super::render;
use super::report::{Report, print_after, to_json};
use super::stderr::tell;
use super::verbose::Phases;
use ckpt_api::{Error, Result};
use ckpt_engine::Registry;
use ckpt_engine::plan::Plan;
use ckpt_engine::words::count;
use ckpt_engine::{Computed, Execution, Planned, Resumed, Summary, Verification};
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: ConversionArguments,
    #[command(flatten)]
    output: Output,
    /// Show the plan and stop
    #[arg(long, conflicts_with_all = ["receipt", "verify", "no_sync", "quiet"])]
    dry_run: bool,
    /// Replace existing output
    #[arg(long)]
    force: bool,
    /// Go on where the same conversion was killed: keep what it had written, if its checksums are right
    #[arg(long)]
    resume: bool,
    /// Read the output back and compare every tensor with its source before the output gets its name
    #[arg(long)]
    verify: bool,
    /// Write what was done, with the hashes of all files; `ckpt verify --receipt` checks them
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Do not wait until the output is on the disk
    #[arg(long)]
    no_sync: bool,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
}

/// Where the output goes.
#[derive(Args)]
struct Output {
    /// Checkpoint to write, if --output does not name it
    #[arg(required_unless_present = "output_option")]
    output: Option<PathBuf>,
    /// Checkpoint to write
    #[arg(short, long = "output", value_name = "OUTPUT", conflicts_with = "output")]
    output_option: Option<PathBuf>,
}

impl Output {
    fn path(&self) -> Result<&Path> {
        let given = self.output.as_deref().or(self.output_option.as_deref());
        given.ok_or_else(|| Error::usage("an argument is missing").expected("<OUTPUT>"))
    }
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let started = Instant::now();
    let output = arguments.output.path()?;
    let (conversion, planned) = prepare(registry, &arguments.wanted, output, |conversion| {
        conversion.overwrite = arguments.force;
        conversion.resume = arguments.resume;
        conversion.verify = arguments.verify;
        conversion.receipt.clone_from(&arguments.receipt);
    })?;
    if arguments.dry_run {
        planned.check_output()?;
        return show_plan(&conversion, &planned, json, arguments.wanted.layout());
    }
    let planned = until_the_end(planned);
    conversion.judge(planned.plan())?;
    let summary = execute(&planned, arguments.quiet, !arguments.no_sync)?;
    finished(planned.plan(), &summary, started, arguments.quiet, json)
}

/// What a conversion came to, for people or programs.
pub(super) fn finished(
    plan: &Plan,
    summary: &Summary,
    started: Instant,
    quiet: bool,
    json: bool,
) -> Result<Report> {
    if json {
        let files: Vec<_> = summary.files.iter().map(|file| file.to_string_lossy()).collect();
        let receipt = summary.receipt.as_ref().map(|path| path.to_string_lossy());
        let notes: Vec<&str> = plan.notes().collect();
        let report = to_json(&serde_json::json!({
            "files": files, "tensors": summary.tensors, "bytes": summary.bytes,
            "rounding": summary.rounding, "verification": summary.verification,
            "resumed": summary.resumed, "receipt": receipt, "left": summary.left,
            "cloned": summary.cloned, "unchecked": summary.unchecked,
            "losses": plan.losses, "excluded": plan.excluded, "repairs": plan.repairs(), "notes": notes,
        }))?;
        return print_after(&files, &report, json);
    }
    if !quiet {
        tell(&summarized(plan, summary, started));
    }
    Ok(String::new().into())
}

/// Writes the output; `sync` says whether to wait until it is on the disk.
pub(super) fn execute(planned: &Planned, quiet: bool, sync: bool) -> Result<Summary> {
    with_bar(planned.plan().bytes_written, quiet, |progress| {
        executing(sync, |execution| planned.execute(execution, progress))
    })
}

/// Executes until a signal comes, and reports how long the phases take, with `--verbose`.
pub(super) fn executing<T>(sync: bool, act: impl FnOnce(&Execution) -> Result<T>) -> Result<T> {
    let canceled = Arc::new(AtomicBool::new(false));
    super::signals::watch(&canceled);
    let phases = Phases::default();
    let observer = phases.clone();
    let execution = Execution::new().sync(sync).canceled(canceled);
    let result = act(&execution.on_phase(move |phase| observer.begin(phase)));
    phases.end();
    result
}

fn summarized(plan: &Plan, summary: &Summary, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let mut text = String::new();
    for file in &summary.files {
        let _ = writeln!(text, "wrote {}", render::plain(&file.display().to_string()));
    }
    let _ = writeln!(
        text,
        "{} to {}: {}, {} in {seconds:.2} s",
        plan.from(),
        plan.to(),
        count(summary.tensors, "tensor"),
        render::bytes(summary.bytes)
    );
    if summary.cloned > 0 {
        let _ = writeln!(text, "{} share blocks with the source", render::bytes(summary.cloned));
    }
    if summary.unchecked {
        text += "the checksums of the source were not compared (--no-check)\n";
    }
    text += &summary.resumed.as_ref().map(resumed).unwrap_or_default();
    if let Some(worst) = summary.largest_rounding() {
        let tensor = render::plain(&worst.tensor);
        let _ = writeln!(text, "largest rounding error: {}", rounding(worst.largest_error, &tensor));
    }
    if let Some(found) = &summary.verification {
        text += &verified(found);
    }
    if let Some(receipt) = &summary.receipt {
        let _ = writeln!(text, "receipt {}", render::plain(&receipt.display().to_string()));
    }
    for left in &summary.left {
        let _ = writeln!(
            text,
            "note: {}; the output is complete, and the next conversion to it removes this file",
            render::plain(left)
        );
    }
    text + &remarks(plan)
}

fn resumed(resumed: &Resumed) -> String {
    match resumed.anew {
        Some(why) => format!("nothing to resume, so everything was written: {why}\n"),
        None => {
            let (tensors, bytes) = (count(resumed.tensors, "tensor"), render::bytes(resumed.bytes));
            format!("resumed: {tensors} ({bytes}) were already written, with the right checksums\n")
        }
    }
}

fn verified(found: &Verification) -> String {
    let computed = match &found.computed {
        Computed::Agree { rule, reason, notes } => {
            // The plan's notes, which follow, contain them.
            let assumed = if notes.is_empty() {
                ""
            } else {
                "; the notes say where the graph may differ from the model"
            };
            format!(
                "verified: both graphs agree on random inputs (rule '{rule}': {}){assumed}\n",
                render::plain(reason)
            )
        }
        Computed::NotRun { reason } => format!("the graphs were not run: {}\n", render::plain(reason)),
        _ => String::new(),
    };
    tensors(found) + &computed
}

fn tensors(found: &Verification) -> String {
    let all = count(found.tensors, "tensor");
    let verified = if found.after_commit { "verified after the commit" } else { "verified" };
    let Some(worst) = found.largest_error() else {
        return format!("{verified}: {all} read back, equal to the source bit for bit\n");
    };
    let tensor = render::plain(&worst.tensor);
    format!(
        "{verified}: {all} read back; {} equal the source bit for bit, and {} equal its converted values; largest \
         rounding \
         error: {}\n",
        found.equal,
        found.changed.len(),
        rounding(worst.largest_error, &tensor)
    )
}

/// Describes the largest rounding error: `1.2e-4 in w`, or `0` without a tensor.
fn rounding(error: f64, tensor: &str) -> String {
    if error == 0.0 { "0".to_owned() } else { format!("{} in {tensor}", render::number(error, 2)) }
}
