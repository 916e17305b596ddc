//! What is open, and what is asked of it.

use crate::arrays::{ChosenArrays, SCHEME};
use crate::files;
use crate::host;
use crate::output::BrowserStore;
use crate::pages::Pages;
use crate::request::{Opening, Plugging, Request, Running, Side, Wanted};
use crate::words::{self, PageWords};
use ckpt::api::{DType, Error, FormatInfo, Limit, Limits, Loss, LossKind, OptionKind, Result};
use ckpt::inspect::{html, inspect};
use ckpt::store::Destination;
use ckpt::verify::{InputFile, Inputs, Options, devices, largest, verify};
use ckpt::{
    Computed, Conversion, Execution, Formats, OpenOptions, Phase, Planned, Registry, Resources, Source,
    Summary,
};
use ckpt_forward::Arithmetic;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Memory for a conversion, beside what describes the tensors.
const MEMORY: u64 = 128 << 20;
/// Memory for running networks, of the 4 GiB that a page has.
const RUNNING: u64 = 2 << 30;
/// Subjects of a loss that are named.
const SUBJECTS: usize = 3;
/// Reasons for a kind of loss that are told apart.
const REASONS: usize = 12;
/// Numbers of an output that are shown.
const NUMBERS: usize = 200;

/// What is open.
#[derive(Debug)]
pub(crate) struct Session {
    registry: Registry,
    /// The ids of the formats that plugins added.
    plugged: Vec<&'static str>,
    pages: Arc<Pages>,
    arrays: ChosenArrays,
    first: Option<Source>,
    second: Option<Source>,
    planned: Option<Planned>,
}

impl Session {
    /// Nothing is open.
    pub(crate) fn new() -> Self {
        let (arrays, mut registry) = (ChosenArrays::default(), Registry::builtin());
        let formats: &mut Formats = &mut registry;
        *formats = std::mem::take(formats).with_opener(arrays.clone());
        Session {
            registry,
            plugged: Vec::new(),
            pages: Arc::default(),
            arrays,
            first: None,
            second: None,
            planned: None,
        }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Whatever keeps it from being done.
    pub(crate) fn answer(&mut self, request: Request) -> Result<Value> {
        match request {
            Request::Formats => Ok(self.formats()),
            Request::Plug(plugging) => self.plug(plugging),
            Request::Open(opening) => self.open(opening),
            Request::Contents { values } => self.contents(values),
            Request::Plan(wanted) => self.plan(&wanted),
            Request::Convert => self.convert(),
            Request::Compare => self.compare(),
            Request::Run(running) => self.run(running),
        }
    }

    fn formats(&self) -> Value {
        let formats: Vec<Value> = self.registry.codecs().map(|codec| format(codec.info())).collect();
        let mappings: Vec<&str> = self.registry.mappings().map(|mapping| mapping.name()).collect();
        let dtypes = ["f64", "f32", "f16", "bf16", "f8_e4m3"];
        json!({ "formats": formats, "mappings": mappings, "dtypes": dtypes })
    }

    /// Adds the format of a plugin, in place of one of its id that a plugin added before.
    fn plug(&mut self, plugging: Plugging) -> Result<Value> {
        let name = plugging.files.first().map(|file| file.name.clone()).unwrap_or_default();
        let file = files::input(plugging.files, &name, &self.pages).main()?;
        Limits::default().check(Limit::PluginBytes, file.len())?;
        let bytes = file.bytes(0, file.len())?;
        let named = |error: Error| error.file(name.as_str());
        // By itself first: it shows its id.
        let alone = Registry::builtin();
        let count = alone.codecs().count();
        let alone = alone.with_plugin(&bytes).map_err(named)?;
        let codec = alone.codecs().nth(count).ok_or_else(|| Error::defect("a plugin has no codec"))?;
        let mut registry = self.registry.clone();
        if self.plugged.contains(&codec.info().id) {
            registry.remove(codec.info().id);
        }
        self.registry = registry.with_plugin(&bytes).map_err(named)?;
        self.plugged.push(codec.info().id);
        let origin = codec.provenance();
        Ok(json!({
            "id": codec.info().id, "title": codec.info().title,
            "version": origin.map(|origin| &origin.version), "sha256": origin.map(|origin| &origin.sha256),
        }))
    }

    fn open(&mut self, opening: Opening) -> Result<Value> {
        let Opening { files, entry, side, format, options } = opening;
        if side == Side::First {
            (self.first, self.planned) = (None, None);
        }
        let mut how = OpenOptions::new().set_all(pairs(&options)?).vocabulary(PageWords);
        how.format = format;
        let source = Source::open(&self.registry, files::input(files, &entry, &self.pages), &how)?;
        source.on_read(|bytes| host::advanced("read", bytes));
        let found = self.facts(&source)?;
        match side {
            Side::First => self.first = Some(source),
            Side::Second => self.second = Some(source),
        }
        Ok(found)
    }

    /// What the page shows of a checkpoint beside its contents.
    fn facts(&self, source: &Source) -> Result<Value> {
        let directory = self.registry.directory_format(source.input(), "model/").unwrap_or(None);
        let matrix = self.registry.matrix();
        let targets = matrix.rows.iter().find(|row| row.from == source.format()).map(|row| row.to.clone());
        let stored: u64 = source
            .contents()
            .placements
            .iter()
            .fold(0, |sum: u64, placement| sum.saturating_add(ckpt::inspect::placement_bytes(placement)));
        let quantized = source.grouped().is_some();
        Ok(json!({
            "path": source.shown(), "format": source.format(), "title": source.info().title,
            "tensors": source.checkpoint().tensors.len(), "bytes": stored, "values": source.value_bytes(),
            "targets": targets.unwrap_or_default(), "directory": directory, "quantized": quantized,
        }))
    }

    fn first(&self) -> Result<&Source> {
        self.first.as_ref().ok_or_else(|| Error::usage("no checkpoint is open"))
    }

    fn contents(&self, values: bool) -> Result<Value> {
        let source = self.first()?;
        // Without what the architecture needs, the page has no layers, and a note.
        let recognized = ckpt::verify::with_graph_of_own_names(source).ok().flatten();
        let inspection = inspect(recognized.as_ref().unwrap_or(source), values)?;
        Ok(json!({ "html": html::page(&inspection) }))
    }

    fn plan(&mut self, wanted: &Wanted) -> Result<Value> {
        self.planned = None;
        let source = self.first()?;
        let conversion = self.conversion(wanted)?;
        let place = Destination::within(Arc::new(BrowserStore), wanted.name.as_str());
        let planned = conversion.plan_unjudged(&self.registry, source, place)?;
        let plan = planned.plan();
        let refused = conversion.judge(plan).err().map(words::error);
        let files: Vec<Value> =
            plan.files().iter().map(|file| json!({ "name": file.name, "bytes": file.len })).collect();
        let answer = json!({
            "files": files, "losses": losses(&conversion, &planned), "refused": refused,
            "notes": plan.notes().collect::<Vec<_>>(), "repairs": plan.repairs(), "excluded": plan.excluded.len(),
            "tensors": plan.tensors().len(), "bytes": plan.bytes_written, "memory": plan.peak_memory,
        });
        self.planned = answer["refused"].is_null().then_some(planned);
        Ok(answer)
    }

    fn conversion(&self, wanted: &Wanted) -> Result<Conversion> {
        let limits = Limits::default();
        let mut conversion = Conversion::new()
            .to(wanted.to.as_str())
            .set_all(pairs(&wanted.options)?)
            .resources(Resources::new().max_memory(MEMORY).threads(1))
            .directory(wanted.directory)
            .keep_quantized(wanted.keep_quantized)
            .verify(wanted.verify);
        for kind in &wanted.allow {
            conversion.policy.accept(kind)?;
        }
        if let Some(name) = &wanted.mapping {
            let mapping = self.registry.read_mapping(name, &limits)?;
            conversion.mapping = Some(if wanted.inverse { mapping.inverse()? } else { mapping });
        }
        conversion.dtype = wanted.dtype.as_deref().map(str::parse::<DType>).transpose()?;
        conversion.include.clone_from(&wanted.include);
        conversion.exclude.clone_from(&wanted.exclude);
        Ok(conversion)
    }

    fn convert(&mut self) -> Result<Value> {
        let planned = self.planned.take().ok_or_else(|| Error::usage("no conversion is planned"))?;
        let execution = Execution::new().sync(false).on_phase(|phase| host::advanced(phase_name(phase), 0));
        let summary = planned.execute(&execution, &|bytes| host::advanced("converted", bytes))?;
        Ok(summarized(&summary))
    }

    fn compare(&self) -> Result<Value> {
        let second = self.second.as_ref().ok_or_else(|| Error::usage("no second checkpoint is open"))?;
        let options = Options { memory: RUNNING, ..Options::default() };
        let report = verify(&self.registry, self.first()?, second, &options)?;
        Ok(json!({
            "html": ckpt::verify::html::page(&report), "passes": report.verdict.passes(),
            "verdict": report.verdict.name(), "ran": !report.runs.is_empty(),
        }))
    }

    fn run(&self, running: Running) -> Result<Value> {
        let Running { files, divide, batch, seed, length } = running;
        let paths = self.arrays.replace(files, &self.pages);
        let files = paths.into_iter().map(|path| InputFile { path, ..InputFile::default() }).collect();
        let inputs = Inputs { files, divide, batch, seed, length, ..Inputs::default() };
        let mut cpu = devices::open("cpu", Arithmetic::F32)?;
        let pass = ckpt::verify::run(&self.registry, self.first()?, &inputs, None, &mut *cpu, RUNNING)?;
        let given: Vec<Value> = pass
            .inputs
            .iter()
            .map(|input| json!({ "name": input.name, "shape": input.shape, "origin": input.origin.replace(SCHEME, "") }))
            .collect();
        let outputs: Vec<Value> = pass
            .outputs
            .iter()
            .map(|(name, value)| {
                let numbers = value.array.to_f64();
                let shown: Vec<String> = numbers.iter().take(NUMBERS).map(|number| shortest(*number)).collect();
                json!({ "name": name, "shape": value.shape, "numbers": shown, "count": numbers.len(), "largest": largest(value) })
            })
            .collect();
        Ok(json!({ "inputs": given, "outputs": outputs, "notes": pass.notes }))
    }
}

/// As many digits as a number of 32 bits has.
fn shortest(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "shown numbers are those of 32-bit floats")]
    let number = number as f32;
    format!("{number:?}")
}

/// Options as a person writes them, `key=value` each.
fn pairs(options: &[String]) -> Result<Vec<(String, String)>> {
    let pair = |option: &String| {
        let (key, value) = option.split_once('=').ok_or_else(|| {
            Error::usage("an option has no value").found(format!("'{option}'")).expected("key=value")
        })?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    options.iter().map(pair).collect()
}

fn format(info: &FormatInfo) -> Value {
    let options: Vec<Value> = info
        .options
        .iter()
        .map(|option| {
            let values = match option.kind {
                OptionKind::Flag => json!(["true", "false"]),
                OptionKind::Choice(words) => json!(words),
                _ => Value::Null,
            };
            json!({ "name": option.name, "side": option.side, "help": option.help, "values": values })
        })
        .collect();
    json!({
        "id": info.id, "title": info.title, "extensions": info.extensions, "reads": !info.reads.is_empty(),
        "writes": !info.writes.is_empty(), "options": options, "directory": info.directory_file.is_some(),
    })
}

/// Losses by kind and reason, those that change what the model computes first.
fn losses(conversion: &Conversion, planned: &Planned) -> Vec<Value> {
    let mut kinds: BTreeMap<LossKind, Vec<&Loss>> = BTreeMap::new();
    for loss in &planned.plan().losses {
        kinds.entry(loss.kind).or_default().push(loss);
    }
    let all: Vec<LossKind> = kinds.keys().copied().collect();
    let mut listed: Vec<(LossKind, Vec<&Loss>)> = kinds.into_iter().collect();
    listed.sort_by_key(|(kind, _)| !kind.changes_function());
    let one = |(kind, losses): (LossKind, Vec<&Loss>)| {
        // Whether this kind alone stops the conversion.
        let mut others = conversion.clone();
        others.policy.allow.extend(all.iter().filter(|other| **other != kind));
        json!({
            "kind": kind.name(), "changes": kind.changes_function(), "count": losses.len(),
            "refused": others.judge(planned.plan()).is_err(), "reasons": reasons(&losses),
        })
    };
    listed.into_iter().map(one).collect()
}

fn reasons(losses: &[&Loss]) -> Vec<Value> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for loss in losses {
        let detail = loss.detail.in_words(&PageWords).into_owned();
        let known = reasons.iter().any(|(reason, _)| *reason == detail);
        let reason = if known || reasons.len() < REASONS { detail } else { "other reasons".to_owned() };
        match reasons.iter_mut().find(|(own, _)| *own == reason) {
            Some((_, subjects)) => subjects.push(&loss.subject),
            None => reasons.push((reason, vec![&loss.subject])),
        }
    }
    let shown = |(reason, subjects): (String, Vec<&str>)| {
        let named: Vec<&&str> = subjects.iter().take(SUBJECTS).collect();
        json!({ "reason": reason, "subjects": named, "count": subjects.len() })
    };
    reasons.into_iter().map(shown).collect()
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Write => "write",
        Phase::Finish => "finish",
        Phase::ReadBack => "read-back",
        Phase::Compute => "compute",
        _ => "other",
    }
}

fn summarized(summary: &Summary) -> Value {
    let rounding = summary.largest_rounding().filter(|worst| worst.largest_error > 0.0);
    let verification = summary.verification.as_ref().map(|found| {
        let computed = match &found.computed {
            Computed::Agree { rule, reason, notes } => {
                json!({ "agree": true, "rule": rule, "reason": reason, "assumed": !notes.is_empty() })
            }
            Computed::NotRun { reason } => json!({ "agree": false, "reason": reason }),
            _ => Value::Null,
        };
        json!({ "tensors": found.tensors, "equal": found.equal, "changed": found.changed.len(), "computed": computed })
    });
    json!({
        "tensors": summary.tensors, "bytes": summary.bytes, "verification": verification,
        "rounding": rounding.map(|worst| json!({ "tensor": worst.tensor, "error": worst.largest_error })),
    })
}
