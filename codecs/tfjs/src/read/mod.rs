//! Recognizes a model, and finds the bytes of its weights.

mod locate;
mod stream;

use crate::format::manifest::{self, Group, Quantization, Weight};
use crate::format::{
    AS_STORED, FILES, HALVES, ID, INTEGERS, KEY_GRAPH, KEY_LENS, KEY_MODEL, MANIFEST, MODEL, OLD_MODEL,
    TOPOLOGY, USER_METADATA,
};
use crate::graph;
use ckpt_api::{
    Affine, Contents, DType, Error, File, FileId, Input, Limit, Limits, Match, MetadataValue, Name, Options,
    Placement, Result, Role, Rules, Slot, Tensor, TensorId,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use stream::Stream;

/// Members of the model's file that are metadata, and their keys there.
const KEPT: [(&str, &str); 8] = [
    ("format", "format"),
    ("generatedBy", "generated_by"),
    ("convertedBy", "converted_by"),
    ("trainingConfig", "training_config"),
    ("userDefinedMetadata", USER_METADATA),
    ("signature", "signature"),
    ("modelInitializer", "model_initializer"),
    ("initializerSignature", "initializer_signature"),
];

/// See [`ckpt_api::Codec::probe`].
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let Some(name) = model_file(input) else { return Ok(Match::No) };
    let file = input.file(&name)?;
    // Indexes of shards are other formats'.
    let is_named = name.ends_with(".json") && !name.ends_with(".index.json");
    if !is_named || begins_with(&file)?.is_none() {
        return Ok(Match::No);
    }
    Ok(match () {
        () if contains(&file, MANIFEST)? => Match::Certain(format!("{name} has a {MANIFEST}")),
        () if name == OLD_MODEL && contains(&file, "paths")? && contains(&file, "weights")? => {
            Match::Certain(format!("{name} lists the weights of TensorFlow.js 0.x"))
        }
        () if name == MODEL && contains(&file, TOPOLOGY)? => {
            Match::Certain(format!("{name} has a {TOPOLOGY}"))
        }
        () => Match::No,
    })
}

/// The file with the manifest: the input, or a file of the folder.
fn model_file(input: &Input) -> Option<String> {
    match input.is_file() {
        true => Some(input.entry().to_owned()),
        false if input.is_directory() => {
            [MODEL, OLD_MODEL].into_iter().find(|name| input.has_file(name)).map(str::to_owned)
        }
        false => None,
    }
}

/// The first character that is no space, if it begins an object or a list.
fn begins_with(file: &File) -> Result<Option<u8>> {
    /// Bytes that are looked at.
    const HEAD: u64 = 64;
    let head = file.bytes(0, file.len().min(HEAD))?;
    let first = head.into_iter().find(|byte| !byte.is_ascii_whitespace());
    Ok(first.filter(|byte| matches!(byte, b'{' | b'[')))
}

/// Whether a file contains a key, wherever it is: the topology may come before the manifest.
fn contains(file: &File, key: &str) -> Result<bool> {
    /// Bytes that are looked at, at once and in all: beyond them, a file is not recognized.
    const PIECE: u64 = 1 << 20;
    const MOST: u64 = 256 << 20;
    let word = format!("\"{key}\"").into_bytes();
    let overlap = word.len() as u64;
    let mut at = 0;
    while at < file.len().min(MOST) {
        let len = (file.len() - at).min(PIECE.saturating_add(overlap));
        if file.bytes(at, len)?.windows(word.len()).any(|part| part == word) {
            return Ok(true);
        }
        at = at.saturating_add(PIECE);
    }
    Ok(false)
}

/// See [`ckpt_api::Codec::read`].
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let name = model_file(input).ok_or_else(|| {
        Error::corrupt("the folder holds no model of TensorFlow.js")
            .file(input.display(""))
            .expected(format!("{MODEL}, or {OLD_MODEL}"))
    })?;
    let file = input.file(&name)?;
    let in_model = |error: Error| error.file(file.name());
    let text = text(&file, limits).map_err(in_model)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| in_model(no_json(&error)))?;
    let manifest = match &value {
        Value::Array(_) => &value,
        _ => value.get(MANIFEST).unwrap_or(&Value::Null),
    };
    let groups = manifest::parse(manifest, limits).map_err(in_model)?;
    check_names(&groups).map_err(in_model)?;
    let mut contents = Contents::default();
    let metadata = &mut contents.checkpoint.metadata;
    for (key, member) in members(&value) {
        metadata.insert(ID, key, member);
    }
    metadata.insert(FILES, KEY_MODEL, text);
    let mut reader = Reader {
        input,
        limits,
        keeps_halves: options.text(HALVES) == Some(AS_STORED),
        keeps_integers: options.text(INTEGERS) == Some(AS_STORED),
        contents,
        files: HashMap::new(),
        lens: Vec::new(),
        rules: Rules::new(options),
        stored_as: BTreeMap::new(),
    };
    for group in &groups {
        reader.group(group)?;
    }
    reader.contents.files = reader.names();
    let notes = reader.stored_as.iter().map(|(dtype, count)| {
        format!(
            "{} stored as {dtype}: read are the numbers that TensorFlow.js computes",
            ckpt_api::count(*count, "weight")
        )
    });
    let notes: Vec<String> = notes.collect();
    let lens = MetadataValue::integers(reader.lens.iter().copied());
    let mut contents = reader.contents.with_repairs(reader.rules.repairs);
    contents.checkpoint.metadata.insert(FILES, KEY_LENS, lens);
    contents.add_notes(notes);
    graph::describe(&value, &mut contents, Some(input), limits)?;
    let read = contents.checkpoint.graph.as_ref().filter(|_| graph::is_graph(&value));
    if let Some(mark) = read.and_then(graph::mark) {
        contents.checkpoint.metadata.insert(FILES, KEY_GRAPH, mark);
    }
    Ok(contents)
}

/// The members of the model's file that are metadata, by their keys there.
pub(crate) fn members(model: &Value) -> BTreeMap<&'static str, MetadataValue> {
    let text = |(member, key): &(&str, &'static str)| match model.get(member)? {
        Value::Null => None,
        Value::String(text) => Some((*key, text.as_str().into())),
        other => Some((*key, other.to_string().into())),
    };
    KEPT.iter().filter_map(text).collect()
}

/// Reads the text of the model's file, if it is not too large to be parsed as a whole.
fn text(file: &File, limits: &Limits) -> Result<String> {
    limits.check(Limit::HeaderBytes, file.len())?;
    let bytes = file.bytes(0, file.len())?;
    // What JSON takes in memory grows with its values, and each has one of these characters before or behind it.
    let values = bytes.iter().filter(|byte| matches!(byte, b',' | b'{' | b'[' | b':')).count();
    limits.check(Limit::TextTokens, values as u64)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::corrupt("the model's file is not valid UTF-8").offset(at as u64)
    })
}

fn no_json(error: &serde_json::Error) -> Error {
    Error::corrupt("the model's file is not valid JSON")
        .found(error.to_string())
        .help("the file is cut short or was changed: copy it again")
}

fn check_names(groups: &[Group]) -> Result<()> {
    let mut names = HashSet::new();
    let mut weights = groups.iter().flat_map(|group| &group.weights);
    match weights.find(|weight| !names.insert(weight.name.as_str())) {
        None => Ok(()),
        Some(weight) => Err(Error::corrupt("two weights have the same name")
            .tensor(&weight.name)
            .help("TensorFlow.js would take the last one: rename one of them in the manifest")),
    }
}

struct Reader<'a> {
    input: &'a Input,
    limits: &'a Limits,
    /// Whether weights of 16-bit floats are read as they are stored.
    keeps_halves: bool,
    /// Whether those of integers with scales are.
    keeps_integers: bool,
    contents: Contents,
    /// The files that were opened, by name.
    files: HashMap<String, (FileId, File)>,
    /// Bytes of each file that the manifest names.
    lens: Vec<u64>,
    rules: Rules,
    /// How many weights are stored in another dtype, by its name.
    stored_as: BTreeMap<&'static str, u64>,
}

impl Reader<'_> {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<(FileId, String)> =
            self.files.iter().map(|(name, (id, _))| (*id, name.clone())).collect();
        names.sort_by_key(|(id, _)| id.0);
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Adds the weights of a group, whose bytes follow each other in its files.
    fn group(&mut self, group: &Group) -> Result<()> {
        self.input.will_open(&group.files);
        let mut files = Vec::with_capacity(group.files.len());
        for name in &group.files {
            let next = FileId(self.files.len());
            let found = match self.files.get(name) {
                Some(found) => found.clone(),
                None => {
                    let file = self.input.file(name)?;
                    self.files.entry(name.clone()).or_insert((next, file)).clone()
                }
            };
            self.lens.push(found.1.len());
            files.push(found);
        }
        let mut stream = Stream::new(files);
        for weight in &group.weights {
            self.weight(weight, &mut stream).map_err(|error| error.tensor(&weight.name))?;
        }
        if stream.remaining() > 0 {
            let file = group.files.last().map_or("", String::as_str);
            let error = Error::unsupported("the files of a group have bytes after its last weight")
                .file(self.input.display(file))
                .found(ckpt_api::count(stream.remaining(), "byte"));
            self.rules.mend(file, "they are ignored, as by TensorFlow.js", error)?;
        }
        Ok(())
    }

    fn weight(&mut self, weight: &Weight, stream: &mut Stream) -> Result<()> {
        let kept = match weight.quantization {
            Some(Quantization::Half) if self.keeps_halves => Some((DType::F16, None)),
            Some(Quantization::Affine { is_16_bit, scale, min }) if self.keeps_integers => {
                let affine = Affine::new([scale], [-min / scale], None)?;
                Some((if is_16_bit { DType::U16 } else { DType::U8 }, Some(affine)))
            }
            _ => None,
        };
        let quantization = weight.quantization.filter(|_| kept.is_none());
        let (dtype, affine) = kept.unwrap_or((weight.dtype, None));
        let mut tensor = Tensor::new(weight.name.as_str(), dtype, weight.shape.clone());
        tensor.quantization = affine.map(Into::into);
        let (extents, encoding) = locate::locate(&mut tensor, quantization, stream, self.limits)?;
        if let Some(quantization) = quantization {
            *self.stored_as.entry(quantization.dtype()).or_default() += 1;
        }
        if weight.is_of_optimizer {
            mark(&mut tensor);
        }
        let id = TensorId(self.contents.placements.len());
        self.contents.placements.push(Placement::new(id, weight.name.as_str(), extents, encoding));
        self.contents.checkpoint.tensors.push(tensor);
        Ok(())
    }
}

/// States what a weight of the optimizer is: `iter`, or `dense/kernel/m` of `dense/kernel`.
pub(crate) fn mark(tensor: &mut Tensor) {
    tensor.role = if tensor.name == "iter" { Role::Counter } else { Role::Optimizer };
    if let Some((variable, name)) = tensor.name.rsplit_once('/') {
        let slot = Slot { variable: Name::from(variable), name: name.to_owned() };
        tensor.slot = Some(Box::new(slot));
    }
}
