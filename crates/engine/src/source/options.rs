//! How a checkpoint is opened.

use super::model_graph::ModelGraph;
use crate::mapping::Mapping;
use ckpt_api::{ArchitectureFile, LibraryWords, Limits, Vocabulary};
use std::sync::Arc;

/// How to open a checkpoint. By default its format is detected, and no option is set.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let options = ckpt::OpenOptions::new().format("tf2").set("activations", "relu,softmax");
/// let source = ckpt::open_with("examples/data/digits", &options)?;
/// assert_eq!(source.format(), "tf2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The format's id. `None` asks all codecs.
    pub format: Option<String>,
    /// Options for the codec that reads; and `activations`, which every source takes: names separated by commas, for
    /// the layers whose activation the source does not state.
    pub options: Vec<(String, String)>,
    /// What the format does not record about its graph.
    pub architecture: Option<ArchitectureFile>,
    /// The graph of another model, whose tensors have the same names.
    pub graph: Option<Arc<ModelGraph>>,
    /// Names of the inputs that a forward pass will be given. The graph of a built-in architecture has those of its
    /// optional inputs, such as `attention_mask`.
    pub inputs: Vec<String>,
    /// The mapping from the source's names to those of `graph`, if they differ: a conversion with this mapping
    /// gives its result the graph. `None` if they are the same.
    pub graph_mapping: Option<Arc<Mapping>>,
    /// Whether quantized weights are read as the tensors that are stored for them, and not as the numbers that they stand for.
    pub parts: bool,
    /// Bounds on what the input may make the process do.
    pub limits: Limits,
    /// How notes, losses and reports about this source name settings.
    pub vocabulary: Arc<dyn Vocabulary>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            format: None,
            options: Vec::new(),
            architecture: None,
            graph: None,
            inputs: Vec::new(),
            graph_mapping: None,
            parts: false,
            limits: Limits::default(),
            vocabulary: Arc::new(LibraryWords),
        }
    }
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the format, such as `nn`. Default: detected.
    #[must_use]
    pub fn format(mut self, id: impl Into<String>) -> Self {
        self.format = Some(id.into());
        self
    }

    /// Sets an option of the format, or `activations`. Default: none. An option that is unknown is an error when the
    /// source is opened.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// Reads quantized weights as the tensors that are stored for them. Default: as the numbers that they stand for.
    #[must_use]
    pub fn parts(mut self, parts: bool) -> Self {
        self.parts = parts;
        self
    }

    /// Sets several options, as [`OpenOptions::set`] does.
    #[must_use]
    pub fn set_all<K: Into<String>, V: Into<String>>(
        mut self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.options.extend(options.into_iter().map(|(key, value)| (key.into(), value.into())));
        self
    }

    /// Describes what the format does not record about the model. Default: nothing.
    #[must_use]
    pub fn architecture(mut self, file: ArchitectureFile) -> Self {
        self.architecture = Some(file);
        self
    }

    /// Names the inputs that a forward pass will be given: built-in architectures have optional ones, such as
    /// `attention_mask`. Default: none of these.
    #[must_use]
    pub fn inputs<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.inputs = names.into_iter().map(Into::into).collect();
        self
    }

    /// Maps the source's names to those of the model that gives the graph. Default: they are the same.
    #[must_use]
    pub fn graph_mapping(mut self, mapping: Mapping) -> Self {
        self.graph_mapping = Some(Arc::new(mapping));
        self
    }

    /// Bounds what the input may make the process do. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Chooses how notes, losses and reports about this source name settings. Default: as the library does.
    #[must_use]
    pub fn vocabulary(mut self, words: impl Vocabulary + 'static) -> Self {
        self.vocabulary = Arc::new(words);
        self
    }
}
