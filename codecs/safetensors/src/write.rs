//! Writes a file, or a sharded set with Hugging Face's names.

use crate::carried;
use crate::format::{
    self, EXTENSION, Entry, FORMAT, INDEX_EXTENSION, INDEX_NAMESPACE, METADATA, NAMESPACE, without_json_form,
};
use crate::info::INFO;
use ckpt_api::{
    Aspect, Checkpoint, DType, Encoding, Error, Extent, FileId, Graph, Limit, Literal, Loss, LossKind,
    Options, OutputFile, OutputLayout, Packing, Phases, Placement, Result, Role, Tensor, TensorId,
};
use safetensors::Dtype;
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};

/// The reason of a loss that the option `metadata=none` causes.
const LEFT_OUT: &str = "left out because of metadata=none";

/// See [`ckpt_api::Codec::place`].
pub fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let full = options.text("metadata") != Some("none");
    let mut placed = OutputLayout::default();
    let stored = store(checkpoint)?;
    if full {
        placed.losses.extend(carried_graph(checkpoint));
    } else {
        let left_out = |aspect: &Aspect| (*aspect, LEFT_OUT.to_owned());
        placed.left_out = Aspect::ALL.iter().map(left_out).collect();
    }
    let target = Target::new(name, options, total(&stored)?)?;
    let order: Vec<TensorId> = stored.iter().map(|tensor| tensor.id).collect();
    let shards = target.split(stored);
    let layout = Layout {
        as_stored: shards.iter().flatten().map(|tensor| tensor.id).eq(order.iter().copied()),
        order,
    };
    let mut stored = metadata_of(checkpoint, &layout, target.set, full, &mut placed.losses);
    if let Some(framework) = options.text(FORMAT) {
        stored.pairs.insert(FORMAT.to_owned(), framework.to_owned());
    } else if let Some(framework) = options.framework() {
        // transformers opens only files that state one.
        stored.pairs.entry(FORMAT.to_owned()).or_insert_with(|| framework.to_owned());
    }

    let count = shards.len();
    let mut weight_map = BTreeMap::new();
    let mut total_size = 0u64;
    for (number, shard) in (1..).zip(&shards) {
        let file = if target.set { target.shard_name(number, count) } else { name.to_owned() };
        if target.set {
            weight_map.extend(
                shard.iter().map(|tensor| (tensor.tensor.name.to_string(), Value::from(file.as_str()))),
            );
        }
        let bytes = add_file(&mut placed, file, &stored.pairs, shard, options.phases())?;
        total_size = total_size.saturating_add(bytes);
    }
    if target.set {
        add_index(&mut placed, &target, stored.index, total_size, weight_map)?;
    }
    Ok(placed)
}

/// A tensor with the dtype that it is stored with.
struct Stored<'a> {
    id: TensorId,
    tensor: &'a Tensor,
    native: Dtype,
    holder: DType,
    len: u64,
}

impl Stored<'_> {
    fn encoding(&self) -> Encoding {
        encoding(self.tensor, self.holder)
    }

    fn entry(&self, start: u64) -> Entry {
        let end = start.saturating_add(self.len);
        Entry { dtype: self.native, shape: self.tensor.shape[..].into(), data_offsets: (start, end) }
    }
}

fn encoding(tensor: &Tensor, holder: DType) -> Encoding {
    let packing = if holder.bits().is_some_and(|bits| bits < 8) { Packing::Bits } else { Packing::Bytes };
    Encoding::row_major(tensor).with_dtype(holder).with_packing(packing)
}

/// Returns the tensors that safetensors has a dtype for, in the checkpoint's order.
fn store(checkpoint: &Checkpoint) -> Result<Vec<Stored<'_>>> {
    let mut stored = Vec::with_capacity(checkpoint.tensors.len());
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        if tensor.name == METADATA {
            return Err(Error::unsupported("safetensors reserves this name")
                .tensor(&tensor.name)
                .help("give the tensor another name with a mapping, or exclude it"));
        }
        let elements = tensor.shape.elements();
        let Some(holder) = format::holder(tensor.dtype, elements) else { continue };
        let unfit = || Error::unsupported("safetensors cannot hold the tensor").tensor(&tensor.name);
        let native = format::native(holder).ok_or_else(unfit)?;
        let len = encoding(tensor, holder).stored_len(elements).ok_or_else(unfit)?;
        stored.push(Stored { id: TensorId(id), tensor, native, holder, len });
    }
    Ok(stored)
}

/// Returns the loss of TensorFlow's object graph, which is stored in the metadata, not as a tensor.
fn carried_graph(checkpoint: &Checkpoint) -> Option<Loss> {
    checkpoint.metadata.value("tf2", "object_graph")?;
    let is_graph = |tensor: &&Tensor| tensor.role == Role::Bookkeeping && tensor.dtype.bytes().is_none();
    let tensor = checkpoint.tensors.iter().find(is_graph)?;
    Some(Loss::new(
        LossKind::of_dropping(tensor.role),
        &tensor.name,
        "not stored as a tensor; a copy is in the \
                                                                      metadata",
    ))
}

fn total(stored: &[Stored]) -> Result<u64> {
    let sum = stored.iter().try_fold(0u64, |sum, tensor| sum.checked_add(tensor.len));
    sum.filter(|sum| *sum <= u64::MAX / 2)
        .ok_or_else(|| Error::unsupported("the tensors have more bytes than a file can hold"))
}

/// The names of the files, and the size of a shard.
struct Target {
    stem: String,
    set: bool,
    shard_size: u64,
}

impl Target {
    fn new(name: &str, options: &Options, total: u64) -> Result<Self> {
        let shard_size = options.size("shard_size").unwrap_or(u64::MAX);
        if shard_size == 0 {
            return Err(Error::usage("a shard must hold at least one byte").field("shard_size").found("0"));
        }
        if name.ends_with(".json") && !name.ends_with(INDEX_EXTENSION) {
            return Err(Error::usage("a file of this name would be read as the index of a set")
                .found(format!("'{name}'"))
                .expected(format!("*{EXTENSION}, or *{INDEX_EXTENSION} for a set")));
        }
        let (stem, set) = match name.strip_suffix(INDEX_EXTENSION) {
            Some(stem) => (stem, true),
            None => (name.strip_suffix(EXTENSION).unwrap_or(name), total > shard_size),
        };
        Ok(Target { stem: stem.to_owned(), set, shard_size })
    }

    fn shard_name(&self, number: usize, count: usize) -> String {
        format!("{}-{number:05}-of-{count:05}{EXTENSION}", self.stem)
    }

    /// Distributes tensors over shards greedily. Within a shard, tensors have the order of the `safetensors` crate:
    /// larger dtypes first, so that all are aligned, then by name.
    fn split<'a>(&self, stored: Vec<Stored<'a>>) -> Vec<Vec<Stored<'a>>> {
        let mut shards = vec![Vec::new()];
        let mut room = if self.set { self.shard_size } else { u64::MAX };
        for tensor in stored {
            if tensor.len > room && shards.last().is_some_and(|shard: &Vec<Stored>| !shard.is_empty()) {
                shards.push(Vec::new());
                room = self.shard_size;
            }
            room = room.saturating_sub(tensor.len);
            if let Some(shard) = shards.last_mut() {
                shard.push(tensor);
            }
        }
        for shard in &mut shards {
            shard.sort_by(|a, b| b.native.cmp(&a.native).then_with(|| a.tensor.name.cmp(&b.tensor.name)));
        }
        shards
    }
}

/// The order of the tensors in the checkpoint, and whether the files have the same order.
struct Layout {
    order: Vec<TensorId>,
    as_stored: bool,
}

/// The metadata to write, by where it is written.
struct WrittenMetadata {
    /// In `__metadata__` of every file.
    pairs: BTreeMap<String, String>,
    /// In `metadata` of the index.
    index: Map<String, Value>,
}

fn metadata_of(
    checkpoint: &Checkpoint,
    layout: &Layout,
    set: bool,
    full: bool,
    losses: &mut Vec<Loss>,
) -> WrittenMetadata {
    let mut rest = match serde_json::to_value(&checkpoint.metadata) {
        Ok(Value::Object(namespaces)) => namespaces,
        _ => Map::new(),
    };
    let free = |key: &str| !(full && key == carried::KEY);
    let pairs = take(&mut rest, NAMESPACE, |key, value| value.is_string() && free(key));
    let text = |value: Value| if let Value::String(text) = value { text } else { value.to_string() };
    let mut pairs: BTreeMap<String, String> =
        pairs.into_iter().map(|(key, value)| (key, text(value))).collect();
    let mut index = match set {
        true => take(&mut rest, INDEX_NAMESPACE, |key, _| key != "total_size" && free(key)),
        false => Map::new(),
    };
    let tensors: Vec<&Tensor> = layout.order.iter().filter_map(|id| checkpoint.tensors.get(id.0)).collect();
    if full {
        let graph = checkpoint.graph.as_ref().filter(|graph| graph_fits(graph, &tensors, losses));
        let plain = layout.as_stored && !tensors.iter().any(|tensor| carried::is_described(tensor));
        let described = if plain { &[][..] } else { &tensors };
        match carried::write(graph, rest, described) {
            Some(text) if set => drop(index.insert(carried::KEY.into(), text.into())),
            Some(text) => drop(pairs.insert(carried::KEY.into(), text)),
            None => {}
        }
    } else {
        leave_out(&rest, losses);
    }
    WrittenMetadata { pairs, index }
}

/// Removes the keys in `wanted` from a namespace, and the namespace if it becomes empty.
fn take(
    namespaces: &mut Map<String, Value>,
    namespace: &str,
    wanted: impl Fn(&str, &Value) -> bool,
) -> Map<String, Value> {
    let Some(Value::Object(all)) = namespaces.get_mut(namespace) else { return Map::new() };
    let (taken, left): (Map<_, _>, Map<_, _>) =
        std::mem::take(all).into_iter().partition(|(key, value)| wanted(key, value));
    if left.is_empty() && !taken.is_empty() {
        namespaces.remove(namespace);
    } else {
        *all = left;
    }
    taken
}

fn graph_fits(graph: &Graph, tensors: &[&Tensor], losses: &mut Vec<Loss>) -> bool {
    let names: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut used = graph.tensors();
    let detail = match used.find(|name| !names.contains(name)) {
        Some(name) => format!("it uses the tensor '{name}', which is not stored"),
        None if !carried::survives_json(graph) => "it has a number without a JSON form".to_owned(),
        None => return true,
    };
    losses.push(Loss::new(LossKind::GraphDropped, graph_name(graph), detail));
    false
}

fn graph_name(graph: &Graph) -> &str {
    if graph.name.is_empty() { "graph" } else { &graph.name }
}

/// Adds the losses that `metadata=none` causes in safetensors' own metadata.
fn leave_out(rest: &Map<String, Value>, losses: &mut Vec<Loss>) {
    for namespace in rest.keys().filter(|namespace| INFO.owns(namespace)) {
        losses.push(Loss::new(LossKind::MetadataDropped, namespace, LEFT_OUT));
    }
}

/// Adds a file; returns the number of bytes of its tensors.
fn add_file(
    placed: &mut OutputLayout,
    name: String,
    pairs: &BTreeMap<String, String>,
    tensors: &[Stored],
    phases: Option<&Phases>,
) -> Result<u64> {
    let start = |least: u64| {
        let parts = with_starts(tensors).map(|(tensor, start)| (tensor.id, start, tensor.len));
        phases.map_or(least, |phases| phases.start(least, format::ALIGNMENT, parts))
    };
    let bytes = format::header_bytes(&WrittenHeader { pairs, tensors }, start);
    let bytes = bytes.map_err(|error| error.file(&name))?;
    let file = FileId(placed.files.len());
    let data = bytes.len() as u64;
    let end = tensors.iter().fold(0u64, |end, tensor| end.saturating_add(tensor.len));
    placed.placements.reserve_exact(tensors.len());
    for (tensor, start) in with_starts(tensors) {
        let extent = Extent::new(file, data.saturating_add(start), tensor.len);
        placed.placements.push(Placement::new(
            tensor.id,
            tensor.tensor.name.clone(),
            extent,
            tensor.encoding(),
        ));
    }
    placed.files.push(OutputFile::new(name, data.saturating_add(end)));
    placed.literals.push(Literal { file, offset: 0, bytes });
    Ok(end)
}

/// Each tensor, and where its bytes begin after the header.
fn with_starts<'s>(tensors: &'s [Stored<'s>]) -> impl Iterator<Item = (&'s Stored<'s>, u64)> {
    tensors.iter().scan(0u64, |end, tensor| {
        let start = *end;
        *end = start.saturating_add(tensor.len);
        Some((tensor, start))
    })
}

/// A header to be written.
struct WrittenHeader<'a> {
    pairs: &'a BTreeMap<String, String>,
    tensors: &'a [Stored<'a>],
}

impl Serialize for WrittenHeader<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = Some(self.pairs).filter(|pairs| !pairs.is_empty());
        let entries = with_starts(self.tensors);
        let entries = entries.map(|(tensor, start)| (tensor.tensor.name.as_str(), tensor.entry(start)));
        format::serialize_header(serializer, pairs, entries)
    }
}

fn add_index(
    placed: &mut OutputLayout,
    target: &Target,
    mut metadata: Map<String, Value>,
    total_size: u64,
    weight_map: BTreeMap<String, Value>,
) -> Result<()> {
    if weight_map.is_empty() {
        return Err(Error::unsupported("a sharded set needs at least one tensor")
            .help(format!("name the output {}{EXTENSION} instead", target.stem)));
    }
    let limit = Limit::Files.default_value();
    if placed.files.len() as u64 >= limit {
        return Err(Error::usage("there would be too many shards")
            .field("shard_size")
            .found(ckpt_api::count(placed.files.len(), "shard"))
            .expected(format!("fewer than {limit}"))
            .help("choose a larger shard_size"));
    }
    metadata.insert("total_size".into(), total_size.into());
    let index = BTreeMap::from([
        ("metadata", metadata.into_iter().collect::<BTreeMap<_, _>>()),
        ("weight_map", weight_map),
    ]);
    let mut bytes = serde_json::to_vec_pretty(&index).map_err(without_json_form)?;
    bytes.push(b'\n');
    let file = FileId(placed.files.len());
    placed.files.push(OutputFile::new(format!("{}{INDEX_EXTENSION}", target.stem), bytes.len() as u64));
    placed.literals.push(Literal { file, offset: 0, bytes });
    Ok(())
}
