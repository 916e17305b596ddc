//! The forward pass of one checkpoint.

use super::inputs::Inputs;
use super::parameters::{Integers, SourceParameters};
use super::report::InputSummary;
use crate::registry::Registry;
use crate::source::Source;
use ckpt_api::{Error, Result};
use ckpt_forward::{Backend, DeviceInfo, Parameters, Program, Value, integer_graph};
use serde::Serialize;

/// What a forward pass gave.
#[derive(Clone, Debug, Serialize)]
pub struct Ran {
    /// Where it really ran, and how.
    pub device: DeviceInfo,
    /// What went in.
    pub inputs: Vec<InputSummary>,
    /// What came out, in the graph's order.
    #[serde(skip)]
    pub outputs: Vec<(String, Value)>,
}

/// Runs `source`'s graph on `device`; `memory` bytes may be taken at a time. With `integers`, a quantized network is computed in
/// the integers that it is stored as, as engines do, and its result multiplied by that ([`integer_graph`]).
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// use ckpt::verify::{DEFAULT_MEMORY, Inputs, devices};
/// let registry = ckpt::Registry::builtin();
/// let source = ckpt::Source::open(&registry, "examples/data/digits_saved_model", &Default::default())?;
/// let mut cpu = devices::open("cpu", Default::default())?;
/// let ran = ckpt::verify::run(&registry, &source, &Inputs::default(), None, &mut *cpu, DEFAULT_MEMORY)?;
/// assert_eq!(ran.outputs[0].1.shape, [8, 10]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a checkpoint that does not say what it computes, or inputs that do not fit; whatever keeps tensors
/// from being read, or the device from running.
pub fn run(
    registry: &Registry,
    source: &Source,
    inputs: &Inputs,
    integers: Option<i32>,
    device: &mut dyn Backend,
    memory: u64,
) -> Result<Ran> {
    let shown = source.input().display(source.input().entry());
    let checkpoint = source.checkpoint();
    let graph = checkpoint.graph.as_ref().ok_or_else(|| unknown(source).file(shown.as_str()))?;
    let parameters = SourceParameters::new(source, memory);
    let stored = Integers::new(&parameters);
    let parameters: &dyn Parameters = if integers.is_some() { &stored } else { &parameters };
    let whole = integers.map(|scale| integer_graph(graph, parameters, scale)).transpose();
    let whole = whole.map_err(|error| error.file(shown.as_str()))?;
    let graph = whole.as_ref().unwrap_or(graph);
    let given = inputs.read(registry, checkpoint, graph, memory)?;
    let shapes = given.shapes(graph, parameters, inputs);
    let program =
        Program::with_memory(graph, parameters, &shapes, memory).map_err(|error| error.file(shown))?;
    let (values, summaries) = given.finish(&program, inputs)?;
    let mut made = program.run(device, &values, &mut ())?;
    let names = graph.outputs.iter().map(|output| output.name.clone());
    let outputs = names.filter_map(|name| made.remove(&name).map(|value| (name, value))).collect();
    Ok(Ran { device: device.info().clone(), inputs: summaries, outputs })
}

/// The error for a checkpoint without a graph; what was noted as it was read says why there is none.
fn unknown(source: &Source) -> Error {
    let error = Error::usage("the checkpoint does not say what it computes")
        .help("describe the model in an architecture file and give it with --arch");
    match &source.contents.notes[..] {
        [] => error,
        notes => error.found(notes.join("; ")),
    }
}
