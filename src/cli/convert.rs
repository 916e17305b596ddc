//! `ckpt convert` and `ckpt plan`.

use super::common::{Reading, pairs, route, until_the_end};
use super::map::read_mapping;
use super::render::{self, Table};
use super::{Report, to_json};
use crate::convert::{Computed, Conversion, Execution, Planned, Resumed, Summary, Verification};
use crate::plan::{Plan, Policy, Resources};
use crate::recipe::Transform;
use crate::registry::Registry;
use crate::words::count;
use ckpt_api::{DType, Error, Result, parse_size};
use clap::Args;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
    /// Show the plan and stop
    #[arg(long)]
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
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
pub(super) struct PlanArguments {
    /// Checkpoint to read
    input: PathBuf,
    /// Checkpoint to write
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Format of the output; by its extension if left out
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Option of whichever side's format knows it; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Option for writing the output
    #[arg(long, value_name = "KEY=VALUE")]
    to_set: Vec<String>,
    /// Name mapping: a file, or the name of a built-in mapping
    #[arg(long, value_name = "FILE|NAME")]
    map: Option<String>,
    /// Apply the inverse of the mapping
    #[arg(long, requires = "map")]
    inverse: bool,
    /// Reorder the axes of tensors whose name, after mapping, matches: transpose, permute 3 2 0 1, squeeze 0, unsqueeze 0
    #[arg(long, value_name = "PATTERN: STEP")]
    transform: Vec<String>,
    /// Keep only tensors whose name matches: `**` is any text, `*` any text without a `/`, `?` one character but `/`
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave out tensors whose name matches; patterns as for --include
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// What floating-point weights become: f64, f32, f16, bf16, f8_e4m3
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Accept a kind of loss that changes what the model computes; or `all`
    #[arg(long, value_name = "KIND")]
    allow: Vec<String>,
    /// Stop at every loss
    #[arg(long)]
    strict: bool,
    /// Bytes per output file, for formats that can be sharded
    #[arg(long, value_name = "SIZE")]
    shard_size: Option<String>,
    /// Memory to stay within
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    max_memory: String,
    /// Threads; as many as there are processors, at most 4, if left out
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> Result<Report> {
    let started = Instant::now();
    let (conversion, planned) = prepare(&arguments.plan, |conversion| Conversion {
        overwrite: arguments.force,
        resume: arguments.resume,
        verify: arguments.verify,
        receipt: arguments.receipt.clone(),
        ..conversion
    })?;
    if arguments.dry_run {
        planned.check_output()?;
        return show_plan(&conversion, &planned, json);
    }
    let planned = until_the_end(planned);
    conversion.judge(planned.plan())?;
    let summary = execute(&planned, arguments)?;
    if json {
        let plan = planned.plan();
        let files: Vec<_> = summary.files.iter().map(|file| file.to_string_lossy()).collect();
        return Ok(to_json(&serde_json::json!({
            "files": files, "tensors": summary.tensors, "bytes": summary.bytes,
            "rounding": summary.rounding, "verification": summary.verification,
            "resumed": summary.resumed, "receipt": summary.receipt.map(|path| path.to_string_lossy().into_owned()),
            "losses": plan.losses, "excluded": plan.excluded, "repairs": plan.repairs(), "notes": plan.notes(),
        }))?
        .into());
    }
    if !arguments.quiet {
        eprint!("{}", render::harmless(&told(planned.plan(), &summary, started), false));
    }
    Ok(String::new().into())
}

pub(super) fn plan(arguments: &PlanArguments, json: bool) -> Result<Report> {
    let (conversion, planned) =
        prepare(arguments, |conversion| Conversion { overwrite: true, ..conversion })?;
    show_plan(&conversion, &planned, json)
}

/// `more` adds what planning alone is not told.
fn prepare(
    arguments: &PlanArguments,
    more: impl FnOnce(Conversion) -> Conversion,
) -> Result<(Conversion, Planned)> {
    let registry = Registry::builtin();
    let target = match &arguments.to {
        Some(id) => registry.writer(id)?,
        None => registry.for_extension(&arguments.output.to_string_lossy())?,
    };
    let to = target.info();
    let mut read = Vec::new();
    let mut options = pairs(&arguments.to_set)?;
    if !arguments.set.is_empty() {
        let from = arguments.reading.codec(&registry, &arguments.input)?;
        let (reading, writing) = route(&arguments.set, from.info().options, to.options)?;
        read = reading;
        options.extend(writing);
    }
    if let Some(size) = &arguments.shard_size {
        if !to.options.iter().any(|spec| spec.name == "shard_size") {
            return Err(Error::usage(format!("format '{}' cannot be sharded", to.id)).field("--shard-size"));
        }
        options.push(("shard_size".to_owned(), size.clone()));
    }
    let given = arguments.reading.architecture()?;
    let for_target = given.clone().filter(|file| file.format() == Some(to.id));
    // What is the target's own is the source's, too, only where both have one format.
    let for_source = match &for_target {
        Some(_) if arguments.reading.codec(&registry, &arguments.input)?.info().id != to.id => None,
        _ => given,
    };
    let source = arguments.reading.open_with(&registry, &arguments.input, read, for_source)?;
    let mut policy = Policy { strict: arguments.strict, ..Policy::default() };
    arguments.allow.iter().flat_map(|kinds| kinds.split(',')).try_for_each(|kind| policy.accept(kind))?;
    let limits = arguments.reading.limits()?;
    let mapping = arguments.map.as_deref().map(|name| read_mapping(name, &limits)).transpose()?;
    let mapping =
        if arguments.inverse { mapping.map(|mapping| mapping.inverse()).transpose()? } else { mapping };
    let conversion = Conversion {
        to: Some(to.id.to_owned()),
        options,
        architecture: for_target,
        mapping,
        transforms: transforms(&arguments.transform)?,
        include: arguments.include.clone(),
        exclude: arguments.exclude.clone(),
        dtype: arguments.dtype.as_deref().map(dtype).transpose()?,
        policy,
        resources: resources(arguments)?,
        limits,
        ..Conversion::default()
    };
    let conversion = more(conversion);
    let planned = conversion.plan_unjudged(&registry, source, &arguments.output)?;
    Ok((conversion, planned))
}

fn transforms(given: &[String]) -> Result<Vec<Transform>> {
    let parse = |text: &String| Transform::parse(text).map_err(|error| error.field("--transform"));
    given.iter().map(parse).collect()
}

fn dtype(name: &str) -> Result<DType> {
    DType::from_name(name).ok_or_else(|| {
        let written = |dtype: &&DType| dtype.is_float() && crate::transform::castable(DType::F32, **dtype);
        let floats = DType::ALL.iter().filter(written).map(|dtype| dtype.name());
        Error::usage("unknown dtype")
            .field("--dtype")
            .found(format!("'{name}'"))
            .help(ckpt_api::nearest(name, floats))
    })
}

fn resources(arguments: &PlanArguments) -> Result<Resources> {
    let max_memory = parse_size(&arguments.max_memory).ok_or_else(|| {
        Error::usage("not a size")
            .field("--max-memory")
            .found(format!("'{}'", arguments.max_memory))
            .expected("a number such as 256m or 2g")
    })?;
    match arguments.threads {
        Some(0) => Err(Error::usage("at least one thread is needed").field("--threads")),
        threads => Ok(Resources { max_memory, threads: threads.unwrap_or(0) }),
    }
}

fn execute(planned: &Planned, arguments: &Arguments) -> Result<Summary> {
    let canceled = Arc::new(AtomicBool::new(false));
    super::signals::watch(&canceled);
    let execution = Execution { sync: !arguments.no_sync, canceled };
    if arguments.quiet || !std::io::stderr().is_terminal() {
        return planned.execute(&execution, &|_| ());
    }
    let bar = indicatif::ProgressBar::new(planned.plan().bytes_written);
    let style = "{wide_bar} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  ETA {eta}";
    if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let result = planned.execute(&execution, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    result
}

fn told(plan: &Plan, summary: &Summary, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let mut text = String::new();
    for file in &summary.files {
        let _ = writeln!(text, "wrote {}", render::plain(&file.display().to_string()));
    }
    let _ = writeln!(
        text,
        "{} to {}: {}, {} in {seconds:.2} s",
        plan.from,
        plan.to,
        count(summary.tensors, "tensor"),
        render::bytes(summary.bytes)
    );
    text += &summary.resumed.as_ref().map(resumed).unwrap_or_default();
    if let Some(worst) = summary.largest_rounding() {
        let tensor = render::plain(&worst.tensor);
        let _ = writeln!(text, "largest rounding error {:.1e} in {tensor}", worst.largest_error);
    }
    if let Some(found) = &summary.verification {
        text += &verified(found);
    }
    if let Some(receipt) = &summary.receipt {
        let _ = writeln!(text, "receipt {}", render::plain(&receipt.display().to_string()));
    }
    text + &remarks(plan)
}

fn resumed(resumed: &Resumed) -> String {
    match resumed.anew {
        Some(why) => format!("nothing to resume, so all was written: {why}\n"),
        None => {
            let (tensors, bytes) = (count(resumed.tensors, "tensor"), render::bytes(resumed.bytes));
            format!("resumed: {tensors}, {bytes} had been written, with the right checksums\n")
        }
    }
}

fn verified(found: &Verification) -> String {
    let computed = match &found.computed {
        Computed::Agree { rule, reason } => {
            format!(
                "verified: both graphs agree on random inputs, by rule '{rule}': {}\n",
                render::plain(reason)
            )
        }
        Computed::NotRun { reason } => format!("the graphs were not run: {}\n", render::plain(reason)),
    };
    tensors(found) + &computed
}

fn tensors(found: &Verification) -> String {
    let all = count(found.tensors, "tensor");
    let Some(worst) = found.largest_error() else {
        return format!("verified: {all} read back, equal to the source bit for bit\n");
    };
    let (tensor, error) = (render::plain(&worst.tensor), worst.largest_error);
    format!(
        "verified: {all} read back: {} equal to the source bit for bit, {} to its recomputed numbers; \
         largest error {error:.1e} in {tensor}\n",
        found.equal,
        found.changed.len()
    )
}

/// What a person should know about a plan.
fn remarks(plan: &Plan) -> String {
    let mut text = String::new();
    for repair in plan.repairs() {
        let _ =
            writeln!(text, "repaired {}: {}", render::plain(&repair.subject), render::plain(&repair.detail));
    }
    for note in plan.notes() {
        let _ = writeln!(text, "note: {}", render::plain(note));
    }
    if !plan.excluded.is_empty() {
        let _ = writeln!(text, "left out as asked: {}", count(plan.excluded.len(), "tensor"));
    }
    if !plan.losses.is_empty() {
        let _ = write!(text, "not carried over as it was:\n{}", render::losses(&plan.losses));
    }
    text
}

fn show_plan(conversion: &Conversion, planned: &Planned, json: bool) -> Result<Report> {
    let plan = planned.plan();
    let text = if json { to_json(plan)? } else { plan_text(plan) };
    if let Err(error) = conversion.judge(plan) {
        super::print(&text, json)?;
        return Err(error);
    }
    Ok(text.into())
}

fn plan_text(plan: &Plan) -> String {
    let mut text = format!("{} to {}\n", plan.from, plan.to);
    let mut table = Table::new(&["tensor", "becomes", "steps", "bytes"], &[3]);
    for job in plan.jobs() {
        let steps = job.steps.iter().map(|step| step.describe()).collect::<Vec<_>>().join(", ");
        table.text(&render::plain(job.tensor));
        table.text(&render::plain(&job.to.name));
        table.text(if steps.is_empty() { "copy" } else { &steps });
        table.cell(render::bytes(job.to.extents.iter().map(|extent| extent.len).sum()));
        table.end_row();
    }
    table.append_to(&mut text);
    for file in plan.files() {
        let len = file.len.map_or("size known when written".to_owned(), |len| render::bytes(len).to_string());
        let _ = writeln!(text, "file {} ({len})", render::plain(&file.name));
    }
    let _ = writeln!(
        text,
        "reads {}, writes {}, {}, at most {} of memory",
        render::bytes(plan.bytes_read),
        render::bytes(plan.bytes_written),
        count(plan.threads, "thread"),
        render::bytes(plan.peak_memory)
    );
    text + &remarks(plan)
}
