//! Weights of plain numbers become those of a scheme, each rounded to the nearest: what needs no data to calibrate with.
//!
//! Scales are computed as the library of the scheme computes them, in the dtype of the weights, where PyTorch rounds after every
//! operation.

use ckpt_api::{
    BlockMaxima, BlockNumbers, Computed, Contents, DType, Encoding, Error, Extents, Input, Limits, Operation,
    Placement, Result, Scalar, Shape, Tensor, TensorId, Ties,
};
use ckpt_engine::formats::Quantized;
use ckpt_engine::source::Configuration;
use serde_json::{Value, json};

/// The largest number that 8 bits hold, 4 of them for the exponent and 3 for the mantissa.
const LARGEST: f32 = 448.0;
/// Rows and columns of a block of DeepSeek's.
const BLOCK: u64 = crate::fp8::BLOCK[0];
/// Parts of the names of modules whose matrices are no linear layers, or are left as they are: embeddings, heads, and what
/// chooses between experts.
const KEPT: [&str; 14] = [
    "embed",
    "embeddings",
    "embed_tokens",
    "wte",
    "wpe",
    "shared",
    "lm_head",
    "embed_out",
    "score",
    "classifier",
    "gate",
    "router",
    "relative_attention_bias",
    "rotary_emb",
];
/// Kinds of models whose matrices are stored the other way round.
const TRANSPOSED: [&str; 3] = ["gpt2", "openai-gpt", "imagegpt"];

/// A scheme that weights are quantized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// Floats of 8 bits, and a scale that multiplies each block of 128 rows and columns.
    Blocks,
    /// Floats of 8 bits, and a scale that multiplies each row.
    Channels,
}

impl Scheme {
    const ALL: [(&str, Scheme); 2] = [("fp8-blocks", Scheme::Blocks), ("fp8-channels", Scheme::Channels)];

    /// What people call it.
    fn shown(self) -> String {
        match self {
            Scheme::Blocks => format!("fp8 e4m3 with a scale for each block of {BLOCK}x{BLOCK}"),
            Scheme::Channels => "fp8 e4m3 with a scale for each row".to_owned(),
        }
    }

    fn block(self, [rows, columns]: [u64; 2]) -> [u64; 2] {
        match self {
            Scheme::Blocks => [BLOCK.min(rows), BLOCK.min(columns)],
            Scheme::Channels => [1, columns],
        }
    }

    /// The operations from the largest magnitude of a block to the number that its elements are combined with, and the one that
    /// combines them.
    fn operations(self, dtype: DType) -> Result<Vec<Operation>> {
        let largest = scalar(LARGEST)?;
        Ok(match self {
            // A block of zeros has the scale 1. PyTorch divides a number by a tensor in two steps.
            Scheme::Blocks => vec![
                Operation::ReplaceZero(largest),
                Operation::DivideInto(scalar(1.0)?),
                Operation::Round(dtype),
                Operation::Multiply(largest),
                Operation::Round(dtype),
            ],
            // A row of zeros has the smallest scale that the library divides by.
            Scheme::Channels => vec![
                Operation::Divide(largest),
                Operation::Round(dtype),
                Operation::ReplaceZero(scalar(epsilon(dtype))?),
            ],
        })
    }

    /// What `quantization_config` is: `kept` are the modules whose matrices stay.
    fn config(self, kept: &[String]) -> Value {
        match self {
            Scheme::Blocks => json!({
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [BLOCK, BLOCK],
                "modules_to_not_convert": kept,
            }),
            Scheme::Channels => json!({
                "quant_method": "compressed-tensors",
                "format": "float-quantized",
                "quantization_status": "compressed",
                "config_groups": { "group_0": {
                    "targets": ["Linear"],
                    "weights": {
                        "num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true, "dynamic": false,
                    },
                    "input_activations": {
                        "num_bits": 8, "type": "float", "strategy": "token", "symmetric": true, "dynamic": true,
                    },
                } },
                "ignore": kept,
            }),
        }
    }
}

/// See [`TensorGroups::quantize`](ckpt_engine::formats::TensorGroups::quantize).
pub(crate) fn quantize(
    name: &str,
    contents: &mut Contents,
    input: &Input,
    limits: &Limits,
) -> Result<Quantized> {
    let known = Scheme::ALL.iter().find(|(own, _)| *own == name);
    let Some((_, scheme)) = known else {
        let names = Scheme::ALL.map(|(name, _)| name);
        return Err(Error::usage("weights are not quantized by this scheme")
            .found(format!("'{name}'"))
            .expected(names.join(" or ")));
    };
    check_kind(input, limits)?;
    let (mut weights, mut kept) = (Vec::new(), Vec::new());
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    for (tensor, placement) in tensors.into_iter().zip(placements) {
        let matrix = matrix(&tensor).filter(|(module, _)| match is_kept(module) {
            true => {
                kept.push((*module).to_owned());
                false
            }
            false => true,
        });
        let Some((_, shape)) = matrix else {
            add(contents, tensor, placement);
            continue;
        };
        let (weight, scales) = encoded(*scheme, &tensor, &placement, shape)?;
        weights.push(tensor.name.to_string());
        add(contents, weight.0, weight.1);
        add(contents, scales.0, scales.1);
    }
    contents.checkpoint.ties = Ties::of(contents);
    if weights.is_empty() {
        return Err(Error::unsupported("the model has no matrix of a linear layer")
            .expected("a tensor of two axes, of f32, f16 or bf16, whose name ends in '.weight'"));
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
fn is_kept(module: &str) -> bool {
    module
        .split('.')
        .any(|part| KEPT.contains(&part) || part.ends_with("_embeddings") || part.ends_with("norm"))
}

/// A tensor, and where its numbers are.
type Placed = (Tensor, Placement);

/// The tensors of a weight and of its scales.
fn encoded(
    scheme: Scheme,
    tensor: &Tensor,
    placement: &Placement,
    shape: [u64; 2],
) -> Result<(Placed, Placed)> {
    let wrong = |what: &str| Error::unsupported(what).tensor(&tensor.name);
    let [extent] = &placement.extents[..] else {
        return Err(wrong("a weight that is stored in parts is not quantized")
            .help("write the model to a directory first, where each weight is one piece"));
    };
    let is_row_major = placement.encoding.order == Encoding::row_major(tensor).order
        && placement.encoding.tiles().is_empty();
    if !is_row_major || extent.is_computed() || extent.region().is_some() {
        return Err(wrong("a weight whose rows do not follow each other is not quantized")
            .help("write the model to a directory first, where they do"));
    }
    let numbers = || Computed::new(extent.clone(), placement.encoding.clone().with_order(vec![0]));
    let block = scheme.block(shape);
    let maxima = BlockMaxima::new(shape, block);
    let [down, across] = maxima.blocks().ok_or_else(|| Error::defect("a weight has no blocks"))?;
    let dtype = tensor.dtype;
    let mut scales = numbers().with_maxima(maxima).with_operations(scheme.operations(dtype)?);
    let blocks = BlockNumbers::new("scales", scales.clone(), Shape::new(shape)?, block.to_vec());
    let combined = match scheme {
        Scheme::Blocks => Operation::MultiplyBlocks(Box::new(blocks)),
        Scheme::Channels => Operation::DivideBlocks(Box::new(blocks)),
    };
    let values = numbers().with_operations(vec![combined, Operation::Round(dtype)]);
    let (ending, held) = match scheme {
        Scheme::Blocks => {
            // The tensor has what multiplies again.
            scales.operations.extend([Operation::DivideInto(scalar(1.0)?), Operation::Round(dtype)]);
            ("_scale_inv", DType::F32)
        }
        Scheme::Channels => ("_scale", dtype),
    };
    let weight = placed(&tensor.name, DType::F8E4m3, shape, values)?;
    let scales = placed(&format!("{}{ending}", tensor.name), held, [down, across], scales)?;
    Ok((weight, scales))
}

fn placed(name: &str, dtype: DType, shape: [u64; 2], numbers: Computed) -> Result<Placed> {
    let tensor = Tensor::new(name, dtype, Shape::new(shape)?);
    let extent = numbers.into_extent().map_err(|error| error.tensor(name))?;
    let encoding = Encoding::new(DType::F32, vec![0, 1]);
    let placement = Placement::new(TensorId(0), tensor.name.clone(), Vec::new(), encoding);
    Ok((tensor, placement.with_extents(std::iter::once(extent).collect::<Extents>())))
}

fn add(contents: &mut Contents, tensor: Tensor, placement: Placement) {
    let id = TensorId(contents.placements.len());
    contents.checkpoint.tensors.push(tensor);
    contents.placements.push(placement.with_tensor(id));
}

/// What PyTorch's `finfo` calls `eps`: the distance from 1 to the next number.
fn epsilon(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        _ => f32::EPSILON,
    }
}

fn scalar(number: f32) -> Result<Scalar> {
    Scalar::new(number).ok_or_else(|| Error::defect("a constant of a scheme is not finite"))
}
