//! Names of files, and how tensors are distributed over those of a set.

use super::fresh::Stored;
use crate::format::ID;
use crate::format::keys::KEY_INDEX;
use ckpt_api::{
    Checkpoint, Error, FileId, Limit, Literal, MetadataMap, MetadataValue, Options, OutputFile, OutputLayout,
    Result,
};
use std::collections::BTreeMap;

/// Ends the name of a set's index.
const INDEX: &str = ".index.json";

/// The names of the files, and the size of a shard.
pub(super) struct Target {
    /// Name of a single file.
    name: String,
    /// Whether there are several files.
    pub(super) set: bool,
    shard_size: u64,
}

impl Target {
    pub(super) fn new(name: &str, options: &Options, storages: &[u64]) -> Result<Self> {
        let shard_size = shard_size(options)?;
        let total = storages.iter().try_fold(0u64, |sum, len| sum.checked_add(*len));
        let total =
            total.ok_or_else(|| Error::unsupported("the tensors have more bytes than a file can hold"))?;
        let (name, set) = match name.strip_suffix(INDEX) {
            Some(name) => (name, true),
            None => (name, total > shard_size),
        };
        Ok(Target { name: name.to_owned(), set, shard_size })
    }

    /// Distributes storages over the files, and tensors with them.
    pub(super) fn split<'a>(&self, stored: Vec<Stored<'a>>, storages: &[u64]) -> Vec<Vec<Stored<'a>>> {
        let of_storage = distribute(if self.set { self.shard_size } else { u64::MAX }, storages);
        let last = of_storage.last().copied().unwrap_or(0);
        let mut shards: Vec<Vec<Stored<'a>>> = (0..=last).map(|_| Vec::new()).collect();
        for tensor in stored {
            let shard = of_storage.get(tensor.storage).and_then(|shard| shards.get_mut(*shard));
            if let Some(shard) = shard {
                shard.push(tensor);
            }
        }
        shards
    }

    /// Returns the name of a file: in a set, `pytorch_model-00001-of-00002.bin`.
    pub(super) fn file(&self, number: usize, count: usize) -> String {
        if !self.set {
            return self.name.clone();
        }
        let (stem, extension) = self.name.rsplit_once('.').unwrap_or((&self.name, "bin"));
        format!("{stem}-{:05}-of-{count:05}.{extension}", number.saturating_add(1))
    }
}

/// The bytes of tensors that a file has at most, unless it has one tensor.
pub(super) fn shard_size(options: &Options) -> Result<u64> {
    match options.size("shard_size") {
        Some(0) => Err(Error::usage("a shard must hold at least one byte").field("shard_size").found("0")),
        size => Ok(size.unwrap_or(u64::MAX)),
    }
}

/// Distributes storages with these bytes over shards of this size greedily: returns the number of each one's shard.
pub(super) fn distribute(room: u64, storages: &[u64]) -> Vec<usize> {
    let (mut shard, mut left, mut is_empty) = (0usize, room, true);
    let mut of_storage = Vec::with_capacity(storages.len());
    for len in storages {
        if *len > left && !is_empty {
            (shard, left) = (shard.saturating_add(1), room);
        }
        (left, is_empty) = (left.saturating_sub(*len), false);
        of_storage.push(shard);
    }
    of_storage
}

/// Adds the index of a set of these shards, of so many bytes together.
pub(super) fn add_index(
    placed: &mut OutputLayout,
    checkpoint: &Checkpoint,
    target: &Target,
    shards: &[Vec<Stored<'_>>],
    total: u64,
) -> Result<()> {
    let limit = Limit::Files.default_value();
    if placed.files.len() as u64 >= limit {
        return Err(Error::usage("there would be too many shards")
            .field("shard_size")
            .found(ckpt_api::count(placed.files.len(), "shard"))
            .expected(format!("fewer than {limit}"))
            .help("choose a larger shard_size"));
    }
    let names = placed.files.iter().zip(shards).flat_map(|(file, shard)| {
        shard.iter().map(|stored| (stored.tensor.name.as_str(), file.name.as_str()))
    });
    let sorted: BTreeMap<&str, &str> = names.collect();
    if sorted.is_empty() {
        return Err(Error::unsupported("a sharded set needs at least one tensor")
            .help(format!("name the output {} instead", target.name)));
    }
    let kept = checkpoint.metadata.value(ID, KEY_INDEX).and_then(MetadataValue::as_map);
    let mut metadata = kept.cloned().unwrap_or_default();
    metadata.insert("total_size", MetadataValue::integer(total));
    let weight_map: MetadataMap = sorted.into_iter().collect();
    let index = MetadataMap::from_iter([("metadata", metadata), ("weight_map", weight_map)]);
    let no_json =
        |error: serde_json::Error| Error::unsupported("the index has no JSON form").found(error.to_string());
    let mut bytes = serde_json::to_vec_pretty(&MetadataValue::Map(index)).map_err(no_json)?;
    bytes.push(b'\n');
    let file = FileId(placed.files.len());
    placed.files.push(OutputFile::new(format!("{}{INDEX}", target.name), bytes.len() as u64));
    placed.literals.push(Literal { file, offset: 0, bytes });
    Ok(())
}
