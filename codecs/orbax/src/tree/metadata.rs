//! `_METADATA`.

use super::{Content, Leaf, PathKey};
use crate::format::json::Json;
use ckpt_api::{Error, Result};

/// What the file states.
#[derive(Debug)]
pub(crate) struct TreeFile {
    pub(crate) leaves: Vec<Leaf>,
    /// Whether the arrays are in a database; `None` if the file does not say.
    pub(crate) uses_database: Option<bool>,
    /// What the user added.
    pub(crate) custom: Option<Json>,
}

/// The kinds of leaves that are arrays, and those that hold nothing.
const ARRAYS: [&str; 3] = ["jax.Array", "np.ndarray", "scalar"];
const EMPTY: [&str; 5] = ["None", "Dict", "List", "Tuple", "NamedTuple"];

/// Keys within each other, at most.
const MOST_DEPTH: usize = 128;

impl TreeFile {
    pub(crate) fn parse(bytes: &[u8]) -> Result<TreeFile> {
        let json = Json::parse(bytes)?;
        let entries = json.get("tree_metadata").and_then(Json::entries);
        let entries = entries
            .ok_or_else(|| Error::corrupt("the tree of the checkpoint is missing").field("tree_metadata"))?;
        let leaves = entries
            .iter()
            .map(|(outer, entry)| leaf(entry).map_err(|error| error.field(outer.escape_debug().to_string())));
        Ok(TreeFile {
            leaves: leaves.collect::<Result<_>>()?,
            uses_database: json.get("use_ocdbt").and_then(Json::bool),
            custom: json.get("custom_metadata").filter(|custom| !custom.is_nothing()).cloned(),
        })
    }
}

fn leaf(entry: &Json) -> Result<Leaf> {
    let keys = entry.get("key_metadata").and_then(Json::list);
    let keys = keys.ok_or_else(|| Error::corrupt("a leaf has no keys").expected("key_metadata"))?;
    if keys.len() > MOST_DEPTH {
        return Err(Error::limit("a leaf has too many keys").expected(format!("at most {MOST_DEPTH}")));
    }
    let keys = keys.iter().map(key).collect::<Result<_>>()?;
    let kind = entry.get("value_metadata").and_then(|value| value.get("value_type")).and_then(Json::text);
    let content = match kind {
        Some(kind) if ARRAYS.contains(&kind) => Content::Array,
        Some("string") => Content::Text,
        Some(kind) if EMPTY.contains(&kind) => Content::Empty(kind.to_owned()),
        other => {
            return Err(Error::unsupported("the kind of a leaf is unknown")
                .found(other.unwrap_or("nothing").escape_debug().to_string())
                .expected("jax.Array, np.ndarray, scalar, string, None or an empty container"));
        }
    };
    Ok(Leaf::new(keys, content))
}

fn key(json: &Json) -> Result<PathKey> {
    let text = json.get("key").map(|key| match key {
        Json::Text(text) => Some(text.clone()),
        Json::Unsigned(number) => Some(number.to_string()),
        _ => None,
    });
    let text = text.flatten().ok_or_else(|| Error::corrupt("a key is no text").expected("key"))?;
    match json.get("key_type").and_then(Json::unsigned) {
        Some(1) => {
            match text.parse() {
                Ok(at) if text.bytes().all(|digit| digit.is_ascii_digit()) => Ok(PathKey::Position(at)),
                _ => Err(Error::corrupt("a position in a list is no number")
                    .found(text.escape_debug().to_string())),
            }
        }
        Some(2) => Ok(PathKey::Name(text)),
        other => Err(Error::unsupported("the type of a key is unknown")
            .field("key_type")
            .found(other.map_or("nothing".to_owned(), |kind| kind.to_string()))
            .expected("1 (a position) or 2 (a name)")),
    }
}
