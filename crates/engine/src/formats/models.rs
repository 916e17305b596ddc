//! Whole models: what a conversion carries beyond the tensors of a checkpoint.

use super::Formats;
use crate::mapping::Mapping;
use crate::source::{Configuration, Source};
use ckpt_api::{Checkpoint, DType, FormatInfo, Input, Metadata, Result, Tensor, Text};
use std::fmt::{self, Debug};

/// Knows kinds of models, such as Llama, and how each format holds them.
pub trait ModelKinds: Debug + Send + Sync {
    /// Returns what a conversion of the model adds to its tensors; `None` if the source is no model of a known kind, or the
    /// target holds only tensors. It is asked for conversions without a mapping.
    ///
    /// # Errors
    /// Whatever the target needs of the model and its files do not state; whatever keeps them from being read.
    fn translate(&self, formats: &Formats, request: &ModelRequest<'_>) -> Result<Option<ModelTranslation>>;

    /// Returns the format of a directory that the model is written to if the user names none; `None` if the input is no
    /// model.
    ///
    /// # Errors
    /// Whatever keeps the files of the model from being read.
    fn directory_format(&self, input: &Input) -> Result<Option<&'static str>>;

    /// Returns the form of the model whose names graphs are described for; `None` if the source is no model. It is asked if
    /// no known architecture has the names of the source.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a kind of models that is not known, naming it; whatever the configuration needs and
    /// the source does not state; whatever keeps the files of the model from being read.
    fn graph_form(&self, formats: &Formats, source: &Source) -> Result<Option<GraphForm>> {
        let _ = (formats, source);
        Ok(None)
    }

    /// Whether [`graph_form`](Self::graph_form) knows the kind of this model, and gives it other names.
    fn has_graph_form(&self, checkpoint: &Checkpoint) -> bool {
        let _ = checkpoint;
        false
    }
}

/// A model as the graph of its family is described for it.
#[derive(Clone, Debug)]
pub struct GraphForm {
    /// Names and layouts of the tensors; `None` if the source has them.
    pub mapping: Option<Mapping>,
    /// Tensors of the source that follow from the configuration. No graph takes them.
    pub exclude: Vec<String>,
    /// What the source states of the model, in the words of its family's configurations.
    pub configuration: Configuration,
}

/// A conversion of a checkpoint that may be a model.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ModelRequest<'a> {
    /// The checkpoint.
    pub source: &'a Source,
    /// The format to write.
    pub target: &'a FormatInfo,
    /// Options for the codec that writes.
    pub options: &'a [(String, String)],
    /// What floating-point weights become.
    pub dtype: Option<DType>,
    /// Whether the output is a directory, which has files beside the tensors.
    pub is_directory: bool,
}

impl<'a> ModelRequest<'a> {
    /// The conversion of `source` to `target`.
    pub(crate) fn new(
        source: &'a Source,
        target: &'a FormatInfo,
        options: &'a [(String, String)],
        dtype: Option<DType>,
        is_directory: bool,
    ) -> Self {
        ModelRequest { source, target, options, dtype, is_directory }
    }

    /// The value of an option for the codec that writes.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        self.options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Formats {
    /// Returns the format of an output that is a directory: if the input is a model, and the output's name ends in a slash or
    /// has no extension that a format claims. `None` for one that is a file.
    ///
    /// # Errors
    /// Whatever keeps the files of the model from being read.
    pub fn directory_format(&self, input: &Input, output: &str) -> Result<Option<&'static str>> {
        let is_open = output.ends_with('/') || !self.claims_extension(output);
        match self.model_kinds().filter(|_| is_open) {
            Some(kinds) => kinds.directory_format(input),
            None => Ok(None),
        }
    }
}

/// Computes the metadata of an output from its checkpoint, whose tensors have their new names, shapes and dtypes.
pub type Describe = Box<dyn FnOnce(&Checkpoint) -> Result<Metadata> + Send + Sync>;

/// Computes none.
pub(crate) fn no_metadata() -> Describe {
    Box::new(|_| Ok(Metadata::default()))
}

/// What a conversion of a model adds to its tensors.
#[non_exhaustive]
pub struct ModelTranslation {
    /// Names and layouts of the tensors; `None` if they stay.
    pub mapping: Option<Mapping>,
    /// Options for the codec that writes, in place of the request's.
    pub options: Vec<(String, String)>,
    /// What floating-point weights become, in place of the request's.
    pub dtype: Option<DType>,
    /// Tensors that follow from the model's configuration: the output has them before all others.
    pub constants: Vec<ConstantTensor>,
    /// Whether it takes the tensors that are stored for quantized weights, and not the numbers that they stand for.
    pub takes_stored: bool,
    /// Tensors that are left out, because they follow from the files beside the output.
    pub exclude: Vec<String>,
    /// Tensors of the source whose numbers `dtype` holds exactly.
    pub exact: Vec<String>,
    /// Files beside the output.
    pub files: Vec<CompanionFile>,
    /// Metadata of the output.
    pub describe: Describe,
    /// What the user should know, one sentence each.
    pub notes: Vec<Text>,
}

impl ModelTranslation {
    /// A translation that renames tensors, and adds nothing.
    pub fn new(mapping: Option<Mapping>) -> Self {
        ModelTranslation {
            mapping,
            options: Vec::new(),
            dtype: None,
            takes_stored: false,
            constants: Vec::new(),
            exclude: Vec::new(),
            exact: Vec::new(),
            files: Vec::new(),
            describe: no_metadata(),
            notes: Vec::new(),
        }
    }
}

impl ModelTranslation {
    /// Whether a tensor of this name follows from the model's configuration.
    pub(crate) fn has_constant(&self, name: &str) -> bool {
        self.constants.iter().any(|constant| constant.tensor.name == name)
    }
}

impl Debug for ModelTranslation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.constants.iter().map(|constant| constant.tensor.name.as_str());
        f.debug_struct("ModelTranslation")
            .field("mapping", &self.mapping.as_ref().and_then(Mapping::origin))
            .field("constants", &names.collect::<Vec<_>>())
            .field("files", &self.files.iter().map(|file| &file.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A small tensor whose values are known before anything is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantTensor {
    /// Its name, dtype and shape.
    pub tensor: Tensor,
    /// Its elements, little-endian and row-major.
    pub bytes: Vec<u8>,
}

impl ConstantTensor {
    /// A vector of 32-bit floats.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for more elements than a shape counts.
    pub fn vector(name: &str, numbers: &[f32]) -> Result<Self> {
        let shape = ckpt_api::Shape::new([numbers.len() as u64])?;
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Ok(ConstantTensor { tensor: Tensor::new(name, DType::F32, shape), bytes })
    }
}

/// A file beside the tensors of an output, such as a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompanionFile {
    /// Its name, relative to the output's directory.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}
