//! The files of a model without the bytes of its tensors, so that it can be written again.

use super::package::{items, model_file};
use super::parsed::Parsed;
use crate::format::{MANIFEST, NAMESPACE};
use ckpt_api::{
    Contents, Error, File, Input, Limit, Limits, Metadata, MetadataValue, Placement, ReadAt, Result,
};
use ckpt_containers::structure::Structure;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a tensor whose elements the graph may be read with.
pub(crate) const SMALL: u64 = 1024;

/// Key of the names of the files.
const KEY_FILES: &str = "files";

/// Keys of a file's structure.
const STRUCTURE: [&str; 3] = ["data", "model", "small"];
/// How often a byte that is kept is read, with some room: parsed, and as an operand of operations.
const TIMES_READ: u64 = 16;
/// A new package has a model, a file of weights and a manifest.
const FILES_OF_PACKAGE: usize = 3;

/// A model and its files.
pub(crate) struct Package {
    pub(crate) parsed: Parsed,
    /// The files by name; those of the contents come first, in their order.
    pub(crate) files: Vec<(String, Structure)>,
}

/// The keys of metadata that a new package has: its files.
pub(crate) fn kept_keys() -> impl Iterator<Item = String> {
    let of_file = |number| STRUCTURE.map(|key| format!("{}.{key}", namespace(number)));
    (0..FILES_OF_PACKAGE).flat_map(of_file).chain([format!("{NAMESPACE}.{KEY_FILES}")])
}

/// Whether the bytes of a tensor are its elements, so that others can take their place.
pub(crate) fn is_plain(placement: &Placement) -> bool {
    placement.extents.iter().all(|extent| extent.compression().is_none())
}

impl Package {
    /// Reads a model, and its files without the bytes of its tensors.
    ///
    /// # Errors
    /// As [`ckpt_api::Codec::read`].
    pub(crate) fn read(input: &Input, limits: &Limits) -> Result<Self> {
        let name = model_file(input, limits)?;
        let file = input.file(&name)?;
        let parsed = Parsed::of(input, limits, name, file)?;
        let mut package = Package { parsed, files: Vec::new() };
        package.read_files(input, limits)?;
        Ok(package)
    }

    /// The structure of each file; none if a file is too large for what it has beside tensors that can be written.
    fn read_files(&mut self, input: &Input, limits: &Limits) -> Result<()> {
        let contents = &self.parsed.contents;
        if !contents.placements.iter().all(is_plain) {
            return Ok(());
        }
        let mut data = data(contents);
        let mut names = contents.files.clone();
        if input.is_directory() || input.entry() == MANIFEST {
            let mut seen: HashSet<String> = names.iter().cloned().collect();
            let others = items(input, limits)?.into_iter().chain([MANIFEST.to_owned()]);
            names.extend(others.filter(|name| seen.insert(name.clone())));
        }
        let (mut files, mut total) = (Vec::with_capacity(names.len()), 0u64);
        for (number, name) in names.into_iter().enumerate() {
            let file = input.file(&name)?;
            let data = data.get_mut(number).map(std::mem::take).unwrap_or_default();
            let hidden: u64 = data.iter().map(|range| range.end.saturating_sub(range.start)).sum();
            total = total.saturating_add(file.len().saturating_sub(hidden));
            if limits.check(Limit::HeaderBytes, total).is_err() {
                return Ok(());
            }
            files.push((name, structure(&file, data)?));
        }
        self.files = files;
        Ok(())
    }

    /// Keeps the files in the checkpoint's metadata; of those that cannot be written again, the names.
    pub(crate) fn keep(self) -> Contents {
        let mut contents = self.parsed.contents;
        let metadata = &mut contents.checkpoint.metadata;
        let kept = self.files.iter().map(|(name, _)| name);
        let names =
            if self.files.is_empty() { contents.files.iter().collect() } else { kept.collect::<Vec<_>>() };
        let names = names.into_iter().map(|name| MetadataValue::Text(name.clone())).collect();
        metadata.insert(NAMESPACE, KEY_FILES, MetadataValue::List(names));
        for (number, (_, structure)) in self.files.into_iter().enumerate() {
            structure.keep(metadata, &namespace(number));
        }
        contents
    }

    /// The model that metadata keeps; `None` if there is none.
    pub(crate) fn kept(metadata: &Metadata) -> Option<Self> {
        let names = metadata.value(NAMESPACE, KEY_FILES)?.as_list()?;
        let mut files = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let MetadataValue::Text(name) = name else { return None };
            files.push((name.clone(), Structure::kept(metadata, &namespace(number))?));
        }
        let handles = files.iter().map(|(name, structure)| {
            let handle: Arc<dyn ReadAt> = Arc::new(structure.clone());
            (name.clone(), handle)
        });
        let handles: BTreeMap<String, Arc<dyn ReadAt>> = handles.collect();
        let entry = if handles.contains_key(MANIFEST) { "" } else { files.first()?.0.as_str() };
        let input = Input::of(entry, handles);
        // What was kept may have been read with a larger limit. Bytes that were not kept are zeros, of any number.
        let kept: u64 = files.iter().map(|(_, structure)| structure.bytes.len() as u64).sum();
        let most = kept.saturating_mul(TIMES_READ).saturating_add(Limit::HeaderBytes.default_value());
        let limits = Limits::default().with(Limit::HeaderBytes, most);
        let name = model_file(&input, &limits).ok()?;
        let file = input.file(&name).ok()?;
        let parsed = Parsed::of(&input, &limits, name, file).ok()?;
        let is_same = parsed.contents.files.iter().zip(&files).all(|(own, (name, _))| own == name);
        (is_same && parsed.contents.files.len() <= files.len()).then_some(Package { parsed, files })
    }

    /// Whether the model is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.files.iter().any(|(name, _)| name == MANIFEST)
    }
}

/// The namespace of a file's structure.
fn namespace(number: usize) -> String {
    format!("{NAMESPACE}.{number}")
}

/// The ranges of each file that are bytes of tensors, in ascending order.
fn data(contents: &Contents) -> Vec<Vec<Range<u64>>> {
    let mut files = vec![Vec::new(); contents.files.len()];
    for extent in contents.placements.iter().flat_map(|placement| &placement.extents) {
        if let Some(file) = files.get_mut(extent.file.0).filter(|_| extent.len > 0) {
            file.push(extent.offset..extent.offset.saturating_add(extent.len));
        }
    }
    files.into_iter().map(merged).collect()
}

/// The same bytes as ranges that do not overlap.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// A file without these ranges.
fn structure(file: &File, data: Vec<Range<u64>>) -> Result<Structure> {
    let mut structure = Structure::of(file, data)?;
    let lens = structure.data.iter().map(|range| (range.start, range.end.saturating_sub(range.start)));
    for (start, len) in lens.filter(|(_, len)| *len <= SMALL).collect::<Vec<_>>() {
        structure.add_small(start, file.bytes(start, len)?);
    }
    match structure.file_len() == Some(file.len()) {
        true => Ok(structure),
        false => Err(Error::defect("a file's structure has another length").file(file.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_containers::protobuf::{put_bytes, put_int, put_varint};

    fn message(field: u64, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, field, &parts.concat());
        out
    }

    fn int(field: u64, value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        put_int(&mut out, field, value);
        out
    }

    /// What metadata keep of a program with a constant of so many integers, of which they keep none.
    fn constant(count: u64) -> Metadata {
        let (len, opset) = (int(1, count.cast_signed()), message(1, &[b"CoreML7"]));
        let dimension = message(3, &[&message(1, &[&len])]);
        let ty = message(2, &[&message(1, &[&int(1, 23), &int(2, 1), &dimension])]);
        let output = message(3, &[&message(1, &[b"w"]), &ty]);
        let levels = [
            (1, vec![]),
            (2, vec![]),
            (1, vec![]),
            (3, vec![]),
            (2, ty),
            (5, message(1, &[b"val"])),
            (3, [message(1, &[b"const"]), output].concat()),
            (2, vec![]),
            (3, opset),
            (2, message(2, &[b"CoreML7"])),
            (2, message(1, &[b"main"])),
            (502, vec![]),
        ];
        let (mut head, mut len) = (Vec::new(), count);
        for (field, before) in levels {
            let mut outer = Vec::new();
            put_varint(&mut outer, field << 3 | 2);
            put_varint(&mut outer, len + before.len() as u64);
            outer.extend(before);
            len += outer.len() as u64;
            head = [outer, head].concat();
        }
        let mut metadata = Metadata::default();
        let names = MetadataValue::List(vec![MetadataValue::Text("m.mlmodel".to_owned())]);
        metadata.insert(NAMESPACE, KEY_FILES, names);
        let data = head.len() as u64..head.len() as u64 + count;
        Structure::new(head, vec![data]).keep(&mut metadata, &namespace(0));
        metadata
    }

    #[test]
    fn a_model_that_metadata_keep_is_read_within_limits() {
        let tensors = |count| Some(Package::kept(&constant(count))?.parsed.contents.checkpoint.tensors.len());
        assert_eq!(tensors(16), Some(1));
        assert_eq!(tensors(1 << 29), None);
    }
}
