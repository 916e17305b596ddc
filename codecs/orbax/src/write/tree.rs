//! The tree of a checkpoint, and its files.

use super::paths::{of_name, parse, reconcile, stated, text};
use crate::format::NAMESPACE;
use crate::tree::PathKey;
use ckpt_api::{Checkpoint, Error, MetadataMap, Result, Tensor, TensorId};
use std::collections::HashSet;

/// A leaf that is written.
pub(super) struct Written {
    name: String,
    path: Vec<PathKey>,
    pub(super) kind: Kind,
}

/// What a leaf is.
pub(super) enum Kind {
    Tensor(TensorId),
    /// A text.
    Text(String),
    /// An empty container, or nothing: what kind.
    Empty(String),
}

impl Written {
    /// The tensor of a leaf, and the name under which it is stored.
    pub(super) fn tensor(&self) -> Option<(TensorId, &str)> {
        match self.kind {
            Kind::Tensor(id) => Some((id, &self.name)),
            _ => None,
        }
    }
}

/// The leaves of a checkpoint: the tensors that can be stored, and what its own metadata has beside them.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a name that a file cannot have.
pub(super) fn leaves(checkpoint: &Checkpoint, is_stored: impl Fn(&Tensor) -> bool) -> Result<Vec<Written>> {
    let mut leaves = Vec::new();
    for (id, tensor) in checkpoint.tensors.iter().enumerate().filter(|(_, tensor)| is_stored(tensor)) {
        let name = tensor.name.to_string();
        if name.contains('\0') {
            return Err(
                Error::unsupported("the name of a tensor has a NUL").tensor(name.escape_debug().to_string())
            );
        }
        let path = stated(&tensor.metadata, NAMESPACE, &name).unwrap_or_else(|| of_name(&name));
        let path = if name.is_empty() && checkpoint.tensors.len() == 1 { Vec::new() } else { path };
        leaves.push(Written { name, path, kind: Kind::Tensor(TensorId(id)) });
    }
    let taken: HashSet<String> = leaves.iter().map(|leaf| leaf.name.clone()).collect();
    let own = |key: &str| checkpoint.metadata.value(NAMESPACE, key).and_then(|value| value.as_map());
    let paths = own("paths");
    let mut add = |map: Option<&MetadataMap>, kind: fn(String) -> Kind| {
        for (name, value) in map.into_iter().flat_map(MetadataMap::iter) {
            if let (Some(text), false) = (value.as_text(), taken.contains(name)) {
                let path = paths.and_then(|paths| parse(paths.get(name)?)).unwrap_or_else(|| of_name(name));
                leaves.push(Written { name: name.to_owned(), path, kind: kind(text.to_owned()) });
            }
        }
    };
    add(own("strings"), Kind::Text);
    add(own("empty"), Kind::Empty);
    let mut paths: Vec<Vec<PathKey>> = leaves.iter().map(|leaf| leaf.path.clone()).collect();
    reconcile(&mut paths);
    leaves.iter_mut().zip(paths).for_each(|(leaf, path)| leaf.path = path);
    Ok(leaves)
}

/// `_METADATA`.
pub(super) fn metadata(leaves: &[Written], is_v1: bool) -> Vec<u8> {
    let entries: Vec<String> = leaves
        .iter()
        .map(|leaf| {
            let keys: Vec<String> = leaf
                .path
                .iter()
                .map(|key| {
                    let kind = if matches!(key, PathKey::Position(_)) { 1 } else { 2 };
                    format!(r#"{{"key": {}, "key_type": {kind}}}"#, json(&text(key)))
                })
                .collect();
            let (kind, is_skipped) = match &leaf.kind {
                Kind::Tensor(_) => ("np.ndarray", false),
                Kind::Text(_) => ("string", false),
                Kind::Empty(kind) => (kind.as_str(), true),
            };
            format!(
                r#"{}: {{"key_metadata": [{}], "value_metadata": {{"value_type": {}, "skip_deserialize": {is_skipped}}}}}"#,
                json(&tuple(&leaf.path)),
                keys.join(", "),
                json(kind)
            )
        })
        .collect();
    format!(
        r#"{{"tree_metadata": {{{}}}, "use_ocdbt": true, "use_zarr3": {is_v1}, "store_array_data_equal_to_fill_value": true, "custom_metadata": null}}"#,
        entries.join(", ")
    )
    .into_bytes()
}

/// `_strings.json`; `None` if there are no texts.
pub(super) fn strings(leaves: &[Written]) -> Option<Vec<u8>> {
    let texts: Vec<String> = leaves
        .iter()
        .filter_map(|leaf| match &leaf.kind {
            Kind::Text(text) => Some(format!("{}: {}", json(&leaf.name), json(text))),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| format!("{{{}}}", texts.join(", ")).into_bytes())
}

/// `_CHECKPOINT_METADATA` of a folder with one item.
pub(super) fn step_metadata(item: &str) -> Vec<u8> {
    const HANDLER: &str = "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler";
    format!(
        r#"{{"item_handlers": {{{}: "{HANDLER}"}}, "metrics": {{}}, "performance_metrics": {{}}, "init_timestamp_nsecs": {WRITTEN}, "commit_timestamp_nsecs": {WRITTEN}, "custom_metadata": {{}}}}"#,
        json(item)
    )
    .into_bytes()
}

/// When a checkpoint was written, in nanoseconds: always the same.
const WRITTEN: u64 = 1_577_836_800_000_000_000;

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A path as Python shows a tuple of texts.
fn tuple(path: &[PathKey]) -> String {
    let parts: Vec<String> = path.iter().map(|key| quoted(&text(key))).collect();
    match &parts[..] {
        [one] => format!("({one},)"),
        parts => format!("({})", parts.join(", ")),
    }
}

/// A text as Python shows it.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            own if own == quote => out.extend(['\\', own]),
            own if own.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(own))),
            own => out.push(own),
        }
    }
    out.push(quote);
    out
}
