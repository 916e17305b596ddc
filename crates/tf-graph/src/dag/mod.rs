//! Reads any inference function as a graph of ONNX operators.
//!
//! In stages: `reach` lists the operations that the results need, with calls inlined and constant branches taken;
//! `facts` infers shapes and folds the arithmetic on them; `lower` recognizes layers and lowers all else operation
//! by operation.

mod chain_names;
mod constant;
mod facts;
mod inputs;
mod linear;
mod lists;
mod lower;
mod normalization;
mod pattern;
mod reach;
mod recurrent;
mod weights;

pub use reach::Bound;

use super::catalog::Catalog;
use super::chain::{Chain, Context, IN_16_BITS};
use super::no_chain::NoChain;
use crate::proto::attr_value::Value;
use crate::proto::{FunctionDef, FunctionDefLibrary, GraphDef, SignatureDef, TensorShapeProto};
use ckpt_api::DType;
use ckpt_graph::Dims;
use ckpt_graph::shape::of_sizes;
use facts::Facts;
use lower::ModelInput;
use pattern::View;
use reach::{Dag, Reader, Steps};
use std::collections::HashMap;
use weights::Constants;

/// Limit on the inputs and on the results of a model.
const MAX_ENDS: usize = 1 << 10;

/// A function to read.
pub struct Function<'a> {
    /// The functions of the graph.
    pub library: &'a FunctionDefLibrary,
    /// Its name.
    pub name: &'a str,
    /// What it takes after its own arguments.
    pub bound: Vec<Bound<'a>>,
    /// Public names of its results, if they are known.
    pub results: Vec<Option<String>>,
}

/// Reads a function as a graph. `limit` bounds the references that are followed.
///
/// # Errors
/// [`NoChain`] for what no operators compute.
pub fn function(function: Function, context: &Context, limit: u64) -> Result<Chain, NoChain> {
    let missing = || NoChain::unsupported(format!("the function '{}' is missing", function.name));
    let mut all = function.library.function.iter();
    let is_it = |def: &&FunctionDef| def.signature.as_ref().is_some_and(|own| own.name == function.name);
    let def = all.find(is_it).ok_or_else(missing)?;
    let signature = def.signature.as_ref().ok_or_else(missing)?;
    let own = signature.input_arg.len().saturating_sub(function.bound.len());
    check_ends(own, signature.output_arg.len())?;
    let inputs: Vec<Stated> = signature.input_arg[..own]
        .iter()
        .enumerate()
        .map(|(at, argument)| Stated {
            name: argument.name.clone(),
            shape: argument_shape(def, at),
            dtype: argument.r#type,
        })
        .collect();
    let names = signature.output_arg.iter().enumerate().map(|(at, argument)| {
        let stated = function.results.get(at).cloned().flatten();
        stated.unwrap_or_else(|| argument.name.clone())
    });
    let names: Vec<String> = names.collect();
    let library = function.library;
    let read = |steps: &Steps| {
        let reader = Reader::new(Some(library), limit).stepping(steps);
        reader.function(function.name, function.bound.clone())
    };
    let chain = finish(read, &inputs, &names, Some(library), context)?;
    Ok(Chain { graph: chain_names::named(chain.graph, &chain.axes), ..chain })
}

/// Reads a signature of a main graph: one of TensorFlow 1, or of TensorFlow.js.
///
/// # Errors
/// [`NoChain`] for what no operators compute.
pub fn main_graph(
    graph: &GraphDef,
    signature: &SignatureDef,
    context: &Context,
    limit: u64,
) -> Result<Chain, NoChain> {
    check_ends(signature.inputs.len(), signature.outputs.len())?;
    let mut inputs: Vec<_> = signature.inputs.iter().collect();
    inputs.sort_by_key(|(name, _)| name.as_str());
    let mut outputs: Vec<_> = signature.outputs.iter().collect();
    outputs.sort_by_key(|(name, _)| name.as_str());
    let stated: Vec<Stated> = inputs
        .iter()
        .map(|(name, info)| Stated {
            name: (*name).clone(),
            shape: info.tensor_shape.as_ref(),
            dtype: info.dtype,
        })
        .collect();
    let tensors: Vec<&str> = inputs.iter().map(|(_, info)| info.name.as_str()).collect();
    let results: Vec<&str> = outputs.iter().map(|(_, info)| info.name.as_str()).collect();
    let names: Vec<String> = outputs.iter().map(|(name, _)| (*name).clone()).collect();
    let library = graph.library.as_ref();
    let read = |steps: &Steps| Reader::new(library, limit).stepping(steps).graph(graph, &tensors, &results);
    finish(read, &stated, &names, library, context)
}

/// An input as the file states it.
struct Stated<'a> {
    name: String,
    shape: Option<&'a TensorShapeProto>,
    /// TensorFlow's number of the type.
    dtype: i32,
}

fn check_ends(inputs: usize, results: usize) -> Result<(), NoChain> {
    match (inputs, results) {
        (_, 0) => Err(NoChain::unsupported("the function has no result")),
        _ if inputs > MAX_ENDS || results > MAX_ENDS => Err(NoChain::unsupported(format!(
            "the function has {inputs} inputs and {results} results, and at most {MAX_ENDS} are supported"
        ))),
        _ => Ok(()),
    }
}

/// Reads the graph and makes the chain. Loops that are no recurrent layers are read step by step, where the number of
/// steps is known.
fn finish<'a>(
    read: impl Fn(&Steps) -> Result<Dag<'a>, NoChain>,
    stated: &[Stated],
    names: &[String],
    library: Option<&FunctionDefLibrary>,
    context: &Context,
) -> Result<Chain, NoChain> {
    /// Limit on loops within loops.
    const MAX_ROUNDS: usize = 4;
    let mut steps = Steps::new();
    for _ in 0..MAX_ROUNDS {
        let dag = read(&steps)?;
        let shapes = shapes(&dag, stated, context);
        let facts = Facts::infer(&dag, &shapes, |key| stored(key, context));
        let constants = Constants::find(&dag, &facts, context);
        let tensors;
        let catalog;
        let mut context = *context;
        if !constants.is_empty() {
            tensors = constants.added_to(context.catalog);
            catalog = Catalog(&tensors);
            context.catalog = &catalog;
        }
        let context = &context;
        let view = View { dag: &dag, facts: &facts, context, constants: Some(&constants) };
        let found = recurrent::find(view, library, context);
        if recurrent::add_steps(view, library, context, &found, &mut steps) {
            continue;
        }
        return made(view, &found, stated, shapes, names);
    }
    Err(NoChain::unsupported(format!("loops are within each other more than {MAX_ROUNDS} deep")))
}

/// Returns the shape of a stored tensor.
fn stored(key: &str, context: &Context) -> Option<Dims> {
    context.catalog.get(key).map(|entry| of_sizes(entry.shape))
}

/// Returns the shapes of the inputs, as far as they are stated or follow from the first layer.
fn shapes(dag: &Dag, stated: &[Stated], context: &Context) -> Vec<Option<Dims>> {
    let shape = |(at, input): (usize, &Stated)| {
        let own = input.shape.and_then(|shape| facts::input(at, shape));
        own.or_else(|| inputs::inferred(dag, at, |key| stored(key, context)))
    };
    stated.iter().enumerate().map(shape).collect()
}

fn made(
    view: View,
    loops: &HashMap<usize, recurrent::Recurrent>,
    stated: &[Stated],
    shapes: Vec<Option<Dims>>,
    names: &[String],
) -> Result<Chain, NoChain> {
    let mut inputs = Vec::new();
    for (input, dims) in stated.iter().zip(shapes) {
        let Some(dims) = dims else {
            return Err(NoChain::unsupported(format!(
                "the shape of the input '{}' is not stated",
                input.name
            )));
        };
        let name = if stated.len() == 1 { "input".to_owned() } else { input.name.clone() };
        inputs.push(ModelInput { name, dims, dtype: integers(input.dtype) });
    }
    let mut lowered = lower::lower(view, loops, inputs, names)?;
    let used = |constants: &Constants| constants.used(&mut lowered.graph, &mut lowered.axes, view.context);
    let constants = view.constants.map(used).unwrap_or_default();
    let notes = lowered.is_half.then(|| IN_16_BITS.to_owned());
    Ok(Chain {
        graph: lowered.graph,
        axes: lowered.axes,
        is_nested: lowered.is_nested,
        notes: notes.into_iter().collect(),
        constants,
    })
}

/// Returns the type of inputs that are integers.
fn integers(dtype: i32) -> Option<DType> {
    match dtype {
        3 => Some(DType::I32),
        9 => Some(DType::I64),
        10 => Some(DType::Bool),
        _ => None,
    }
}

fn argument_shape(def: &FunctionDef, at: usize) -> Option<&TensorShapeProto> {
    let attributes = &def.arg_attr.get(&u32::try_from(at).ok()?)?.attr;
    match attributes.get("_output_shapes")?.value.as_ref()? {
        Value::List(list) => list.shape.first(),
        Value::Shape(shape) => Some(shape),
        _ => None,
    }
}
