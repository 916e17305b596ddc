//! One file: a pickle, and the storages that it refers to.

use super::archive::{Archive, Origin, Sums};
use crate::format::keys::{KEY_FOLDER, ZIP};
use ckpt_api::{
    Checkpoint, Checksum, ChecksumAlgorithm, Encoding, Extent, FileId, OutputFile, OutputLayout, Phases,
    Placement, Result, TensorId,
};

/// A storage, and the tensors that fill it: one, or ties.
pub(super) struct Storage {
    pub(super) key: String,
    pub(super) len: u64,
    pub(super) tensors: Vec<(TensorId, Encoding)>,
}

impl Storage {
    /// Where the source has its bytes, if they are worth a gap. A storage begins on a multiple of the size of its numbers.
    fn origin<'a>(&self, phases: &'a Phases) -> Option<Origin<'a>> {
        let (tensor, encoding) = self.tensors.first().filter(|_| self.len >= Phases::WORTH_A_GAP)?;
        Some(Origin { phases, tensor: *tensor, alignment: encoding.dtype.component_bytes() as u64 })
    }
}

/// Adds a file whose records are in a folder of this name. With phases, large storages begin where the source has them
/// within a block.
pub(super) fn add(
    placed: &mut OutputLayout,
    checkpoint: &Checkpoint,
    (name, folder): (String, &str),
    pickle: &[u8],
    storages: &[Storage],
    phases: Option<&Phases>,
) -> Result<Sums> {
    let file = FileId(placed.files.len());
    let first = placed.placements.len();
    let mut archive = Archive::new(file, folder, pickle)?;
    let mut offsets = add_storages(&mut archive, first, storages, None)?;
    if let Some(phases) = phases.filter(|phases| is_elsewhere(phases, storages, &offsets)) {
        archive = Archive::unaligned(file, folder, pickle)?;
        offsets = add_storages(&mut archive, first, storages, Some(phases))?;
    }
    for (storage, offset) in storages.iter().zip(offsets) {
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32, seed: 0, value: None };
        let checksum = (storage.len > 0).then_some(checksum);
        let extent = Extent::new(file, offset, storage.len).with_checksum(checksum);
        for (id, encoding) in &storage.tensors {
            let name = checkpoint.tensors.get(id.0).map(|tensor| tensor.name.clone()).unwrap_or_default();
            placed.placements.push(Placement::new(*id, name, extent.clone(), encoding.clone()));
        }
    }
    let (len, literals, sums) = archive.finish()?;
    placed.literals.extend(literals);
    placed.files.push(OutputFile::new(name, len));
    Ok(sums)
}

/// Adds the records of storages, of which the first placement has this number; returns the offset of each.
fn add_storages(
    archive: &mut Archive,
    mut placement: usize,
    storages: &[Storage],
    phases: Option<&Phases>,
) -> Result<Vec<u64>> {
    let mut offsets = Vec::with_capacity(storages.len());
    for storage in storages {
        let origin = phases.and_then(|phases| storage.origin(phases));
        offsets.push(archive.add_storage(&storage.key, storage.len, (placement, 0), origin)?);
        placement += storage.tensors.len();
    }
    Ok(offsets)
}

/// Whether the source has a large storage at another offset within a block.
fn is_elsewhere(phases: &Phases, storages: &[Storage], offsets: &[u64]) -> bool {
    storages.iter().zip(offsets).any(|(storage, offset)| {
        let distance = storage.origin(phases).and_then(|origin| origin.distance(*offset));
        distance.is_some_and(|distance| distance > 0)
    })
}

/// The folder of the records where none was read, as PyTorch names it for a file without a name.
pub(super) const FOLDER: &str = "archive";

/// Returns the folder of the records: the one that was read, if any.
pub(super) fn folder(checkpoint: &Checkpoint) -> &str {
    let kept = checkpoint.metadata.text(ZIP, KEY_FOLDER);
    kept.filter(|kept| is_folder(kept)).unwrap_or(FOLDER)
}

/// Whether the text is the name of one folder, which no tool unpacks to another place.
pub(super) fn is_folder(text: &str) -> bool {
    let is_safe = !text.contains(['/', '\\', '\0']) && text != ".." && text != ".";
    !text.is_empty() && text.len() < 1024 && is_safe
}
