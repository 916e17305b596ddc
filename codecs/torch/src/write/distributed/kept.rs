//! A directory that is written again as it was: while the tensors have their names, dtypes and shapes, and the values
//! their pickles.

use super::keep::{is_description, parsed};
use super::layout::{self, Laid};
use super::metadata::Paths;
use super::parts::{Part, Parts, Shard};
use crate::format::keys::{DCP, KEY_METADATA};
use crate::format::metadata::{self, Location, Metadata};
use ckpt_api::{Checkpoint, Limits, Result, check_cover};
use std::collections::HashMap;

/// The description of a directory that was read.
pub(super) struct Kept<'a> {
    bytes: &'a [u8],
    metadata: Metadata,
    paths: Paths,
}

impl<'a> Kept<'a> {
    /// The description that the checkpoint has, if it is sound.
    pub(super) fn of(checkpoint: &'a Checkpoint) -> Option<Self> {
        let bytes = checkpoint.metadata.value(DCP, KEY_METADATA)?.as_bytes()?;
        let tree = parsed(bytes).filter(is_description)?;
        let metadata = metadata::parse(&tree, &Limits::default()).ok()?;
        Some(Kept { bytes, metadata, paths: metadata::paths(&tree) })
    }

    /// Where the values are in the dicts and lists that were saved.
    pub(super) fn paths(&self) -> Paths {
        self.paths.clone()
    }

    /// Lays out the parts as they were; `None` if they are others, or if archives of theirs have other sizes.
    pub(super) fn lay_out(&self, parts: &Parts<'_>) -> Result<Option<(Laid, Vec<u8>)>> {
        let Some((shards, stated)) = self.shards(parts) else { return Ok(None) };
        let laid = layout::lay_out(parts, &shards)?;
        let is_same = laid.locations.iter().eq(stated);
        Ok(is_same.then(|| (laid, self.bytes.to_vec())))
    }

    /// The files, and where each of their parts is stated to be.
    fn shards(&self, parts: &Parts<'_>) -> Option<(Vec<Shard>, Vec<&Location>)> {
        let Metadata { tensors, values, others } = &self.metadata;
        if *others > 0 || tensors.len() != parts.tensors.len() || values.len() != parts.objects.len() {
            return None;
        }
        let mut all: Vec<(&Location, Part)> = Vec::new();
        let own: HashMap<&str, usize> = parts
            .tensors
            .iter()
            .enumerate()
            .map(|(number, stored)| (stored.tensor.name.as_str(), number))
            .collect();
        for sharded in tensors {
            let number = *own.get(sharded.name.as_str())?;
            let stored = parts.tensors.get(number).filter(|stored| stored.storage == number)?;
            let regions: Vec<_> = sharded.chunks.iter().map(|chunk| &chunk.region).collect();
            let fits = stored.tensor.shape == sharded.shape && Some(stored.element) == sharded.element;
            check_cover(&sharded.shape, &regions).ok().filter(|()| fits && !regions.is_empty())?;
            let chunks = sharded.chunks.iter().chain(&sharded.empty);
            all.extend(chunks.map(|chunk| (&chunk.at, Part::Chunk(number, chunk.region.clone()))));
        }
        let own: HashMap<&str, usize> =
            parts.objects.iter().enumerate().map(|(number, object)| (object.name.as_str(), number)).collect();
        for (name, at) in values {
            all.push((at, Part::Object(*own.get(name.as_str())?)));
        }
        all.sort_by(|(a, _), (b, _)| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
        let mut shards: Vec<Shard> = Vec::new();
        let mut stated = Vec::with_capacity(all.len());
        for (at, part) in all {
            match shards.last_mut().filter(|shard| shard.path == *at.path) {
                Some(shard) => shard.parts.push(part),
                None if is_name(&at.path) => {
                    shards.push(Shard { path: at.path.to_string(), parts: vec![part] });
                }
                None => return None,
            }
            stated.push(at);
        }
        Some((shards, stated))
    }
}

/// Whether a path is the name of a file that PyTorch writes.
fn is_name(path: &str) -> bool {
    let is_safe = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    path.ends_with(".distcp") && path.len() < 256 && !path.starts_with('.') && path.chars().all(is_safe)
}
