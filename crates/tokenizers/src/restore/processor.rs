//! The post-processor, which adds special tokens, such that its flags are those of the keys.

use super::stated::Stated;
use crate::key;
use serde_json::{Value, json};

/// The post-processor of `tokenizer.json`.
#[derive(Debug)]
pub(super) struct PostProcessor {
    pub(super) value: Value,
    /// Whether the flags come in the order of the keys when the files become keys again.
    pub(super) keeps_order: bool,
}

/// Returns the post-processor. `of_bytes` for a tokenizer of bytes.
pub(super) fn post_processor(stated: &Stated, of_bytes: bool) -> PostProcessor {
    if let Some(value) = bert(stated) {
        return PostProcessor { value, keeps_order: true };
    }
    let shapes = [(true, true), (true, false), (false, true), (false, false)];
    let mut shapes = shapes.into_iter().filter(|(byte_level, _)| of_bytes || !byte_level);
    let found = shapes.find(|(byte_level, pair)| flags(stated, *byte_level, *pair) == stated.flags);
    let (byte_level, has_separator) = found.unwrap_or((of_bytes, true));
    let mut parts = Vec::new();
    if byte_level {
        parts.push(
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}),
        );
    }
    parts.extend(template(stated, has_separator));
    let value = match parts.len() {
        0 => Value::Null,
        1 => parts.swap_remove(0),
        _ => json!({"type": "Sequence", "processors": parts}),
    };
    PostProcessor { value, keeps_order: found.is_some() }
}

/// The post-processor of BERT, of which no flags come: it is that of WordPiece without flags.
fn bert(stated: &Stated) -> Option<Value> {
    if stated.model != key::model::WORD_PIECE || !stated.flags.is_empty() {
        return None;
    }
    let (Some(first), Some(last)) = ends(stated) else { return None };
    let pair = |text: &str| Some(json!([text, stated.tokens.iter().position(|token| token.text == text)?]));
    Some(json!({"type": "BertProcessing", "sep": pair(last)?, "cls": pair(first)?}))
}

/// The tokens that a template puts before and after a text.
fn ends<'a>(stated: &'a Stated) -> (Option<&'a str>, Option<&'a str>) {
    // llama.cpp adds both to a text of WordPiece unless a flag says otherwise.
    let by_default = stated.model == key::model::WORD_PIECE;
    let token = |name, other| {
        let text = stated.text_of(name).or_else(|| stated.text_of(other));
        text.filter(|_| stated.adds(name).unwrap_or(by_default))
    };
    (token("bos", "cls"), token("eos", "sep"))
}

/// The flags that files of this shape give, in the order of the keys.
fn flags(stated: &Stated, byte_level: bool, has_separator: bool) -> Vec<(&'static str, bool)> {
    let mut flags: Vec<(&'static str, bool)> = Vec::new();
    let mut set = |name: &'static str, flag: bool| match flags.iter_mut().find(|(own, _)| *own == name) {
        Some((_, own)) => *own = flag,
        None => flags.push((name, flag)),
    };
    if byte_level {
        set("bos", false);
        set("eos", false);
    }
    let (first, last) = ends(stated);
    if first.is_some() {
        set("bos", true);
    }
    if last.is_some() {
        set("eos", true);
    }
    if let Some(flag) = stated.adds("sep").filter(|_| has_separator && (first.is_some() || last.is_some())) {
        set("sep", flag);
    }
    // `tokenizer_config.json` states every flag, which counts if the post-processor does not.
    for (name, _) in key::FLAGS {
        if let Some(flag) = stated.adds(name).filter(|_| !flags.iter().any(|(own, _)| *own == name)) {
            flags.push((name, flag));
        }
    }
    flags
}

/// Returns a template with the tokens before and after a text; `None` if there are none.
fn template(stated: &Stated, has_separator: bool) -> Option<Value> {
    let (first, last) = ends(stated);
    if first.is_none() && last.is_none() {
        return None;
    }
    let special = |text: &str, type_id: u8| json!({"SpecialToken": {"id": text, "type_id": type_id}});
    let sequence = |name: &str, type_id: u8| json!({"Sequence": {"id": name, "type_id": type_id}});
    let separator = stated.text_of("sep").or_else(|| stated.text_of("eos"));
    let by_default = (stated.model == key::model::WORD_PIECE).then_some(false);
    let adds_separator = stated.adds("sep").or(by_default).filter(|_| has_separator);
    let between: Vec<&str> = match (adds_separator, last) {
        (None, _) => Vec::new(),
        (Some(false), Some(last)) => vec![last],
        (Some(false), None) => first.into_iter().collect(),
        (Some(true), None) => separator.into_iter().collect(),
        (Some(true), Some(last)) => vec![last, separator.unwrap_or(last)],
    };
    let mut single: Vec<Value> = first.iter().map(|text| special(text, 0)).collect();
    single.push(sequence("A", 0));
    let mut pair = single.clone();
    pair.extend(between.iter().map(|text| special(text, 0)));
    pair.push(sequence("B", 1));
    single.extend(last.iter().map(|text| special(text, 0)));
    pair.extend(last.iter().map(|text| special(text, 1)));
    let mut specials = serde_json::Map::new();
    for text in first.iter().chain(&last).chain(&between) {
        let id = stated.tokens.iter().position(|token| token.text == **text);
        specials.insert((*text).to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
    }
    Some(json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": specials}))
}
