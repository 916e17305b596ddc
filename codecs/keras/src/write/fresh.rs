//! Lays out files as Keras writes them: the configuration, if the checkpoint has one, and the tensors in HDF5.

use super::config::{Bound, Config};
use super::layout::{Layout, Weights, inside};
use super::sparse::Runs;
use crate::config::Generation;
use crate::format::{
    CONFIG, Container, DTYPE, ID, INDEX_END, KEY_BACKEND, KEY_SAVED, KEY_TRAINING, KEY_VERSION, LAYER_NAMES,
    METADATA, MODEL_CONFIG, MODEL_WEIGHTS, NATIVE, TRAINING_CONFIG, WEIGHT_NAMES, WEIGHTS, WEIGHTS_END,
};
use ckpt_api::{
    Added, Checkpoint, ChecksumAlgorithm, DType, Encoding, Error, Extent, FileId, Loss, LossKind, Placement,
    Result, Setting, TensorId, text,
};
use ckpt_containers::zip::{PythonMember, python_directory, too_large};
use ckpt_hdf5::{AttributeValue, Datatype, Draft, Plan};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The longest list of names that one attribute holds, in names: Keras splits longer ones.
const MOST_NAMES: usize = 4000;
/// The end of the name of the file that an index names.
const SHARD: &str = "_00000.weights.h5";

/// Lays out a checkpoint that no file was kept of. A configuration is made for the generation that is wanted.
pub(super) fn lay_out(
    checkpoint: &Checkpoint,
    name: &str,
    container: Container,
    wanted: Option<Generation>,
) -> Result<Layout> {
    let needs_config = matches!(container, Container::Archive | Container::Directory);
    let config = match Config::of(checkpoint, wanted, needs_config) {
        Ok(config) => config,
        Err(error) if needs_config => return Err(error),
        // A file of tensors by their names is of use, too.
        Err(_) => None,
    };
    let has_config = needs_config || (container == Container::File && !name.ends_with(WEIGHTS_END));
    let mut layout = match &config {
        Some(config) if has_config => with_config(checkpoint, config, name, container)?,
        None if needs_config => {
            let error =
                Error::unsupported("the checkpoint has no configuration of a Keras model, and no layers");
            return Err(error.help(text![
                "write a file whose name ends in .weights.h5; ",
                Setting::MAPPING,
                " gives tensors the paths that Keras expects"
            ]));
        }
        config => weights(checkpoint, config.as_ref(), name, container)?,
    };
    layout.losses.extend(losses_of_names(checkpoint, &layout.placements));
    Ok(layout)
}

/// The losses of tensors that get other names, or several.
fn losses_of_names(checkpoint: &Checkpoint, placements: &[Placement]) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut first: HashMap<TensorId, &str> = HashMap::new();
    for placement in placements {
        let Some(tensor) = checkpoint.tensors.get(placement.tensor.0) else { continue };
        let name = &placement.name;
        if let Some(first) = first.get(&placement.tensor) {
            let detail = format!("stored as '{first}' and as '{name}': the layers no longer share it");
            losses.push(Loss::new(LossKind::Untied, &tensor.name, detail));
            continue;
        }
        first.insert(placement.tensor, name);
        if tensor.name != *name {
            let detail = format!("Keras names it '{name}'");
            losses.push(Loss::new(LossKind::NamesDropped, &tensor.name, detail));
        }
    }
    losses
}

/// Lays out weights alone.
fn weights(
    checkpoint: &Checkpoint,
    config: Option<&Config<'_>>,
    name: &str,
    container: Container,
) -> Result<Layout> {
    let mut h5 = Hdf5::new(checkpoint);
    h5.by_path(config)?;
    if let Some(config) = config {
        // Keras does not look for it here; without it, nobody could tell what the axes mean.
        h5.config(config)?;
    }
    let losses = config.map(|config| config.losses_of_order(checkpoint)).unwrap_or_default();
    let file = if container == Container::Sharded { shard_name(name) } else { name.to_owned() };
    let plan = h5.draft.place()?;
    let mut layout = Layout { losses, ..Layout::default() };
    layout.file(file, &Runs { len: plan.len, runs: plan.blocks.clone() }, 0);
    layout.placements = h5.placements(&plan, 0)?;
    if container == Container::Sharded {
        layout.file(name.to_owned(), &Runs::of(h5.index(&shard_name(name))?), 1);
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
        config.check_listable(checkpoint)?;
        h5.by_layer(config)?;
        let plan = h5.draft.place()?;
        layout.file(name.to_owned(), &Runs { len: plan.len, runs: plan.blocks.clone() }, 0);
        layout.placements = h5.placements(&plan, 0)?;
        return Ok(layout);
    }
    layout.losses = config.losses_of_loading();
    h5.by_path(Some(config))?;
    let plan = h5.draft.place()?;
    let metadata = metadata(checkpoint, config)?;
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
fn metadata(checkpoint: &Checkpoint, config: &Config<'_>) -> Result<Vec<u8>> {
    let mut object = serde_json::Map::new();
    let saved = checkpoint.metadata.text(ID, KEY_SAVED);
    for (key, text) in [(KEY_VERSION, config.version(checkpoint)), (KEY_SAVED, saved)] {
        if let Some(text) = text {
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
        let member = member(name, at, bytes.len() as u64)?.with_crc(crc);
        let block = [&member.local(), bytes].concat();
        runs.push((at, block.clone()));
        at += block.len() as u64;
        members.push(member);
    }
    let member = member(WEIGHTS, at, plan.len)?;
    let local = member.local();
    let start = at + local.len() as u64;
    let local_crc = member.local_crc();
    runs.push((at, local));
    for (offset, block) in &plan.blocks {
        runs.push((start.saturating_add(*offset), block.clone()));
    }
    members.push(member);
    let end = start.checked_add(plan.len).ok_or_else(too_large)?;
    let (tail, checksums) = python_directory(&members, end);
    let len = end.checked_add(tail.len() as u64).ok_or_else(too_large)?;
    runs.push((end, tail));
    let places = vec![local_crc, end.saturating_add(checksums.last().copied().unwrap_or_default())];
    Ok((Runs { len, runs }, Weights { file: 0, start, len: plan.len }, places))
}

fn member(name: &str, at: u64, len: u64) -> Result<PythonMember> {
    PythonMember::new(name, at, len).ok_or_else(|| Error::defect("the name of a member is too long"))
}

/// Where a tensor is that no layer has: a name that begins with a slash, as those of PyTorch's exporter do, is a path from the root.
fn path_of(name: &str) -> &str {
    name.trim_start_matches('/')
}

/// A tensor that is stored.
struct Dataset {
    id: TensorId,
    path: String,
    encoding: Encoding,
    added: Vec<Added>,
}

/// An HDF5 file that is put together.
struct Hdf5<'a> {
    checkpoint: &'a Checkpoint,
    draft: Draft,
    datasets: Vec<Dataset>,
}

impl<'a> Hdf5<'a> {
    fn new(checkpoint: &'a Checkpoint) -> Self {
        Hdf5 { checkpoint, draft: Draft::default(), datasets: Vec::new() }
    }

    /// Adds all tensors by their paths: variables of the model by those of the configuration, others by their names.
    fn by_path(&mut self, config: Option<&Config<'_>>) -> Result<()> {
        // Layers that share a tensor each have it.
        let mut all: Vec<Vec<&Bound>> = vec![Vec::new(); self.checkpoint.tensors.len()];
        for own in config.into_iter().flat_map(|config| &config.variables) {
            if let Some(places) = own.id.and_then(|id| all.get_mut(id.0)) {
                places.push(own);
            }
        }
        if config.is_some() {
            // Without it, tf_keras does not load the file.
            self.draft.group("vars")?;
        }
        let added = added(config);
        for (id, (tensor, bound)) in self.checkpoint.tensors.iter().zip(all).enumerate() {
            if bound.is_empty() && !added.contains(&TensorId(id)) {
                self.tensor(TensorId(id), path_of(&tensor.name), None, true)?;
            }
            for own in bound {
                self.variable(TensorId(id), &own.variable.path, own, true)?;
            }
        }
        Ok(())
    }

    /// Adds the configuration, and what else `.h5` files state.
    fn config(&mut self, config: &Config<'_>) -> Result<()> {
        let text = |text: &str| AttributeValue::Text(text.as_bytes().to_vec());
        self.draft.attribute("", MODEL_CONFIG, text(&config.text))?;
        let stated = |key: &str| self.checkpoint.metadata.text(ID, key);
        let values = [
            (TRAINING_CONFIG, stated(KEY_TRAINING)),
            (KEY_VERSION, config.version(self.checkpoint)),
            (KEY_BACKEND, stated(KEY_BACKEND)),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                self.draft.attribute("", name, text(value))?;
            }
        }
        Ok(())
    }

    /// Adds all tensors as an `.h5` file has them: those of each layer in its group, with a list of their names.
    fn by_layer(&mut self, config: &Config<'_>) -> Result<()> {
        self.config(config)?;
        // Without a version, Keras would convert the weights as those of Keras 1.
        let version = if config.is_old() { "2.15.0" } else { "3.0.0" };
        let version = config.version(self.checkpoint).unwrap_or(version);
        let backend = self.checkpoint.metadata.text(ID, KEY_BACKEND).unwrap_or("tensorflow");
        for (key, text) in [(KEY_VERSION, version), (KEY_BACKEND, backend)] {
            self.draft.attribute(MODEL_WEIGHTS, key, AttributeValue::Text(text.as_bytes().to_vec()))?;
        }
        let layers: Vec<&str> = config
            .model
            .layers
            .iter()
            .filter(|layer| !layer.is_operation())
            .map(|layer| layer.name.as_str())
            .collect();
        self.names(MODEL_WEIGHTS, LAYER_NAMES, layers.iter().map(|name| (*name).to_owned()).collect())?;
        let mut groups: BTreeMap<&str, Vec<&Bound>> =
            layers.iter().map(|layer| (*layer, Vec::new())).collect();
        for own in &config.variables {
            groups.entry(&own.variable.group).or_default().push(own);
        }
        let mut is_placed = vec![false; self.checkpoint.tensors.len()];
        for (group, mut variables) in groups {
            variables.sort_by_key(|own| own.variable.position);
            let path = format!("{MODEL_WEIGHTS}/{group}");
            let names = variables.iter().map(|own| config.weight_name(&own.variable)).collect();
            self.names(&path, WEIGHT_NAMES, names)?;
            for own in variables {
                let Some(id) = own.id else { continue };
                let path = format!("{path}/{}", config.weight_name(&own.variable));
                self.variable(id, &path, own, false)?;
                if let Some(placed) = is_placed.get_mut(id.0) {
                    *placed = true;
                }
            }
        }
        let added = added(Some(config));
        let is_other = |(id, is_placed): &(usize, &bool)| !**is_placed && !added.contains(&TensorId(*id));
        for (id, _) in is_placed.iter().enumerate().filter(is_other) {
            let Some(tensor) = self.checkpoint.tensors.get(id) else { continue };
            self.tensor(TensorId(id), path_of(&tensor.name), None, false)?;
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

    /// Adds a variable of the model.
    fn variable(&mut self, id: TensorId, path: &str, own: &Bound, names_dtypes: bool) -> Result<()> {
        let count = self.datasets.len();
        self.tensor(id, path, own.order.as_ref(), names_dtypes)?;
        if let Some(dataset) = self.datasets.get_mut(count) {
            dataset.added.clone_from(&own.added);
        }
        Ok(())
    }

    fn tensor(
        &mut self,
        id: TensorId,
        path: &str,
        order: Option<&Vec<usize>>,
        names_dtypes: bool,
    ) -> Result<()> {
        let Some(tensor) = self.checkpoint.tensors.get(id.0) else { return Ok(()) };
        let Some(dtype) = holder(tensor.dtype, names_dtypes) else { return Ok(()) };
        let encoding = Encoding::row_major(tensor).with_dtype(dtype);
        let (shape, encoding) = match order {
            Some(order) => (tensor.shape.permuted(order), encoding.with_order(order.clone())),
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
        self.datasets.push(Dataset { id, path: path.to_owned(), encoding, added: Vec::new() });
        Ok(())
    }

    /// Returns the placements of the tensors in a file in which the HDF5 file begins at `start`.
    fn placements(&self, plan: &Plan, start: u64) -> Result<Vec<Placement>> {
        let pairs = self.datasets.iter().zip(&plan.datasets);
        let placement = |(own, offset): (&Dataset, &u64)| {
            let elements = self.checkpoint.tensors.get(own.id.0).map_or(0, |tensor| tensor.shape.elements());
            let len = own.encoding.stored_len(elements).ok_or_else(too_large)?;
            let offset = start.checked_add(*offset).ok_or_else(too_large)?;
            let extent = Extent::new(FileId(0), offset, len);
            let placement = Placement::new(own.id, own.path.as_str(), vec![extent], own.encoding.clone());
            Ok(placement.with_added(own.added.clone()))
        };
        pairs.map(placement).collect()
    }

    /// The index of weights of which all are in one file.
    fn index(&self, file: &str) -> Result<Vec<u8>> {
        let mut groups = serde_json::Map::new();
        let mut total = 0u64;
        for Dataset { id, path, encoding, .. } in &self.datasets {
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

/// The tensors that are added to others, and not stored by themselves.
fn added(config: Option<&Config<'_>>) -> HashSet<TensorId> {
    let variables = config.into_iter().flat_map(|config| &config.variables);
    variables.flat_map(|own| &own.added).map(|added| added.tensor).collect()
}

/// Returns the dtype to store a dtype as: itself or one that holds every value exactly; `None` if there is none.
/// Keras loads bfloat16 from files only whose datasets name it.
fn holder(dtype: DType, names_dtypes: bool) -> Option<DType> {
    dtype.holder(|dtype| NATIVE.contains(&dtype) || (dtype == DType::Bf16 && names_dtypes))
}
