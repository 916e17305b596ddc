//! What a codec is given.

use super::document::Document;
use super::tensors::TensorsForm;
use ckpt_api::{
    ArchitectureFile, Checkpoint, DType, Graph, Input, Limits, Metadata, OptionSpec, Options, Phases, Result,
    Side, TensorId, Ties,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The form of a [`Checkpoint`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointForm {
    /// All tensors.
    pub tensors: TensorsForm,
    /// What the model computes.
    pub graph: Option<Document<Graph>>,
    /// Everything else.
    pub metadata: Document<Metadata>,
    /// Each tensor that shares its bytes with an earlier one, and the first of these.
    pub ties: Vec<(u64, u64)>,
}

impl From<Checkpoint> for CheckpointForm {
    fn from(checkpoint: Checkpoint) -> Self {
        let ties = checkpoint.ties.iter().map(|(tensor, first)| (tensor.0 as u64, first.0 as u64));
        CheckpointForm {
            ties: ties.collect(),
            tensors: checkpoint.tensors.into(),
            graph: checkpoint.graph.map(Document),
            metadata: Document(checkpoint.metadata),
        }
    }
}

impl CheckpointForm {
    /// The checkpoint.
    ///
    /// # Errors
    /// Those of [`TensorsForm::into_tensors`] and [`Ties::of_pairs`].
    pub fn into_checkpoint(self, limits: &Limits) -> Result<Checkpoint> {
        let id = |number| TensorId(usize::try_from(number).unwrap_or(usize::MAX));
        let ties = self.ties.into_iter().map(|(tensor, first)| (id(tensor), id(first)));
        Ok(Checkpoint {
            ties: Ties::of_pairs(ties)?,
            tensors: self.tensors.into_tensors(limits)?,
            graph: self.graph.map(|Document(graph)| graph),
            metadata: self.metadata.0,
        })
    }
}

/// What a codec is told of its input; the files themselves it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputForm {
    /// The last component of what the user named, relative to the input's directory; empty for a directory.
    pub entry: String,
    /// Whether the user named a directory.
    pub is_directory: bool,
    /// What comes before the name of a file where people see it.
    pub shown_before: String,
}

impl From<&Input> for InputForm {
    fn from(input: &Input) -> Self {
        const NAME: &str = "x";
        let shown = input.display(NAME);
        InputForm {
            entry: input.entry().to_owned(),
            is_directory: input.is_directory(),
            shown_before: shown.strip_suffix(NAME).unwrap_or_default().to_owned(),
        }
    }
}

/// The form of [`Options`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptionsForm {
    /// Names and values.
    pub values: Vec<(String, String)>,
    /// An architecture file of the codec's own.
    pub architecture: Option<Document<ArchitectureFile>>,
    /// A model of the same network.
    pub model: Option<CheckpointForm>,
    /// Where the source's tensors begin within a block.
    pub phases: Option<Document<Phases>>,
    /// The dtype that the user names for all weights.
    pub dtype: Option<Document<DType>>,
    /// The framework whose names the tensors have.
    pub framework: Option<String>,
}

impl From<&Options> for OptionsForm {
    fn from(options: &Options) -> Self {
        let pair = |(name, value): (&'static str, &str)| (name.to_owned(), value.to_owned());
        OptionsForm {
            values: options.pairs().map(pair).collect(),
            architecture: options.architecture().cloned().map(Document),
            model: options.model().cloned().map(CheckpointForm::from),
            phases: options.phases().cloned().map(Document),
            dtype: options.dtype().map(Document),
            framework: options.framework().map(str::to_owned),
        }
    }
}

impl OptionsForm {
    /// The options of the format with this id, which knows `specs`.
    ///
    /// # Errors
    /// Those of [`Options::parse`] and [`CheckpointForm::into_checkpoint`].
    pub fn into_options(
        self,
        format: &str,
        specs: &'static [OptionSpec],
        limits: &Limits,
    ) -> Result<Options> {
        let model = self.model.map(|model| model.into_checkpoint(limits)).transpose()?;
        Ok(Options::parse(format, specs, Side::Both, &self.values)?
            .with_architecture(self.architecture.map(|Document(file)| file))
            .with_model(model.map(Arc::new))
            .with_phases(self.phases.map(|Document(phases)| phases))
            .with_dtype(self.dtype.map(|Document(dtype)| dtype))
            .with_framework(self.framework.as_deref()))
    }
}
