//! Writes models: assigns the tensors to layers, writes the JSON block, and places everything.

use crate::description::{self, Description};
use crate::format::{self, Dialect, KEY_DIALECT, KEY_JSON, KEY_ORDER, Key, Layer, LayerKind, Part};
use ckpt_api::{
    Attribute, Axis, Checkpoint, DType, Encoding, Error, Extent, FileId, Graph, Literal, Loss, LossKind,
    MetadataValue, Node, Op, Options, OutputFile, OutputLayout, Placement, Result, Rules, Setting, Shape,
    Tensor, TensorId, Writer, text,
};
use std::collections::{BTreeMap, HashMap};

/// Places every tensor. See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let source = Source::of(checkpoint);
    let model = match (&checkpoint.graph, &source) {
        (Some(graph), _) => Model::from_graph(checkpoint, graph)?,
        (None, Some(source)) => Model::from_source(checkpoint, source)?,
        (None, None) => {
            return Err(Error::usage("the source does not describe the model's layers")
                .help(checkpoint.advise_architecture()));
        }
    };
    let mut losses = Vec::new();
    let source = source.filter(|source| source.description.layers == model.layers);
    let asked = options.text("dialect").and_then(Dialect::from_name);
    let dialect = asked.or(source.as_ref().map(|source| source.dialect)).unwrap_or(Dialect::B);
    let own_is_used = source.is_some();
    let (text, unchanged) = match source {
        Some(source) if source.dialect == dialect => (source.text.to_owned(), Some(source)),
        Some(Source { text, dialect: from, .. }) => {
            (description::convert(text, &model.layers, from, dialect, &mut losses)?, None)
        }
        None => (description::untrained(&model.layers, dialect), None),
    };
    let mut slots =
        model.slots(checkpoint, dialect, unchanged.is_some(), options.flag("zero_bias"), &mut losses)?;
    if let Some(order) = unchanged.as_ref().and_then(|source| source.order.as_ref()) {
        reorder(&mut slots, order);
    }
    slots.iter().filter_map(|slot| slot.source).try_for_each(|(_, tensor)| require_float(tensor))?;
    own_losses(checkpoint, own_is_used, &slots, &mut losses);
    let mut placed = layout(name, &text, &slots)?;
    placed.losses = losses;
    Ok(placed)
}

/// The metadata of a `.nn` file that was read before.
struct Source<'a> {
    text: &'a str,
    description: Description,
    dialect: Dialect,
    order: Option<Vec<Key>>,
}

impl<'a> Source<'a> {
    fn of(checkpoint: &'a Checkpoint) -> Option<Self> {
        let text = checkpoint.metadata.text(format::ID, KEY_JSON)?;
        let dialect = Dialect::from_name(checkpoint.metadata.text(format::ID, KEY_DIALECT)?)?;
        // What has no effect in DataCode needs no mending: it is written as it was.
        let mut rules = Rules { lenient: true, ..Rules::default() };
        let description = Description::parse(text, &mut rules).ok()?;
        let names = checkpoint.metadata.value(format::ID, KEY_ORDER).and_then(MetadataValue::as_list);
        let order = names.and_then(|names| names.iter().map(|name| Key::parse(name.as_text()?)).collect());
        Some(Source { text, description, dialect, order })
    }
}

/// The layers to write, with their tensors.
struct Model<'a> {
    layers: Vec<Layer>,
    /// The tensors of each Linear layer, by its position.
    parameters: BTreeMap<usize, Parameters<'a>>,
}

struct Parameters<'a> {
    /// The layer's name in the source, for messages.
    label: &'a str,
    weight: (TensorId, &'a Tensor),
    bias: Option<(TensorId, &'a Tensor)>,
}

impl<'a> Model<'a> {
    fn from_graph(checkpoint: &'a Checkpoint, graph: &'a Graph) -> Result<Self> {
        refuse_foreign_layers(graph)?;
        graph.require_activations()?;
        let by_name = checkpoint.by_name();
        let mut model = Model { layers: Vec::new(), parameters: BTreeMap::new() };
        // Identity computes nothing, so that leaving it out loses nothing.
        for node in graph.chain()?.iter().filter(|node| node.op != Op::Identity) {
            let kind = LayerKind::from_op(&node.op).ok_or_else(|| unwritable(node, node.op.name()))?;
            refuse_attributes(node, kind)?;
            let layer = if kind == LayerKind::Linear {
                let parameters = Parameters::of(node, checkpoint, &by_name)?;
                let layer = linear_layer(&parameters)?;
                model.parameters.insert(model.layers.len(), parameters);
                layer
            } else {
                Layer { kind, inputs: 0, outputs: 0 }
            };
            model.layers.push(layer);
        }
        if model.layers.is_empty() {
            return Err(Error::unsupported("the model has no layers, and a .nn file needs at least one"));
        }
        model.refuse_misfits()?;
        Ok(model)
    }

    /// Places a file without a graph unchanged.
    fn from_source(checkpoint: &'a Checkpoint, source: &Source<'_>) -> Result<Self> {
        let by_name = checkpoint.by_name();
        let find = |number, part| {
            let name = Key { number, part }.to_string();
            let (name, id) = by_name.get_key_value(name.as_str()).ok_or(name)?;
            checkpoint.tensors.get(id.0).map(|tensor| (*id, tensor)).ok_or((*name).to_owned())
        };
        let missing = |name: String| {
            Error::usage(
                "the source does not describe the model's layers, and lacks tensors of the .nn model",
            )
            .tensor(name)
            .help(checkpoint.advise_architecture())
        };
        let mut model = Model { layers: source.description.layers.clone(), parameters: BTreeMap::new() };
        for linear in format::linears(&source.description.layers) {
            let number = source.dialect.number(&linear);
            let weight = find(number, Part::Weight).map_err(missing)?;
            let bias = find(number, Part::Bias).ok();
            let parameters = Parameters { label: &weight.1.name, weight, bias };
            let fits = match linear.layer.is_convolution() {
                true => weight.1.shape.rank() == 4,
                false => linear_layer(&parameters)? == *linear.layer,
            };
            if !fits {
                return Err(Error::usage("the tensor does not fit the layer that the metadata describes")
                    .tensor(&weight.1.name)
                    .found(format!("shape {}", weight.1.shape)));
            }
            model.parameters.insert(linear.position, parameters);
        }
        Ok(model)
    }

    fn refuse_misfits(&self) -> Result<()> {
        let mut before: Option<(&str, u64)> = None;
        for (position, layer) in self.layers.iter().enumerate() {
            if layer.kind == LayerKind::Flatten {
                before = None;
            }
            let Some(parameters) = self.parameters.get(&position) else { continue };
            if let Some((name, width)) = before.filter(|(_, width)| *width != layer.inputs) {
                return Err(Error::usage(format!(
                    "layer '{}' does not fit the one before",
                    parameters.label
                ))
                .field(parameters.label)
                .found(format!("{} input features", layer.inputs))
                .expected(format!("{width}, which '{name}' gives"))
                .help("check the order of the layers, and what the axes of the weights mean"));
            }
            before = Some((parameters.label, layer.outputs));
        }
        Ok(())
    }

    /// Returns the tensors in the order in which DataCode writes them.
    fn slots(
        &self,
        checkpoint: &Checkpoint,
        dialect: Dialect,
        unchanged: bool,
        zero_bias: bool,
        losses: &mut Vec<Loss>,
    ) -> Result<Vec<Slot<'a>>> {
        let mut slots = Vec::new();
        let mut taken = vec![false; checkpoint.tensors.len()];
        for linear in format::linears(&self.layers) {
            let Some(parameters) = self.parameters.get(&linear.position) else { continue };
            let number = dialect.number(&linear);
            let weight = parameters.weight_slot(Key { number, part: Part::Weight }, linear.layer, dialect)?;
            let outputs = if linear.layer.is_convolution() { weight.dims[0] } else { linear.layer.outputs };
            let key = Key { number, part: Part::Bias };
            let bias = match parameters.bias {
                Some(bias) => bias_slot(key, bias, outputs, dialect, unchanged)?,
                None if zero_bias => {
                    let detail = format!("layer '{}' has no bias: zeros are written", parameters.label);
                    losses.push(Loss::new(LossKind::Filled, key.to_string(), detail));
                    Slot { key, dims: bias_dims(outputs, dialect), source: None, order: Vec::new() }
                }
                None => {
                    return Err(Error::unsupported(format!(
                        "layer '{}' has no bias, and every Linear layer of a .nn file has one",
                        parameters.label
                    ))
                    .field(parameters.label)
                    .help(text![
                        Setting::WRITE_OPTION.of("zero_bias=true"),
                        " writes zeros, which give the same results"
                    ]));
                }
            };
            for slot in [weight, bias] {
                if let Some((id, tensor)) = slot.source
                    && taken.get_mut(id.0).is_none_or(|taken| std::mem::replace(taken, true))
                {
                    return Err(Error::unsupported(
                        "two layers share a tensor, which a .nn file cannot express",
                    )
                    .field(parameters.label)
                    .tensor(&tensor.name));
                }
                slots.push(slot);
            }
        }
        Ok(slots)
    }
}

impl<'a> Parameters<'a> {
    fn of(node: &'a Node, checkpoint: &'a Checkpoint, by_name: &HashMap<&str, TensorId>) -> Result<Self> {
        let unknown = node.parameters.keys().find(|role| !matches!(role.as_str(), "weight" | "bias"));
        if let Some(role) = unknown {
            return Err(unwritable(node, &format!("a parameter '{role}'")));
        }
        let find = |role: &str| -> Result<Option<(TensorId, &'a Tensor)>> {
            let Some(name) = node.parameters.get(role) else { return Ok(None) };
            let id = by_name.get(name.as_str());
            let found = id.and_then(|id| Some((*id, checkpoint.tensors.get(id.0)?)));
            found.map(Some).ok_or_else(|| {
                Error::mapping(format!("layer '{}' needs a tensor that is not there", node.name))
                    .field(role)
                    .tensor(name)
                    .help("do not exclude or drop it")
            })
        };
        let weight = find("weight")?.ok_or_else(|| {
            Error::unsupported(format!("layer '{}' has no weight", node.name))
                .field(&node.name)
                .help(text!["name its tensors in an architecture file, given with ", Setting::ARCHITECTURE])
        })?;
        Ok(Parameters { label: &node.name, weight, bias: find("bias")? })
    }

    fn weight_slot(&self, key: Key, layer: &Layer, dialect: Dialect) -> Result<Slot<'a>> {
        let (_, weight) = self.weight;
        let order = if layer.is_convolution() {
            vec![0, 1, 2, 3]
        } else {
            let (input, output) = in_out(weight)?;
            match dialect {
                Dialect::A => vec![input, output],
                Dialect::B => vec![output, input],
            }
        };
        let dims = weight.shape.permuted(&order).to_vec();
        Ok(Slot { key, dims, source: Some(self.weight), order })
    }
}

/// A tensor of the target file; it has zeros if it has no source.
struct Slot<'a> {
    key: Key,
    dims: Vec<u64>,
    source: Option<(TensorId, &'a Tensor)>,
    order: Vec<usize>,
}

fn bias_dims(outputs: u64, dialect: Dialect) -> Vec<u64> {
    match dialect {
        Dialect::A => vec![1, outputs],
        Dialect::B => vec![outputs],
    }
}

fn bias_slot<'a>(
    key: Key,
    bias: (TensorId, &'a Tensor),
    outputs: u64,
    dialect: Dialect,
    unchanged: bool,
) -> Result<Slot<'a>> {
    let shape = &bias.1.shape;
    if shape[..] != [outputs] && shape[..] != [1, outputs] {
        return Err(Error::usage("the bias does not fit its layer")
            .tensor(&bias.1.name)
            .found(format!("shape {shape}"))
            .expected(format!("[{outputs}]")));
    }
    // The format's description allows [out] in dialect a: a file that has it keeps it.
    let dims = if unchanged && shape.rank() == 1 { shape.to_vec() } else { bias_dims(outputs, dialect) };
    Ok(Slot { key, dims, source: Some(bias), order: (0..shape.rank()).collect() })
}

/// Returns which axis is `in`, and which is `out`.
fn in_out(weight: &Tensor) -> Result<(usize, usize)> {
    if weight.shape.rank() != 2 {
        return Err(Error::unsupported("a Linear layer's weight must have two axes")
            .tensor(&weight.name)
            .found(format!("shape {}", weight.shape)));
    }
    match (weight.axis(Axis::In), weight.axis(Axis::Out)) {
        (Some(input), Some(output)) => Ok((input, output)),
        _ => Err(Error::usage("the source does not store which axis of the weight is in and which is out")
            .tensor(&weight.name)
            .found(format!("shape {}", weight.shape))
            .help(text![
                "state it as \"weight_axes\" in an architecture file, given with ",
                Setting::ARCHITECTURE
            ])),
    }
}

fn linear_layer(parameters: &Parameters<'_>) -> Result<Layer> {
    let (_, weight) = parameters.weight;
    let (input, output) = in_out(weight)?;
    let (inputs, outputs) = (weight.shape[input], weight.shape[output]);
    if inputs == 0 || outputs == 0 {
        return Err(Error::unsupported("a .nn file cannot hold an empty tensor")
            .field(parameters.label)
            .tensor(&weight.name)
            .found(format!("shape {}", weight.shape)));
    }
    Ok(Layer { kind: LayerKind::Linear, inputs, outputs })
}

/// Whether the format has such layers at all comes before what the source leaves open. What has weights comes first: it
/// is what people call a layer.
fn refuse_foreign_layers(graph: &Graph) -> Result<()> {
    let is_foreign = |node: &&Node| {
        !matches!(node.op, Op::Identity | Op::Unspecified) && LayerKind::from_op(&node.op).is_none()
    };
    let mut foreign = graph.nodes.iter().filter(is_foreign);
    let layer = foreign.clone().find(|node| !node.parameters.is_empty());
    match layer.or_else(|| foreign.next()) {
        Some(node) => Err(unwritable(node, node.op.name())),
        None => Ok(()),
    }
}

/// An attribute changes what a node computes, and the format has none: only those with the usual value pass.
fn refuse_attributes(node: &Node, kind: LayerKind) -> Result<()> {
    let usual = |name: &str, value: &Attribute| match (kind, name, value) {
        (LayerKind::Softmax, "axis", Attribute::Int(axis)) => matches!(axis, -1 | 1),
        (LayerKind::Flatten, "axis", Attribute::Int(axis)) => *axis == 1,
        _ => false,
    };
    match node.attributes.iter().find(|(name, value)| !usual(name, value)) {
        Some((name, _)) => Err(unwritable(node, &format!("{} with attribute '{name}'", node.op))),
        None => Ok(()),
    }
}

fn unwritable(node: &Node, found: &str) -> Error {
    Error::lossy(format!("layer '{}' cannot be written as .nn", node.name))
        .field(&node.name)
        .found(found)
        .expected(format!("one of the format's layer types: {}", LayerKind::names()))
        .help(text![
            "if these types can express the model, describe it as a chain of them with ",
            Setting::ARCHITECTURE
        ])
}

fn reorder(slots: &mut [Slot<'_>], order: &[Key]) {
    let ranks: HashMap<Key, usize> = order.iter().enumerate().map(|(rank, key)| (*key, rank)).collect();
    slots.sort_by_key(|slot| ranks.get(&slot.key).copied().unwrap_or(usize::MAX));
}

/// Adds the losses that only this format has: names, and its own metadata if it describes different layers.
fn own_losses(checkpoint: &Checkpoint, own_is_used: bool, slots: &[Slot<'_>], losses: &mut Vec<Loss>) {
    let own = checkpoint.metadata.namespace(format::ID);
    if own.is_some() && !own_is_used {
        let detail = "the .nn metadata does not describe the layers that are written";
        losses.push(Loss::new(LossKind::MetadataDropped, format::ID, detail));
    }
    let is_renamed = |slot: &&Slot| slot.source.is_some_and(|(_, t)| t.name != slot.key.to_string());
    let renamed = slots.iter().filter(is_renamed).count();
    if renamed > 0 && own.is_none() {
        let verb = if renamed == 1 { "tensor becomes" } else { "tensors become" };
        let detail = format!("a .nn file does not store names: {renamed} {verb} layer0.weight and so on");
        losses.push(Loss::new(LossKind::NamesDropped, "names", detail));
    }
}

/// Refuses a tensor whose values are not real numbers.
fn require_float(tensor: &Tensor) -> Result<()> {
    if tensor.quantization.is_some() || !tensor.dtype.is_float() {
        let found = if tensor.quantization.is_some() { "scaled integers" } else { tensor.dtype.name() };
        return Err(Error::unsupported("the tensor's values are not real numbers that f32 stands for")
            .tensor(&tensor.name)
            .found(found)
            .expected("a floating-point dtype: .nn stores f32"));
    }
    Ok(())
}

/// Lays out the file: header, JSON, and each tensor's header before its data.
fn layout(name: &str, text: &str, slots: &[Slot<'_>]) -> Result<OutputLayout> {
    let mut placed = OutputLayout::default();
    let mut at = 0u64;
    let mut block = Writer::new();
    block.bytes(format::MAGIC).number(format::VERSION);
    put(&mut block, text.len() as u64, "json_len")?;
    block.bytes(text.as_bytes());
    put(&mut block, slots.len() as u64, "tensor_count")?;
    for slot in slots {
        let key = slot.key.to_string();
        let on_tensor = |error: Error| error.tensor(&key);
        put(&mut block, key.len() as u64, "name_len")?;
        block.bytes(key.as_bytes());
        put(&mut block, slot.dims.len() as u64, "ndim")?;
        for dim in &slot.dims {
            put(&mut block, *dim, "dims").map_err(on_tensor)?;
        }
        let header = std::mem::take(&mut block).into_bytes();
        let offset = after(at, header.len() as u64).map_err(on_tensor)?;
        placed.literals.push(Literal { file: FileId(0), offset: at, bytes: header });
        let elements = slot.dims.iter().try_fold(4u64, |bytes, dim| bytes.checked_mul(*dim));
        let len = elements.ok_or_else(too_large).map_err(on_tensor)?;
        if let Some((id, tensor)) = slot.source {
            let own = tensor.shape.permuted(&slot.order);
            let stated = Shape::new(slot.dims.clone()).map_err(on_tensor)?;
            placed.placements.push(
                Placement::new(
                    id,
                    key.clone(),
                    vec![Extent::new(FileId(0), offset, len)],
                    Encoding::new(DType::F32, slot.order.clone()),
                )
                .with_shape((stated != own).then_some(stated)),
            );
        }
        at = after(offset, len).map_err(on_tensor)?;
    }
    if !block.is_empty() {
        let len = block.len();
        placed.literals.push(Literal { file: FileId(0), offset: at, bytes: block.into_bytes() });
        at = after(at, len)?;
    }
    placed.files.push(OutputFile::new(name, at));
    Ok(placed)
}

fn put(block: &mut Writer, value: u64, field: &str) -> Result<()> {
    let value = u32::try_from(value).map_err(|_| {
        Error::unsupported("the number does not fit the format")
            .field(field)
            .found(value.to_string())
            .expected("less than 2^32")
    })?;
    block.number(value);
    Ok(())
}

fn after(offset: u64, len: u64) -> Result<u64> {
    offset.checked_add(len).ok_or_else(too_large)
}

fn too_large() -> Error {
    Error::unsupported("the file would be larger than 2^64 bytes")
}
