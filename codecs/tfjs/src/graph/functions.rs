//! The graph of a graph model.

use super::graph_def::{self, Constant};
use ckpt_api::{Contents, DType, Extent, File, Input, Limit, Limits, Placement, Result, Tensor};
use ckpt_tf_graph::catalog::{Catalog, TensorInfo};
use ckpt_tf_graph::chain::{Chain, Context};
use ckpt_tf_graph::dag;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Elements of a constant of whole numbers that the graph takes as numbers, at most, and of all of them.
const MOST_ELEMENTS: u64 = 1 << 16;
const MOST_IN_ALL: u64 = 1 << 20;

/// Adds the graph; why there is none, as a clause. `input` has the files; without it, as where an output is laid out, no constant
/// has a value.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] for a constant that cannot be read; [`ckpt_api::Kind::Limit`].
pub(super) fn describe(
    model: &Value,
    topology: &Value,
    contents: &mut Contents,
    input: Option<&Input>,
    limits: &Limits,
) -> Result<Result<(), String>> {
    let nodes = topology.get("node").and_then(Value::as_array).map_or(0, Vec::len);
    limits.check(Limit::GraphNodes, nodes as u64)?;
    let Some(input) = input else {
        return Ok(Err("the constants of the graph are not read again".to_owned()));
    };
    let values = values(contents, input)?;
    let names = contents.checkpoint.by_name();
    let constant = |name: &str| match values.get(name) {
        Some(bytes) => Some(Constant::Value(bytes)),
        None => names.contains_key(name).then_some(Constant::Weight),
    };
    let graph = match graph_def::graph(topology, constant) {
        Ok(graph) => graph,
        Err(reason) => return Ok(Err(reason)),
    };
    let signature = graph_def::signature(model, &graph);
    let tensors = &contents.checkpoint.tensors;
    let infos: Vec<TensorInfo<'_>> = tensors
        .iter()
        .map(|tensor| TensorInfo { key: &tensor.name, dtype: tensor.dtype, shape: &tensor.shape })
        .collect();
    let mut sorted = Vec::new();
    let catalog = Catalog::new(&infos, &mut sorted);
    let shown = BTreeMap::new();
    let context = Context { catalog: &catalog, names: &shown, file: &[] };
    let chain = dag::main_graph(&graph, &signature, &context, limits.get(Limit::GraphNodes));
    let Chain { graph, axes, notes, .. } = match chain {
        Ok(chain) => chain,
        Err(missing) => return Ok(Err(missing.reason.as_str().to_owned())),
    };
    if let Some(lacking) = graph.tensors().find(|name| !names.contains_key(name)) {
        return Ok(Err(format!("the manifest lacks the weight '{lacking}'")));
    }
    contents.graph_notes.extend(notes.into_iter().map(Into::into));
    for tensor in &mut contents.checkpoint.tensors {
        let named = axes.get(tensor.name.as_str()).filter(|axes| axes.len() == tensor.shape.rank());
        tensor.axes = named.map(|axes| axes.clone().into());
    }
    contents.checkpoint.graph = Some(graph);
    Ok(Ok(()))
}

/// The constants that the graph takes as numbers: whole ones and truth values, and single floats.
fn values(contents: &Contents, input: &Input) -> Result<HashMap<String, Vec<u8>>> {
    let (mut found, mut left) = (HashMap::new(), MOST_IN_ALL);
    let mut files: HashMap<usize, File> = HashMap::new();
    for (tensor, placement) in contents.checkpoint.tensors.iter().zip(&contents.placements) {
        let elements = tensor.shape.elements();
        let most = match tensor.dtype {
            DType::I32 | DType::Bool => MOST_ELEMENTS,
            DType::F32 => 1,
            _ => continue,
        };
        if elements > most || elements > left {
            continue;
        }
        left -= elements;
        if let Some(value) = value(tensor, placement, contents, input, &mut files)? {
            found.insert(tensor.name.to_string(), value);
        }
    }
    Ok(found)
}

/// The elements of a small tensor, little-endian; `None` if it is stored in another dtype.
fn value(
    tensor: &Tensor,
    placement: &Placement,
    contents: &Contents,
    input: &Input,
    files: &mut HashMap<usize, File>,
) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    for extent in &placement.extents {
        let file = match files.get(&extent.file.0) {
            Some(file) => file.clone(),
            None => {
                let name = contents.files.get(extent.file.0).map_or("", String::as_str);
                files.entry(extent.file.0).or_insert(input.file(name)?).clone()
            }
        };
        bytes.extend(read(extent, &file)?);
    }
    Ok((placement.encoding.dtype == tensor.dtype).then_some(bytes))
}

fn read(extent: &Extent, file: &File) -> Result<Vec<u8>> {
    extent.open(file)?.bytes(0, extent.len)
}
