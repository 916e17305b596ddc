//! Writes `model.json` and the shards with the weights.

mod again;
mod form;
mod functions;
mod kept;
mod layers;
mod lengths;
mod operators;
mod options;
mod quantize;
mod refusal;
mod shards;
mod target;
mod texts;

use crate::format::{
    AS_STORED, DTYPES, FILES, HALVES, ID, INTEGERS, KEY_GRAPH, KEY_LENS, KEY_MODEL, MANIFEST, OPTIMIZER,
    QUANTIZE, TOPOLOGY, USER_METADATA,
};
use crate::graph;
use again::read_again;
use ckpt_api::{
    Aspect, Checkpoint, DType, Encoding, Error, Literal, Loss, LossKind, Options, OutputFile, OutputLayout,
    Placement, Reading, Result, Role, Shape, Tensor, TensorId,
};
use ckpt_tf_operators::Content;
use functions::{Constant, Functions};
use layers::Layers;
pub(crate) use quantize::prepare;
use quantize::{Affine, before};
use serde_json::{Map, Value, json};
use shards::Shards;
use std::collections::{HashMap, HashSet};
use target::{Target, add_model, dtypes};

/// Bytes of a shard, at most, unless an option says otherwise: what TensorFlow's converter writes, so that browsers cache it.
const SHARD: u64 = 4 << 20;
/// The option that names what is written.
pub(crate) const CONTENT: &str = "content";

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let content = options.text(CONTENT);
    let quantize = options.text(QUANTIZE);
    let is_half = quantize == Some("float16");
    let numbers = before(checkpoint);
    let mut placed = OutputLayout::default();
    let is_plain = content.is_none() && quantize.is_none() && options.size("shard_size").is_none();
    if let Some(layout) = kept::lay_out(checkpoint, name).filter(|_| is_plain) {
        return Ok(layout);
    }
    let kept = kept::members(&numbers).filter(|_| content.is_none());
    let form = match content {
        _ if kept.is_some() => Form::Weights,
        Some("weights") => Form::Weights,
        Some("graph") => Form::Graph(functions::describe(&numbers)?),
        Some(_) => Form::Layers(layers::describe(&numbers)?),
        None => Form::of(&numbers, &mut placed),
    };
    let mut writer = Writer {
        checkpoint,
        is_half,
        shards: Shards::new(options.size("shard_size").unwrap_or(SHARD))?,
        weights: Vec::new(),
        names: HashSet::new(),
        signature: match &form {
            Form::Graph(functions) => Some(functions.signature.clone()),
            _ => None,
        },
        placed,
    };
    let members = match kept {
        Some((members, ids)) => {
            writer.kept(&ids)?;
            members
        }
        None => {
            match &form {
                Form::Layers(layers) => writer.tensors(Some(layers))?,
                Form::Graph(functions) => writer.functions(functions)?,
                Form::Weights => writer.tensors(None)?,
            }
            fresh(checkpoint, form)
        }
    };
    writer.placed.asked.extend(match quantize {
        Some("float16") => Some(LossKind::Narrowed),
        Some(_) => Some(LossKind::Quantized),
        None => None,
    });
    writer.finish(name, members)
}

/// What the model's file has beside the manifest.
enum Form {
    /// Layers, for `tf.loadLayersModel`.
    Layers(Layers),
    /// A graph, for `tf.loadGraphModel`.
    Graph(Functions),
    /// Nothing.
    Weights,
}

impl Form {
    /// Layers if TensorFlow.js has all that the graph needs, or else a graph, or else the weights alone.
    fn of(checkpoint: &Checkpoint, placed: &mut OutputLayout) -> Self {
        let no_layers = match layers::describe(checkpoint) {
            Ok(layers) => return Form::Layers(layers),
            Err(error) => error,
        };
        let why = match functions::describe(checkpoint) {
            Ok(functions) => return Form::Graph(functions),
            // A source without a graph has neither.
            Err(_) if checkpoint.graph.is_none() => no_layers,
            Err(error) => error,
        };
        let why = format!("the graph is not written: {}", why.quoted().as_str());
        placed.left_out.insert(Aspect::Graph, why);
        Form::Weights
    }
}

struct Writer<'a> {
    checkpoint: &'a Checkpoint,
    /// Whether floats of 32 bits are stored as those of 16.
    is_half: bool,
    shards: Shards,
    /// The manifest so far.
    weights: Vec<Value>,
    names: HashSet<String>,
    /// Inputs and outputs of a graph, as text: an object of JSON has no order here.
    signature: Option<String>,
    placed: OutputLayout,
}

impl Writer<'_> {
    /// Places the weights of the layers in their order, and behind them the state of the optimizer; all tensors if there are no
    /// layers.
    fn tensors(&mut self, layers: Option<&Layers>) -> Result<()> {
        let mut first: HashMap<TensorId, &str> = HashMap::new();
        for weight in layers.iter().flat_map(|layers| &layers.weights) {
            self.tensor(weight.tensor, &weight.name, Some(&weight.order), None)?;
            if let Some(placement) = self.placed.placements.last_mut().filter(|_| !weight.added.is_empty()) {
                placement.set_added(weight.added.clone());
            }
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
                self.tensor(TensorId(id), tensor.name.as_str(), None, None)?;
            }
        }
        Ok(())
    }

    /// Places the constants of a graph, and behind them what else there is: weights that no node takes, and the optimizer's state.
    fn functions(&mut self, functions: &Functions) -> Result<()> {
        for constant in &functions.weights {
            let (id, order) = match &constant.content {
                Content::Tensor { id, order } => (TensorId(*id), order),
                Content::Bytes(bytes) => {
                    self.numbers(constant, bytes)?;
                    continue;
                }
                Content::Made => continue,
            };
            self.tensor(id, &constant.name, Some(order), Some(&constant.shape))?;
            let Some(tensor) = self.checkpoint.tensors.get(id.0) else { continue };
            if tensor.name != constant.name {
                let detail = format!("it gets the name of a node: '{}'", constant.name);
                self.placed.losses.push(Loss::new(LossKind::NamesDropped, &tensor.name, detail));
            }
        }
        let detail = "the graph is stored in TensorFlow's operators: it computes the same, with other layers";
        self.placed.losses.push(Loss::new(LossKind::NamesDropped, "layers", detail));
        let placed: HashSet<TensorId> =
            self.placed.placements.iter().map(|placement| placement.tensor).collect();
        for (id, tensor) in self.checkpoint.tensors.iter().enumerate() {
            let is_other = matches!(tensor.role, Role::Weight | Role::Optimizer | Role::Counter);
            let is_free = !placed.contains(&TensorId(id)) && !self.names.contains(tensor.name.as_str());
            if is_other && is_free {
                self.tensor(TensorId(id), tensor.name.as_str(), None, None)?;
            }
        }
        Ok(())
    }

    /// Places a few numbers of the graph.
    fn numbers(&mut self, constant: &Constant, bytes: &[u8]) -> Result<()> {
        let Constant { name, shape, dtype, .. } = constant;
        if !bytes.is_empty() {
            let place = self.shards.next(bytes.len() as u64)?;
            let literal = Literal { file: place.file, offset: place.offset, bytes: bytes.to_vec() };
            self.placed.literals.push(literal);
        }
        self.names.insert(name.clone());
        let known = DTYPES.iter().find(|(_, own)| own == dtype).map_or("", |(name, _)| name);
        self.weights.push(json!({ "name": name, "shape": shape, "dtype": known }));
        Ok(())
    }

    /// Places a tensor, if there is a dtype for it. `stated` is the shape in the manifest, if that is another one.
    fn tensor(
        &mut self,
        id: TensorId,
        name: &str,
        order: Option<&[usize]>,
        stated: Option<&[u64]>,
    ) -> Result<()> {
        let Some(tensor) = self.checkpoint.tensors.get(id.0) else { return Ok(()) };
        let affine = Affine::of(tensor);
        let dtypes = match affine {
            Some(_) => Some((DType::F32, tensor.dtype)),
            None => dtypes(tensor.dtype, self.is_half),
        };
        let Some((dtype, stored)) = dtypes else { return Ok(()) };
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
        if affine.is_some() {
            let detail = format!("stored as integers of {} with one scale", tensor.dtype);
            self.placed.losses.push(Loss::new(LossKind::Quantized, &tensor.name, detail));
        } else if tensor.dtype == stored && dtype != stored {
            let detail =
                "TensorFlow.js computes with its numbers as 32-bit floats; they are stored as they are";
            self.placed.losses.push(Loss::new(LossKind::Retyped, &tensor.name, detail));
        }
        let stated = stated.filter(|stated| shape.iter().ne(*stated)).map(Shape::new).transpose()?;
        let placement = Placement::new(id, name, extents, encoding).with_shape(stated.clone());
        self.placed.placements.push(placement);
        let mut weight = Map::new();
        weight.insert("name".to_owned(), name.into());
        weight.insert("shape".to_owned(), json!(stated.as_ref().unwrap_or(&shape).to_vec()));
        let known = DTYPES.iter().find(|(_, own)| *own == dtype);
        weight.insert("dtype".to_owned(), known.map_or("", |(name, _)| name).into());
        if let Some(Affine { scale, min }) = affine {
            let bits = if stored == DType::U8 { "uint8" } else { "uint16" };
            weight.insert(
                "quantization".to_owned(),
                json!({ "dtype": bits, "scale": scale, "min": min, "original_dtype": "float32" }),
            );
        } else if stored == DType::F16 {
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
            self.tensor(*id, name, None, None)?;
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
        leave_out(&mut self.placed, self.checkpoint, &members, self.signature.is_some())?;
        let mut text = members.to_string();
        if let Some(signature) = self.signature.filter(|_| text.ends_with('}')) {
            text.truncate(text.len().saturating_sub(1));
            text.push_str(&format!(r#","signature":{signature}}}"#));
        }
        text.push('\n');
        add_model(&mut self.placed, &target, text);
        if self.weights.iter().all(|weight| weight.get("quantization").is_none()) {
            return Ok(self.placed);
        }
        // What was written is compared as it is stored.
        let stored = |option: &str| (option.to_owned(), AS_STORED.to_owned());
        let options = vec![stored(HALVES), stored(INTEGERS)];
        let reading = Reading { entry: name.to_owned(), options, ..Reading::default() };
        Ok(self.placed.with_readings(vec![reading]))
    }
}

/// The members of a model's file without the manifest, with what the checkpoint has of them beside the layers.
fn fresh(checkpoint: &Checkpoint, form: Form) -> Value {
    let (format, topology) = match form {
        Form::Layers(layers) => ("layers-model", layers.topology),
        Form::Graph(functions) => ("graph-model", functions.topology),
        Form::Weights => ("graph-model", json!({ "node": [] })),
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
/// `is_graph`: the nodes of the checkpoint's graph are those of the model.
fn leave_out(
    placed: &mut OutputLayout,
    checkpoint: &Checkpoint,
    model: &Value,
    is_graph: bool,
) -> Result<()> {
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
    // What is computed comes back of nodes, too.
    let same_graph = graph.is_none() || graph == again.checkpoint.graph || is_graph;
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
