//! Architectures that are known by name: graphs for the tensor names of families of models.

use ckpt_api::{ArchitectureFile, Contents, Input, Limits, Result, Tensor};
use std::fmt::Debug;

/// Options that begin with this set parameters of an architecture: `arch.heads`.
pub const OPTION_PREFIX: &str = "arch.";

/// Architectures whose graph follows from the tensors of a checkpoint.
pub trait Architectures: Debug + Send + Sync {
    /// The names by which they are chosen.
    fn names(&self) -> Vec<&'static str>;

    /// The file of the architecture with this name.
    fn file(&self, name: &str) -> Option<ArchitectureFile>;

    /// Gives the contents the graph that a file describes, which has the table `nodes`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the file, for what does not fit the checkpoint; whatever keeps the model's
    /// configuration, beside `input`, from being read.
    fn describe(
        &self,
        file: &ArchitectureFile,
        input: &Input,
        contents: &mut Contents,
        choices: &Choices,
        limits: &Limits,
    ) -> Result<()>;

    /// Returns whether one of them describes tensors of these names without being asked for.
    fn recognize(&self, tensors: &[Tensor]) -> bool;

    /// Names of mappings that lead to the names of one that [`Architectures::recognize`] looks for.
    fn mappings(&self) -> Vec<String>;
}

/// What the user says about a model beyond its tensors and its configuration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Choices {
    /// Names and values of the architecture's parameters.
    pub settings: Vec<(String, String)>,
    /// Names of inputs that are given: of the optional ones, the graph has these.
    pub inputs: Vec<String>,
    /// Whether the user names the architecture.
    pub is_named: bool,
}
