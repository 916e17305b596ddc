//! OCDBT, the key-value database of TensorStore in which Orbax keeps arrays: a manifest, B+tree nodes, and values.

mod body;
mod database;
mod envelope;
mod manifest;
mod node;
mod paths;

pub(crate) use database::{Database, Files, StoredValue, Value};

pub(crate) use envelope::{MANIFEST_MAGIC, NODE_MAGIC};

use ckpt_api::Result;

/// Parses a manifest, and returns how many versions it lists; for fuzzing.
///
/// # Errors
/// Those of reading a checkpoint.
pub fn parse_manifest(bytes: &[u8]) -> Result<usize> {
    manifest::Manifest::parse(bytes, &mut paths::Budget::default()).map(|manifest| manifest.versions)
}

/// Parses a node of this height, and returns how many entries it has; for fuzzing.
///
/// # Errors
/// Those of reading a checkpoint.
pub fn parse_node(bytes: &[u8], height: u8) -> Result<usize> {
    let body = envelope::open(bytes, envelope::NODE_MAGIC, "a B+tree node", envelope::MOST_DECODED)?;
    let node = node::Node::parse(&body, height, b"", "", &mut paths::Budget::default())?;
    Ok(match node {
        node::Node::Leaf(entries) => entries.len(),
        node::Node::Interior(children) => children.len(),
    })
}
