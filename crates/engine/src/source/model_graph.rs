//! The graph of one model, for checkpoints of tensors of the same names.

use ckpt_api::{
    Axis, Checkpoint, DType, Error, FormatInfo, Graph, Input, Metadata, Name, Result, Shape, ShapeMismatch,
    Tensor,
};
use std::collections::{HashMap, HashSet};

/// Name, shape and axes of a tensor.
type Shown = (Name, Shape, Option<Box<[Axis]>>);

/// What a model computes, with the shapes and axes of its tensors.
#[derive(Clone, Debug)]
pub struct ModelGraph {
    /// The file that was named.
    pub(crate) input: Input,
    pub(crate) format: &'static str,
    pub(super) name: String,
    pub(super) graph: Graph,
    pub(super) tensors: Vec<Shown>,
    /// What the model's format states of the model, and of each tensor.
    pub(super) metadata: Metadata,
    pub(super) of_tensors: Vec<(Name, Metadata)>,
}

impl ModelGraph {
    /// What the model computes.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The tensors that the graph uses, as weights of 32-bit floats.
    pub(crate) fn to_tensors(&self) -> Vec<Tensor> {
        let tensor = |(name, shape, axes): &Shown| {
            let mut tensor = Tensor::new(name, DType::F32, shape.clone());
            tensor.axes.clone_from(axes);
            tensor
        };
        self.tensors.iter().map(tensor).collect()
    }

    /// The model without the elements of its tensors: what codecs are given beside a source.
    pub(crate) fn to_checkpoint(&self) -> Checkpoint {
        let mut checkpoint = Checkpoint { tensors: self.to_tensors(), ..Checkpoint::default() };
        checkpoint.graph = Some(self.graph.clone());
        checkpoint.metadata = self.metadata.clone();
        let of_tensors: HashMap<&str, &Metadata> =
            self.of_tensors.iter().map(|(name, metadata)| (name.as_str(), metadata)).collect();
        for tensor in &mut checkpoint.tensors {
            if let Some(metadata) = of_tensors.get(tensor.name.as_str()) {
                extend(&mut tensor.metadata, metadata);
            }
        }
        checkpoint
    }

    /// Whether the checkpoint has a tensor under each name that the graph uses.
    pub(crate) fn fits_names(&self, checkpoint: &Checkpoint) -> bool {
        let names: HashSet<&str> = checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        self.tensors.iter().all(|(name, ..)| names.contains(name.as_str()))
    }

    /// Gives a checkpoint the graph, in place of its own. `misfit` is what the codec found not to fit, and `file` the
    /// checkpoint's.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the checkpoint lacks a tensor of the graph, or has it in another shape.
    pub(crate) fn apply(
        &self,
        checkpoint: &mut Checkpoint,
        misfit: Option<&ShapeMismatch>,
        file: &str,
    ) -> Result<()> {
        let ids: HashMap<Name, usize> =
            checkpoint.tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.clone(), id)).collect();
        for (name, shape, axes) in &self.tensors {
            let own = ids.get(name.as_str()).and_then(|id| checkpoint.tensors.get_mut(*id));
            let Some(own) = own else {
                if let Some(ShapeMismatch { tensor, found, expected }) = misfit {
                    return Err(self.other_shape(file, tensor, found, expected));
                }
                return Err(Error::usage("the checkpoint lacks a tensor of the model that gives its graph")
                    .file(file)
                    .tensor(name.as_str())
                    .expected(format!("the tensors of {}", self.name))
                    .help("the tensors of both must have the same names: rename those of the checkpoint with a mapping"));
            };
            if own.shape != *shape {
                return Err(self.other_shape(file, name, &own.shape, shape));
            }
            if axes.is_some() {
                own.axes.clone_from(axes);
            }
        }
        checkpoint.graph = Some(self.graph.clone());
        Ok(())
    }

    fn other_shape(&self, file: &str, tensor: &Name, found: &Shape, expected: &Shape) -> Error {
        Error::usage("a tensor has another shape than in the model that gives its graph")
            .file(file)
            .tensor(tensor.as_str())
            .found(found.to_string())
            .expected(format!("{expected}, as in {}", self.name))
            .help("give the model whose weights these are")
    }

    /// Gives a checkpoint that has the model's graph what the model's format states of the model: where the target is of
    /// that format, the model comes back as it was, with other weights.
    pub(crate) fn describe(&self, target: &FormatInfo, checkpoint: &mut Checkpoint) {
        if target.id != self.format || checkpoint.graph.as_ref() != Some(&self.graph) {
            return;
        }
        extend(&mut checkpoint.metadata, &self.metadata);
        let of_tensors: HashMap<&str, &Metadata> =
            self.of_tensors.iter().map(|(name, metadata)| (name.as_str(), metadata)).collect();
        for tensor in &mut checkpoint.tensors {
            if let Some(metadata) = of_tensors.get(tensor.name.as_str()) {
                extend(&mut tensor.metadata, metadata);
            }
        }
    }
}

/// Adds entries, in place of those of the same keys.
fn extend(metadata: &mut Metadata, more: &Metadata) {
    for (namespace, entries) in more.iter() {
        entries.iter().for_each(|(key, value)| metadata.insert(namespace, key, value.clone()));
    }
}
