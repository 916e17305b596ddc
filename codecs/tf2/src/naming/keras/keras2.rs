//! Keras 2's keys: `layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE`.
//!
//! The root is the model, for `load_weights`, and has the model as a child, for `tf.train.Checkpoint(model=m)`. A model
//! has two numberings of layers: of those with weights (`layer_with_weights-0`) and of all (`layer-0`). A Sequential
//! model needs the second one until it is built. A functional model counts its input layer in it, too, and would find
//! the wrong layers. The second numbering therefore comes last: TensorFlow does not look again for what it has found by
//! the first one.
//!
//! If the source has the optimizer's decay, the optimizer is written like one of `tf_keras.optimizers.legacy`, which
//! store it as a variable; otherwise like one of Keras 2.11 and later. Each refuses the other's checkpoints.

use super::builder::{Builder, key};
use super::layers::{Kind, Layer, Model, Variable};
use super::objects::{Id, Objects};
use super::optimizer::{self, Optimizer};
use super::slot_lists;
use super::style::Style;
use super::training::Training;
use ckpt_api::Result;
use std::collections::BTreeMap;

pub(super) fn assign<'a>(
    mut builder: Builder<'a>,
    model: &Model,
    optimizer: Option<&Training>,
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
        add_optimizer(&mut builder, &mut objects, id, (model, optimizer), &variables)?;
    }
    builder.naming.extra.push(objects.finish());
    Ok(builder)
}

fn add_optimizer(
    builder: &mut Builder,
    objects: &mut Objects,
    id: Id,
    (model, optimizer): (&Model, &Training),
    variables: &[StoredVariable],
) -> Result<()> {
    match optimizer {
        Training::Recorded(recorded) => {
            let stored = |stored: &StoredVariable| (stored.variable.tensor, (stored.id, stored.path.clone()));
            recorded.add(builder, objects, id, &variables.iter().map(stored).collect())
        }
        Training::Known(optimizer) if optimizer.number(&["decay"]).is_some() => {
            add_slots(builder, objects, id, optimizer, variables)?;
            add_numbers(builder, objects, id, optimizer)
        }
        Training::Known(optimizer) => {
            slot_lists::add(builder, objects, id, Style::Keras2, (model, optimizer), full_name)
        }
    }
}

/// A variable that has a key.
struct StoredVariable<'m> {
    variable: &'m Variable,
    id: Id,
    /// The key without its suffix.
    path: String,
    full_name: String,
}

/// A model: the outermost one, or one that is a layer.
struct Container {
    /// Its objects.
    ids: Vec<Id>,
    /// The path of its layers; empty or with a slash at its end.
    path: String,
    /// Number of its layers with weights so far.
    with_weights: u64,
    /// Its layers, with their numbers among all layers.
    layers: Vec<(u64, Id)>,
}

impl Container {
    fn new(ids: Vec<Id>, path: String) -> Self {
        Container { ids, path, with_weights: 0, layers: Vec::new() }
    }

    /// Adds a layer; returns its object and, if it has weights, its path.
    fn add(&mut self, objects: &mut Objects, number: u64, has_weights: bool) -> Result<(Id, String)> {
        let id = objects.add()?;
        self.layers.push((number.saturating_sub(1), id));
        let mut path = String::new();
        if has_weights {
            let local = format!("layer_with_weights-{}", self.with_weights);
            self.with_weights = self.with_weights.saturating_add(1);
            for model in &self.ids {
                objects.link(*model, &local, id);
            }
            path = format!("{}{local}", self.path);
        }
        Ok((id, path))
    }
}

fn add_layers<'m>(
    builder: &mut Builder,
    objects: &mut Objects,
    models: [Id; 2],
    model: &'m Model,
) -> Result<Vec<StoredVariable<'m>>> {
    let mut containers = BTreeMap::from([(&[] as &[u64], Container::new(models.to_vec(), String::new()))]);
    let mut stored = Vec::new();
    for layer in &model.layers {
        let Some((number, models)) = layer.place.split_last() else { continue };
        add_models(objects, &mut containers, models)?;
        let Some(container) = containers.get_mut(models) else { continue };
        let (layer_id, path) = container.add(objects, *number, !layer.variables.is_empty())?;
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
    for container in containers.values() {
        for (number, layer) in &container.layers {
            for model in &container.ids {
                objects.link(*model, &format!("layer-{number}"), *layer);
            }
        }
    }
    Ok(stored)
}

/// Adds the models that contain a layer, if they are missing.
fn add_models<'m>(
    objects: &mut Objects,
    containers: &mut BTreeMap<&'m [u64], Container>,
    models: &'m [u64],
) -> Result<()> {
    for depth in 1..=models.len() {
        let (Some(place), Some((number, outside))) =
            (models.get(..depth), models.get(..depth).and_then(<[u64]>::split_last))
        else {
            break;
        };
        if containers.contains_key(place) {
            continue;
        }
        if let Some(container) = containers.get_mut(outside) {
            let (id, path) = container.add(objects, *number, true)?;
            containers.insert(place, Container::new(vec![id], format!("{path}/")));
        }
    }
    Ok(())
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
