//! Vectors that a GGUF file stores as f32, and that the model's own dtype holds exactly.

use ckpt_api::{DType, Result, Tensor};
use ckpt_engine::mapping::Mapping;
use ckpt_engine::source::Source;
use half::{bf16, f16};

/// Bytes of vectors that are read to be looked at.
const MOST_BYTES: u64 = 256 << 20;

/// The dtype of the matrices, if all other tensors are stored as f32 and it holds their numbers exactly after mapping; with
/// the names of these tensors in the source. llama.cpp computes with vectors of f32 only, so a model of bf16 has both.
///
/// # Errors
/// Whatever keeps the vectors from being read; [`ckpt_api::Kind::Mapping`] for names that the mapping does not have.
pub(crate) fn dtype(
    source: &Source,
    mapping: &Mapping,
    excluded: &[String],
) -> Result<Option<(DType, Vec<String>)>> {
    let tensors =
        source.checkpoint().tensors.iter().filter(|tensor| !excluded.contains(&tensor.name.to_string()));
    let (matrices, vectors): (Vec<&Tensor>, Vec<&Tensor>) =
        tensors.partition(|tensor| tensor.dtype != DType::F32);
    let Some(dtype) = matrices.first().map(|matrix| matrix.dtype) else { return Ok(None) };
    let is_one = matrices.iter().all(|matrix| matrix.dtype == dtype);
    let bytes = vectors.iter().fold(0u64, |sum, vector| sum.saturating_add(vector.value_bytes()));
    let holds: fn(f32) -> bool = match dtype {
        DType::Bf16 => |number| bf16::from_f32(number).to_f32().to_bits() == number.to_bits(),
        DType::F16 => |number| f16::from_f32(number).to_f32().to_bits() == number.to_bits(),
        _ => return Ok(None),
    };
    if !is_one || vectors.is_empty() || bytes > MOST_BYTES {
        return Ok(None);
    }
    let own = source.without(excluded);
    let mapping = own.with_parameters(mapping)?;
    let (renamed, _) = own.renamed(&mapping, source.limits())?;
    for tensor in renamed.tensors().filter(|tensor| tensor.dtype() == DType::F32) {
        if !tensor.read::<f32>()?.into_iter().all(holds) {
            return Ok(None);
        }
    }
    Ok(Some((dtype, vectors.into_iter().map(|vector| vector.name.to_string()).collect())))
}
