//! Weights of plain numbers become those of a scheme, each rounded to the nearest: what needs no data to calibrate with.

mod scheme;
mod weight;

use ckpt_api::{Contents, DType, Error, Input, Limits, Placement, Result, Tensor, TensorId, Ties};
use ckpt_engine::formats::Quantized;
use ckpt_engine::source::Configuration;
use scheme::Scheme;
use serde_json::Value;
use weight::Weight;

/// Parts of the names of modules whose matrices are no linear layers, or are left as they are: tables of positions, and what
/// chooses between experts.
const KEPT: [&str; 9] = [
    "embed",
    "wpe",
    "shared",
    "score",
    "classifier",
    "gate",
    "router",
    "relative_attention_bias",
    "rotary_emb",
];
/// Those of tables of tokens and of heads, which some schemes are for, too.
const VOCABULARY: [&str; 5] = ["embeddings", "embed_tokens", "wte", "lm_head", "embed_out"];
/// Kinds of models whose matrices are stored the other way round.
const TRANSPOSED: [&str; 3] = ["gpt2", "openai-gpt", "imagegpt"];

/// See [`TensorGroups::quantize`](ckpt_engine::formats::TensorGroups::quantize).
pub(crate) fn quantize(
    name: &str,
    contents: &mut Contents,
    input: &Input,
    limits: &Limits,
) -> Result<Quantized> {
    let scheme = Scheme::named(name)?;
    check_kind(input, limits)?;
    let (mut weights, mut kept) = (Vec::new(), Vec::new());
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    for (tensor, placement) in tensors.into_iter().zip(placements) {
        let Some((module, shape)) = matrix(&tensor) else {
            add(contents, tensor, placement);
            continue;
        };
        if is_kept(module, scheme) || !scheme.divides(shape) {
            kept.push(module.to_owned());
            add(contents, tensor, placement);
            continue;
        }
        let weight = Weight::new(&tensor, &placement, shape)?;
        let stored = scheme.stored(&weight).map_err(|error| error.tensor(&tensor.name))?;
        weights.push(tensor.name.to_string());
        stored.into_iter().for_each(|(tensor, placement)| add(contents, tensor, placement));
    }
    contents.checkpoint.ties = Ties::of(contents);
    if weights.is_empty() {
        return Err(Error::unsupported("the model has no matrix of a linear layer")
            .expected(scheme.expected())
            .help("quantize it with another scheme"));
    }
    kept.sort();
    kept.dedup();
    Ok(Quantized { config: scheme.config(&kept).to_string(), weights, scheme: scheme.shown() })
}

/// Refuses kinds of models whose linear layers are stored as input × output.
fn check_kind(input: &Input, limits: &Limits) -> Result<()> {
    const FILE: &str = "config.json";
    let Some(configuration) = Configuration::beside(input, &[FILE.to_owned()], limits)? else {
        return Err(Error::unsupported(
            "only the model of a directory is quantized: its configuration states the scheme",
        )
        .file(input.display(input.entry()))
        .expected(format!("a file {FILE} beside the tensors")));
    };
    match configuration.get("model_type").and_then(Value::as_str) {
        Some(kind) if TRANSPOSED.contains(&kind) => Err(Error::unsupported(
            "the matrices of this kind of models are no linear layers, which programs quantize",
        )
        .file(input.display(FILE))
        .field("model_type")
        .found(kind.to_owned())),
        _ => Ok(()),
    }
}

/// The module of a matrix that a linear layer may have, and its rows and columns.
fn matrix(tensor: &Tensor) -> Option<(&str, [u64; 2])> {
    let module = tensor.name.as_str().strip_suffix(".weight")?;
    let [rows, columns] = tensor.shape[..] else { return None };
    let is_float = matches!(tensor.dtype, DType::F32 | DType::F16 | DType::Bf16);
    (is_float && rows > 0 && columns > 0).then_some((module, [rows, columns]))
}

/// Whether the matrix of a module stays as it is.
fn is_kept(module: &str, scheme: Scheme) -> bool {
    module.split('.').any(|part| {
        let is_vocabulary = VOCABULARY.contains(&part);
        match is_vocabulary {
            true => !scheme.has_vocabulary(),
            false => KEPT.contains(&part) || part.ends_with("_embeddings") || part.ends_with("norm"),
        }
    })
}

fn add(contents: &mut Contents, tensor: Tensor, placement: Placement) {
    let id = TensorId(contents.placements.len());
    contents.checkpoint.tensors.push(tensor);
    contents.placements.push(placement.with_tensor(id));
}
