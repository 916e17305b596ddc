//! Hashes the contents of a checkpoint, independent of its format.

use crate::execute::announce;
use crate::resources::{Budget, default_threads, in_parallel};
use crate::source::Source;
use crate::words::hex;
use ckpt_api::{Affine, DType, Name, Quantization, Result, Shape, TensorId};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::num::NonZeroU32;

/// The hashes of a checkpoint and of its tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Digest {
    /// SHA-256, in hex, of all tensors in the order of their names. Each contributes the length of its name, its
    /// name, the length of its dtype's name, that name, its rank, its axes' lengths, its own SHA-256 as 32 bytes, and,
    /// if integers have a scale other than 1, 2⁶⁴ − 1 and that scale; if they have scales and zero points, 2⁶⁴ − 2, the
    /// axis (2⁶⁴ − 1 for none), their number, the scales, and the zero points. Numbers are u64 little-endian; scales and
    /// zero points are the bits of f64. Graph, metadata, and the file's own keys for tensors are not hashed.
    pub sha256: String,
    /// The tensors, in the order of their names.
    pub tensors: Vec<TensorDigest>,
}

/// The hash of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TensorDigest {
    /// Name.
    pub name: Name,
    /// The stored dtype; for integers with a scale, the dtype of the numbers that they represent.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
    /// The integer that stands for 1.0, if the checkpoint states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<NonZeroU32>,
    /// Scales and zero points of the integers, if the checkpoint states them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Affine>,
    /// SHA-256, in hex, of the value: little-endian, row-major, each element in whole bytes. The bytes of a string
    /// follow its length as u64 little-endian.
    pub sha256: String,
}

/// Hashes every tensor of `source` on `threads` threads, 0 for a default, and verifies checksums on the way.
///
/// # Errors
/// Whatever keeps a tensor from being read.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let source = ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default())?;
/// let digest = ckpt::digest::digest(&source, 0)?;
/// assert_eq!(digest.sha256.len(), 64);
/// # Ok(())
/// # }
/// ```
pub fn digest(source: &Source, threads: usize) -> Result<Digest> {
    let tensors = &source.checkpoint().tensors;
    let mut ids: Vec<TensorId> = (0..tensors.len()).map(TensorId).collect();
    ids.sort_by(|a, b| tensors[a.0].name.cmp(&tensors[b.0].name));
    let threads = if threads == 0 { default_threads() } else { threads };
    announce(&source.files, ids.iter().filter_map(|id| source.contents.placements.get(id.0)))?;
    let values = in_parallel(&ids, threads, |id| hash_value(source, id, Budget::default()))?;
    let mut total = Sha256::new();
    let mut list = Vec::with_capacity(ids.len());
    for (id, value) in ids.iter().zip(values) {
        let tensor = &tensors[id.0];
        let dtype = source.canonical(*id).dtype;
        for text in [tensor.name.as_str(), dtype.name()] {
            total.update((text.len() as u64).to_le_bytes());
            total.update(text);
        }
        total.update((tensor.shape.rank() as u64).to_le_bytes());
        tensor.shape.iter().for_each(|len| total.update(len.to_le_bytes()));
        total.update(value);
        let scale = tensor.scale().filter(|_| !dtype.is_float());
        if let Some(scale) = scale.filter(|scale| scale.get() != 1) {
            // No name is so long: this is not the length of the next one.
            total.update(u64::MAX.to_le_bytes());
            total.update(u64::from(scale.get()).to_le_bytes());
        }
        let affine = tensor.quantization.as_ref().and_then(Quantization::affine);
        if let Some(affine) = affine.filter(|affine| !affine.is_identity()) {
            update_affine(&mut total, affine);
        }
        list.push(TensorDigest {
            name: tensor.name.clone(),
            dtype,
            shape: tensor.shape.clone(),
            scale,
            quantization: affine.cloned(),
            sha256: hex(&value),
        });
    }
    Ok(Digest { sha256: hex(&total.finalize()), tensors: list })
}

/// Adds what the integers of a tensor stand for: see [`Digest::sha256`].
fn update_affine(total: &mut Sha256, affine: &Affine) {
    let axis = affine.axis().map_or(u64::MAX, |axis| axis as u64);
    for number in [u64::MAX - 1, axis, affine.scales().len() as u64] {
        total.update(number.to_le_bytes());
    }
    for number in affine.scales().iter().chain(affine.zero_points()) {
        total.update(number.to_bits().to_le_bytes());
    }
}

/// Returns [`TensorDigest::sha256`] as bytes.
pub(crate) fn hash_value(source: &Source, id: TensorId, budget: Budget) -> Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let encoding = source.canonical(id);
    let mut stream = source.stream(id, &encoding, budget)?;
    match &source.checkpoint().tensors[id.0].lengths {
        None => {
            while let Some(bytes) = stream.read_next()? {
                hasher.update(bytes);
            }
        }
        Some(lengths) => {
            let mut elements = lengths.iter();
            let mut left = begin(&mut hasher, &mut elements);
            while let Some(mut bytes) = stream.read_next()? {
                while !bytes.is_empty() {
                    let take = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let (now, later) = bytes.split_at(take);
                    hasher.update(now);
                    left -= take as u64;
                    bytes = later;
                    if left == 0 {
                        left = begin(&mut hasher, &mut elements);
                    }
                }
            }
        }
    }
    Ok(hasher.finalize().into())
}

/// Hashes the lengths of the next elements up to the first that has bytes, and returns that length.
fn begin<'a>(hasher: &mut Sha256, elements: &mut impl Iterator<Item = &'a u64>) -> u64 {
    for len in elements {
        hasher.update(len.to_le_bytes());
        if *len > 0 {
            return *len;
        }
    }
    // Bytes after the last element are a defect of the codec, and must not make the loop above spin.
    u64::MAX
}
