//! Keras 2's keys: `layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE`.
//!
//! The root is the model, for `load_weights`, and has the model as a child, for `tf.train.Checkpoint(model=m)`. A model has
//! two numberings of layers: of those with weights (`layer_with_weights-0`) and of all (`layer-0`). A Sequential model needs
//! the second one until it is built. A functional model counts its input layer in it, too, and would find the wrong layers.
//! The second numbering therefore comes last: TensorFlow does not look again for what it has found by the first one.
//!
//! If the source has the optimizer's decay, the optimizer is written like one of `tf_keras.optimizers.legacy`, which store it
//! as a variable; otherwise like one of Keras 2.11 and later. Each refuses the other's checkpoints.

use super::layers::{Kind, Layer, Model, Variable};
use super::objects::{Id, Objects};
use super::optimizer::{self, Optimizer};
use super::{Builder, Style, key, slot_lists};
use ckpt_api::Result;

pub(super) fn assign<'a>(
    mut builder: Builder<'a>,
    model: &Model,
    optimizer: Option<&Optimizer>,
) -> Result<Builder<'a>> {
    let mut objects = Objects::new();
    let root = Objects::ROOT;
    let inner = objects.child(root, "model")?;
    let variables = add_layers(&mut builder, &mut objects, [root, inner], model)?;
    let counter = key("save_counter");
    builder.store_counter(&counter);
    objects.variable(root, "save_counter", "save_counter", &counter)?;
    if let Some(optimizer) = optimizer {
        let id = objects.child(root, "optimizer")?;
        objects.link(inner, "optimizer", id);
        if optimizer.number(&["decay"]).is_some() {
            add_slots(&mut builder, &mut objects, id, optimizer, &variables)?;
            add_numbers(&mut builder, &mut objects, id, optimizer)?;
        } else {
            slot_lists::add(&mut builder, &mut objects, id, Style::Keras2, (model, optimizer), full_name)?;
        }
    }
    builder.naming.extra.push(objects.finish());
    Ok(builder)
}

/// A variable that has a key.
struct StoredVariable<'m> {
    variable: &'m Variable,
    id: Id,
    /// The key without its suffix.
    path: String,
    full_name: String,
}

fn add_layers<'m>(
    builder: &mut Builder,
    objects: &mut Objects,
    models: [Id; 2],
    model: &'m Model,
) -> Result<Vec<StoredVariable<'m>>> {
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
            builder.store(variable.tensor, &variable.order, &key);
            let full_name = full_name(layer, variable);
            let id = objects.variable(layer_id, local, &full_name, &key)?;
            stored.push(StoredVariable { variable, id, path, full_name });
        }
    }
    for (number, layer) in all.into_iter().enumerate() {
        for model in models {
            objects.link(model, &format!("layer-{number}"), layer);
        }
    }
    Ok(stored)
}

/// Returns the name of a variable within its layer.
pub(super) fn local_name(kind: Kind, variable: &Variable) -> &'static str {
    match (kind, variable.name) {
        (Kind::DepthwiseConv2D, "kernel") => "depthwise_kernel",
        _ => variable.name,
    }
}

/// Returns the full name of a variable, which is its key in TensorFlow 1.
pub(super) fn full_name(layer: &Layer, variable: &Variable) -> String {
    format!("{}/{}", layer.name, local_name(layer.kind, variable))
}

fn add_slots(
    builder: &mut Builder,
    objects: &mut Objects,
    id: Id,
    optimizer: &Optimizer,
    variables: &[StoredVariable],
) -> Result<()> {
    let own = slot_lists::own_name(Style::Keras2, optimizer.kind);
    for StoredVariable { variable, id: variable_id, path, full_name } in variables {
        for slot in optimizer.slots_of(variable) {
            let key = key(&format!("{path}/.OPTIMIZER_SLOT/optimizer/{}", slot.name));
            builder.store(slot.tensor, &slot.order, &key);
            let slot_id = objects.stored(&format!("{own}/{full_name}/{}", slot.name), &key)?;
            objects.slot(id, *variable_id, slot.name, slot_id);
        }
    }
    Ok(())
}

fn add_numbers(builder: &mut Builder, objects: &mut Objects, id: Id, optimizer: &Optimizer) -> Result<()> {
    let own = slot_lists::own_name(Style::Keras2, optimizer.kind);
    let hyper: &[&str] = match optimizer.kind {
        optimizer::Kind::Adam => &["beta_1", "beta_2", "decay", "learning_rate"],
        optimizer::Kind::Sgd => &["decay", "learning_rate", "momentum"],
    };
    let steps = optimizer.number(&["iteration", "global_step"]).map(|id| ("iter", id));
    let hyper = hyper.iter().filter_map(|name| Some((*name, optimizer.number(&[name])?)));
    for (local, number) in steps.into_iter().chain(hyper) {
        let key = key(&format!("optimizer/{local}"));
        builder.store(number, &[], &key);
        objects.variable(id, local, &format!("{own}/{local}"), &key)?;
    }
    Ok(())
}
