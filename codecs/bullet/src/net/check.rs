//! Checks of an architecture file that need nothing beyond the file.

use super::description::{Activation, InputBuckets, Layer, Net};
use super::entry::Item;
use ckpt_api::{Error, Result};

/// The longest list that an architecture file may have.
const MAX_ITEMS: usize = 256;

/// Checks that sizes are positive and below 2^32, that lists are short, and that no layer contradicts itself.
pub(super) fn check(net: &Net) -> Result<()> {
    check_lists(net)?;
    check_size("input.features", net.input.features)?;
    if !(1..=2).contains(&net.input.perspectives) {
        return Err(Error::usage("the number of perspectives is invalid")
            .field("input.perspectives")
            .found(net.input.perspectives.to_string())
            .expected("1 or 2"));
    }
    if let Some(buckets) = &net.output_buckets {
        check_size("output_buckets.count", buckets.count)?;
    }
    if let Some(buckets) = &net.input.buckets {
        check_size("input.buckets.count", buckets.count)?;
        check_bucket_layout(buckets).map_err(|error| error.field("input.buckets.layout"))?;
    }
    let members = net.engine.iter().flat_map(|engine| &engine.members).filter_map(Item::weight);
    if let Some(entry) = members.into_iter().find(|entry| !entry.is_raw) {
        return Err(Error::usage("an engine file has nothing to do with raw.bin")
            .field("engine.members")
            .found(format!("raw = false for '{}'", entry.id))
            .help("leave 'raw' out; it is for entries of 'saved'"));
    }
    for (index, extra) in net.tensors.iter().enumerate() {
        check_size(&format!("tensors[{index}].rows"), extra.rows)?;
        check_size(&format!("tensors[{index}].columns"), extra.columns)?;
    }
    for (index, layer) in net.layers.iter().enumerate() {
        check_size(&format!("layers[{index}].size"), layer.size)?;
        check_layer(layer, net.output_buckets.is_some())
            .map_err(|error| error.field(format!("layers[{index}]")))?;
    }
    Ok(())
}

fn check_lists(net: &Net) -> Result<()> {
    if net.layers.is_empty() {
        return Err(Error::usage("the architecture has no layers").field("layers"));
    }
    let members = net.engine.as_ref().map_or(0, |engine| engine.members.len());
    let lists = [
        ("layers", net.layers.len()),
        ("tensors", net.tensors.len()),
        ("saved", net.saved.len()),
        ("engine.members", members),
    ];
    match lists.into_iter().find(|(_, len)| *len > MAX_ITEMS) {
        Some((field, len)) => Err(Error::usage("a list of the architecture is too long")
            .field(field)
            .found(ckpt_api::count(len, "item"))
            .expected(format!("at most {MAX_ITEMS}"))),
        None => Ok(()),
    }
}

fn check_size(field: &str, size: u64) -> Result<()> {
    match u32::try_from(size) {
        Ok(1..) => Ok(()),
        _ => Err(Error::usage("a size is out of range")
            .field(field)
            .found(size.to_string())
            .expected("a positive number below 2^32")),
    }
}

fn check_layer(layer: &Layer, has_output_buckets: bool) -> Result<()> {
    if layer.dual && (layer.pairwise || layer.activation != Activation::Crelu) {
        return Err(Error::usage("a dual layer must use crelu and must not be pairwise")
            .expected("activation crelu, without pairwise"));
    }
    if layer.pairwise && !layer.size.is_multiple_of(2) {
        return Err(Error::usage("a pairwise layer must have an even size").found(layer.size.to_string()));
    }
    if layer.bucketed == Some(true) && !has_output_buckets {
        return Err(
            Error::usage("a layer is bucketed, but the net has no output buckets").help("add output_buckets")
        );
    }
    Ok(())
}

fn check_bucket_layout(buckets: &InputBuckets) -> Result<()> {
    let squares = if buckets.mirrored { 32 } else { 64 };
    if !buckets.layout.is_empty() && buckets.layout.len() != squares {
        return Err(Error::usage("the layout must have one bucket for every square")
            .found(buckets.layout.len().to_string())
            .expected(format!("{squares}: 32 if mirrored, 64 if not")));
    }
    match buckets.layout.iter().find(|bucket| **bucket >= buckets.count) {
        Some(bucket) => Err(Error::usage("the layout names a bucket that does not exist")
            .found(bucket.to_string())
            .expected(format!("numbers below {}", buckets.count))),
        None => Ok(()),
    }
}
