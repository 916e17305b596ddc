//! A GGUF file as a Hugging Face directory: names, `config.json`, the files of the tokenizer.

use crate::config::{Config, FILE};
use crate::family::{Compute, ConstantKind, Family, Flag, Key, KeyType};
use crate::formats::GGUF;
use crate::to_gguf::{TYPE_COUNT, TYPES};
use crate::{card, catalog, exact, identity, keys, pooling, rope, ssm};
use ckpt_api::{Checkpoint, DType, Error, MetadataMap, MetadataValue, Result};
use ckpt_engine::formats::{CompanionFile, Formats, GraphForm, ModelRequest, ModelTranslation};
use ckpt_engine::source::{Configuration, Source};
use ckpt_engine::words::printable;
use serde_json::{Map, Value, json};

/// Keys of a GGUF file.
const ARCHITECTURE: &str = "general.architecture";
const NAME: &str = "general.name";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKENIZER: &str = "tokenizer.";
const SAMPLING: &str = "general.sampling.";
/// The tensor that a model has whose output is not its embedding.
const OUTPUT: &str = "output.weight";
const EMBEDDING: &str = "token_embd.weight";
/// Options of the codec that writes: what the header keeps, and whose tensors they are.
const METADATA: &str = "metadata";
const FORMAT: &str = "format";
/// The file of sampling settings.
const GENERATION: &str = "generation_config.json";

/// Returns what the conversion of a GGUF file to a directory adds to its tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a model whose keys lack what its configuration needs; [`ckpt_api::Kind::Unsupported`] for
/// factors of rotary frequencies that no configuration states.
pub(crate) fn translate(formats: &Formats, request: &ModelRequest<'_>) -> Result<Option<ModelTranslation>> {
    let Some((pairs, architecture)) = model(request.source.checkpoint()).filter(|_| request.is_directory)
    else {
        return Ok(None);
    };
    let Some(family) = family(pairs, architecture)? else {
        let note = format!(
            "architecture '{}' is not known: tensors keep their names; no config.json",
            printable(architecture)
        );
        let mut translation = unchanged(request);
        translation.notes.push(note.into());
        return Ok(Some(translation));
    };
    let mapping = family.mapping_of(request.source, formats)?.inverse()?;
    let mut translation = unchanged(request);
    translation.exclude.extend(constants(request.source));
    if request.dtype.is_none()
        && let Some((dtype, exact)) = exact::dtype(request.source, &mapping, &translation.exclude)?
    {
        (translation.dtype, translation.exact) = (Some(dtype), exact);
    }
    translation.mapping = Some(mapping);
    for (key, value) in [(FORMAT, "pt"), (METADATA, "none")] {
        if request.option(key).is_none() {
            translation.options.push((key.to_owned(), value.to_owned()));
        }
    }
    let directory = Directory { family: &family, pairs, source: request.source, dtype: request.dtype };
    translation.files = directory.files(&mut translation)?;
    Ok(Some(translation))
}

/// Whether a key is there, and not false.
fn is_true(pairs: &MetadataMap, key: &str) -> bool {
    pairs.get(key).is_some_and(|value| value.as_bool() != Some(false))
}

/// Returns the names and the configuration that a GGUF file has as a directory; `None` if it holds no model.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for an architecture that is not known; as [`translate`].
pub(crate) fn graph_form(formats: &Formats, source: &Source) -> Result<Option<GraphForm>> {
    let Some((pairs, architecture)) = model(source.checkpoint()) else { return Ok(None) };
    let family = family(pairs, architecture)?.ok_or_else(|| {
        Error::unsupported("no graph is known for the architecture of this model")
            .field(ARCHITECTURE)
            .found(format!("'{}'", printable(architecture)))
    })?;
    let directory = Directory { family: &family, pairs, source, dtype: None };
    Ok(Some(GraphForm {
        mapping: Some(family.mapping_of(source, formats)?.inverse()?),
        exclude: constants(source),
        configuration: Configuration::new("the keys of the file", Value::Object(directory.config()?)),
    }))
}

/// Whether the family of a GGUF file is known.
pub(crate) fn is_known(checkpoint: &Checkpoint) -> bool {
    // A test reads the files of all families, so this hides no error.
    model(checkpoint).is_some_and(|(pairs, architecture)| matches!(family(pairs, architecture), Ok(Some(_))))
}

/// The keys of a file, and its architecture; `None` if it holds no model.
fn model(checkpoint: &Checkpoint) -> Option<(&MetadataMap, &str)> {
    let pairs = checkpoint.metadata.namespace(GGUF)?;
    Some((pairs, text(pairs, ARCHITECTURE)?))
}

fn family(pairs: &MetadataMap, architecture: &str) -> Result<Option<Family>> {
    catalog::of_architecture(architecture, |key| is_true(pairs, key))
}

/// The tensors that follow from the configuration.
fn constants(source: &Source) -> Vec<String> {
    let names = source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str());
    names.filter(|name| rope::is_constant(name)).map(str::to_owned).collect()
}

/// A translation that changes nothing.
fn unchanged(request: &ModelRequest<'_>) -> ModelTranslation {
    let mut translation = ModelTranslation::new(None);
    translation.options = request.options.to_vec();
    translation.dtype = request.dtype;
    translation
}

fn text<'a>(pairs: &'a MetadataMap, key: &str) -> Option<&'a str> {
    pairs.get(key).and_then(MetadataValue::as_text)
}

/// What the files of a directory are made of.
struct Directory<'a> {
    family: &'a Family,
    pairs: &'a MetadataMap,
    source: &'a Source,
    /// What floating-point weights become.
    dtype: Option<DType>,
}

impl Directory<'_> {
    fn files(&self, translation: &mut ModelTranslation) -> Result<Vec<CompanionFile>> {
        let mut config = self.config()?;
        let mut files = Vec::new();
        if self.pairs.get(TOKENS).is_some() {
            let tokenizer = ckpt_tokenizers::from_gguf(self.pairs, self.source.limits())?;
            for (key, id) in tokenizer.config {
                config.entry(key).or_insert(Value::from(id));
            }
            translation.notes.extend(tokenizer.notes.into_iter().map(Into::into));
            files.extend(tokenizer.files.into_iter().map(|(name, bytes)| CompanionFile { name, bytes }));
        }
        let generation = self.generation();
        if !generation.is_empty() {
            files.push(CompanionFile { name: GENERATION.to_owned(), bytes: pretty(&generation)? });
        }
        if let Some(text) = identity::card_of(self.pairs, &self.source.checkpoint().tensors) {
            files.push(CompanionFile { name: card::FILE.to_owned(), bytes: text.into_bytes() });
        }
        if let Some(kind) = self.value(pooling::KEY).and_then(MetadataValue::as_u64) {
            files.extend(pooling::files(kind, &config)?);
        }
        files.insert(0, CompanionFile { name: FILE.to_owned(), bytes: pretty(&config)? });
        let made: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        translation.notes.push(format!("made from the keys: {}", made.join(", ")).into());
        translation.notes.extend(self.left_out().map(Into::into));
        translation.notes.extend(self.family.dropped_note().map(Into::into));
        Ok(files)
    }

    /// `config.json`.
    fn config(&self) -> Result<Map<String, Value>> {
        let mut config: Map<String, Value> = Map::new();
        let source = self.source;
        for (key, value) in &self.family.config {
            config.insert(key.clone(), value.clone());
        }
        config.insert("architectures".to_owned(), json!([self.family.class_of(source)]));
        config.insert("model_type".to_owned(), json!(self.family.model_type));
        let needs_width = |key: &Key| matches!(key.compute, Some(Compute::RotaryDim | Compute::HeadDim));
        let (last, first): (Vec<Key>, Vec<Key>) = self.keys()?.into_iter().partition(needs_width);
        for key in first.iter().chain(&last) {
            self.add(key, &mut config)?;
        }
        for (name, flag) in &self.family.flags {
            let value = match flag {
                Flag::Tensor(tensor) => json!(source.find(tensor).is_some()),
                Flag::Either { tensor, present, .. } if source.find(tensor).is_some() => present.clone(),
                Flag::Either { absent, .. } => absent.clone(),
            };
            config.insert(name.clone(), value);
        }
        if self.family.tokenizer.counts_types {
            put(
                &mut config,
                TYPES,
                self.pairs.get(TYPE_COUNT).and_then(MetadataValue::as_u64).map(Value::from),
            );
        }
        if let Some(name) = text(self.pairs, NAME) {
            config.insert("_name_or_path".to_owned(), json!(name));
        }
        let rows = source.tensor(EMBEDDING).ok().and_then(|embedding| embedding.shape().first().copied());
        if let Some(rows) = rows {
            config.insert("vocab_size".to_owned(), json!(rows));
        }
        config.insert("tie_word_embeddings".to_owned(), json!(source.find(OUTPUT).is_none()));
        if let Some(dtype) = self.dtype() {
            config.insert("torch_dtype".to_owned(), json!(dtype));
        }
        if let Some(scores) = &self.family.scores {
            let divisor = scores.divisor(&Config::of(&config)).map(Value::from);
            put(&mut config, &scores.config, divisor);
        }
        self.add_factors(&mut config)?;
        Ok(config)
    }

    fn keys(&self) -> Result<Vec<Key>> {
        let common = if self.family.common { catalog::common()? } else { Vec::new() };
        let common = common.into_iter().filter(|key| !self.family.omit.contains(&key.name));
        Ok(common.chain(self.family.keys.iter().cloned()).collect())
    }

    /// The value of a key of the architecture.
    fn value(&self, name: &str) -> Option<&MetadataValue> {
        self.pairs.get(&format!("{}.{name}", self.family.architecture))
    }

    /// Adds what a key says.
    fn add(&self, key: &Key, config: &mut Map<String, Value>) -> Result<()> {
        match key.compute {
            Some(Compute::Rope) => self.add_rope(config),
            Some(Compute::RopeBase) => {
                put(config, "rope_theta", self.value("rope.freq_base").and_then(number));
            }
            Some(Compute::OriginalContext) => {
                let stated = self.value(&key.name).and_then(MetadataValue::as_u64);
                put(config, "original_max_position_embeddings", stated.map(Value::from));
            }
            Some(Compute::RotaryDim) => self.add_rotary(&key.name, config),
            Some(Compute::ExpertGating) => {
                let gating = self.value(&key.name).and_then(MetadataValue::as_u64);
                let name = match gating {
                    Some(1) => Some("softmax"),
                    Some(2) => Some("sigmoid"),
                    _ => None,
                };
                put(config, "scoring_func", name.map(Value::from));
            }
            Some(Compute::SsmInner) => self.add_length(key, config, ssm::add_inner),
            Some(Compute::SsmRank) => self.add_length(key, config, ssm::add_rank),
            Some(Compute::SsmHeads) => self.add_length(key, config, ssm::add_heads),
            Some(Compute::NomicContext) => put(config, "n_positions", Some(json!(keys::NOMIC_POSITIONS))),
            Some(Compute::ClassifierPooling) => {
                let number = self.value(&key.name).and_then(MetadataValue::as_u64);
                let name = number.and_then(pooling::name_of_classifier);
                put(config, pooling::CLASSIFIER, name.map(Value::from));
            }
            Some(Compute::HeadDim) => self.add_head(&key.name, config),
            Some(Compute::HeadWidth | Compute::FileType | Compute::Causal | Compute::Pooling) => {}
            None => self.add_stated(key, config)?,
        }
        Ok(())
    }

    fn add_stated(&self, key: &Key, config: &mut Map<String, Value>) -> Result<()> {
        let Some(name) = self.family.names.get(&key.name).or(key.config.first()) else { return Ok(()) };
        let Some(value) = self.value(&key.name) else { return Ok(()) };
        let json = match key.kind {
            // llama.cpp stores no absence of a window but 0.
            KeyType::U32 if value.as_u64() == Some(0) && key.default.is_some() => Some(Value::Null),
            KeyType::U32 => value.as_u64().map(Value::from),

            KeyType::F32 => number(value),
            KeyType::Bool => value.as_bool().map(Value::from),
            KeyType::Text => value.as_text().map(Value::from),
        };
        let Some(json) = json else {
            return Err(Error::mapping("a key of the file has another type than its architecture's")
                .field(format!("{}.{}", self.family.architecture, key.name))
                .found(value.to_string().chars().take(80).collect::<String>()));
        };
        // A multiple of another value says nothing of that one.
        if key.times.is_none() || self.family.names.contains_key(&key.name) {
            config.insert(name.clone(), json);
        }
        Ok(())
    }

    /// The bases of the rotary frequencies, and how they are scaled.
    fn add_rope(&self, config: &mut Map<String, Value>) {
        for (key, usual) in [("rope.freq_base", "rope_theta"), ("rope.freq_base_swa", "rope_local_base_freq")]
        {
            let name = self.family.names.get(key).map_or(usual, String::as_str);
            put(config, name, self.value(key).and_then(number));
        }
        let kind = self.value("rope.scaling.type").and_then(MetadataValue::as_text);
        let Some(kind) = kind.filter(|kind| matches!(*kind, "linear" | "yarn")) else { return };
        let mut scaling = Map::new();
        scaling.insert("rope_type".to_owned(), json!(kind));
        for (key, name) in [
            ("factor", "factor"),
            ("yarn_ext_factor", "extrapolation_factor"),
            ("yarn_attn_factor", "attention_factor"),
            ("yarn_beta_fast", "beta_fast"),
            ("yarn_beta_slow", "beta_slow"),
        ] {
            put(&mut scaling, name, self.value(&format!("rope.scaling.{key}")).and_then(number));
        }
        let original = self.value("rope.scaling.original_context_length").and_then(MetadataValue::as_u64);
        put(&mut scaling, "original_max_position_embeddings", original.map(Value::from));
        config.insert("rope_scaling".to_owned(), Value::Object(scaling));
    }

    /// Adds what follows from a length.
    fn add_length(&self, key: &Key, config: &mut Map<String, Value>, add: fn(u64, &mut Map<String, Value>)) {
        if let Some(length) = self.value(&key.name).and_then(MetadataValue::as_u64) {
            add(length, config);
        }
    }

    /// The length of a head, if it is not that which the heads divide the embedding into.
    fn add_head(&self, key: &str, config: &mut Map<String, Value>) {
        let stated = self.value(key).and_then(MetadataValue::as_u64);
        let width = width(config);
        if config.get("head_dim").is_none() && stated.is_some() && stated != width {
            put(config, "head_dim", stated.map(Value::from));
        }
    }

    /// The part of a head that is rotated, if it is not the whole, or if the family has a name of its own for it: then
    /// transformers does not take the whole for what is not stated.
    fn add_rotary(&self, key: &str, config: &mut Map<String, Value>) {
        let rotated = self.value(key).and_then(MetadataValue::as_u64);
        let (Some(rotated), Some(width)) = (rotated, width(config).filter(|width| *width > 0)) else {
            return;
        };
        let name = self.family.names.get(key);
        if rotated != width || name.is_some() {
            let name = name.map_or("partial_rotary_factor", String::as_str);
            config.insert(name.to_owned(), json!(rope::rotary_part(rotated, width)));
        }
    }

    /// The scaling that the tensors of factors stand for.
    fn add_factors(&self, config: &mut Map<String, Value>) -> Result<()> {
        let source = self.source;
        if self.family.constants.contains(&ConstantKind::Llama3Frequencies)
            && source.find(rope::FREQUENCIES).is_some()
        {
            let factors = source.tensor(rope::FREQUENCIES)?.read::<f32>()?;
            let scaling = rope::llama3_scaling(&Config::of(config), &factors)?;
            config.insert("rope_scaling".to_owned(), scaling);
        }
        if self.family.constants.contains(&ConstantKind::LongFactors) && source.find(rope::LONG).is_some() {
            let numbers = |name: &str| source.tensor(name)?.read::<f32>();
            let scaling = json!({
                "type": "longrope", "long_factor": numbers(rope::LONG)?, "short_factor": numbers(rope::SHORT)?,
            });
            config.insert("rope_scaling".to_owned(), scaling);
        }
        Ok(())
    }

    /// What PyTorch calls the dtype of the weights.
    fn dtype(&self) -> Option<&'static str> {
        let tensors = &self.source.checkpoint().tensors;
        let first = tensors.iter().find(|tensor| tensor.shape.rank() > 1 && tensor.dtype.is_float());
        crate::companions::torch_name(self.dtype.or(first.map(|tensor| tensor.dtype)).unwrap_or(DType::F32))
    }

    /// What the file says of sampling.
    fn generation(&self) -> Map<String, Value> {
        let mut generation = Map::new();
        for (key, value) in self.pairs.iter() {
            let Some(name) = key.strip_prefix(SAMPLING) else { continue };
            let name = match name {
                "temp" => "temperature",
                "penalty_repeat" => "repetition_penalty",
                other => other,
            };
            put(&mut generation, name, value.as_i64().map(Value::from).or_else(|| number(value)));
        }
        generation
    }

    /// The keys that no file of the directory has a place for.
    fn left_out(&self) -> Option<String> {
        let own =
            ["architecture", "type", "name", "size_label", "file_type", "quantization_version", "alignment"];
        let is_own = |key: &str| key.strip_prefix("general.").is_some_and(|key| own.contains(&key));
        let prefix = format!("{}.", self.family.architecture);
        let is_told = |key: &str| {
            is_own(key)
                || identity::is_on_card(key)
                || key.starts_with(SAMPLING)
                || key.starts_with(TOKENIZER)
                || key.starts_with(&prefix)
        };
        let others: Vec<&str> = self.pairs.iter().map(|(key, _)| key).filter(|key| !is_told(key)).collect();
        let shown = ckpt_api::first_few(others.iter().copied(), 6);
        (!others.is_empty()).then(|| format!("keys that config.json has no place for: {shown}"))
    }
}

/// The length that the heads of a configuration divide its embedding into, or the one that it states.
fn width(config: &Map<String, Value>) -> Option<u64> {
    let count = |key: &str| config.get(key).and_then(Value::as_u64);
    count("head_dim").or_else(|| count("hidden_size")?.checked_div(count("num_attention_heads")?))
}

/// The shortest decimal number that is this float of 32 bits.
pub(crate) fn number(value: &MetadataValue) -> Option<Value> {
    match value {
        MetadataValue::F32(number) => number.to_string().parse::<f64>().ok().map(Value::from),
        other => other.as_f64().map(Value::from),
    }
}

fn put(config: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        config.insert(key.to_owned(), value);
    }
}

pub(crate) fn pretty(values: &impl serde::Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec_pretty(values)
        .map_err(|error| Error::defect("a configuration cannot be written").found(error.to_string()))?;
    Ok([json, vec![b'\n']].concat())
}
