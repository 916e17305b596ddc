//! Special tokens: their ids, and which of them are added to a text.
//!
//! These are the rules of `SpecialVocab`, the class of llama.cpp's converter, its order of keys included.

use super::chat_template;
use super::source::Source;
use super::vocabulary::shown;
use crate::files::{Normalizer, Processor, TokenField, TokenizerConfig, TokenizerJson};
use crate::key;
use ckpt_api::{Error, MetadataMap, Result};

/// Appends the keys of ids, flags, chat templates and the normalizer. Ids from `vocab_size` on are left out, if it is given.
pub(super) fn write(
    source: &Source,
    vocab_size: Option<usize>,
    pairs: &mut MetadataMap,
    notes: &mut Vec<String>,
) -> Result<()> {
    let config = source.config.as_ref().map(|config| &config.value);
    let mut special = Special::new(config);
    if let Some(json) = &source.json {
        special.read_processor(&json.value);
    }
    if let Some(config) = config {
        special.read_config(config, source.json.as_ref().map(|json| &json.value), notes);
    }
    special.read_model_config(source)?;
    if let Some(json) = &source.json {
        special.read_fallbacks(source.request.fallback_tokens, &json.value);
    }
    for (name, id) in &special.ids {
        let Some((_, key)) = key::IDS.iter().find(|(own, _)| own == name) else { continue };
        match (u32::try_from(*id), vocab_size) {
            (Ok(id), None) => drop(pairs.insert(*key, id)),
            (Ok(id), Some(size)) if (id as usize) < size => drop(pairs.insert(*key, id)),
            _ => notes
                .push(format!("{name}_token_id is {id}, for which the vocabulary has no token: left out")),
        }
    }
    for (name, is_added) in &special.flags {
        if let Some((_, key)) = key::FLAGS.iter().find(|(own, _)| own == name) {
            pairs.insert(*key, *is_added);
        }
    }
    chat_template::write(source, pairs, notes)?;
    let normalizer = source.json.as_ref().and_then(|json| json.value.normalizer.as_ref());
    let (lowercase, strip_accents) = normalizer.map(normalization).unwrap_or_default();
    for (key, flag) in [(key::LOWERCASE, lowercase), (key::STRIP_ACCENTS, strip_accents)] {
        if let Some(flag) = flag {
            pairs.insert(key, flag);
        }
    }
    Ok(())
}

/// Returns whether a normalizer makes letters lowercase and removes accents, if it states it.
fn normalization(normalizer: &Normalizer) -> (Option<bool>, Option<bool>) {
    let (mut lowercase, mut strip_accents) = (None, None);
    let mut left = vec![normalizer];
    while let Some(normalizer) = left.pop() {
        match normalizer.kind.as_str() {
            "Lowercase" => lowercase = Some(true),
            "StripAccents" => strip_accents = Some(true),
            "BertNormalizer" => {
                lowercase = normalizer.lowercase.or(lowercase);
                strip_accents = normalizer.strip_accents.or(strip_accents);
            }
            "Sequence" => left.extend(normalizer.parts().iter().rev()),
            _ => {}
        }
    }
    (lowercase, strip_accents)
}

/// What the files say of special tokens. Lists are in the order of the keys.
#[derive(Debug)]
struct Special {
    /// The tokens of `tokenizer_config.json`, which the post-processor completes.
    fields: Vec<(&'static str, TokenField)>,
    has_config: bool,
    /// The tokens that are looked up.
    names: Vec<&'static str>,
    ids: Vec<(&'static str, u64)>,
    flags: Vec<(&'static str, bool)>,
}

impl Special {
    fn new(config: Option<&TokenizerConfig>) -> Self {
        let mut special = Special {
            fields: Vec::new(),
            has_config: config.is_some(),
            names: vec!["bos", "eos", "unk", "sep", "pad", "cls", "mask"],
            ids: Vec::new(),
            flags: Vec::new(),
        };
        let Some(config) = config else { return special };
        for (name, field) in [
            ("bos", &config.bos_token),
            ("eos", &config.eos_token),
            ("unk", &config.unk_token),
            ("sep", &config.sep_token),
            ("pad", &config.pad_token),
            ("cls", &config.cls_token),
            ("mask", &config.mask_token),
        ] {
            if let Some(field) = field {
                special.fields.push((name, field.clone()));
            }
        }
        special
    }

    fn field(&self, name: &str) -> Option<&TokenField> {
        self.fields.iter().find(|(own, _)| *own == name).map(|(_, field)| field)
    }

    fn is_stated(&self, name: &str) -> bool {
        self.field(name).is_some_and(TokenField::is_stated)
    }

    /// Whether the field is this text. An object that has the text is not.
    fn is_text(&self, name: &str, text: &str) -> bool {
        self.field(name).is_some_and(|field| field.is_text(text))
    }

    fn set_field(&mut self, name: &'static str, field: Option<TokenField>) {
        let Some(field) = field else { return };
        match self.fields.iter_mut().find(|(own, _)| *own == name) {
            Some((_, own)) => *own = field,
            None => self.fields.push((name, field)),
        }
    }

    fn set_flag(&mut self, name: &'static str, is_added: bool) {
        match self.flags.iter_mut().find(|(own, _)| *own == name) {
            Some((_, own)) => *own = is_added,
            None => self.flags.push((name, is_added)),
        }
    }

    fn has_flag(&self, name: &str) -> bool {
        self.flags.iter().any(|(own, _)| *own == name)
    }

    /// The first id of a token counts.
    fn set_id(&mut self, name: &'static str, id: u64) {
        if !self.ids.iter().any(|(own, _)| *own == name) {
            self.ids.push((name, id));
        }
    }

    fn read_processor(&mut self, json: &TokenizerJson) {
        for (name, other) in [("bos", "cls"), ("eos", "sep")] {
            if !self.is_stated(name) && self.is_stated(other) {
                self.set_field(name, self.field(other).cloned());
            }
        }
        for processor in json.post_processor.iter().flat_map(Processor::parts) {
            match processor.kind.as_str() {
                "ByteLevel" => {
                    for name in ["bos", "eos"] {
                        if !self.has_flag(name) {
                            self.set_flag(name, false);
                        }
                    }
                }
                "RobertaProcessing" => self.read_roberta(processor),
                "TemplateProcessing" => self.read_template(processor),
                _ => {}
            }
        }
    }

    fn read_roberta(&mut self, processor: &Processor) {
        ["bos", "eos", "sep"].into_iter().for_each(|name| self.set_flag(name, true));
        for (name, token, other) in [("cls", &processor.cls, "bos"), ("sep", &processor.sep, "eos")] {
            if self.has_config && !self.is_stated(name) {
                let stated = token.as_ref().map(|(text, _)| TokenField::Text(text.clone()));
                self.set_field(name, stated.or_else(|| self.field(other).cloned()));
            }
        }
    }

    fn read_template(&mut self, processor: &Processor) {
        let (first, last) = match processor.single() {
            [first, .., last] => (first.special(), last.special()),
            _ => (None, None),
        };
        if let Some(first) = first {
            let text = || Some(TokenField::Text(first.to_owned()));
            if !self.has_config {
                self.set_field("bos", text());
            } else if !self.is_text("bos", first) && !self.is_text("cls", first) {
                for name in ["bos", "cls"] {
                    if !self.is_stated(name) {
                        self.set_field(name, text());
                    }
                }
            }
            self.set_flag("bos", self.is_text("bos", first) || self.is_text("cls", first));
        }
        if let Some(last) = last {
            if self.has_config && !self.is_text("eos", last) {
                // The end of a turn, if the template ends texts with another token.
                if let Some(name) = ["eot", "eom"].into_iter().find(|name| !self.names.contains(name)) {
                    self.names.push(name);
                    self.set_field(name, self.field("eos").cloned());
                }
            }
            self.set_field("eos", Some(TokenField::Text(last.to_owned())));
            self.set_flag("eos", true);
        }
        self.read_pair(processor, first, last);
    }

    /// Whether a separator stands between two texts: `A [sep] [eos] B`.
    fn read_pair(&mut self, processor: &Processor, first: Option<&str>, last: Option<&str>) {
        let mut pair = processor.pair();
        if let [start, rest @ ..] = pair
            && first.is_some()
            && start.special() == first
        {
            pair = rest;
        }
        if let [rest @ .., end] = pair
            && last.is_some()
            && end.special() == last
        {
            pair = rest;
        }
        let [a, between @ .., b] = pair else { return };
        if (a.sequence(), b.sequence()) != (Some("A"), Some("B")) || between.is_empty() {
            return;
        }
        let is_separator = |special: Option<&str>| {
            special.is_some_and(|special| self.is_text("sep", special) || self.is_text("eos", special))
        };
        let first_adds = between.first().is_some_and(|piece| is_separator(piece.special())) && last.is_none();
        let second_adds = matches!(between, [_, second] if is_separator(second.special()));
        let adds = first_adds || second_adds;
        self.set_flag("sep", adds);
        if adds && self.has_config && !self.is_stated("sep") {
            self.set_field("sep", self.field("eos").cloned());
        }
    }

    fn read_config(
        &mut self,
        config: &TokenizerConfig,
        json: Option<&TokenizerJson>,
        notes: &mut Vec<String>,
    ) {
        for name in self.names.clone() {
            if let Some(adds) = config.adds(name)
                && !self.has_flag(name)
            {
                self.set_flag(name, adds);
            }
            let Some(content) = self.field(name).and_then(TokenField::content) else { continue };
            let Some(json) = json else { continue };
            match json.added_tokens.iter().find(|token| token.content == content) {
                Some(token) => self.set_id(name, token.id),
                None => notes.push(format!(
                    "{name}_token of tokenizer_config.json is not an added token of tokenizer.json: {}",
                    shown(content)
                )),
            }
        }
    }

    /// Takes the tokens that a family's files need not state.
    fn read_fallbacks(&mut self, tokens: &[(&str, &str)], json: &TokenizerJson) {
        for (name, text) in tokens {
            let known = key::IDS.iter().find(|(own, _)| own == name);
            let token = json.added_tokens.iter().find(|token| token.content == *text);
            if let (Some((name, _)), Some(token)) = (known, token) {
                self.set_id(name, token.id);
            }
        }
    }

    /// Reads `config.json`, which counts for tokens that the tokenizer's files do not state.
    fn read_model_config(&mut self, source: &Source) -> Result<()> {
        let config = source.request.config;
        for name in self.names.clone() {
            let field = format!("{name}_token_id");
            let at = |config: &serde_json::Value| config.get(&field).filter(|id| !id.is_null()).cloned();
            let id = at(config).or_else(|| at(config.get("text_config")?));
            match id.as_ref().and_then(serde_json::Value::as_i64) {
                Some(id) if id < 0 => {
                    return Err(Error::corrupt("the id of a special token is negative")
                        .file(source.directory.display("config.json"))
                        .field(field)
                        .found(id.to_string())
                        .expected("the id of a token"));
                }
                Some(id) => self.set_id(name, id.unsigned_abs()),
                None => {}
            }
        }
        Ok(())
    }
}
