//! Writing: the header, the layer table, and where the weights go.

mod attributes;
mod losses;
mod model;
mod settings;
mod walk;

use crate::format::{LAYER_BYTES, MAGIC, Version, WEIGHT_BYTES, weight_name};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, FileId, Literal, Options, OutputFile, OutputLayout,
    Placement, Result, Writer,
};
use model::{Layer, Model};
use settings::Settings;

/// Decides where every weight goes. See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let model = match &checkpoint.graph {
        Some(graph) => walk::model(checkpoint, graph)?,
        None => Model::from_names(checkpoint)?,
    };
    let mut losses = Vec::new();
    let settings = Settings::new(checkpoint, options, &mut losses);
    losses.extend(losses::losses(checkpoint, &model)?);
    let placed = lay_out(name, &model.layers, &settings)?;
    Ok(placed.with_losses(losses))
}

/// Lays out the header and the table in one block, then the weights of each layer.
fn lay_out(name: &str, layers: &[Layer<'_>], settings: &Settings) -> Result<OutputLayout> {
    let table = (layers.len() as u64).saturating_mul(LAYER_BYTES);
    let data = settings.version.header_bytes().saturating_add(table);
    let mut entries = Writer::new();
    let mut placements = Vec::new();
    let mut total = 0;
    for (index, layer) in layers.iter().enumerate() {
        let located = |error: Error| error.field(&layer.name).tensor(&layer.weight.name);
        let count = layer.shape.weights().ok_or_else(too_large).and_then(number).map_err(located)?;
        let [outputs, inputs, kernel, _] = layer.shape.dims();
        for size in [kernel, inputs, outputs] {
            entries.number(number(size).map_err(located)?);
        }
        entries.numbers(&[total, count]);
        let offset = data.saturating_add(u64::from(total) * WEIGHT_BYTES);
        placements.push(placement(index, layer, offset, u64::from(count) * WEIGHT_BYTES));
        total = total.checked_add(count).ok_or_else(too_large).map_err(located)?;
    }
    let mut header = Writer::new();
    header.bytes(&MAGIC).numbers(&[settings.version.number(), number(layers.len() as u64)?, total]);
    if settings.version == Version::Two {
        header.number(settings.mip);
    }
    header.bytes(&entries.into_bytes());
    let len = data.saturating_add(settings.pad.data_bytes(total));
    Ok(OutputLayout::default()
        .with_files(vec![OutputFile::new(name, len)])
        .with_literals(vec![Literal { file: FileId(0), offset: 0, bytes: header.into_bytes() }])
        .with_placements(placements))
}

fn placement(index: usize, layer: &Layer<'_>, offset: u64, len: u64) -> Placement {
    let extent = Extent::new(FileId(0), offset, len);
    let encoding = Encoding::new(DType::F16, layer.order.clone());
    let placement = Placement::new(layer.id, weight_name(index), vec![extent], encoding);
    placement.with_added(layer.added())
}

fn number(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| too_large().found(number.to_string()))
}

fn too_large() -> Error {
    Error::unsupported("the model is too large for a CNN2 file").expected("fewer than 2^32 weights")
}
