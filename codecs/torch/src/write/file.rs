//! One file: a pickle, and the storages that it refers to.

use super::archive::{Archive, Sums};
use super::{KEY_FOLDER, ZIP};
use ckpt_api::{
    Checkpoint, Checksum, ChecksumAlgorithm, Encoding, Extent, FileId, OutputFile, OutputLayout, Placement,
    Result, TensorId,
};

/// A storage, and the tensors that fill it: one, or ties.
pub(super) struct Storage {
    pub(super) key: String,
    pub(super) len: u64,
    pub(super) tensors: Vec<(TensorId, Encoding)>,
}

/// Adds a file whose records lie in a folder of this name.
pub(super) fn add(
    placed: &mut OutputLayout,
    checkpoint: &Checkpoint,
    (name, folder): (String, &str),
    pickle: &[u8],
    storages: &[Storage],
) -> Result<Sums> {
    let file = FileId(placed.files.len());
    let mut archive = Archive::new(file, folder, pickle)?;
    for storage in storages {
        let offset = archive.add_storage(&storage.key, storage.len, (placed.placements.len(), 0))?;
        let checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32, seed: 0, value: None };
        let checksum = (storage.len > 0).then_some(checksum);
        let extent = Extent::new(file, offset, storage.len).with_checksum(checksum);
        for (id, encoding) in &storage.tensors {
            let name = checkpoint.tensors.get(id.0).map_or("", |tensor| tensor.name.as_str());
            placed.placements.push(Placement::new(*id, name, vec![extent.clone()], encoding.clone()));
        }
    }
    let (len, literals, sums) = archive.finish()?;
    placed.literals.extend(literals);
    placed.files.push(OutputFile::new(name, len));
    Ok(sums)
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
