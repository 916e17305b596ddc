//! The built-in templates, as a registry has them.

use super::{Signature, Template, builtin};
use ckpt_api::{ArchitectureFile, Contents, Input, Limits, Result, Tensor};
use ckpt_engine::formats::{Architectures, Choices};

/// The architectures that come with the program.
#[derive(Debug)]
pub struct BuiltinArchitectures;

impl Architectures for BuiltinArchitectures {
    fn names(&self) -> Vec<&'static str> {
        builtin::names().collect()
    }

    fn file(&self, name: &str) -> Option<ArchitectureFile> {
        builtin::file(name)
    }

    fn describe(
        &self,
        file: &ArchitectureFile,
        input: &Input,
        contents: &mut Contents,
        choices: &Choices,
        limits: &Limits,
    ) -> Result<()> {
        let template = Template::parse(file)?;
        let configuration = template.configuration(input, limits)?;
        let tensors = &contents.checkpoint.tensors;
        let described = template.describe(tensors, configuration.as_ref(), choices, limits)?;
        described.apply(&template, contents);
        Ok(())
    }

    fn recognize(&self, tensors: &[Tensor]) -> bool {
        Signature::has_names(tensors)
    }

    fn mappings(&self) -> Vec<String> {
        Signature::automatic().flat_map(|signature| signature.mappings().to_vec()).collect()
    }
}

impl Signature {
    /// Parses the built-in template of this signature.
    pub fn template(&self) -> Option<Template> {
        // A test reads every file, so `ok` hides no error.
        template(self.name()).ok().flatten()
    }
}

/// Returns a built-in template by its name.
pub(super) fn template(name: &str) -> Result<Option<Template>> {
    builtin::file(name).map(|file| Template::parse(&file)).transpose()
}
