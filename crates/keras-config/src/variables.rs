//! The variables of a model, and where the containers store them.

use super::kernels::{LayerVariable, own};
use super::model::{Layer, Model, Structure};
use super::naming::{Numbers, shown_name};
use super::quantized::Quantized;
use ckpt_api::{Axis, Role};
use std::collections::{HashMap, HashSet};

/// A variable of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name in the model, unique: models around it, layer, objects within the layer, and the variable, such as
    /// `encoder/lstm/lstm_cell/kernel`. The graph refers to it by this name.
    pub name: String,
    /// Its dataset in `.weights.h5`, such as `layers/lstm/cell/vars/0`.
    pub path: String,
    /// The group of `model_weights` in `.h5` that lists it: the name of the model's own layer that it belongs to.
    pub group: String,
    /// Its position in the group's `weight_names`.
    pub position: usize,
    /// What it is in its layer: `kernel`, `bias`, `gamma`, `moving_mean`.
    pub role: &'static str,
    /// Whether an optimizer trains it.
    pub is_trained: bool,
    /// What the tensor is for.
    pub tensor_role: Role,
    /// What its axes mean, where an [`Axis`] says it.
    pub axes: Option<Box<[Axis]>>,
    /// How it is stored as integers, if it is.
    pub quantized: Option<Box<Quantized>>,
}

/// The variables of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// All that the configuration shows, in the order in which an optimizer takes those that it trains.
    pub list: Vec<Variable>,
    /// Layers whose variables the configuration does not show, and the reasons, as clauses.
    pub unknown: Vec<(String, String)>,
}

impl Variables {
    /// Returns the variables that an optimizer trains, in its order.
    pub fn trained(&self) -> impl Iterator<Item = &Variable> {
        self.list.iter().filter(|variable| variable.is_trained)
    }
}

/// Where a model is among others.
struct Place<'a> {
    model: &'a Model,
    /// The names of the models around its layers, each with `/`.
    scope: String,
    /// The path of its group in `.weights.h5`, with `/`.
    path: String,
    /// The layer of the outermost model that contains it.
    group: Option<String>,
    is_trainable: bool,
}

impl Model {
    /// Returns the model's variables. A layer that is used several times has its variables once.
    pub fn variables(&self) -> Variables {
        let mut found = Variables::default();
        let mut seen = HashSet::new();
        let first =
            Place { model: self, scope: String::new(), path: String::new(), group: None, is_trainable: true };
        walk(first, &mut seen, &mut found);
        assign_positions(&mut found.list);
        found
    }
}

/// Adds the variables of a model, and of the models within it, whose number the reader limits.
fn walk(place: Place, seen: &mut HashSet<(String, u64)>, found: &mut Variables) {
    if let Structure::Unknown(reason) = &place.model.structure {
        found.unknown.push((place.model.name.clone(), reason.clone()));
    }
    let mut numbers = Numbers::default();
    for layer in place.model.layers.iter().filter(|layer| !layer.is_operation()) {
        // Keras names objects by their classes in the program, and configurations by those that it exports.
        let class = match layer.class.as_str() {
            "Model" => "Functional",
            "GroupQueryAttention" => "GroupedQueryAttention",
            class => class,
        };
        let path = format!("{}layers/{}/", place.path, numbers.next(class));
        if layer.shared_object.is_some_and(|id| !seen.insert((layer.class.clone(), id))) {
            continue;
        }
        let scope = format!("{}{}", place.scope, layer.name);
        let group = place.group.clone().unwrap_or_else(|| layer.name.clone());
        let is_trainable = place.is_trainable && layer.is_trainable();
        if let Some(model) = &layer.model {
            let scope = format!("{scope}/");
            walk(Place { model, scope, path, group: Some(group), is_trainable }, seen, found);
            continue;
        }
        match layer_variables(layer, place.model) {
            Ok(variables) => found.list.extend(variables.into_iter().map(|variable| Variable {
                name: variable.name_within(&scope),
                path: variable.path_within(&path),
                group: group.clone(),
                position: 0,
                role: variable.role,
                is_trained: variable.is_trainable && is_trainable,
                tensor_role: variable.tensor_role,
                axes: variable.axes.map(Into::into),
                quantized: variable.quantized.map(Box::new),
            })),
            Err(reason) => found.unknown.push((scope, reason)),
        }
    }
}

fn layer_variables(layer: &Layer, model: &Model) -> Result<Vec<LayerVariable>, String> {
    if !layer.is_builtin() {
        return Err(format!("its class '{}' is not one of Keras", shown_name(&layer.class)));
    }
    own(layer, model.generation)
}

/// Numbers the variables of each group: first those that are trained, then the others.
fn assign_positions(list: &mut [Variable]) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for is_trained in [true, false] {
        for variable in list.iter_mut().filter(|variable| variable.is_trained == is_trained) {
            let next = counts.entry(variable.group.clone()).or_default();
            variable.position = *next;
            *next += 1;
        }
    }
}
