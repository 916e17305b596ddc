//! What the configuration beside a checkpoint states of its quantized weights.

use crate::compressed;
use crate::fp8;
use crate::gptq;
use crate::mlx;
use crate::stated::Stated;
use ckpt_api::{Input, Limits, Result};
use ckpt_engine::source::Configuration;
use serde_json::Value;

/// Files beside a checkpoint that state how it is quantized; older repositories of GPTQ have the second.
const FILES: [&str; 2] = ["config.json", "quantize_config.json"];
/// Where `config.json` states it.
const KEYS: [&str; 4] =
    ["quantization_config", "compression_config", "text_config.quantization_config", "quantization"];
/// Names of the methods, for people.
pub(crate) const KNOWN: [&str; 10] = [
    "gptq",
    "awq",
    "bitsandbytes",
    "compressed-tensors",
    "fp8",
    "modelopt",
    "mxfp4",
    "hqq",
    "torchao",
    "the quantization of MLX",
];

/// What a configuration states.
pub(crate) struct Config {
    pub(crate) method: Method,
    file: String,
}

/// How weights are quantized.
pub(crate) enum Method {
    /// Nothing is stated.
    None,
    Gptq(gptq::Settings),
    Awq(gptq::Settings),
    BitsAndBytes,
    CompressedTensors(compressed::Settings),
    /// Floats of 8 bits, with a scale for each block of rows and columns.
    Fp8 {
        block: [u64; 2],
    },
    ModelOpt,
    Mxfp4,
    Mlx(mlx::Settings),
    Hqq,
    TorchAo,
    /// A method that nobody here knows.
    Unknown(String),
}

impl Config {
    /// Reads what is stated beside an input.
    ///
    /// # Errors
    /// Whatever keeps the file from being read; [`ckpt_api::Kind::Unsupported`] for a variant of a method that is not known.
    pub(crate) fn beside(input: &Input, limits: &Limits) -> Result<Self> {
        for name in FILES {
            let Some(configuration) = Configuration::beside(input, &[name.to_owned()], limits)? else {
                continue;
            };
            let file = input.display(name);
            let own = match name {
                "config.json" => KEYS.iter().find_map(|key| configuration.get(key)?.as_object()),
                _ => configuration.root().as_object(),
            };
            if let Some(own) = own {
                let fields = Stated { object: own, file: &file };
                let method = method(&fields, name != "config.json", limits)?;
                return Ok(Config { method, file });
            }
        }
        Ok(Config { method: Method::None, file: String::new() })
    }

    /// The file that states it, for people.
    pub(crate) fn shown(&self) -> &str {
        &self.file
    }
}

fn method(stated: &Stated<'_>, is_gptq: bool, limits: &Limits) -> Result<Method> {
    let name = stated.text("quant_method")?;
    match name.map(|name| name.to_ascii_lowercase()).as_deref() {
        Some("gptq") => gptq::Settings::gptq(stated).map(Method::Gptq),
        Some("awq") => gptq::Settings::awq(stated).map(Method::Awq),
        Some("auto-round" | "auto_round" | "intel/auto-round") => auto_round(stated),
        Some("bitsandbytes") => Ok(Method::BitsAndBytes),
        Some("compressed-tensors") => {
            compressed::Settings::new(stated, limits).map(Method::CompressedTensors)
        }
        Some("fp8" | "fbgemm_fp8" | "fine_grained_fp8") => Ok(Method::Fp8 { block: fp8_block(stated)? }),
        Some("modelopt" | "modelopt_fp4") => Ok(Method::ModelOpt),
        Some("mxfp4") => Ok(Method::Mxfp4),
        Some("hqq") => Ok(Method::Hqq),
        Some("torchao") => Ok(Method::TorchAo),
        Some(other) => Ok(Method::Unknown(other.to_owned())),
        None if is_gptq => gptq::Settings::gptq(stated).map(Method::Gptq),
        None if stated.object.contains_key("config_groups") => {
            compressed::Settings::new(stated, limits).map(Method::CompressedTensors)
        }
        None if stated.object.contains_key("group_size") => mlx::Settings::new(stated).map(Method::Mlx),
        None if stated.object.contains_key("load_in_4bit") => Ok(Method::BitsAndBytes),
        None => Ok(Method::None),
    }
}

/// AutoRound packs as GPTQ or AWQ do.
fn auto_round(stated: &Stated<'_>) -> Result<Method> {
    let format = stated.text("packing_format")?.unwrap_or("auto_round:auto_gptq");
    match format.rsplit(':').next() {
        Some("auto_gptq" | "gptq") => gptq::Settings::gptq(stated).map(Method::Gptq),
        Some("auto_awq" | "awq") => gptq::Settings::awq(stated).map(Method::Awq),
        _ => Ok(Method::Unknown(format!("auto-round with the packing format {format}"))),
    }
}

fn fp8_block(stated: &Stated<'_>) -> Result<[u64; 2]> {
    match stated.object.get("weight_block_size") {
        None | Some(Value::Null) => Ok(fp8::BLOCK),
        Some(Value::Array(lens)) => {
            match lens.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>().as_deref() {
                Some([rows, columns]) if *rows > 0 && *columns > 0 => Ok([*rows, *columns]),
                _ => Err(stated.wrong("weight_block_size", "two lengths of at least 1")),
            }
        }
        Some(_) => Err(stated.wrong("weight_block_size", "two lengths of at least 1")),
    }
}
