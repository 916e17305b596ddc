//! The format before the zip archive: five pickles, then the storages' bytes.
//!
//! The third pickle states the byte order of the machine, which means nothing for the rest: PyTorch writes counts and
//! elements little-endian on every machine, and reads them so without a look at it.

use super::saved::{Record, Saved};
use super::script::Classes;
use super::storage::{StorageId, check_ids};
use ckpt_api::{Endian, Error, File, Limit, Limits, Result};
use ckpt_containers::pickle::{Feed, Names, Tree, Value, parse};
use std::collections::HashMap;

/// The first bytes: a pickle of a magic number.
pub(super) const LEGACY_MAGIC: &[u8; 15] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
/// The version of the format.
const VERSION: i64 = 1001;

/// What is different in the file that is written.
const DIFFERENCE: &str =
    "it has the format before PyTorch 1.6, and is written as the zip archive of PyTorch 2.8";

/// See [`super::open`].
pub(crate) fn open(file: &File, limits: &Limits) -> Result<Saved> {
    let mut at = LEGACY_MAGIC.len() as u64;
    let mut next = |what: &str| {
        let tree = parse(Feed::new(file, at, file.len(), limits)).map_err(|error| error.field(what))?;
        at = tree.end();
        Ok::<_, Error>(tree)
    };
    check_version(&next("protocol version")?)?;
    next("system information")?;
    let tree = next("object")?;
    let keys = next("storage keys")?;
    check_ids(&tree)?;
    let records = records(file, &tree, &keys, limits)?;
    let names = Names::of(&tree);
    Ok(Saved {
        pickle_start: Some(tree.start()),
        tree,
        names,
        records,
        endian: Endian::Little,
        is_script: false,
        classes: Classes::default(),
        constants: None,
        folder: None,
        differences: vec![DIFFERENCE.to_owned()],
        followed_by: 0,
    })
}

fn check_version(tree: &Tree) -> Result<()> {
    match tree.value(tree.root()) {
        Value::Int(VERSION) => Ok(()),
        other => Err(Error::unsupported("the version of the file is unknown")
            .found(format!("{other:?}"))
            .expected(VERSION.to_string())),
    }
}

/// Locates the storages, which follow the list of their keys in its order.
fn records(file: &File, tree: &Tree, keys: &Tree, limits: &Limits) -> Result<HashMap<String, Record>> {
    let sizes = element_bytes(tree)?;
    let Value::List(list) = keys.value(keys.root()) else {
        return Err(Error::corrupt("the file has no list of its storages"));
    };
    limits.check(Limit::Tensors, list.len() as u64)?;
    let mut records = HashMap::with_capacity(list.len());
    let mut at = keys.end();
    for id in keys.items(list) {
        let key = keys.text(id).ok_or_else(|| Error::corrupt("the key of a storage is no text"))?;
        let placed = |error: Error| error.offset(at).field(format!("storage {}", key.escape_debug()));
        let size = sizes.get(key).ok_or_else(|| {
            placed(Error::corrupt(
                "the file has a storage that nothing refers to, so that its size is unknown",
            ))
        })?;
        let mut count = [0; 8];
        file.read_at(at, &mut count)?;
        let count = i64::from_le_bytes(count);
        let len = u64::try_from(count).ok().and_then(|count| count.checked_mul(*size));
        let start = at.saturating_add(8);
        let end =
            len.and_then(|len| start.checked_add(len)).filter(|end| *end <= file.len()).ok_or_else(|| {
                placed(Error::corrupt("the file ends before its storage does"))
                    .found(format!("{count} elements of {size} bytes"))
                    .expected(format!("at most {} bytes", file.len().saturating_sub(start)))
                    .help("the file is cut short or damaged: copy it again")
            })?;
        let record = Record { start, len: end - start, compression: None, crc: None };
        if records.insert(key.to_owned(), record).is_some() {
            return Err(placed(Error::corrupt("two storages have the same key")));
        }
        at = end;
    }
    if at == file.len() {
        return Ok(records);
    }
    Err(Error::corrupt("bytes follow the last storage")
        .offset(at)
        .found(ckpt_api::count(file.len() - at, "byte"))
        .help("the file was appended to or damaged: copy it again"))
}

/// Bytes of an element of each storage, by its key.
fn element_bytes(tree: &Tree) -> Result<HashMap<&str, u64>> {
    let mut sizes = HashMap::new();
    for id in tree.ids() {
        let Some(id) = tree.persistent(id) else { continue };
        let Ok(storage) = StorageId::parse(tree, id) else { continue };
        let bytes = storage.class.element().bytes;
        if *sizes.entry(storage.key).or_insert(bytes) != bytes {
            return Err(Error::corrupt("a storage has elements of two sizes").field(storage.key));
        }
    }
    Ok(sizes)
}
