//! From Flax to PyTorch: the mapping that names and shapes of a tree make, without a graph.
//!
//! A tree is modules by path, each with its leaves: `Dense_0` has `kernel` and `bias`. What a module is follows from its
//! leaves, their shapes and the names that Linen gives. A tensor of which that does not tell keeps its name and axes.

mod attention;
mod kinds;
mod layers;
mod output;
mod reading;
mod recurrent;
mod scan;
#[cfg(test)]
mod tests;
mod tree;

use ckpt_api::{Error, Graph, Result, Tensor};
use ckpt_engine::mapping::{MappingGenerator, Translation};
use kinds::{FLAX_TO_TORCH, Kinds};
use output::Output;
use std::sync::Arc;
use tree::Tree;

/// The mapping `flax-to-torch`.
#[derive(Clone, Debug, Default)]
pub struct FlaxToTorch {
    kinds: Kinds,
}

impl MappingGenerator for FlaxToTorch {
    fn name(&self) -> &'static str {
        FLAX_TO_TORCH
    }

    fn title(&self) -> &'static str {
        "Flax to PyTorch, made for the tree of each checkpoint"
    }

    fn source_framework(&self) -> &'static str {
        "Flax"
    }

    fn target_framework(&self) -> &'static str {
        "PyTorch"
    }

    fn with_names(&self, names: &str) -> Result<Arc<dyn MappingGenerator>> {
        self.with_setting("names", names)
    }

    fn with_setting(&self, key: &str, value: &str) -> Result<Arc<dyn MappingGenerator>> {
        Ok(Arc::new(FlaxToTorch { kinds: self.kinds.with(key, value)? }))
    }

    fn needs_graph(&self) -> bool {
        false
    }

    fn translate(&self, _: &Graph, tensors: &[Tensor]) -> Result<Translation> {
        translate(tensors, &self.kinds)
    }
}

/// Translates the tensors of a tree.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for scanned layers with more elements than a checkpoint may have tensors.
fn translate(tensors: &[Tensor], kinds: &Kinds) -> Result<Translation> {
    let tree = Tree::new(tensors);
    kinds.check(&tree)?;
    let scans = scan::find(&tree, kinds)?;
    let mut output = Output::new();
    let mut taken = recurrent::cells(&tree, &scans, &mut output)?;
    taken.extend(attention::heads(&tree, &scans, &mut output)?);
    for (path, module) in tree.modules.iter().filter(|(path, _)| !taken.contains(path.as_slice())) {
        layers::module(&tree, (path, module), &scans, kinds, &mut output)?;
    }
    output.leave(&tree);
    let code = Error::unsupported("a Flax checkpoint does not state what its model computes")
        .help("leave out 'code', and write the modules in PyTorch: the notes name their settings");
    Ok(output.into_translation(Err(code)))
}
