//! Describes the contents of a checkpoint, for people and programs.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod files;
mod groups;
mod histogram;
pub mod html;
mod preview;
mod stats;
mod values;

use ckpt_api::{
    Affine, Axis, DType, Encoding, Graph, Metadata, Name, Placement, Quantization, Repair, Result, Role,
    Shape, TensorId,
};
use ckpt_architectures::Signature;
use ckpt_engine::formats::Evidence;
use ckpt_engine::resources::default_threads;
use ckpt_engine::scaled;
use ckpt_engine::source::Source;
use ckpt_engine::transform::exact;
use ckpt_engine::words;
pub use files::FileSummary;
pub use groups::{Group, groups};
pub use histogram::Histogram;
pub use preview::Preview;
use serde::Serialize;
pub use stats::Stats;
use std::num::NonZeroU32;

/// The contents of a checkpoint, with statistics of the values if they were read.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// Path as the user gave it.
    pub path: String,
    /// Id of the format.
    pub format: &'static str,
    /// Title of the format.
    pub title: &'static str,
    /// Why the input is of this format.
    pub reason: String,
    /// The verdict of every codec.
    pub evidence: Vec<Evidence>,
    /// The files that hold the tensors.
    pub files: Vec<FileSummary>,
    /// The tensors, in the format's order.
    pub tensors: Vec<TensorSummary>,
    /// The tensors by the beginnings of their names, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Group>>,
    /// The graph of layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
    /// The metadata.
    pub metadata: Metadata,
    /// Repairs made by `lenient`.
    pub repairs: Vec<Repair>,
    /// Remarks of the codec, and on tensors whose bytes are missing.
    pub notes: Vec<String>,
}

/// A tensor.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TensorSummary {
    /// Name.
    pub name: Name,
    /// Its name in the file, if that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// Stored dtype.
    pub dtype: DType,
    /// The dtype of the values, where the format stores them as another one, exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_dtype: Option<DType>,
    /// The encoding of the blocks in which the numbers are stored, such as `gguf.Q4_K`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<String>,
    /// How a quantized weight is stored, such as `gptq int4 g128`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The stored integer that stands for 1.0, if the checkpoint states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<NonZeroU32>,
    /// Scales and zero points of the stored integers, if the checkpoint states them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Box<Affine>>,
    /// Shape.
    pub shape: Shape,
    /// Meaning of each axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axes: Option<Box<[Axis]>>,
    /// Role.
    pub role: Role,
    /// Stored bytes.
    pub bytes: u64,
    /// Number of extents.
    pub extents: usize,
    /// Statistics of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Box<Stats>>,
    /// Distribution of the values, if they were read; for pages only.
    #[serde(skip)]
    pub histogram: Option<Box<Histogram>>,
    /// Some of the values, if they were read; for pages only.
    #[serde(skip)]
    pub preview: Option<Box<Preview>>,
}

impl TensorSummary {
    /// The dtype for people: `f32`, `i16 at 255` with a scale, `qi8 (scale 0.5, zero point 3)`, `u4 as u8` where the values have another one than is
    /// stored, `f32 as Q4_K` in blocks, `f32 as gptq int4 g128` in several tensors.
    pub fn shown_dtype(&self) -> String {
        if let Some(scheme) = &self.scheme {
            return format!("{} as {scheme}", self.dtype);
        }
        if let Some(blocks) = &self.blocks {
            let (_, name) = blocks.split_once('.').unwrap_or(("", blocks));
            return format!("{} as {name}", self.dtype);
        }
        if let Some(affine) = &self.quantization {
            return words::quantized(self.dtype, None, Some(affine));
        }
        match (self.scale, self.logical_dtype) {
            (Some(_), _) => words::dtype(self.dtype, self.scale),
            (None, Some(logical)) => format!("{logical} as {}", self.dtype),
            (None, None) => self.dtype.name().to_owned(),
        }
    }
}

/// Describes `source`. With `stats`, reads all values in bounded memory and verifies their checksums.
///
/// A file that lacks bytes of its tensors is no error without `stats`: [`Inspection::notes`] has a note on it.
///
/// # Errors
/// Whatever keeps a tensor from being read; only with `stats`.
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
    let ids: Vec<TensorId> = ids(source).collect();
    let graph = source.checkpoint().graph.clone();
    Ok(Inspection { tensors: describe(source, &ids, stats)?, graph, ..overview(source) })
}

/// Describes these tensors, in this order. With `stats`, reads their values.
pub fn describe(source: &Source, ids: &[TensorId], stats: bool) -> Result<Vec<TensorSummary>> {
    if !stats {
        return Ok(summaries(source, ids).collect());
    }
    let values = values::read(source, ids, default_threads(), values::PART)?;
    Ok(ids.iter().zip(values).map(|(id, values)| summary(source, *id, values)).collect())
}

/// The note on a checkpoint without a graph whose tensors have the names of a built-in architecture.
fn architecture_note(source: &Source) -> Option<String> {
    let checkpoint = source.checkpoint();
    if checkpoint.graph.is_some() {
        return None;
    }
    let limits = &source.options().limits;
    let architecture = Signature::recognized(&checkpoint.tensors, |signature| {
        signature.configuration(source.input(), limits).ok().flatten()
    })?;
    Some(format!(
        "the tensors have the names of architecture {}, by which the model can run and its graph be shown",
        architecture.name()
    ))
}

/// Describes everything but the tensors, which [`summaries`] returns, and the graph, which can be large.
pub fn overview(source: &Source) -> Inspection {
    let contents = source.contents();
    let (files, missing) = files::files(source);
    Inspection {
        path: source.shown(),
        format: source.format(),
        title: source.info().title,
        reason: source.reason().to_owned(),
        evidence: source.evidence().to_vec(),
        files,
        tensors: Vec::new(),
        groups: None,
        graph: None,
        metadata: contents.checkpoint.metadata.clone(),
        repairs: contents.repairs.clone(),
        notes: contents
            .all_notes()
            .map(str::to_owned)
            .chain(words::notes_on_losses(&contents.losses))
            .chain(architecture_note(source))
            .chain(scaled_notes(source))
            .chain(missing)
            .collect(),
    }
}

/// Remarks on weights that several tensors describe together.
fn scaled_notes(source: &Source) -> Vec<String> {
    let notes = scaled::find(&source.checkpoint().tensors).notes();
    notes.iter().map(|note| note.in_words(&*source.options().vocabulary).into_owned()).collect()
}

/// Describes these tensors one by one, without statistics.
pub fn summaries(source: &Source, ids: &[TensorId]) -> impl Iterator<Item = TensorSummary> {
    ids.iter().map(|id| summary(source, *id, None))
}

/// Lists all tensors, in the checkpoint's order.
pub fn ids(source: &Source) -> impl Iterator<Item = TensorId> + use<> {
    (0..source.contents().placements.len()).map(TensorId)
}

fn summary(source: &Source, id: TensorId, values: Option<values::Values>) -> TensorSummary {
    let tensor = &source.contents().checkpoint.tensors[id.0];
    let placement = &source.contents().placements[id.0];
    TensorSummary {
        name: tensor.name.clone(),
        key: (placement.name != tensor.name).then(|| placement.name.clone()),
        dtype: placement.encoding.dtype,
        logical_dtype: exactly_stored(tensor.dtype, &placement.encoding),
        blocks: placement.encoding.blocks().map(|blocks| blocks.name().to_owned()),
        scheme: source.grouped().and_then(|grouped| grouped.scheme(&tensor.name)).map(str::to_owned),
        scale: placement.encoding.scaling().map(|scaling| scaling.scale).or_else(|| tensor.scale()),
        quantization: tensor.quantization.as_ref().and_then(Quantization::affine).cloned().map(Box::new),
        shape: tensor.shape.clone(),
        axes: tensor.axes.clone(),
        role: tensor.role,
        bytes: placement_bytes(placement),
        extents: placement.extents.len(),
        stats: values.as_ref().map(|(stats, _, _)| Box::new(*stats)),
        histogram: values.as_ref().and_then(|(_, histogram, _)| *histogram).map(Box::new),
        preview: values.map(|(_, _, preview)| Box::new(preview)),
    }
}

/// Returns the dtype of the values, if they are stored as another one that holds all of its values.
fn exactly_stored(dtype: DType, encoding: &Encoding) -> Option<DType> {
    let is_held = encoding.dtype != dtype && encoding.scaling().is_none() && exact(dtype, encoding.dtype);
    is_held.then_some(dtype)
}

/// Returns the bytes that a placement describes, before compression.
pub fn placement_bytes(placement: &Placement) -> u64 {
    let stored = placement.extents.iter().flat_map(|extent| match extent.computed() {
        Some(computed) => computed.stored(),
        None => vec![extent],
    });
    stored.fold(0, |sum, extent| extent.len.saturating_add(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Tensor;

    #[test]
    fn a_dtype_that_is_stored_as_a_wider_one_is_shown_as_both() {
        let stored = |dtype, encoding: DType| {
            let tensor = Tensor::new("t", dtype, Shape::scalar());
            exactly_stored(dtype, &Encoding::row_major(&tensor).with_dtype(encoding))
        };
        assert_eq!(stored(DType::U4, DType::U8), Some(DType::U4));
        assert_eq!(stored(DType::F4E2m1, DType::F8E4m3), Some(DType::F4E2m1));
        assert_eq!(stored(DType::U8, DType::U8), None);
        // The numbers of a narrowed weight are those of the stored dtype.
        assert_eq!(stored(DType::F32, DType::F16), None);
    }
}
