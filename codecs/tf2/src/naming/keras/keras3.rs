//! Keras 3's keys, as TensorFlow writes them for a Sequential model:
//! `model/_functional/_operations/1/_kernel/.ATTRIBUTES/VARIABLE_VALUE`.
//!
//! The root is the model, and has the model as a child. A model lists its operations, the input layer first: directly, as a
//! functional model does, and within an inner model (`_functional`), as a Sequential model does. The optimizer's list
//! `_trainable_variables` is omitted. It numbers the trained variables, and a model that trains others would confuse them.

use super::layers::{Kind, Layer, Model, Variable};
use super::objects::Objects;
use super::optimizer::Optimizer;
use super::{Builder, Style, key, slot_lists};
use ckpt_api::Result;

pub(super) fn assign<'a>(
    mut builder: Builder<'a>,
    model: &Model,
    optimizer: Option<&Optimizer>,
) -> Result<Builder<'a>> {
    let mut objects = Objects::new();
    let root = Objects::ROOT;
    let outer = objects.child(root, "model")?;
    let inner = objects.child(outer, "_functional")?;
    objects.link(root, "_functional", inner);
    let operations = objects.child(inner, "_operations")?;
    for holder in [outer, root] {
        objects.link(holder, "_operations", operations);
    }
    // The input layer has no variables.
    objects.child(operations, "0")?;
    for (number, layer) in (1u64..).zip(&model.layers) {
        let number = number.to_string();
        let id = objects.child(operations, &number)?;
        for variable in &layer.variables {
            let local = local_name(layer.kind, variable);
            let key = key(&format!("model/_functional/_operations/{number}/{local}"));
            builder.store(variable.tensor, &variable.order, &key);
            objects.variable(id, local, &full_name(model, layer, variable), &key)?;
        }
    }
    let counter = key("save_counter");
    builder.store_counter(&counter);
    objects.variable(root, "save_counter", "save_counter", &counter)?;
    if let Some(optimizer) = optimizer {
        let id = objects.child(root, "optimizer")?;
        objects.link(outer, "optimizer", id);
        let name = |layer: &Layer, variable: &Variable| full_name(model, layer, variable);
        slot_lists::add(&mut builder, &mut objects, id, Style::Keras3, (model, optimizer), name)?;
    }
    builder.naming.extra.push(objects.finish());
    Ok(builder)
}

/// Returns the name of a variable within its layer.
fn local_name(kind: Kind, variable: &Variable) -> &'static str {
    match (kind, variable.name) {
        (Kind::Dense | Kind::Conv2D, "kernel") => "_kernel",
        _ => variable.name,
    }
}

fn full_name(model: &Model, layer: &Layer, variable: &Variable) -> String {
    let slash = if model.name.is_empty() { "" } else { "/" };
    format!("{}{slash}{}/{}", model.name, layer.name, variable.name)
}
