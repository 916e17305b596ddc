//! Compares a checkpoint that has a graph with one that has tensors alone: under the graph of the first, if the second has what
//! it needs.

use super::Options;
use ckpt_api::{Error, Result, Role, Setting, Tensor, count, first_few, text};
use ckpt_engine::diff::{Difference, Outcome};
use ckpt_engine::source::{ModelGraph, Source, give_graph};
use std::collections::{BTreeSet, HashSet};

/// Names that a message lists.
const SHOWN: usize = 6;

/// Two checkpoints with a graph each.
pub(super) struct Borrowed {
    pub(super) a: Source,
    pub(super) b: Source,
    /// Which of them has the other's graph.
    pub(super) note: String,
}

/// Gives one of two checkpoints the other's graph; `None` if both or neither has one, if it lacks a tensor that the graph needs or
/// has it in another shape, and if it has weights beside: then it may compute something else. What a mapping renames has its new
/// names.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a mapping that does not fit.
pub(super) fn with_graph(a: &Source, b: &Source, options: &Options) -> Result<Option<Borrowed>> {
    let a = under_names(a, options)?;
    let (from, to) = match [&a, b].map(|source| source.checkpoint().graph.is_some()) {
        [true, false] => (&a, b),
        [false, true] => (b, &a),
        _ => return Ok(None),
    };
    let [own, other] = [from, to].map(Source::shown);
    let mut contents = to.contents().clone();
    let model = ModelGraph::of(from);
    if !more_weights(from, to).is_empty() || give_graph(&model, &mut contents, &other).is_err() {
        return Ok(None);
    }
    let note = format!(
        "{other} has no graph: it was run with the graph of {own}, whose tensors have the same names and shapes"
    );
    let given = to.with_contents(contents);
    let (a, b) = if std::ptr::eq(from, b) { (given, b.clone()) } else { (a, given) };
    Ok(Some(Borrowed { a, b, note }))
}

/// The error for checkpoints of which one has no graph and not the other's tensors, and whose common tensors do not differ:
/// nothing shows whether they compute the same.
///
/// # Errors
/// As [`with_graph`].
pub(super) fn unjudged(a: &Source, b: &Source, options: &Options, difference: &Difference) -> Result<Error> {
    let is_first = a.checkpoint().graph.is_some();
    let a = under_names(a, options)?;
    let (from, to, only) =
        if is_first { (&a, b, &difference.only_in_a) } else { (b, &a, &difference.only_in_b) };
    let there: HashSet<&str> = to.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let missing: BTreeSet<&str> = match &from.checkpoint().graph {
        Some(graph) => graph.tensors().filter(|name| !there.contains(name)).collect(),
        // The mapping changes the tensors of the graph.
        None => only.iter().map(String::as_str).collect(),
    };
    let missing: Vec<&str> = missing.into_iter().collect();
    let more = more_weights(from, to);
    let equal = difference.tensors.iter().filter(|tensor| agrees(&tensor.outcome)).count();
    let compared = difference.tensors.len();
    let mut found = format!("{equal} of {} of the same name agree", count(compared, "tensor"));
    for (what, names) in [("it lacks", &missing), ("it also has the weights", &more)] {
        if !names.is_empty() {
            found += &format!("; {what} {}", first_few(names, SHOWN));
        }
    }
    let mapping = if options.mapping.is_some() { "another mapping" } else { "a mapping" };
    let error =
        "the checkpoint has no graph to run and not the tensors of the other's graph, so it cannot be judged";
    Ok(Error::unsupported(error)
        .file(to.shown())
        .found(found)
        .expected(format!("the tensors that the graph of {} needs, and no other weights", from.shown()))
        .help(text![format!("if the tensors have other names, pass {mapping} with "), Setting::MAPPING]))
}

/// Whether a tensor that both have differs. One that was not compared because its dtype is another may have the same values.
pub(super) fn differ(difference: &Difference) -> bool {
    let disagreeing = difference.tensors.iter().filter(|tensor| !agrees(&tensor.outcome)).count();
    disagreeing > difference.not_compared_for_their_dtypes()
}

fn agrees(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Equal | Outcome::Close(_))
}

/// The weights that only the second has.
fn more_weights<'s>(from: &Source, to: &'s Source) -> Vec<&'s str> {
    let own: HashSet<&str> = from.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let is_more = |tensor: &&Tensor| tensor.role == Role::Weight && !own.contains(tensor.name.as_str());
    to.checkpoint().tensors.iter().filter(is_more).map(|tensor| tensor.name.as_str()).collect()
}

/// The first checkpoint under the names of the second.
fn under_names(a: &Source, options: &Options) -> Result<Source> {
    match &options.mapping {
        Some(named) => Ok(a.renamed(&named.mapping, &options.limits)?.0),
        None => Ok(a.clone()),
    }
}
