//! Runs functional models: each call after those that it takes values of.

use super::arguments::{Arg, Args};
use super::lowering::named;
use super::values::Val;
use crate::calls::{Argument, Call, TensorRef};
use crate::layer::Reason;
use crate::model::{Layer, Model};
use std::collections::{BTreeSet, HashMap, HashSet};

type Ends = [(Option<String>, TensorRef)];

/// Values by layer and call.
type Made = HashMap<(usize, usize), Vec<Val>>;

/// Runs a layer, and returns its results.
type RunLayer<'r> = dyn FnMut(&Layer, &Args) -> Result<Vec<Val>, Reason> + 'r;

/// Runs a model, and returns its results: `run_layer` runs one of its layers.
pub(super) fn run(
    model: &Model,
    (ends, outputs): (&Ends, &Ends),
    inputs: Vec<Val>,
    run_layer: &mut RunLayer<'_>,
) -> Result<Vec<Val>, Reason> {
    if ends.len() != inputs.len() {
        return Err(format!("it has {} inputs, but is given {}", ends.len(), inputs.len()));
    }
    let mut made = Made::new();
    for ((_, end), val) in ends.iter().zip(inputs) {
        made.insert((end.layer, end.call), vec![val]);
    }
    for (layer, call) in order(model, &made)? {
        let Some((layer_of, call_of)) =
            model.layers.get(layer).and_then(|found| Some((found, found.calls.get(call)?)))
        else {
            continue;
        };
        let args = args(call_of, &made).map_err(|reason| named(layer_of, &reason))?;
        let results = run_layer(layer_of, &args)?;
        made.insert((layer, call), results);
    }
    outputs.iter().map(|(_, end)| value(*end, &made)).collect()
}

/// Returns the calls in an order in which each follows those that it takes values of.
fn order(model: &Model, given: &Made) -> Result<Vec<(usize, usize)>, Reason> {
    let mut waiting: HashMap<(usize, usize), usize> = HashMap::new();
    let mut waiters: HashMap<(usize, usize), Vec<(usize, usize)>> = HashMap::new();
    let mut ready = BTreeSet::new();
    for (at, layer) in model.layers.iter().enumerate() {
        for (call, taken) in
            layer.calls.iter().enumerate().filter(|(call, _)| !given.contains_key(&(at, *call)))
        {
            let needs: HashSet<(usize, usize)> =
                taken.references().iter().map(|need| (need.layer, need.call)).collect();
            let needs: Vec<(usize, usize)> =
                needs.into_iter().filter(|need| !given.contains_key(need)).collect();
            if needs.is_empty() {
                ready.insert((at, call));
            }
            waiting.insert((at, call), needs.len());
            for need in needs {
                waiters.entry(need).or_default().push((at, call));
            }
        }
    }
    let total = waiting.len();
    let mut ordered = Vec::with_capacity(total);
    // Of those that can run, the first one of the model's list does.
    while let Some(next) = ready.pop_first() {
        ordered.push(next);
        waiting.remove(&next);
        for waiter in waiters.remove(&next).unwrap_or_default() {
            if let Some(count) = waiting.get_mut(&waiter) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    ready.insert(waiter);
                }
            }
        }
    }
    if ordered.len() == total {
        return Ok(ordered);
    }
    let stuck = waiting.keys().min().and_then(|(layer, _)| model.layers.get(*layer));
    let reason = "it takes a value that is made after it, or never";
    Err(stuck.map_or_else(|| reason.to_owned(), |layer| named(layer, reason)))
}

fn value(reference: TensorRef, made: &Made) -> Result<Val, Reason> {
    let results = made.get(&(reference.layer, reference.call));
    results
        .and_then(|results| results.get(reference.result))
        .cloned()
        .ok_or_else(|| "it takes a result that no layer makes".to_owned())
}

fn args(call: &Call, made: &Made) -> Result<Args, Reason> {
    let args = call.args.iter().map(|argument| arg(argument, made)).collect::<Result<_, _>>()?;
    let kwargs = call.kwargs.iter().map(|(name, argument)| Ok((name.clone(), arg(argument, made)?)));
    Ok(Args { args, kwargs: kwargs.collect::<Result<_, Reason>>()? })
}

fn arg(argument: &Argument, made: &Made) -> Result<Arg, Reason> {
    Ok(match argument {
        Argument::Tensor(reference) => Arg::Value(value(*reference, made)?),
        Argument::List(items) => {
            Arg::List(items.iter().map(|item| arg(item, made)).collect::<Result<_, _>>()?)
        }
        Argument::Constant(value) => Arg::Constant(value.clone()),
    })
}
