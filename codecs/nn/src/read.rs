//! Reads the header, the JSON block and the tensors' headers, and assigns the tensors to layers.

use crate::description::Description;
use crate::dialect;
use crate::format::{
    self, Dialect, JSON_OFFSET, KEY_DIALECT, KEY_JSON, KEY_ORDER, Key, LayerKind, Linear, Part,
};
use ckpt_api::fields::{array, count, field, le};
use ckpt_api::{
    Axis, Checkpoint, Contents, DType, Encoding, Error, Extent, Fields, File, FileId, Graph, Input, Limit,
    Limits, Match, Node, Options, Placement, Result, Rules, Shape, Tensor, TensorId, first_few,
};
use nom::{Parser, multi};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Number of names that a message lists.
const SHOWN: usize = 5;

/// Recognizes a file by its magic number; [`read`] checks the rest.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let certain = || Match::Certain("begins with the magic number DATACODE".to_owned());
    Ok(if input.head()? == Some(*format::MAGIC) { certain() } else { Match::No })
}

/// Reads everything except tensor data.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("a .nn model", |file| read_file(file, options, limits))
}

fn read_file(file: &File, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut rules = Rules::new(options);
    let mut fields = Fields::new(file);
    let text = read_json(&mut fields, limits)?;
    let description = Description::parse(&text, &mut rules).map_err(|error| error.offset(JSON_OFFSET))?;
    limits.check(Limit::GraphNodes, description.layers.len() as u64)?;
    let stored = read_directory(&mut fields, limits, &mut rules)?;
    let shapes: BTreeMap<Key, &Shape> = stored.iter().map(|tensor| (tensor.key, &tensor.shape)).collect();
    let (dialect, note) = match options.text("dialect").and_then(Dialect::from_name) {
        Some(dialect) => (dialect, None),
        None => dialect::detect(&description, &shapes)?,
    };
    let mut binding = Binding::new(&description, dialect, &stored);
    binding.bind_all(&mut rules)?;
    binding.refuse_unused(&mut rules)?;
    let mut contents = binding.into_contents(limits)?;
    contents.add_notes(note);
    contents.add_notes(notes(&description));
    contents.checkpoint.metadata.insert(format::ID, KEY_JSON, text);
    contents.checkpoint.metadata.insert(format::ID, KEY_DIALECT, dialect.name());
    contents.repairs = rules.repairs;
    Ok(contents)
}

/// Reads a count, and checks that as many items of at least `size` bytes can follow.
fn read_count(fields: &mut Fields<'_>, field: &str, size: u64, limits: &Limits, limit: Limit) -> Result<u64> {
    let start = fields.position();
    let count = fields.parse(|input| count(size, le::<u32>)(input));
    let count = count.and_then(|count| limits.check(limit, count).map(|()| count));
    count.map_err(|error| error.field(field).offset(start))
}

fn read_json(fields: &mut Fields<'_>, limits: &Limits) -> Result<String> {
    let magic = fields.parse(|input| field("magic", array).parse(input))?;
    if magic != *format::MAGIC {
        return Err(Error::corrupt("not a DataCode .nn file")
            .field("magic")
            .offset(0)
            .found(format!("\"{}\"", magic.escape_ascii()))
            .expected("\"DATACODE\""));
    }
    let version = fields.parse(|input| field("version", le::<u32>).parse(input))?;
    if version != format::VERSION {
        let swapped = version.swap_bytes() == format::VERSION;
        let found = if swapped { "1 in big-endian byte order".to_owned() } else { version.to_string() };
        return Err(Error::unsupported("unknown version of the .nn format")
            .field("version")
            .offset(8)
            .found(found)
            .expected("1, little-endian"));
    }
    let len = read_count(fields, "json_len", 1, limits, Limit::HeaderBytes)?;
    fields.text(len, limits, Limit::HeaderBytes).map_err(|error| error.field("JSON"))
}

/// A tensor, as the file stores it.
struct Stored {
    key: Key,
    shape: Shape,
    offset: u64,
    len: u64,
}

fn read_directory(fields: &mut Fields<'_>, limits: &Limits, rules: &mut Rules) -> Result<Vec<Stored>> {
    if fields.remaining() == 0 {
        return Err(Error::corrupt("the file ends where the tensors should begin").offset(fields.position()).help(
            "DataCode stops here when it saves a model with a layer without bias: add a bias and save again",
        ));
    }
    let count = read_count(fields, "tensor_count", format::SMALLEST_TENSOR, limits, Limit::Tensors)?;
    let mut stored: Vec<Stored> = Vec::new();
    let mut last: HashMap<Key, usize> = HashMap::new();
    for index in 0..count {
        let header = fields.position();
        let tensor = read_stored(fields, limits, index)?;
        if last.insert(tensor.key, stored.len()).is_some() {
            let name = tensor.key.to_string();
            let error = Error::corrupt("two tensors have the same name").offset(header).tensor(&name);
            rules.mend(name, "the last one counts", error)?;
        }
        stored.push(tensor);
    }
    let rest = fields.remaining();
    if rest > 0 {
        let error = Error::corrupt("there are bytes after the last tensor")
            .offset(fields.position())
            .found(ckpt_api::count(rest, "more byte"))
            .expected("the end of the file");
        let error = match stored.last() {
            Some(tensor) => error.tensor(tensor.key.to_string()),
            None => error,
        };
        rules.mend(
            "end of the file",
            &format!("without the last {}", ckpt_api::count(rest, "byte")),
            error,
        )?;
    }
    let mut index = 0;
    stored.retain(|tensor| {
        index += 1;
        last.get(&tensor.key) == Some(&(index - 1))
    });
    Ok(stored)
}

fn read_stored(fields: &mut Fields<'_>, limits: &Limits, index: u64) -> Result<Stored> {
    let start = fields.position();
    let field = format!("tensor {index}");
    let name_len = read_count(fields, &field, 1, limits, Limit::NameBytes)?;
    let name = fields.text(name_len, limits, Limit::NameBytes).map_err(|error| error.field(&field))?;
    read_shape(fields, limits, &name)
        .map_err(|error| error.offset(start).field(field).tensor(name.escape_debug().to_string()))
}

fn read_shape(fields: &mut Fields<'_>, limits: &Limits, name: &str) -> Result<Stored> {
    let key = Key::parse(name).ok_or_else(|| {
        Error::corrupt("the tensor's name is not one that the format has")
            .expected("layer<number>.weight or layer<number>.bias")
    })?;
    let rank = read_count(fields, "ndim", 4, limits, Limit::Rank)?;
    let dims = fields.parse(|input| {
        let dim = le::<u32>.map(u64::from);
        multi::count(dim, usize::try_from(rank).unwrap_or(usize::MAX)).parse(input)
    })?;
    let shape = Shape::new(dims)?;
    if shape.rank() == 0 || shape.elements() == 0 {
        return Err(Error::corrupt("the tensor is empty")
            .found(format!("shape {shape}"))
            .expected("at least one dimension, and none of them 0"));
    }
    let (offset, len) = (fields.position(), shape.elements().saturating_mul(4));
    let available = fields.remaining();
    if len > available {
        return Err(Error::corrupt("the file ends before the tensor does")
            .offset(offset)
            .found(ckpt_api::count(available, "byte"))
            .expected(format!("{len} bytes for shape {shape}"))
            .help("the file is cut short: copy it again"));
    }
    fields.skip(len)?;
    Ok(Stored { key, shape, offset, len })
}

/// Assigns the tensors to the layers.
struct Binding<'a> {
    description: &'a Description,
    dialect: Dialect,
    stored: &'a [Stored],
    by_key: HashMap<Key, usize>,
    /// The axes of each tensor of `stored`; `None` for a tensor that no layer uses.
    used: Vec<Option<Option<Vec<Axis>>>>,
    /// The tensors of each layer that fit it.
    bound: BTreeMap<usize, Vec<(Part, Key)>>,
    /// Whether the file does not describe the layers completely.
    broken: bool,
}

impl<'a> Binding<'a> {
    fn new(description: &'a Description, dialect: Dialect, stored: &'a [Stored]) -> Self {
        let by_key = stored.iter().enumerate().map(|(index, tensor)| (tensor.key, index)).collect();
        let used = vec![None; stored.len()];
        Binding { description, dialect, stored, by_key, used, bound: BTreeMap::new(), broken: false }
    }

    fn bind_all(&mut self, rules: &mut Rules) -> Result<()> {
        let description = self.description;
        for linear in format::linears(&description.layers) {
            let number = self.dialect.number(&linear);
            for part in [Part::Weight, Part::Bias] {
                self.bind(&linear, Key { number, part }, rules)?;
            }
            self.broken |= linear.layer.is_convolution();
        }
        Ok(())
    }

    fn bind(&mut self, linear: &Linear<'_>, key: Key, rules: &mut Rules) -> Result<()> {
        let name = key.to_string();
        let Some(index) = self.by_key.get(&key).copied() else {
            let position = linear.position;
            let error = Error::corrupt("a layer's tensor is missing")
                .field(format!("layers[{position}]"))
                .tensor(&name);
            self.broken |= key.part == Part::Weight;
            return match key.part {
                Part::Weight => rules.mend(name, "the model is read without a graph", error),
                Part::Bias => rules.mend(name, "the layer is read as one without bias", error),
            };
        };
        let shape = &self.stored[index].shape;
        let fit = match key.part {
            Part::Weight => self.weight_axes(linear, shape),
            Part::Bias => self.bias_axes(linear, key, shape),
        };
        let axes = match fit {
            Fit::Exact(axes) => Some(axes),
            Fit::Mended(axes, expected) => {
                rules.mend(name, "it is read as [out]", wrong_shape(key, shape, expected))?;
                Some(axes)
            }
            Fit::No(expected) => {
                self.broken = true;
                let assumed = "the tensor is kept unchanged, and the model is read without a graph";
                rules.mend(name, assumed, wrong_shape(key, shape, expected))?;
                None
            }
        };
        self.used[index] = Some(axes);
        self.bound.entry(linear.position).or_default().push((key.part, key));
        Ok(())
    }

    fn weight_axes(&self, linear: &Linear<'_>, shape: &Shape) -> Fit {
        if linear.layer.is_convolution() {
            return match shape.rank() {
                4 => Fit::Exact(vec![Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX]),
                _ => Fit::No(
                    "[out, in, height, width], for a Linear layer with 0 features is a convolution"
                        .to_owned(),
                ),
            };
        }
        let (inputs, outputs) = (linear.layer.inputs, linear.layer.outputs);
        let expected = self.dialect.weight_dims(inputs, outputs);
        match self.dialect {
            _ if shape[..] != expected => Fit::No(format!("{expected:?} in dialect {}", self.dialect.name())),
            Dialect::A => Fit::Exact(vec![Axis::In, Axis::Out]),
            Dialect::B => Fit::Exact(vec![Axis::Out, Axis::In]),
        }
    }

    fn bias_axes(&self, linear: &Linear<'_>, key: Key, shape: &Shape) -> Fit {
        let weight =
            self.by_key.get(&Key { part: Part::Weight, ..key }).map(|index| &self.stored[*index].shape);
        let outputs = match weight {
            Some(weight) if linear.layer.is_convolution() => weight[0],
            _ => linear.layer.outputs,
        };
        match (&shape[..], self.dialect) {
            ([len], _) if *len == outputs => Fit::Exact(vec![Axis::Out]),
            ([1, len], Dialect::A) if *len == outputs => Fit::Exact(vec![Axis::Unit, Axis::Out]),
            ([1, len], Dialect::B) if *len == outputs => {
                Fit::Mended(vec![Axis::Unit, Axis::Out], format!("[{outputs}] in dialect b"))
            }
            (_, Dialect::A) => Fit::No(format!("[1, {outputs}] or [{outputs}]")),
            (_, Dialect::B) => Fit::No(format!("[{outputs}]")),
        }
    }

    fn refuse_unused(&self, rules: &mut Rules) -> Result<()> {
        for (tensor, _) in self.stored.iter().zip(&self.used).filter(|(_, used)| used.is_none()) {
            let name = tensor.key.to_string();
            let error =
                Error::corrupt("no layer uses the tensor").offset(tensor.offset).tensor(&name).expected(
                    format!("the number of a Linear layer as dialect {} counts them", self.dialect.name()),
                );
            rules.mend(name, "the tensor is kept, but the model does not use it", error)?;
        }
        Ok(())
    }

    fn into_contents(self, limits: &Limits) -> Result<Contents> {
        let mut contents = Contents::default();
        for (index, (stored, axes)) in self.stored.iter().zip(&self.used).enumerate() {
            let mut tensor = Tensor::new(stored.key.to_string(), DType::F32, stored.shape.clone());
            tensor.axes = axes.as_ref().and_then(Option::as_deref).map(Into::into);
            let extent = Extent::new(FileId(0), stored.offset, stored.len);
            contents.placements.push(Placement::new(
                TensorId(index),
                tensor.name.clone(),
                vec![extent],
                Encoding::row_major(&tensor),
            ));
            contents.checkpoint.tensors.push(tensor);
        }
        self.record_order(&mut contents.checkpoint);
        contents.add_notes(self.convolution_note());
        let mismatch = self.mismatch_note();
        if mismatch.is_none() && !self.broken {
            contents.checkpoint.graph = Some(self.graph(limits)?);
        }
        contents.add_notes(mismatch);
        Ok(contents)
    }

    fn record_order(&self, checkpoint: &mut Checkpoint) {
        let found: Vec<Key> = self
            .stored
            .iter()
            .zip(&self.used)
            .filter(|(_, used)| used.is_some())
            .map(|(s, _)| s.key)
            .collect();
        let canonical = self.bound.values().flatten().map(|(_, key)| *key);
        if !canonical.eq(found.iter().copied()) {
            let names: Vec<String> = found.iter().map(Key::to_string).collect();
            checkpoint.metadata.insert(format::ID, KEY_ORDER, names);
        }
    }

    fn convolution_note(&self) -> Option<String> {
        let layers = format::linears(&self.description.layers).filter(|linear| linear.layer.is_convolution());
        let names: Vec<String> = layers.map(|linear| linear.name(self.dialect)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} is stored as Linear with 0 features, as DataCode stores a convolution: its tensors are kept, but \
                 strides and padding are not in the file, so there is no graph (and DataCode cannot load it)",
                first_few(&names, SHOWN)
            )
        })
    }

    /// Describes the first layer that does not fit the one before: the file stores a layer between them as a different
    /// kind.
    fn mismatch_note(&self) -> Option<String> {
        let mut width = None;
        for (position, layer) in self.description.layers.iter().enumerate() {
            match layer.kind {
                LayerKind::Linear if layer.is_convolution() => width = None,
                LayerKind::Linear => {
                    if let Some(found) = width.filter(|width| *width != layer.inputs) {
                        return Some(format!(
                            "layers[{position}] takes {} features but gets {found}: a layer before it is not what the \
                             file states, so there is no graph",
                            layer.inputs
                        ));
                    }
                    width = Some(layer.outputs);
                }
                LayerKind::Flatten => width = None,
                _ => {}
            }
        }
        None
    }

    fn graph(&self, limits: &Limits) -> Result<Graph> {
        let layers = &self.description.layers;
        let mut taken: HashSet<Cow<'_, str>> =
            format::linears(layers).map(|linear| Cow::Owned(linear.name(self.dialect))).collect();
        let mut nodes = Vec::with_capacity(layers.len());
        for (position, (layer, rule)) in
            layers.iter().zip(format::layer_names(layers, self.dialect)).enumerate()
        {
            let is_linear = layer.kind == LayerKind::Linear;
            let own = self.description.name(position).filter(|name| !name.is_empty() && !is_linear);
            let name = own.map_or(Cow::Owned(rule), Cow::Borrowed);
            limits.check(Limit::NameBytes, name.len() as u64)?;
            // Dialect b repeats names; a Linear layer keeps the one that its tensors have.
            let name = match is_linear || taken.insert(name.clone()) {
                true => name.into_owned(),
                false => format!("{name}#{position}"),
            };
            let node = Node::new(name, layer.kind.op());
            let parameters = self.bound.get(&position).into_iter().flatten();
            nodes.push(
                parameters.fold(node, |node, (part, key)| node.parameter(part.name(), key.to_string())),
            );
        }
        drop(taken);
        let mut features = format::linears(layers).map(|linear| (linear.layer.inputs, linear.layer.outputs));
        let first = features.next();
        let last = features.last().or(first);
        let (input, output) = (vec![None, first.map(|f| f.0)], vec![None, last.map(|f| f.1)]);
        Ok(Graph::sequential("", input, output, nodes))
    }
}

/// The result of comparing a tensor's shape with its layer.
enum Fit {
    Exact(Vec<Axis>),
    /// The same values, but one axis too many; with the expected shape.
    Mended(Vec<Axis>, String),
    /// The shape does not fit; with the expected shape.
    No(String),
}

fn wrong_shape(key: Key, shape: &Shape, expected: String) -> Error {
    Error::corrupt("the tensor's shape does not fit its layer")
        .tensor(key.to_string())
        .found(shape.to_string())
        .expected(expected)
}

/// Returns notes on facts that DataCode does not store and that may matter for this file.
fn notes(description: &Description) -> Vec<String> {
    let has = |kind| description.layers.iter().any(|layer| layer.kind == kind);
    let mut notes = Vec::new();
    if has(LayerKind::Relu) {
        notes.push(
            "DataCode writes ReLU for every kind of layer that it does not support (LeakyReLU, GELU, Dropout, \
             pooling): check that these layers are really ReLU in your model"
                .to_owned(),
        );
    }
    if has(LayerKind::Softmax) {
        notes.push("DataCode writes LogSoftmax as Softmax: check which one your model has".to_owned());
    }
    if description.has_frozen_layers() {
        notes.push("the file has \"trainable\": false, which DataCode's loader ignores".to_owned());
    }
    let Some(history) = description.history() else { return notes };
    if history.has_stages() {
        notes.push("the optimizer's moments are not in the file: DataCode never saves them".to_owned());
    }
    let odd = history.oddities();
    if !odd.is_empty() {
        let fields = first_few(&odd, SHOWN);
        notes.push(format!(
            "training fields of an unexpected type have no effect and are kept as they are: {fields}"
        ));
    }
    notes
}
