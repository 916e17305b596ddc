//! Parameters of a mapping: lengths that differ from model to model, such as the number of attention heads.

use super::definition::{Mapping, Parameter};
use super::sizes::Size;
use crate::pattern::Pattern;
use crate::recipe::AxisStep;
use crate::settings;
use crate::words::quote;
use ckpt_api::{Error, Limits, Result, nearest, text};
use std::collections::BTreeSet;

/// The separator of the segments of metadata keys.
pub(crate) const KEY_SEPARATOR: char = '.';

impl Mapping {
    /// Returns the names of the parameters that need a value before the mapping can be applied, sorted.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.keys().map(String::as_str)
    }

    /// Sets the value of a parameter.
    ///
    /// ```
    /// let llama = ckpt::Registry::builtin().mapping("llama-hf-to-gguf").expect("it is built in");
    /// assert_eq!(llama.parameters().collect::<Vec<_>>(), ["heads", "kv_heads"]);
    /// let llama = llama.with_parameter("heads", 32)?.with_parameter("kv_heads", 8)?;
    /// assert_eq!(llama.parameters().count(), 0);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a parameter that the mapping does not have, and for the value 0;
    /// [`ckpt_api::Kind::Mapping`] for sizes that do not fit 64 bits then.
    pub fn with_parameter(mut self, name: &str, value: u64) -> Result<Self> {
        if self.parameters.remove(name).is_none() {
            let error = Error::usage("the mapping has no parameter of this name that lacks a value")
                .found(quote(name));
            return Err(self.located(error.help(nearest(name, self.parameters()))));
        }
        if value == 0 {
            return Err(Error::usage("a parameter of a mapping is 0")
                .found(quote(name))
                .expected("at least 1"));
        }
        let rules =
            self.rules.iter_mut().flat_map(|rule| rule.steps.iter_mut().chain(rule.division.steps_mut()));
        for step in rules.chain(self.roles.values_mut().flatten()) {
            if let AxisStep::Reshape(reshape) = step {
                reshape.set(name, value);
            }
        }
        for rule in &mut self.rules {
            rule.set_in_sizes(name, value)?;
        }
        for other in self.parameters.values_mut().filter(|other| other.default.as_deref() == Some(name)) {
            other.default = Some(value.to_string());
        }
        Ok(self)
    }

    /// Sets the values of parameters that a configuration states: `number` returns the one at a key, whose dots lead into
    /// objects. Others stay open.
    ///
    /// # Errors
    /// As [`Mapping::with_parameter`].
    pub fn with_configuration(mut self, number: impl Fn(&str) -> Option<u64>) -> Result<Self> {
        let positive = |key: &String| number(key).filter(|value| *value > 0);
        let stated = |parameter: &Parameter| parameter.config.iter().find_map(positive);
        let values = self.parameters.iter().filter_map(|(name, own)| Some((name.clone(), stated(own)?)));
        for (name, value) in values.collect::<Vec<_>>() {
            self = self.with_parameter(&name, value)?;
        }
        Ok(self)
    }

    /// Gives every parameter the value that `find` returns, or else its default.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for a parameter without a value; those of `find`.
    pub(crate) fn with_parameters_of(
        &self,
        find: impl Fn(&Parameter) -> Result<Option<u64>>,
    ) -> Result<Self> {
        let mut mapping = self.clone();
        for (name, parameter) in &self.parameters {
            if let Some(value) = find(parameter).map_err(|error| self.located(error))? {
                mapping = mapping.with_parameter(name, value)?;
            }
        }
        while let Some((name, value)) = mapping
            .parameters
            .iter()
            .find_map(|(name, parameter)| Some((name.clone(), parameter.default.as_deref()?.parse().ok()?)))
        {
            mapping = mapping.with_parameter(&name, value)?;
        }
        mapping.check_parameters().map(|()| mapping)
    }

    /// Checks that every parameter has a value.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`], naming the first that has none.
    pub(super) fn check_parameters(&self) -> Result<()> {
        let Some((name, parameter)) = self.parameters.first_key_value() else { return Ok(()) };
        let keys = |keys: &[String]| keys.iter().map(|key| quote(key)).collect::<Vec<_>>().join(" or ");
        let mut places = Vec::new();
        if !parameter.config.is_empty() {
            places.push(format!(
                "{} in a config.json or params.json beside the checkpoint",
                keys(&parameter.config)
            ));
        }
        if !parameter.metadata.is_empty() {
            places.push(format!("{} in its metadata", keys(&parameter.metadata)));
        }
        let meaning = parameter.description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        let mut error =
            Error::mapping(format!("the mapping needs the value of its parameter {}{meaning}", quote(name)));
        if !places.is_empty() {
            error = error.found(format!("no {}", places.join(", and no ")));
        }
        let help = text!["set it with ", settings::MAPPING_PARAMETER.of(&format!("{name}=NUMBER"))];
        Err(self.located(error.help(help)))
    }
}

/// Checks the parameters of a file against the steps, which name each.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a parameter that no step names, or that is not declared; for a malformed pattern, and
/// for a default that is no number and no other parameter.
pub(super) fn check(mapping: &Mapping, limits: &Limits) -> Result<()> {
    let rules = mapping.rules.iter().flat_map(|rule| rule.steps.iter().chain(rule.division.steps()));
    let steps = rules.chain(mapping.roles.values().flatten());
    let reshapes =
        steps.filter_map(|step| if let AxisStep::Reshape(reshape) = step { Some(reshape) } else { None });
    let of_sizes = mapping.rules.iter().flat_map(|rule| &rule.sizes).flat_map(Size::parameters);
    let named: BTreeSet<&str> = reshapes.flat_map(|reshape| reshape.parameters()).chain(of_sizes).collect();
    if let Some(name) = named.iter().find(|name| !mapping.parameters.contains_key(**name)) {
        return Err(Error::mapping("a rule names a parameter that [parameters] does not have")
            .found(quote(name))
            .help(nearest(name, mapping.parameters())));
    }
    for (name, parameter) in &mapping.parameters {
        let at = |error: Error| error.field(format!("parameters, {}", quote(name)));
        if !named.contains(name.as_str()) {
            return Err(at(Error::mapping("no step or size names this parameter")
                .help(format!("name it in a reshape or in sizes, {{{name}}}, or remove it"))));
        }
        for key in &parameter.metadata {
            Pattern::selecting(key, limits).map_err(at)?;
        }
        // A default that had one itself could lead back.
        let is_plain = |other: &str| {
            mapping.parameters.get(other).is_some_and(|other| other.default.is_none()) && other != name
        };
        if let Some(default) = &parameter.default
            && !default.parse::<u64>().is_ok_and(|value| value > 0)
            && !is_plain(default)
        {
            return Err(at(Error::mapping("the default of a parameter is wrong")
                .found(quote(default))
                .expected("a number of at least 1, or the name of a parameter without a default")));
        }
    }
    Ok(())
}
