//! A Hugging Face directory as another one: what belongs to the model comes along.

use crate::config::{Config, FILE};
use crate::formats::SAFETENSORS;
use crate::tied;
use ckpt_api::{DType, Error, Input, Limit, Limits, Result, first_few};
use ckpt_engine::formats::{CompanionFile, ModelRequest, ModelTranslation};
use serde_json::Value;

/// Files that belong to a model, wherever its tensors are.
const NAMES: [&str; 17] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "README.md",
    "NOTICE",
    "USE_POLICY.md",
];
/// How the names of licenses begin.
const LICENSE: &str = "LICENSE";
/// The folder of further chat templates.
const TEMPLATES: &str = "additional_chat_templates";
/// Endings of files that hold tensors, or say where they are.
const TENSORS: [&str; 9] =
    [".safetensors", ".bin", ".pt", ".pth", ".distcp", ".gguf", ".h5", ".msgpack", ".index.json"];
/// The option that states whose tensors a file of safetensors holds, and what transformers looks for.
const FORMAT: &str = "format";
const PYTORCH: &str = "pt";
/// Names in a note.
const SHOWN: usize = 6;

/// Returns what the conversion of a directory to a directory adds to its tensors.
///
/// # Errors
/// Whatever keeps a file from being read.
pub(crate) fn translate(request: &ModelRequest<'_>) -> Result<Option<ModelTranslation>> {
    let (input, limits) = (request.source.input(), request.source.limits());
    let config = Config::of_source(request.source)?.filter(|config| config.class().is_some());
    let Some(config) = config else { return Ok(None) };
    let mut translation = ModelTranslation::new(None);
    translation.options = request.options.to_vec();
    translation.dtype = request.dtype;
    tied::leave_out(request.source, &config, &mut translation)?;
    if request.target.id == SAFETENSORS && request.option(FORMAT).is_none() {
        translation.options.push((FORMAT.to_owned(), PYTORCH.to_owned()));
    }
    if !request.is_directory {
        return Ok(Some(translation));
    }
    let mut names = input.list("")?;
    names.sort();
    let is_hidden = |name: &str| name.starts_with('.');
    let (own, others): (Vec<&String>, Vec<&String>) =
        names.iter().filter(|name| !is_hidden(name) && *name != FILE).partition(|name| belongs(name));
    let templates = input.list(TEMPLATES).unwrap_or_default().into_iter();
    let templates: Vec<String> = templates.map(|name| format!("{TEMPLATES}/{name}")).collect();
    translation.files.push(CompanionFile { name: FILE.to_owned(), bytes: adapted(&config, request)? });
    for name in own.into_iter().chain(&templates) {
        translation.files.push(CompanionFile { name: name.clone(), bytes: read(input, name, limits)? });
    }
    let others = others.into_iter().filter(|name| !TENSORS.iter().any(|ending| name.ends_with(ending)));
    let others: Vec<&str> = others.map(String::as_str).collect();
    let copied = translation.files.iter().map(|file| file.name.as_str());
    translation.notes.push(format!("copied beside the tensors: {}", first_few(copied, NAMES.len())).into());
    if !others.is_empty() {
        translation.notes.push(
            format!("left out, because they are no part of the model: {}", first_few(others, SHOWN)).into(),
        );
    }
    Ok(Some(translation))
}

fn belongs(name: &str) -> bool {
    NAMES.contains(&name) || name.starts_with(LICENSE)
}

/// Reads a file of the directory.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for a file that is larger than a header may be.
pub(crate) fn read(input: &Input, name: &str, limits: &Limits) -> Result<Vec<u8>> {
    let named = |error: Error| error.file(input.display(name));
    let file = input.file(name)?;
    limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
    file.bytes(0, file.len())
}

/// Keys of the configuration that state how weights are quantized.
const QUANTIZATION: [&str; 3] = ["quantization_config", "compression_config", "quantization"];

/// The configuration, with the dtype of the output and the scheme of its weights, and without what no longer holds of these.
fn adapted(config: &Config, request: &ModelRequest<'_>) -> Result<Vec<u8>> {
    let (input, limits) = (request.source.input(), request.source.limits());
    let bytes = read(input, FILE, limits)?;
    let is_decoded = request.source.grouped().is_some();
    let name = request.dtype.and_then(torch_name);
    let (quantized, reconfigured) = (request.source.quantized(), request.source.reconfigured());
    if name.is_none() && !is_decoded && quantized.is_none() && reconfigured.is_empty() {
        return Ok(bytes);
    }
    let Ok(Value::Object(mut root)) = serde_json::from_slice::<Value>(&bytes) else { return Ok(bytes) };
    for key in QUANTIZATION.iter().filter(|_| is_decoded) {
        root.remove(*key);
        if let Some(Value::Object(text)) = root.get_mut("text_config") {
            text.remove(*key);
        }
    }
    let dtypes = ["dtype", "torch_dtype"].into_iter().filter_map(|key| Some((key, Value::from(name?))));
    for (key, value) in reconfigured.iter().map(|(key, value)| (key.as_str(), value.clone())).chain(dtypes) {
        if root.contains_key(key) {
            root.insert(key.to_owned(), value.clone());
        }
        if let Some(Value::Object(text)) = root.get_mut("text_config")
            && text.contains_key(key)
        {
            text.insert(key.to_owned(), value);
        }
    }
    if let Some(quantized) = quantized {
        let stated: serde_json::Map<String, Value> = serde_json::from_str(&quantized.config)
            .map_err(|error| Error::defect("what states a scheme is no JSON").found(error.to_string()))?;
        root.extend(stated);
    }
    let json = serde_json::to_vec_pretty(&root).map_err(|error| {
        Error::defect("the configuration cannot be written").file(config.shown()).found(error.to_string())
    })?;
    Ok([json, vec![b'\n']].concat())
}

/// What PyTorch calls a dtype.
pub(crate) fn torch_name(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F64 => Some("float64"),
        DType::F32 => Some("float32"),
        DType::F16 => Some("float16"),
        DType::Bf16 => Some("bfloat16"),
        _ => None,
    }
}
