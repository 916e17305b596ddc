//! Optimizers that keep their slots in lists, in the order of the model's trained variables: those of Keras 3, and of
//! Keras 2.11 and later. Their only numbers are the number of steps and the learning rate.

use super::builder::{Builder, key};
use super::layers::{Layer, Model, Variable};
use super::objects::{Id, Objects};
use super::optimizer::{Kind, Optimizer};
use super::style::Style;
use ckpt_api::Result;

/// Assigns keys to the state of `optimizer`, which is the object `id`. `full_name` returns the full name of a variable.
pub(super) fn add(
    builder: &mut Builder,
    objects: &mut Objects,
    id: Id,
    style: Style,
    (model, optimizer): (&Model, &Optimizer),
    full_name: impl Fn(&Layer, &Variable) -> String,
) -> Result<()> {
    let numbers = add_numbers(builder, objects, id, style, optimizer)?;
    let mut lists = Vec::with_capacity(optimizer.slots.len());
    for (place, slot) in optimizer.slots.iter().enumerate() {
        let local = list_name(optimizer.kind, slot);
        let list = objects.child(id, local)?;
        let variables = model.layers.iter().flat_map(|layer| layer.variables.iter().map(move |v| (layer, v)));
        let slots = variables.filter_map(|(layer, variable)| {
            Some((full_name(layer, variable), optimizer.slots_of(variable).get(place)?))
        });
        let mut items = Vec::new();
        for (number, (variable, slot_tensor)) in slots.enumerate() {
            let key = key(&format!("optimizer/{local}/{number}"));
            builder.store(slot_tensor.tensor, &slot_tensor.order, &key);
            let name = slot_name(style, optimizer.kind, slot, &variable);
            items.push(objects.variable(list, &number.to_string(), &name, &key)?);
        }
        lists.push(items);
    }
    if let Some(mut all) = numbers {
        all.extend(in_order_of_creation(&lists));
        list_variables(objects, id, &all)?;
    }
    Ok(())
}

/// Returns the numbers with which the list of all variables starts, or `None` if one is missing.
fn add_numbers(
    builder: &mut Builder,
    objects: &mut Objects,
    id: Id,
    style: Style,
    optimizer: &Optimizer,
) -> Result<Option<Vec<Id>>> {
    let own = own_name(style, optimizer.kind);
    let mut add = |local: &str, name: &str, sources: &[&str]| -> Result<Option<Id>> {
        let Some(number) = optimizer.number(sources) else { return Ok(None) };
        let key = key(&format!("optimizer/{local}"));
        builder.store(number, &[], &key);
        let full_name = if style == Style::Keras3 { format!("{own}/{name}") } else { name.to_owned() };
        objects.variable(id, local, &full_name, &key).map(Some)
    };
    let steps = add("_iterations", "iteration", &["iteration", "global_step"])?;
    let rate = add("_learning_rate", "learning_rate", &["learning_rate"])?;
    Ok(match style {
        Style::Keras3 => steps.zip(rate).map(|(steps, rate)| vec![steps, rate]),
        _ => steps.map(|steps| vec![steps]),
    })
}

/// Returns the name of the optimizer.
pub(super) fn own_name(style: Style, kind: Kind) -> &'static str {
    match (style, kind) {
        (Style::Keras3, Kind::Adam) => "adam",
        (Style::Keras3, Kind::Sgd) => "sgd",
        (_, Kind::Adam) => "Adam",
        (_, Kind::Sgd) => "SGD",
    }
}

/// Returns the name of the list of a slot.
fn list_name(kind: Kind, slot: &str) -> &'static str {
    match (kind, slot) {
        (Kind::Adam, "m") => "_momentums",
        (Kind::Adam, "v") => "_velocities",
        (Kind::Adam, _) => "_velocity_hats",
        (Kind::Sgd, _) => "momentums",
    }
}

/// Returns the full name of a slot variable.
fn slot_name(style: Style, kind: Kind, slot: &str, variable: &str) -> String {
    let own = own_name(style, kind);
    if style == Style::Keras3 {
        let word = match slot {
            "v" => "velocity",
            "vhat" => "velocity_hat",
            _ => "momentum",
        };
        return format!("{own}/{}_{word}", variable.replace('/', "_"));
    }
    let slot = if slot == "momentum" { "m" } else { slot };
    format!("{own}/{slot}/{variable}")
}

/// Returns both moments of each variable, then Adam's maximum second moments: the order in which Keras creates them.
fn in_order_of_creation(lists: &[Vec<Id>]) -> Vec<Id> {
    let (together, after) = lists.split_at(lists.len().min(2));
    let len = together.first().map_or(0, Vec::len);
    let interleaved = (0..len).flat_map(|place| together.iter().filter_map(move |list| list.get(place)));
    interleaved.chain(after.iter().flatten()).copied().collect()
}

/// Adds the list of all variables of an optimizer, by which it finds those that it creates after it was restored. The
/// list comes last: an optimizer without a variable for its learning rate numbers them differently, and has found all
/// by then.
fn list_variables(objects: &mut Objects, optimizer: Id, all: &[Id]) -> Result<()> {
    let list = objects.child(optimizer, "_variables")?;
    for (number, variable) in all.iter().enumerate() {
        objects.link(list, &number.to_string(), *variable);
    }
    Ok(())
}
