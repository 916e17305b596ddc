//! Runs the graph of one checkpoint.

use super::inputs::{Inputs, no_shapes};
use super::parameters::{SourceParameters, StoredIntegers};
use super::plain::PlainGraph;
use super::recognized::with_graph;
use super::report::InputSummary;
use ckpt_api::{Error, Graph, Limit, Result, Value as GraphValue, text};
use ckpt_engine::formats::Formats;
use ckpt_engine::source::Source;
use ckpt_forward::{Backend, Bounds, DeviceInfo, Parameters, Program, Value, integer_graph};
use serde::Serialize;

/// The result of a forward pass.
#[derive(Clone, Debug, Serialize)]
pub struct ForwardPass {
    /// The device that it ran on.
    pub device: DeviceInfo,
    /// The inputs.
    pub inputs: Vec<InputSummary>,
    /// What the graph assumes about the model, or does not show of it.
    pub notes: Vec<String>,
    /// The outputs by name, in the graph's order.
    #[serde(skip)]
    pub outputs: Vec<(String, Value)>,
}

/// Runs `source`'s graph on `device`, in at most `memory` bytes, and with at most as many
/// multiply-adds as the source's limits allow. A checkpoint without a graph gets that of the built-in
/// architecture whose tensor names it has; a note names it.
///
/// With `integers`, a quantized network is computed in its stored integers, as engines do, and the result is
/// multiplied by this scale ([`integer_graph`]). A note names the outputs of real numbers, to which it does not apply.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// use ckpt::verify::{DEFAULT_MEMORY, Inputs, devices};
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::Source::open(&registry, "examples/data/digits_saved_model", &Default::default())?;
/// let mut cpu = devices::open("cpu", Default::default())?;
/// let pass = ckpt::verify::run(&registry, &source, &Inputs::default(), None, &mut *cpu, DEFAULT_MEMORY)?;
/// assert_eq!(pass.outputs[0].1.shape, [8, 10]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a checkpoint without a graph, inputs that do not fit, or `integers` for a checkpoint
/// without a layer that can be computed in integers; whatever keeps tensors from being read or the device from running.
pub fn run(
    formats: &Formats,
    source: &Source,
    inputs: &Inputs,
    integers: Option<i32>,
    device: &mut dyn Backend,
    memory: u64,
) -> Result<ForwardPass> {
    let shown = source.shown();
    let recognized = with_graph(formats, source)
        .map_err(|error| if error.context().file.is_none() { error.file(shown.as_str()) } else { error })?;
    let source = recognized.as_ref().unwrap_or(source);
    let checkpoint = source.checkpoint();
    let graph = checkpoint.graph.as_ref().ok_or_else(|| no_graph(source).file(shown.as_str()))?;
    let parameters = SourceParameters::new(source, memory).with_ops(formats);
    let stored = StoredIntegers::new(&parameters);
    let parameters: &dyn Parameters = if integers.is_some() { &stored } else { &parameters };
    let in_integers = integers.map(|scale| in_integers(graph, parameters, scale)).transpose();
    let in_integers = in_integers.map_err(|error| error.file(shown.as_str()))?;
    let (graph, mut notes) = match &in_integers {
        Some((rewritten, note)) => (rewritten, Vec::from_iter(note.clone())),
        None => (graph, Vec::new()),
    };
    let mut given = inputs.read(formats, checkpoint, graph, memory)?;
    let candidates = given.shapes(graph, source, parameters, inputs);
    let bounds = Bounds { memory, operations: source.input().limits().get(Limit::Operations) };
    let plain = candidates.each(PlainGraph::default);
    let known = given.numbers();
    let program = candidates.first(|place, shapes| {
        let plain = plain.get(place).ok_or_else(no_shapes)?;
        Program::within(plain.of(graph, parameters, shapes, &known)?, parameters, shapes, bounds)
    });
    let program = program.map_err(|error| error.file(shown))?;
    let (values, summaries) = given.bind(&program, inputs)?;
    let mut computed = program.run(device, &values, &mut ())?;
    let names = graph.outputs.iter().map(|output| output.name.clone());
    let outputs = names.filter_map(|name| computed.remove(&name).map(|value| (name, value))).collect();
    notes.extend(source.contents().graph_notes.iter().map(|note| note.as_str().to_owned()));
    Ok(ForwardPass { device: device.info().clone(), inputs: summaries, notes, outputs })
}

/// Returns the graph that computes in integers, and a note about the outputs that are real numbers nevertheless.
fn in_integers(graph: &Graph, parameters: &dyn Parameters, scale: i32) -> Result<(Graph, Option<String>)> {
    let rewritten = integer_graph(graph, parameters, scale)?;
    if rewritten.nodes == graph.nodes {
        return Err(Error::usage("no layer can be computed in integers")
            .found("weights of real numbers")
            .expected("weights that are stored as integers with a scale")
            .help(
                "run the file that stores integers, such as bullet's quantised.bin or an engine's network file, or \
                 compute in real numbers",
            ));
    }
    // A scaled output is the output of a node that was added.
    let is_real = |output: &&GraphValue| graph.outputs.iter().any(|original| original.name == output.name);
    let real = rewritten.outputs.iter().filter(is_real);
    let names: Vec<String> = real.map(|output| format!("'{}'", output.name)).collect();
    let note = (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("computed in real numbers, because weights are not quantized: {names}; the scale {scale} does not apply")
    });
    Ok((rewritten, note))
}

/// The error for a checkpoint without a graph. A codec states why it found none, or notes it.
fn no_graph(source: &Source) -> Error {
    let contents = source.contents();
    let found = match &contents.missing_graph {
        Some(missing) => missing.reason.clone(),
        None => contents.all_notes().collect::<Vec<_>>().join("; ").into(),
    };
    let mut advice = contents.advise_graph();
    if !contents.can_be_described() {
        advice = text![advice, "; its tensors can still be converted, compared and shown"];
    }
    let error = Error::usage("the checkpoint has no graph to run").help(advice);
    if found.is_empty() { error.found("tensors alone") } else { error.found(found) }
}
