//! From Keras to PyTorch: the modules, the mapping and the program that a graph makes.
//!
//! A graph with the named axes of its tensors says what each layer computes, whatever the model is called. From it come
//! a [`Mapping`] of its tensors to those of `nn.Module`s, and a Python file with these modules.

mod attention;
mod attributes;
mod code;
mod expressions;
mod flatten;
mod functions;
mod layer_names;
mod layers;
mod names;
mod pooling;
mod precision;
mod program;
mod recurrent;
mod rules;
mod shapes;
mod simplify;
mod templates;
mod tensors;
#[cfg(test)]
mod tests;
mod torchvision;
mod translate;
mod views;
mod window;

pub(crate) use templates::TorchNames;

use crate::mapping::{Ignore, LookupEntry, Mapping};
use crate::pattern::Pattern;
use ckpt_api::{Error, Graph, Loss, Result, Tensor};
use precision::Precision;
use shapes::Shapes;
use templates::Paths;
use tensors::Tensors;
use translate::Translator;

/// The name of the mapping.
pub(crate) const KERAS_TO_TORCH: &str = "keras-to-torch";

/// What a graph makes in PyTorch.
#[derive(Debug)]
pub(crate) struct Translation {
    /// From the tensors of the graph to those of the modules.
    pub(crate) mapping: Mapping,
    /// The tensors of PyTorch's that Keras does not have, by their names: counters of training steps.
    pub(crate) counters: Vec<String>,
    /// `model.py`, or why there is none.
    pub(crate) code: Result<String>,
    /// What no tensor can say, and the code does: losses, where there is no code.
    pub(crate) conventions: Vec<Loss>,
    /// What is lost in any case.
    pub(crate) losses: Vec<Loss>,
    /// Settings of modules that differ from PyTorch's defaults: the code has them.
    pub(crate) notes: Vec<String>,
    /// A note on tensors that modules hold in another dtype, the generated ones, too.
    pub(crate) dtype_note: Option<String>,
}

impl Translation {
    /// The same for an outline, which leaves out layers: there is no code, and weights that none of its layers has keep their
    /// names. `reason` is what keeps the model from having a graph.
    pub(crate) fn of_outline(mut self, reason: &str, without_code: Error) -> Self {
        let unknown = std::mem::take(&mut self.losses);
        let kept: Vec<String> = unknown.into_iter().map(|loss| loss.subject).collect();
        self.notes.push(format!(
            "the weights of the layers are converted, and not what the model computes: {reason}; a program in PyTorch must do that"
        ));
        if !kept.is_empty() {
            self.notes
                .push(format!("weights of layers that are not known keep their names: {}", listed(&kept)));
        }
        for name in kept {
            self.mapping.lookup.insert(name.clone(), LookupEntry { target: name, line: None });
        }
        self.code = Err(without_code);
        self
    }

    /// The mapping in the direction of the one that it is made for.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] where it has no inverse.
    pub(crate) fn mapping_for(&self, generated: &Mapping) -> Result<Mapping> {
        match generated.generator.is_some_and(|generator| generator.is_inverse) {
            false => Ok(self.mapping.clone()),
            true => Ok(Mapping {
                ignore: self
                    .counters
                    .iter()
                    .map(|name| Ignore { pattern: Pattern::literal(name), line: None })
                    .collect(),
                ignore_roles: self.mapping.ignore_roles.clone(),
                ..self.mapping.inverse()?
            }),
        }
    }
}

/// Translates a graph and its tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] or [`ckpt_api::Kind::Mapping`], naming the layer whose tensors have no place in a
/// module of PyTorch.
pub(crate) fn translate(graph: &Graph, tensors: &[Tensor], names: TorchNames) -> Result<Translation> {
    graph.require_activations()?;
    let known = Tensors::new(tensors);
    let shapes = Shapes::of(graph, &known);
    let simple = simplify::simplified(graph, &known, &shapes);
    let shapes = shapes.with(&simple, &known);
    let mut translator = Translator::new(&simple, &known, &shapes);
    translator.translate(&simple)?;
    let Translator { program, remarks, failure, .. } = translator;
    let used = graph.nodes.iter().flat_map(|node| node.parameters.values().map(String::as_str));
    let model = layer_names::model(used);
    let paths = Paths::new(&program, names, model)?;
    let name = if graph.name.is_empty() { model.unwrap_or_default() } else { &graph.name };
    let mapping = rules::mapping(&program, &paths, names)?;
    let precision = Precision::of(graph, &known);
    let code = match (failure, names) {
        (Some(error), _) => Err(error),
        (None, TorchNames::Torchvision) => {
            Err(Error::usage("code cannot be generated with torchvision's names")
                .help("use the names of the layers for a model.py, or torchvision's own class for its names"))
        }
        (None, _) => Ok(code::text(&program, name, &paths, precision.of_module())),
    };
    let settings = remarks.settings.into_iter();
    let notes = settings.map(|(setting, layers)| format!("in PyTorch, {setting}: {}", listed(&layers)));
    let mut conventions = remarks.conventions;
    if names == TorchNames::Torchvision {
        conventions.extend(rules::other_strides(graph));
    }
    Ok(Translation {
        counters: rules::counters(&program, &paths),
        losses: rules::unused(graph, tensors),
        mapping,
        code,
        conventions,
        notes: notes.collect(),
        dtype_note: precision.note(),
    })
}

/// The first layers of a list, and how many more there are.
fn listed(layers: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = layers.iter().take(SHOWN).map(|layer| crate::words::printable(layer)).collect();
    match layers.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
