//! The cases of the corpus, of which many are several files, in the forms that targets take.

use super::repository::{Result, Seeds, bytes, push, root};
use crate::table;
use ckpt_api::{Codec, Graph, Input, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Tensors beyond this do not become seeds: the time goes into graphs.
const VALUE_BYTES: u64 = 1 << 16;

#[derive(Deserialize)]
struct Manifest {
    case: Vec<Case>,
}

/// A case as `corpus/manifest.toml` lists it.
#[derive(Deserialize)]
struct Case {
    codec: String,
    outcome: String,
    path: String,
    /// In a folder, what the user names; empty for all of it.
    entry: Option<String>,
    #[serde(default)]
    options: Vec<String>,
    /// Of every file.
    sha256: BTreeMap<String, String>,
}

/// What `forward` and `graph_write` take.
#[derive(Serialize)]
struct Described<'a> {
    graph: &'a Option<Graph>,
    tensors: &'a [Tensor],
}

/// Adds the seeds of every case.
pub(super) fn add(seeds: &mut Seeds) -> Result<()> {
    let manifest = bytes(&root().join("corpus/manifest.toml"))?;
    for case in toml::from_slice::<Manifest>(&manifest)?.case {
        let (files, entry) = case.files()?;
        let name = case.path.split('/').skip(1).collect::<Vec<_>>().join("-");
        match case.codec.as_str() {
            "bullet" => push(seeds, "bullet_files", &name, case.joined(entry, &files)),
            "orbax" => {
                push(seeds, "orbax_files", &name, case.joined(entry, &files));
                parts(seeds, &name, &files);
            }
            "safetensors" => push(seeds, "safetensors_files", &name, case.joined(entry, &headless(&files))),
            "darknet" => push(seeds, "darknet_files", &name, case.joined(entry, &files)),
            "caffe" => push(seeds, "caffe_files", &name, case.joined(entry, &files)),
            "coreml" => push(seeds, "coreml_files", &name, case.joined(entry, &files)),
            "tfjs" => push(seeds, "tfjs_files", &name, case.joined(entry, &files)),
            // An index beside them is for reading alone.
            "torch" if case.entry.is_some() && !files.contains_key("pytorch_model.bin.index.json") => {
                push(seeds, "torch_directories", &name, case.joined(entry, &files));
            }
            "tf1" => {
                files.get(entry).into_iter().for_each(|data| push(seeds, "tf1_read", &name, data.clone()));
            }
            "tf2" => {
                seeds
                    .entry("tf2_files")
                    .or_default()
                    .extend(Some(name.clone()).zip(case.named(entry, &files)));
                bundle(seeds, &name, &files);
            }
            _ => {}
        }
        if case.outcome == "accept" {
            described(seeds, &case, &name, &Input::memory(entry, files.clone()))?;
        }
    }
    Ok(())
}

impl Case {
    /// The files by name, and what the user names.
    fn files(&self) -> Result<(BTreeMap<String, Vec<u8>>, &str)> {
        let path = root().join("corpus").join(&self.path);
        match &self.entry {
            Some(entry) => {
                let read = |name: &String| Ok((name.clone(), bytes(&path.join(name))?));
                Ok((self.sha256.keys().map(read).collect::<Result<_>>()?, entry))
            }
            None => {
                let name =
                    Path::new(&self.path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
                Ok((BTreeMap::from([(name.to_owned(), bytes(&path)?)]), name))
            }
        }
    }

    /// As `files::Case` takes it.
    fn joined(&self, entry: &str, files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
        let mut joined = format!("{}\n{entry}", self.options.join(" ")).into_bytes();
        for (name, data) in files {
            joined.extend([format!("\n=== {name}\n").as_bytes(), data].concat());
        }
        joined
    }

    /// As `inputs::files` takes it, after a byte of options; `None` if a file is too long for that.
    fn named(&self, entry: &str, files: &BTreeMap<String, Vec<u8>>) -> Option<Vec<u8>> {
        let name = |name: &str| Some([&[u8::try_from(name.len()).ok()?][..], name.as_bytes()].concat());
        let has = |option: &str| self.options.iter().any(|set| set == option);
        let mut named = vec![u8::from(has("keys=true")) | u8::from(has("lenient=true")) << 1];
        named.extend(name(entry)?);
        for (path, data) in files {
            named.extend([name(path)?, u16::try_from(data.len()).ok()?.to_le_bytes().to_vec()].concat());
            named.extend(data);
        }
        Some(named)
    }
}

/// Without the length of its header, each file that has one.
fn headless(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let cut = |(name, data): (&String, &Vec<u8>)| {
        let first = if name.ends_with("json") { 0 } else { 8 };
        (name.clone(), data.get(first..).unwrap_or_default().to_vec())
    };
    files.iter().map(cut).collect()
}

/// Index and data of a checkpoint of TensorFlow's in one; the index after a zero; and its entries alone.
fn bundle(seeds: &mut Seeds, name: &str, files: &BTreeMap<String, Vec<u8>>) {
    let Some(index) = files.get("m.index") else { return };
    let data: Vec<_> =
        files.iter().filter(|(name, _)| name.starts_with("m.data-")).map(|(_, data)| &data[..]).collect();
    let data = data.concat();
    push(seeds, "tf2_read", name, [&(index.len() as u32).to_le_bytes()[..], index, &data].concat());
    push(seeds, "tf2_table", name, [&[0][..], index].concat());
    let mut entries = Vec::new();
    for (key, value) in table::read(index).unwrap_or_default() {
        let [len, value_len] = [&key, &value].map(|bytes| u8::try_from(bytes.len()).unwrap_or(u8::MAX));
        // A key's length of 255 ends the entries.
        if len == u8::MAX || value.len() > value_len.into() {
            return;
        }
        entries.extend([&[len, value_len][..], &key, &value].concat());
    }
    if !entries.is_empty() {
        push(seeds, "tf2_entries", name, [&entries[..], &[u8::MAX, 0], &data].concat());
    }
}

/// The manifest, the nodes and the arrays of a checkpoint of Orbax, each by itself.
fn parts(seeds: &mut Seeds, name: &str, files: &BTreeMap<String, Vec<u8>>) {
    /// Bytes before and after what a target puts a length and a checksum around.
    const AROUND: (usize, usize) = (12, 4);
    let inner = |object: &[u8]| {
        let end = object.len().saturating_sub(AROUND.1);
        object.get(AROUND.0..end).unwrap_or_default().to_vec()
    };
    for (number, (path, data)) in files.iter().enumerate() {
        if path.ends_with("manifest.ocdbt") {
            push(seeds, "orbax_manifest", &format!("{name}-{number}"), data.clone());
            push(seeds, "orbax_manifest", &format!("{name}-{number}-inner"), inner(data));
        }
        let magic = [0x0c, 0xdb, 0x20, 0xde];
        if let Some(at) = data.windows(4).rposition(|window| window == magic) {
            let node = &data[at..];
            let height = u8::from(name.contains("levels"));
            push(seeds, "orbax_node", &format!("{name}-{number}"), [&[height][..], node].concat());
            push(
                seeds,
                "orbax_node",
                &format!("{name}-{number}-inner"),
                [&[height][..], &inner(node)].concat(),
            );
        }
        if path.ends_with(".zarray") || path.ends_with("zarr.json") {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let is_chunk = |other: &&String| other.starts_with(folder) && *other != path;
            let chunk = files.keys().find(is_chunk).and_then(|chunk| files.get(chunk));
            let seed = [&data[..], &[0], chunk.map_or(&[][..], Vec::as_slice)].concat();
            push(seeds, "orbax_zarr", &format!("{name}-{number}"), seed);
        }
    }
}

/// The graph of a file and the shapes of its tensors.
fn described(seeds: &mut Seeds, case: &Case, name: &str, input: &Input) -> Result<()> {
    let codecs: [&dyn Codec; 22] = [
        &ckpt_bullet::Bullet,
        &ckpt_caffe::Caffe,
        &ckpt_cnn2::Cnn2,
        &ckpt_coreml::CoreMl,
        &ckpt_darknet::Darknet,
        &ckpt_orbax::Flax,
        &ckpt_gguf::Gguf,
        &ckpt_keras::Keras,
        &ckpt_mxnet::Mxnet,
        &ckpt_nn::Nn,
        &ckpt_nnue::Nnue,
        &ckpt_npz::Npz,
        &ckpt_onnx::Onnx,
        &ckpt_orbax::Orbax,
        &ckpt_paddle::Paddle,
        &ckpt_safetensors::Safetensors,
        &ckpt_tf2::Tf1,
        &ckpt_tf2::Tf2,
        &ckpt_tfjs::Tfjs,
        &ckpt_tflite::Tflite,
        &ckpt_torch::Torch,
        &ckpt_torch7::Torch7,
    ];
    let codec = codecs.iter().find(|codec| codec.info().id == case.codec);
    let codec = codec.ok_or_else(|| format!("no codec '{}'", case.codec))?;
    let options = case.options.iter().filter_map(|option| option.split_once('='));
    let options: Vec<_> = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (contents, _) =
        ckpt_conformance::read(*codec, input, &options).map_err(|error| format!("{}: {error}", case.path))?;
    let (graph, tensors) = (&contents.checkpoint.graph, &contents.checkpoint.tensors);
    if tensors.iter().map(Tensor::value_bytes).fold(0, u64::saturating_add) > VALUE_BYTES {
        return Ok(());
    }
    let (name, seed) = (format!("{}-{name}", case.codec), serde_json::to_vec(&Described { graph, tensors })?);
    if graph.is_some() {
        push(seeds, "forward", &name, seed.clone());
    }
    push(seeds, "graph_write", &name, seed);
    Ok(())
}
