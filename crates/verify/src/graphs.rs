//! Compares two graphs on the same inputs, on one device after the other.

use super::compare::StorageChanges;
use super::device_run::DeviceRun;
use super::devices;
use super::diagnose::{Checkpoints, LayerTensors, MappedNames};
use super::inputs::no_shapes;
use super::layers::{Pair, pair_nodes};
use super::options::Options;
use super::parameters::SourceParameters;
use super::plain::PlainGraph;
use super::report::{InputSummary, Run};
use super::shapes::{fit_shape, is_example, show_stated};
use ckpt_api::{Error, Graph, Result, Value as Input};
use ckpt_engine::formats::Formats;
use ckpt_engine::source::Source;
use ckpt_forward::{Arithmetic, Array, Program, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A checkpoint and its graph.
type Side<'a> = (&'a Source, &'a Graph);

/// Runs both graphs and compares them on each device of `options`.
///
/// # Errors
/// Whatever keeps a graph from running or a tensor from being read; [`ckpt_api::Kind::Mismatch`] for graphs whose
/// inputs or outputs do not correspond.
pub(super) fn compare_graphs(
    formats: &Formats,
    a: Side,
    b: Side,
    options: &Options,
) -> Result<(Vec<InputSummary>, Vec<Run>)> {
    let parameters = [a.0, b.0].map(|source| SourceParameters::new(source, options.memory).with_ops(formats));
    let [own, theirs] = &parameters;
    let mut given = options.inputs.read(formats, a.0.checkpoint(), a.1, options.memory)?;
    let candidates = given.shapes(a.1, a.0, own, &options.inputs);
    let bounds = options.bounds();
    let plain = candidates.each(|| [PlainGraph::default(), PlainGraph::default()]);
    let known = given.numbers();
    let prepared = candidates.first(|place, shapes| {
        let [plain_a, plain_b] = plain.get(place).ok_or_else(no_shapes)?;
        let graph_a = plain_a.of(a.1, own, shapes, &known).map_err(in_file(a.0))?;
        let program_a = Program::within(graph_a, own, shapes, bounds).map_err(in_file(a.0))?;
        let (inputs_a, summaries) = given.bind(&program_a, &options.inputs)?;
        let (inputs_b, names) = corresponding_inputs(a.1, b.1, &inputs_a).map_err(in_file(b.0))?;
        let shapes = inputs_b.iter().map(|(name, value)| (name.clone(), value.shape.clone())).collect();
        let known = if known.is_empty() { &known } else { &inputs_b };
        let graph_b = plain_b.of(b.1, theirs, &shapes, known).map_err(in_file(b.0))?;
        let program_b = Program::within(graph_b, theirs, &shapes, bounds).map_err(in_file(b.0))?;
        Ok(((graph_a, program_a), inputs_a, summaries, (graph_b, program_b), inputs_b, names))
    });
    let ((graph_a, program_a), inputs_a, summaries, (graph_b, program_b), mut inputs_b, names) = prepared?;
    let (a, b) = ((a.0, graph_a), (b.0, graph_b));
    zero_unused(b.1, &program_b, &mut inputs_b);

    let mapped = MappedNames::new(options.mapping.as_ref(), &a.0.checkpoint().tensors, &options.limits)?;
    let pairs = pair_nodes(a.1, b.1, &|name| mapped.names(name));
    let both =
        pairs.iter().filter_map(|pair| if let Pair::Both(ia, ib) = pair { Some((*ia, *ib)) } else { None });
    let changes = StorageChanges::new((a.1, own), (b.1, theirs), both, &mapped);
    let checkpoints = Checkpoints {
        a: own,
        b: theirs,
        errors: &changes.errors,
        names: &mapped,
        layers: LayerTensors::new(a.1),
    };
    let comparison = DeviceRun {
        options,
        changes: &changes,
        checkpoints: &checkpoints,
        a: (a.1, &program_a),
        b: (b.1, &program_b),
        pairs: &pairs,
        inputs: (&inputs_a, &inputs_b),
        names: &names,
    };
    let run = |name: &String| {
        let device = match options.fast {
            true => devices::open_fast(name),
            false => devices::open(name, Arithmetic::F32),
        };
        comparison.run(&mut *device?)
    };
    let runs = options.devices.iter().map(run).collect::<Result<_>>()?;
    Ok((summaries, runs))
}

/// Adds the checkpoint to an error.
pub(super) fn in_file(source: &Source) -> impl Fn(Error) -> Error {
    let shown = source.shown();
    move |error: Error| error.file(shown.clone())
}

/// Returns the second graph's inputs, which correspond to the first graph's by name or else by order, and the names
/// of the first graph's inputs by the second graph's.
fn corresponding_inputs(
    a: &Graph,
    b: &Graph,
    inputs: &BTreeMap<String, Value>,
) -> Result<(BTreeMap<String, Value>, HashMap<String, String>)> {
    if a.inputs.len() != b.inputs.len() {
        return Err(Error::mismatch("the graphs have different numbers of inputs")
            .found(format!("{} in the second", b.inputs.len()))
            .expected(format!("{}, as in the first", a.inputs.len())));
    }
    let by_name = b.inputs.iter().all(|input| inputs.contains_key(&input.name));
    let (mut values, mut names) = (BTreeMap::new(), HashMap::new());
    for (own, theirs) in a.inputs.iter().zip(&b.inputs) {
        let name = if by_name { &theirs.name } else { &own.name };
        let Some(value) = inputs.get(name) else { continue };
        let shape = fit_shape(&value.shape, &theirs.shape).unwrap_or_else(|| value.shape.clone());
        if !is_example(&shape, &theirs.shape) {
            return Err(different_inputs(own, theirs, value));
        }
        values.insert(theirs.name.clone(), Value::new(shape, value.array.clone())?);
        names.insert(theirs.name.clone(), name.clone());
    }
    Ok((values, names))
}

/// The error for an input of which one example has another shape in each model. What the first leaves free is as
/// `value`.
fn different_inputs(own: &Input, theirs: &Input, value: &Value) -> Error {
    let stated = own.shape.iter().zip(&value.shape).enumerate();
    let stated: Vec<Option<u64>> =
        stated.map(|(axis, (len, given))| if axis == 0 { *len } else { Some(*given as u64) }).collect();
    Error::mismatch("the models take different inputs")
        .field(&theirs.name)
        .found(format!("{} in the second", show_stated(&theirs.shape)))
        .expected(format!("{}, as in the first", show_stated(&stated)))
        .help("compare models that take the same inputs, such as a model and what it was converted to")
}

/// Replaces inputs that no node uses by zeros: whether they hold indices or real numbers cannot be known.
fn zero_unused(graph: &Graph, program: &Program, inputs: &mut BTreeMap<String, Value>) {
    let used: HashSet<&str> = graph.all_nodes().flat_map(|node| &node.inputs).map(String::as_str).collect();
    for info in program.inputs().filter(|info| !used.contains(info.name)) {
        if let Some(value) = inputs.get_mut(info.name) {
            value.array = Array::zeros(info.numbers.element(Arithmetic::F32), value.array.len());
        }
    }
}
