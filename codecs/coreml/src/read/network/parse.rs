//! Parses a network.

use super::layers::{Holds, fields};
use super::{Layer, Network, Quantization, Weights};
use crate::read::parser::Parser;
use ckpt_api::{Error, Limit, Result};
use ckpt_containers::protobuf::{Field, Value};
use std::ops::Range;

/// Integers of a field of a layer, at most: shapes and strides have few.
const MOST_INTEGERS: usize = 4096;
/// Numbers of a field that a layer has, of those that are no field of a kind.
const FIRST_KIND: u64 = 100;

/// Parses the network in this range.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a message that is none of the format; [`ckpt_api::Kind::Limit`].
pub(in crate::read) fn parse(parser: &mut Parser<'_>, range: &Range<u64>) -> Result<Network> {
    let mut network = Network::default();
    parser.enter(range)?;
    while let Some(field) = parser.next(range.end)? {
        if field.number == 1 {
            parser.count_node()?;
            network.layers.push(layer(parser, &field)?);
        }
        parser.skip(&field)?;
    }
    Ok(network)
}

fn layer(parser: &mut Parser<'_>, field: &Field) -> Result<Layer> {
    let end = parser.range(field)?.end;
    let mut layer = Layer::default();
    while let Some(field) = parser.next(end)? {
        match field.number {
            1 => layer.name = parser.text(&field)?,
            FIRST_KIND.. => {
                layer.kind = field.number;
                let range = parser.range(&field)?;
                parameters(parser, &range, &mut layer)?;
            }
            _ => {}
        }
        parser.skip(&field)?;
    }
    Ok(layer)
}

/// The fields of what a layer computes.
fn parameters(parser: &mut Parser<'_>, range: &Range<u64>, layer: &mut Layer) -> Result<()> {
    let known = fields(layer.kind);
    // Whether the weights of a direction were there.
    let mut is_second = false;
    while let Some(field) = parser.next(range.end)? {
        let holds = known.iter().find(|(number, _)| *number == field.number).map(|(_, holds)| *holds);
        match (holds, &field.value) {
            (Some(Holds::Weights(name)), _) => {
                let weights = weights(parser, &field, name.to_owned())?;
                add(parser, layer, weights)?;
            }
            (Some(Holds::Message(inner)), _) => {
                let end = parser.range(&field)?.end;
                while let Some(own) = parser.next(end)? {
                    let name = inner.iter().find_map(|(number, holds)| match holds {
                        Holds::Weights(name) if *number == own.number => Some(*name),
                        _ => None,
                    });
                    if let Some(name) = name {
                        let name = directed(layer, name, is_second);
                        let weights = weights(parser, &own, name)?;
                        add(parser, layer, weights)?;
                    }
                    parser.skip(&own)?;
                }
                is_second = true;
            }
            (None, Value::Varint(_)) => integers(parser, &field, layer)?,
            (None, Value::Bytes(range)) if is_list(layer.kind, field.number) => {
                // A varint has at most ten bytes.
                if range.end.saturating_sub(range.start) > MOST_INTEGERS as u64 * 10 {
                    return Err(too_many(&field, layer, "more"));
                }
                integers(parser, &field, layer)?;
            }
            _ => {}
        }
        if matches!(field.value, Value::Bytes(_)) {
            parser.count_node()?;
        }
        parser.skip(&field)?;
    }
    Ok(())
}

/// Whether a field is a list of integers, which are packed.
fn is_list(kind: u64, field: u64) -> bool {
    use super::layers::kind as of;
    match kind {
        of::CONVOLUTION => matches!(field, 20 | 30 | 40 | 100),
        120 => matches!(field, 10 | 20),
        of::SCALE => matches!(field, 1 | 4),
        of::BIAS | of::LOAD_CONSTANT | of::LOAD_CONSTANT_ND | of::LAYER_NORMALIZATION => field == 1,
        300 | 310 | 985 => field == 1,
        _ => false,
    }
}

fn integers(parser: &mut Parser<'_>, field: &Field, layer: &mut Layer) -> Result<()> {
    let all = layer.integers.entry(field.number).or_default();
    parser.integers(field, all)?;
    match all.len() {
        len if len > MOST_INTEGERS => Err(too_many(field, layer, &len.to_string())),
        _ => Ok(()),
    }
}

fn too_many(field: &Field, layer: &Layer, found: &str) -> Error {
    Error::corrupt("a field of a layer has too many numbers")
        .offset(field.span.start)
        .field(layer.name.clone())
        .found(found.to_owned())
        .expected(format!("at most {MOST_INTEGERS}"))
}

/// The name of weights of a recurrent layer: the second weights of a layer in both directions are those backward.
fn directed(layer: &Layer, name: &str, is_second: bool) -> String {
    match (layer.kind, is_second) {
        (super::layers::kind::BIDIRECTIONAL_LSTM, false) => format!("forward/{name}"),
        (super::layers::kind::BIDIRECTIONAL_LSTM, true) => format!("backward/{name}"),
        _ => name.to_owned(),
    }
}

/// Adds weights, under a name that the layer does not have yet.
fn add(parser: &mut Parser<'_>, layer: &mut Layer, mut weights: Weights) -> Result<()> {
    parser.count_node()?;
    if layer.kind == super::layers::kind::CUSTOM {
        weights.name = format!("{}/{}", weights.name, layer.weights.len());
    }
    layer.weights.push(weights);
    Ok(())
}

fn weights(parser: &mut Parser<'_>, field: &Field, name: String) -> Result<Weights> {
    let end = parser.range(field)?.end;
    let mut weights = Weights { name, at: field.span.start, ..Weights::default() };
    while let Some(field) = parser.next(end)? {
        match field.number {
            1 => floats(&field, &mut weights)?,
            2 => weights.halves = Some(parser.range(&field)?),
            30 => weights.raw = Some(parser.range(&field)?),
            31 => weights.signed = Some(parser.range(&field)?),
            40 => weights.quantization = Some(quantization(parser, &field)?),
            _ => {}
        }
        parser.skip(&field)?;
    }
    Ok(weights)
}

/// Adds floats, which are packed, or side by side.
fn floats(field: &Field, weights: &mut Weights) -> Result<()> {
    let (tag_bytes, own) = match &field.value {
        Value::Bytes(range) => (0, range.clone()),
        _ => (1, field.span.clone()),
    };
    match &mut weights.floats {
        None => weights.floats = Some((tag_bytes, own)),
        Some((1, range)) if tag_bytes == 1 && range.end == own.start => range.end = own.end,
        Some((_, range)) if range.is_empty() => weights.floats = Some((tag_bytes, own)),
        _ => {
            return Err(Error::unsupported("the weights of a layer are in several places")
                .offset(field.span.start)
                .field("floatValue")
                .found("a second list of numbers")
                .expected("one"));
        }
    }
    Ok(())
}

fn quantization(parser: &mut Parser<'_>, field: &Field) -> Result<Quantization> {
    let end = parser.range(field)?.end;
    let mut quantization = Quantization::default();
    while let Some(field) = parser.next(end)? {
        match field.number {
            1 => quantization.bits = parser.unsigned(&field)?,
            101 | 102 => {
                let is_table = field.number == 102;
                if is_table {
                    quantization.table = Some(Vec::new());
                }
                let range = parser.range(&field)?;
                parser.limits.check(Limit::HeaderBytes, range.end.saturating_sub(range.start))?;
                while let Some(own) = parser.next(range.end)? {
                    let list = match (&mut quantization.table, own.number) {
                        (Some(table), 1) if is_table => Some(table),
                        (_, 1) if !is_table => Some(&mut quantization.scales),
                        (_, 2) if !is_table => Some(&mut quantization.biases),
                        _ => None,
                    };
                    if let Some(list) = list {
                        parser.floats(&own, list)?;
                    }
                    parser.skip(&own)?;
                }
            }
            _ => {}
        }
        parser.skip(&field)?;
    }
    Ok(quantization)
}
