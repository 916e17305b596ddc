//! Reads the chain of a SavedModel from its serving function.

use super::chain::{Chain, Context, IN_16_BITS};
use super::functions::Functions;
use super::no_chain::NoChain;
use super::objects::Objects;
use super::ops;
use crate::proto::saved_object::Kind;
use crate::proto::trackable_object_graph::trackable_object::ObjectReference;
use crate::proto::{MetaGraphDef, SavedModel, SavedObjectGraph};
use crate::wire::{self, Nested};
use ckpt_api::{Limit, Limits, Result, first_few};
use prost::Message;
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

const SHAPE: &[Nested] = &[Nested(2, &[])];
const ATTRIBUTES: &[Nested] =
    &[Nested(2, &[Nested(1, &[Nested(7, SHAPE)]), Nested(7, SHAPE), Nested(8, &[Nested(2, SHAPE)])])];
const NODE: &[Nested] = &[Nested(3, &[]), Nested(5, ATTRIBUTES)];
const SIGNATURE: &[Nested] = &[Nested(2, &[]), Nested(3, &[])];
const ARGUMENT: &[Nested] = &[Nested(2, &[Nested(1, ATTRIBUTES)])];
const FUNCTION: &[Nested] = &[Nested(1, SIGNATURE), Nested(3, NODE), Nested(4, &[]), Nested(7, ARGUMENT)];
const OBJECT: &[Nested] = &[Nested(1, &[]), Nested(6, &[Nested(1, &[])])];
const FIELDS: &[Nested] = &[Nested(
    2,
    &[Nested(2, &[Nested(2, &[Nested(1, FUNCTION)])]), Nested(7, &[Nested(1, OBJECT), Nested(2, &[])])],
)];

/// Limit on the references that are followed: far above what a chain has, and low enough to stop in a circle soon.
const MAX_FOLLOWED: u64 = 1 << 18;

const TF1: &str =
    "the graph is one of TensorFlow 1, without an object graph and functions, which is not supported";

const NO_FUNCTION: &str = "there is no function, since the model was saved without a signature";

/// Functions that a message lists.
const SHOWN: usize = 8;

/// Returns the chain, or why there is none; `objects` is the checkpoint's own object graph.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn chain(
    bytes: &[u8],
    objects: Option<&Objects>,
    context: &Context,
    limits: &Limits,
) -> Result<Result<Chain, NoChain>> {
    wire::check_size(bytes, FIELDS, limits).map_err(|error| error.field("saved_model.pb"))?;
    Ok(read(bytes, objects, context, limits).map_err(|error| error.of("in saved_model.pb")))
}

fn read(
    bytes: &[u8],
    objects: Option<&Objects>,
    context: &Context,
    limits: &Limits,
) -> Result<Chain, NoChain> {
    let model = SavedModel::decode(bytes)
        .map_err(|error| NoChain::unstated(format!("it cannot be parsed ({error})")))?;
    if !model.meta_graphs.is_empty() && model.meta_graphs.iter().all(|graph| graph.object_graph_def.is_none())
    {
        return Err(NoChain::unstated(TF1));
    }
    let objects = objects.ok_or_else(|| NoChain::unstated("the variables have no object graph"))?;
    // A file may contain the same model for serving and for training. The first one that has objects is read.
    let parts = |graph: MetaGraphDef| Some((graph.object_graph_def?, graph.graph_def?.library?));
    let (saved, library) =
        model.meta_graphs.into_iter().find_map(parts).ok_or_else(|| NoChain::unstated(NO_FUNCTION))?;
    let name = serving_function(&saved)?;
    let bound = bound_variables(&saved, &name, objects);
    let mut functions = Functions::new(&library, bound, limits.get(Limit::GraphNodes).min(MAX_FOLLOWED));
    let read = ops::steps(&mut functions, &name)?;
    let mut chain = Chain::build("", read.input, read.steps, context)?;
    chain.is_nested = read.is_nested;
    if read.is_half {
        chain.notes.push(IN_16_BITS.into());
    }
    Ok(chain)
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
        Kind::Variable(_) => None,
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

/// Returns the keys of the variables that a function takes after its own arguments.
fn bound_variables(saved: &SavedObjectGraph, function: &str, objects: &Objects) -> Vec<Option<String>> {
    let Some(function) = saved.concrete_functions.get(function) else { return Vec::new() };
    let matching = matching_objects(saved, objects);
    let key = |id: &i32| {
        let id = usize::try_from(*id).ok()?;
        Some(objects.variable(*matching.get(&id)?)?.key.clone())
    };
    function.bound_inputs.iter().map(key).collect()
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
