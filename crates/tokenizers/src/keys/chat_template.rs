//! Chat templates.

use super::source::Source;
use crate::files::{self, ChatTemplate, NamedTemplate, TokenizerConfig, name};
use crate::key;
use ckpt_api::{Error, Limit, MetadataMap, Result};
use serde::Deserialize;

/// Appends the template, or several: those with a name, the list of their names, and the one of name "default". The names are
/// sorted; the converter's order changes from run to run.
pub(super) fn write(source: &Source, pairs: &mut MetadataMap, notes: &mut Vec<String>) -> Result<()> {
    let Some(config) = &source.config else {
        if [name::TEMPLATE, name::TEMPLATE_JSON].iter().any(|name| source.directory.has_file(name)) {
            notes.push(
                "the chat template is left out, because there is no tokenizer_config.json beside it"
                    .to_owned(),
            );
        }
        return Ok(());
    };
    match template(&config.value) {
        Some(ChatTemplate::One(text)) => insert(pairs, key::CHAT_TEMPLATE, text),
        Some(ChatTemplate::Named(templates)) => write_named(templates, pairs),
        Some(ChatTemplate::Other(_)) => {
            notes.push(
                "the chat template of tokenizer_config.json is neither a text nor a list: left out"
                    .to_owned(),
            );
        }
        None => match from_files(source)? {
            Some(ChatTemplate::One(text)) => insert(pairs, key::CHAT_TEMPLATE, &text),
            Some(ChatTemplate::Named(templates)) => write_named(&templates, pairs),
            _ => {}
        },
    }
    Ok(())
}

fn template(config: &TokenizerConfig) -> Option<&ChatTemplate> {
    config.chat_template.as_ref()
}

/// Appends a text, unless it is empty.
fn insert(pairs: &mut MetadataMap, key: impl Into<String>, text: &str) {
    if !text.is_empty() {
        pairs.insert(key, text);
    }
}

fn write_named(templates: &[NamedTemplate], pairs: &mut MetadataMap) {
    let (mut default, mut names) = (None, Vec::new());
    for NamedTemplate { name, template } in templates {
        let Some(template) = template.as_deref().filter(|_| !name.is_empty()) else { continue };
        // Names become part of a key.
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name == "default" {
            default = Some(template);
            continue;
        }
        insert(pairs, format!("{}.{name}", key::CHAT_TEMPLATE), template);
        names.push(name);
    }
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        pairs.insert(key::CHAT_TEMPLATES, names);
    }
    if let Some(default) = default {
        insert(pairs, key::CHAT_TEMPLATE, default);
    }
}

/// `chat_template.json`.
#[derive(Debug, Deserialize)]
struct TemplateFile {
    chat_template: Option<ChatTemplate>,
}

/// The template that has a file of its own.
fn from_files(source: &Source) -> Result<Option<ChatTemplate>> {
    if !source.directory.has_file(name::TEMPLATE) {
        let file =
            files::from_directory::<TemplateFile>(source.directory, name::TEMPLATE_JSON, source.limits)?;
        return Ok(file.and_then(|file| file.value.chat_template));
    }
    let text = text(source, name::TEMPLATE)?;
    let names = source.directory.list(name::MORE_TEMPLATES).unwrap_or_default();
    let stems = names.iter().filter_map(|name| name.strip_suffix(".jinja"));
    let mut templates = Vec::new();
    for stem in stems {
        let template = Some(self::text(source, &format!("{}/{stem}.jinja", name::MORE_TEMPLATES))?);
        templates.push(NamedTemplate { name: stem.to_owned(), template });
    }
    if templates.is_empty() {
        return Ok(Some(ChatTemplate::One(text)));
    }
    templates.insert(0, NamedTemplate { name: "default".to_owned(), template: Some(text) });
    Ok(Some(ChatTemplate::Named(templates)))
}

/// Reads a text file, whose ends of lines become those of Unix.
fn text(source: &Source, name: &str) -> Result<String> {
    let file = source.directory.file(name)?;
    let named = |error: Error| error.file(file.name());
    source.limits.check(Limit::TextBytes, file.len()).map_err(named)?;
    let text = String::from_utf8(file.bytes(0, file.len())?);
    let text = text.map_err(|_| named(Error::corrupt("the chat template is not UTF-8")))?;
    Ok(if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text })
}
