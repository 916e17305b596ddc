//! `ckpt verify`.

use super::common::{Bounds, TwoInputs, tolerance, write_new};
use super::diff::{line, other_name};
use super::forward::Forward;
use super::map::read_mapping;
use super::paths::check_new;
use super::progress::while_computing;
use super::receipt::{self, Recorded};
use super::render;
use super::report::{Report, to_json};
use super::table::{Column, table};
use super::width::{Layout, Width};
use ckpt_api::{Error, Limits, Result};
use ckpt_engine::Registry;
use ckpt_engine::diff::Outcome;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::source::Source;
use ckpt_engine::words::{count, verb};
use ckpt_verify::{
    Comparison, Diagnosis, Layer, NamedMapping, Options, OutputReport, Report as Verification, Run,
    TensorReport, Verdict, html, verify,
};
use clap::{Args, ValueEnum};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    two: Option<TwoInputs>,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    recorded: Recorded,
    /// Mapping from the first checkpoint's names to the second's: a file, or the name of a built-in mapping
    #[arg(long, value_name = "FILE|NAME")]
    map: Option<String>,
    /// Apply the inverse of the mapping
    #[arg(long, requires = "map")]
    inverse: bool,
    #[command(flatten)]
    forward: Forward,
    /// Devices to run the second graph on: cpu, cuda, metal, vulkan; each is compared with the first graph on the CPU
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', default_value = "cpu")]
    device: Vec<String>,
    /// How the CPU computes the second graph
    #[arg(long, value_enum, default_value = "f32")]
    arithmetic: Numbers,
    /// Compare every layer, giving it the inputs that the first graph computed; always done if outputs differ
    #[arg(long)]
    per_layer: bool,
    /// Absolute tolerance; replaces the rule by |b - a| <= ATOL + RTOL * |a|
    #[arg(long)]
    atol: Option<f64>,
    /// Tolerance relative to the first checkpoint's values; replaces the rule as --atol does
    #[arg(long)]
    rtol: Option<f64>,
    /// Write the report as JSON to a new file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the report as a self-contained HTML page to a new file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    layout: Layout,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Numbers {
    /// In f32, sums in order
    F32,
    /// As f32, but faster: products are rounded together with the sums that they are added to
    Fast,
}

impl Arguments {
    fn options(&self, registry: &Registry, limits: Limits) -> Result<Options> {
        let mapping = match &self.map {
            None => None,
            Some(name) => {
                let mapping = read_mapping(registry, name, &limits)?;
                let mapping = if self.inverse { mapping.inverse()? } else { mapping };
                let name = if self.inverse { format!("{name}, inverted") } else { name.clone() };
                Some(NamedMapping { name, mapping })
            }
        };
        Ok(Options {
            inputs: self.forward.inputs(registry.addresses(), &limits)?,
            mapping,
            devices: self.device.clone(),
            fast: self.arithmetic == Numbers::Fast,
            per_layer: self.per_layer,
            tolerance: tolerance(self.atol, self.rtol)?,
            memory: self.forward.memory()?,
            limits,
        })
    }
}

/// The mappings from the names of each checkpoint to those of the other, whose model may give it its graph.
fn to_graphs(options: &Options) -> [Option<Arc<Mapping>>; 2] {
    let Some(named) = &options.mapping else { return [None, None] };
    [Some(Arc::new(named.mapping.clone())), named.mapping.inverse().ok().map(Arc::new)]
}

/// The checkpoints with their graphs; of one that takes the other's names for that, nothing is left to map.
fn under_graph_names(a: Source, b: Source, options: &mut Options) -> Result<(Source, Source)> {
    let (mapped_a, mapped_b) = (a.under_graph_names()?, b.under_graph_names()?);
    match (mapped_a, mapped_b) {
        (None, None) => Ok((a, b)),
        (Some(_), Some(_)) => {
            Err(Error::usage("both checkpoints take their graphs from models with the other's names")
                .help("give one of them a model with its own names"))
        }
        (mapped_a, mapped_b) => {
            options.mapping = None;
            Ok((mapped_a.unwrap_or(a), mapped_b.unwrap_or(b)))
        }
    }
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    if let Some(receipt) = &arguments.recorded.receipt {
        let root = arguments.recorded.root.as_deref();
        return receipt::run(registry, receipt, root, &arguments.bounds.limits()?, json);
    }
    let two = arguments.two.as_ref().ok_or_else(|| {
        Error::usage("there is nothing to verify").help("name two checkpoints, or a --receipt")
    })?;
    // Before all is computed for them.
    arguments.report.iter().chain(&arguments.html).try_for_each(|path| check_new(path, false))?;
    let limits = arguments.bounds.limits()?;
    let mut options = arguments.options(registry, limits.clone())?;
    let names = options.inputs.names(registry)?;
    let (a, b) = two.open_to_run(registry, &limits, &names, to_graphs(&options))?;
    let (a, b) = under_graph_names(a, b, &mut options)?;
    let found = while_computing("verifying", &[&a, &b], || verify(registry, &a, &b, &options));
    let found = found.map_err(|error| two.located(error))?;
    if let Some(path) = &arguments.report {
        write_new(path, to_json(&found)?)?;
    }
    if let Some(path) = &arguments.html {
        write_new(path, html::page(&found))?;
    }
    let text =
        if json { to_json(&found)? } else { arguments.layout.folded(text(&found, arguments.layout.width())) };
    Ok(Report::comparing(text, !found.verdict.passes()))
}

fn text(report: &Verification, width: Width) -> String {
    let mut text = String::new();
    for (side, model) in [("a", &report.a), ("b", &report.b)] {
        let nodes = model.nodes.map_or("no graph".to_owned(), |nodes| count(nodes, "node"));
        let _ = writeln!(
            text,
            "{side}  {} ({}: {}, {nodes})",
            render::plain(&model.path),
            model.format,
            count(model.tensors, "tensor")
        );
    }
    for input in &report.inputs {
        let name = render::plain(&input.name);
        let _ = writeln!(text, "input '{name}' {:?}: {}", input.shape, render::plain(&input.origin));
    }
    report.runs.iter().for_each(|run| run_text(run, &mut text, width));
    if let Some(tensors) = &report.tensors {
        tensors_text(tensors, &mut text);
    }
    for note in &report.notes {
        let _ = writeln!(text, "\nnote: {}", render::plain(note));
    }
    let extent = if report.runs.is_empty() { " (tensors only; nothing was run)" } else { "" };
    let _ = writeln!(text, "\n{}{extent}", report.verdict.name());
    text
}

fn run_text(run: &Run, text: &mut String, width: Width) {
    let _ = writeln!(
        text,
        "\na, the reference, runs on {}; b runs on {}",
        run.reference,
        render::plain(&run.device.to_string())
    );
    let _ = writeln!(text, "  rule     {}: {}", run.rule.name.name(), run.rule.reason.as_str());
    let _ = writeln!(text, "  layers   {}", run.rule.layers);
    let _ = writeln!(text, "  outputs  {}", run.rule.outputs);
    let rows = run
        .outputs
        .iter()
        .map(|output| row(&output.a, "output", Some(&output.comparison), output.comparison.verdict));
    let _ = write!(text, "\noutputs\n{}", table(&COLUMNS, width, rows));
    for output in &run.outputs {
        details(output, text);
    }
    if !run.layers.is_empty() {
        let rows = run
            .layers
            .iter()
            .map(|layer| row(layer_name(layer), &layer.op, layer.comparison.as_ref(), layer.verdict));
        let _ = write!(text, "\nlayers\n{}", table(&COLUMNS, width, rows));
    }
    for (index, layer) in run.layers.iter().enumerate() {
        if let Some(Diagnosis { reason, .. }) = &layer.diagnosis {
            let first = if run.first_divergence == Some(index) { " is the first that diverges" } else { "" };
            let name = render::plain(layer_name(layer));
            let _ = writeln!(text, "\nlayer '{name}'{first}: {}", render::plain(reason));
        }
    }
}

const COLUMNS: [Column; 11] = [
    Column::text("name"),
    Column::text("op").optional(3),
    Column::text("shape").optional(2),
    Column::number("max abs"),
    Column::number("max rel").optional(4),
    Column::number("rms").optional(4),
    Column::number("rel L2").optional(4),
    Column::number("cosine").optional(4),
    Column::number("ulp").optional(4),
    Column::word("check").optional(1),
    Column::word("verdict"),
];

fn layer_name(layer: &Layer) -> &str {
    layer.a.as_deref().or(layer.b.as_deref()).unwrap_or_default()
}

fn row(name: &str, what: &str, comparison: Option<&Comparison>, verdict: Verdict) -> Vec<String> {
    let mut row = vec![render::plain(name).into_owned(), render::plain(what).into_owned()];
    let Some(Comparison { shape, metrics, checks, .. }) = comparison else {
        row.extend(["-"; 8].map(str::to_owned));
        row.push(verdict.name().to_owned());
        return row;
    };
    let number = |value: f64| render::number(value, 3);
    let maybe = |value: Option<f64>| value.map_or("-".to_owned(), number);
    // The check nearest to its limit, the first of equals.
    let tightest = checks.iter().rev().max_by(|a, b| tightness(a).total_cmp(&tightness(b)));
    row.push(format!("{shape:?}"));
    row.extend([metrics.max_absolute, metrics.max_relative, metrics.rms].map(number));
    row.push(maybe(metrics.relative_l2));
    row.push(metrics.cosine.map_or("-".to_owned(), |cosine| format!("{cosine:.9}")));
    row.push(metrics.max_ulp.map_or("-".to_owned(), |ulp| ulp.to_string()));
    row.push(tightest.map_or(String::new(), |check| {
        let sign = if check.holds() { "≤" } else { ">" };
        let found = check.found.map_or("not finite".to_owned(), number);
        format!("{}: {found} {sign} {}", check.name, number(check.limit))
    }));
    row.push(verdict.name().to_owned());
    row
}

/// The share of its limit that a check uses.
fn tightness(check: &ckpt_verify::Check) -> f64 {
    match (check.found, check.limit > 0.0) {
        (None, _) => f64::INFINITY,
        (Some(found), true) => found / check.limit,
        (Some(found), false) if found > 0.0 => f64::INFINITY,
        (Some(_), false) => 0.0,
    }
}

fn details(output: &OutputReport, text: &mut String) {
    let name = render::plain(&output.a);
    if let Some(worst) = &output.comparison.metrics.worst {
        let _ = writeln!(
            text,
            "  {name}: largest difference at {:?}: {} instead of {}",
            worst.index, worst.found, worst.reference
        );
    }
    if let Some(argmax) = output.argmax {
        let _ = writeln!(
            text,
            "  {name}: the largest element is at the same place in {} of {} rows, and in {} of the {} rows whose \
             margin exceeds the \
             allowed error",
            argmax.agreeing, argmax.rows, argmax.decided_agreeing, argmax.decided
        );
    }
}

fn tensors_text(report: &TensorReport, text: &mut String) {
    let difference = &report.difference;
    let _ = writeln!(text, "\n{}", report.reason);
    for (side, names) in [("a", &difference.only_in_a), ("b", &difference.only_in_b)] {
        for name in names {
            let _ = writeln!(text, "  only in {side}: {}", render::plain(name));
        }
    }
    if !difference.incidental.is_empty() {
        let tensors = count(difference.incidental.len(), "tensor");
        let _ = writeln!(text, "  no difference: {tensors} of bookkeeping or training");
    }
    let is_exact = difference.tolerance.is_exact();
    for tensor in &difference.tensors {
        if let Some(names) = other_name(tensor) {
            let _ = writeln!(text, "  {names}");
        }
        if let Some(line) = line(tensor, is_exact) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let equal = difference.tensors.iter().filter(|tensor| tensor.outcome == Outcome::Equal).count();
    let _ = writeln!(
        text,
        "  {equal} of {} {} equal bit for bit",
        count(difference.tensors.len(), "tensor"),
        verb(equal, "is", "are")
    );
}
