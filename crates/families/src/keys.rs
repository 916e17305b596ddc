//! The keys of a GGUF file that describe a model, from its configuration.

use crate::config::{Config, insert};
use crate::family::{Compute, Family, Key, KeyType};
use crate::{pooling, rope, ssm};
use ckpt_api::{Error, MetadataMap, MetadataValue, Result};
use serde_json::Value;

/// The key that states, by number, which type most tensors have. The codec writes the number.
const FILE_TYPE: &str = "general.file_type";
/// The positions that models of Nomic take, and those that they were trained with.
pub(crate) const NOMIC_POSITIONS: u64 = 8192;
const NOMIC_TRAINED: u64 = 2048;
/// Prefixes of keys that do not begin with the architecture.
const ABSOLUTE: [&str; 2] = ["general.", "tokenizer."];

/// Adds the keys of an architecture: the common ones, and the family's own.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a key that the architecture needs and the configuration does not state.
pub(crate) fn add(family: &Family, common: &[Key], config: &Config, pairs: &mut MetadataMap) -> Result<()> {
    let common = common.iter().filter(|key| family.common && !family.omit.contains(&key.name));
    for key in common.chain(&family.keys) {
        add_key(key, &family.architecture, config, pairs)?;
    }
    Ok(())
}

fn add_key(key: &Key, architecture: &str, config: &Config, pairs: &mut MetadataMap) -> Result<()> {
    let is_absolute = ABSOLUTE.iter().any(|prefix| key.name.starts_with(prefix));
    let name = match is_absolute {
        true => key.name.clone(),
        false => format!("{architecture}.{}", key.name),
    };
    match key.compute {
        Some(Compute::Rope) => return rope::add(architecture, config, pairs),
        Some(Compute::FileType) => insert(pairs, FILE_TYPE.to_owned(), Some(0u32)),
        Some(Compute::RopeBase) => {
            let base = config.rope().number("rope_theta").or_else(|| key.default.as_ref()?.as_float());
            insert(pairs, name, base.map(|base| base as f32));
        }
        Some(Compute::HeadDim) => {
            let width = config.head_dim().ok_or_else(|| config.lacks(&["head_dim"], "a number"))?;
            insert(pairs, name, Some(small(width, config, &["head_dim"])?));
        }
        Some(Compute::HeadWidth) => {
            let width =
                config.head_width().ok_or_else(|| config.lacks(&["num_attention_heads"], "a number"))?;
            insert(pairs, name, Some(small(width, config, &["hidden_size"])?));
        }
        Some(Compute::OriginalContext) => insert(pairs, name, Some(rope::original_context(config)?)),
        Some(Compute::RotaryDim) => {
            let width = rope::rotary_dim(config)
                .ok_or_else(|| config.lacks(&["partial_rotary_factor"], "a number"))?;
            insert(pairs, name, Some(small(width, config, &["partial_rotary_factor"])?));
        }
        Some(Compute::SsmInner) => {
            insert(pairs, name, Some(small(ssm::inner(config)?, config, &["intermediate_size"])?));
        }
        Some(Compute::SsmRank) => {
            insert(pairs, name, Some(small(ssm::rank(config)?, config, &["time_step_rank"])?));
        }
        Some(Compute::SsmHeads) => {
            insert(pairs, name, Some(small(ssm::heads(config)?, config, &["head_dim"])?));
        }
        Some(Compute::Pooling) => insert(pairs, name, pooling::stated(config)),
        Some(Compute::NomicContext) => insert(pairs, name, Some(nomic_context(config)?)),
        Some(Compute::ClassifierPooling) => insert(pairs, name, pooling::of_classifier(config)?),
        Some(Compute::ExpertGating) => insert(pairs, name, gating(config)?),
        Some(Compute::Causal) => {
            let looks_ahead = config.first(&["is_causal"]).and_then(Value::as_bool) == Some(false);
            insert(pairs, name, looks_ahead.then_some(false));
        }
        None => insert(pairs, name, stated(key, config)?),
    }
    Ok(())
}

/// The value that the configuration states for a key; its default otherwise.
fn stated(key: &Key, config: &Config) -> Result<Option<MetadataValue>> {
    let Some(value) = config.first(&key.config) else {
        return match &key.default {
            Some(default) => Ok(Some(constant(key, default)?)),
            None if key.optional => Ok(None),
            None => Err(config.lacks(&key.config, "a value")),
        };
    };
    let wrong = || config.lacks(&key.config, key.kind.words());
    Ok(Some(match key.kind {
        KeyType::U32 => {
            let more = key.plus.iter().filter_map(|key| config.count(&[key]));
            let number =
                value.as_u64().and_then(|number| number.checked_mul(key.times.unwrap_or(1.0) as u64));
            let sum = number.and_then(|number| more.into_iter().try_fold(number, u64::checked_add));
            small(sum.ok_or_else(wrong)?, config, &key.config)?.into()
        }
        KeyType::F32 => {
            let number = value.as_f64().ok_or_else(wrong)?;
            ((key.times.unwrap_or(1.0) * number) as f32).into()
        }
        KeyType::Bool => match value.as_bool().ok_or_else(wrong)? {
            false if key.only_true => return Ok(None),
            flag => flag.into(),
        },
        KeyType::Text => value.as_str().ok_or_else(wrong)?.into(),
    }))
}

/// The value that a family's file states.
fn constant(key: &Key, value: &toml::Value) -> Result<MetadataValue> {
    let typed = match key.kind {
        KeyType::U32 => value.as_integer().and_then(|number| u32::try_from(number).ok()).map(Into::into),
        KeyType::F32 => {
            let number = value.as_float().or(value.as_integer().map(|number| number as f64));
            number.map(|number| (number as f32).into())
        }
        KeyType::Bool => value.as_bool().map(Into::into),
        KeyType::Text => value.as_str().map(Into::into),
    };
    typed.ok_or_else(|| {
        Error::defect("a default of a family has another type than its key")
            .field(&key.name)
            .found(format!("{value:?}"))
            .expected(key.kind.words())
    })
}

fn small<S: AsRef<str>>(number: u64, config: &Config, keys: &[S]) -> Result<u32> {
    u32::try_from(number).map_err(|_| config.lacks(keys, "at most 4294967295"))
}

/// The number of positions that a model of Nomic was trained with: it takes four times as many with scaled frequencies.
fn nomic_context(config: &Config) -> Result<u32> {
    let trained = config.count(&["max_trained_positions"]).unwrap_or(NOMIC_TRAINED);
    match config.count(&["n_positions"]) {
        Some(NOMIC_POSITIONS) if trained == NOMIC_TRAINED => small(trained, config, &["n_positions"]),
        _ => Err(config.lacks(&["n_positions"], "8192, and 2048 as max_trained_positions")),
    }
}

/// How experts are weighted, by number.
fn gating(config: &Config) -> Result<Option<u32>> {
    const KEYS: [&str; 4] = ["score_function", "scoring_func", "score_func", "moe_router_activation_func"];
    let Some(value) = config.first(&KEYS) else { return Ok(None) };
    match value.as_str() {
        Some("softmax") => Ok(Some(1)),
        Some("sigmoid") => Ok(Some(2)),
        _ => Err(config.lacks(&KEYS, "softmax or sigmoid")),
    }
}

impl KeyType {
    const fn words(self) -> &'static str {
        match self {
            KeyType::U32 => "a whole number of 32 bits",
            KeyType::F32 => "a number",
            KeyType::Bool => "true or false",
            KeyType::Text => "a text",
        }
    }
}
