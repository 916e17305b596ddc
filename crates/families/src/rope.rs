//! Rotary embeddings: the keys that state how frequencies are scaled, and the tensors of factors.

use crate::config::{Config, insert};
use ckpt_api::{Error, MetadataMap, Result};
use ckpt_engine::formats::ConstantTensor;
use serde_json::{Value, json};

/// The longest head that factors are computed for: those of models have a few hundred elements.
const MOST_HEAD_DIM: u64 = 1 << 16;
/// The tensors of factors.
pub(crate) const FREQUENCIES: &str = "rope_freqs.weight";
pub(crate) const LONG: &str = "rope_factors_long.weight";
pub(crate) const SHORT: &str = "rope_factors_short.weight";

/// Adds the keys of the scaling and of the bases.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a scaling that states no context.
pub(crate) fn add(architecture: &str, config: &Config, pairs: &mut MetadataMap) -> Result<()> {
    let rope = config.rope();
    let key = |name: &str| format!("{architecture}.rope.{name}");
    let number = |name: &str| rope.number(name).map(|number| number as f32);
    let factor = number("factor");
    match (rope.kind(), factor) {
        (Some("linear"), Some(_)) => {
            insert(pairs, key("scaling.type"), Some("linear"));
            insert(pairs, key("scaling.factor"), factor);
        }
        (Some("yarn"), Some(_)) => {
            insert(pairs, key("scaling.type"), Some("yarn"));
            insert(pairs, key("scaling.factor"), factor);
            insert(pairs, key("scaling.original_context_length"), Some(original_context(config)?));
            insert(pairs, key("scaling.yarn_ext_factor"), number("extrapolation_factor"));
            insert(
                pairs,
                key("scaling.yarn_attn_factor"),
                number("attention_factor").or(number("attn_factor")),
            );
            insert(pairs, key("scaling.yarn_beta_fast"), number("beta_fast"));
            insert(pairs, key("scaling.yarn_beta_slow"), number("beta_slow"));
        }
        (Some("longrope" | "su"), _) => insert(pairs, key("scaling.type"), Some("longrope")),
        _ => {}
    }
    if let Some(sections) = rope.list("mrope_section") {
        insert(pairs, key("dimension_sections"), Some(padded(sections)));
    }
    insert(pairs, key("freq_base"), number("rope_theta"));
    insert(pairs, key("freq_base_swa"), config.sliding_theta().map(|theta| theta as f32));
    Ok(())
}

/// Four integers of 32 bits.
fn padded(sections: &[Value]) -> Vec<i32> {
    let given = sections.iter().filter_map(|section| i32::try_from(section.as_i64()?).ok());
    given.chain([0; 4]).take(4).collect()
}

/// The positions that a model was first trained with; 4096, as in transformers, if they are not stated.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for another value than a number.
pub(crate) fn original_context(config: &Config) -> Result<u32> {
    const KEY: &str = "original_max_position_embeddings";
    let stated = Some(config.rope().number(KEY).unwrap_or(4096.0));
    let stated = stated.filter(|number| (0.0..=f64::from(u32::MAX)).contains(number));
    stated.map(|number| number as u32).ok_or_else(|| config.lacks(&[KEY], "a number of positions"))
}

/// The part of a head that is rotated.
pub(crate) fn rotary_dim(config: &Config) -> Option<u64> {
    let part = config.rope().number("partial_rotary_factor").unwrap_or(1.0);
    let rotated = config.head_dim()? as f64 * part;
    (0.0..=f64::from(u32::MAX)).contains(&rotated).then_some(rotated as u64)
}

/// The part of a head of `width` elements that gives `rotated` of them again when it is multiplied and cut off.
pub(crate) fn rotary_part(rotated: u64, width: u64) -> f64 {
    let part = rotated as f64 / width as f64;
    if ((part * width as f64) as u64) < rotated { part.next_up() } else { part }
}

/// Adds the scale of attention that goes with factors for long contexts.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if a context is not stated.
pub(crate) fn add_long_scale(architecture: &str, config: &Config, pairs: &mut MetadataMap) -> Result<()> {
    let rope = config.rope();
    let Some(kind) = rope.kind().filter(|_| rope.list("long_factor").is_some()) else { return Ok(()) };
    let most = config.count(&["max_position_embeddings"]).unwrap_or_default() as f64;
    let original = f64::from(original_context(config)?);
    let scale = most / original;
    let factor = match kind {
        "su" | "longrope" if scale > 1.0 => (1.0 + scale.ln() / original.ln()).sqrt(),
        "yarn" if scale > 1.0 => 0.1 * scale.ln() + 1.0,
        _ => 1.0,
    };
    insert(pairs, format!("{architecture}.rope.scaling.attn_factor"), Some(factor as f32));
    Ok(())
}

/// The factors that Llama 3's scaling multiplies each wavelength with; `None` for other scalings.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if the length of a head is not stated.
pub(crate) fn llama3_frequencies(config: &Config) -> Result<Option<ConstantTensor>> {
    let rope = config.rope();
    if rope.is_empty() || !rope.kind().is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")) {
        return Ok(None);
    }
    let width = config.head_dim().filter(|width| *width <= MOST_HEAD_DIM);
    let width =
        width.ok_or_else(|| config.lacks(&["head_dim"], &format!("a number up to {MOST_HEAD_DIM}")))?;
    let number = |key: &str, default: f64| rope.number(key).unwrap_or(default);
    let (base, factor) = (number("rope_theta", 10_000.0), number("factor", 8.0));
    let (low, high) = (number("low_freq_factor", 1.0), number("high_freq_factor", 4.0));
    let original = number("original_max_position_embeddings", 8192.0);
    // As the converter computes it: frequencies and wavelengths are 32-bit floats, and so is what is compared with them.
    let (longest, shortest) = ((original / low) as f32, (original / high) as f32);
    let factors = (0..width.div_ceil(2)).map(|pair| {
        let exponent = (2 * pair) as f32 / width as f32;
        let frequency = 1.0 / (base as f32).powf(exponent);
        let wavelength = (std::f64::consts::TAU as f32) / frequency;
        if wavelength < shortest {
            1.0
        } else if wavelength > longest {
            factor as f32
        } else {
            let smooth = (original as f32 / wavelength - low as f32) / ((high - low) as f32);
            1.0 / ((1.0 - smooth) / factor as f32 + smooth)
        }
    });
    let factors: Vec<f32> = factors.collect();
    ConstantTensor::vector(FREQUENCIES, &factors).map(Some)
}

/// The scaling of Llama 3 that gives these factors.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if none of those that models have gives them.
pub(crate) fn llama3_scaling(config: &Config, factors: &[f32]) -> Result<Value> {
    /// Contexts that models were first trained with, the usual one first.
    const CONTEXTS: [u32; 12] = [8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16_384, 32_768, 131_072];
    let most = factors.iter().copied().fold(1.0, f32::max);
    // The factor of high frequencies: that of Llama 3, and of Llama 4.
    let tries = [4.0, 1.0].into_iter().flat_map(|high| CONTEXTS.map(|context| (high, context)));
    for (high, context) in tries {
        let scaling = json!({
            "rope_type": "llama3", "factor": most, "low_freq_factor": 1.0, "high_freq_factor": high,
            "original_max_position_embeddings": context,
        });
        let tried = llama3_frequencies(&config.with("rope_scaling", scaling.clone()))?;
        if tried == Some(ConstantTensor::vector(FREQUENCIES, factors)?) {
            return Ok(scaling);
        }
    }
    Err(Error::unsupported("no configuration gives the factors of the rotary frequencies")
        .tensor(FREQUENCIES)
        .expected(
            "those of Llama 3's scaling, with the factors 1 and 4, or 1 and 1, of low and high frequencies",
        )
        .help("write a file, which keeps the tensor: name the output with an extension"))
}

/// The factors for long and for short contexts, if the configuration states them.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for factors that are not a number for each pair of rotated elements.
pub(crate) fn long_factors(config: &Config) -> Result<Vec<ConstantTensor>> {
    let rope = config.rope();
    let mut tensors = Vec::new();
    for (name, key) in [(LONG, "long_factor"), (SHORT, "short_factor")] {
        let Some(stated) = rope.list(key) else { continue };
        let numbers: Option<Vec<f32>> = stated.iter().map(|number| Some(number.as_f64()? as f32)).collect();
        let pairs = rotary_dim(config).map(|width| width / 2);
        let fits = numbers.filter(|numbers| Some(numbers.len() as u64) == pairs);
        let expected = format!("{} numbers", pairs.unwrap_or_default());
        let numbers = fits.ok_or_else(|| config.lacks(&[format!("rope_scaling.{key}")], &expected))?;
        tensors.push(ConstantTensor::vector(name, &numbers)?);
    }
    Ok(tensors)
}

/// Whether a tensor of a GGUF file follows from the keys or the configuration.
pub(crate) fn is_constant(name: &str) -> bool {
    [FREQUENCIES, LONG, SHORT].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    fn config(values: Value) -> Config {
        Config::of(values.as_object().unwrap_or(&Map::new()))
    }

    #[test]
    fn the_scaling_of_llama_3_is_found_from_its_factors() {
        let scaling = json!({
            "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        });
        let own = config(json!({"head_dim": 64, "rope_theta": 500000.0}));
        let factors = llama3_frequencies(&own.with("rope_scaling", scaling.clone())).unwrap().unwrap();
        let numbers: Vec<f32> =
            factors.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!((numbers.len(), numbers[0], numbers[31]), (32, 1.0, 32.0));
        assert_eq!(llama3_scaling(&own, &numbers).unwrap(), scaling);
        assert_eq!(llama3_scaling(&own, &[3.0; 32]).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
    }

    #[test]
    fn the_rotated_part_gives_as_many_elements_again() {
        for width in 1..=512u64 {
            for rotated in 0..=width {
                assert_eq!(
                    (rotary_part(rotated, width) * width as f64) as u64,
                    rotated,
                    "{rotated} of {width}"
                );
            }
        }
    }

    #[test]
    fn a_head_of_absurd_length_is_refused_before_memory_is_taken() {
        let hostile = config(json!({"head_dim": u64::MAX, "rope_scaling": {"rope_type": "llama3"}}));
        let error = llama3_frequencies(&hostile).unwrap_err();
        assert_eq!((error.kind(), error.context().field), (ckpt_api::Kind::Mapping, Some("head_dim")));
    }
}
