//! The schemes, and how their libraries compute what is stored: scales are computed in the dtype of the weights if PyTorch rounds
//! after every operation.

use super::weight::{Placed, Weight, placed, scalar};
use ckpt_api::{DType, Error, FieldOrder, Operation, Reduction, Result};
use serde_json::{Value, json};

/// The largest number that 8 bits hold, 4 of them for the exponent and 3 for the mantissa.
const LARGEST: f32 = 448.0;
/// Rows and columns of a block of DeepSeek's.
const BLOCK: u64 = crate::fp8::BLOCK[0];
/// Elements of a group with a scale of its own: of MLX and bitsandbytes, and of compressed-tensors.
const GROUP: u64 = 64;
const LONG_GROUP: u64 = 128;

/// A scheme that weights are quantized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Floats of 8 bits, and a scale that multiplies each block of 128 rows and columns.
    Blocks,
    /// Floats of 8 bits, and a scale that multiplies each row.
    Channels,
    /// Integers of 8 bits, and a scale that multiplies each row.
    IntegerChannels,
    /// Integers of 4 bits, and a scale that multiplies each group of a row.
    IntegerGroups,
    /// Integers, and a scale and a bias for each group of a row.
    Mlx { bits: u32 },
    /// A choice of 16 numbers, and a scale that multiplies each group.
    NormalFloat,
}

/// The names of the schemes, in the order in which errors list them.
const ALL: [(&str, Scheme); 7] = [
    ("fp8-blocks", Scheme::Blocks),
    ("fp8-channels", Scheme::Channels),
    ("int8-channels", Scheme::IntegerChannels),
    ("int4-groups", Scheme::IntegerGroups),
    ("mlx-4bit", Scheme::Mlx { bits: 4 }),
    ("mlx-8bit", Scheme::Mlx { bits: 8 }),
    ("nf4", Scheme::NormalFloat),
];

impl Scheme {
    /// The scheme of this name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if there is none.
    pub(super) fn named(name: &str) -> Result<Self> {
        match ALL.iter().find(|(own, _)| *own == name) {
            Some((_, scheme)) => Ok(*scheme),
            None => Err(Error::usage("weights are not quantized by this scheme")
                .found(format!("'{name}'"))
                .expected(ALL.map(|(name, _)| name).join(", "))),
        }
    }

    /// What people call it.
    pub(super) fn shown(self) -> String {
        match self {
            Scheme::Blocks => format!("fp8 e4m3 with a scale for each block of {BLOCK}x{BLOCK}"),
            Scheme::Channels => "fp8 e4m3 with a scale for each row".to_owned(),
            Scheme::IntegerChannels => "int8 with a scale for each row".to_owned(),
            Scheme::IntegerGroups => format!("int4 with a scale for each {LONG_GROUP} of a row"),
            Scheme::Mlx { bits } => {
                format!("mlx int{bits} with a scale and a bias for each {GROUP} of a row")
            }
            Scheme::NormalFloat => format!("nf4 with a scale for each {GROUP}"),
        }
    }

    /// What a model needs.
    pub(super) fn expected(self) -> String {
        let columns = match self {
            Scheme::IntegerGroups => format!(" and a multiple of {LONG_GROUP} columns"),
            Scheme::Mlx { .. } => format!(" and a multiple of {GROUP} columns"),
            Scheme::NormalFloat => format!(" and a multiple of {GROUP} elements"),
            _ => String::new(),
        };
        format!("a tensor of two axes{columns}, of f32, f16 or bf16, whose name ends in '.weight'")
    }

    /// Whether a matrix has whole groups.
    pub(super) fn divides(self, [rows, columns]: [u64; 2]) -> bool {
        match self {
            Scheme::Blocks | Scheme::Channels | Scheme::IntegerChannels => true,
            Scheme::IntegerGroups => columns.is_multiple_of(LONG_GROUP),
            Scheme::Mlx { .. } => columns.is_multiple_of(GROUP),
            Scheme::NormalFloat => rows.saturating_mul(columns).is_multiple_of(GROUP),
        }
    }

    /// Whether the scheme is for tables of tokens and heads, too.
    pub(super) fn has_vocabulary(self) -> bool {
        matches!(self, Scheme::Mlx { .. })
    }

    /// The tensors that are stored for a weight.
    pub(super) fn stored(self, weight: &Weight<'_>) -> Result<Vec<Placed>> {
        match self {
            Scheme::Blocks => fp8_blocks(weight),
            Scheme::Channels => fp8_channels(weight),
            Scheme::IntegerChannels => int8_channels(weight),
            Scheme::IntegerGroups => int4_groups(weight),
            Scheme::Mlx { bits } => mlx(weight, bits),
            Scheme::NormalFloat => nf4(weight),
        }
    }

    /// The fields of the configuration that state it: `kept` are the modules whose matrices stay.
    pub(super) fn config(self, kept: &[String]) -> Value {
        let token = |kind| json!({ "num_bits": 8, "type": kind, "strategy": "token", "symmetric": true, "dynamic": true });
        let weights = |bits, kind, strategy| json!({ "num_bits": bits, "type": kind, "strategy": strategy, "symmetric": true, "dynamic": false });
        let config = match self {
            Scheme::Blocks => json!({
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [BLOCK, BLOCK],
                "modules_to_not_convert": kept,
            }),
            Scheme::Channels => {
                let weights = weights(8, "float", "channel");
                compressed_tensors("float-quantized", weights, token("float"), kept)
            }
            Scheme::IntegerChannels => {
                let weights = weights(8, "int", "channel");
                compressed_tensors("int-quantized", weights, token("int"), kept)
            }
            Scheme::IntegerGroups => {
                let mut weights = weights(4, "int", "group");
                weights["group_size"] = LONG_GROUP.into();
                compressed_tensors("pack-quantized", weights, Value::Null, kept)
            }
            Scheme::Mlx { bits } => {
                let config = json!({ "group_size": GROUP, "bits": bits, "mode": "affine" });
                // Programs of MLX read the first, and Hugging Face's site the second.
                return json!({ "quantization": config, "quantization_config": config });
            }
            Scheme::NormalFloat => json!({
                "quant_method": "bitsandbytes",
                "load_in_4bit": true,
                "load_in_8bit": false,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_quant_storage": "uint8",
                "bnb_4bit_use_double_quant": false,
                "llm_int8_skip_modules": kept,
            }),
        };
        json!({ "quantization_config": config })
    }
}

fn compressed_tensors(format: &str, weights: Value, activations: Value, kept: &[String]) -> Value {
    json!({
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": { "group_0": {
            "targets": ["Linear"], "weights": weights, "input_activations": activations,
        } },
        "ignore": kept,
    })
}

fn fp8_blocks(weight: &Weight<'_>) -> Result<Vec<Placed>> {
    let ([rows, columns], dtype) = (weight.shape, weight.dtype);
    let blocks = weight.in_blocks([BLOCK.min(rows), BLOCK.min(columns)]);
    // A block of zeros has the scale 1. PyTorch divides a number by a tensor in two steps.
    let mut operations = vec![
        Operation::ReplaceZero(scalar(LARGEST)?),
        Operation::DivideInto(scalar(1.0)?),
        Operation::Round(dtype),
        Operation::Multiply(scalar(LARGEST)?),
        Operation::Round(dtype),
    ];
    let factors = blocks.operand(blocks.reduced(Reduction::LargestMagnitude, &operations))?;
    // The tensor has what multiplies again.
    operations.extend([Operation::DivideInto(scalar(1.0)?), Operation::Round(dtype)]);
    let scales = blocks.reduced(Reduction::LargestMagnitude, &operations);
    Ok(vec![
        weight.floats(DType::F8E4m3, vec![Operation::MultiplyBlocks(factors), Operation::Round(dtype)])?,
        placed(format!("{}_scale_inv", weight.name), DType::F32, &blocks.counts(), scales)?,
    ])
}

fn fp8_channels(weight: &Weight<'_>) -> Result<Vec<Placed>> {
    let [rows, columns] = weight.shape;
    let (values, scales) = compressed_values(weight, columns, [rows, 1], LARGEST)?;
    Ok(vec![weight.floats(DType::F8E4m3, values)?, scales])
}

fn int8_channels(weight: &Weight<'_>) -> Result<Vec<Placed>> {
    let [rows, columns] = weight.shape;
    let (mut values, scales) = compressed_values(weight, columns, [rows, 1], 127.5)?;
    values.extend(whole(-128.0, 127.0)?);
    let name = weight.name.to_owned();
    let weight = weight.words(name, DType::I8, (8, FieldOrder::Dense), weight.shape, values)?;
    Ok(vec![weight, scales])
}

fn int4_groups(weight: &Weight<'_>) -> Result<Vec<Placed>> {
    let [rows, columns] = weight.shape;
    let (mut values, scales) = compressed_values(weight, LONG_GROUP, [rows, columns / LONG_GROUP], 7.5)?;
    values.extend(whole(-8.0, 7.0)?);
    values.push(Operation::Add(scalar(8.0)?));
    let name = format!("{}_packed", weight.name);
    let packed = weight.words(name, DType::I32, (4, FieldOrder::Dense), weight.shape, values)?;
    let lens = weight.shape.iter().flat_map(|len| len.to_le_bytes()).collect();
    Ok(vec![packed, scales, weight.literal("_shape", DType::I64, &[2], lens)?])
}

/// The operations that divide elements by the scale of their group, and the tensor of the scales, as compressed-tensors computes
/// them: `largest` is what the largest magnitude of a group becomes.
fn compressed_values(
    weight: &Weight<'_>,
    group: u64,
    shape: [u64; 2],
    largest: f32,
) -> Result<(Vec<Operation>, Placed)> {
    let (groups, dtype) = (weight.in_groups(group), weight.dtype);
    // A group of zeros has the smallest scale that the library divides by.
    let operations = [
        Operation::Divide(scalar(largest)?),
        Operation::Round(dtype),
        Operation::ReplaceZero(scalar(epsilon(dtype))?),
    ];
    let scales = groups.reduced(Reduction::LargestMagnitude, &operations);
    let divide = Operation::DivideBlocks(groups.operand(scales.clone())?);
    let scales = placed(format!("{}_scale", weight.name), dtype, &shape, scales)?;
    Ok((vec![divide, Operation::Round(dtype)], scales))
}

fn mlx(weight: &Weight<'_>, bits: u32) -> Result<Vec<Placed>> {
    let [rows, columns] = weight.shape;
    let groups = weight.in_groups(GROUP);
    let scales = groups.reduced(Reduction::AffineScale { bits }, &[]);
    let biases = groups.reduced(Reduction::AffineOffset { bits }, &[]);
    let mut values = vec![
        Operation::SubtractBlocks(groups.operand(biases.clone())?),
        Operation::DivideBlocks(groups.operand(scales.clone())?),
    ];
    values.extend(whole(0.0, f32::from((1_u16 << bits) - 1))?);
    let module = weight.name.strip_suffix(".weight").unwrap_or(weight.name);
    let shape = [rows, columns / GROUP];
    let name = weight.name.to_owned();
    Ok(vec![
        weight.words(name, DType::U32, (bits, FieldOrder::Dense), weight.shape, values)?,
        placed(format!("{module}.scales"), weight.dtype, &shape, scales)?,
        placed(format!("{module}.biases"), weight.dtype, &shape, biases)?,
    ])
}

/// The numbers of NF4: `bitsandbytes.functional.get_4bit_type("nf4")`.
const NORMAL_FLOATS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

fn nf4(weight: &Weight<'_>) -> Result<Vec<Placed>> {
    /// The smallest number that the library divides by.
    const LEAST: f32 = 1e-38;
    let groups = weight.in_groups(GROUP);
    let inverse = [Operation::AtLeast(scalar(LEAST)?), Operation::DivideInto(scalar(1.0)?)];
    let inverse = groups.reduced(Reduction::LargestMagnitude, &inverse);
    let bounds = NORMAL_FLOATS.iter().zip(&NORMAL_FLOATS[1..]).map(|(low, high)| scalar((low + high) / 2.0));
    let values = vec![
        Operation::MultiplyBlocks(groups.operand(inverse)?),
        Operation::CountBelow(bounds.collect::<Result<_>>()?),
    ];
    let elements = weight.elements();
    let largest = groups.reduced(Reduction::LargestMagnitude, &[]);
    let table = NORMAL_FLOATS.iter().flat_map(|number| number.to_le_bytes()).collect();
    let [rows, columns] = weight.shape;
    // As Python's `json.dumps` writes it.
    let state = format!(
        "{{\"quant_type\": \"nf4\", \"blocksize\": {GROUP}, \"dtype\": \"{}\", \"shape\": [{rows}, {columns}]}}",
        torch_name(weight.dtype)
    )
    .into_bytes();
    let len = state.len() as u64;
    let name = weight.name.to_owned();
    // One row, which the library stores as a column.
    let (mut packed, placement) =
        weight.words(name, DType::U8, (4, FieldOrder::HighestFirst), [1, elements], values)?;
    packed.shape = ckpt_api::Shape::new([elements / 2, 1])?;
    Ok(vec![
        (packed, placement),
        placed(format!("{}.absmax", weight.name), DType::F32, &[elements / GROUP], largest)?,
        weight.literal(".quant_map", DType::F32, &[16], table)?,
        weight.literal(".quant_state.bitsandbytes__nf4", DType::U8, &[len], state)?,
    ])
}

/// The operations that make numbers whole, from `least` to `most`.
fn whole(least: f32, most: f32) -> Result<[Operation; 3]> {
    Ok([Operation::AtLeast(scalar(least)?), Operation::AtMost(scalar(most)?), Operation::RoundWhole])
}

/// What PyTorch's `finfo` calls `eps`: the distance from 1 to the next number.
fn epsilon(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        _ => f32::EPSILON,
    }
}

/// What PyTorch calls a dtype.
fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        _ => "float32",
    }
}
