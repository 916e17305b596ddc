//! A whole database: its keys, and where their values are.

use super::envelope::{self, MOST_DECODED, NODE_MAGIC};
use super::manifest::{Location, Manifest, Root};
use super::node::{Child, Node, NodeValue};
use super::paths::Budget;
use crate::format::{MANIFEST, join};
use ckpt_api::{Error, File, FileId, Input, Limit, Limits, Result};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Levels of a tree above its leaves, at most.
const MOST_HEIGHT: u8 = 32;

/// The files of a checkpoint that values are in, each with a number and opened once.
pub(crate) struct Files<'a> {
    input: &'a Input,
    numbers: HashMap<String, FileId>,
    pub(crate) names: Vec<String>,
    /// The file that was opened last: values of one file follow each other.
    last: Option<(FileId, File)>,
    /// How many bytes the paths and keys of all databases may still have.
    budget: Budget,
    /// Bytes of the nodes of all databases, decoded.
    decoded: u64,
}

impl<'a> Files<'a> {
    pub(crate) fn new(input: &'a Input) -> Self {
        Files {
            input,
            numbers: HashMap::new(),
            names: Vec::new(),
            last: None,
            budget: Budget::default(),
            decoded: 0,
        }
    }

    pub(crate) fn input(&self) -> &'a Input {
        self.input
    }

    /// The number of a file.
    pub(crate) fn number(&mut self, name: &str) -> FileId {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = FileId(self.names.len());
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        number
    }

    pub(crate) fn open(&mut self, number: FileId) -> Result<File> {
        if let Some((last, file)) = &self.last
            && *last == number
        {
            return Ok(file.clone());
        }
        let name = self.names.get(number.0).ok_or_else(|| Error::defect("a file without a number"))?;
        let file = self.input.file(name).map_err(|error| match error.is_missing() {
            true => error.help("the checkpoint lacks a file: copy all of it again"),
            false => error,
        })?;
        self.last = Some((number, file.clone()));
        Ok(file)
    }
}

/// A value of a key.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Within a node: its bytes, the node, and where they are in it once that is decoded.
    Inline {
        bytes: Arc<[u8]>,
        file: FileId,
        node: u64,
        at: u64,
    },
    Stored(StoredValue),
}

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredValue {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Value {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Value::Inline { bytes, .. } => bytes.len() as u64,
            Value::Stored(stored) => stored.len,
        }
    }

    /// Some bytes of the value.
    ///
    /// # Errors
    /// Those of reading; [`ckpt_api::Kind::Corrupt`] for a range that the value does not have.
    pub(crate) fn read(&self, files: &mut Files<'_>, range: Range<u64>) -> Result<Vec<u8>> {
        let outside = || {
            Error::corrupt("a value ends too early")
                .found(ckpt_api::count(self.len(), "byte"))
                .expected(ckpt_api::count(range.end, "byte"))
        };
        let len =
            range.end.checked_sub(range.start).filter(|_| range.end <= self.len()).ok_or_else(outside)?;
        match self {
            Value::Inline { bytes, .. } => {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                bytes.get(index(range.start)..index(range.end)).map(<[u8]>::to_vec).ok_or_else(outside)
            }
            Value::Stored(stored) => {
                let file = files.open(stored.file)?;
                file.bytes(stored.offset.saturating_add(range.start), len)
            }
        }
    }

    /// All bytes of a value that is a text of the checkpoint, within a limit.
    ///
    /// # Errors
    /// Those of [`Value::read`], and [`ckpt_api::Kind::Limit`].
    pub(crate) fn read_all(&self, files: &mut Files<'_>, limits: &Limits) -> Result<Vec<u8>> {
        limits.check(Limit::TextBytes, self.len())?;
        self.read(files, 0..self.len())
    }
}

/// The keys of a database and their values, in the order of the keys.
#[derive(Debug, Default)]
pub(crate) struct Database {
    entries: Vec<(Box<[u8]>, Value)>,
}

impl Database {
    /// Reads the database in a folder.
    ///
    /// # Errors
    /// Those of reading, [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Unsupported`], [`ckpt_api::Kind::Limit`].
    pub(crate) fn read(folder: &str, files: &mut Files<'_>, limits: &Limits) -> Result<Database> {
        let Some(root) = root(folder, files.input, limits, &mut files.budget)? else {
            return Ok(Database::default());
        };
        let mut reader = Reader { folder, files, limits, seen: HashSet::new() };
        let mut entries = reader.walk(root)?;
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut pairs = entries.iter().zip(entries.iter().skip(1));
        if let Some(((key, _), _)) = pairs.find(|((a, _), (b, _))| a == b) {
            return Err(Error::corrupt("a key is there twice").found(shown(key)));
        }
        Ok(Database { entries })
    }

    /// Asks a store far away for the file with the root of the database in a folder.
    pub(crate) fn announce(folder: &str, input: &Input, limits: &Limits) {
        if let Ok(Some(root)) = root(folder, input, limits, &mut Budget::default()) {
            input.will_open(&[join(folder, &root.location.file.path)]);
        }
    }

    /// The database of all processes, none of which merged them: keys that several have must have one value.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a key with two values.
    pub(crate) fn union(databases: Vec<Database>, files: &mut Files<'_>) -> Result<Database> {
        let mut entries: Vec<(Box<[u8]>, Value)> =
            databases.into_iter().flat_map(|own| own.entries).collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut union: Vec<(Box<[u8]>, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            match union.last() {
                Some((last, other)) if *last == key => {
                    if !is_equal(other, &value, files)? {
                        return Err(Error::corrupt(
                            "the databases of two processes differ in the value of a key",
                        )
                        .found(shown(&key))
                        .help("the save did not finish: use another step"));
                    }
                }
                _ => union.push((key, value)),
            }
        }
        Ok(Database { entries: union })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let index = self.entries.binary_search_by(|(own, _)| (**own).cmp(key.as_bytes())).ok()?;
        self.entries.get(index).map(|(_, value)| value)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|(key, _)| &**key)
    }
}

/// The root of the newest version of a database.
fn root(folder: &str, input: &Input, limits: &Limits, budget: &mut Budget) -> Result<Option<Root>> {
    let mut read = |name: &str| {
        let file = input.file(&join(folder, name))?;
        limits.check(Limit::HeaderBytes, file.len()).map_err(|error| error.file(file.name()))?;
        let bytes = file.bytes(0, file.len())?;
        Manifest::parse(&bytes, budget).map_err(|error| error.file(file.name()))
    };
    let manifest = read(MANIFEST)?;
    if !manifest.is_numbered {
        return Ok(manifest.root);
    }
    // The numbers have 16 digits, so that the last name is the highest.
    let is_numbered = |name: &String| {
        name.strip_prefix("manifest.").is_some_and(|digits| {
            digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let newest = input.list(folder)?.into_iter().rfind(is_numbered);
    let newest = newest.ok_or_else(|| {
        Error::corrupt("the numbered manifests of the database are missing")
            .file(input.display(&join(folder, MANIFEST)))
            .expected("files such as manifest.0000000000000001")
            .help("copy all files of the checkpoint")
    })?;
    let manifest = read(&newest)?;
    match manifest.is_numbered {
        false => Ok(manifest.root),
        true => Err(Error::corrupt("a numbered manifest holds no versions")
            .file(input.display(&join(folder, &newest)))),
    }
}

/// A node that is still to be read.
struct Pending {
    location: Location,
    prefix: Box<[u8]>,
}

struct Reader<'a, 'b> {
    folder: &'a str,
    files: &'a mut Files<'b>,
    limits: &'a Limits,
    seen: HashSet<(FileId, u64)>,
}

impl Reader<'_, '_> {
    /// Reads all nodes, level by level: a store far away gets the places of a whole level at once.
    fn walk(&mut self, root: Root) -> Result<Vec<(Box<[u8]>, Value)>> {
        if root.height > MOST_HEIGHT {
            return Err(Error::limit("the tree of the database is too high")
                .found(root.height.to_string())
                .expected(format!("at most {MOST_HEIGHT}")));
        }
        let mut entries = Vec::new();
        let mut level = vec![Pending { location: root.location, prefix: Box::default() }];
        for height in (0..=root.height).rev() {
            self.announce(&level);
            let mut children = Vec::new();
            for pending in level {
                self.node(pending, height, &mut children, &mut entries)?;
            }
            level = children;
        }
        Ok(entries)
    }

    fn announce(&mut self, level: &[Pending]) {
        let mut ranges: HashMap<FileId, Vec<Range<u64>>> = HashMap::new();
        for Pending { location, .. } in level {
            let file = self.files.number(&join(self.folder, &location.file.path));
            ranges
                .entry(file)
                .or_default()
                .push(location.offset..location.offset.saturating_add(location.len));
        }
        let names: Vec<&String> = ranges.keys().filter_map(|file| self.files.names.get(file.0)).collect();
        self.files.input.will_open(&names);
        for (file, ranges) in ranges {
            // One that cannot be opened fails when it is read.
            if let Ok(file) = self.files.open(file) {
                file.will_read(&ranges);
            }
        }
    }

    fn node(
        &mut self,
        pending: Pending,
        height: u8,
        children: &mut Vec<Pending>,
        entries: &mut Vec<(Box<[u8]>, Value)>,
    ) -> Result<()> {
        let Pending { location: Location { file: data, offset, len }, prefix } = pending;
        let number = self.files.number(&join(self.folder, &data.path));
        let file = self.files.open(number)?;
        let placed = |error: Error| error.file(file.name()).offset(offset);
        if !self.seen.insert((number, offset)) {
            return Err(placed(Error::corrupt("two places refer to one node")));
        }
        self.limits.check(Limit::HeaderBytes, self.files.decoded.saturating_add(len)).map_err(placed)?;
        let bytes = file.bytes(offset, len)?;
        let most = MOST_DECODED.min(self.limits.get(Limit::HeaderBytes).saturating_sub(self.files.decoded));
        let body = envelope::open(&bytes, NODE_MAGIC, "a B+tree node", most);
        // Offsets within an object are counted from the object on.
        let within = |error: Error| {
            let at = error.context().offset.unwrap_or(0);
            Error::offset(error.file(file.name()), offset.saturating_add(at))
        };
        let body = body.map_err(within)?;
        self.files.decoded = self.files.decoded.saturating_add(body.len() as u64);
        match Node::parse(&body, height, &prefix, &data.base, &mut self.files.budget).map_err(placed)? {
            Node::Interior(own) => {
                children
                    .extend(own.into_iter().map(|Child { location, prefix }| Pending { location, prefix }));
            }
            Node::Leaf(own) => {
                for (key, value) in own {
                    let value = match value {
                        NodeValue::Inline { at, bytes } => {
                            Value::Inline { bytes: Vec::from(bytes).into(), file: number, node: offset, at }
                        }
                        NodeValue::Stored(place) => Value::Stored(StoredValue {
                            file: self.files.number(&join(self.folder, &place.file.path)),
                            offset: place.offset,
                            len: place.len,
                        }),
                    };
                    entries.push((key, value));
                }
            }
        }
        Ok(())
    }
}

/// Bytes that are compared at once.
const COMPARED: u64 = 64 << 10;

fn is_equal(a: &Value, b: &Value, files: &mut Files<'_>) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let mut at = 0;
    while at < a.len() {
        let end = a.len().min(at + COMPARED);
        if a.read(files, at..end)? != b.read(files, at..end)? {
            return Ok(false);
        }
        at = end;
    }
    Ok(true)
}

fn shown(key: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(key).escape_debug())
}
