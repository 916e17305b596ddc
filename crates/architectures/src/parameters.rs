//! The variables of a template: read off the tensors, set by the user, or taken from the configuration.

use super::document::{Document, Parameter};
use super::inputs;
use super::scope::Scope;
use super::value::Value;
use ckpt_api::{Error, Result, Setting, nearest, text};
use ckpt_engine::formats::OPTION_PREFIX;
use ckpt_engine::source::Configuration;

/// What the tensors do not show.
pub(super) struct Given<'a> {
    /// Names and values that the user sets.
    pub(super) settings: &'a [(String, String)],
    pub(super) configuration: Option<&'a Configuration>,
}

/// Where each variable came from, for the notes.
#[derive(Default)]
pub(super) struct Origins {
    pub(super) from_tensors: Vec<String>,
    pub(super) from_settings: Vec<String>,
    pub(super) from_configuration: Vec<String>,
    pub(super) assumed: Vec<String>,
}

/// Sets the variables of a template.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for one that nothing states, and for conditions that do not hold.
pub(super) fn bind(document: &Document, given: &Given<'_>, scope: &mut Scope<'_>) -> Result<Origins> {
    let parameters = document.parameters.iter().filter(|parameter| parameter.value.is_none());
    let inputs = document.inputs.iter().any(|input| input.optional).then_some(inputs::OPTION);
    let settable: Vec<&str> = parameters.map(|parameter| parameter.name.as_str()).chain(inputs).collect();
    if let Some((name, _)) = given.settings.iter().find(|(name, _)| !settable.contains(&name.as_str())) {
        return Err(Error::usage("the architecture has no such parameter to set")
            .field(format!("{OPTION_PREFIX}{name}"))
            .help(nearest(name, settable.into_iter())));
    }
    scope.set("configured", Value::Bool(given.configuration.is_some()));
    let mut origins = Origins::default();
    for parameter in &document.parameters {
        let (value, origin) = value(parameter, given, scope, &mut origins).map_err(|error| {
            if error.context().field.is_none() { error.field(parameter.name.as_str()) } else { error }
        })?;
        // An empty text stands for none.
        if let Some(origin) = origin.filter(|_| value != Value::Text(String::new())) {
            origin.push(format!("{} {value}", parameter.name));
        }
        scope.set(&parameter.name, value);
    }
    for requirement in &document.requires {
        if !scope.evaluate(&requirement.holds)?.bool()? {
            return Err(Error::unsupported("the architecture does not describe this model")
                .found(scope.text(&requirement.otherwise)?));
        }
    }
    Ok(origins)
}

/// The value of a parameter, and the list that names it.
fn value<'o>(
    parameter: &Parameter,
    given: &Given<'_>,
    scope: &Scope<'_>,
    origins: &'o mut Origins,
) -> Result<(Value, Option<&'o mut Vec<String>>)> {
    if let Some(expression) = &parameter.value {
        return Ok((scope.evaluate(expression)?, Some(&mut origins.from_tensors)));
    }
    if let Some((_, text)) = given.settings.iter().rfind(|(name, _)| *name == parameter.name) {
        return Ok((Value::parse(text), Some(&mut origins.from_settings)));
    }
    let configured = given.configuration.and_then(|configuration| {
        parameter.config.iter().find_map(|key| Value::from_json(configuration.get(key)?))
    });
    if let Some(value) = configured {
        return Ok((value, Some(&mut origins.from_configuration)));
    }
    match &parameter.default {
        // A configuration that leaves out a value of its own means the default.
        Some(default) if given.configuration.is_some() && !parameter.config.is_empty() => {
            Ok((scope.evaluate(default)?, None))
        }
        Some(default) => Ok((scope.evaluate(default)?, Some(&mut origins.assumed))),
        None => Err(unknown(parameter, given.configuration)),
    }
}

fn unknown(parameter: &Parameter, configuration: Option<&Configuration>) -> Error {
    let option = format!("{OPTION_PREFIX}{}=VALUE", parameter.name);
    let (found, place) = match configuration {
        Some(configuration) => (format!("no such key in {}", configuration.name), "add it there".to_owned()),
        None => (
            "no configuration beside the checkpoint".to_owned(),
            "put the model's config.json beside it".to_owned(),
        ),
    };
    let error = Error::usage(format!("the tensors do not show {}", parameter.meaning)).field(&parameter.name);
    match &parameter.config[..] {
        [] => error.help(text!["pass ", Setting::READ_OPTION.of(&option)]),
        keys => error
            .found(found)
            .expected(keys.join(" or "))
            .help(text![format!("{place}, or pass "), Setting::READ_OPTION.of(&option)]),
    }
}
