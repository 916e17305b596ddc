//! The files that `torch.save` writes: where the pickle is, and where the bytes of each storage.

mod differences;
pub(crate) mod identity;
mod legacy;
mod saved;
mod script;
mod section;
mod storage;
mod tar;
mod zip;

pub(crate) use saved::{Record, Saved};
pub(crate) use script::Classes;
pub(crate) use section::section;
pub(crate) use storage::StorageId;
pub(crate) use zip::{Sign, sign};

use ckpt_api::{Error, File, Limits, Result};
use legacy::LEGACY_MAGIC;

/// Which kind of file something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Zip,
    Legacy,
    Tar,
}

/// Recognizes the kind by the first bytes.
pub(crate) fn kind(file: &File) -> Result<Option<Kind>> {
    let len = file.len().min(LEGACY_MAGIC.len() as u64);
    let head = file.bytes(0, len)?;
    Ok(match head.as_slice() {
        bytes if bytes == LEGACY_MAGIC => Some(Kind::Legacy),
        bytes if bytes.starts_with(&ckpt_containers::zip::record::LOCAL) => Some(Kind::Zip),
        _ if tar::is_checkpoint(file)? => Some(Kind::Tar),
        _ => None,
    })
}

/// Opens a file of any kind.
pub(crate) fn open(file: &File, limits: &Limits) -> Result<Saved> {
    match kind(file)? {
        Some(Kind::Zip) => zip::open(file, limits),
        Some(Kind::Legacy) => legacy::open(file, limits),
        Some(Kind::Tar) => tar::open(file, limits),
        None => Err(not_saved(file)?),
    }
}

fn not_saved(file: &File) -> Result<Error> {
    let head = file.bytes(0, file.len().min(1))?;
    if head.first() == Some(&0x80) {
        return Ok(Error::unsupported("the file is a pickle that torch.save did not write")
            .found("a pickle without PyTorch's magic number")
            .help("load it in Python, and save its tensors with torch.save"));
    }
    Ok(Error::corrupt("the file is not a PyTorch checkpoint")
        .offset(0)
        .expected("a zip archive, a pickle that begins with PyTorch's magic number, or a tar archive of storages and tensors"))
}
