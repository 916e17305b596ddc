//! The result of reading.

use super::document::Document;
use super::output::LossForm;
use super::placements::PlacementsForm;
use super::tensors::TensorsForm;
use super::texts::TextForm;
use ckpt_api::{
    Checkpoint, Contents, Graph, Limit, Limits, Metadata, MissingGraph, Repair, Result, Shape, ShapeMismatch,
    Text,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of [`Contents`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContentsForm {
    /// Files that placements refer to, relative to the input's directory.
    pub files: Vec<String>,
    /// All tensors.
    pub tensors: TensorsForm,
    /// One for each tensor, in the same order.
    pub placements: PlacementsForm,
    /// What the model computes.
    pub graph: Option<Document<Graph>>,
    /// Everything else.
    pub metadata: Document<Metadata>,
    /// What a lenient reading had to mend.
    pub repairs: Vec<Repair>,
    /// What the model has and this checkpoint has not.
    pub losses: Vec<LossForm>,
    /// What the user should know about the file.
    pub notes: Vec<TextForm>,
    /// What the graph assumes.
    pub graph_notes: Vec<TextForm>,
    /// What the model does only in training.
    pub training_only: Vec<String>,
    /// Lengths of the axes of a random example, by input of the graph.
    pub example_shapes: BTreeMap<String, Vec<Option<u64>>>,
    /// Why the checkpoint has no graph.
    pub missing_graph: Option<MissingGraphForm>,
    /// Whether the graph is that of the model that was given.
    pub adopts_model: bool,
    /// Why the tensors are not those of that model.
    pub misfit: Option<ShapeMismatchForm>,
    /// The layers that have tensors, if there is no graph of the whole model.
    pub outline: Option<Document<Graph>>,
    /// Bytes of memory that reading took beside all this.
    pub working_memory: u64,
}

/// The form of a [`MissingGraph`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingGraphForm {
    /// The reason.
    pub reason: TextForm,
    /// Whether the files leave the layers open.
    #[serde(default)]
    pub is_unstated: bool,
    /// How the user can supply what the format needs.
    #[serde(default)]
    pub help: Option<TextForm>,
}

/// The form of a [`ShapeMismatch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeMismatchForm {
    /// The tensor's name in the checkpoint.
    pub tensor: String,
    /// Its shape in the checkpoint.
    pub found: Shape,
    /// The shape in the model.
    pub expected: Shape,
}

impl From<Contents> for ContentsForm {
    fn from(contents: Contents) -> Self {
        let texts = |texts: Vec<Text>| texts.iter().map(TextForm::from).collect();
        ContentsForm {
            files: contents.files,
            tensors: contents.checkpoint.tensors.into(),
            placements: contents.placements.into(),
            graph: contents.checkpoint.graph.map(Document),
            metadata: Document(contents.checkpoint.metadata),
            repairs: contents.repairs,
            losses: contents.losses.iter().map(LossForm::from).collect(),
            notes: texts(contents.notes),
            graph_notes: texts(contents.graph_notes),
            training_only: contents.training_only,
            example_shapes: contents.example_shapes,
            missing_graph: contents.missing_graph.map(|missing| MissingGraphForm {
                reason: (&missing.reason).into(),
                is_unstated: missing.is_unstated,
                help: missing.help.as_ref().map(TextForm::from),
            }),
            adopts_model: contents.adopts_model,
            misfit: contents.misfit.map(|ShapeMismatch { tensor, found, expected }| ShapeMismatchForm {
                tensor: (&tensor).into(),
                found,
                expected,
            }),
            outline: contents.outline.map(|outline| Document(*outline)),
            working_memory: contents.working_memory,
        }
    }
}

impl ContentsForm {
    /// The contents. Whether they fit together, [`Contents::check`] checks, as for any codec.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`]; [`ckpt_api::Kind::Unsupported`] for columns that contradict each other.
    pub fn into_contents(self, limits: &Limits) -> Result<Contents> {
        limits.check(Limit::Files, self.files.len() as u64)?;
        let texts = |texts: Vec<TextForm>| texts.into_iter().map(Text::from).collect();
        let checkpoint = Checkpoint {
            graph: self.graph.map(|Document(graph)| graph),
            tensors: self.tensors.into_tensors(limits)?,
            metadata: self.metadata.0,
            ..Checkpoint::default()
        };
        let mut contents = Contents::default()
            .with_checkpoint(checkpoint)
            .with_files(self.files)
            .with_placements(self.placements.into_placements(limits)?)
            .with_repairs(self.repairs)
            .with_losses(self.losses.into_iter().map(LossForm::into_loss).collect())
            .with_working_memory(self.working_memory);
        contents.notes = texts(self.notes);
        contents.graph_notes = texts(self.graph_notes);
        contents.training_only = self.training_only;
        contents.example_shapes = self.example_shapes;
        contents.missing_graph = self.missing_graph.map(|missing| MissingGraph {
            reason: missing.reason.into(),
            is_unstated: missing.is_unstated,
            help: missing.help.map(Text::from),
        });
        contents.adopts_model = self.adopts_model;
        contents.misfit = self.misfit.map(|ShapeMismatchForm { tensor, found, expected }| ShapeMismatch {
            tensor: tensor.into(),
            found,
            expected,
        });
        contents.outline = self.outline.map(|Document(outline)| Box::new(outline));
        Ok(contents)
    }
}
