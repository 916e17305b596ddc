//! `ckpt run-plan` and `ckpt commit`: a conversion whose items are run by several processes.

use super::common::{Bounds, read_bytes};
use super::convert::{executing, finished};
use super::flags::Flags;
use super::plan::{size, threads};
use super::progress::with_bar;
use super::report::Report;
use super::verbose;
use ckpt_api::{Address, Error, Limit, Limits, Result};
use ckpt_engine::Registry;
use ckpt_engine::plan::{Plan, blame_document};
use ckpt_engine::resources::Resources;
use ckpt_engine::words::{count, verb};
use ckpt_engine::{Commit, ItemReceipt, Planned};
use clap::Args;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

/// What both commands take.
#[derive(Args)]
struct Shared {
    /// Plan that `ckpt plan --output` wrote
    plan: PathBuf,
    /// Memory to stay within
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    max_memory: String,
    /// Threads; as many as there are processors, at most 4, if left out
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
    /// Do not wait until what is written is on the disk
    #[arg(long)]
    no_sync: bool,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    shared: Shared,
    /// Items to run, such as 0..128; all if left out
    #[arg(long, value_name = "A..B")]
    items: Option<String>,
    /// Directory or address for a receipt of each item
    #[arg(long, value_name = "DIR")]
    receipts: PathBuf,
}

#[derive(Args)]
pub(super) struct CommitArguments {
    #[command(flatten)]
    shared: Shared,
    /// Directory or address with the receipts of all items
    receipts: PathBuf,
    /// Read the output back and compare every tensor with its source before the output gets its name; in object storage,
    /// right after
    #[arg(long)]
    verify: bool,
    /// Write what was done, with the hashes of all files; `ckpt verify --receipt` checks them
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Remove what the items wrote, and write nothing
    #[arg(long, conflicts_with_all = ["verify", "receipt"])]
    discard: bool,
}

impl Shared {
    /// The plan.
    fn plan(&self, registry: &Registry, limits: &Limits) -> Result<Plan> {
        let bytes = read_bytes(registry.addresses(), &self.plan, limits, Limit::HeaderBytes)?;
        let shown = Address::display(&self.plan);
        Plan::from_bytes(&bytes, limits).map_err(|error| error.file(shown))
    }

    /// The plan, ready to run.
    fn open(&self, registry: &Registry, reread: bool) -> Result<(Planned, Resources, Limits)> {
        let (started, limits) = (Instant::now(), self.bounds.limits()?);
        let plan = self.plan(registry, &limits)?;
        let max_memory = size(&self.max_memory, "--max-memory")?;
        let resources = Resources::new().max_memory(max_memory).threads(threads(self.threads)?);
        let planned =
            Planned::resume(registry, plan).and_then(|planned| planned.with_resources(resources, reread));
        let planned = planned.map_err(|error| blame_document(error).in_words(&Flags::Planned))?;
        verbose::planned(planned.plan(), started);
        Ok((planned, resources, limits))
    }
}

pub(super) fn run(registry: &Registry, arguments: &RunArguments, json: bool) -> Result<Report> {
    let RunArguments { shared, items, receipts } = arguments;
    let (planned, _, limits) = shared.open(registry, false)?;
    let items = match items {
        Some(text) => range(text)?,
        None => 0..planned.plan().items().len(),
    };
    let store = registry.addresses().directory(receipts, true)?;
    let known = planned.receipts_of(&items, store.clone(), &limits)?;
    let bytes = planned.plan().bytes_written;
    let save = |receipt: &ItemReceipt| receipt.save(&*store);
    let wanted = items.len();
    let ran = with_bar(bytes, shared.quiet, |progress| {
        executing(!shared.no_sync, |execution| {
            planned.run_items(items.clone(), &known, execution, progress, &save).map_err(blame_document)
        })
    })?;
    if json {
        let report = serde_json::json!({ "items": wanted, "run": ran, "known": wanted - ran });
        return Ok(super::report::to_json(&report)?.into());
    }
    if !shared.quiet {
        let known = if ran < wanted {
            format!("; {} {} already done", wanted - ran, verb(wanted - ran, "was", "were"))
        } else {
            String::new()
        };
        super::tell(&format!("ran {ran} of {}{known}\n", count(planned.plan().items().len(), "item")));
    }
    Ok(String::new().into())
}

pub(super) fn commit(registry: &Registry, arguments: &CommitArguments, json: bool) -> Result<Report> {
    let started = Instant::now();
    let CommitArguments { shared, receipts, verify, receipt, discard } = arguments;
    if *discard {
        Planned::discard_plan(registry, &shared.plan(registry, &shared.bounds.limits()?)?)?;
        return Ok(String::new().into());
    }
    let (planned, resources, limits) = shared.open(registry, *verify || receipt.is_some())?;
    let store = registry.addresses().directory(receipts, false)?;
    let known = ItemReceipt::load_all(store, &planned.sha256()?, &limits)?;
    let mut options =
        Commit::new().verify(*verify).limits(limits).resources(resources).vocabulary(Flags::Planned);
    options.receipt.clone_from(receipt);
    let summary = executing(!shared.no_sync, |execution| planned.commit(&known, &options, execution));
    let summary = summary.map_err(|error| blame_document(error).in_words(&Flags::Planned))?;
    finished(planned.plan(), &summary, started, shared.quiet, json)
}

/// `A..B`, from A to before B.
fn range(text: &str) -> Result<Range<usize>> {
    let bounds = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    bounds.ok_or_else(|| {
        Error::usage("items are not a range")
            .field("--items")
            .found(format!("'{text}'"))
            .expected("the first and the one after the last, such as 0..128")
    })
}
