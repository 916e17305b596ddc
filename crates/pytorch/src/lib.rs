//! From Keras, Flax and PaddlePaddle to PyTorch: the modules, the mapping and the program that a graph makes, or the mapping that names and
//! shapes make.
//!
//! A graph with the named axes of its tensors says what each layer computes, whatever the model is called. From it come
//! a [`Mapping`](ckpt_engine::mapping::Mapping) of its tensors to those of `nn.Module`s, and a Python file with these modules.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod arguments;
mod attention;
mod attributes;
mod code;
mod expressions;
mod flatten;
mod flax;
mod functional;
mod functions;
mod layer_names;
mod layers;
mod names;
mod paddle;
mod pooling;
mod precision;
mod program;
mod recurrent;
mod refusal;
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

use ckpt_api::{Error, Graph, Result, Tensor};
use ckpt_engine::mapping::{MappingGenerator, Translation, listed};
pub use flax::FlaxToTorch;
pub use functional::GraphToTorch;
pub use paddle::PaddleToTorch;
use precision::Precision;
use rules::KERAS_TO_TORCH;
use shapes::Shapes;
use std::sync::Arc;
use templates::{Paths, TorchNames};
use tensors::Tensors;
use translate::Translator;

/// The mapping `keras-to-torch`.
#[derive(Clone, Debug, Default)]
pub struct KerasToTorch {
    names: TorchNames,
}

impl MappingGenerator for KerasToTorch {
    fn name(&self) -> &'static str {
        KERAS_TO_TORCH
    }

    fn title(&self) -> &'static str {
        "Keras to PyTorch, made for the graph of each checkpoint"
    }

    fn source_framework(&self) -> &'static str {
        "Keras"
    }

    fn target_framework(&self) -> &'static str {
        "PyTorch"
    }

    fn with_names(&self, names: &str) -> Result<Arc<dyn MappingGenerator>> {
        Ok(Arc::new(KerasToTorch { names: TorchNames::parse(names)? }))
    }

    fn translate(&self, graph: &Graph, tensors: &[Tensor]) -> Result<Translation> {
        translate(graph, tensors, self.names)
    }
}

/// Translates a graph and its tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] or [`ckpt_api::Kind::Mapping`], naming the layer whose tensors have no place in a
/// module of PyTorch.
fn translate(graph: &Graph, tensors: &[Tensor], names: TorchNames) -> Result<Translation> {
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
    let notes =
        settings.map(|(setting, layers)| format!("in PyTorch, {setting}: {}", listed(&layers)).into());
    let mut conventions = remarks.conventions;
    if names == TorchNames::Torchvision {
        conventions.extend(rules::other_strides(graph));
    }
    let mut translation = Translation::new(mapping, code);
    translation.counters = rules::counters(&program, &paths);
    translation.losses = rules::unused(graph, tensors);
    translation.conventions = conventions;
    translation.notes = notes.collect();
    translation.dtype_note = precision.note();
    Ok(translation)
}
