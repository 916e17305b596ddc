//! B+tree nodes.

use super::body::Body;
use super::manifest::{Location, Places, location};
use super::paths::{Budget, DataFile, LONGEST, table};
use ckpt_api::{Error, Result};

/// Entries of a node, at most.
const MOST_ENTRIES: u64 = 1 << 20;

/// Bytes of a value within a node, at most.
const LONGEST_INLINE: u64 = 1 << 20;

#[derive(Debug)]
pub(super) enum Node {
    Leaf(Vec<(Box<[u8]>, NodeValue)>),
    Interior(Vec<Child>),
}

/// A value as a leaf states it.
#[derive(Debug)]
pub(super) enum NodeValue {
    /// In the node, from this byte of its body on.
    Inline {
        at: u64,
        bytes: Box<[u8]>,
    },
    Stored(Location),
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) location: Location,
    /// What the keys of the child begin with, and the child leaves out.
    pub(super) prefix: Box<[u8]>,
}

impl Node {
    /// Parses a body that must be of this height, whose keys all begin with `prefix`, and which was read from below
    /// `transitive`.
    pub(super) fn parse(
        bytes: &[u8],
        height: u8,
        prefix: &[u8],
        transitive: &str,
        budget: &mut Budget,
    ) -> Result<Node> {
        let mut body = Body::new(bytes);
        let found = body.byte("height")?;
        if found != height {
            return Err(Error::corrupt("the height of a node is not what refers to it states")
                .offset(0)
                .found(found.to_string())
                .expected(height.to_string()));
        }
        let files = table(&mut body, transitive, budget)?;
        let Keys { own: keys, common } = keys(&mut body, height > 0, budget)?;
        let full = |key: &[u8]| [prefix, key].concat().into_boxed_slice();
        let node = match common {
            Some(common) => {
                let places = Places::parse(&mut body, keys.len())?;
                for name in ["keys", "bytes of trees", "bytes of values"] {
                    body.skip_column(name, keys.len())?;
                }
                let children = keys.iter().zip(common).enumerate().map(|(index, (key, common))| {
                    budget.take(prefix.len())?;
                    let prefix = full(key.get(..common).unwrap_or_default());
                    Ok(Child { location: places.get(index, &files)?, prefix })
                });
                Node::Interior(children.collect::<Result<_>>()?)
            }
            None => {
                let values = values(&mut body, keys.len(), &files)?;
                let entries = keys.iter().zip(values).map(|(key, value)| {
                    budget.take(prefix.len())?;
                    Ok((full(key), value))
                });
                Node::Leaf(entries.collect::<Result<_>>()?)
            }
        };
        body.end("a node")?;
        Ok(node)
    }
}

/// The keys of a node.
struct Keys {
    /// Each without the prefix of the node.
    own: Vec<Vec<u8>>,
    /// In an interior node, how many bytes of each the child leaves out.
    common: Option<Vec<usize>>,
}

fn keys(body: &mut Body<'_>, is_interior: bool, budget: &mut Budget) -> Result<Keys> {
    let at = body.offset();
    let len = body.count("entries", MOST_ENTRIES)?;
    let Some(shared) = len.checked_sub(1) else {
        return Err(Error::corrupt("a node has no entries").offset(at));
    };
    let prefixes = body.column("prefix lengths of keys", shared)?;
    let suffixes = body.column("suffix lengths of keys", len)?;
    let common = is_interior.then(|| body.column("common prefix lengths", len)).transpose()?;
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(len);
    for (prefix, suffix) in std::iter::once(0).chain(prefixes).zip(suffixes) {
        let at = body.offset();
        let wrong = |what: &'static str| Error::corrupt(what).offset(at).field("keys");
        let suffix = body.bytes("keys", suffix)?;
        let before = keys.last().map_or(&[][..], Vec::as_slice);
        let kept = usize::try_from(prefix).ok().and_then(|prefix| before.get(..prefix));
        let kept = kept.ok_or_else(|| wrong("a key shares more with the key before than that has"))?;
        let key = [kept, suffix].concat();
        budget.take(key.len())?;
        if key.len() as u64 > LONGEST {
            return Err(wrong("a key is too long").expected(format!("at most {LONGEST} bytes")));
        }
        if keys.last().is_some_and(|before| *before >= key) {
            return Err(wrong("the keys of a node do not rise").expected("each key after the one before it"));
        }
        keys.push(key);
    }
    let Some(common) = common else { return Ok(Keys { own: keys, common: None }) };
    let fits = |(common, key): (u64, &Vec<u8>)| {
        usize::try_from(common).ok().filter(|common| *common <= key.len()).ok_or_else(|| {
            Error::corrupt("a child leaves out more than its key has").found(common.to_string())
        })
    };
    let common = common.into_iter().zip(&keys).map(fits).collect::<Result<_>>()?;
    Ok(Keys { own: keys, common: Some(common) })
}

fn values(body: &mut Body<'_>, len: usize, files: &[DataFile]) -> Result<Vec<NodeValue>> {
    let lens = body.column("lengths of values", len)?;
    let at = body.offset();
    let kinds = body.bytes("kinds of values", len as u64)?;
    if let Some(kind) = kinds.iter().find(|kind| **kind > 1) {
        return Err(Error::corrupt("the kind of a value is unknown")
            .offset(at)
            .found(kind.to_string())
            .expected("0 (in the node) or 1 (in a data file)"));
    }
    let stored = kinds.iter().filter(|kind| **kind == 1).count();
    let numbers = body.column("files of values", stored)?;
    let offsets = body.column("offsets of values", stored)?;
    let mut places = numbers.into_iter().zip(offsets);
    let mut values = Vec::with_capacity(len);
    for (len, kind) in lens.into_iter().zip(kinds) {
        if *kind == 1 {
            let (file, offset) = places.next().unwrap_or((u64::MAX, u64::MAX));
            values.push(NodeValue::Stored(location(files, file, offset, len)?));
            continue;
        }
        let at = body.offset();
        if len > LONGEST_INLINE {
            return Err(Error::corrupt("a value in a node is too long")
                .offset(at)
                .found(ckpt_api::count(len, "byte"))
                .expected(format!("at most {LONGEST_INLINE} bytes")));
        }
        values.push(NodeValue::Inline { at, bytes: body.bytes("values", len)?.into() });
    }
    Ok(values)
}
