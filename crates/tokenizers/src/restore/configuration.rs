//! The files beside the vocabulary: `tokenizer_config.json` and what goes with it.

use super::document::Added;
use super::stated::Stated;
use crate::Files;
use crate::files::name;
use crate::key;
use crate::token::{Token, TokenType};
use ckpt_api::{Error, MetadataValue, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Adds `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json` and `chat_template.jinja`. `added` are the tokens
/// that `tokenizer.model` needs beside it.
pub(super) fn write(stated: &Stated, added: &[(usize, &Token)], files: &mut Files) -> Result<()> {
    let mut config = Map::new();
    let tokens = special_tokens(stated, files);
    for (name, text) in &tokens {
        config.insert((*name).clone(), text.clone());
    }
    for (name, flag) in &stated.flags {
        config.insert(format!("add_{name}_token"), (*flag).into());
    }
    if let Some(adds) = stated.flag(key::ADD_SPACE_PREFIX) {
        config.insert("add_prefix_space".to_owned(), adds.into());
    }
    let decoded = decoded(stated, added)?;
    if !decoded.is_empty() {
        config.insert("added_tokens_decoder".to_owned(), decoded.into());
    }
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    chat_templates(stated, &mut config, files);
    listed(stated, added, files)?;
    files.files.insert(name::TOKENIZER_CONFIG.to_owned(), json(&config)?);
    files.files.insert(name::SPECIAL_TOKENS.to_owned(), json(&tokens)?);
    note_others(stated, files);
    Ok(())
}

/// Returns JSON with an end of line.
pub(super) fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec_pretty(value);
    let mut text = text.map_err(|error| Error::defect("a file has no JSON form").caused_by(error))?;
    text.push(b'\n');
    Ok(text)
}

/// Returns the special tokens as `tokenizer_config.json` names them, and adds every id to those of `config.json`.
///
/// Ids become keys again in the order of their names, and those of `config.json` follow. So an id whose key comes later is in
/// `config.json` alone.
fn special_tokens(stated: &Stated, files: &mut Files) -> Map<String, Value> {
    let mut tokens = Map::new();
    let mut last = 0;
    for (name, id) in &stated.ids {
        let position = key::IDS.iter().position(|(own, _)| own == name).unwrap_or(last);
        let token = stated.tokens.get(*id);
        if matches!(*name, "eot" | "eom") {
            files.notes.push(format!("{name}_token_id is left out: tokenizer_config.json has no such token"));
            continue;
        }
        if let Some(token) = token.filter(|_| position >= last) {
            last = position;
            tokens.insert(format!("{name}_token"), token.text.as_str().into());
        }
        files.config.insert(format!("{name}_token_id"), *id as u64);
    }
    if stated.model == key::model::WORD_PIECE
        && let Some(first) = stated.text_of("bos")
    {
        tokens.insert("cls_token".to_owned(), first.into());
    }
    tokens
}

/// Returns `added_tokens_decoder`: tokens by id. A token that would become another one is in `added_tokens.json` alone.
fn decoded(stated: &Stated, added: &[(usize, &Token)]) -> Result<Map<String, Value>> {
    let mut decoded = Map::new();
    if stated.model == key::model::UNIGRAM {
        return Ok(decoded);
    }
    for (id, token) in added.iter().filter(|(_, token)| is_same_again(token)) {
        let fields = Added::new(*id, &token.text, token.token_type == TokenType::Control);
        let value = serde_json::to_value(fields);
        let mut value = value.map_err(|error| Error::defect("a token has no JSON form").caused_by(error))?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove("id");
        }
        decoded.insert(id.to_string(), value);
    }
    Ok(decoded)
}

fn is_same_again(token: &Token) -> bool {
    let again = crate::keys::added_token(&token.text, token.token_type == TokenType::Control);
    (again.text, again.token_type) == (token.text.clone(), token.token_type)
}

/// Adds `added_tokens.json`: ids of the tokens that the model does not have.
fn listed(stated: &Stated, added: &[(usize, &Token)], files: &mut Files) -> Result<()> {
    let is_unigram = stated.model == key::model::UNIGRAM;
    let outside = added.iter().filter(|(_, token)| token.token_type == TokenType::UserDefined);
    let outside = outside.filter(|(_, token)| is_unigram || !is_same_again(token));
    let ids: Map<String, Value> = outside.map(|(id, token)| (token.text.clone(), (*id).into())).collect();
    if !ids.is_empty() {
        files.files.insert(name::ADDED_TOKENS.to_owned(), json(&ids)?);
    }
    Ok(())
}

/// Adds the chat templates: one as a file, several as a list.
fn chat_templates(stated: &Stated, config: &mut Map<String, Value>, files: &mut Files) {
    let default = stated.text(key::CHAT_TEMPLATE);
    let named = stated.pairs.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(key::CHAT_TEMPLATE)?.strip_prefix('.')?;
        Some(json!({"name": name, "template": value.as_text()?}))
    });
    let mut templates: Vec<Value> = named.collect();
    match default {
        // The file is read with ends of lines of any system.
        Some(text) if templates.is_empty() && !text.contains('\r') => {
            files.files.insert(name::TEMPLATE.to_owned(), text.as_bytes().to_vec());
        }
        Some(text) if templates.is_empty() => drop(config.insert("chat_template".to_owned(), text.into())),
        default => {
            templates.extend(default.map(|text| json!({"name": "default", "template": text})));
            if !templates.is_empty() {
                config.insert("chat_template".to_owned(), templates.into());
            }
        }
    }
}

/// Notes the keys that have no place in the files.
fn note_others(stated: &Stated, files: &mut Files) {
    let known = [
        key::MODEL,
        key::PRE,
        key::TOKENS,
        key::SCORES,
        key::TOKEN_TYPE,
        key::MERGES,
        key::ADD_SPACE_PREFIX,
        key::REMOVE_EXTRA_WHITESPACES,
        key::CHARSMAP,
        key::LOWERCASE,
        key::STRIP_ACCENTS,
        key::CHAT_TEMPLATE,
        key::CHAT_TEMPLATES,
        key::CLS_ID,
        // A fact of the model.
        "tokenizer.ggml.token_type_count",
    ];
    let is_known = |name: &str| {
        known.contains(&name)
            || key::IDS.iter().chain(&key::FLAGS).any(|(_, key)| *key == name)
            || name.strip_prefix(key::CHAT_TEMPLATE).is_some_and(|rest| rest.starts_with('.'))
    };
    let others = stated.pairs.iter().map(|(key, _): (&str, &MetadataValue)| key);
    for name in others.filter(|name| name.starts_with("tokenizer.") && !is_known(name)) {
        files.notes.push(format!("the key {} has no place in the files", name.escape_debug()));
    }
}
