//! What a person should know about a file: the names in its pickle, and what is left out.

use crate::container::Saved;
use crate::object::walk::Found;
use ckpt_api::{Text, count, first_few};

/// Names that a note lists.
const SHOWN: usize = 12;

/// The notes on one file.
pub(crate) fn of(saved: &Saved, found: &Found, root: Option<&str>) -> Vec<Text> {
    let mut notes: Vec<Text> = Vec::new();
    notes.extend(saved.names.note().map(Text::from));
    if saved.is_script {
        notes.push("it is a TorchScript archive: its tensors are read, and its code is left out".into());
    }
    if saved.followed_by > 0 {
        let bytes = count(saved.followed_by, "byte");
        notes.push(format!("{bytes} after the archive's end left out; PyTorch ignores them, too").into());
    }
    if let Some(root) = root {
        notes.push(format!("everything outside of '{}' is left out", root.escape_debug()).into());
    }
    if !found.foreign.is_empty() {
        notes.push(
            format!(
                "tensors are listed under their places in what is unknown: {}",
                first_few(&found.foreign, SHOWN)
            )
            .into(),
        );
    }
    if found.modules > 0 && !saved.is_script {
        let modules = count(found.modules, "pickled module");
        notes.push(
            format!("{modules} read as state dicts: the attributes beside their tensors are left out").into(),
        );
    }
    if found.dropped.count > 0 {
        let count = count(found.dropped.count, "value");
        notes.push(format!("{count} beside the tensors left out: {}", found.dropped).into());
    }
    notes
}

/// The note on tensors of untyped storages in a big-endian file, by their names.
pub(crate) fn unswapped(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "{} read as the big-endian machine stored them, in an untyped storage; torch.load on a little-endian machine \
             leaves their bytes as they are, which are other numbers: {}",
            count(names.len(), "tensor"),
            first_few(names, SHOWN)
        )
    })
}

/// The note on tensors of devices, each with its dtype and the one of its values in the file.
pub(crate) fn widened(tensors: &[String]) -> Option<String> {
    (!tensors.is_empty()).then(|| {
        let count = count(tensors.len(), "tensor");
        format!(
            "{count} of a device read with the dtype that its values are saved with: {}",
            first_few(tensors, SHOWN)
        )
    })
}
