//! Small reads that follow each other in a file, made one.

use super::files::Handle;
use ckpt_api::{Extent, FileId, Kind, Result};
use std::cell::RefCell;

/// Reads small extents that follow each other together: a system call for every tensor of a kilobyte costs more than
/// its bytes do.
pub(crate) struct Ahead {
    /// Bytes that will be wanted and follow each other: file, first byte, end; sorted.
    runs: Vec<(FileId, u64, u64)>,
    held: RefCell<Held>,
}

/// Bytes that were read and may be asked for.
struct Held {
    file: FileId,
    offset: u64,
    bytes: Vec<u8>,
}

/// What is longer is read by itself.
const SMALL: u64 = 16 << 10;
/// Bytes read at once.
const WINDOW: u64 = 64 << 10;

impl Ahead {
    /// For the extents that will be read, in that order.
    pub(crate) fn of<'a>(extents: impl Iterator<Item = &'a Extent>) -> Self {
        let mut runs: Vec<(FileId, u64, u64)> = Vec::new();
        for extent in extents.filter(|extent| extent.len <= SMALL && is_stored(extent)) {
            let end = extent.offset.saturating_add(extent.len);
            match runs.last_mut() {
                Some((file, _, last)) if (*file, *last) == (extent.file, extent.offset) => *last = end,
                _ => runs.push((extent.file, extent.offset, end)),
            }
        }
        runs.sort_unstable();
        let held = Held { file: FileId(0), offset: 0, bytes: Vec::new() };
        Ahead { runs, held: RefCell::new(held) }
    }

    /// Fills `out` from `offset` of the file with this id.
    ///
    /// # Errors
    /// As [`Handle::read_at`].
    pub(super) fn read_at(&self, id: FileId, file: &Handle<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        let Some(end) = offset.checked_add(len).filter(|_| len <= SMALL) else {
            return file.read_at(offset, out);
        };
        let held = &mut *self.held.borrow_mut();
        if held.find(id, offset, len).is_none() {
            let later = self.runs.partition_point(|run| (run.0, run.1) <= (id, offset));
            let run = self.runs.get(..later).and_then(<[_]>::last);
            let run = run.filter(|run| run.0 == id && end <= run.2);
            let end = run.map_or(end, |run| run.2.min(offset.saturating_add(WINDOW)));
            held.bytes.resize(usize::try_from(end - offset).unwrap_or_default(), 0);
            (held.file, held.offset) = (id, offset);
            if let Err(error) = file.read_at(offset, &mut held.bytes) {
                held.bytes.clear();
                // If the file ends too early, the error below names the bytes that are missing.
                if error.kind() != Kind::Corrupt {
                    return Err(error);
                }
            }
        }
        match held.find(id, offset, len) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => file.read_at(offset, out)?,
        }
        Ok(())
    }
}

/// Whether the file holds the bytes as they are.
pub(super) fn is_stored(extent: &Extent) -> bool {
    extent.compression().is_none() && !extent.is_computed()
}

impl Held {
    fn find(&self, file: FileId, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let bytes = self.bytes.get(start..)?.get(..usize::try_from(len).ok()?)?;
        (self.file == file).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Input;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn what_was_read_ahead_is_what_lies_in_the_files(
            pieces in prop::collection::vec((0usize..2, 0u64..40_000, prop_oneof![0..50u64, SMALL - 2..SMALL + 2]), 1..20),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
        ) {
            let files: Vec<Vec<u8>> =
                (0..2).map(|n| (0..80_000u32).map(|k| (k * 31 + k / 256 + n) as u8).collect()).collect();
            let names = ["a", "b"].map(str::to_owned);
            let input = Input::memory("a", names.clone().into_iter().zip(files.clone()).collect::<BTreeMap<_, _>>());
            let extents = pieces.iter().map(|(file, offset, len)| {
                Extent::new(FileId(*file), *offset, *len)
            });
            let extents: Vec<Extent> = extents.collect();
            let ahead = Ahead::of(extents.iter());
            for index in order {
                let (file, offset, len) = *index.get(&pieces);
                let mut out = vec![0; len as usize];
                ahead.read_at(FileId(file), &Handle::File(input.file(&names[file]).unwrap()), offset, &mut out).unwrap();
                prop_assert_eq!(&out, &files[file][offset as usize..][..len as usize]);
            }
        }
    }

    #[test]
    fn what_the_file_has_not_is_an_error_about_the_bytes_that_were_asked_for() {
        let input = Input::memory("a", BTreeMap::from([("a".to_owned(), vec![7; 10])]));
        let ahead = Ahead::of(std::iter::empty());
        let mut out = [0; 4];
        let error =
            ahead.read_at(FileId(0), &Handle::File(input.file("a").unwrap()), 8, &mut out).unwrap_err();
        assert!(error.to_string().contains("offset 8"), "{error}");
        ahead.read_at(FileId(0), &Handle::File(input.file("a").unwrap()), 6, &mut out).unwrap();
        assert_eq!(out, [7; 4]);
    }
}
