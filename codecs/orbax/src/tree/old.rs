//! `checkpoint`, the tree in msgpack: of Orbax up to 0.4.4, and of T5X.

use super::{Content, Leaf, PathKey};
use crate::format::check_path;
use crate::msgpack::{Id, Tree, Value, array_of};
use ckpt_api::{Error, MetadataMap, MetadataValue, Result};

/// What a leaf begins with that is stored elsewhere, under its name.
const PLACEHOLDER: &str = "PLACEHOLDER://";

/// The same of Flax with several processes.
const DISTRIBUTED: &str = "//GDAPlaceholder:";

/// The settings of TensorStore that a leaf may have.
const SETTINGS: [&str; 6] = ["driver", "dtype", "kvstore", "metadata", "path", "metadata_key"];

/// Where the arrays of a leaf of T5X may be.
const DRIVERS: [&str; 3] = ["file", "gfile", "gcs"];

/// Bytes of all paths, at most: every leaf has the keys of what it is in.
const MOST_BYTES: usize = 256 << 20;

/// Lists the leaves of a tree, in its order.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`] and [`ckpt_api::Kind::Limit`].
pub(crate) fn leaves(tree: &Tree) -> Result<Vec<Leaf>> {
    let (mut leaves, mut bytes) = (Vec::new(), 0usize);
    let mut stack: Vec<(Vec<PathKey>, Id)> = vec![(Vec::new(), Tree::ROOT)];
    while let Some((keys, id)) = stack.pop() {
        let named = |error: Error| error.tensor(Leaf::new(keys.clone(), Content::Array).name);
        if let Some(array) = array_of(tree, id).map_err(named)? {
            leaves.push(Leaf::new(keys, Content::Within(array)));
            continue;
        }
        let own: usize = keys.iter().map(PathKey::bytes).sum();
        let children = match tree.value(id) {
            Value::Map(entries) => entries.iter().map(|(key, _)| own + key.len()).sum(),
            Value::List(items) => items.len().saturating_mul(own + size_of::<PathKey>()),
            _ => 0,
        };
        bytes = bytes.saturating_add(children);
        if bytes > MOST_BYTES {
            return Err(Error::limit("the names of the leaves have too many bytes")
                .expected(format!("at most {MOST_BYTES}")));
        }
        let below = |key: PathKey, id: Id| (keys.iter().cloned().chain([key]).collect(), id);
        match tree.value(id) {
            Value::Map(_) if tree.entry(id, "driver").is_some() && is_spec(tree, id) => {
                let path = spec(tree, id).map_err(named)?;
                leaves.push(Leaf::new(keys, Content::Named(path)));
            }
            Value::Map(entries) if !entries.is_empty() => {
                // The last is taken first.
                stack.extend(entries.iter().rev().map(|(key, id)| below(PathKey::Name(key.clone()), *id)));
            }
            Value::List(items) if !items.is_empty() => {
                let numbered = items.iter().enumerate().rev();
                stack.extend(numbered.map(|(at, id)| below(PathKey::Position(at as u64), *id)));
            }
            value => {
                let content = content(value).map_err(named)?;
                leaves.push(Leaf::new(keys, content));
            }
        }
    }
    Ok(leaves)
}

fn content(value: &Value) -> Result<Content> {
    Ok(match value {
        Value::Native(value) => match value.as_text() {
            Some(text) if text.starts_with(DISTRIBUTED) => {
                return Err(Error::unsupported("an array is stored by several processes of Flax")
                    .found(text.escape_debug().to_string())
                    .help("restore the checkpoint with Flax, and save it with Orbax"));
            }
            Some(text) => match text.strip_prefix(PLACEHOLDER) {
                Some(name) => Content::Named(name.to_owned()),
                None => Content::Value(text.into()),
            },
            None => Content::Value(value.clone()),
        },
        Value::Map(_) => Content::Value(MetadataValue::Map(MetadataMap::new())),
        Value::List(_) => Content::Value(MetadataValue::List(Vec::new())),
        Value::Array(_) | Value::Other => Content::Value(MetadataValue::Null),
    })
}

/// Whether a map describes an array to TensorStore, and is none of the tree.
fn is_spec(tree: &Tree, id: Id) -> bool {
    tree.text(id, "driver").is_some()
        && (tree.entry(id, "kvstore").is_some() || tree.entry(id, "path").is_some())
}

/// The folder of an array that TensorStore is to open.
fn spec(tree: &Tree, id: Id) -> Result<String> {
    let unsupported =
        |what: &'static str| Error::unsupported(what).expected("zarr in a folder of the checkpoint");
    if tree.text(id, "driver") != Some("zarr") {
        return Err(unsupported("the driver of an array is unknown"));
    }
    let Value::Map(entries) = tree.value(id) else { return Err(unsupported("no array")) };
    if let Some((key, _)) = entries.iter().find(|(key, _)| !SETTINGS.contains(&key.as_str())) {
        return Err(unsupported("an array has an unknown setting").field(key.escape_debug().to_string()));
    }
    let store = entries.iter().find(|(key, _)| key == "kvstore").map(|(_, id)| *id);
    if let Some(store) = store {
        let driver = tree.text(store, "driver");
        if driver.is_none_or(|driver| !DRIVERS.contains(&driver)) {
            return Err(unsupported("the store of an array is unknown")
                .found(driver.unwrap_or("nothing").escape_debug().to_string()));
        }
    }
    let own = store.and_then(|store| tree.text(store, "path"));
    let path = own.or_else(|| tree.text(id, "path")).ok_or_else(|| unsupported("an array has no path"))?;
    let path = path.strip_suffix('/').unwrap_or(path);
    check_path(path)?;
    Ok(path.to_owned())
}
