//! Whether two checkpoints compute the same.
//!
//! [`verify`] runs both graphs on the same inputs: the first on the CPU, which is the reference, the second on each device
//! that is asked for. What they give is compared end to end, and every layer on the first graph's own activations, so that errors
//! of one layer are not blamed on the next. Nodes belong together by the names of their tensors, through a mapping where one is
//! given, or else by their order.
//!
//! # What must hold
//!
//! The rule ([`Rule`]) follows from what changed, and every report states it with its reason:
//!
//! - **bits**: where no tensor is stored with less precision, only format, names and layout can have changed. Both graphs run
//!   in binary32 on the CPU, every sum in the same order, and all bits of all results are equal. So are those of all tensors, which also
//!   shows what no input does (a weight behind a neuron that never fires).
//! - **bound**: where tensors are narrowed or quantized, or the second graph runs on another device. The reference is computed in
//!   binary64. A layer's error `e` stays within `2·√k·u·S + 2u·|y| + 2⁻¹²⁶ + W`, and `‖e‖₂/‖y‖₂` within `1e-5 + ‖W‖₂/‖y‖₂`, with
//!   - `u = 2⁻²⁴`, `S = Σ|x||w| + |b|` over `k` summands ([`ckpt_forward::Magnitude`]; sums in any order were measured to stay within
//!     1.31·√k·u·S); a layer that only moves or chooses elements has no error at all;
//!   - `W = Σ|x|·Δw + Δb`, what storage may do: `Δw` is the unit roundoff of a narrower floating-point type times `|w|` and half of its
//!     smallest number (f16: 2⁻¹¹·|w| + 2⁻²⁵), or for integers half a unit of the scale where they are rounded and a whole one where they
//!     are truncated, and what clipping takes away. Every tensor is held to its `Δw` element by element, too;
//!   - `‖y‖₂` at least `‖S‖₂/√k`, the size of a sum whose summands have random signs: where they cancel, what is left says
//!     nothing about errors.
//!
//!   End to end, `‖e‖₂/‖y‖₂` stays within `1e-5 + Σ‖W‖₂/‖y‖₂` over all layers (a softmax makes half of an absolute error of its
//!   logits one of its probabilities, so that the sum grows by the factor `‖z‖₂/(2·‖p‖₂)` where that is more than 1), `max|e|/max|y|` within four times that, and the largest
//!   element of each row is the same one where it leads by more than the errors of both. What storage may do makes this wide: then a
//!   layer that only one graph has, or that takes other values, is a difference though the outputs agree.
//! - **given**: `|a − b| ≤ atol + rtol·|a|` for every element of results and layers, where the user says so.
//!
//! The first checkpoint is taken to be what the second was made of: a wider dtype than the first one's holds the same numbers
//! (*bits*), a narrower one does not (*bound*).
//!
//! Where not both have a graph, tensors of the same name (after mapping) are compared as [`diff`] does.

mod blame;
mod changes;
pub mod chess;
mod compare;
pub mod devices;
mod forward;
pub mod html;
mod idx;
mod images;
mod inputs;
mod layers;
mod mapped;
mod metrics;
mod normalized;
mod pairing;
mod parameters;
mod report;
mod write;

pub use compare::largest;
pub use forward::{Ran, run};
pub use inputs::{InputFile, Inputs, read_array};
pub use metrics::{Decade, Histogram, Measure, Metrics, Place, Precision};
pub use parameters::SourceParameters;
pub use report::{
    Argmax, Blame, Check, Comparison, InputSummary, Layer, Model, OutputReport, Report, Rule, RuleName, Run,
    TensorBlame, TensorPair, TensorReport, TensorSide, Verdict,
};

use crate::diff::{Tolerance, diff};
use crate::mapping::Mapping;
use crate::registry::Registry;
use crate::source::Source;
use blame::Sides;
use changes::Changes;
use ckpt_api::{Error, Graph, Limits, Result};
use ckpt_forward::{Arithmetic, Array, Backend, Cpu, Program, Value};
use compare::{Bound, Demand, RELATIVE_L2, argmax, compare};
use layers::{Compared, Comparing, Reference, as_shape, comparable};
use mapped::Mapped;
use pairing::{Pair, pair};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes that values and tensors may take, unless it is said otherwise.
pub const DEFAULT_MEMORY: u64 = ckpt_forward::DEFAULT_MEMORY;

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// What goes into both graphs.
    pub inputs: Inputs,
    /// From the first checkpoint's names to the second's.
    pub mapping: Option<Named>,
    /// Where the second graph runs: each is compared with the first graph on the CPU.
    pub devices: Vec<String>,
    /// Compare layers even where outputs agree.
    pub per_layer: bool,
    /// In place of the rule that follows from what changed.
    pub tolerance: Option<Tolerance>,
    /// Bytes that values and tensors may take at a time.
    pub memory: u64,
    /// Bounds for the mapping.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            inputs: Inputs::default(),
            mapping: None,
            devices: vec!["cpu".to_owned()],
            per_layer: false,
            tolerance: None,
            memory: DEFAULT_MEMORY,
            limits: Limits::default(),
        }
    }
}

/// A mapping, and what it is called.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its file, or the name of a built-in one.
    pub name: String,
    /// The mapping.
    pub mapping: Mapping,
}

/// Compares two checkpoints: `a` is the reference, and `b` what was made of it.
///
/// # Errors
/// Whatever keeps a graph from running or a tensor from being read. That the two do not agree is none: the report says it.
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
pub fn verify(registry: &Registry, a: &Source, b: &Source, options: &Options) -> Result<Report> {
    match (&a.checkpoint().graph, &b.checkpoint().graph) {
        (Some(own), Some(theirs)) => {
            let turned = images::with_channels_last(own, theirs);
            graphs(registry, (a, own), (b, turned.as_ref().unwrap_or(theirs)), options)
        }
        (own, theirs) => {
            let without = match (own, theirs) {
                (None, None) => "neither checkpoint says",
                (None, _) => "the first checkpoint does not say",
                _ => "the second checkpoint does not say",
            };
            let reason =
                format!("{without} what it computes, so that tensors of the same name were compared");
            tensors(a, b, options, reason)
        }
    }
}

fn report(a: &Source, b: &Source, options: &Options) -> Report {
    Report {
        verdict: Verdict::Pass,
        a: model(a),
        b: model(b),
        mapping: options.mapping.as_ref().map(|named| named.name.clone()),
        inputs: Vec::new(),
        runs: Vec::new(),
        tensors: None,
        notes: Vec::new(),
    }
}

fn model(source: &Source) -> Model {
    Model {
        path: source.input().display(source.input().entry()),
        format: source.format().to_owned(),
        tensors: source.checkpoint().tensors.len(),
        nodes: source.checkpoint().graph.as_ref().map(|graph| graph.nodes.len()),
    }
}

fn tensors(a: &Source, b: &Source, options: &Options, reason: String) -> Result<Report> {
    let tolerance = options.tolerance.unwrap_or_default();
    let difference = match &options.mapping {
        Some(named) => diff(&a.renamed(&named.mapping, &options.limits)?, b, tolerance)?,
        None => diff(a, b, tolerance)?,
    };
    let mut report = report(a, b, options);
    report.verdict = Verdict::of(difference.agrees() && !difference.tensors.is_empty());
    if difference.tensors.is_empty() {
        report.notes.push("no name is in both: give the mapping of names with --map".to_owned());
    }
    // Why a graph was left out is said here, if anywhere.
    for source in [a, b].into_iter().filter(|source| source.checkpoint().graph.is_none()) {
        let shown = source.input().display(source.input().entry());
        report.notes.extend(source.contents().notes.iter().map(|note| format!("{shown}: {note}")));
    }
    if options.inputs.are_given() || options.devices != Options::default().devices {
        report.notes.push("nothing was run: the inputs and devices that were given were not used".to_owned());
    }
    report.notes.dedup();
    report.tensors = Some(TensorReport { reason, difference });
    Ok(report)
}

/// A checkpoint and its graph.
type Side<'a> = (&'a Source, &'a Graph);

fn graphs(registry: &Registry, a: Side, b: Side, options: &Options) -> Result<Report> {
    let parameters = [a.0, b.0].map(|source| SourceParameters::new(source, options.memory));
    let [own, theirs] = &parameters;
    let located = |side: Side| {
        let shown = side.0.input().display(side.0.input().entry());
        move |error: Error| error.file(shown.clone())
    };
    let given = options.inputs.read(registry, a.0.checkpoint(), a.1, options.memory)?;
    let shapes = given.shapes(a.1, own, &options.inputs);
    let program_a = Program::with_memory(a.1, own, &shapes, options.memory).map_err(located(a))?;
    let (inputs_a, summaries) = given.finish(&program_a, &options.inputs)?;
    let (inputs_b, names) = inputs_of(a.1, b.1, &inputs_a)?;
    let shapes_b = inputs_b.iter().map(|(name, value)| (name.clone(), value.shape.clone())).collect();
    let program_b = Program::with_memory(b.1, theirs, &shapes_b, options.memory).map_err(located(b))?;
    let inputs_b = without_unused(b.1, &program_b, inputs_b);
    let mapped = Mapped::new(options.mapping.as_ref(), &a.0.checkpoint().tensors, &options.limits)?;
    let pairs = pair(a.1, b.1, &|name| mapped.names(name));
    let both =
        pairs.iter().filter_map(|pair| if let Pair::Both(ia, ib) = pair { Some((*ia, *ib)) } else { None });
    let changes = Changes::new((a.1, own), (b.1, theirs), both);
    let of_node = |node: &'_ ckpt_api::Node| {
        node.parameters.iter().map(|(role, name)| (role.clone(), name.clone())).collect::<Vec<_>>()
    };
    let owners: Vec<(String, Vec<(String, String)>)> =
        a.1.nodes.iter().map(|node| (node.name.clone(), of_node(node))).collect();
    let sides = Sides {
        a: own,
        b: theirs,
        errors: &changes.errors,
        mapped: &mapped,
        layers: owners
            .iter()
            .flat_map(|(layer, tensors)| {
                tensors.iter().map(move |(role, name)| (layer.as_str(), role.as_str(), name.as_str()))
            })
            .collect(),
    };
    let verifying = Verifying {
        options,
        changes: &changes,
        sides: &sides,
        a: (a.1, &program_a),
        b: (b.1, &program_b),
        pairs: &pairs,
        inputs: (&inputs_a, &inputs_b),
        names: &names,
    };
    let mut report = report(a.0, b.0, options);
    report.inputs = summaries;
    for name in &options.devices {
        let mut device = devices::open(name, Arithmetic::F32)?;
        report.runs.push(verifying.on(&mut *device)?);
    }
    report.verdict =
        Verdict::of(!report.runs.is_empty() && report.runs.iter().all(|run| run.verdict.passes()));
    report.notes = notes(&report);
    Ok(report)
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let blank = |output: &OutputReport| output.comparison.metrics.cosine.is_none();
    if report.runs.iter().any(|run| run.outputs.iter().any(blank)) {
        notes.push(
            "an output is nothing but zeros, infinities or NaN on these inputs, so that little is shown: give others".to_owned(),
        );
    }
    for run in report.runs.iter().filter(|run| !run.verdict.passes()) {
        if run.first_divergence.is_none() {
            notes.push(format!(
                "on {}, every layer agrees on the reference's own activations, and the outputs do not: errors grow from layer to \
                 layer, or one graph is wired otherwise",
                run.device
            ));
        }
        // One weight that is off is a fault; many that are may have been rounded.
        let blamed =
            run.layers.iter().filter_map(|layer| layer.blame.as_ref()).flat_map(|blame| &blame.tensors);
        let rounded =
            |tensor: &TensorBlame| tensor.likeness.is_none() && tensor.differing > tensor.elements / 4;
        if run.rule.name == RuleName::Bits && blamed.into_iter().any(rounded) {
            notes.push(
                "equal bits are demanded because the second is taken to be made of the first: where it was the other way round, \
                 exchange them; where a dtype between them was narrower, give --atol and --rtol"
                    .to_owned(),
            );
        }
    }
    notes.dedup();
    notes
}

/// The second graph's inputs: by name, or else by their order; and which of the first graph's each is.
fn inputs_of(
    a: &Graph,
    b: &Graph,
    inputs: &BTreeMap<String, Value>,
) -> Result<(BTreeMap<String, Value>, HashMap<String, String>)> {
    if a.inputs.len() != b.inputs.len() {
        return Err(Error::mismatch("the graphs do not take the same inputs")
            .found(format!("{} in the second", b.inputs.len()))
            .expected(format!("{}, as in the first", a.inputs.len())));
    }
    let by_name = b.inputs.iter().all(|input| inputs.contains_key(&input.name));
    let (mut values, mut names) = (BTreeMap::new(), HashMap::new());
    for (own, theirs) in a.inputs.iter().zip(&b.inputs) {
        let name = if by_name { &theirs.name } else { &own.name };
        let Some(value) = inputs.get(name) else { continue };
        let shape = inputs::fitted(&value.shape, &theirs.shape).unwrap_or_else(|| value.shape.clone());
        values.insert(theirs.name.clone(), Value::new(shape, value.array.clone())?);
        names.insert(theirs.name.clone(), name.clone());
    }
    Ok((values, names))
}

/// What kind of numbers an input has that nothing takes is not known: any will do.
fn without_unused(
    b: &Graph,
    program: &Program,
    mut inputs: BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    let taken: HashSet<&str> = b.nodes.iter().flat_map(|node| &node.inputs).map(String::as_str).collect();
    for info in program.inputs().filter(|info| !taken.contains(info.name)) {
        if let Some(value) = inputs.get_mut(info.name) {
            value.array = Array::zeros(info.numbers.element(Arithmetic::F32), value.array.len());
        }
    }
    inputs
}

/// Everything that a run on one device needs.
struct Verifying<'a> {
    options: &'a Options,
    changes: &'a Changes,
    sides: &'a Sides<'a>,
    a: (&'a Graph, &'a Program<'a>),
    b: (&'a Graph, &'a Program<'a>),
    pairs: &'a [Pair],
    inputs: (&'a BTreeMap<String, Value>, &'a BTreeMap<String, Value>),
    names: &'a HashMap<String, String>,
}

impl Verifying<'_> {
    fn on(&self, device: &mut dyn Backend) -> Result<Run> {
        let rule = self.changes.rule(device.info(), self.options.tolerance);
        let exact = rule.name == RuleName::Bits;
        let mut cpu = Cpu::new(if exact { Arithmetic::F32 } else { Arithmetic::F64 });
        let found = self.b.1.run(device, self.inputs.1, &mut ())?;
        // Bounds end to end follow from those of the layers.
        let at_once = self.options.per_layer || rule.name == RuleName::Bound || !self.tensors_agree(&rule)?;
        let mut reference = self.reference(&mut cpu, at_once)?;
        let mut compared =
            if at_once { self.layers(&rule, &reference, device)? } else { Compared::default() };
        let outputs = self.outputs(&rule, &reference, &found, &compared)?;
        let agree = outputs.iter().all(|output| output.comparison.verdict.passes());
        if !agree && !at_once {
            reference = self.reference(&mut cpu, true)?;
            compared = self.layers(&rule, &reference, device)?;
        }
        let mut layers = std::mem::take(&mut compared.layers);
        if agree && compared.storage == 0.0 {
            // Graphs may say the same in other words; a bound that storage widens does not show it.
            for layer in layers.iter_mut().filter(|layer| layer.comparison.is_none()) {
                layer.verdict = Verdict::NotCompared;
            }
            for index in &compared.rewired {
                if let Some(layer) = layers.get_mut(*index) {
                    (layer.verdict, layer.blame) = (Verdict::Pass, None);
                }
            }
        }
        let first_divergence = layers.iter().position(|layer| layer.verdict == Verdict::Fail);
        let verdict = Verdict::of(agree && first_divergence.is_none());
        if !self.options.per_layer && verdict.passes() {
            layers.clear();
        }
        let (reference, device) = (cpu.info().clone(), device.info().clone());
        Ok(Run { reference, device, rule, outputs, layers, first_divergence, verdict })
    }

    /// Whether tensors that correspond are equal, but for how they are stored: what no input shows (a weight behind a neuron that
    /// never fires) is a difference all the same.
    fn tensors_agree(&self, rule: &Rule) -> Result<bool> {
        for pair in self.pairs {
            if let (Pair::Both(ia, ib), true) = (pair, rule.name == RuleName::Bits)
                && let (Some(a), Some(b)) = (self.a.0.nodes.get(*ia), self.b.0.nodes.get(*ib))
                && !self.sides.differing(a, b)?.is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn reference(&self, cpu: &mut Cpu, keep: bool) -> Result<Reference> {
        Reference::run(self.a.1, cpu, self.inputs.0, keep.then_some(self.options.memory))
    }

    fn layers(&self, rule: &Rule, reference: &Reference, device: &mut dyn Backend) -> Result<Compared> {
        let comparing = Comparing {
            sides: self.sides,
            a: self.a,
            b: self.b,
            pairs: self.pairs,
            rule: rule.name,
            tolerance: self.options.tolerance,
            activations: &reference.activations,
            inputs: self.names,
        };
        comparing.run(device)
    }

    fn outputs(
        &self,
        rule: &Rule,
        reference: &Reference,
        found: &BTreeMap<String, Value>,
        compared: &Compared,
    ) -> Result<Vec<OutputReport>> {
        if self.a.0.outputs.len() != self.b.0.outputs.len() {
            return Err(Error::mismatch("the graphs do not give the same outputs")
                .found(format!("{} in the second", self.b.0.outputs.len()))
                .expected(format!("{}, as in the first", self.a.0.outputs.len())));
        }
        let mut reports = Vec::new();
        for (own, theirs) in self.a.0.outputs.iter().zip(&self.b.0.outputs) {
            let (Some(a), Some(b)) = (reference.outputs.get(&own.name), found.get(&theirs.name)) else {
                continue;
            };
            let b = as_shape(b, &a.shape).filter(|b| comparable(a, b)).ok_or_else(|| {
                Error::mismatch("the graphs give other shapes")
                    .field(&own.name)
                    .found(format!("{:?}", b.shape))
                    .expected(format!("{:?}", a.shape))
            })?;
            let limit = RELATIVE_L2 + compared.storage;
            let demand = match (rule.name, self.options.tolerance) {
                (RuleName::Bits, _) => Demand::Bits,
                (RuleName::Given, Some(tolerance)) => Demand::Given(tolerance),
                _ => {
                    let size = compared.sizes.get(&own.name).copied();
                    let size = size.unwrap_or_else(|| Bound::default().size(&a.array.to_f64()));
                    Demand::Whole { limit, size }
                }
            };
            let mut comparison = compare(a, &b, &demand);
            let argmax = argmax(a, &b, demand.allowed(a));
            if argmax.is_some_and(|argmax| argmax.decided != argmax.decided_agreeing) {
                comparison.verdict = Verdict::Fail;
            }
            reports.push(OutputReport { a: own.name.clone(), b: theirs.name.clone(), comparison, argmax });
        }
        if reports.iter().all(|report| report.comparison.shape.contains(&0)) {
            return Err(Error::usage("nothing is compared: the graphs give no element")
                .help("give inputs of at least one example"));
        }
        Ok(reports)
    }
}
