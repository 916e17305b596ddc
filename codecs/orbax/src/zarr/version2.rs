//! `.zarray`.

use super::array::{Array, ChunkKeys, check_version, is_zero, lengths, missing, shape};
use super::chain::{ByteCodec, Chain, Step, row_major};
use crate::format::dtype::of_zarr2;
use crate::format::json::Json;
use ckpt_api::{Error, Result};

pub(super) fn parse(json: &Json) -> Result<Array> {
    check_version(json, 2)?;
    let shape = shape(json, "shape")?;
    let stored = match json.get("dtype").ok_or_else(|| missing("dtype"))? {
        Json::Text(text) => of_zarr2(text)?,
        other => {
            return Err(Error::unsupported("the elements of the array have fields of their own")
                .field("dtype")
                .found(other.shown()));
        }
    };
    if let Some(filters) = json.get("filters").filter(|filters| !filters.is_nothing()) {
        let first = filters.list().and_then(|filters| filters.first()).unwrap_or(filters);
        return Err(Error::unsupported("the array has filters")
            .field("filters")
            .found(first.shown())
            .expected("null"));
    }
    let separator = match json.get("dimension_separator") {
        None | Some(Json::Null) => '.',
        Some(Json::Text(text)) if text == "." => '.',
        Some(Json::Text(text)) if text == "/" => '/',
        Some(other) => {
            return Err(Error::corrupt("the separator is none of zarr's")
                .field("dimension_separator")
                .found(other.shown())
                .expected("'.' or '/'"));
        }
    };
    let rank = shape.rank();
    let order = match json.get("order").and_then(Json::text) {
        Some("C") => row_major(rank),
        Some("F") => row_major(rank).into_iter().rev().collect(),
        _ => {
            return Err(Error::corrupt("the order of elements is unknown").field("order").expected("C or F"));
        }
    };
    let codecs = match json.get("compressor") {
        None | Some(Json::Null) => Vec::new(),
        Some(compressor) => vec![codec(compressor)?],
    };
    Ok(Array {
        chunk: lengths(json, "chunks")?,
        shape,
        stored,
        keys: ChunkKeys { has_prefix: false, separator },
        chain: Chain { order, step: Step::Bytes { endian: stored.endian, codecs } },
        fills_with_zeros: is_zero(json.get("fill_value")),
    })
}

fn codec(compressor: &Json) -> Result<ByteCodec> {
    match compressor.get("id").and_then(Json::text) {
        Some("zstd") => Ok(ByteCodec::Zstd),
        Some("gzip") => Ok(ByteCodec::Gzip),
        Some("zlib") => Ok(ByteCodec::Zlib),
        Some("blosc") => Ok(ByteCodec::Blosc),
        other => Err(Error::unsupported("the compressor is unknown")
            .field("compressor")
            .found(other.unwrap_or("one without an id").to_owned())
            .expected("zstd, gzip, zlib or blosc")),
    }
}
