//! Layers of layers, which nest: an explicit stack has what is to be done.

use super::builder::{Builder, Of, Val};
use super::layers;
use ckpt_torch7_objects::Id;

/// What is to be done.
enum Step {
    /// Apply a layer to the last value.
    Apply(Id),
    /// Add a value.
    Push(Val),
    /// Make one table of the last so many values.
    Gather(usize),
    /// Join the values of the last table along an axis, which counts from 1, for a layer of this name.
    Join { place: String, dimension: i64 },
}

/// Applies a network to a value.
pub(super) fn run(builder: &mut Builder<'_>, network: Id, input: Of) -> Result<Val, String> {
    let mut steps = vec![Step::Apply(network)];
    let mut values = vec![Val::One(input)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Push(value) => values.push(value),
            Step::Gather(count) => {
                let parts = values.split_off(values.len().saturating_sub(count));
                let parts: Option<Vec<Of>> = parts.into_iter().map(one).collect();
                values.push(Val::Table(parts.ok_or("tables of tables are not supported")?));
            }
            Step::Join { place, dimension } => {
                builder.nodes.place.clone_from(&place);
                let table = values.pop().ok_or("a layer takes no value")?;
                let made = builder.join(&table, dimension, true);
                values.push(Val::One(made.map_err(|why| format!("layer '{}' {why}", place.escape_debug()))?));
            }
            Step::Apply(id) => {
                let value = values.pop().ok_or("a layer takes no value")?;
                if let Some(made) = apply(builder, id, value, &mut steps)? {
                    values.push(made);
                }
            }
        }
    }
    values.pop().ok_or_else(|| "the network makes no value".to_owned())
}

fn one(value: Val) -> Option<Of> {
    match value {
        Val::One(value) => Some(value),
        Val::Table(_) => None,
    }
}

/// Applies a layer; `None` if the steps of its own layers were added.
fn apply(
    builder: &mut Builder<'_>,
    id: Id,
    value: Val,
    steps: &mut Vec<Step>,
) -> Result<Option<Val>, String> {
    let layer = builder.layer(id)?;
    let shown = builder.shown(&layer);
    let explain = |why: String| format!("{shown} {why}");
    let is_container = matches!(layer.kind, "Sequential" | "Concat" | "ConcatTable" | "ParallelTable");
    if !is_container {
        return layers::add(builder, &layer, &value).map(Some).map_err(explain);
    }
    let modules = builder.modules(&layer).map_err(explain)?;
    if modules.is_empty() && layer.kind == "Sequential" {
        return Ok(Some(value));
    }
    let width = match &value {
        Val::One(_) => 1,
        Val::Table(values) => values.len().saturating_add(1),
    };
    builder.spend(modules.len().saturating_mul(width))?;
    match (layer.kind, value) {
        ("Sequential", value) => {
            steps.extend(modules.iter().rev().map(|id| Step::Apply(*id)));
            steps.push(Step::Push(value));
        }
        ("ParallelTable", Val::Table(values)) if values.len() == modules.len() => {
            steps.push(Step::Gather(modules.len()));
            for (id, value) in modules.iter().zip(values).rev() {
                steps.extend([Step::Apply(*id), Step::Push(Val::One(value))]);
            }
        }
        ("ParallelTable", _) => {
            return Err(explain(format!("needs a table of {}", ckpt_api::count(modules.len(), "value"))));
        }
        (kind, value) => {
            if kind == "Concat" {
                let dimension = layer.int("dimension").map_err(explain)?;
                steps.push(Step::Join { place: builder.nodes.place.clone(), dimension });
            }
            steps.push(Step::Gather(modules.len()));
            for id in modules.iter().rev() {
                steps.extend([Step::Apply(*id), Step::Push(value.clone())]);
            }
        }
    }
    Ok(None)
}
