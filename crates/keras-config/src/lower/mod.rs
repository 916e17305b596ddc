//! Makes the graph: runs the model once with values that stand for its inputs.
//!
//! Each layer becomes the operators that compute it at inference. A layer or an option that no operators compute ends
//! it, with a reason that names the layer, its class and the option.

mod activations;
mod arguments;
mod attention;
mod functional;
mod items;
mod layers;
mod linear;
mod lowering;
mod merging;
mod normalization;
mod operations;
mod recurrent;
mod shapes;
mod values;
mod windows;

use super::layer::Reason;
use super::model::{Generation, Layer, Model, Structure};
use super::naming::shown_name;
use arguments::Args;
use ckpt_api::{DType, Graph, Op, Value};
use ckpt_graph::{Dims, GraphResult, Length, results};
use lowering::{Lowering, Outline, Site, named};
use std::collections::HashSet;
use values::{Kind, Val, Values};

/// Most uses of layers in all models.
const MAX_USES: usize = 1 << 16;

/// The length of the batch: the first axis of each input, if it is free.
const BATCH: Length = Length::free(0);

/// Lengths as a model states them; `None` for a free one.
type Shape = Vec<Option<u64>>;

/// Why there is no graph: a clause that names the layer, its class, and the option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoGraph {
    /// The reason.
    pub reason: String,
}

impl Model {
    /// Lowers the model to a graph. Its parameters have the names of [`Model::variables`], and its images are in
    /// Keras's order at inputs and outputs.
    ///
    /// # Errors
    /// [`NoGraph`] for a class, an option or a connection that no operators compute.
    pub fn graph(&self) -> Result<Graph, NoGraph> {
        self.lowered(None)
    }

    /// Lowers the layers that have variables, for a model without a graph: how their variables are stored is known,
    /// whatever other layers compute, and whichever steps of a sequence a mask hides. The result does not compute what the
    /// model does.
    ///
    /// # Errors
    /// [`NoGraph`] for a layer with variables that no operators compute, and for one that depends on the lengths of what an
    /// unknown layer makes.
    pub fn outline(&self) -> Result<Graph, NoGraph> {
        self.lowered(Some(Outline::default()))
    }

    fn lowered(&self, outline: Option<Outline>) -> Result<Graph, NoGraph> {
        let values = Values::naming_lengths();
        let mut lowering = Lowering { values, generation: self.generation, uses: MAX_USES, outline };
        let made = lowering.model_graph(self).map_err(|reason| NoGraph { reason })?;
        let variables = self.variables();
        let names: HashSet<&str> = variables.list.iter().map(|variable| variable.name.as_str()).collect();
        let unknown = made
            .nodes
            .iter()
            .flat_map(|node| node.parameters.values())
            .find(|name| !names.contains(name.as_str()));
        let Some(name) = unknown else { return Ok(made) };
        let belongs = |scope: &str| name.strip_prefix(scope).is_some_and(|rest| rest.starts_with('/'));
        let reason = match variables.unknown.iter().find(|(scope, _)| belongs(scope)) {
            Some((scope, reason)) => format!("layer '{}': {reason}", shown_name(scope)),
            None => format!("'{}' belongs to a layer of several models", shown_name(name)),
        };
        Err(NoGraph { reason })
    }
}

impl Lowering {
    fn model_graph(&mut self, model: &Model) -> Result<Graph, Reason> {
        let mut inputs = Vec::new();
        let mut vals = Vec::new();
        for (name, shape, dtype) in model_inputs(model)? {
            let mut dims: Dims = shape.iter().copied().map(Length::from).collect();
            if let Some(batch) = dims.first_mut().filter(|batch| batch.known().is_none()) {
                *batch = BATCH;
            }
            let val = self.values.input(&name, dims);
            let value = Value::new(val.name.clone(), shape);
            let tag = Kind {
                is_integer: dtype.is_some(),
                is_narrow: dtype.is_some_and(|dtype| !matches!(dtype, DType::I32 | DType::I64)),
                has_mask: false,
            };
            vals.push(Val { tag, ..val });
            inputs.push(dtype.map_or(value.clone(), |dtype| value.of_type(dtype)));
        }
        let mut outputs = Vec::new();
        let given: HashSet<String> = inputs.iter().map(|input: &Value| input.name.clone()).collect();
        let names = output_names(model);
        for (val, name) in self.model(model, "", vals)?.into_iter().zip(names) {
            let val = self.values.last(&val)?;
            let is_input = given.contains(&val.name);
            let val = if is_input {
                self.values.place = "output".to_owned();
                self.values.apply(Op::Identity, &[&val])?
            } else {
                val
            };
            outputs.push(GraphResult { value: val.name, dims: val.dims, name });
        }
        let nodes = std::mem::take(&mut self.values.nodes);
        let mut graph = Graph { name: model.name.clone(), inputs, outputs: Vec::new(), nodes };
        results::finish(&mut graph, outputs);
        Ok(graph)
    }

    /// Runs a model, and returns its results. Models contain each other at most as deeply as the reader allows.
    fn model(&mut self, model: &Model, scope: &str, inputs: Vec<Val>) -> Result<Vec<Val>, Reason> {
        match &model.structure {
            Structure::Unknown(reason) => Err(reason.clone()),
            Structure::Functional { inputs: ends, outputs } => {
                functional::run(model, (ends, outputs), inputs, &mut |layer, args| {
                    self.layer(layer, scope, args)
                })
            }
            Structure::Sequential { .. } => {
                let [mut val] = <[Val; 1]>::try_from(inputs)
                    .map_err(|all| format!("it has one input, but is given {}", all.len()))?;
                for layer in model.layers.iter().filter(|layer| layer.class != "InputLayer") {
                    let made = self.layer(layer, scope, &Args::of(val))?;
                    let [only] = <[Val; 1]>::try_from(made)
                        .map_err(|_| named(layer, "it has several results in a Sequential model"))?;
                    val = only;
                }
                Ok(vec![val])
            }
        }
    }

    /// Runs a layer, and returns its results.
    fn layer(&mut self, layer: &Layer, scope: &str, args: &Args) -> Result<Vec<Val>, Reason> {
        self.uses = self.uses.checked_sub(1).ok_or("its layers are used too often")?;
        let scope = format!("{scope}{}", layer.name);
        let site = Site { layer, scope: &scope };
        let made = match &self.outline {
            Some(_) => self.outlined(site, args),
            None => self.apply(site, args),
        };
        made.map_err(|reason| named(layer, &reason))
    }

    /// Runs a layer of an outline.
    fn outlined(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let layer = site.layer;
        let inputs = args.all_values()?;
        let is_guessed = |val: &Val| self.outline.as_ref().is_some_and(|own| own.guessed.contains(&val.name));
        let mut is_unsure = inputs.iter().any(is_guessed);
        let is_image = inputs.iter().any(|val| val.rank() > 2);
        if is_unsure && is_image && matches!(layer.class.as_str(), "Flatten" | "Reshape") {
            return Err("the lengths of its input depend on a layer that is not known".to_owned());
        }
        let variables = match layer.is_builtin() {
            true => super::kernels::own(layer, self.generation)?,
            false => Vec::new(),
        };
        let made = match self.apply(site, args) {
            Err(_) if variables.is_empty() && layer.model.is_none() => {
                let first = inputs.first().ok_or("it takes no value")?;
                self.values.place.clone_from(&layer.name);
                is_unsure = true;
                vec![self.values.apply(Op::Identity, &[first])?]
            }
            made => made?,
        };
        // What a layer with variables makes has the lengths of these.
        if let Some(own) = self.outline.as_mut().filter(|_| is_unsure && variables.is_empty()) {
            own.guessed.extend(made.iter().map(|val| val.name.clone()));
        }
        Ok(made)
    }

    fn apply(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let layer = site.layer;
        if let Some(model) = &layer.model {
            let inputs = args.all_values()?;
            return self.model(model, &format!("{}/", site.scope), inputs);
        }
        if !layer.is_builtin() {
            return Err("its class is the program's own".to_owned());
        }
        if layer.class == "Lambda" {
            return Err("it is code of the program, which is never run".to_owned());
        }
        if let Some(mode) = layer.quantization() {
            return Err(format!("its weights are quantized: {}", shown_name(mode)));
        }
        if self.outline.is_none()
            && args.flag("training")
            && (layer.model.is_some() || is_trained_otherwise(&layer.class))
        {
            return Err("it is called with training=True".to_owned());
        }
        self.values.place.clone_from(&layer.name);
        let made = if layer.is_operation() || self.generation != Generation::Keras3 && is_tensorflow(layer) {
            self.operation(site, args)?
        } else {
            self.builtin(site, args)?
        };
        Ok(made)
    }
}

/// Whether a layer of Keras 2 stands for an operation of TensorFlow.
fn is_tensorflow(layer: &Layer) -> bool {
    matches!(layer.class.as_str(), "TFOpLambda" | "SlicingOpLambda")
}

/// Whether a class computes something else in training.
fn is_trained_otherwise(class: &str) -> bool {
    [
        "Dropout",
        "Noise",
        "BatchNormalization",
        "Random",
        "Attention",
        "LSTM",
        "GRU",
        "RNN",
        "Bidirectional",
        "TimeDistributed",
    ]
    .iter()
    .any(|kind| class.contains(kind))
}

/// Returns the names, lengths and integer types of a model's inputs.
fn model_inputs(model: &Model) -> Result<Vec<(String, Shape, Option<DType>)>, Reason> {
    let unstated = || "the shape of its input is not stated".to_owned();
    let indices = index_layers(model);
    match &model.structure {
        Structure::Unknown(reason) => Err(reason.clone()),
        Structure::Sequential { input } => {
            let first = model.layers.first();
            let stated = first.filter(|layer| layer.class == "InputLayer");
            let name = stated.map_or("input", |layer| layer.name.as_str());
            let takes_indices = model
                .layers
                .iter()
                .find(|layer| layer.class != "InputLayer")
                .is_some_and(|layer| layer.class == "Embedding");
            let dtype = stated.and_then(integer).or(takes_indices.then_some(DType::I32));
            Ok(vec![(name.to_owned(), input.clone().ok_or_else(unstated)?, dtype)])
        }
        Structure::Functional { inputs, .. } => inputs
            .iter()
            .map(|(_, end)| {
                let layer = model.layers.get(end.layer).ok_or_else(unstated)?;
                let dims = layer.stated_shape().ok_or_else(unstated)?;
                let is_index = indices.contains(&end.layer);
                Ok((layer.name.clone(), dims, integer(layer).or(is_index.then_some(DType::I32))))
            })
            .collect(),
    }
}

/// Returns the layers whose results are indices of embeddings alone: Keras casts them to integers.
fn index_layers(model: &Model) -> HashSet<usize> {
    let (mut indices, mut others) = (HashSet::new(), HashSet::new());
    for layer in &model.layers {
        let used =
            layer.calls.iter().flat_map(super::calls::Call::references).map(|reference| reference.layer);
        if layer.class == "Embedding" { indices.extend(used) } else { others.extend(used) }
    }
    indices.difference(&others).copied().collect()
}

/// The type of an input's elements, if they are integers or truth values.
fn integer(layer: &Layer) -> Option<DType> {
    match layer.text("dtype")? {
        "int8" => Some(DType::I8),
        "int16" => Some(DType::I16),
        "int32" => Some(DType::I32),
        "int64" => Some(DType::I64),
        "uint8" => Some(DType::U8),
        "bool" => Some(DType::Bool),
        _ => None,
    }
}

/// The names of a model's results.
fn output_names(model: &Model) -> Vec<String> {
    match &model.structure {
        Structure::Functional { outputs, .. } => outputs
            .iter()
            .map(|(name, end)| {
                let layer = || model.layers.get(end.layer).map(|layer| layer.name.clone());
                name.clone().or_else(layer).unwrap_or_default()
            })
            .collect(),
        _ => vec![model.layers.last().map_or_else(String::new, |layer| layer.name.clone())],
    }
}
