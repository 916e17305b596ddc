//! One model's graph, or only its tensors' names and shapes, for other checkpoints.

use ckpt_api::{
    Axis, Checkpoint, DType, Error, FormatInfo, Graph, Input, Metadata, Name, Result, Shape, ShapeMismatch,
    Tensor, Text,
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
    /// `None` for a checkpoint without one: mappings that names and shapes are enough for take it, too.
    pub(super) graph: Option<Graph>,
    /// Why there is no graph.
    pub(super) missing: Option<Text>,
    pub(super) tensors: Vec<Shown>,
    /// What the model's format states of the model, and of each tensor.
    pub(super) metadata: Metadata,
    pub(super) of_tensors: Vec<(Name, Metadata)>,
}

impl ModelGraph {
    /// What the model computes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a checkpoint without a graph.
    pub(crate) fn graph(&self) -> Result<&Graph> {
        self.graph.as_ref().ok_or_else(|| {
            let error =
                Error::usage("the model has no graph to give to another checkpoint").file(&*self.name);
            match &self.missing {
                Some(missing) => error.found(missing.clone()),
                None => error,
            }
        })
    }

    /// The tensors that the graph uses, or else all weights, as weights of 32-bit floats.
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
        checkpoint.graph.clone_from(&self.graph);
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
        let graph = self.graph()?.clone();
        self.check(checkpoint, misfit, (file, &|_| false))?;
        checkpoint.graph = Some(graph);
        Ok(())
    }

    /// Checks that a checkpoint has every tensor of the model in its shape, but for those that `is_left_out` names; gives them
    /// the model's axes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a tensor that it lacks, or has in another shape.
    pub(crate) fn check(
        &self,
        checkpoint: &mut Checkpoint,
        misfit: Option<&ShapeMismatch>,
        (file, is_left_out): (&str, &dyn Fn(&str) -> bool),
    ) -> Result<()> {
        let ids: HashMap<Name, usize> =
            checkpoint.tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.clone(), id)).collect();
        for (name, shape, axes) in self.tensors.iter().filter(|(name, ..)| !is_left_out(name)) {
            let own = ids.get(name.as_str()).and_then(|id| checkpoint.tensors.get_mut(*id));
            let Some(own) = own else {
                if let Some(ShapeMismatch { tensor, found, expected }) = misfit {
                    return Err(self.other_shape(file, tensor, found, expected));
                }
                return Err(self.lacking(file, name));
            };
            if own.shape != *shape {
                return Err(self.other_shape(file, name, &own.shape, shape));
            }
            if axes.is_some() {
                own.axes.clone_from(axes);
            }
        }
        Ok(())
    }

    fn lacking(&self, file: &str, name: &Name) -> Error {
        let what = match self.graph {
            Some(_) => "the checkpoint lacks a tensor of the model that gives its graph",
            None => "the checkpoint makes no tensor of this name, which the given one has",
        };
        let help = match self.graph {
            Some(_) => {
                "the tensors of both must have the same names: rename those of the checkpoint with a mapping"
            }
            None => "give the checkpoint whose weights these are, or one of the same model",
        };
        Error::usage(what)
            .file(file)
            .tensor(name.as_str())
            .expected(format!("the tensors of {}", self.name))
            .help(help)
    }

    fn other_shape(&self, file: &str, tensor: &Name, found: &Shape, expected: &Shape) -> Error {
        Error::usage(match self.graph {
            Some(_) => "a tensor has another shape than in the model that gives its graph",
            None => "a tensor has another shape than in the given checkpoint",
        })
        .file(file)
        .tensor(tensor.as_str())
        .found(found.to_string())
        .expected(format!("{expected}, as in {}", self.name))
        .help("give the model whose weights these are")
    }

    /// Gives a checkpoint that has the model's graph what the model's format states of the model: where the target is of
    /// that format, the model comes back as it was, with other weights.
    pub(crate) fn describe(&self, target: &FormatInfo, checkpoint: &mut Checkpoint) {
        if target.id != self.format || checkpoint.graph != self.graph {
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
