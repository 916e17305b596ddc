//! The files of a checkpoint, and which tensors they lack the bytes of.

use ckpt_engine::source::Source;
use ckpt_engine::words::{count, quote};
use serde::Serialize;

/// A file of a checkpoint.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileSummary {
    /// Name relative to the input's directory.
    pub name: String,
    /// Length in bytes; `None` if the file is missing.
    pub bytes: Option<u64>,
    /// Number of tensors with bytes in it.
    pub tensors: usize,
}

/// Describes the files. The second result is a note on tensors whose bytes are missing, if there are any.
pub(super) fn files(source: &Source) -> (Vec<FileSummary>, Option<String>) {
    let contents = source.contents();
    let length = |name: &str| source.input().file(name).ok().map(|file| file.len());
    let describe = |name: &String| FileSummary { name: name.clone(), bytes: length(name), tensors: 0 };
    let mut files: Vec<FileSummary> = contents.files.iter().map(describe).collect();
    let (mut needed, mut last) = (vec![0; files.len()], vec![None; files.len()]);
    let mut incomplete = 0;
    for placement in &contents.placements {
        let mut is_complete = true;
        for extent in &placement.extents {
            let id = extent.file.0;
            let before = last[id].replace(placement.tensor);
            files[id].tensors += usize::from(before != Some(placement.tensor));
            let end = extent.offset.saturating_add(extent.stored_len());
            if extent.stored_len() > 0 {
                needed[id] = end.max(needed[id]);
                is_complete &= files[id].bytes.is_some_and(|len| end <= len);
            }
        }
        incomplete += usize::from(!is_complete);
    }
    let note = (incomplete > 0).then(|| {
        let of = count(contents.placements.len(), "tensor");
        format!("the values of {incomplete} of {of} are missing: {}", missing(&files, &needed))
    });
    (files, note)
}

/// What is wrong with the first file that does not have the bytes that are needed, how many others do not, and what to
/// do.
fn missing(files: &[FileSummary], needed: &[u64]) -> String {
    let short = files.iter().zip(needed).filter(|(file, needed)| file.bytes.unwrap_or(0) < **needed);
    let mut short = short.map(|(file, needed)| {
        let name = quote(&file.name);
        match file.bytes {
            None => format!("{name} cannot be opened; put it beside the other files"),
            Some(len) => {
                let needed = count(*needed, "byte");
                format!("{name} is cut short, {len} of at least {needed}; copy it again")
            }
        }
    });
    let first = short.next().unwrap_or_default();
    match short.count() {
        0 => first,
        more => format!("{first}; {} cut short or cannot be opened, too", others(more)),
    }
}

fn others(more: usize) -> String {
    if more == 1 { "1 more file is".to_owned() } else { format!("{more} more files are") }
}
