//! Arrays of zarr 2 and 3: their metadata, and where their chunks are.

mod array;
mod chain;
mod grid;
mod shard;
mod version2;
mod version3;

pub(crate) use array::{Array, ChunkKeys};
pub(crate) use chain::ByteCodec;
pub(crate) use grid::{FindChunk, placed};

use crate::format::json::Json;
use ckpt_api::Result;

/// The file of an array of zarr 2 that describes it.
pub(crate) const ARRAY_2: &str = ".zarray";

/// The file of an array of zarr 3 that describes it.
pub(crate) const ARRAY_3: &str = "zarr.json";

/// Parses `.zarray` or `zarr.json`.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`], [`ckpt_api::Kind::Limit`].
pub(crate) fn parse(bytes: &[u8], file: &str) -> Result<Array> {
    let json = Json::parse(bytes)?;
    let array = match file {
        ARRAY_2 => version2::parse(&json)?,
        _ => version3::parse(&json)?,
    };
    array.check()?;
    Ok(array)
}

/// Parses `.zarray`, or `zarr.json` if it is of version 3; for fuzzing. Returns how many axes the array has.
///
/// # Errors
/// Those of reading a checkpoint.
pub fn parse_array(bytes: &[u8], is_version_3: bool) -> Result<usize> {
    let file = if is_version_3 { ARRAY_3 } else { ARRAY_2 };
    parse(bytes, file).map(|array| array.shape.rank())
}
