//! Keras 3's keys, as TensorFlow writes them for a Sequential model:
//! `model/_functional/_operations/1/_kernel/.ATTRIBUTES/VARIABLE_VALUE`.
//!
//! The root is the model, and has the model as a child. A model lists its operations, the input layer first: directly,
//! as a functional model does, and within an inner model (`_functional`), as a Sequential model does. A model that is a
//! layer of another lists its operations in the same ways. The optimizer's list `_trainable_variables` is omitted. It
//! numbers the trained variables, and a model that trains others would confuse them.

use super::builder::{Builder, key};
use super::layers::{Kind, Layer, Model, Variable};
use super::objects::{Id, Objects, StoredVariables};
use super::slot_lists;
use super::style::Style;
use super::training::Training;
use ckpt_api::Result;
use std::collections::HashMap;

pub(super) fn assign<'a>(
    mut builder: Builder<'a>,
    model: &Model,
    optimizer: Option<&Training>,
) -> Result<Builder<'a>> {
    let mut objects = Objects::new();
    let root = Objects::ROOT;
    let outer = objects.child(root, "model")?;
    let mut models = Models { operations: HashMap::new(), variables: StoredVariables::default() };
    let inner = models.add(&mut objects, outer, &[])?;
    let operations = models.operations_of(&[]);
    objects.link(root, "_functional", inner);
    objects.link(root, "_operations", operations);
    for layer in &model.layers {
        models.add_layer(&mut builder, &mut objects, model, layer)?;
    }
    let counter = key("save_counter");
    builder.store_counter(&counter);
    objects.variable(root, "save_counter", "save_counter", &counter)?;
    if let Some(optimizer) = optimizer {
        let id = objects.child(root, "optimizer")?;
        objects.link(outer, "optimizer", id);
        let name = |layer: &Layer, variable: &Variable| full_name(model, layer, variable);
        match optimizer {
            Training::Known(optimizer) => {
                slot_lists::add(&mut builder, &mut objects, id, Style::Keras3, (model, optimizer), name)?;
            }
            Training::Recorded(recorded) => {
                recorded.add(&mut builder, &mut objects, id, &models.variables)?;
            }
        }
    }
    builder.naming.extra.push(objects.finish());
    Ok(builder)
}

/// The models: the outermost one, and those that are layers.
struct Models {
    /// The list of operations of the model at each place.
    operations: HashMap<Vec<u64>, Id>,
    variables: StoredVariables,
}

impl Models {
    /// Adds a model, which is the object `id`. Returns the object that lists its operations as a Sequential model does.
    fn add(&mut self, objects: &mut Objects, id: Id, place: &[u64]) -> Result<Id> {
        let inner = objects.child(id, "_functional")?;
        let operations = objects.child(inner, "_operations")?;
        objects.link(id, "_operations", operations);
        // The input layer has no variables.
        objects.child(operations, "0")?;
        self.operations.insert(place.to_vec(), operations);
        Ok(inner)
    }

    /// Returns the list of operations of the model at this place.
    fn operations_of(&self, place: &[u64]) -> Id {
        self.operations.get(place).copied().unwrap_or(Objects::ROOT)
    }

    fn add_layer(
        &mut self,
        builder: &mut Builder,
        objects: &mut Objects,
        model: &Model,
        layer: &Layer,
    ) -> Result<()> {
        let Some((number, models)) = layer.place.split_last() else { return Ok(()) };
        let mut path = "model/_functional/_operations".to_owned();
        for (depth, number) in (1..).zip(models) {
            let (outside, place) = (models.get(..depth - 1), models.get(..depth));
            let (Some(outside), Some(place)) = (outside, place) else { break };
            path.push_str(&format!("/{number}/_functional/_operations"));
            if !self.operations.contains_key(place) {
                let id = objects.child(self.operations_of(outside), &number.to_string())?;
                self.add(objects, id, place)?;
            }
        }
        let id = objects.child(self.operations_of(models), &number.to_string())?;
        for variable in &layer.variables {
            let local = local_name(layer.kind, variable);
            let path = format!("{path}/{number}/{local}");
            let key = key(&path);
            builder.store(variable.tensor, &variable.order, &key);
            let stored = objects.variable(id, local, &full_name(model, layer, variable), &key)?;
            self.variables.insert(variable.tensor, (stored, path));
        }
        Ok(())
    }
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
