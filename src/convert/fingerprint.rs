//! What decides the bytes of an output: a killed conversion is gone on with only where all of it is the same.

use super::Planned;
use crate::execute::{Fingerprint, Stamp};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// SHA-256 over this program, the source's files as they are now, and all options; `None` for a source that is not on
/// disk, whose files nobody could recognize.
pub(super) fn fingerprint(planned: &Planned) -> Option<Fingerprint> {
    let Planned { source, plan, conversion, .. } = planned;
    let root = source.input.directory()?;
    let opened = source.input.opened();
    let names: BTreeSet<&String> = opened.iter().chain(&source.contents.files).collect();
    let architecture = [&source.options.architecture, &conversion.architecture];
    let described = serde_json::json!({
        "ckpt": env!("CARGO_PKG_VERSION"),
        "program": program(),
        "formats": [plan.from, plan.to],
        "entry": source.input.entry(),
        "files": names.iter().map(|name| (name, of_source(&root.join(name)))).collect::<Vec<_>>(),
        "reading": source.options.options,
        "writing": conversion.options,
        "architecture": architecture.map(|file| file.as_ref().map(|file| file.document.to_string())),
        "mapping": conversion.mapping.as_ref().map(|mapping| mapping.to_toml()),
        "transforms": conversion.transforms.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "include": conversion.include,
        "exclude": conversion.exclude,
        "dtype": conversion.dtype,
        "jobs": plan.jobs().len(),
        "bytes": [plan.bytes_read, plan.bytes_written],
    });
    Some(Sha256::digest(described.to_string()).into())
}

/// Another build may place tensors elsewhere.
fn program() -> Option<Stamp> {
    Stamp::of(&std::env::current_exe().ok()?.canonicalize().ok()?).ok()
}

/// A file's stamp, and when anything about it was last changed: what sets the time of a file's last change back sets this.
fn of_source(path: &Path) -> Option<(Stamp, [i64; 2])> {
    let meta = fs::metadata(path).ok()?;
    Some((Stamp::of_metadata(&meta), changed(&meta)))
}

#[cfg(unix)]
fn changed(meta: &fs::Metadata) -> [i64; 2] {
    use std::os::unix::fs::MetadataExt;
    [meta.ctime(), meta.ctime_nsec()]
}

#[cfg(not(unix))]
fn changed(_: &fs::Metadata) -> [i64; 2] {
    [0; 2]
}
