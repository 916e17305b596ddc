//! Compares what two checkpoints compute.
//!
//! [`verify`] runs both graphs on the same inputs: the first on the CPU, which is the reference, the second on each
//! device of [`Options::devices`]. Outputs are compared end to end. Each layer is compared on the first graph's own
//! activations, so that the error of one layer does not count for the next. Nodes are paired by the names of their
//! tensors, through a mapping where one is given, or else by their order.
//!
//! # Rules
//!
//! The [`Rule`] that must hold follows from what changed. Every report states it, with its reason.
//!
//! - **bits**: no tensor is stored with less precision, so only format, names and layout can differ. Both graphs run
//!   in binary32 on the CPU and add in the same order; all bits of all results are equal. So are those of all
//!   tensors: the results do not show a difference behind a neuron that never fires.
//! - **bound**: tensors are narrowed or quantized, or the second graph runs on another device. The reference is
//!   computed in binary64. A layer's error `e` stays within `2·√k·u·S + 2u·|y| + 2⁻¹²⁶ + W`, and `‖e‖₂/‖y‖₂` within
//!   `1e-5 + ‖W‖₂/‖y‖₂`, with
//!   - `u = 2⁻²⁴` and `S = Σ|x||w| + |b|` over `k` summands ([`ckpt_forward::Magnitude`]). Sums in any order were
//!     measured to stay within 1.31·√k·u·S. A layer that only moves or chooses elements is exact.
//!   - `W = Σ|x|·Δw + Δb`, the effect of storage. For a floating-point type, `Δw` is its unit roundoff times `|w|`
//!     plus half of its smallest number (f16: 2⁻¹¹·|w| + 2⁻²⁵); for integers with a scale, half a unit where they are
//!     rounded and a whole one where they are truncated, plus what is clipped; for blocks that share scales, two of as
//!     many steps as their bits tell apart, of a range of twice the tensor's largest number. Each element of each
//!     tensor must also be within its `Δw`. A number that is stored plus another one, as GGUF stores norms of Gemma,
//!     may be off by the rounding of the sum.
//!   - `‖y‖₂` at least `‖S‖₂/√k`, the norm of a sum whose summands have random signs: where summands cancel, the
//!     little that is left is no measure of their errors.
//!
//!   End to end, `‖e‖₂/‖y‖₂` stays within `1e-5 + Σ‖W‖₂/‖y‖₂` over all layers. (A softmax turns an absolute error of
//!   its logits into at most half that error of its probabilities, so the sum grows by `‖z‖₂/(2·‖p‖₂)` where that
//!   exceeds 1.) `max|e|/max|y|` stays within four times that bound, and the largest element of each row is the same
//!   wherever its margin exceeds the errors of both. Because storage widens this bound, a layer that only one graph
//!   has, or whose inputs are connected differently, is a difference even where the outputs agree.
//!
//!   In a recurrent layer, a loop, or a layer of several kernels, errors are followed from step to step, and each output
//!   has a bound of its own.
//!
//!   Where one of these does not hold, and storage only rounds to floating-point types, and the second graph runs on the
//!   CPU: the first graph is run in binary32 with its weights rounded to these types. If all outputs of the second graph have
//!   the same bits, and each tensor is within its `Δw`, rounding is all that happened.
//! - **given**: every element of results and layers is within the user's [`Tolerance`](ckpt_engine::diff::Tolerance),
//!   `|b − a| ≤ atol + rtol·|a|`, if the reference is the first checkpoint's value.
//!
//! The second checkpoint should be made from the first: a wider dtype than the first one's holds the same numbers
//! (*bits*), a narrower one does not (*bound*).
//!
//! Where a graph is missing, tensors of the same name (after mapping) are compared as [`diff`](ckpt_engine::diff::diff) does. If they
//! do not all agree and one checkpoint has a graph, the other is run with it, provided that it has the tensors that the graph
//! needs and no weights beside; otherwise, that is an error, unless tensors that both have differ. Tensors are also compared
//! where the activations are not stated. Tensors of other roles than weights that only one checkpoint has are no difference.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod borrowed;
mod compare;
mod device_run;
pub mod devices;
mod diagnose;
mod forward;
mod graphs;
mod inputs;
mod layers;
mod notes;
mod options;
mod parameters;
mod plain;
mod recognized;
mod reordered;
mod report;
mod shapes;
mod written;

pub use compare::{MetricsBuilder, Precision, largest};
pub use forward::{ForwardPass, run};
pub use inputs::{InputFile, Inputs, chess, read_array};
pub use options::{DEFAULT_MEMORY, NamedMapping, Options};
pub use parameters::SourceParameters;
pub use recognized::with_graph_of_own_names;
pub use report::{
    Argmax, Check, Comparison, Decade, Diagnosis, Histogram, InputSummary, Layer, Metrics, Model,
    OutputReport, Report, Rule, RuleName, Run, TensorDiagnosis, TensorPair, TensorReport, TensorSide,
    Verdict, WorstElement, html,
};
pub use written::GraphVerifier;

use ckpt_api::{Error, Graph, Result, Role, Setting, Text, text};
use ckpt_engine::diff::{Difference, diff_except};
use ckpt_engine::formats::Formats;
use ckpt_engine::source::Source;

/// Compares two checkpoints: `a` is the reference, `b` is made from it.
///
/// # Errors
/// Whatever keeps a graph from running or a tensor from being read. A difference is not an error; the report
/// describes it.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let registry = ckpt::Registry::builtin();
/// let open = || ckpt::Source::open(&registry, "examples/data/digits_saved_model", &Default::default());
/// let report = ckpt::verify::verify(&registry, &open()?, &open()?, &Default::default())?;
/// assert!(report.verdict.passes());
/// assert_eq!(report.runs[0].rule.name, ckpt::verify::RuleName::Bits);
/// # Ok(())
/// # }
/// ```
pub fn verify(formats: &Formats, a: &Source, b: &Source, options: &Options) -> Result<Report> {
    let options = &options.with_parameters(a, b)?;
    let Some(prepared) = recognized::prepare(formats, a, b, options) else {
        return compare(formats, a, b, options);
    };
    let renamed = Options { mapping: None, ..options.clone() };
    let effective = if prepared.is_renamed { &renamed } else { options };
    let mut report = compare(formats, &prepared.a, &prepared.b, effective)?;
    report.mapping = options.mapping.as_ref().map(|named| named.name.clone());
    prepared.complete(&mut report)?;
    Ok(report)
}

/// Compares two checkpoints by their graphs, or else by their tensors.
fn compare(formats: &Formats, a: &Source, b: &Source, options: &Options) -> Result<Report> {
    let mut report = Report {
        verdict: Verdict::Pass,
        a: model(a),
        b: model(b),
        mapping: options.mapping.as_ref().map(|named| named.name.clone()),
        inputs: Vec::new(),
        runs: Vec::new(),
        tensors: None,
        notes: Vec::new(),
    };
    let unstated = without_activations(a, b);
    if let (Some(own), Some(theirs), None) = (&a.checkpoint().graph, &b.checkpoint().graph, unstated) {
        let sources = [a, b];
        let reordered = reordered::reordered(formats, a, theirs, options)?;
        let renamed = Options { mapping: None, ..options.clone() };
        let reference =
            reordered.as_ref().and_then(|found| Some((found, found.source.checkpoint().graph.as_ref()?)));
        let (a, own, options) = match reference {
            Some((found, own)) => (&found.source, own, if found.is_renamed { &renamed } else { options }),
            None => (a, own, options),
        };
        let adapted = inputs::with_channels_last(own, theirs);
        let theirs = adapted.as_ref().unwrap_or(theirs);
        (report.inputs, report.runs) = graphs::compare_graphs(formats, (a, own), (b, theirs), options)?;
        let passes = !report.runs.is_empty() && report.runs.iter().all(|run| run.verdict.passes());
        report.verdict = Verdict::of(passes);
        report.notes = notes::on_runs(&report.runs);
        report.notes.extend(reordered.map(|found| found.note.into()));
        report.notes.extend(notes::on_graphs(sources));
    } else {
        let difference = compare_tensors(a, b, options)?;
        if let Some((source, graph)) = unstated.filter(|_| difference.tensors.is_empty()) {
            let with_tensors = |help| text![no_names_in_common(options), "; to run the layers, ", help];
            let stated = graph.require_activations().map_err(|error| error.with_help(with_tensors));
            stated.map_err(graphs::in_file(source))?;
        }
        let sides = [a, b].map(|source| source.checkpoint().graph.is_some());
        if difference.tensors.is_empty() && (sides == [true, false] || sides == [false, true]) {
            return Err(incomparable(if sides == [true, false] { b } else { a }, options));
        }
        if sides[0] != sides[1] && unstated.is_none() && !difference.agrees() {
            if let Some(found) = borrowed::with_graph(a, b, options)? {
                let renamed = Options { mapping: None, ..options.clone() };
                match compare(formats, &found.a, &found.b, &renamed) {
                    Ok(mut run) => {
                        run.mapping = report.mapping;
                        run.notes.push(found.note.into());
                        return Ok(run);
                    }
                    Err(error) if !borrowed::differ(&difference) => return Err(error),
                    // What differs does so whether it can be run or not.
                    Err(_) => {}
                }
            } else if !borrowed::differ(&difference) {
                return Err(borrowed::unjudged(a, b, options, &difference)?);
            }
        }
        report.verdict = Verdict::of(difference.agrees() && !difference.tensors.is_empty());
        report.notes = notes_on_tensors(a, b, options, &difference);
        report.tensors = Some(TensorReport { reason: why_tensors(a, b, options, &difference), difference });
    }
    report.notes.iter_mut().for_each(|note| note.settle(&*a.options().vocabulary));
    report.runs.iter_mut().for_each(|run| run.rule.reason.settle(&*a.options().vocabulary));
    Ok(report)
}

fn model(source: &Source) -> Model {
    Model {
        path: source.shown(),
        format: source.format().to_owned(),
        tensors: source.checkpoint().tensors.len(),
        nodes: source.checkpoint().graph.as_ref().map(|graph| graph.nodes.len()),
    }
}

/// The first checkpoint whose graph does not state all activations.
fn without_activations<'s>(a: &'s Source, b: &'s Source) -> Option<(&'s Source, &'s Graph)> {
    let graphs = [a, b].into_iter().filter_map(|source| Some((source, source.checkpoint().graph.as_ref()?)));
    graphs.into_iter().find(|(_, graph)| !graph.unspecified().is_empty())
}

/// Why tensors are compared in place of graphs, and which.
fn why_tensors(a: &Source, b: &Source, options: &Options, difference: &Difference) -> String {
    let missing = match (&a.checkpoint().graph, &b.checkpoint().graph) {
        (None, None) => "neither checkpoint has a graph",
        (None, _) => "the first checkpoint has no graph",
        (_, None) => "the second checkpoint has no graph",
        _ => "the activations of the layers are not stated",
    };
    let compared = match &options.mapping {
        _ if difference.tensors.iter().any(|tensor| tensor.name_b.is_some()) => {
            "the only tensors of both".to_owned()
        }
        Some(named) => format!("tensors that the mapping {} relates", named.name),
        None => "tensors of the same name".to_owned(),
    };
    format!("{missing}, so nothing was run, and {compared} were compared")
}

/// The error for a checkpoint whose graph is not known, and that has no tensor in common with the other one: it may compute
/// the same or not.
fn incomparable(source: &Source, options: &Options) -> Error {
    let contents = source.contents();
    let why = match &contents.missing_graph {
        Some(missing) => missing.reason.clone(),
        None => contents.all_notes().collect::<Vec<_>>().join("; ").into(),
    };
    let found = if why.is_empty() { "tensors alone".into() } else { why };
    Error::unsupported("the checkpoint has no graph to run, so it cannot be compared by what it computes")
        .file(source.shown())
        .found(found)
        .help(no_names_in_common(options))
}

/// What to do about checkpoints without names in common.
fn no_names_in_common(options: &Options) -> Text {
    let mapping = if options.mapping.is_some() { "another mapping" } else { "a mapping" };
    let found = "the checkpoints have no tensor names in common";
    text![format!("{found}: to compare their tensors, pass {mapping} with "), Setting::MAPPING]
}

/// Roles of tensors that do not matter to what a model computes.
const INCIDENTAL: [Role; 4] = [Role::Bookkeeping, Role::Counter, Role::Duplicate, Role::Optimizer];

fn compare_tensors(a: &Source, b: &Source, options: &Options) -> Result<Difference> {
    let tolerance = options.tolerance;
    match &options.mapping {
        Some(named) => diff_except(&a.renamed(&named.mapping, &options.limits)?.0, b, tolerance, &INCIDENTAL),
        None => diff_except(a, b, tolerance, &INCIDENTAL),
    }
}

fn notes_on_tensors(a: &Source, b: &Source, options: &Options, difference: &Difference) -> Vec<Text> {
    let mut notes = Vec::new();
    if difference.tensors.is_empty() {
        notes.push(no_names_in_common(options));
    }
    let differ = !difference.only_in_a.is_empty() && !difference.only_in_b.is_empty();
    if differ && !difference.tensors.is_empty() && options.mapping.is_none() {
        notes.push(text![
            "each checkpoint has tensors that the other has not: if a mapping renamed or reordered them, \
             pass it with ",
            Setting::MAPPING,
        ]);
    }
    notes.extend(difference.advice_on_dtypes());
    if let Some((source, graph)) = without_activations(a, b) {
        let shown = source.shown();
        let layers = graph.unspecified().join(", ");
        let mut note = text![
            format!("{shown}: no activation for {layers}; to run the layers, name them with "),
            Setting::READ_OPTION.of("activations=…"),
        ];
        note.settle(&*source.options().vocabulary);
        notes.push(note);
    }
    // A codec notes why it found no graph.
    for source in [a, b].into_iter().filter(|source| source.checkpoint().graph.is_none()) {
        let shown = source.shown();
        notes.extend(source.contents().all_notes().map(|note| format!("{shown}: {note}").into()));
    }
    if options.inputs.are_given() || options.devices != Options::default().devices {
        notes.push("no graph was run, so the given inputs and devices were not used".into());
    }
    notes.dedup();
    notes
}
