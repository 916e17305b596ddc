//! First states of recurrent layers that are stored as zeros.

use ckpt_api::{Checkpoint, Contents, Graph, Node, Op, Result, Values};
use std::collections::{HashMap, HashSet};

/// Leaves out first states that are zeros, as Keras begins with: exporters store them for a known number of examples. `None` if
/// no layer has any. The tensors themselves stay.
///
/// # Errors
/// Those of reading values.
pub(crate) fn prepare(values: &dyn Values, contents: &Contents) -> Result<Option<Contents>> {
    let checkpoint = &contents.checkpoint;
    let Some(graph) = &checkpoint.graph else { return Ok(None) };
    let makers: HashMap<&str, &Node> = graph
        .nodes
        .iter()
        .flat_map(|node| node.outputs.iter().map(move |name| (name.as_str(), node)))
        .collect();
    let mut are_zero = HashMap::new();
    for name in states(graph) {
        if let Some(tensor) = stored(&makers, name)
            && !are_zero.contains_key(name)
        {
            are_zero.insert(name.to_owned(), is_zero(values, checkpoint, tensor)?);
        }
    }
    are_zero.retain(|_, is_zero| *is_zero);
    if are_zero.is_empty() {
        return Ok(None);
    }
    let mut prepared = contents.clone();
    if let Some(graph) = &mut prepared.checkpoint.graph {
        for node in graph.nodes.iter_mut().filter(|node| is_recurrent(node)) {
            let states = node.inputs.iter_mut().skip(1);
            states.filter(|name| are_zero.contains_key(name.as_str())).for_each(String::clear);
            while node.inputs.last().is_some_and(String::is_empty) {
                node.inputs.pop();
            }
        }
        leave_out_unused(graph, are_zero.into_keys().collect());
    }
    Ok(Some(prepared))
}

fn is_recurrent(node: &Node) -> bool {
    matches!(node.op, Op::LSTM | Op::GRU | Op::RNN)
}

fn states(graph: &Graph) -> impl Iterator<Item = &str> {
    let layers = graph.nodes.iter().filter(|node| is_recurrent(node));
    layers.flat_map(|node| node.inputs.iter().skip(1)).map(String::as_str)
}

/// The tensor that a state is, perhaps repeated.
fn stored<'a>(makers: &HashMap<&str, &'a Node>, state: &str) -> Option<&'a str> {
    let mut node = *makers.get(state)?;
    if node.op == Op::Expand {
        node = *makers.get(node.inputs.first()?.as_str())?;
    }
    node.parameters.get("value").filter(|_| node.op == Op::Constant).map(String::as_str)
}

fn is_zero(values: &dyn Values, checkpoint: &Checkpoint, tensor: &str) -> Result<bool> {
    let Some(id) = checkpoint.by_name().get(tensor).copied() else { return Ok(false) };
    let is_number = checkpoint.tensors.get(id.0).is_some_and(|tensor| tensor.dtype.is_float());
    let mut is_zero = is_number;
    if is_number {
        values.numbers(id, &mut |part| is_zero &= part.iter().all(|number| *number == 0.0))?;
    }
    Ok(is_zero)
}

/// Removes the nodes that made these values for nobody else: what repeats a constant, and then the constant.
fn leave_out_unused(graph: &mut Graph, mut values: HashSet<String>) {
    for _ in 0..2 {
        let inputs = graph.all_nodes().flat_map(|node| &node.inputs);
        let used: HashSet<String> =
            inputs.chain(graph.outputs.iter().map(|output| &output.name)).cloned().collect();
        let mut before = Vec::new();
        graph.nodes.retain(|node| {
            let is_used = |name: &String| !values.contains(name) || used.contains(name);
            let stays = node.outputs.iter().any(is_used);
            if !stays {
                before.extend(node.inputs.iter().cloned());
            }
            stays
        });
        values.extend(before);
    }
}
