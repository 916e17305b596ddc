//! Pooling: how sentence-transformers makes one vector of those of the tokens.

use crate::config::{Config, pretty};
use ckpt_api::{Error, Result};
use ckpt_engine::formats::CompanionFile;
use ckpt_engine::source::{Configuration, Source};
use serde_json::{Map, Value, json};

/// The key of a GGUF file, and the value of the configuration that stands for the files of sentence-transformers.
pub(crate) const KEY: &str = "pooling_type";
/// The value of the configuration that says how a classifier pools.
pub(crate) const CLASSIFIER: &str = "classifier_pooling";
/// The list of modules, and the folder of the one that is written here.
const MODULES: &str = "modules.json";
const FOLDER: &str = "1_Pooling";
/// The number of each kind in GGUF, its name in newer files, and its flag in older ones.
const KINDS: [(u64, &str, &str); 3] = [
    (1, "mean", "pooling_mode_mean_tokens"),
    (2, "cls", "pooling_mode_cls_token"),
    (3, "lasttoken", "pooling_mode_lasttoken"),
];

/// Adds what the files of sentence-transformers beside a checkpoint say.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for another kind than those of llama.cpp's converter; whatever keeps the files from being
/// read.
pub(crate) fn beside(config: Config, source: &Source) -> Result<Config> {
    let open = |name: String| Configuration::beside(source.input(), &[name], source.limits());
    let Some(modules) = open(MODULES.to_owned())? else { return Ok(config) };
    let folder = modules.root().as_array().into_iter().flatten().find_map(|module| {
        let is_pooling = module.get("type")?.as_str()?.ends_with("Pooling");
        module.get("path")?.as_str().filter(|_| is_pooling)
    });
    let Some(folder) = folder else { return Ok(config) };
    let name = format!("{folder}/config.json");
    let Some(file) = open(name.clone())? else { return Ok(config) };
    let is_set = |flag: &str| file.get(flag).and_then(Value::as_bool) == Some(true);
    let named = file.get("pooling_mode").and_then(Value::as_str);
    let flagged = KINDS.iter().find(|(_, _, flag)| is_set(flag));
    let kind = flagged.or_else(|| KINDS.iter().find(|(_, name, _)| named == Some(*name)));
    match kind {
        Some((number, ..)) => Ok(config.with(KEY, json!(number))),
        None => Err(Error::unsupported("llama.cpp has no key for this kind of pooling")
            .file(source.input().display(&name))
            .expected("pooling_mode_mean_tokens, pooling_mode_cls_token or pooling_mode_lasttoken")
            .help("move modules.json away: then the file states no pooling, and programs choose one")),
    }
}

/// The number that stands for the kind of pooling.
pub(crate) fn stated(config: &Config) -> Option<u32> {
    config.count(&[KEY]).and_then(|number| u32::try_from(number).ok())
}

/// The number that stands for the kind of a classifier.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for another kind than those of llama.cpp's converter.
pub(crate) fn of_classifier(config: &Config) -> Result<Option<u32>> {
    match config.first(&[CLASSIFIER]).map(Value::as_str) {
        None => Ok(None),
        Some(Some("mean")) => Ok(Some(1)),
        Some(Some("cls")) => Ok(Some(2)),
        Some(_) => Err(config.lacks(&[CLASSIFIER], "cls or mean")),
    }
}

/// The name of the kind of a classifier.
pub(crate) fn name_of_classifier(number: u64) -> Option<&'static str> {
    KINDS.iter().find(|(own, ..)| *own == number).map(|(_, name, _)| *name)
}

/// The files of sentence-transformers that state a kind of pooling; none for one that they do not have.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`].
pub(crate) fn files(kind: u64, config: &Map<String, Value>) -> Result<Vec<CompanionFile>> {
    let Some((_, _, flag)) = KINDS.iter().find(|(number, ..)| *number == kind) else { return Ok(Vec::new()) };
    let module = |index: u64, name: &str, path: &str| {
        let class = format!("sentence_transformers.models.{name}");
        json!({"idx": index, "name": index.to_string(), "path": path, "type": class})
    };
    let modules = json!([module(0, "Transformer", ""), module(1, "Pooling", FOLDER)]);
    let mut pooling = Map::new();
    if let Some(width) = config.get("hidden_size") {
        pooling.insert("word_embedding_dimension".to_owned(), width.clone());
    }
    for (_, _, other) in KINDS {
        pooling.insert(other.to_owned(), json!(other == *flag));
    }
    let file = |name: &str, bytes: Vec<u8>| CompanionFile { name: name.to_owned(), bytes };
    let folder = format!("{FOLDER}/config.json");
    Ok(vec![file(MODULES, pretty(&modules)?), file(&folder, pretty(&pooling)?)])
}
