//! Hashes of what a checkpoint holds, whatever file format holds it.

use crate::resources::{Budget, default_threads, in_parallel};
use crate::source::Source;
use ckpt_api::{DType, Result, Shape, TensorId};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The hashes of a checkpoint's tensors and of all of them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// SHA-256, in hex, over every tensor in the order of names: the length of the name and the name, the length of the
    /// dtype's name and that name, the rank, every axis, and the tensor's own SHA-256 as 32 bytes. Numbers are
    /// u64 little-endian. The graph, the metadata, and the keys under which the file stores the tensors take no part.
    pub sha256: String,
    /// One per tensor, in the order of names.
    pub tensors: Vec<TensorDigest>,
}

/// The hash of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorDigest {
    /// The tensor's name.
    pub name: String,
    /// Its dtype: the stored one, or that of the numbers that stored integers stand for.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// SHA-256, in hex, of the value: little-endian, row-major, one element in whole bytes; for strings, every
    /// element's length as u64 little-endian before its bytes.
    pub sha256: String,
}

/// Hashes every tensor of `source`, verifying its checksums on the way. `threads` 0 is as many as there are processors.
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
        list.push(TensorDigest {
            name: tensor.name.clone(),
            dtype,
            shape: tensor.shape.clone(),
            sha256: hex(&value),
        });
    }
    Ok(Digest { sha256: hex(&total.finalize()), tensors: list })
}

/// See [`TensorDigest::sha256`].
pub(crate) fn hash_value(source: &Source, id: TensorId, budget: Budget) -> Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let encoding = source.canonical(id);
    let mut stream = source.stream(id, &encoding, budget)?;
    match &source.checkpoint().tensors[id.0].lengths {
        None => {
            while let Some(bytes) = stream.next()? {
                hasher.update(bytes);
            }
        }
        Some(lengths) => {
            let mut elements = lengths.iter();
            let mut left = begin(&mut hasher, &mut elements);
            while let Some(mut bytes) = stream.next()? {
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

/// Hashes the length of the next element that has bytes, and of the empty ones before it.
fn begin<'a>(hasher: &mut Sha256, elements: &mut impl Iterator<Item = &'a u64>) -> u64 {
    for len in elements {
        hasher.update(len.to_le_bytes());
        if *len > 0 {
            return *len;
        }
    }
    // What comes after the last element would be a defect of the codec; it must not end the loop above in a spin.
    u64::MAX
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
