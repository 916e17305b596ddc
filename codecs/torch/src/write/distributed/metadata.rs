//! The file `.metadata`: see [`crate::format::metadata`], which reads it.

use super::layout::{Laid, Placed};
use super::parts::Parts;
use crate::format::metadata::{Location, MODULE, STORAGE_MODULE, Step};
use crate::write::fresh::Stored;
use crate::write::pickle::{Items, Pickle, Protocol};
use std::collections::HashMap;

/// Version of the layout, as PyTorch 2.15 states it. Older versions of PyTorch ignore it.
const VERSION: &str = "1.0.0";

/// Where the values are in the dicts and lists that were saved, by name.
pub(super) type Paths = HashMap<String, Vec<Step>>;

/// Returns the pickle of the file.
pub(super) fn pickle(parts: &Parts<'_>, laid: &Laid, paths: &Paths) -> Vec<u8> {
    let mut pickle = Pickle::new(Protocol::Four);
    pickle.object(MODULE, "Metadata");
    attributes(&mut pickle, 5, |pickle, fields| {
        fields.begin(pickle, "state_dict_metadata");
        describe(pickle, parts, laid);
        fields.begin(pickle, "planner_data");
        plan(pickle, parts, paths);
        fields.begin(pickle, "storage_data");
        locate(pickle, parts, laid);
        fields.begin(pickle, "storage_meta");
        pickle.none();
        fields.begin(pickle, "version");
        pickle.text(VERSION);
    });
    pickle.finish()
}

/// The attributes of an object, of which the caller writes each value after its name.
struct Fields(crate::write::pickle::Batches);

impl Fields {
    fn begin(&mut self, pickle: &mut Pickle, name: &str) {
        pickle.before_item(&mut self.0);
        pickle.text(name);
    }
}

/// Sets `len` attributes of the object on the stack.
fn attributes(pickle: &mut Pickle, len: usize, write: impl FnOnce(&mut Pickle, &mut Fields)) {
    let mut fields = Fields(pickle.begin_items(Items::Dict, len));
    write(pickle, &mut fields);
    pickle.end_items(&mut fields.0);
    pickle.build();
}

/// Shapes and chunks of tensors, and which names are objects.
fn describe(pickle: &mut Pickle, parts: &Parts<'_>, laid: &Laid) {
    let mut items = pickle.begin_items(Items::Dict, parts.objects.len() + parts.tensors.len());
    for object in &parts.objects {
        pickle.before_item(&mut items);
        pickle.text(&object.name);
        pickle.object(MODULE, "BytesStorageMetadata");
    }
    for (stored, chunks) in parts.tensors.iter().zip(&laid.chunks) {
        pickle.before_item(&mut items);
        pickle.text(&stored.tensor.name);
        pickle.object(MODULE, "TensorStorageMetadata");
        attributes(pickle, 3, |pickle, fields| {
            fields.begin(pickle, "properties");
            properties(pickle, stored);
            fields.begin(pickle, "size");
            size(pickle, &stored.tensor.shape);
            fields.begin(pickle, "chunks");
            let mut list = pickle.begin_items(Items::List, chunks.len());
            for chunk in chunks {
                pickle.before_item(&mut list);
                pickle.object(MODULE, "ChunkStorageMetadata");
                attributes(pickle, 2, |pickle, fields| {
                    fields.begin(pickle, "offsets");
                    size(pickle, &chunk.region.start);
                    fields.begin(pickle, "sizes");
                    size(pickle, &chunk.region.shape);
                });
            }
            pickle.end_items(&mut list);
        });
    }
    pickle.end_items(&mut items);
}

/// The five properties that every version of PyTorch reads: dtype, layout, whether a gradient is required, the format in
/// memory, and whether the memory is pinned.
fn properties(pickle: &mut Pickle, stored: &Stored<'_>) {
    pickle.object(MODULE, "TensorProperties");
    pickle.begin_tuple(5);
    pickle.global("torch", stored.element.name);
    pickle.global("torch.serialization", "_get_layout");
    pickle.text("torch.strided");
    pickle.end_tuple(1);
    pickle.reduce();
    pickle.boolean(false);
    pickle.global(MODULE, "_MEM_FORMAT_ENCODING");
    pickle.size(0);
    pickle.end_tuple(1);
    pickle.reduce();
    pickle.boolean(false);
    pickle.end_tuple(5);
    pickle.build();
}

fn size(pickle: &mut Pickle, sizes: &[u64]) {
    pickle.global("torch", "Size");
    pickle.sizes(sizes);
    pickle.end_tuple(1);
    pickle.reduce();
}

/// The keys and indexes that lead to every value.
fn plan(pickle: &mut Pickle, parts: &Parts<'_>, paths: &Paths) {
    let objects = parts.objects.iter().map(|object| object.name.as_str());
    let names = objects.chain(parts.tensors.iter().map(|stored| stored.tensor.name.as_str()));
    let mut items = pickle.begin_items(Items::Dict, parts.objects.len() + parts.tensors.len());
    for name in names {
        pickle.before_item(&mut items);
        pickle.text(name);
        let own = paths.get(name).map_or(&[][..], Vec::as_slice);
        pickle.begin_tuple(own.len().max(1));
        for step in own {
            match step {
                Step::Key(key) => pickle.text(key),
                Step::Index(index) => pickle.size(*index),
            }
        }
        if own.is_empty() {
            pickle.text(name);
        }
        pickle.end_tuple(own.len().max(1));
    }
    pickle.end_items(&mut items);
}

/// Where everything is.
fn locate(pickle: &mut Pickle, parts: &Parts<'_>, laid: &Laid) {
    let chunks = laid.chunks.iter().map(Vec::len).sum::<usize>();
    let mut items = pickle.begin_items(Items::Dict, parts.objects.len() + chunks);
    for (object, at) in parts.objects.iter().zip(&laid.objects) {
        pickle.before_item(&mut items);
        pickle.object(MODULE, "MetadataIndex");
        attributes(pickle, 2, |pickle, fields| {
            fields.begin(pickle, "fqn");
            pickle.text(&object.name);
            fields.begin(pickle, "index");
            pickle.none();
        });
        location(pickle, at);
    }
    for (stored, chunks) in parts.tensors.iter().zip(&laid.chunks) {
        for (number, chunk) in chunks.iter().enumerate() {
            pickle.before_item(&mut items);
            index(pickle, &stored.tensor.name, chunk, number as u64);
            location(pickle, &chunk.at);
        }
    }
    pickle.end_items(&mut items);
}

fn index(pickle: &mut Pickle, name: &str, chunk: &Placed, number: u64) {
    pickle.object(MODULE, "MetadataIndex");
    attributes(pickle, 3, |pickle, fields| {
        fields.begin(pickle, "fqn");
        pickle.text(name);
        fields.begin(pickle, "index");
        pickle.size(number);
        fields.begin(pickle, "offset");
        size(pickle, &chunk.region.start);
    });
}

fn location(pickle: &mut Pickle, at: &Location) {
    pickle.object(STORAGE_MODULE, "_StorageInfo");
    attributes(pickle, 3, |pickle, fields| {
        fields.begin(pickle, "relative_path");
        pickle.text(&at.path);
        fields.begin(pickle, "offset");
        pickle.size(at.offset);
        fields.begin(pickle, "length");
        pickle.size(at.len);
    });
}
