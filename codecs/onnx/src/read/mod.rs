//! Reads the structure of a model, and locates its tensors.

mod functions;
mod gates;
mod graph;
mod initializers;
mod kept;
pub(crate) mod model;
mod parsed;
mod tensor;

use crate::format::message::{Attribute, Graph, Model};
use crate::format::{LEARNED, NAMESPACE};
use ckpt_api::{
    Contents, Input, KEY_WEIGHTS, Kind, Limits, Match, MetadataMap, MetadataValue, Options, Result, Rules,
};
use initializers::{WEIGHT_ELEMENTS, elements};
pub(crate) use parsed::Parsed;

/// Recognizes a model by its first fields.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let file = input.main()?;
    match model::looks_like(&file, input.limits()) {
        Err(error) if error.kind() == Kind::Io => Err(error),
        Ok(true) => Ok(Match::Certain("begins with the fields of an ONNX model".to_owned())),
        _ if input.entry().ends_with(".onnx") => {
            Ok(Match::Possible("has the extension of an ONNX model".to_owned()))
        }
        _ => Ok(Match::No),
    }
}

/// Reads everything but the tensors' data.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut files = Vec::new();
    let contents = input.read_alone("an ONNX model", |file| {
        let mut rules = Rules::new(options);
        let parsed = Parsed::of(input, file, &mut rules, limits)?;
        files = parsed.files;
        let mut contents = parsed.contents.with_repairs(rules.repairs);
        kept::structure_of(file, &parsed.model)?.keep(&mut contents.checkpoint.metadata, NAMESPACE);
        describe(&mut contents, &parsed.model);
        Ok(contents)
    })?;
    Ok(contents.with_files(files))
}

/// Names the numbers of the model that are attributes of its nodes and no tensors: the thresholds of trees, the coefficients
/// of a regression. A graph that was read has the others. `None` if there are none.
fn numbers_in_attributes(graph: &Graph, has_graph: bool) -> Option<String> {
    /// Names that are listed.
    const SHOWN: usize = 3;
    let (mut shown, mut count) = (Vec::new(), 0u64);
    for node in graph.levels().flat_map(|level| &level.nodes) {
        let is_classic = node.domain == LEARNED;
        if has_graph && !is_classic {
            continue;
        }
        let least = if is_classic { 1 } else { WEIGHT_ELEMENTS };
        let is_listed = |name: &str| is_classic && node.lists.iter().any(|list| list.name == name);
        let of_weights = |(name, attribute): &&(String, Attribute)| match attribute {
            _ if is_listed(name) => false,
            Attribute::Floats(floats) => floats.len() as u64 >= least,
            Attribute::Long { is_float } => *is_float,
            // That of a constant is a tensor of the checkpoint if it is a weight.
            Attribute::Tensor(stored) => {
                (node.op != "Constant" || name != "value") && elements(stored) >= least
            }
            _ => false,
        };
        for (name, _) in node.attributes.iter().filter(of_weights) {
            count = count.saturating_add(1);
            if shown.len() < SHOWN {
                shown.push(format!("{name} of {}", node.op));
            }
        }
    }
    let more = count.saturating_sub(shown.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (count > 0).then(|| shown.join(", ") + &more)
}

/// Adds what the model states beside its graph.
fn describe(contents: &mut Contents, model: &Model) {
    let has_graph = contents.checkpoint.graph.is_some();
    let numbers = model.graph.as_ref().and_then(|graph| numbers_in_attributes(graph, has_graph));
    let metadata = &mut contents.checkpoint.metadata;
    metadata.insert(NAMESPACE, "ir_version", model.ir_version);
    for (name, text) in &model.texts {
        metadata.insert(NAMESPACE, name, text.as_str());
    }
    if model.model_version != 0 {
        metadata.insert(NAMESPACE, "model_version", model.model_version);
    }
    let named = |domain: &str| if domain.is_empty() { "ai.onnx".to_owned() } else { domain.to_owned() };
    let opsets = model.opsets.iter().map(|(domain, version)| (named(domain), *version));
    metadata.insert(NAMESPACE, "opset_import", MetadataValue::Map(opsets.collect::<MetadataMap>()));
    if let Some(numbers) = numbers {
        metadata.insert(NAMESPACE, KEY_WEIGHTS, numbers);
    }
    if !model.properties.is_empty() {
        let properties = model.properties.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        metadata.insert(NAMESPACE, "metadata_props", MetadataValue::Map(properties.collect::<MetadataMap>()));
    }
}
