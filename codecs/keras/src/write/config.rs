//! The configuration that is written: the checkpoint's own, or one that is made of its graph.

use super::order;
use crate::config::{Described, DescribedVariable, Generation, Model, Structure, Variable, json};
use crate::format::{ID, KEY_CONFIG, KEY_PATH, KEY_VERSION};
use crate::read::parent;
use ckpt_api::{
    Added, Checkpoint, Error, Graph, Limits, Loss, LossKind, Result, Role, Setting, Tensor, TensorId,
    first_few, text,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Names that a message lists.
const SHOWN: usize = 8;
/// The group of all layers in `.keras` and `.weights.h5` files.
const LAYERS: &str = "layers/";

/// A model, by its configuration.
pub(super) struct Config<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) model: Model,
    /// In the order of the model.
    pub(super) variables: Vec<Bound>,
    /// Whether it is made of the graph.
    is_made: bool,
}

/// A variable of a model, and the tensor that it is.
pub(super) struct Bound {
    pub(super) variable: Variable,
    /// `None` if the checkpoint lacks it.
    pub(super) id: Option<TensorId>,
    /// The stored order of axes, if it is not that of the tensor.
    pub(super) order: Option<Vec<usize>>,
    /// What is added to it.
    pub(super) added: Vec<Added>,
}

impl<'a> Config<'a> {
    /// Finds the configuration of the checkpoint, or makes one of its graph; `None` if it has neither. One that states
    /// something else than the tensors and the graph, as after a mapping, is not used; nor is one of another generation than
    /// the wanted one, nor one of Keras 1 for an archive, which no Keras loads.
    ///
    /// # Errors
    /// Those of [`Model::describe`]; [`ckpt_api::Kind::Unsupported`] if tensors of the configuration are missing.
    pub(super) fn of(
        checkpoint: &'a Checkpoint,
        wanted: Option<Generation>,
        is_archive: bool,
    ) -> Result<Option<Self>> {
        let generation = wanted.unwrap_or(Generation::Keras3);
        let is_outdated = is_of_other_generation(checkpoint, wanted);
        let missing = match Self::stored(checkpoint).filter(|_| !is_outdated) {
            Some((config, _)) if is_archive && config.model.generation == Generation::Keras1 => Some(
                Error::unsupported(
                    "the configuration is one of Keras 1, which Keras 3 and tf_keras do not load",
                )
                .help("write a file whose name ends in .weights.h5 or .h5"),
            ),
            Some((config, is_current)) => match config.check_complete() {
                Ok(()) if is_current => return Ok(Some(config)),
                Ok(()) => None,
                Err(missing) => Some(missing),
            },
            None => None,
        };
        match (&checkpoint.graph, missing) {
            (Some(_), _) => Self::described(checkpoint, generation).map(Some),
            (None, Some(missing)) => Err(missing),
            (None, None) => Ok(None),
        }
    }

    /// Parses the configuration that the checkpoint has, and compares its graph with that of the checkpoint; `None` if
    /// there is none or it is not understood.
    fn stored(checkpoint: &'a Checkpoint) -> Option<(Self, bool)> {
        let text = checkpoint.metadata.text(ID, KEY_CONFIG)?;
        let version = checkpoint.metadata.text(ID, KEY_VERSION);
        let model = Model::parse(text, version, &Limits::default()).ok()?;
        let mut by_path: HashMap<&str, (TensorId, &Tensor)> = HashMap::new();
        let mut by_name: HashMap<&str, (TensorId, &Tensor)> = HashMap::new();
        for (id, tensor) in checkpoint.tensors.iter().enumerate() {
            match tensor.metadata.text(ID, KEY_PATH) {
                Some(path) => by_path.insert(path, (TensorId(id), tensor)),
                None => by_name.insert(&tensor.name, (TensorId(id), tensor)),
            };
        }
        let list = model.variables().list;
        let graph = model.graph().ok();
        let names = list.iter().filter_map(|variable| {
            let found = by_path.get(variable.path.as_str()).or_else(|| by_name.get(variable.path.as_str()));
            Some((variable.name.as_str(), found?.1.name.as_str()))
        });
        let is_same = same_graph(graph.as_ref(), checkpoint.graph.as_ref(), &names.collect());
        let bind = |variable: Variable| {
            // A tensor loses its path when a mapping moves its elements. The graph knows how, if axes have names.
            let named = || by_name.get(variable.path.as_str()).filter(|_| is_same && variable.axes.is_some());
            let found = by_path.get(variable.path.as_str()).or_else(named);
            let bound = found.and_then(|(id, tensor)| Some((*id, order(tensor, &variable)?)));
            let (id, order) = bound.unzip();
            Bound { id, order: order.flatten(), added: Vec::new(), variable }
        };
        let variables = list.into_iter().map(bind).collect();
        let is_current = is_same || graph.is_none() || checkpoint.graph.is_none();
        Some((Config { text: text.into(), model, variables, is_made: false }, is_current))
    }

    /// Makes the configuration of the graph.
    fn described(checkpoint: &Checkpoint, generation: Generation) -> Result<Self> {
        let Described { config, variables } = Model::describe(checkpoint, generation)?;
        let version = if generation == Generation::Keras3 { "3" } else { "2" };
        let model = Model::parse(&config, Some(version), &Limits::default())?;
        let bound = |own: DescribedVariable| {
            let is_moved = !own.order.iter().copied().eq(0..own.order.len());
            let order = is_moved.then_some(own.order);
            Bound { variable: own.variable, id: Some(own.tensor), order, added: own.added }
        };
        let variables = variables.into_iter().map(bound).collect();
        Ok(Config { text: config.into(), model, variables, is_made: true })
    }

    /// Refuses a checkpoint that lacks tensors of the model, or has them otherwise: Keras would not load it.
    fn check_complete(&self) -> Result<()> {
        let missing: Vec<&str> = self
            .variables
            .iter()
            .filter(|own| own.id.is_none())
            .map(|own| own.variable.path.as_str())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(
            "tensors of the model that the configuration describes are missing, or changed in shape or order",
        )
        .found(first_few(&missing, SHOWN))
        .help("convert without what removes or changes them, or write a file whose name ends in .weights.h5"))
    }

    /// Refuses a model whose weights an `.h5` file would list in another order than Keras expects: of quantized layers,
    /// and of layers with LoRA, whose matrices the other containers do not have.
    pub(super) fn check_listable(&self, checkpoint: &Checkpoint) -> Result<()> {
        let groups: HashSet<&str> =
            self.variables.iter().filter_map(|own| parent(&own.variable.path)).collect();
        let bound: HashSet<TensorId> = self.variables.iter().filter_map(|own| own.id).collect();
        let unshown = checkpoint.tensors.iter().enumerate().find(|(id, tensor)| {
            parent(&tensor.name).is_some_and(|group| groups.contains(group))
                && !bound.contains(&TensorId(*id))
        });
        let is_lost = |(id, tensor): &(usize, &Tensor)| {
            tensor.name.starts_with(LAYERS)
                && tensor.role != Role::Bookkeeping
                && !bound.contains(&TensorId(*id))
        };
        let lost = checkpoint.tensors.iter().enumerate().find(is_lost);
        let layer = self.model.altered_layer().or(unshown.map(|(_, tensor)| tensor.name.as_str()));
        match layer {
            None => match lost {
                None => Ok(()),
                Some((_, tensor)) => {
                    let what =
                        "an .h5 file lists the weights of each layer, and this one's layer is not known";
                    Err(Error::unsupported(what)
                        .tensor(&tensor.name)
                        .help("write a file whose name ends in .keras or .weights.h5"))
                }
            },
            Some(name) => {
                Err(Error::unsupported("an .h5 file cannot hold layers that are quantized or have LoRA")
                    .found(first_few(&[name], SHOWN))
                    .help("write a file whose name ends in .keras or .weights.h5"))
            }
        }
    }

    /// The configuration for `config.json`: those of `.h5` files do not name the module of the model's class.
    pub(super) fn for_archive(&self) -> Vec<u8> {
        let parsed = json::parse(&self.text).ok();
        let names_module = parsed.is_some_and(|value| value.get("module").is_some());
        let module = match self.model.class.as_str() {
            "Functional" | "Model" => "keras.src.models.functional",
            _ => "keras",
        };
        let converted = || super::converted::for_archive(&self.text).filter(|_| self.is_old());
        match self.text.trim_start().strip_prefix('{') {
            Some(rest) if !names_module => {
                let named = || format!("{{\"module\": \"{module}\", \"registered_name\": null, {rest}");
                converted().unwrap_or_else(named).into_bytes()
            }
            _ => self.text.as_bytes().to_vec(),
        }
    }

    /// What Keras 3 does not load of a configuration of Keras 2 for an archive: there, a model within a functional one has
    /// a call that only Keras 2 counts.
    pub(super) fn losses_of_loading(&self) -> Vec<Loss> {
        let mut open = vec![&self.model];
        let mut found = None;
        while let Some(model) = open.pop() {
            let is_functional = matches!(model.structure, Structure::Functional { .. });
            for layer in &model.layers {
                let Some(inner) = layer.model.as_deref() else { continue };
                open.push(inner);
                found = found.or(is_functional.then_some(&layer.name));
            }
        }
        let detail = || {
            text![
                "Keras 3 does not load a model within a functional model from a configuration of Keras 2, \
                 and tf_keras does; ",
                Setting::WRITE_OPTION.of("keras=3"),
                " makes one for Keras 3 of the graph",
            ]
        };
        let loss = |name: &String| Loss::new(LossKind::Unloadable, name, detail());
        found.filter(|_| self.is_old()).map(loss).into_iter().collect()
    }

    /// The version of Keras that the checkpoint states, if the configuration is of it.
    pub(super) fn version<'c>(&self, checkpoint: &'c Checkpoint) -> Option<&'c str> {
        let version = checkpoint.metadata.text(ID, KEY_VERSION)?;
        let is_own = || Generation::of_version(version) == Some(self.model.generation);
        (!self.is_made || is_own()).then_some(version)
    }

    /// What is in doubt about the paths of the weights, if no configuration goes with them.
    pub(super) fn losses_of_order(&self, checkpoint: &Checkpoint) -> Vec<Loss> {
        let Some(graph) = checkpoint.graph.as_ref().filter(|_| self.is_made) else { return Vec::new() };
        let variables = self.variables.iter().filter_map(|own| {
            Some((own.variable.path.as_str(), checkpoint.tensors.get(own.id?.0)?.name.as_str()))
        });
        order::losses(graph, variables)
    }

    pub(super) fn is_old(&self) -> bool {
        self.model.generation < Generation::Keras3
    }

    /// The name of a variable in an `.h5` file.
    pub(super) fn weight_name(&self, variable: &Variable) -> String {
        let end = if self.is_old() { ":0" } else { "" };
        format!("{}{end}", variable.name)
    }
}

/// Whether the checkpoint has a configuration for one generation of Keras, and another one is wanted.
pub(super) fn is_of_other_generation(checkpoint: &Checkpoint, wanted: Option<Generation>) -> bool {
    let Some(wanted) = wanted else { return false };
    let model = checkpoint.metadata.text(ID, KEY_CONFIG).and_then(|text| {
        Model::parse(text, checkpoint.metadata.text(ID, KEY_VERSION), &Limits::default()).ok()
    });
    model.is_some_and(|model| (model.generation == Generation::Keras3) != (wanted == Generation::Keras3))
}

/// Returns the order of axes in which Keras stores a variable, which is `None` for that of the tensor; `None` if nobody
/// knows it.
fn order(tensor: &Tensor, variable: &Variable) -> Option<Option<Vec<usize>>> {
    let (own, wanted) = match (tensor.axes.as_deref(), variable.axes.as_deref()) {
        (own, wanted) if own == wanted => return Some(None),
        (_, None) => return Some(None),
        (None, Some(_)) => return None,
        (Some(own), Some(wanted)) => (own, wanted),
    };
    let order =
        wanted.iter().map(|axis| own.iter().position(|own| own == axis)).collect::<Option<Vec<usize>>>()?;
    let mut seen = order.clone();
    seen.sort_unstable();
    seen.dedup();
    (seen.len() == own.len() && order.len() == own.len()).then_some(Some(order))
}

/// Whether the graph of a configuration, whose variables are the tensors of these names, is that of the checkpoint.
fn same_graph(stored: Option<&Graph>, own: Option<&Graph>, names: &HashMap<&str, &str>) -> bool {
    let (Some(stored), Some(own)) = (stored, own) else { return false };
    let mut stored = stored.clone();
    stored.each_node_mut(|node| {
        for name in node.parameters.values_mut() {
            if let Some(tensor) = names.get(name.as_str()) {
                *name = (*tensor).to_owned();
            }
        }
    });
    stored == *own
}
