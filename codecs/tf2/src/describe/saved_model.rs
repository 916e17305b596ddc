//! Reads the chain of a SavedModel from its serving function.

use super::chain::{Chain, Context};
use super::dag::{self, Bound, Function};
use super::no_chain::NoChain;
use super::objects::Objects;
use crate::proto::attr_value::Value;
use crate::proto::saved_object::Kind;
use crate::proto::trackable_object_graph::trackable_object::ObjectReference;
use crate::proto::{GraphDef, MetaGraphDef, NodeDef, SavedModel, SavedObjectGraph};
use ckpt_api::{Limit, Limits, Result, first_few};
use ckpt_containers::protobuf::{self, Nested};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

const SHAPE: &[Nested] = &[Nested(2, &[])];
const ATTRIBUTES: &[Nested] =
    &[Nested(2, &[Nested(1, &[Nested(7, SHAPE)]), Nested(7, SHAPE), Nested(8, &[Nested(2, SHAPE)])])];
const NODE: &[Nested] = &[Nested(3, &[]), Nested(5, ATTRIBUTES)];
const SIGNATURE: &[Nested] = &[Nested(2, &[]), Nested(3, &[])];
const TENSORS: &[Nested] = &[Nested(2, &[Nested(3, SHAPE)])];
const ARGUMENT: &[Nested] = &[Nested(2, &[Nested(1, ATTRIBUTES)])];
const FUNCTION: &[Nested] = &[Nested(1, SIGNATURE), Nested(3, NODE), Nested(4, &[]), Nested(7, ARGUMENT)];
const OBJECT: &[Nested] = &[Nested(1, &[]), Nested(6, &[Nested(1, &[])])];
pub(super) const GRAPH: &[Nested] = &[Nested(1, NODE), Nested(2, &[Nested(1, FUNCTION)])];
pub(super) const META_GRAPH: &[Nested] = &[
    Nested(2, GRAPH),
    Nested(5, &[Nested(2, &[Nested(1, TENSORS), Nested(2, TENSORS)])]),
    Nested(7, &[Nested(1, OBJECT), Nested(2, &[])]),
];
const FIELDS: &[Nested] = &[Nested(2, META_GRAPH)];

const TF1: &str = "the graph is one of TensorFlow 1, and has no signature";

const NO_FUNCTION: &str = "there is no function, since the model was saved without a signature";

/// Functions that a message lists.
const SHOWN: usize = 8;

/// Returns the chain, or why there is none; `objects` is the checkpoint's own object graph.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn chain(
    bytes: &Bytes,
    objects: Option<&Objects>,
    context: &Context,
    limits: &Limits,
) -> Result<Result<Chain, NoChain>> {
    protobuf::check_size(bytes, FIELDS, limits).map_err(|error| error.field("saved_model.pb"))?;
    Ok(read(bytes, objects, context, limits).map_err(|error| error.of("in saved_model.pb")))
}

fn read(
    bytes: &Bytes,
    objects: Option<&Objects>,
    context: &Context,
    limits: &Limits,
) -> Result<Chain, NoChain> {
    let model = SavedModel::decode(bytes.clone())
        .map_err(|error| NoChain::unstated(format!("it cannot be parsed ({error})")))?;
    let budget = limits.get(Limit::GraphNodes);
    if !model.meta_graphs.is_empty() && model.meta_graphs.iter().all(|graph| graph.object_graph_def.is_none())
    {
        return first_version(&model, context, budget);
    }
    let objects = objects.ok_or_else(|| NoChain::unstated("the variables have no object graph"))?;
    // A file may contain the same model for serving and for training. The first one that has objects is read.
    let meta = model.meta_graphs.iter().find(|graph| {
        graph.object_graph_def.is_some()
            && graph.graph_def.as_ref().is_some_and(|graph| graph.library.is_some())
    });
    let parts = meta.and_then(|meta| {
        let graph = meta.graph_def.as_ref()?;
        Some((meta, meta.object_graph_def.as_ref()?, graph, graph.library.as_ref()?))
    });
    let (meta, saved, main, library) = parts.ok_or_else(|| NoChain::unstated(NO_FUNCTION))?;
    let name = serving_function(saved)?;
    let bound = bound_variables(saved, &name, objects);
    let function = Function {
        library,
        name: &name,
        bound: captured(bound, main),
        results: result_names(meta, main, &name),
    };
    dag::function(function, context, budget)
}

/// Reads the serving signature of a model of TensorFlow 1.
pub(super) fn first_version(model: &SavedModel, context: &Context, budget: u64) -> Result<Chain, NoChain> {
    let mut signatures = Vec::new();
    for meta in &model.meta_graphs {
        let Some(graph) = &meta.graph_def else { continue };
        signatures
            .extend(meta.signature_def.iter().map(|(name, signature)| (name.as_str(), signature, graph)));
    }
    signatures
        .retain(|(name, signature, _)| !name.starts_with("__saved_model") && !signature.outputs.is_empty());
    signatures.sort_by_key(|(name, ..)| *name);
    let serving = signatures.iter().find(|(name, ..)| *name == "serving_default");
    match (serving, &signatures[..]) {
        (Some((_, signature, graph)), _) | (None, [(_, signature, graph)]) => {
            dag::main_graph(graph, signature, context, budget)
        }
        (None, []) => Err(NoChain::unstated(TF1)),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|(name, ..)| *name).collect();
            Err(NoChain::unstated(format!(
                "there are {} signatures ({}), and none is named serving_default",
                names.len(),
                first_few(&names, SHOWN)
            )))
        }
    }
}

/// What a function takes after its own arguments.
enum Captured {
    /// The variable with this key.
    Variable(String),
    /// The constant operation of this name in the main graph.
    Constant(String),
    Other,
}

fn captured(captured: Vec<Captured>, main: &GraphDef) -> Vec<Bound<'_>> {
    let constants: HashMap<&str, &NodeDef> =
        main.node.iter().filter(|node| node.op == "Const").map(|node| (node.name.as_str(), node)).collect();
    let bound = |captured| match captured {
        Captured::Variable(key) => Bound::Variable(key),
        Captured::Constant(name) => {
            constants.get(name.as_str()).map_or(Bound::Other, |node| Bound::Constant(node))
        }
        Captured::Other => Bound::Other,
    };
    captured.into_iter().map(bound).collect()
}

/// Returns the public names of a function's results, by their numbers, from the signature whose call it is.
fn result_names(meta: &MetaGraphDef, main: &GraphDef, function: &str) -> Vec<Option<String>> {
    let Some(signature) = meta.signature_def.get("serving_default") else { return Vec::new() };
    let calls = |node: &&NodeDef| {
        let called = node.attr.get("f").and_then(|attribute| attribute.value.as_ref());
        matches!(called, Some(Value::Func(called)) if called.name == function)
    };
    let Some(call) = main.node.iter().find(calls) else { return Vec::new() };
    let mut names = Vec::new();
    for (name, tensor) in &signature.outputs {
        let (node, at) = tensor.name.split_once(':').unwrap_or((&tensor.name, "0"));
        let Some(at) = at.parse::<usize>().ok().filter(|at| node == call.name && *at < 1 << 10) else {
            continue;
        };
        if names.len() <= at {
            names.resize(at + 1, None);
        }
        names[at] = Some(name.clone());
    }
    names
}

/// Returns the concrete function that computes the model: the serving signature, or the model's only function.
fn serving_function(saved: &SavedObjectGraph) -> Result<String, NoChain> {
    let child = |id: usize, name: &str| {
        let found = saved.nodes.get(id)?.children.iter().find(|child| child.local_name == name)?;
        usize::try_from(found.node_id).ok()
    };
    let concrete = |id: usize| match saved.nodes.get(id)?.kind.as_ref()? {
        Kind::BareConcreteFunction(function) => Some(function.concrete_function_name.clone()),
        Kind::Function(function) => match &function.concrete_functions[..] {
            [only] => Some(only.clone()),
            _ => None,
        },
        Kind::Variable(_) | Kind::Constant(_) => None,
    };
    let signatures = child(0, "signatures");
    let serving = signatures.and_then(|id| child(id, "serving_default")).and_then(concrete);
    let named = ["serve", "__call__", "call"];
    let mut own = named.iter().filter_map(|name| child(0, name)).filter_map(concrete);
    if let Some(name) = serving.or_else(|| own.next()) {
        return Ok(name);
    }
    let children = saved.nodes.first().into_iter().flat_map(|root| &root.children);
    let signed = signatures.and_then(|id| saved.nodes.get(id)).into_iter().flat_map(|node| &node.children);
    let id = |child: &ObjectReference| usize::try_from(child.node_id).ok();
    let all: Vec<&ObjectReference> = signed.chain(children).collect();
    let mut single: Vec<(String, &str)> =
        all.iter().filter_map(|child| Some((concrete(id(child)?)?, child.local_name.as_str()))).collect();
    single.dedup_by(|next, before| next.0 == before.0);
    match &single[..] {
        [(only, _)] => Ok(only.clone()),
        [] => Err(no_single_function(saved, &all)),
        several => {
            let names: Vec<&str> = several.iter().map(|(_, name)| *name).collect();
            Err(NoChain::unstated(format!(
                "there are {} functions ({}), and none is named serving_default",
                names.len(),
                first_few(&names, SHOWN)
            )))
        }
    }
}

/// The error for a model without a function, or whose functions were traced several times.
fn no_single_function(saved: &SavedObjectGraph, children: &[&ObjectReference]) -> NoChain {
    let traces = |child: &ObjectReference| match saved
        .nodes
        .get(usize::try_from(child.node_id).ok()?)?
        .kind
        .as_ref()?
    {
        Kind::Function(function) => Some(function.concrete_functions.len()),
        _ => None,
    };
    let traced = children.iter().find_map(|child| Some((child, traces(child).filter(|traces| *traces > 1)?)));
    match traced {
        Some((child, traces)) => NoChain::unstated(format!(
            "the function '{}' has {traces} traces, and none is named serving_default",
            child.local_name
        )),
        None => NoChain::unstated(NO_FUNCTION),
    }
}

/// Returns what a function takes after its own arguments.
fn bound_variables(saved: &SavedObjectGraph, function: &str, objects: &Objects) -> Vec<Captured> {
    let Some(function) = saved.concrete_functions.get(function) else { return Vec::new() };
    let matching = matching_objects(saved, objects);
    let captured = |id: &i32| {
        let id = usize::try_from(*id).ok()?;
        if let Some(Kind::Constant(constant)) = saved.nodes.get(id)?.kind.as_ref() {
            return Some(Captured::Constant(constant.operation.clone()));
        }
        Some(Captured::Variable(objects.variable(*matching.get(&id)?)?.key.clone()))
    };
    function.bound_inputs.iter().map(|id| captured(id).unwrap_or(Captured::Other)).collect()
}

/// Returns for each object of the SavedModel the checkpoint's object with the same path.
fn matching_objects(saved: &SavedObjectGraph, objects: &Objects) -> HashMap<usize, usize> {
    let mut matching = HashMap::from([(0, 0)]);
    let mut queue = VecDeque::from([(0, 0)]);
    while let Some((here, there)) = queue.pop_front() {
        for child in saved.nodes.get(here).into_iter().flat_map(|node| &node.children) {
            let (Ok(id), Some(found)) =
                (usize::try_from(child.node_id), objects.child(there, &child.local_name))
            else {
                continue;
            };
            if let Entry::Vacant(place) = matching.entry(id) {
                place.insert(found);
                queue.push_back((id, found));
            }
        }
    }
    matching
}
