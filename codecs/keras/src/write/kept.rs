//! Files that were read and are written again as they were.
//!
//! All bytes that are no elements are kept in the metadata. If reading them gives the tensors that the checkpoint has,
//! the same bytes are written around the elements: whatever program wrote the file, it comes back byte for byte.

use super::layout::{Layout, Weights, inside};
use super::sparse::{Runs, Sparse};
use crate::format::{
    CONFIG, Container, FILES, ID, INDEX_END, KEY_CONTAINER, KEY_PARTS, KEY_PATH, LAYER_NAMES, METADATA,
    MODEL_WEIGHTS, WEIGHTS, WEIGHTS_END,
};
use crate::read::{Files, read_files};
use ckpt_api::{
    Checkpoint, Contents, Extent, File, FileId, Input, Limit, Limits, MetadataMap, MetadataValue, Placement,
    ReadAt, Result, Rules, Tensor,
};
use ckpt_hdf5::attribute;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a checksum.
const CHECKSUM_BYTES: u64 = 4;
const KEY_NAME: &str = "name";
const KEY_BYTES: &str = "bytes";

/// Keeps in the metadata what writing the files again needs.
///
/// # Errors
/// Those of reading them.
pub(crate) fn keep(files: &Files, input: &Input, contents: &mut Contents, limits: &Limits) -> Result<()> {
    let is_plain = |placement: &Placement| {
        placement.window().is_none() && placement.extents.iter().all(|extent| extent.compression().is_none())
    };
    if !contents.placements.iter().all(is_plain) {
        return Ok(());
    }
    let mut others: Vec<String> = Vec::new();
    match files.container {
        Container::Archive | Container::File => {}
        Container::Directory => {
            let names = [CONFIG, METADATA].into_iter().filter(|name| input.has_file(name));
            others.extend(names.map(str::to_owned));
        }
        Container::Sharded => others.push(input.entry().to_owned()),
    }
    let (mut parts, mut runs) = (Vec::new(), Vec::new());
    for (number, name) in files.names.iter().chain(&others).enumerate() {
        let file = input.file(name)?;
        let extents = contents.placements.iter().flat_map(|placement| &placement.extents);
        let extents = extents.filter(|extent| extent.file == FileId(number));
        let mut taken: Vec<(u64, u64)> = extents.map(|extent| (extent.offset, extent.len)).collect();
        if number == 0 {
            // The checksum follows from the elements.
            taken.extend(files.checksums.iter().map(|place| (*place, CHECKSUM_BYTES)));
        }
        let Some(bytes) = Runs::around(&file, taken, limits.get(Limit::HeaderBytes))? else { return Ok(()) };
        let mut part = MetadataMap::new();
        part.insert(KEY_NAME, name.as_str());
        part.insert(KEY_BYTES, MetadataValue::Bytes(bytes.to_bytes()));
        parts.push(MetadataValue::Map(part));
        runs.push((name.clone(), bytes));
    }
    if is_fresh(files, input, contents, &runs, limits)? {
        return Ok(());
    }
    let metadata = &mut contents.checkpoint.metadata;
    metadata.insert(FILES, KEY_CONTAINER, files.container.name());
    metadata.insert(FILES, KEY_PARTS, MetadataValue::List(parts));
    Ok(())
}

/// Whether the same files are written without what is kept of them.
fn is_fresh(
    files: &Files,
    input: &Input,
    contents: &Contents,
    runs: &[(String, Runs)],
    limits: &Limits,
) -> Result<bool> {
    let name = if files.container == Container::Directory { "" } else { input.entry() };
    let Ok(layout) = super::fresh::lay_out(&contents.checkpoint, name, files.container, None) else {
        return Ok(false);
    };
    if layout.files.len() != runs.len() {
        return Ok(false);
    }
    for (number, file) in layout.files.iter().enumerate() {
        let (Some((_, own)), Some(len)) = (runs.iter().find(|(name, _)| *name == file.name), file.len) else {
            return Ok(false);
        };
        let fresh = File::new(Arc::new(Sparse::new(layout.runs(number, len))), &file.name)?;
        let fresh = Runs::around(&fresh, Vec::new(), limits.get(Limit::HeaderBytes))?;
        if fresh.as_ref() != Some(own) {
            return Ok(false);
        }
    }
    let same = |placement: &Placement| {
        let own = contents.placements.get(placement.tensor.0);
        let offsets = |placement: &Placement| -> Vec<(u64, u64)> {
            placement.extents.iter().map(|extent| (extent.offset, extent.len)).collect()
        };
        own.is_some_and(|own| {
            let is_empty = own.extents.iter().all(|extent| extent.len == 0);
            own.encoding == placement.encoding && (is_empty || offsets(own) == offsets(placement))
        })
    };
    Ok(layout.placements.len() == contents.placements.len() && layout.placements.iter().all(same))
}

/// The files that were read, if they still describe the checkpoint.
pub(super) struct Kept {
    parts: Vec<(String, Runs)>,
    files: Files,
    contents: Contents,
}

impl Kept {
    /// Finds the files in the metadata.
    pub(super) fn of(checkpoint: &Checkpoint, container: Container) -> Option<Kept> {
        let stored = checkpoint.metadata.text(FILES, KEY_CONTAINER)?;
        if stored != container.name() {
            return None;
        }
        let list = checkpoint.metadata.value(FILES, KEY_PARTS)?.as_list()?;
        let part = |value: &MetadataValue| {
            let map = value.as_map()?;
            let runs = Runs::from_bytes(map.get(KEY_BYTES)?.as_bytes()?)?;
            Some((map.get(KEY_NAME)?.as_text()?.to_owned(), runs))
        };
        let parts = list.iter().map(part).collect::<Option<Vec<(String, Runs)>>>()?;
        are_named(&parts, container).then_some(())?;
        let held = parts.iter().map(|(name, runs)| {
            let file: Arc<dyn ReadAt> = Arc::new(Sparse::new(runs.clone()));
            (name.clone(), file)
        });
        let held: BTreeMap<String, Arc<dyn ReadAt>> = held.collect();
        let entry = match container {
            Container::Directory => "",
            Container::Sharded => {
                parts.iter().map(|(name, _)| name).find(|name| name.ends_with(INDEX_END))?
            }
            _ => &parts.first()?.0,
        };
        let limits = Limits::default();
        let input = Input::of(entry, held);
        let files = Files::open(&input, &limits, false).ok()?;
        let contents =
            read_files(&files, None, &mut Rules { lenient: true, ..Rules::default() }, &limits).ok()?;
        fits(&contents, checkpoint).then_some(Kept { parts, files, contents })
    }

    /// Whether Keras looks for what is in the files in an output of this name: in `.weights.h5` files, weights by path.
    fn suits(&self, name: &str) -> bool {
        let is_old = |group: &ckpt_hdf5::Group| {
            let has = |name: &str| attribute(&group.attributes, name).is_some();
            group.path == MODEL_WEIGHTS || (group.path.is_empty() && has(LAYER_NAMES))
        };
        let is_old = self.files.parts.iter().any(|part| part.tree.groups.iter().any(is_old));
        self.files.container != Container::File || !is_old || !name.ends_with(WEIGHTS_END)
    }

    /// Lays out the same files, under the name of the output.
    pub(super) fn lay_out(self, checkpoint: &Checkpoint, name: &str) -> Option<Layout> {
        if !self.suits(name) {
            return None;
        }
        let mut layout = Layout::default();
        let renamed = |part: &str| self.renamed(part, name);
        let by_name = checkpoint.by_name();
        for (number, (part, runs)) in self.parts.iter().enumerate() {
            let runs = match part.ends_with(INDEX_END) && self.files.container == Container::Sharded {
                true => Runs::of(self.index(runs, name)?),
                false => runs.clone(),
            };
            layout.file(renamed(part), &runs, number);
        }
        for placement in &self.contents.placements {
            let id = *by_name.get(placement.name.as_str())?;
            layout.placements.push(placement.clone().with_tensor(id));
        }
        if !self.files.checksums.is_empty() {
            let part = self.files.parts.first()?;
            let weights = Weights { file: 0, start: part.start, len: part.len };
            layout.checksum(weights, &self.files.checksums)?;
        }
        layout.contents = Some(self.contents);
        Some(layout)
    }

    /// The name of a part in an output of this name.
    fn renamed(&self, part: &str, name: &str) -> String {
        match self.files.container {
            Container::Archive | Container::File => name.to_owned(),
            Container::Directory => inside(name, part),
            Container::Sharded => {
                let entry =
                    self.parts.iter().map(|(name, _)| name.as_str()).find(|name| name.ends_with(INDEX_END));
                let stem = entry.and_then(|entry| entry.strip_suffix(INDEX_END)).unwrap_or_default();
                let new = name.strip_suffix(INDEX_END).unwrap_or(name);
                format!("{new}{}", part.strip_prefix(stem).unwrap_or_default())
            }
        }
    }

    /// The index, with the files' new names.
    fn index(&self, runs: &Runs, name: &str) -> Option<Vec<u8>> {
        let file = File::new(Arc::new(Sparse::new(runs.clone())), name).ok()?;
        let mut text = String::from_utf8(file.bytes(0, file.len()).ok()?).ok()?;
        for shard in &self.files.names {
            text = text.replace(&format!("\"{shard}\""), &format!("\"{}\"", self.renamed(shard, name)));
        }
        Some(text.into_bytes())
    }
}

/// Whether the names of parts are those that Keras gives them, so that others follow from the output's name.
fn are_named(parts: &[(String, Runs)], container: Container) -> bool {
    let mut names = parts.iter().map(|(name, _)| name.as_str());
    match container {
        Container::Archive | Container::File => true,
        Container::Directory => names.all(|name| [WEIGHTS, METADATA, CONFIG].contains(&name)),
        Container::Sharded => {
            let stem = names.clone().find_map(|name| name.strip_suffix(INDEX_END)).unwrap_or_default();
            let is_number = |rest: &str| {
                let number = rest.strip_prefix('_').and_then(|rest| rest.strip_suffix(WEIGHTS_END));
                number.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            };
            let is_part = |rest: &str| rest == INDEX_END || is_number(rest);
            !stem.is_empty() && names.all(|name| name.strip_prefix(stem).is_some_and(is_part))
        }
    }
}

/// Whether the files that were kept have the checkpoint's tensors, for the same variables and with the same axes, and
/// the checkpoint's graph.
fn fits(kept: &Contents, checkpoint: &Checkpoint) -> bool {
    let by_name = checkpoint.by_name();
    let is_same = |tensor: &Tensor| {
        let own = by_name.get(tensor.name.as_str()).and_then(|id| checkpoint.tensors.get(id.0));
        let path = |tensor: &Tensor| tensor.metadata.text(ID, KEY_PATH).map(str::to_owned);
        own.is_some_and(|own| {
            let has_place = path(tensor).is_none_or(|place| path(own) == Some(place));
            let has_axes = tensor.axes.is_none() || own.axes == tensor.axes;
            own.dtype == tensor.dtype && own.shape == tensor.shape && has_place && has_axes
        })
    };
    let has_place = |placement: &Placement| {
        placement.window().is_none()
            && placement.extents.iter().all(|extent: &Extent| extent.compression().is_none())
    };
    let computes_the_same = match (&kept.checkpoint.graph, &checkpoint.graph) {
        (Some(kept), Some(own)) => kept == own,
        _ => true,
    };
    computes_the_same
        && kept.checkpoint.tensors.len() == checkpoint.tensors.len()
        && kept.checkpoint.tensors.iter().all(is_same)
        && kept.placements.iter().all(has_place)
}
