//! The graph of a file whose weights are constants.

use super::catalog::{Catalog, GraphConstant};
use super::chain::{Chain, Context};
use super::dag;
use super::no_chain::NoChain;
use super::saved_model::{self, GRAPH, META_GRAPH};
use crate::proto::attr_value::Value;
use crate::proto::{GraphDef, MetaGraphDef, NodeDef, SavedModel, SignatureDef, TensorInfo, TensorShapeProto};
use ckpt_api::{Contents, FileId, Limit, Limits, MissingGraph, Result, Setting, Text, first_few, text};
use ckpt_containers::protobuf;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Operations that take what a model is given.
const INPUTS: [&str; 2] = ["Placeholder", "PlaceholderV2"];
/// Operations without a result that a model returns, and parts of the names of others.
const NO_RESULTS: [&str; 5] = ["NoOp", "Assert", "Const", "Print", "IsVariableInitialized"];
const ASIDE: [&str; 6] = ["Assign", "Apply", "Save", "Restore", "Summary", "Variable"];
/// Scopes in which TensorFlow puts what trains and saves a model.
const SCOPES: [&str; 3] = ["save/", "save_", "gradients/"];
/// What the name of the value of a variable ends with.
const READ: &str = "/read";
/// Ends that a message lists.
const SHOWN: usize = 4;

/// Adds the graph of a frozen file to its constants, or why there is none.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(crate) fn add_frozen(
    bytes: &Bytes,
    outputs: Option<&[&str]>,
    contents: &mut Contents,
    limits: &Limits,
) -> Result<()> {
    protobuf::check_size(bytes, GRAPH, limits)?;
    let (names, catalog) = (BTreeMap::new(), Catalog(&[]));
    let context = Context { catalog: &catalog, names: &names, file: bytes };
    match chain(bytes, outputs, &context, limits.get(Limit::GraphNodes)) {
        Ok(chain) => add(chain, contents),
        Err(NoChain { reason, is_unstated }) => {
            contents.missing_graph = Some(MissingGraph { reason, is_unstated, help: None });
        }
    }
    Ok(())
}

fn chain(bytes: &Bytes, outputs: Option<&[&str]>, context: &Context, budget: u64) -> Result<Chain, NoChain> {
    let graph = GraphDef::decode(bytes.clone())
        .map_err(|error| NoChain::unstated(format!("the graph cannot be parsed ({error})")))?;
    let ends = match outputs {
        Some(outputs) => named(outputs, &graph)?,
        None => last(&graph),
    };
    dag::main_graph(&graph, &signature(&graph, ends), context, budget)
}

/// Returns the graph that is beside a checkpoint, or why there is none.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn meta_graph(
    bytes: &Bytes,
    outputs: Option<&[&str]>,
    context: &Context,
    limits: &Limits,
) -> Result<Result<Chain, NoChain>> {
    protobuf::check_size(bytes, META_GRAPH, limits)
        .map_err(|error| error.field("the graph in PREFIX.meta"))?;
    let chain = meta_chain(bytes, outputs, context, limits.get(Limit::GraphNodes));
    Ok(chain.map_err(|reason| reason.of("in PREFIX.meta")))
}

fn meta_chain(
    bytes: &Bytes,
    outputs: Option<&[&str]>,
    context: &Context,
    budget: u64,
) -> Result<Chain, NoChain> {
    let meta = MetaGraphDef::decode(bytes.clone())
        .map_err(|error| NoChain::unstated(format!("it cannot be parsed ({error})")))?;
    if outputs.is_none() && !meta.signature_def.is_empty() {
        return saved_model::first_version(&SavedModel { meta_graphs: vec![meta] }, context, budget);
    }
    let graph = meta.graph_def.ok_or_else(|| NoChain::unstated("it has no graph"))?;
    let ends = match outputs {
        Some(outputs) => named(outputs, &graph)?,
        None => only_end(last(&graph))?,
    };
    dag::main_graph(&graph, &signature(&graph, ends), context, budget)
}

/// The operations that a user names.
fn named<'g>(outputs: &[&str], graph: &'g GraphDef) -> Result<Vec<&'g str>, NoChain> {
    let find = |output: &&str| {
        let found = graph.node.iter().find(|node| node.name == operation(output));
        found.map(|node| node.name.as_str()).ok_or_else(|| {
            NoChain::unstated(format!("no operation has the name '{}'", output.escape_debug()))
        })
    };
    outputs.iter().map(find).collect()
}

/// The only end: a graph for training has many, and none of them is the model's result.
fn only_end(ends: Vec<&str>) -> Result<Vec<&str>, NoChain> {
    match ends[..] {
        [_] => Ok(ends),
        _ => Err(NoChain::unstated(text![
            format!("it does not state the model's results, and has {}", ckpt_api::count(ends.len(), "end")),
            match ends.is_empty() {
                true => String::new(),
                false => format!(" ({})", first_few(&ends, SHOWN)),
            },
            ": ",
            Setting::READ_OPTION.of("outputs=NAME"),
            " names the operation",
        ])),
    }
}

/// The operations whose results nothing takes, without those of training, saving and summaries.
fn last(graph: &GraphDef) -> Vec<&str> {
    let taken: HashSet<&str> =
        graph.node.iter().flat_map(|node| &node.input).map(|input| operation(input)).collect();
    let is_end = |node: &&NodeDef| {
        let is_aside = NO_RESULTS.contains(&node.op.as_str())
            || INPUTS.contains(&node.op.as_str())
            || ASIDE.iter().any(|part| node.op.contains(part))
            || SCOPES.iter().any(|scope| node.name.starts_with(scope))
            || node.name.ends_with(READ);
        !is_aside && !taken.contains(node.name.as_str())
    };
    graph.node.iter().filter(is_end).map(|node| node.name.as_str()).collect()
}

/// The operations that these need: labels for a loss are no inputs of the model.
fn reached<'g>(graph: &'g GraphDef, ends: &[&'g str]) -> HashSet<&'g str> {
    let by_name: HashMap<&str, &NodeDef> = graph.node.iter().map(|node| (node.name.as_str(), node)).collect();
    let mut reached: HashSet<&str> = ends.iter().copied().collect();
    let mut open = ends.to_vec();
    while let Some(name) = open.pop() {
        let inputs = by_name.get(name).into_iter().flat_map(|node| &node.input);
        for input in inputs.map(|input| operation(input)) {
            if reached.insert(input) {
                open.push(input);
            }
        }
    }
    reached
}

/// What the graph is given, and what it returns.
fn signature(graph: &GraphDef, ends: Vec<&str>) -> SignatureDef {
    let reached = reached(graph, &ends);
    let is_input =
        |node: &&NodeDef| INPUTS.contains(&node.op.as_str()) && reached.contains(node.name.as_str());
    let inputs = graph.node.iter().filter(is_input);
    let result = |name: &str| TensorInfo { name: format!("{name}:0"), ..TensorInfo::default() };
    SignatureDef {
        inputs: inputs.map(|node| (node.name.clone(), stated(node))).collect(),
        outputs: ends.into_iter().map(|name| (name.to_owned(), result(name))).collect(),
    }
}

/// The operation whose result an input is, without `^` and the number of the result.
pub(crate) fn operation(input: &str) -> &str {
    let input = input.strip_prefix('^').unwrap_or(input);
    input.split_once(':').map_or(input, |(name, _)| name)
}

fn stated(node: &NodeDef) -> TensorInfo {
    let value = |name: &str| node.attr.get(name).and_then(|attribute| attribute.value.as_ref());
    let dtype = match value("dtype") {
        Some(Value::Type(dtype)) => *dtype,
        _ => 0,
    };
    let tensor_shape: Option<TensorShapeProto> = match value("shape") {
        Some(Value::Shape(shape)) => Some(shape.clone()),
        _ => None,
    };
    TensorInfo { name: format!("{}:0", node.name), dtype, tensor_shape }
}

/// Gives the checkpoint the graph. A constant that the graph takes as it is stored is the tensor of its name; one in
/// another shape becomes a tensor of its own.
fn add(chain: Chain, contents: &mut Contents) {
    let Chain { mut graph, axes, notes, constants, is_nested: _ } = chain;
    let tensors = contents.checkpoint.tensors.iter().enumerate();
    let mut known: HashMap<String, usize> =
        tensors.map(|(at, tensor)| (tensor.name.to_string(), at)).collect();
    let mut keys: HashMap<String, String> = HashMap::new();
    for constant in constants {
        let same = known.get(constant.key.as_str()).and_then(|at| contents.checkpoint.tensors.get(*at));
        if same.is_some_and(|tensor| tensor.shape == constant.shape && tensor.dtype == constant.dtype) {
            continue;
        }
        let name = free_name(&constant.key, &known);
        keys.insert(constant.key.clone(), name.clone());
        known.insert(name.clone(), contents.placements.len());
        GraphConstant { key: name, ..constant }.add_to(FileId(0), contents);
    }
    for key in graph.nodes.iter_mut().flat_map(|node| node.parameters.values_mut()) {
        if let Some(name) = keys.get(key.as_str()) {
            key.clone_from(name);
        }
    }
    for (key, axes) in axes {
        let at = known.get(keys.get(&key).unwrap_or(&key));
        let tensor = at.and_then(|at| contents.checkpoint.tensors.get_mut(*at));
        if let Some(tensor) = tensor.filter(|tensor| tensor.shape.rank() == axes.len()) {
            tensor.axes = Some(axes[..].into());
        }
    }
    contents.graph_notes.extend(notes.into_iter().map(Text::from));
    contents.checkpoint.graph = Some(graph);
}

fn free_name(key: &str, known: &HashMap<String, usize>) -> String {
    let numbered = (1u64..).map(|number| format!("{key}_{number}"));
    let mut names = std::iter::once(key.to_owned()).chain(numbered);
    names.find(|name| !known.contains_key(name)).unwrap_or_default()
}
