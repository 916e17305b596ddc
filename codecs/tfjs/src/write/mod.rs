//! Writes `model.json` and the shards with the weights.

mod again;
mod form;
mod kept;
mod layers;
mod lengths;
mod options;
mod refusal;
mod shards;
mod target;
mod texts;

use crate::format::{
    AS_STORED, DTYPES, FILES, HALVES, ID, KEY_GRAPH, KEY_LENS, KEY_MODEL, MANIFEST, OPTIMIZER, TOPOLOGY,
    USER_METADATA,
};
use crate::graph;
use again::read_again;
use ckpt_api::{
    Aspect, Checkpoint, DType, Encoding, Error, Loss, LossKind, Options, OutputFile, OutputLayout, Placement,
    Reading, Result, Role, Tensor, TensorId,
};
use layers::Layers;
use serde_json::{Map, Value, json};
use shards::Shards;
use std::collections::{HashMap, HashSet};
use target::{Target, add_model, dtypes};

/// Bytes of a shard, at most, unless an option says otherwise: what TensorFlow's converter writes, so that browsers cache it.
const SHARD: u64 = 4 << 20;
/// The option that names what is written.
pub(crate) const CONTENT: &str = "content";
/// The option that names the dtype in which floats are stored.
pub(crate) const QUANTIZE: &str = "quantize";

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let content = options.text(CONTENT);
    let is_half = options.text(QUANTIZE) == Some("float16");
    let mut placed = OutputLayout::default();
    let is_plain = content.is_none() && !is_half && options.size("shard_size").is_none();
    if let Some(layout) = kept::lay_out(checkpoint, name).filter(|_| is_plain) {
        return Ok(layout);
    }
    let kept = kept::members(checkpoint).filter(|_| content.is_none());
    let layers = match content {
        _ if kept.is_some() => None,
        Some("weights") => None,
        Some(_) => Some(layers::describe(checkpoint)?),
        None => match layers::describe(checkpoint) {
            Ok(layers) => Some(layers),
            Err(error) => {
                let why = format!("the layers are not written: {}", error.quoted().as_str());
                placed.left_out.insert(Aspect::Graph, why);
                None
            }
        },
    };
    let mut writer = Writer {
        checkpoint,
        is_half,
        shards: Shards::new(options.size("shard_size").unwrap_or(SHARD))?,
        weights: Vec::new(),
        names: HashSet::new(),
        placed,
    };
    let members = match kept {
        Some((members, ids)) => {
            writer.kept(&ids)?;
            members
        }
        None => {
            writer.tensors(layers.as_ref())?;
            fresh(checkpoint, layers)
        }
    };
    if is_half {
        writer.placed.asked.push(LossKind::Narrowed);
    }
    writer.finish(name, members)
}

struct Writer<'a> {
    checkpoint: &'a Checkpoint,
    /// Whether floats of 32 bits are stored as those of 16.
    is_half: bool,
    shards: Shards,
    /// The manifest so far.
    weights: Vec<Value>,
    names: HashSet<String>,
    placed: OutputLayout,
}

impl Writer<'_> {
    /// Places the weights of the layers in their order, and behind them the state of the optimizer; all tensors if there are no
    /// layers.
    fn tensors(&mut self, layers: Option<&Layers>) -> Result<()> {
        let mut first: HashMap<TensorId, &str> = HashMap::new();
        for weight in layers.iter().flat_map(|layers| &layers.weights) {
            self.tensor(weight.tensor, &weight.name, Some(&weight.order))?;
            let Some(tensor) = self.checkpoint.tensors.get(weight.tensor.0) else { continue };
            match first.get(&weight.tensor) {
                Some(first) => {
                    let detail = format!("stored as '{first}' and as '{}'", weight.name);
                    self.placed.losses.push(Loss::new(LossKind::Untied, &tensor.name, detail));
                }
                None if tensor.name != weight.name => {
                    let detail =
                        "it gets the name that TensorFlow.js looks for: its layer's, and what it is there";
                    self.placed.losses.push(Loss::new(LossKind::NamesDropped, &tensor.name, detail));
                }
                None => {}
            }
            first.entry(weight.tensor).or_insert(&weight.name);
        }
        for (id, tensor) in self.checkpoint.tensors.iter().enumerate() {
            let is_state = matches!(tensor.role, Role::Optimizer | Role::Counter);
            let is_free = layers.is_none() || (is_state && !self.names.contains(tensor.name.as_str()));
            if is_free && !first.contains_key(&TensorId(id)) {
                self.tensor(TensorId(id), tensor.name.as_str(), None)?;
            }
        }
        Ok(())
    }

    /// Places a tensor, if there is a dtype for it.
    fn tensor(&mut self, id: TensorId, name: &str, order: Option<&[usize]>) -> Result<()> {
        let Some(tensor) = self.checkpoint.tensors.get(id.0) else { return Ok(()) };
        let Some((dtype, stored)) = dtypes(tensor.dtype, self.is_half) else { return Ok(()) };
        if !self.names.insert(name.to_owned()) {
            return Err(Error::unsupported("two weights would have the same name")
                .tensor(&tensor.name)
                .found(format!("'{name}'")));
        }
        let named = |error: Error| error.tensor(&tensor.name);
        let mut encoding = Encoding::row_major(tensor).with_dtype(stored);
        let mut shape = tensor.shape.clone();
        if let Some(order) = order {
            encoding = encoding.with_order(order.to_vec());
            shape = shape.permuted(order);
        }
        let extents = match dtype {
            DType::String => {
                texts::place(tensor, &mut self.shards, &mut self.placed.literals).map_err(named)?
            }
            _ => self.extents(tensor, &encoding, &shape).map_err(named)?,
        };
        if tensor.dtype == stored && dtype != stored {
            let detail =
                "TensorFlow.js computes with its numbers as 32-bit floats; they are stored as they are";
            self.placed.losses.push(Loss::new(LossKind::Retyped, &tensor.name, detail));
        }
        self.placed.placements.push(Placement::new(id, name, extents, encoding));
        let mut weight = Map::new();
        weight.insert("name".to_owned(), name.into());
        weight.insert("shape".to_owned(), json!(shape.to_vec()));
        let known = DTYPES.iter().find(|(_, own)| *own == dtype);
        weight.insert("dtype".to_owned(), known.map_or("", |(name, _)| name).into());
        if stored == DType::F16 {
            weight.insert(
                "quantization".to_owned(),
                json!({ "dtype": "float16", "original_dtype": "float32" }),
            );
        }
        if matches!(tensor.role, Role::Optimizer | Role::Counter) {
            weight.insert("group".to_owned(), OPTIMIZER.into());
        }
        self.weights.push(weight.into());
        Ok(())
    }

    /// The extents of a tensor whose stored axes have the lengths of `shape`: boxes are of its own axes.
    fn extents(
        &mut self,
        tensor: &Tensor,
        encoding: &Encoding,
        shape: &ckpt_api::Shape,
    ) -> Result<Vec<ckpt_api::Extent>> {
        let stored = tensor.clone().with_shape(shape.clone());
        let mut extents = self.shards.place(&stored, encoding)?;
        for extent in &mut extents {
            let Some(region) = extent.region_mut() else { continue };
            let (mut start, mut lens) = (vec![0; shape.rank()], vec![0; shape.rank()]);
            for (at, axis) in encoding.order.iter().enumerate() {
                let own = region.start.get(at).zip(region.shape.get(at));
                if let (Some((from, len)), Some(start), Some(own)) =
                    (own, start.get_mut(*axis), lens.get_mut(*axis))
                {
                    (*start, *own) = (*from, *len);
                }
            }
            (region.start, region.shape) = (start, ckpt_api::Shape::new(lens)?);
        }
        Ok(extents)
    }

    /// Places the weights of a model that was read, in their order.
    fn kept(&mut self, ids: &[TensorId]) -> Result<()> {
        for id in ids {
            let name = self.checkpoint.tensors.get(id.0).map_or("", |tensor| tensor.name.as_str());
            self.tensor(*id, name, None)?;
        }
        Ok(())
    }

    /// Adds the files.
    fn finish(mut self, name: &str, mut members: Value) -> Result<OutputLayout> {
        let count = self.shards.lens.len();
        let target = Target::new(name);
        let paths: Vec<String> =
            (1..=count).map(|number| target.beside(&format!("group1-shard{number}of{count}.bin"))).collect();
        for (path, len) in paths.iter().zip(&self.shards.lens) {
            self.placed.files.push(OutputFile::new(target.file(path), *len));
        }
        if let Some(members) = members.as_object_mut() {
            let group = json!({ "paths": paths, "weights": self.weights });
            members.insert(MANIFEST.to_owned(), json!([group]));
        }
        leave_out(&mut self.placed, self.checkpoint, &members)?;
        let mut text = members.to_string();
        text.push('\n');
        add_model(&mut self.placed, &target, text);
        if self.weights.iter().all(|weight| weight.get("quantization").is_none()) {
            return Ok(self.placed);
        }
        // What was written is compared as it is stored.
        let stored = (HALVES.to_owned(), AS_STORED.to_owned());
        let reading = Reading { entry: name.to_owned(), options: vec![stored], ..Reading::default() };
        Ok(self.placed.with_readings(vec![reading]))
    }
}

/// The members of a model's file without the manifest, with what the checkpoint has of them beside the layers.
fn fresh(checkpoint: &Checkpoint, layers: Option<Layers>) -> Value {
    let (format, topology) = match layers {
        Some(layers) => ("layers-model", layers.topology),
        None => ("graph-model", json!({ "node": [] })),
    };
    let mut members =
        json!({ "format": format, "generatedBy": "ckpt", "convertedBy": null, TOPOLOGY: topology });
    let text = checkpoint.metadata.text(ID, USER_METADATA);
    let value = text.and_then(|text| serde_json::from_str::<Value>(text).ok().or_else(|| Some(text.into())));
    if let (Some(members), Some(value)) = (members.as_object_mut(), value) {
        members.insert("userDefinedMetadata".to_owned(), value);
    }
    members
}

/// Declares what the format keeps in the layers, and does not come back from these.
fn leave_out(placed: &mut OutputLayout, checkpoint: &Checkpoint, model: &Value) -> Result<()> {
    let again = read_again(placed, checkpoint, model)?;
    let by_name = again.checkpoint.by_name();
    let mut names = HashMap::new();
    let (mut same_axes, mut same_roles, mut same_slots) = (true, true, true);
    for placement in &placed.placements {
        let own = checkpoint.tensors.get(placement.tensor.0);
        let read = by_name.get(placement.name.as_str()).and_then(|id| again.checkpoint.tensors.get(id.0));
        let (Some(own), Some(read)) = (own, read) else { continue };
        names.insert(own.name.as_str(), placement.name.as_str());
        let stored = |axes: &[ckpt_api::Axis]| -> Vec<ckpt_api::Axis> {
            placement.encoding.order.iter().filter_map(|axis| axes.get(*axis).copied()).collect()
        };
        same_axes &= own.axes.as_ref().is_none_or(|axes| Some(&stored(axes)[..]) == read.axes.as_deref());
        same_roles &= own.role == read.role;
        same_slots &= own.slot.is_none() || own.slot == read.slot;
    }
    let graph = checkpoint.graph.clone().map(|mut graph| {
        graph.each_node_mut(|node| {
            for name in node.parameters.values_mut() {
                if let Some(new) = names.get(name.as_str()) {
                    *name = (*new).to_owned();
                }
            }
        });
        graph
    });
    let same_graph = graph.is_none() || graph == again.checkpoint.graph;
    let reason = match again.checkpoint.graph {
        Some(_) => "it becomes layers of TensorFlow.js, which are read as other nodes",
        None => "the output has no layers from which it can be read",
    };
    let without = "the output has no layers that state it";
    let aspects = [
        (Aspect::Graph, same_graph, reason),
        (Aspect::Axes, same_axes, without),
        (Aspect::Roles, same_roles, without),
        (Aspect::Slots, same_slots, without),
    ];
    for (aspect, comes_back, reason) in aspects {
        if !comes_back {
            placed.left_out.entry(aspect).or_insert_with(|| reason.to_owned());
        }
    }
    let mut again = crate::read::members(model);
    for key in [KEY_MODEL, KEY_LENS, KEY_GRAPH] {
        if checkpoint.metadata.value(FILES, key).is_some() {
            let why = "the files are not those that were read";
            placed.losses.push(Loss::new(LossKind::BookkeepingDropped, format!("{FILES}.{key}"), why));
        }
    }
    let own = checkpoint.metadata.namespace(ID).into_iter().flat_map(|own| own.iter());
    for (key, value) in own.filter(|(key, value)| again.remove(key).as_ref() != Some(value)) {
        let why = format!("the file is written anew, and states another '{key}' or none");
        let kind = match (key, value.as_text()) {
            ("format" | "generated_by" | "converted_by", Some(_)) => LossKind::BookkeepingDropped,
            _ => LossKind::MetadataDropped,
        };
        placed.losses.push(Loss::new(kind, format!("{ID}.{key}"), why));
    }
    let text = checkpoint.metadata.text(FILES, KEY_MODEL);
    let read = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    if read.as_ref().is_some_and(graph::is_graph) && !graph::is_graph(model) {
        let why = "the weights are not those of the graph that was read";
        placed.losses.push(Loss::new(LossKind::GraphDropped, TOPOLOGY, why));
    }
    Ok(())
}
