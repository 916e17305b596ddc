//! The configuration of an adapter: `adapter_config.json`, as peft writes it.

use crate::pattern::Pattern;
use ckpt_api::{Error, Input, Limits, Result};
use ckpt_engine::source::Configuration;
use serde_json::Value;

/// The file's name.
pub(crate) const FILE: &str = "adapter_config.json";
/// The one kind of adapter that is known.
const LORA: &str = "LORA";
/// Ways to begin that change the base, so that the adapter belongs to another one.
const CHANGING: [&str; 4] = ["pissa", "olora", "corda", "loftq"];
/// What a module may have beside a product, and nobody here computes. Each is a key that is absent, `null`, `false` or empty otherwise.
const UNKNOWN: [&str; 6] = [
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "use_qalora",
    "alora_invocation_tokens",
    "arrow_config",
];

/// What is stated of an adapter.
#[derive(Debug, Default)]
pub(crate) struct LoraConfig {
    /// The file, for people.
    pub(crate) shown: String,
    /// The model that it was trained on.
    pub(crate) base: Option<String>,
    /// `None` if each product has a rank of its own.
    rank: Option<u64>,
    /// `None` if it is the rank of a product.
    alpha: Option<f64>,
    is_rank_stabilized: bool,
    /// Whether weights are stored with inputs as rows.
    pub(crate) fan_in_fan_out: bool,
    /// Whether rows of weights have a magnitude of their own.
    pub(crate) has_magnitudes: bool,
    /// Whether biases were trained, too.
    pub(crate) has_biases: bool,
    ranks: Vec<(Pattern, f64)>,
    alphas: Vec<(Pattern, f64)>,
    /// Modules that were trained as a whole.
    pub(crate) whole_modules: Vec<String>,
}

impl LoraConfig {
    /// Reads the file beside an input; `None` without it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for another kind of adapter, and for what such an adapter may have and nobody here
    /// computes; [`ckpt_api::Kind::Corrupt`] for a malformed file.
    pub(crate) fn beside(input: &Input, limits: &Limits) -> Result<Option<Self>> {
        let Some(found) = Configuration::beside(input, &[FILE.to_owned()], limits)? else { return Ok(None) };
        let shown = input.display(FILE);
        Self::parse(&found, shown.clone(), limits).map(Some).map_err(|error| error.file(shown))
    }

    fn parse(json: &Configuration, shown: String, limits: &Limits) -> Result<Self> {
        let kind = json.get("peft_type").and_then(Value::as_str);
        let kind =
            kind.ok_or_else(|| malformed("peft_type", json.get("peft_type"), "the kind of adapter"))?;
        if !kind.eq_ignore_ascii_case(LORA) {
            return Err(Error::unsupported("adapters of this kind cannot be merged")
                .field("peft_type")
                .found(kind)
                .expected(LORA));
        }
        if let Some((key, found)) = UNKNOWN.iter().find_map(|key| Some((*key, stated(json, key)?))) {
            return Err(Error::unsupported("the adapter has parts that cannot be merged")
                .field(key)
                .found(found.to_string()));
        }
        let beginning = json.get("init_lora_weights").and_then(Value::as_str).unwrap_or_default();
        if CHANGING.iter().any(|changing| beginning.to_ascii_lowercase().starts_with(changing)) {
            return Err(Error::unsupported(
                "the adapter changed the weights of its base when its training began",
            )
            .field("init_lora_weights")
            .found(beginning)
            .help(
                "save it in peft with path_initial_model_for_weight_conversion, which makes it a plain LoRA",
            ));
        }
        let rank = json.number("r").filter(|rank| *rank > 0);
        let rank = rank.ok_or_else(|| malformed("r", json.get("r"), "a rank of at least 1"))?;
        let bias = json.get("bias").and_then(Value::as_str).unwrap_or("none");
        if !["none", "all", "lora_only"].contains(&bias) {
            return Err(malformed("bias", json.get("bias"), "none, all or lora_only"));
        }
        Ok(LoraConfig {
            shown,
            base: json.get("base_model_name_or_path").and_then(Value::as_str).map(str::to_owned),
            rank: Some(rank),
            alpha: Some(number(json.get("lora_alpha"), "lora_alpha")?.unwrap_or(8.0)),
            is_rank_stabilized: flag(json, "use_rslora")?,
            fan_in_fan_out: flag(json, "fan_in_fan_out")?,
            has_magnitudes: flag(json, "use_dora")?,
            has_biases: bias != "none",
            ranks: patterns(json, "rank_pattern", limits)?,
            alphas: patterns(json, "alpha_pattern", limits)?,
            whole_modules: names(json, "modules_to_save")?,
        })
    }

    /// Of an adapter without a file: its tensors say what there is.
    pub(crate) fn of_tensors(shown: String) -> Self {
        LoraConfig { shown, ..LoraConfig::default() }
    }

    /// The rank of a module's product; `None` if it is that of its factors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if several patterns with other values match the module.
    pub(crate) fn rank(&self, module: &str) -> Result<Option<u64>> {
        Ok(self.of_pattern("rank_pattern", &self.ranks, module)?.map_or(self.rank, |rank| Some(rank as u64)))
    }

    /// By what the product of a module, which has this rank, is multiplied. `stated` is the number beside its factors.
    ///
    /// # Errors
    /// As [`LoraConfig::rank`].
    pub(crate) fn scale(&self, module: &str, rank: u64, stated: Option<f64>) -> Result<f64> {
        let rank = rank as f64;
        let alpha = self.of_pattern("alpha_pattern", &self.alphas, module)?.or(stated).or(self.alpha);
        let alpha = alpha.unwrap_or(rank);
        Ok(alpha / if self.is_rank_stabilized { rank.sqrt() } else { rank })
    }

    fn of_pattern(&self, key: &str, patterns: &[(Pattern, f64)], module: &str) -> Result<Option<f64>> {
        let mut values =
            patterns.iter().filter(|(pattern, _)| pattern.matches(module)).map(|(_, value)| *value);
        let first = values.next();
        match values.find(|value| Some(*value) != first) {
            // peft takes the first that the file has; JSON has no order.
            Some(_) => {
                Err(Error::unsupported("several patterns of the adapter match a module, with other values")
                    .file(self.shown.as_str())
                    .field(key)
                    .found(format!("'{module}'")))
            }
            None => Ok(first),
        }
    }

    /// Whether a module was trained as a whole.
    pub(crate) fn is_whole(&self, module: &str) -> bool {
        let ends = |name: &String| module.strip_suffix(name.as_str());
        self.whole_modules.iter().filter_map(ends).any(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

/// The value of a key that says something.
fn stated<'j>(json: &'j Configuration, key: &str) -> Option<&'j Value> {
    json.get(key).filter(|value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
        _ => true,
    })
}

fn flag(json: &Configuration, key: &str) -> Result<bool> {
    match json.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        other => Err(malformed(key, other, "true or false")),
    }
}

fn number(value: Option<&Value>, key: &str) -> Result<Option<f64>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(malformed(key, Some(value), "a number")),
        },
    }
}

fn names(json: &Configuration, key: &str) -> Result<Vec<String>> {
    match json.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            Ok(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        other => Err(malformed(key, other, "a list of modules")),
    }
}

fn patterns(json: &Configuration, key: &str, limits: &Limits) -> Result<Vec<(Pattern, f64)>> {
    let entries = match json.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(entries)) => entries,
        other => return Err(malformed(key, other, "patterns of modules, each with a number")),
    };
    let entry = |(pattern, value): (&String, &Value)| {
        let value = number(Some(value), key)?.filter(|number| *number > 0.0 && *number <= 1e9);
        let value = value.ok_or_else(|| malformed(key, entries.get(pattern), "a number above 0"))?;
        Ok((Pattern::new(pattern, limits).map_err(|error| error.field(key))?, value))
    };
    entries.iter().map(entry).collect()
}

fn malformed(key: &str, found: Option<&Value>, expected: &str) -> Error {
    let found = found.map_or("nothing".to_owned(), Value::to_string);
    Error::corrupt("the configuration of the adapter is malformed").field(key).found(found).expected(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(json: Value) -> Result<LoraConfig> {
        LoraConfig::parse(&Configuration::new(FILE, json), FILE.to_owned(), &Limits::default())
    }

    #[test]
    fn the_scale_is_alpha_over_the_rank_or_its_root() {
        let scale = |json| {
            let config = parse(json).unwrap();
            let rank = config.rank("model.q_proj").unwrap().unwrap();
            config.scale("model.q_proj", rank, None).unwrap()
        };
        assert_eq!(scale(json!({"peft_type": "LORA", "r": 16, "lora_alpha": 32})), 2.0);
        assert_eq!(scale(json!({"peft_type": "LORA", "r": 16, "lora_alpha": 32, "use_rslora": true})), 8.0);
        let patterns = json!({"peft_type": "LORA", "r": 16, "lora_alpha": 32,
            "rank_pattern": {"q_proj": 8}, "alpha_pattern": {"model.*_proj": 4}});
        assert_eq!(scale(patterns), 0.5);
        let both = json!({"peft_type": "LORA", "r": 16, "alpha_pattern": {"q_proj": 4, "model.q_proj": 8}});
        assert!(parse(both).unwrap().scale("model.q_proj", 16, None).is_err(), "nothing says which counts");
    }

    #[test]
    fn what_cannot_be_merged_is_refused_by_name() {
        let error = |key: &str, value: Value| {
            let mut json = json!({"peft_type": "LORA", "r": 16});
            json[key] = value;
            parse(json).unwrap_err().to_string()
        };
        assert!(error("peft_type", json!("IA3")).contains("IA3"));
        assert!(error("init_lora_weights", json!("pissa_niter_4")).contains("pissa_niter_4"));
        for key in UNKNOWN {
            assert!(error(key, json!([1])).contains(key), "{key}");
        }
        assert!(
            parse(json!({"peft_type": "LORA", "r": 16, "use_qalora": false, "arrow_config": null})).is_ok()
        );
    }

    #[test]
    fn a_malformed_configuration_is_refused() {
        for (key, value) in [
            ("peft_type", json!(1)),
            ("r", json!(0)),
            ("r", json!("16")),
            ("lora_alpha", json!("x")),
            ("bias", json!("some")),
            ("use_rslora", json!(1)),
            ("rank_pattern", json!([])),
            ("rank_pattern", json!({"q": -1})),
            ("modules_to_save", json!("lm_head")),
        ] {
            let mut json = json!({"peft_type": "LORA", "r": 16});
            json[key] = value;
            assert_eq!(parse(json).unwrap_err().kind(), ckpt_api::Kind::Corrupt, "{key}");
        }
    }

    #[test]
    fn a_whole_module_is_named_by_its_end() {
        let config =
            parse(json!({"peft_type": "LORA", "r": 1, "modules_to_save": ["lm_head", "embed_tokens"]}))
                .unwrap();
        assert!(config.is_whole("lm_head") && config.is_whole("model.embed_tokens"));
        assert!(!config.is_whole("model.my_lm_head"));
    }
}
