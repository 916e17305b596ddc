//! Keras 3's names, as TensorFlow gives them to a Sequential model:
//! `model/_functional/_operations/1/_kernel/.ATTRIBUTES/VARIABLE_VALUE`.
//!
//! The root holds the model and is the model. A model holds its operations, the input layer first, itself as a
//! functional model does and in an inner one (`_functional`) as a Sequential does. Without the optimizer's list
//! `_trainable_variables`, which names variables by their number among those trained: layers name them, and cannot
//! confuse them where the model at hand trains others.

use super::layers::{Kind, Layer, Model, Variable};
use super::objects::Objects;
use super::optimizer::Optimizer;
use super::{Plan, Style, key, lists};
use ckpt_api::Result;

pub(super) fn name<'a>(mut plan: Plan<'a>, model: &Model, optimizer: Option<&Optimizer>) -> Result<Plan<'a>> {
    let mut objects = Objects::new();
    let root = Objects::ROOT;
    let outer = objects.child(root, "model")?;
    let inner = objects.child(outer, "_functional")?;
    objects.link(root, "_functional", inner);
    let operations = objects.child(inner, "_operations")?;
    for holder in [outer, root] {
        objects.link(holder, "_operations", operations);
    }
    // The input layer.
    objects.child(operations, "0")?;
    for (number, layer) in (1u64..).zip(&model.layers) {
        let number = number.to_string();
        let id = objects.child(operations, &number)?;
        for variable in &layer.variables {
            let local = local_name(layer.kind, variable);
            let key = key(&format!("model/_functional/_operations/{number}/{local}"));
            plan.store(variable.tensor, &variable.order, &key);
            objects.variable(id, local, &full_name(model, layer, variable), &key)?;
        }
    }
    let counter = key("save_counter");
    plan.store_counter(&counter);
    objects.variable(root, "save_counter", "save_counter", &counter)?;
    if let Some(optimizer) = optimizer {
        let id = objects.child(root, "optimizer")?;
        objects.link(outer, "optimizer", id);
        let name = |layer: &Layer, variable: &Variable| full_name(model, layer, variable);
        lists::add(&mut plan, &mut objects, id, Style::Keras3, (model, optimizer), name)?;
    }
    plan.naming.made.push(objects.finish());
    Ok(plan)
}

/// How a layer holds a variable.
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
