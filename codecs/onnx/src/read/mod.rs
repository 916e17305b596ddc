//! Reads the structure of a model, and locates its tensors.

mod gates;
mod graph;
pub(crate) mod kept;
pub(crate) mod model;
mod tensor;

use crate::NAMESPACE;
use crate::format::message::{Attribute, Chunk, Graph, Model, Tensor as Stored};
use crate::format::names::Names;
use ckpt_api::{
    Contents, Error, File, FileId, Input, KEY_WEIGHTS, Kind, Limits, Match, MetadataMap, MetadataValue,
    MissingGraph, Options, Result, Rules, TensorId,
};
use std::collections::{HashMap, HashSet};
use tensor::Locator;

/// Elements of a `Constant` node's tensor from which on it counts as a weight.
const WEIGHT_ELEMENTS: u64 = 17;

/// Operators that can have tensors as parameters, and `Transpose`: a weight that a model stores in another order reaches
/// its operator through one, and stays a tensor of the checkpoint however small it is.
const BINDING: [&str; 15] = [
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "GRU",
    "Gather",
    "Gemm",
    "GroupNormalization",
    "InstanceNormalization",
    "LSTM",
    "LayerNormalization",
    "MatMul",
    "PRelu",
    "RMSNormalization",
    "RNN",
    "Transpose",
];

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
        kept::keep(&mut contents.checkpoint.metadata, file, &parsed.model)?;
        describe(&mut contents, &parsed.model);
        Ok(contents)
    })?;
    Ok(contents.with_files(files))
}

/// A model with its tensors and its graph, without its metadata.
pub(crate) struct Parsed {
    pub(crate) model: Model,
    pub(crate) contents: Contents,
    pub(crate) files: Vec<String>,
    /// The file of each location of external data.
    pub(crate) locations: HashMap<String, FileId>,
}

impl Parsed {
    pub(crate) fn of(input: &Input, file: &File, rules: &mut Rules, limits: &Limits) -> Result<Self> {
        let model = model::parse(file, limits)?;
        let Some(graph) = &model.graph else {
            return Err(Error::corrupt("the file is not an ONNX model: it has no graph"));
        };
        if model.opset().is_none() && model.opsets.is_empty() {
            return Err(Error::corrupt("the model imports no operator set").field("opset_import"));
        }
        if let Some(name) = graph.sparse.first() {
            return Err(Error::unsupported("sparse initializers are not supported")
                .tensor(name.as_str())
                .help("store it dense with the program that wrote the model"));
        }
        graph::check_order(graph)?;
        let mut locator = Locator::new(input, file, limits, input.entry());
        let mut contents = Contents::default();
        let mut ids = Ids::new();
        for (stored, name) in tensors(graph) {
            let (id, name) = (TensorId(contents.checkpoint.tensors.len()), name.as_str());
            match locator.locate(stored, name, id) {
                Ok((tensor, placement)) => {
                    ids.insert(stored.span.start, id.0);
                    contents.checkpoint.tensors.push(tensor);
                    contents.placements.push(placement);
                }
                Err(error) if error.kind() == Kind::Unsupported => rules.mend(
                    name,
                    "it is no tensor of the checkpoint, and stays in an ONNX model that is written",
                    error,
                )?,
                Err(error) => return Err(error),
            }
        }
        let reordered = gates::reorder(graph, &mut contents);
        let tensors = &mut contents.checkpoint.tensors;
        match graph::read(&model, graph, file, tensors, &reordered, &ids) {
            Ok(read) => contents.checkpoint.graph = Some(read),
            Err(reason) => {
                contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
            }
        }
        let Locator { files, ids: locations, .. } = locator;
        Ok(Parsed { model, contents, files, locations })
    }
}

/// The number of each tensor among those of the checkpoint, by the offset of its message.
pub(crate) type Ids = HashMap<u64, usize>;

/// The tensors of a model: its initializers, and the weights in nodes; then those of graphs within nodes, under names
/// that no other tensor has. A few numbers there that are mere operands are constants of their graph instead.
pub(crate) fn tensors(graph: &Graph) -> Vec<(&Stored, String)> {
    let mut names = Names::default();
    let mut tensors = Vec::new();
    for (depth, level) in graph.levels().enumerate() {
        let own = initializers(level).map(|(stored, name)| (stored, name.to_owned()));
        if depth == 0 {
            tensors.extend(own.inspect(|(_, name)| names.take(name)));
        } else {
            // The bytes of others would not lie as they are.
            let plain = own.filter(|(stored, _)| stored.typed.iter().all(Chunk::is_plain));
            let weights = weight_operands(level);
            let kept = plain.filter(|(stored, name)| weights.contains(name.as_str()) || !is_constant(stored));
            tensors.extend(kept.map(|(stored, name)| (stored, names.unused(&name))));
        }
    }
    tensors
}

/// What the operators of a graph take that can be bound to tensors.
fn weight_operands(graph: &Graph) -> HashSet<&str> {
    let bound = graph.nodes.iter().filter(|node| BINDING.contains(&node.op.as_str()));
    bound.flat_map(|node| node.inputs.iter().map(String::as_str)).collect()
}

/// Whether the reader of graphs takes the numbers of a tensor as a constant.
fn is_constant(stored: &Stored) -> bool {
    let is_known = crate::format::dtype(stored.data_type).is_some_and(graph::pieces::has_numbers);
    is_known && elements(stored) < WEIGHT_ELEMENTS && !stored.is_external()
}

/// The tensors of one graph, and their names there.
fn initializers(graph: &Graph) -> impl Iterator<Item = (&Stored, &str)> {
    let initializers = graph.initializers.iter().map(|stored| (stored, stored.name.as_str()));
    let constants = graph.nodes.iter().filter_map(|node| {
        let (_, Attribute::Tensor(stored)) = node.attributes.iter().find(|(name, _)| name == "value")? else {
            return None;
        };
        let is_weight = node.op == "Constant" && node.domain.is_empty() && is_weight(stored);
        Some((&**stored, node.outputs.first()?.as_str())).filter(|_| is_weight)
    });
    initializers.chain(constants)
}

/// Whether the tensor of a `Constant` node is a weight, and not a number that an operator takes: it has many elements, or
/// is stored beside the model. Its bytes lie as they are then.
pub(crate) fn is_weight(stored: &Stored) -> bool {
    let Some(dtype) = crate::format::dtype(stored.data_type) else { return false };
    let is_plain = stored.typed.iter().all(Chunk::is_plain);
    let is_large = elements(stored) >= WEIGHT_ELEMENTS || (dtype.is_float() && !stored.dims.is_empty());
    is_plain && (is_large || stored.is_external())
}

fn elements(stored: &Stored) -> u64 {
    let lens = stored.dims.iter().map(|dim| u64::try_from(*dim).unwrap_or(1));
    lens.fold(1u64, u64::saturating_mul)
}

/// Names the numbers of the model that are attributes of its nodes and no tensors: the thresholds of trees, the coefficients
/// of a regression. `None` if there are none.
fn numbers_in_attributes(graph: &Graph) -> Option<String> {
    /// Names that are listed.
    const SHOWN: usize = 3;
    let (mut shown, mut count) = (Vec::new(), 0u64);
    for node in graph.levels().flat_map(|level| &level.nodes) {
        let is_classic = node.domain == "ai.onnx.ml";
        let least = if is_classic { 1 } else { WEIGHT_ELEMENTS };
        let of_weights = |(name, attribute): &&(String, Attribute)| match attribute {
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
    // A graph that was read has these numbers.
    let bare = model.graph.as_ref().filter(|_| contents.checkpoint.graph.is_none());
    let numbers = bare.and_then(numbers_in_attributes);
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
