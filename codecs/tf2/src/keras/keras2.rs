//! Keras 2's names: `layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE`.
//!
//! The root is the model, for `load_weights`, and holds it, for `tf.train.Checkpoint(model=m)`. Layers are numbered
//! twice, those with weights (`layer_with_weights-0`) and all (`layer-0`). The second number is a Sequential model's,
//! which needs it as long as it is not built; a functional model counts its input layer too. So it comes last: what
//! TensorFlow has found by the first number, it does not look for by the second.
//!
//! An optimizer is written as `tf_keras.optimizers.legacy` has it where the source knows its decay rates, which those
//! hold as variables; else as Keras 2.11 and later have it. Each refuses the other's.

use super::layers::{Kind, Layer, Model, Variable};
use super::objects::{Id, Objects};
use super::optimizer::{self, Optimizer};
use super::{Plan, Style, key, lists};
use ckpt_api::Result;

pub(super) fn name<'a>(mut plan: Plan<'a>, model: &Model, optimizer: Option<&Optimizer>) -> Result<Plan<'a>> {
    let mut objects = Objects::new();
    let root = Objects::ROOT;
    let inner = objects.child(root, "model")?;
    let variables = add_layers(&mut plan, &mut objects, [root, inner], model)?;
    let counter = key("save_counter");
    plan.store_counter(&counter);
    objects.variable(root, "save_counter", "save_counter", &counter)?;
    if let Some(optimizer) = optimizer {
        let id = objects.child(root, "optimizer")?;
        objects.link(inner, "optimizer", id);
        if optimizer.number(&["decay"]).is_some() {
            add_slots(&mut plan, &mut objects, id, optimizer, &variables)?;
            add_numbers(&mut plan, &mut objects, id, optimizer)?;
        } else {
            lists::add(&mut plan, &mut objects, id, Style::Keras2, (model, optimizer), full_name)?;
        }
    }
    plan.naming.made.push(objects.finish());
    Ok(plan)
}

/// A variable that was stored.
struct Stored<'m> {
    variable: &'m Variable,
    id: Id,
    /// Its key without the suffix.
    path: String,
    full_name: String,
}

fn add_layers<'m>(
    plan: &mut Plan,
    objects: &mut Objects,
    models: [Id; 2],
    model: &'m Model,
) -> Result<Vec<Stored<'m>>> {
    let mut all = Vec::with_capacity(model.layers.len());
    let mut stored = Vec::new();
    let mut with_weights = 0u64;
    for layer in &model.layers {
        let layer_id = objects.add()?;
        all.push(layer_id);
        if layer.variables.is_empty() {
            continue;
        }
        let path = format!("layer_with_weights-{with_weights}");
        with_weights = with_weights.saturating_add(1);
        for model in models {
            objects.link(model, &path, layer_id);
        }
        for variable in &layer.variables {
            let local = local_name(layer.kind, variable);
            let path = format!("{path}/{local}");
            let key = key(&path);
            plan.store(variable.tensor, &variable.order, &key);
            let full_name = full_name(layer, variable);
            let id = objects.variable(layer_id, local, &full_name, &key)?;
            stored.push(Stored { variable, id, path, full_name });
        }
    }
    for (number, layer) in all.into_iter().enumerate() {
        for model in models {
            objects.link(model, &format!("layer-{number}"), layer);
        }
    }
    Ok(stored)
}

/// How a layer holds a variable.
pub(super) fn local_name(kind: Kind, variable: &Variable) -> &'static str {
    match (kind, variable.name) {
        (Kind::DepthwiseConv2D, "kernel") => "depthwise_kernel",
        _ => variable.name,
    }
}

/// What a variable is called, which is its key in TensorFlow 1.
pub(super) fn full_name(layer: &Layer, variable: &Variable) -> String {
    format!("{}/{}", layer.name, local_name(layer.kind, variable))
}

fn add_slots(
    plan: &mut Plan,
    objects: &mut Objects,
    id: Id,
    optimizer: &Optimizer,
    variables: &[Stored],
) -> Result<()> {
    let own = lists::own_name(Style::Keras2, optimizer.kind);
    for Stored { variable, id: variable_id, path, full_name } in variables {
        for kept in optimizer.kept(variable) {
            let key = key(&format!("{path}/.OPTIMIZER_SLOT/optimizer/{}", kept.name));
            plan.store(kept.tensor, &kept.order, &key);
            let slot = objects.stored(&format!("{own}/{full_name}/{}", kept.name), &key)?;
            objects.slot(id, *variable_id, kept.name, slot);
        }
    }
    Ok(())
}

fn add_numbers(plan: &mut Plan, objects: &mut Objects, id: Id, optimizer: &Optimizer) -> Result<()> {
    let own = lists::own_name(Style::Keras2, optimizer.kind);
    let hyper: &[&str] = match optimizer.kind {
        optimizer::Kind::Adam => &["beta_1", "beta_2", "decay", "learning_rate"],
        optimizer::Kind::Sgd => &["decay", "learning_rate", "momentum"],
    };
    let steps = optimizer.number(&["iteration", "global_step"]).map(|id| ("iter", id));
    let hyper = hyper.iter().filter_map(|name| Some((*name, optimizer.number(&[name])?)));
    for (local, number) in steps.into_iter().chain(hyper) {
        let key = key(&format!("optimizer/{local}"));
        plan.store(number, &[], &key);
        objects.variable(id, local, &format!("{own}/{local}"), &key)?;
    }
    Ok(())
}
