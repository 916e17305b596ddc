//! The layers of a model, and their blobs.

use super::blob::Blob;
use crate::format::{WIRE, axes, numbered};
use ckpt_api::{Contents, Error, File, Limit, Limits, Result, TensorId};
use ckpt_containers::protobuf::{Field, Wire};
use std::collections::HashMap;
use std::ops::Range;

/// Fields of the model: its layers, and those of 2014.
const LAYERS: u64 = 100;
const OLD_LAYERS: u64 = 2;
/// The field of a layer with the options of an inner product, and the one of these that states a transposed weight.
const INNER_PRODUCT: u64 = 117;
const TRANSPOSE: u64 = 6;

/// The layers that have blobs, in the order of the file.
pub(crate) struct Model {
    layers: Vec<Layer>,
    by_name: HashMap<String, usize>,
}

/// A layer of a model.
#[derive(Default)]
pub(crate) struct Layer {
    name: String,
    /// Its kind, by its name of today.
    kind: String,
    pub(crate) blobs: Vec<Blob>,
    is_transposed: bool,
}

/// What blobs that were read take in memory: how many they are, and the bytes of their names.
#[derive(Default)]
struct Held {
    blobs: u64,
    names: u64,
}

impl Model {
    pub(crate) fn read(file: &File, limits: &Limits) -> Result<Model> {
        let mut model = Model { layers: Vec::new(), by_name: HashMap::new() };
        let mut wire = Wire::new(file, limits, &WIRE);
        let (mut count, mut held) = (0u64, Held::default());
        while let Some(field) = wire.field(file.len())? {
            if matches!(field.number, LAYERS | OLD_LAYERS) {
                count = count.saturating_add(1);
                limits.check(Limit::GraphNodes, count)?;
                let is_old = field.number == OLD_LAYERS;
                let layer = Layer::read(file, limits, wire.range(&field)?, is_old, &mut held)?;
                model.add(layer).map_err(|error| error.offset(field.span.start))?;
            }
            wire.skip(&field)?;
        }
        if count == 0 {
            return Err(Error::corrupt("the file has no layers of Caffe")
                .offset(0)
                .found(ckpt_api::count(file.len(), "byte"))
                .expected("a message with the field 100, or 2"));
        }
        Ok(model)
    }

    fn add(&mut self, layer: Layer) -> Result<()> {
        if layer.blobs.is_empty() {
            return Ok(());
        }
        if self.by_name.insert(layer.name.clone(), self.layers.len()).is_some() {
            return Err(Error::corrupt("two layers with blobs have the same name")
                .tensor(format!("{}/0", layer.name))
                .found(format!("'{}' again", layer.name.escape_debug()))
                .expected("another name"));
        }
        self.layers.push(layer);
        Ok(())
    }

    /// The layer of this name, if it has blobs.
    pub(crate) fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.get(*self.by_name.get(name)?)
    }

    /// Describes the blobs.
    pub(crate) fn describe(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        for layer in &self.layers {
            for (number, blob) in layer.blobs.iter().enumerate() {
                let id = TensorId(contents.placements.len());
                let (tensor, placement) = blob.described(id, format!("{}/{number}", layer.name));
                let axes = axes(&layer.kind, number, layer.is_transposed, &blob.shape);
                contents.placements.push(placement);
                contents.checkpoint.tensors.push(match axes {
                    Some(axes) => tensor.with_axes(axes),
                    None => tensor,
                });
            }
        }
        Ok(contents)
    }

    /// The bytes of the numbers of all blobs, in their order in the file; `None` if some are not one after the other.
    pub(crate) fn data(&self) -> Option<Vec<Range<u64>>> {
        self.layers.iter().flat_map(|layer| &layer.blobs).map(Blob::range).collect()
    }

    /// The bytes of the numbers that the means and variances of batch normalizations are divided by.
    pub(crate) fn factors(&self) -> impl Iterator<Item = Range<u64>> {
        let layers = self.layers.iter().filter(|layer| layer.kind == "BatchNorm");
        let factors = layers.filter_map(|layer| layer.blobs.get(2)).filter(|blob| blob.shape.elements() == 1);
        factors.filter_map(Blob::range)
    }
}

impl Layer {
    fn read(file: &File, limits: &Limits, range: Range<u64>, is_old: bool, held: &mut Held) -> Result<Layer> {
        let end = range.end;
        let mut wire = Wire::within(file, limits, &WIRE, range)?;
        let mut layer = Layer::default();
        let mut ranges = Vec::new();
        while let Some(field) = wire.field(end)? {
            match (is_old, field.number) {
                (false, 1) | (true, 4) => layer.name = wire.text(&field)?,
                (false, 2) => layer.kind = wire.text(&field)?,
                (true, 5) => layer.kind = numbered(wire.int(&field)?),
                (false, 7) | (true, 6) => {
                    held.blobs = held.blobs.saturating_add(1);
                    limits.check(Limit::Tensors, held.blobs)?;
                    ranges.push(wire.range(&field)?);
                }
                (true, 1) => {
                    return Err(Error::unsupported("the model has layers of 2013")
                        .offset(field.span.start)
                        .found("a layer within a layer")
                        .expected("layers of 2014 or later")
                        .help("convert it with Caffe's upgrade_net_proto_binary"));
                }
                (false, INNER_PRODUCT) => layer.is_transposed = is_transposed(&mut wire, &field)?,
                _ => {}
            }
            wire.skip(&field)?;
        }
        // The name of each blob begins with that of its layer.
        let names = (layer.name.len() as u64).saturating_mul(ranges.len() as u64);
        held.names = held.names.saturating_add(names);
        limits.check(Limit::HeaderBytes, held.names)?;
        for (number, range) in ranges.into_iter().enumerate() {
            let named = |error: Error| error.tensor(format!("{}/{number}", layer.name));
            layer.blobs.push(Blob::read(file, limits, range).map_err(named)?);
        }
        Ok(layer)
    }
}

fn is_transposed(wire: &mut Wire<'_>, field: &Field) -> Result<bool> {
    let range = wire.range(field)?;
    let mut is_transposed = false;
    while let Some(own) = wire.field(range.end)? {
        if own.number == TRANSPOSE {
            is_transposed = wire.int(&own)? != 0;
        }
        wire.skip(&own)?;
    }
    Ok(is_transposed)
}

/// The kind of the first layer, if the file begins as a model does: with fields of a model, and a layer that has a name and a
/// kind.
pub(crate) fn first_kind(file: &File, limits: &Limits) -> Result<Option<String>> {
    let mut wire = Wire::new(file, limits, &WIRE);
    while let Some(field) = wire.field(file.len())? {
        match field.number {
            1 | 3 if word(&mut wire, &field)?.is_some() => {}
            4..=8 => {}
            LAYERS | OLD_LAYERS => {
                let is_old = field.number == OLD_LAYERS;
                let range = wire.range(&field)?;
                let (mut name, mut kind) = (None, None);
                while let Some(own) = wire.field(range.end)? {
                    match (is_old, own.number) {
                        (false, 1) | (true, 4) => name = word(&mut wire, &own)?,
                        (false, 2) => kind = word(&mut wire, &own)?,
                        (true, 5) => kind = Some(numbered(wire.int(&own)?)),
                        _ => {}
                    }
                    wire.skip(&own)?;
                }
                return Ok(name.and(kind));
            }
            _ => return Ok(None),
        }
        wire.skip(&field)?;
    }
    Ok(None)
}

/// A name: some text without control characters.
fn word(wire: &mut Wire<'_>, field: &Field) -> Result<Option<String>> {
    let text = wire.text(field)?;
    Ok(Some(text).filter(|text| !text.is_empty() && !text.chars().any(char::is_control)))
}
