//! A GGUF file as a Hugging Face directory: names, `config.json`, the files of the tokenizer.

use crate::config::{Config, DefaultValue, FILE, pretty};
use crate::family::{Compute, ConstantKind, Family, Flag, Key, KeyType};
use crate::formats::GGUF;
use crate::to_gguf::{TYPE_COUNT, TYPES};
use crate::{card, catalog, exact, identity, keys, pooling, rope, ssm};
use ckpt_api::{Checkpoint, DType, Error, MetadataMap, MetadataValue, Result, Tensor};
use ckpt_engine::formats::{CompanionFile, Formats, GraphForm, ModelRequest, ModelTranslation};
use ckpt_engine::mapping::Mapping;
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
/// The key of what the rotated part of attention is scaled with, for long contexts.
const LOG_MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";
/// Keys of rotary embeddings whose values `config.json` gets, without the architecture.
const ROPE: [&str; 10] = [
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
];
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
    let tensors = &request.source.checkpoint().tensors;
    let Some(family) = family(pairs, tensors, architecture)? else {
        let note = format!(
            "architecture '{}' is not known: tensors keep their names; no config.json",
            printable(architecture)
        );
        let mut translation = unchanged(request);
        translation.notes.push(note.into());
        return Ok(Some(translation));
    };
    let mut translation = unchanged(request);
    translation.exclude.extend(constants(request.source));
    let directory = Directory { family: &family, pairs, source: request.source, dtype: request.dtype };
    let config = directory.config()?;
    let mapping = with_lengths(&family.mapping_of(request.source, formats)?.inverse()?, &config)?;
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
    translation.files = directory.files(config, &mut translation)?;
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
    let family = family(pairs, &source.checkpoint().tensors, architecture)?.ok_or_else(|| {
        Error::unsupported("no graph is known for the architecture of this model")
            .field(ARCHITECTURE)
            .found(format!("'{}'", printable(architecture)))
    })?;
    let directory = Directory { family: &family, pairs, source, dtype: None };
    let config = directory.config()?;
    Ok(Some(GraphForm {
        mapping: Some(with_lengths(&family.mapping_of(source, formats)?.inverse()?, &config)?),
        exclude: constants(source),
        configuration: Configuration::new("the keys of the file", Value::Object(config)),
    }))
}

/// Whether the family of a GGUF file is known.
pub(crate) fn is_known(checkpoint: &Checkpoint) -> bool {
    // A test reads the files of all families, so this hides no error.
    let is_known = |(pairs, architecture)| {
        family(pairs, &checkpoint.tensors, architecture).is_ok_and(|family| family.is_some())
    };
    model(checkpoint).is_some_and(is_known)
}

/// The keys of a file, and its architecture; `None` if it holds no model.
fn model(checkpoint: &Checkpoint) -> Option<(&MetadataMap, &str)> {
    let pairs = checkpoint.metadata.namespace(GGUF)?;
    Some((pairs, text(pairs, ARCHITECTURE)?))
}

fn family(pairs: &MetadataMap, tensors: &[Tensor], architecture: &str) -> Result<Option<Family>> {
    let has_tensor = |end: &str| tensors.iter().any(|tensor| tensor.name.ends_with(end));
    catalog::of_architecture(architecture, |key| is_true(pairs, key), has_tensor)
}

/// The mapping with the lengths that the configuration states.
fn with_lengths(mapping: &Mapping, config: &Map<String, Value>) -> Result<Mapping> {
    mapping.clone().with_configuration(|key| config.get(key).and_then(Value::as_u64))
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
    fn files(
        &self,
        mut config: Map<String, Value>,
        translation: &mut ModelTranslation,
    ) -> Result<Vec<CompanionFile>> {
        let mut files = Vec::new();
        if self.pairs.get(TOKENS).is_some() {
            let tokenizer = ckpt_tokenizers::from_gguf(&self.stated_tokens(), self.source.limits())?;
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
        translation.notes.extend(self.left_out()?.map(Into::into));
        translation.notes.extend(self.family.dropped_note().map(Into::into));
        Ok(files)
    }

    /// The keys without special tokens that the family's files need not state. The end of a text stays: transformers has no
    /// other place for it.
    fn stated_tokens(&self) -> MetadataMap {
        let tokens = self.pairs.get(TOKENS).and_then(MetadataValue::as_list).unwrap_or_default();
        let mut stated = self.pairs.clone();
        for (name, text) in self.family.tokenizer.tokens.iter().filter(|(name, _)| name != "eos") {
            let Some(key) = ckpt_tokenizers::id_key(name) else { continue };
            let id = self.pairs.get(key).and_then(MetadataValue::as_u64);
            let id = id.and_then(|id| usize::try_from(id).ok());
            if id.and_then(|id| tokens.get(id)?.as_text()) == Some(text) {
                stated.remove(key);
            }
        }
        stated
    }

    /// `config.json`.
    fn config(&self) -> Result<Map<String, Value>> {
        let mut config: Map<String, Value> = Map::new();
        let source = self.source;
        for (key, value) in &self.family.config {
            config.insert(key.clone(), value.clone());
        }
        let class = self.family.saved_as.as_deref().or(self.family.class_of(source));
        config.insert("architectures".to_owned(), json!([class]));
        config.insert("model_type".to_owned(), json!(self.family.model_type));
        for implied in &self.family.implied {
            if self.value(&implied.key).and_then(MetadataValue::as_u64) == Some(implied.value) {
                config.extend(implied.config.clone());
            }
        }
        let needs_width = |key: &Key| matches!(key.compute, Some(Compute::RotaryDim | Compute::HeadDim));
        let (last, first): (Vec<Key>, Vec<Key>) = self.keys()?.into_iter().partition(needs_width);
        // A sum says what one value is once the others are known.
        let (sums, first): (Vec<Key>, Vec<Key>) = first.into_iter().partition(|key| !key.plus.is_empty());
        for key in first.iter().chain(&sums).chain(&last) {
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
        for (key, default) in &self.family.defaults {
            let value = match default {
                DefaultValue::Like { like } => config.get(like).cloned(),
                DefaultValue::Value(value) => Some(value.clone()),
            };
            if let Some(value) = value {
                config.entry(key.clone()).or_insert(value);
            }
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
        let is_own = |name: &str| self.family.keys.iter().any(|key| key.name == name);
        let common = common.into_iter();
        let common = common.filter(|key| !self.family.omit.contains(&key.name) && !is_own(&key.name));
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
        let Some(value) = self.value(&key.name) else {
            if key.nullable {
                config.insert(name.clone(), Value::Null);
            }
            return Ok(());
        };
        let json = match key.kind {
            KeyType::U32 if value.as_u64() == Some(0) && key.nullable => Some(Value::Null),
            KeyType::U32 => {
                let others = key.plus.iter().filter_map(|key| config.get(key)?.as_u64());
                let left = value.as_u64().and_then(|sum| others.into_iter().try_fold(sum, u64::checked_sub));
                left.map(Value::from)
            }
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
        // llama.cpp knows models whose two scales are equal.
        let is_scale = |key: &&Key| key.name == LOG_MULTIPLIER && key.times.is_some();
        let times = self.family.keys.iter().find(is_scale).and_then(|key| key.times);
        let multiplier = times.and_then(|times| Some(self.value(LOG_MULTIPLIER)?.as_f64()? / times));
        let scale = multiplier.and_then(|scale| number(&MetadataValue::F32(scale as f32)));
        put(&mut scaling, "mscale", scale.clone());
        put(&mut scaling, "mscale_all_dim", scale);
        scaling.extend(self.family.rope_scaling.clone());
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
        let has_default = self.family.defaults.contains_key("partial_rotary_factor");
        if rotated != width || name.is_some() || has_default {
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
    fn left_out(&self) -> Result<Option<String>> {
        let own =
            ["architecture", "type", "name", "size_label", "file_type", "quantization_version", "alignment"];
        let is_own = |key: &str| key.strip_prefix("general.").is_some_and(|key| own.contains(&key));
        let keys = self.keys()?;
        let prefix = format!("{}.", self.family.architecture);
        let is_of_model = |key: &str| {
            let name = key.strip_prefix(&prefix);
            name.is_some_and(|name| ROPE.contains(&name) || keys.iter().any(|key| key.name == name))
        };
        let is_told = |key: &str| {
            is_own(key)
                || identity::is_on_card(key)
                || key.starts_with(SAMPLING)
                || key.starts_with(TOKENIZER)
                || is_of_model(key)
        };
        let others: Vec<&str> = self.pairs.iter().map(|(key, _)| key).filter(|key| !is_told(key)).collect();
        let shown = ckpt_api::first_few(others.iter().copied(), 6);
        Ok((!others.is_empty()).then(|| format!("keys that config.json has no place for: {shown}")))
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
