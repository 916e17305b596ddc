//! `zarr.json`.

use super::array::{Array, ChunkKeys, check_version, is_zero, lengths, missing, shape};
use super::chain::{
    ByteCodec, Chain, IndexPlace, Sharding, Step, check_order, composed, permuted, row_major,
};
use crate::format::dtype::{StoredType, by_name};
use crate::format::json::Json;
use ckpt_api::{Endian, Error, Result};

/// Chains of codecs within each other, at most.
const MOST_DEPTH: usize = 4;

/// Codecs of a chain, at most.
const MOST_CODECS: usize = 8;

/// The fields that have a meaning here, or none for reading.
const FIELDS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "dimension_names",
    "storage_transformers",
];

pub(super) fn parse(json: &Json) -> Result<Array> {
    check_version(json, 3)?;
    check_fields(json)?;
    match json.get("node_type").and_then(Json::text) {
        Some("array") => {}
        other => {
            return Err(Error::unsupported("a node of zarr is no array")
                .field("node_type")
                .found(other.unwrap_or("nothing").to_owned())
                .expected("array"));
        }
    }
    if json.get("storage_transformers").is_some_and(|steps| !steps.is_nothing()) {
        return Err(Error::unsupported("the array has storage transformers").field("storage_transformers"));
    }
    let shape = shape(json, "shape")?;
    let stored = match json.get("data_type").ok_or_else(|| missing("data_type"))? {
        Json::Text(name) => by_name(name)?,
        _ => {
            return Err(
                Error::unsupported("the type of the elements is none of zarr's own").field("data_type")
            );
        }
    };
    let (grid, grid_settings) = named(json.get("chunk_grid").ok_or_else(|| missing("chunk_grid"))?)?;
    if grid != "regular" {
        return Err(Error::unsupported("the chunks are no regular grid")
            .field("chunk_grid")
            .found(grid.to_owned()));
    }
    let chunk = lengths(grid_settings, "chunk_shape")?;
    let codecs = json.get("codecs").ok_or_else(|| missing("codecs"))?;
    let rank = shape.rank();
    if chunk.len() != rank {
        return Err(Error::corrupt("the shape of chunks does not fit the array")
            .field("chunk_grid")
            .found(format!("{chunk:?}"))
            .expected(format!("a length for each axis of {shape}")));
    }
    let (chain, endian) = chain(codecs, &chunk, stored, 1)?;
    Ok(Array {
        shape,
        stored: StoredType { endian, ..stored },
        chunk,
        keys: keys(json.get("chunk_key_encoding").ok_or_else(|| missing("chunk_key_encoding"))?)?,
        chain,
        fills_with_zeros: is_zero(json.get("fill_value")),
    })
}

/// Refuses fields that a reader has to understand, and this one does not.
fn check_fields(json: &Json) -> Result<()> {
    let is_optional = |value: &Json| value.get("must_understand").and_then(Json::bool) == Some(false);
    let unknown = json
        .entries()
        .unwrap_or_default()
        .iter()
        .find(|(name, value)| !FIELDS.contains(&name.as_str()) && !is_optional(value));
    match unknown {
        None => Ok(()),
        Some((name, _)) => Err(Error::unsupported("the metadata of the array has an unknown field")
            .field(name.escape_debug().to_string())),
    }
}

/// The name and the settings of an extension point: an object, or the name alone.
fn named(json: &Json) -> Result<(&str, &Json)> {
    const NOTHING: &Json = &Json::Null;
    if let Json::Text(name) = json {
        return Ok((name, NOTHING));
    }
    let name = json.get("name").and_then(Json::text).ok_or_else(|| missing("name"))?;
    Ok((name, json.get("configuration").unwrap_or(NOTHING)))
}

fn keys(json: &Json) -> Result<ChunkKeys> {
    let (name, settings) = named(json)?;
    let wrong = || Error::unsupported("chunks are named in an unknown way").field("chunk_key_encoding");
    let has_prefix = match name {
        "default" => true,
        "v2" => false,
        _ => return Err(wrong().found(name.to_owned()).expected("default or v2")),
    };
    let separator = match settings.get("separator") {
        None => None,
        Some(Json::Text(text)) if text == "/" => Some('/'),
        Some(Json::Text(text)) if text == "." => Some('.'),
        Some(_) => return Err(wrong().expected("the separator '.' or '/'")),
    };
    Ok(ChunkKeys { has_prefix, separator: separator.unwrap_or(if has_prefix { '/' } else { '.' }) })
}

/// Parses the codecs of a chunk of this shape; returns them, and the byte order of the elements.
fn chain(json: &Json, chunk: &[u64], stored: StoredType, depth: usize) -> Result<(Chain, Endian)> {
    let list = json.list().ok_or_else(|| Error::corrupt("the codecs are no list").field("codecs"))?;
    if depth > MOST_DEPTH || list.len() > MOST_CODECS {
        return Err(Error::limit("the array has too many codecs")
            .field("codecs")
            .expected(format!("chains of at most {MOST_CODECS}, {MOST_DEPTH} within each other")));
    }
    let mut order = row_major(chunk.len());
    let mut step: Option<(Step, Endian)> = None;
    for codec in list {
        let (name, settings) = named(codec).map_err(|error| error.field("codecs"))?;
        step = Some(match (name, step.take()) {
            ("transpose", None) => {
                let own = transposition(settings, chunk.len())?;
                order = composed(&order, &own);
                continue;
            }
            ("bytes", None) => {
                let endian = endian(settings, stored)?;
                (Step::Bytes { endian, codecs: Vec::new() }, endian)
            }
            ("sharding_indexed", None) => {
                let (sharding, endian) = sharding(settings, &permuted(chunk, &order), stored, depth)?;
                (Step::Sharding(Box::new(sharding)), endian)
            }
            (_, Some((Step::Bytes { endian, mut codecs }, _))) => {
                codecs.push(byte_codec(name)?);
                (Step::Bytes { endian, codecs }, endian)
            }
            (_, Some((Step::Sharding(_), _))) => {
                return Err(Error::unsupported("a codec follows the one of shards")
                    .field("codecs")
                    .found(name.to_owned()));
            }
            (_, None) => return Err(unknown(name)),
        });
    }
    let (step, endian) = step.ok_or_else(|| {
        Error::corrupt("no codec makes bytes of the elements")
            .field("codecs")
            .expected("bytes or sharding_indexed")
    })?;
    Ok((Chain { order, step }, endian))
}

fn byte_codec(name: &str) -> Result<ByteCodec> {
    match name {
        "zstd" => Ok(ByteCodec::Zstd),
        "gzip" => Ok(ByteCodec::Gzip),
        "zlib" => Ok(ByteCodec::Zlib),
        "crc32c" => Ok(ByteCodec::Crc32c),
        "blosc" => Ok(ByteCodec::Blosc),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    Error::unsupported("a codec is unknown, or not where it may be")
        .field("codecs")
        .found(name.escape_debug().to_string())
        .expected("transpose, then bytes or sharding_indexed, then zstd, gzip, zlib, blosc or crc32c")
}

fn transposition(settings: &Json, rank: usize) -> Result<Vec<usize>> {
    let order: Vec<usize> = match settings.get("order") {
        Some(Json::Text(text)) if text == "C" => row_major(rank),
        Some(Json::Text(text)) if text == "F" => row_major(rank).into_iter().rev().collect(),
        Some(list) => {
            let numbers = list.unsigned_list().unwrap_or_default();
            numbers.into_iter().map(|axis| usize::try_from(axis).unwrap_or(usize::MAX)).collect()
        }
        None => return Err(missing("order")),
    };
    check_order(&order, rank)?;
    Ok(order)
}

fn endian(settings: &Json, stored: StoredType) -> Result<Endian> {
    match settings.get("endian").map(|endian| endian.text()) {
        Some(Some("little")) => Ok(Endian::Little),
        Some(Some("big")) => Ok(Endian::Big),
        None if stored.bytes() == 1 => Ok(Endian::Little),
        _ => Err(Error::corrupt("the byte order is unknown").field("endian").expected("little or big")),
    }
}

fn sharding(settings: &Json, shard: &[u64], stored: StoredType, depth: usize) -> Result<(Sharding, Endian)> {
    let chunk = lengths(settings, "chunk_shape")?;
    let divides = chunk.len() == shard.len()
        && chunk.iter().zip(shard).all(|(chunk, shard)| *chunk > 0 && shard.is_multiple_of(*chunk));
    if !divides {
        return Err(Error::corrupt("the chunks within a shard do not divide it")
            .field("chunk_shape")
            .found(format!("{chunk:?}"))
            .expected(format!("divisors of {shard:?}")));
    }
    let codecs = settings.get("codecs").ok_or_else(|| missing("codecs"))?;
    let (chain, endian) = chain(codecs, &chunk, stored, depth + 1)?;
    let index = index(settings)?;
    Ok((Sharding { chunk, chain, index }, endian))
}

fn index(settings: &Json) -> Result<IndexPlace> {
    let is_at_start = match settings.get("index_location").map(Json::text) {
        None | Some(Some("end")) => false,
        Some(Some("start")) => true,
        _ => return Err(Error::corrupt("the place of the index is unknown").field("index_location")),
    };
    let codecs = settings.get("index_codecs").ok_or_else(|| missing("index_codecs"))?;
    let codecs = codecs.list().ok_or_else(|| missing("index_codecs"))?;
    let wrong = |name: &str| {
        Error::unsupported("the index of a shard has an unknown codec")
            .field("index_codecs")
            .found(name.escape_debug().to_string())
            .expected("bytes, perhaps crc32c after it")
    };
    let (first, rest) = codecs.split_first().ok_or_else(|| wrong("none"))?;
    let (name, settings) = named(first)?;
    if name != "bytes" {
        return Err(wrong(name));
    }
    let endian = match settings.get("endian").and_then(Json::text) {
        Some("little") => Endian::Little,
        Some("big") => Endian::Big,
        _ => return Err(Error::corrupt("the byte order of the index is unknown").field("index_codecs")),
    };
    let has_checksum = match rest {
        [] => false,
        [one] => match named(one)?.0 {
            "crc32c" => true,
            other => return Err(wrong(other)),
        },
        _ => return Err(wrong("several")),
    };
    Ok(IndexPlace { endian, has_checksum, is_at_start })
}
