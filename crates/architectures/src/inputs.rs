//! The optional inputs of a template: the graph has those that are given, or that an option names.

use super::document::Document;
use super::scope::Scope;
use super::value::Value;
use ckpt_api::{Error, Result, nearest};
use ckpt_engine::formats::{Choices, OPTION_PREFIX};

/// The option that names optional inputs, separated by commas.
pub(super) const OPTION: &str = "inputs";

/// Sets the variable of each optional input: whether the graph has it.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] if the option names another input.
pub(super) fn choose(document: &Document, choices: &Choices, scope: &mut Scope<'_>) -> Result<()> {
    let optional = || document.inputs.iter().filter(|input| input.optional).map(|input| input.name.as_str());
    let options = choices.settings.iter().filter(|(name, _)| name == OPTION);
    let named: Vec<&str> = options.flat_map(|(_, names)| names.split(',').map(str::trim)).collect();
    if let Some(unknown) = named.iter().find(|name| optional().all(|known| known != **name)) {
        return Err(Error::usage("the architecture has no such optional input")
            .field(format!("{OPTION_PREFIX}{OPTION}"))
            .found(format!("'{unknown}'"))
            .help(nearest(unknown, optional())));
    }
    for name in optional() {
        let is_given = named.contains(&name) || choices.inputs.iter().any(|given| given == name);
        scope.set(name, Value::Bool(is_given));
    }
    Ok(())
}
