//! Mappings that are made for the graph of each checkpoint.

use super::definition::{Ignore, Mapping};
use super::lookup::Entry;
use crate::pattern::Pattern;
use crate::words::printable;
use ckpt_api::{Error, Graph, Loss, Result, Tensor};
use std::fmt::Debug;
use std::sync::Arc;

/// Makes a mapping for the graph of each checkpoint, where no file could state its names.
pub trait MappingGenerator: Debug + Send + Sync {
    /// The name by which the mapping is chosen, such as `keras-to-torch`.
    fn name(&self) -> &'static str;

    /// One line that states which names are mapped to which.
    fn title(&self) -> &'static str;

    /// The framework whose names the mapping reads, as a person writes it.
    fn source_framework(&self) -> &'static str;

    /// The framework whose names the mapping gives, as a person writes it.
    fn target_framework(&self) -> &'static str;

    /// Returns the generator that gives names of another kind.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a kind that the generator does not know.
    fn with_names(&self, names: &str) -> Result<Arc<dyn MappingGenerator>>;

    /// Translates a graph and its tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] or [`ckpt_api::Kind::Mapping`], naming the layer whose tensors have no place in the
    /// target.
    fn translate(&self, graph: &Graph, tensors: &[Tensor]) -> Result<Translation>;
}

/// What a graph becomes in the target's framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Translation {
    /// From the tensors of the graph to those of the target's modules.
    pub mapping: Mapping,
    /// Names of tensors that only the target has: counters of training steps.
    pub counters: Vec<String>,
    /// The program that computes the graph in the target's framework, or why there is none.
    pub code: Result<String>,
    /// What no tensor states and the program does: losses if no program is written.
    pub conventions: Vec<Loss>,
    /// What is lost in any case.
    pub losses: Vec<Loss>,
    /// Settings of modules that differ from the framework's defaults: the program states them.
    pub notes: Vec<String>,
    /// A note on tensors that modules hold in another dtype, those of the program, too.
    pub dtype_note: Option<String>,
}

impl Translation {
    /// A translation with a program, without losses and notes.
    pub fn new(mapping: Mapping, code: Result<String>) -> Self {
        Translation {
            mapping,
            counters: Vec::new(),
            code,
            conventions: Vec::new(),
            losses: Vec::new(),
            notes: Vec::new(),
            dtype_note: None,
        }
    }

    /// The same for an outline, which leaves out layers: there is no program, and weights that none of its layers has keep
    /// their names. `reason` is what keeps the model from having a graph, `framework` the target's.
    pub(crate) fn of_outline(mut self, reason: &str, framework: &str) -> Self {
        let unknown = std::mem::take(&mut self.losses);
        let kept: Vec<String> = unknown.into_iter().map(|loss| loss.subject).collect();
        self.notes.push(format!(
            "the weights of the layers are converted, and not what the model computes: {reason}; a program in {framework} must do that"
        ));
        if !kept.is_empty() {
            self.notes
                .push(format!("weights of layers that are not known keep their names: {}", listed(&kept)));
        }
        for name in kept {
            self.mapping.lookup.insert(name.clone(), Entry { target: name, line: None });
        }
        let error = Error::mapping(format!(
            "a {framework} module is made of a graph, and this model has none"
        ))
        .found(reason)
        .help(
            "without 'code', the weights of all other layers are converted: a program must compute the rest",
        );
        self.code = Err(error);
        self
    }

    /// The mapping in the direction of the one that it is made for.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] if it has no inverse.
    pub(crate) fn mapping_for(&self, generated: &Mapping) -> Result<Mapping> {
        if !generated.is_inverse() {
            return Ok(self.mapping.clone());
        }
        let ignored = |name: &String| Ignore { pattern: Pattern::literal(name), line: None };
        Ok(Mapping {
            ignore: self.counters.iter().map(ignored).collect(),
            ignore_roles: self.mapping.ignore_roles.clone(),
            ..self.mapping.inverse()?
        })
    }
}

/// A generator, and the direction in which its mapping is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    pub(crate) generator: Arc<dyn MappingGenerator>,
    /// Whether the mapping leads from the generator's target to its source.
    pub(crate) is_inverse: bool,
}

impl Mapping {
    /// Returns the mapping that a generator makes for the graph of each checkpoint.
    pub fn generated_by(generator: Arc<dyn MappingGenerator>) -> Self {
        Mapping {
            origin: Some(generator.name().to_owned()),
            title: Some(generator.title().to_owned()),
            is_builtin: true,
            generated: Some(Generated { generator, is_inverse: false }),
            ..Mapping::empty()
        }
    }

    /// Returns whether the mapping is made for the graph of each checkpoint: it has no rules of its own.
    pub fn is_generated(&self) -> bool {
        self.generated.is_some()
    }

    /// Returns whether a generated mapping leads from its target to its source.
    pub(crate) fn is_inverse(&self) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.is_inverse)
    }

    /// Chooses how a generated mapping names its targets: `layers`, `sequential` or `torchvision` for `keras-to-torch`.
    ///
    /// ```
    /// let mapping = ckpt::Registry::builtin().mapping("keras-to-torch").expect("it is built in");
    /// assert!(mapping.clone().with_names("sequential").is_ok());
    /// assert!(mapping.with_names("tensorflow").is_err());
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for other names, and for a mapping that is not generated.
    pub fn with_names(mut self, names: &str) -> Result<Self> {
        let Some(generated) = &mut self.generated else {
            let error = Error::usage("the mapping has no parameter 'names': its file states all names");
            return Err(self.located(error));
        };
        generated.generator = generated.generator.with_names(names)?;
        Ok(self)
    }
}

/// The first names of a list, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| printable(name)).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
