//! What is in a checkpoint, for people and programs.

pub mod html;
mod values;

use crate::registry::Evidence;
use crate::resources::{default_threads, in_parallel};
use crate::source::Source;
use ckpt_api::{Axis, DType, Graph, Metadata, Repair, Result, Role, Shape, TensorId};
use serde::Serialize;
pub use values::{Histogram, Stats};

/// Everything that can be said without the values, and statistics of them where asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// What was opened.
    pub path: String,
    /// Format id.
    pub format: &'static str,
    /// Format title.
    pub title: &'static str,
    /// Why this format.
    pub reason: String,
    /// What every codec said.
    pub evidence: Vec<Evidence>,
    /// The files that hold the tensors.
    pub files: Vec<FileSummary>,
    /// The tensors, in the format's order.
    pub tensors: Vec<TensorSummary>,
    /// What the model computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
    /// Everything else.
    pub metadata: Metadata,
    /// What a lenient reading mended.
    pub repairs: Vec<Repair>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct FileSummary {
    /// Name, relative to the input's directory.
    pub name: String,
    /// Bytes; `None` where it is missing.
    pub bytes: Option<u64>,
    /// How many tensors have bytes in it.
    pub tensors: usize,
}

/// One tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorSummary {
    /// Name.
    pub name: String,
    /// The name under which the file stores it, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Stored dtype.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
    /// What the axes mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axes: Option<Vec<Axis>>,
    /// What it is for.
    pub role: Role,
    /// Bytes as stored.
    pub bytes: u64,
    /// Stored pieces.
    pub extents: usize,
    /// Statistics of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Box<Stats>>,
    /// How the values are distributed, where there are statistics; for pages alone.
    #[serde(skip)]
    pub histogram: Option<Box<Histogram>>,
}

/// Describes `source`; with `stats` its values are read, in bounded memory, and their checksums verified.
///
/// # Errors
/// Only with `stats`: whatever keeps a tensor from being read.
///
/// ```
/// # fn main() -> Result<(), ckpt::Error> {
/// let source = ckpt::Source::open(&ckpt::Registry::builtin(), "examples/data/digits", &Default::default())?;
/// let inspection = ckpt::inspect::inspect(&source, true)?;
/// assert_eq!(inspection.format, "tf2");
/// # Ok(())
/// # }
/// ```
pub fn inspect(source: &Source, stats: bool) -> Result<Inspection> {
    let tensors = if stats {
        let ids: Vec<TensorId> = ids(source).collect();
        let values = in_parallel(&ids, default_threads(), |id| values::read(source, id))?;
        ids.iter().zip(values).map(|(id, values)| summary(source, *id, values)).collect()
    } else {
        summaries(source).collect()
    };
    Ok(Inspection { tensors, ..overview(source) })
}

/// All but the tensors, which [`summaries`] gives.
pub(crate) fn overview(source: &Source) -> Inspection {
    let contents = source.contents();
    Inspection {
        path: source.input().display(source.input().entry()),
        format: source.format(),
        title: source.codec.info().title,
        reason: source.reason().to_owned(),
        evidence: source.evidence().to_vec(),
        files: files(source),
        tensors: Vec::new(),
        graph: contents.checkpoint.graph.clone(),
        metadata: contents.checkpoint.metadata.clone(),
        repairs: contents.repairs.clone(),
        notes: contents.notes.clone(),
    }
}

/// The tensors, one by one, without statistics.
pub(crate) fn summaries(source: &Source) -> impl Iterator<Item = TensorSummary> {
    ids(source).map(|id| summary(source, id, None))
}

fn ids(source: &Source) -> impl Iterator<Item = TensorId> + use<> {
    (0..source.contents().placements.len()).map(TensorId)
}

fn summary(source: &Source, id: TensorId, values: Option<(Stats, Option<Histogram>)>) -> TensorSummary {
    let tensor = &source.contents().checkpoint.tensors[id.0];
    let placement = &source.contents().placements[id.0];
    let (stats, histogram) = values.unzip();
    TensorSummary {
        name: tensor.name.clone(),
        key: (placement.name != tensor.name).then(|| placement.name.clone()),
        dtype: placement.encoding.dtype,
        shape: tensor.shape.clone(),
        axes: tensor.axes.clone(),
        role: tensor.role,
        bytes: placement.extents.iter().map(|extent| extent.len).sum(),
        extents: placement.extents.len(),
        stats: stats.map(Box::new),
        histogram: histogram.flatten().map(Box::new),
    }
}

fn files(source: &Source) -> Vec<FileSummary> {
    let contents = source.contents();
    let (mut used, mut last) = (vec![0; contents.files.len()], vec![None; contents.files.len()]);
    for placement in &contents.placements {
        for extent in &placement.extents {
            let before = last[extent.file.0].replace(placement.tensor);
            used[extent.file.0] += usize::from(before != Some(placement.tensor));
        }
    }
    let names = contents.files.iter().zip(used);
    names
        .map(|(name, tensors)| FileSummary {
            name: name.clone(),
            bytes: source.input().file(name).ok().map(|file| file.len()),
            tensors,
        })
        .collect()
}
