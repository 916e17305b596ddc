//! Lays out files as Keras writes them: the configuration, if the checkpoint has one, and the tensors in HDF5.

use super::archive::{self, Member};
use super::sparse::Runs;
use super::{Layout, Weights, inside};
use crate::config::{Generation, Model, Variable};
use crate::format::{
    CONFIG, Container, DTYPE, ID, INDEX_END, KEY_BACKEND, KEY_CONFIG, KEY_PATH, KEY_SAVED, KEY_TRAINING,
    KEY_VERSION, LAYER_NAMES, METADATA, MODEL_CONFIG, MODEL_WEIGHTS, NATIVE, TRAINING_CONFIG, WEIGHT_NAMES,
    WEIGHTS, WEIGHTS_END,
};
use ckpt_api::{
    Checkpoint, ChecksumAlgorithm, DType, Encoding, Error, Extent, FileId, Limits, Loss, LossKind, Placement,
    Result, Setting, Tensor, TensorId, first_few,
};
use ckpt_hdf5::{AttributeValue, Datatype, Draft, Plan};
use std::collections::{BTreeMap, HashMap};

/// Names that a message lists.
const SHOWN: usize = 8;
/// The longest list of names that one attribute holds, in names: Keras splits longer ones.
const MOST_NAMES: usize = 4000;
/// The end of the name of the file that an index names.
const SHARD: &str = "_00000.weights.h5";

/// A model, by its configuration.
struct Config<'a> {
    text: &'a str,
    model: Model,
    /// In the order of the model; the tensor of each, if the checkpoint has it.
    variables: Vec<(Variable, Option<TensorId>)>,
}

impl<'a> Config<'a> {
    /// Parses the configuration that the checkpoint has; `None` if there is none or it is not understood.
    fn of(checkpoint: &'a Checkpoint) -> Option<Self> {
        let text = checkpoint.metadata.text(ID, KEY_CONFIG)?;
        let version = checkpoint.metadata.text(ID, KEY_VERSION);
        let model = Model::parse(text, version, &Limits::default()).ok()?;
        let mut by_path: HashMap<&str, TensorId> = HashMap::new();
        for (id, tensor) in checkpoint.tensors.iter().enumerate() {
            by_path.insert(tensor.metadata.text(ID, KEY_PATH).unwrap_or(&tensor.name), TensorId(id));
        }
        let list = model.variables().list.into_iter();
        let variables = list.map(|variable| {
            let id = by_path.get(variable.path.as_str()).copied();
            (variable, id)
        });
        let variables = variables.collect();
        Some(Config { text, model, variables })
    }

    /// Refuses a checkpoint that lacks tensors of the model: Keras would not load it.
    fn check_complete(&self) -> Result<()> {
        let missing: Vec<&str> =
            self.variables.iter().filter(|(_, id)| id.is_none()).map(|(own, _)| own.path.as_str()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported("the checkpoint lacks tensors of the model that its configuration describes")
            .found(first_few(&missing, SHOWN))
            .help("write a file whose name ends in .weights.h5, which has no configuration"))
    }

    /// The configuration for `config.json`: those of `.h5` files do not name the module of the model's class.
    fn for_archive(&self) -> Vec<u8> {
        let parsed: Option<serde_json::Value> = serde_json::from_str(self.text).ok();
        let names_module = parsed.is_some_and(|value| value.get("module").is_some());
        let module = match self.model.class.as_str() {
            "Functional" | "Model" if !self.is_old() => "keras.src.models.functional",
            "Functional" | "Model" => "tf_keras.src.engine.functional",
            _ => "keras",
        };
        match self.text.trim_start().strip_prefix('{') {
            Some(rest) if !names_module => {
                format!("{{\"module\": \"{module}\", \"registered_name\": null, {rest}").into_bytes()
            }
            _ => self.text.as_bytes().to_vec(),
        }
    }

    fn is_old(&self) -> bool {
        self.model.generation < Generation::Keras3
    }

    /// The name of a variable in an `.h5` file.
    fn weight_name(&self, variable: &Variable) -> String {
        let end = if self.is_old() { ":0" } else { "" };
        format!("{}{end}", variable.name)
    }
}

/// Lays out a checkpoint that no file was kept of.
pub(super) fn lay_out(checkpoint: &Checkpoint, name: &str, container: Container) -> Result<Layout> {
    let config = Config::of(checkpoint);
    let has_config = match container {
        Container::Archive | Container::Directory => true,
        Container::File => !name.ends_with(WEIGHTS_END),
        Container::Sharded => false,
    };
    let mut layout = match (&config, has_config) {
        (Some(config), true) => {
            config.check_complete()?;
            with_config(checkpoint, config, name, container)?
        }
        (None, true) if container != Container::File => {
            let error = Error::unsupported("the checkpoint has no configuration of a Keras model");
            return Err(error.help(format!(
                "write a file whose name ends in .weights.h5, and load it into the model with load_weights; {} gives \
                 tensors the paths that Keras expects",
                Setting::Mapping
            )));
        }
        (config, _) => {
            let mut h5 = Hdf5::new(checkpoint);
            h5.by_path(config.as_ref())?;
            let (file, at) = match container {
                Container::Sharded => (shard_name(name), 0),
                _ => (name.to_owned(), 0),
            };
            let plan = h5.draft.place()?;
            let mut layout = Layout::default();
            layout.file(file, &Runs { len: plan.len, runs: plan.blocks.clone() }, 0);
            layout.placements = h5.placements(&plan, at)?;
            if container == Container::Sharded {
                let index = h5.index(&shard_name(name))?;
                layout.file(name.to_owned(), &Runs::of(index), 1);
            }
            layout
        }
    };
    if config.is_some() && !has_config {
        let detail = "a file of weights alone has no configuration: load it into the model with load_weights";
        layout.losses.push(Loss::new(LossKind::MetadataDropped, format!("{ID}.{KEY_CONFIG}"), detail));
    }
    Ok(layout)
}

fn shard_name(name: &str) -> String {
    format!("{}{SHARD}", name.strip_suffix(INDEX_END).unwrap_or(name))
}

fn with_config(
    checkpoint: &Checkpoint,
    config: &Config<'_>,
    name: &str,
    container: Container,
) -> Result<Layout> {
    let mut h5 = Hdf5::new(checkpoint);
    let mut layout = Layout::default();
    if container == Container::File {
        h5.by_layer(config)?;
        let plan = h5.draft.place()?;
        layout.file(name.to_owned(), &Runs { len: plan.len, runs: plan.blocks.clone() }, 0);
        layout.placements = h5.placements(&plan, 0)?;
        return Ok(layout);
    }
    h5.by_path(Some(config))?;
    let plan = h5.draft.place()?;
    let metadata = metadata(checkpoint)?;
    if container == Container::Directory {
        layout.file(inside(name, WEIGHTS), &Runs { len: plan.len, runs: plan.blocks.clone() }, 0);
        layout.placements = h5.placements(&plan, 0)?;
        layout.file(inside(name, METADATA), &Runs::of(metadata), 1);
        layout.file(inside(name, CONFIG), &Runs::of(config.for_archive()), 2);
        return Ok(layout);
    }
    let (runs, weights, places) = archived(&plan, &metadata, &config.for_archive())?;
    layout.file(name.to_owned(), &runs, 0);
    layout.placements = h5.placements(&plan, weights.start)?;
    let sums = layout.checksum(weights, &places);
    sums.ok_or_else(|| Error::defect("the checksum of the weights lies among them"))?;
    Ok(layout)
}

/// The version of Keras, and when the model was saved, as far as they are known.
fn metadata(checkpoint: &Checkpoint) -> Result<Vec<u8>> {
    let mut object = serde_json::Map::new();
    for key in [KEY_VERSION, KEY_SAVED] {
        if let Some(text) = checkpoint.metadata.text(ID, key) {
            object.insert(key.to_owned(), text.into());
        }
    }
    serde_json::to_vec(&object).map_err(|error| Error::defect("the metadata is no JSON").caused_by(error))
}

/// Lays out an archive: its bytes but for the elements, where the weights are, and where their checksum goes.
fn archived(plan: &Plan, metadata: &[u8], config: &[u8]) -> Result<(Runs, Weights, Vec<u64>)> {
    let mut runs = Vec::new();
    let mut members = Vec::new();
    let mut at = 0u64;
    for (name, bytes) in [(METADATA, metadata), (CONFIG, config)] {
        let crc = ChecksumAlgorithm::Crc32.append(0, bytes);
        let member = Member { name, crc, len: bytes.len() as u64, at };
        let block = [&member.local(), bytes].concat();
        runs.push((at, block.clone()));
        at += block.len() as u64;
        members.push(member);
    }
    let member = Member { name: WEIGHTS, crc: 0, len: plan.len, at };
    let local = member.local();
    let start = at + local.len() as u64;
    let local_crc = member.local_crc();
    runs.push((at, local));
    for (offset, block) in &plan.blocks {
        runs.push((start.saturating_add(*offset), block.clone()));
    }
    members.push(member);
    let end = start.checked_add(plan.len).ok_or_else(too_large)?;
    let (tail, checksums) = archive::tail(&members, end);
    let len = end.checked_add(tail.len() as u64).ok_or_else(too_large)?;
    runs.push((end, tail));
    let places = vec![local_crc, checksums.last().copied().unwrap_or_default()];
    Ok((Runs { len, runs }, Weights { file: 0, start, len: plan.len }, places))
}

/// An HDF5 file that is put together.
struct Hdf5<'a> {
    checkpoint: &'a Checkpoint,
    draft: Draft,
    /// For each dataset, its tensor, its path, and how it is stored.
    datasets: Vec<(TensorId, String, Encoding)>,
}

impl<'a> Hdf5<'a> {
    fn new(checkpoint: &'a Checkpoint) -> Self {
        Hdf5 { checkpoint, draft: Draft::default(), datasets: Vec::new() }
    }

    /// Adds all tensors by their paths: variables of the model by those of the configuration, others by their names.
    fn by_path(&mut self, config: Option<&Config<'_>>) -> Result<()> {
        let mut left: Vec<Option<&Variable>> = vec![None; self.checkpoint.tensors.len()];
        for (variable, id) in config.into_iter().flat_map(|config| &config.variables) {
            if let Some(place) = id.and_then(|id| left.get_mut(id.0)) {
                *place = Some(variable);
            }
        }
        if config.is_some() {
            // Without it, tf_keras does not load the file.
            self.draft.group("vars")?;
        }
        for (id, variable) in left.into_iter().enumerate() {
            let Some(tensor) = self.checkpoint.tensors.get(id) else { continue };
            let path = variable.map_or(tensor.name.as_str(), |variable| variable.path.as_str());
            self.tensor(TensorId(id), path, variable, true)?;
        }
        Ok(())
    }

    /// Adds all tensors as an `.h5` file has them: those of each layer in its group, with a list of their names.
    fn by_layer(&mut self, config: &Config<'_>) -> Result<()> {
        let metadata = &self.checkpoint.metadata;
        let text = |text: &str| AttributeValue::Text(text.as_bytes().to_vec());
        self.draft.attribute("", MODEL_CONFIG, text(config.text))?;
        for (key, name) in
            [(KEY_TRAINING, TRAINING_CONFIG), (KEY_VERSION, KEY_VERSION), (KEY_BACKEND, KEY_BACKEND)]
        {
            let Some(value) = metadata.text(ID, key) else { continue };
            self.draft.attribute("", name, text(value))?;
            if key != KEY_TRAINING {
                self.draft.attribute(MODEL_WEIGHTS, name, text(value))?;
            }
        }
        let layers: Vec<&str> = config
            .model
            .layers
            .iter()
            .filter(|layer| !layer.is_operation())
            .map(|layer| layer.name.as_str())
            .collect();
        self.names(MODEL_WEIGHTS, LAYER_NAMES, layers.iter().map(|name| (*name).to_owned()).collect())?;
        let mut groups: BTreeMap<&str, Vec<&(Variable, Option<TensorId>)>> =
            layers.iter().map(|layer| (*layer, Vec::new())).collect();
        for own in &config.variables {
            groups.entry(&own.0.group).or_default().push(own);
        }
        let mut is_placed = vec![false; self.checkpoint.tensors.len()];
        for (group, mut variables) in groups {
            variables.sort_by_key(|(variable, _)| variable.position);
            let path = format!("{MODEL_WEIGHTS}/{group}");
            let names = variables.iter().map(|(variable, _)| config.weight_name(variable)).collect();
            self.names(&path, WEIGHT_NAMES, names)?;
            for (variable, id) in variables {
                let Some(id) = *id else { continue };
                self.tensor(id, &format!("{path}/{}", config.weight_name(variable)), Some(variable), false)?;
                if let Some(placed) = is_placed.get_mut(id.0) {
                    *placed = true;
                }
            }
        }
        for (id, _) in is_placed.iter().enumerate().filter(|(_, placed)| !**placed) {
            let Some(tensor) = self.checkpoint.tensors.get(id) else { continue };
            self.tensor(TensorId(id), &tensor.name, None, false)?;
        }
        Ok(())
    }

    /// Adds a list of names, split as Keras does.
    fn names(&mut self, path: &str, name: &str, names: Vec<String>) -> Result<()> {
        let texts: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
        if texts.len() <= MOST_NAMES {
            return self.draft.attribute(path, name, AttributeValue::Texts(texts));
        }
        for (number, texts) in texts.chunks(MOST_NAMES).enumerate() {
            self.draft.attribute(path, &format!("{name}{number}"), AttributeValue::Texts(texts.to_vec()))?;
        }
        Ok(())
    }

    fn tensor(
        &mut self,
        id: TensorId,
        path: &str,
        variable: Option<&Variable>,
        names_dtypes: bool,
    ) -> Result<()> {
        let Some(tensor) = self.checkpoint.tensors.get(id.0) else { return Ok(()) };
        let Some(dtype) = holder(tensor.dtype, names_dtypes) else { return Ok(()) };
        let order = variable.and_then(|variable| order(tensor, variable));
        let encoding = Encoding::row_major(tensor).with_dtype(dtype);
        let (shape, encoding) = match order {
            Some(order) => (tensor.shape.permuted(&order), encoding.with_order(order)),
            None => (tensor.shape.clone(), encoding),
        };
        let datatype = match dtype {
            DType::Bf16 => Datatype::Opaque { size: 2 },
            other => Datatype::little(other),
        };
        let named = |error: Error| error.tensor(&tensor.name);
        self.draft.dataset(path, datatype, shape).map_err(named)?;
        if dtype == DType::Bf16 {
            let name = AttributeValue::Text(b"bfloat16".to_vec());
            self.draft.attribute(path, DTYPE, name).map_err(named)?;
        }
        self.datasets.push((id, path.to_owned(), encoding));
        Ok(())
    }

    /// Returns the placements of the tensors in a file in which the HDF5 file begins at `start`.
    fn placements(&self, plan: &Plan, start: u64) -> Result<Vec<Placement>> {
        let pairs = self.datasets.iter().zip(&plan.datasets);
        let placement = |((id, path, encoding), offset): (&(TensorId, String, Encoding), &u64)| {
            let elements = self.checkpoint.tensors.get(id.0).map_or(0, |tensor| tensor.shape.elements());
            let len = encoding.stored_len(elements).ok_or_else(too_large)?;
            let offset = start.checked_add(*offset).ok_or_else(too_large)?;
            let extent = Extent::new(FileId(0), offset, len);
            Ok(Placement::new(*id, path, vec![extent], encoding.clone()))
        };
        pairs.map(placement).collect()
    }

    /// The index of weights of which all are in one file.
    fn index(&self, file: &str) -> Result<Vec<u8>> {
        let mut groups = serde_json::Map::new();
        let mut total = 0u64;
        for (id, path, encoding) in &self.datasets {
            let group = path.rsplit_once('/').map_or("", |(group, _)| group);
            groups.insert(format!("/{group}"), serde_json::json!([file]));
            let elements = self.checkpoint.tensors.get(id.0).map_or(0, |tensor| tensor.shape.elements());
            total = total.saturating_add(encoding.stored_len(elements).unwrap_or(0));
        }
        let index = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": groups });
        serde_json::to_vec_pretty(&index)
            .map_err(|error| Error::defect("the index is no JSON").caused_by(error))
    }
}

/// Returns the dtype to store a dtype as: itself or one that holds every value exactly; `None` if there is none.
/// Keras loads bfloat16 from files only whose datasets name it.
fn holder(dtype: DType, names_dtypes: bool) -> Option<DType> {
    Some(match dtype {
        native if NATIVE.contains(&native) => native,
        DType::Bf16 if names_dtypes => DType::Bf16,
        DType::Bf16 | DType::F8E8m0 => DType::F32,
        DType::F8E5m2
        | DType::F8E4m3
        | DType::F8E4m3fnuz
        | DType::F8E4m3b11fnuz
        | DType::F8E5m2fnuz
        | DType::F6E2m3
        | DType::F6E3m2
        | DType::F4E2m1 => DType::F16,
        DType::I4 | DType::I2 | DType::Qi8 => DType::I8,
        DType::U4 | DType::U2 | DType::Qu8 => DType::U8,
        DType::Qi16 => DType::I16,
        DType::Qu16 => DType::U16,
        DType::Qi32 => DType::I32,
        _ => return None,
    })
}

/// Returns the order of axes in which Keras stores a variable, if the tensor has them in another one.
fn order(tensor: &Tensor, variable: &Variable) -> Option<Vec<usize>> {
    let (own, wanted) = (tensor.axes.as_ref()?, variable.axes.as_ref()?);
    if own == wanted || own.len() != wanted.len() {
        return None;
    }
    let order =
        wanted.iter().map(|axis| own.iter().position(|own| own == axis)).collect::<Option<Vec<usize>>>()?;
    let mut seen = order.clone();
    seen.sort_unstable();
    seen.dedup();
    (seen.len() == order.len()).then_some(order)
}

fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}
