//! Writes checkpoints: the tree, and one file with all arrays and their database.

mod chunks;
mod database;
mod flax;
mod left_out;
mod paths;
mod tree;

pub(crate) use chunks::CHUNK;
pub(crate) use flax::place as place_flax;

use crate::format::dtype::{STORED, name_of, zarr2_name_of};
use crate::format::{MANIFEST, NAMESPACE, STEP, STRINGS, TREE, join};
use crate::zarr::{ARRAY_2, ARRAY_3};
use chunks::{Chunk, Chunks};
use ckpt_api::{
    Checkpoint, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, Options, OutputFile, OutputLayout,
    Placement, Result, Tensor, TensorId,
};
use database::{Entry, EntryValue};
use left_out::leave_out_roles;
use std::collections::HashMap;
use tree::Written;

/// The option that chooses the API for whose layout is written.
pub(crate) const LAYOUT: &str = "layout";

/// The item of the layout of API v1, and the file that marks that.
const ITEM_V1: &str = "state";
const MARKER_V1: &str = "orbax.checkpoint";

/// Metadata of an item that is written again.
const KEPT: [&str; 3] = ["strings", "empty", "paths"];

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let is_v1 = options.text(LAYOUT) == Some("v1");
    let item = if is_v1 { join(name, ITEM_V1) } else { name.to_owned() };
    let mut placed = OutputLayout::default();
    let leaves = tree::leaves(checkpoint, |tensor| STORED.contains(&tensor.dtype))?;
    let version = if is_v1 { Version::Three } else { Version::Two };
    let mut data = Data::default();
    for leaf in leaves.iter().filter_map(Written::tensor) {
        data.add(checkpoint, leaf, version, options.size(CHUNK))?;
    }
    let metadata = tree::metadata(&leaves, is_v1);
    let files = DataNames::of(&metadata);
    let database = database::encode(data.entries, &files.path, data.end, files.uuid)?;
    placed.placements = data.placements;
    let add = |placed: &mut OutputLayout, name: String, at: u64, bytes: Vec<u8>| {
        let file = FileId(placed.files.len());
        placed.files.push(OutputFile::new(name, at.saturating_add(bytes.len() as u64)));
        placed.literals.push(Literal { file, offset: at, bytes });
    };
    // The file with the arrays is the first: placements refer to it.
    add(&mut placed, join(&item, &files.path), data.end, database.nodes);
    if let Some(strings) = tree::strings(&leaves) {
        add(&mut placed, join(&item, STRINGS), 0, strings);
    }
    add(&mut placed, join(&item, TREE), 0, metadata);
    add(&mut placed, join(&item, MANIFEST), 0, database.manifest);
    if is_v1 {
        add(&mut placed, join(name, MARKER_V1), 0, Vec::new());
        add(&mut placed, join(name, STEP), 0, tree::step_metadata(ITEM_V1));
    }
    leave_out(&mut placed, checkpoint);
    Ok(placed)
}

/// The version of zarr in which arrays are described.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl Version {
    fn file(self) -> &'static str {
        match self {
            Version::Two => ARRAY_2,
            Version::Three => ARRAY_3,
        }
    }

    /// The text that describes an array in such chunks, as TensorStore writes it; `None` for a type without a name.
    fn describe(self, tensor: &Tensor, chunk: &[u64]) -> Option<String> {
        let (chunk, shape) = (list(chunk), list(&tensor.shape));
        Some(match self {
            Version::Two => format!(
                r#"{{"chunks":{chunk},"compressor":null,"dimension_separator":".","dtype":"{}","fill_value":null,"filters":null,"order":"C","shape":{shape},"zarr_format":2}}"#,
                zarr2_name_of(tensor.dtype)?
            ),
            Version::Three => format!(
                r#"{{"chunk_grid":{{"configuration":{{"chunk_shape":{chunk}}},"name":"regular"}},"chunk_key_encoding":{{"name":"default"}},"codecs":[{{"configuration":{{"endian":"little"}},"name":"bytes"}}],"data_type":"{}","fill_value":{},"node_type":"array","shape":{shape},"zarr_format":3}}"#,
                name_of(tensor.dtype)?,
                fill(tensor)
            ),
        })
    }

    /// The key of a chunk, after the name of its array.
    fn key(self, place: &[u64]) -> String {
        let keys = match self {
            Version::Two => crate::zarr::ChunkKeys { has_prefix: false, separator: '.' },
            Version::Three => crate::zarr::ChunkKeys { has_prefix: true, separator: '/' },
        };
        keys.key(place)
    }
}

fn list(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// What zarr 3 fills an array of this type with.
fn fill(tensor: &Tensor) -> &'static str {
    use ckpt_api::DType;
    match tensor.dtype {
        DType::Bool => "false",
        DType::C64 | DType::C128 => "[0.0,0.0]",
        dtype if dtype.is_float() => "0.0",
        _ => "0",
    }
}

/// The file with the arrays, as far as it is laid out.
#[derive(Default)]
struct Data {
    placements: Vec<Placement>,
    entries: Vec<Entry>,
    /// Where the chunks of a tensor are that others share.
    shared: HashMap<TensorId, Vec<Chunk>>,
    end: u64,
}

impl Data {
    fn add(
        &mut self,
        checkpoint: &Checkpoint,
        leaf: (TensorId, &str),
        version: Version,
        most: Option<u64>,
    ) -> Result<()> {
        let (id, name) = leaf;
        let Some(tensor) = checkpoint.tensors.get(id.0) else { return Ok(()) };
        let encoding = Encoding::row_major(tensor);
        let named = |error: Error| error.tensor(&tensor.name);
        let chunks = Chunks::of(tensor, &encoding, most).map_err(named)?;
        let metadata = version.describe(tensor, &chunks.lens);
        let metadata = metadata.ok_or_else(|| named(Error::unsupported("Orbax has no such type")))?;
        let key = |rest: &str| join(name, rest).into_bytes();
        self.entries
            .push(Entry { key: key(version.file()), value: EntryValue::Inline(metadata.into_bytes()) });
        let first = checkpoint.ties.first_of(id);
        let placed = match self.shared.get(&first) {
            Some(placed) => placed.clone(),
            None => {
                let placed = chunks.place(self.end).map_err(named)?;
                self.end = placed.last().map_or(self.end, |chunk| chunk.offset.saturating_add(chunk.stored));
                self.shared.insert(first, placed.clone());
                placed
            }
        };
        for chunk in &placed {
            let value = EntryValue::Stored { offset: chunk.offset, len: chunk.stored };
            self.entries.push(Entry { key: key(&version.key(&chunk.place)), value });
        }
        let extent = |chunk: Chunk| Extent::new(FileId(0), chunk.offset, chunk.len).with_region(chunk.region);
        let extents: Vec<Extent> = placed.into_iter().map(extent).collect();
        self.placements.push(Placement::new(id, name, extents, encoding));
        Ok(())
    }
}

/// The name of the file with the arrays, and the identity of the database: of the same tree, the same.
struct DataNames {
    path: String,
    uuid: [u8; 16],
}

impl DataNames {
    fn of(metadata: &[u8]) -> DataNames {
        use ckpt_api::{Checksum, ChecksumAlgorithm};
        let mut uuid = [0; 16];
        for (seed, part) in (0u32..).zip(uuid.chunks_exact_mut(4)) {
            let mut sum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None }.start();
            sum.update(&seed.to_le_bytes());
            sum.update(metadata);
            part.copy_from_slice(&sum.finish().to_le_bytes());
        }
        let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        DataNames { path: format!("d/{digits}"), uuid }
    }
}

/// Declares what the checkpoint has and the output does not.
fn leave_out(placed: &mut OutputLayout, checkpoint: &Checkpoint) {
    let why = "Orbax keeps it beside the tree, which is all that is written";
    let own = checkpoint.metadata.namespace(NAMESPACE).into_iter().flat_map(|own| own.iter());
    let lost = own.filter(|(key, _)| !KEPT.contains(key));
    placed
        .losses
        .extend(lost.map(|(key, _)| Loss::new(LossKind::MetadataDropped, format!("{NAMESPACE}.{key}"), why)));
    leave_out_roles(placed, checkpoint);
}
