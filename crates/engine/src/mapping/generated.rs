//! Mappings that are made for the graph of each checkpoint.

use super::definition::{Generated, Ignore, Mapping, MappingGenerator, Translation};
use super::lookup::Entry;
use super::relation::Relation;
use crate::pattern::Pattern;
use crate::words::printable;
use ckpt_api::{Error, Result, Text, text};
use std::sync::Arc;

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
    pub(crate) fn of_outline(mut self, reason: &Text, framework: &str) -> Self {
        let unknown = std::mem::take(&mut self.losses);
        let kept: Vec<String> = unknown.into_iter().map(|loss| loss.subject).collect();
        self.notes.push(text![
            "the weights of the layers are converted, and not what the model computes: ",
            reason.clone(),
            format!("; a program in {framework} must do that"),
        ]);
        if !kept.is_empty() {
            self.notes.push(
                format!("weights of layers that are not known keep their names: {}", listed(&kept)).into(),
            );
        }
        for name in kept {
            self.mapping.lookup.insert(name.clone(), Entry { target: name, line: None });
        }
        let error = Error::mapping(format!(
            "a {framework} module is made of a graph, and this model has none"
        ))
        .found(reason.clone())
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

    /// Returns whether a rule multiplies quantized elements by scales.
    pub(crate) fn dequantizes(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.relation, Relation::Dequantize(_)))
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

    /// Gives a generated mapping a setting of its own: the class of a layer for `flax-to-torch`.
    ///
    /// ```
    /// let mapping = ckpt::Registry::builtin().mapping("flax-to-torch").expect("it is built in");
    /// assert!(mapping.clone().with_setting("decoder.up", "conv_transpose").is_ok());
    /// assert!(mapping.with_setting("decoder.up", "upsampling").is_err());
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a setting that the mapping does not know.
    pub fn with_setting(mut self, key: &str, value: &str) -> Result<Self> {
        let Some(generated) = &mut self.generated else {
            let error = Error::usage("only a generated mapping has settings").field(printable(key));
            return Err(self.located(error));
        };
        generated.generator = generated.generator.with_setting(key, value)?;
        Ok(self)
    }
}

/// The first names of a list, and how many more there are.
pub fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| printable(name)).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
