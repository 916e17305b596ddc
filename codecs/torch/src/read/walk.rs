//! Walks through the values of a pickle, and names what it finds.

use super::children::{Part, Sort, Work, children, sort};
use super::counts::Counts;
use super::rebuild::{described, is_tensor};
use super::values::{Budget, convert, key_text};
use crate::pickle::{Id, Tree, Value};
use ckpt_api::{Error, Metadata, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Bytes that all names may take for each byte of the pickle, and whatever its size.
const BYTES_PER_BYTE: u64 = 8;
const FREE_BYTES: u64 = 1 << 20;

/// What a pickle holds, by name.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Calls that make tensors.
    pub(crate) tensors: Vec<(String, Id)>,
    pub(crate) metadata: Metadata,
    /// Values that are neither.
    pub(crate) dropped: Dropped,
    /// State dicts of optimizers, by the names of their dicts, each followed by a dot if it has one.
    pub(crate) optimizers: Vec<(String, Id)>,
    /// Classes and functions whose calls have tensors in what they are given.
    pub(crate) foreign: BTreeSet<String>,
    pub(crate) modules: usize,
    /// What tensors lie in, by name.
    pub(crate) containers: Vec<(String, Container)>,
}

/// How the names of what lies in something come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// By keys.
    Dict,
    /// By indexes.
    List,
}

/// Values that are left out: how many, and what the first of them are.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) count: usize,
    /// Each with its name and what it is.
    first: Vec<String>,
}

impl Dropped {
    /// Values that a note lists.
    const SHOWN: usize = 12;

    pub(crate) fn add(&mut self, name: &str, why: impl FnOnce() -> String) {
        self.add_within(|| name.to_owned(), why);
    }

    /// Adds a value whose name takes work.
    pub(crate) fn add_within(&mut self, name: impl FnOnce() -> String, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < Self::SHOWN {
            self.first.push(format!("'{}' ({})", name().escape_debug(), why()));
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct Frame {
    children: std::vec::IntoIter<(Part, Id)>,
    /// Length of the name of what the children lie in.
    name_len: usize,
    /// Whether values beside the tensors are left out: attributes of a module.
    tensors_only: bool,
}

/// Finds all below `root`.
///
/// # Errors
/// Those of [`Counts::new`], and [`ckpt_api::Kind::Unsupported`] for a tensor whose key has no text.
pub(crate) fn walk(tree: &Tree, root: Id, namespace: &str) -> Result<Found> {
    let counts = Counts::new(tree, root)?;
    let mut walk = Walk {
        tree,
        counts,
        namespace,
        budget: Budget::default(),
        found: Found::default(),
        name_bytes: 0,
        work: Work::new(tree),
    };
    let mut name = String::new();
    let mut frames: Vec<Frame> = Vec::new();
    frames.extend(match sort(tree, root) {
        // Values have names of their own, also where there are no tensors.
        Sort::Container => Some(walk.descend(root, &name)?),
        _ => walk.enter(root, &name)?,
    });
    while let Some(frame) = frames.last_mut() {
        name.truncate(frame.name_len);
        let Some((part, id)) = frame.children.next() else {
            frames.pop();
            continue;
        };
        let has_tensors = walk.counts.of(tree, id) > 0;
        if frame.tensors_only && !has_tensors {
            continue;
        }
        let is_outermost = frames.len() == 1;
        if !walk.push(&mut name, part, is_outermost, has_tensors)? {
            walk.found.dropped.add(&format!("{name}.?"), || "an entry whose key has no text".to_owned());
            continue;
        }
        frames.extend(walk.enter(id, &name)?);
    }
    Ok(walk.found)
}

struct Walk<'a> {
    tree: &'a Tree,
    counts: Counts,
    namespace: &'a str,
    budget: Budget,
    found: Found,
    name_bytes: u64,
    work: Work,
}

impl Walk<'_> {
    /// Adds a value, and returns what lies within it where that has tensors.
    fn enter(&mut self, id: Id, name: &str) -> Result<Option<Frame>> {
        self.name_bytes = self.name_bytes.saturating_add(name.len() as u64);
        if self.name_bytes > BYTES_PER_BYTE * self.tree.pickle_bytes() + FREE_BYTES {
            return Err(Error::limit("the names of the tensors and values take too much memory")
                .expected(format!("at most {BYTES_PER_BYTE} times the pickle's own size")));
        }
        if self.tree.object(id).is_some_and(|object| is_tensor(self.tree, object)) {
            self.found.tensors.push((name.to_owned(), id));
            return Ok(None);
        }
        if self.counts.of(self.tree, id) == 0 {
            self.add_value(id, name);
            return Ok(None);
        }
        self.descend(id, name).map(Some)
    }

    fn descend(&mut self, id: Id, name: &str) -> Result<Frame> {
        self.work.take(self.tree, id)?;
        let sort = sort(self.tree, id);
        match sort {
            Sort::Module => self.found.modules += 1,
            Sort::Foreign => {
                self.found.foreign.insert(described(self.tree, id));
            }
            Sort::Container | Sort::Leaf => {}
        }
        let has = |key: &str| self.tree.entry(id, key).is_some();
        if has("state") && has("param_groups") {
            let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
            self.found.optimizers.push((prefix, id));
        }
        let is_list = matches!(self.tree.value(id), Value::List(_) | Value::Tuple(_) | Value::Set(_));
        self.found
            .containers
            .push((name.to_owned(), if is_list { Container::List } else { Container::Dict }));
        let children = children(self.tree, id).into_iter();
        Ok(Frame { children, name_len: name.len(), tensors_only: sort == Sort::Module })
    }

    fn add_value(&mut self, id: Id, name: &str) {
        let key = if name.is_empty() { "value" } else { name };
        let Found { metadata, dropped, .. } = &mut self.found;
        if metadata.value(self.namespace, key).is_some() {
            dropped.add(name, || "a second value of this name".to_owned());
        } else if let Some(value) = convert(self.tree, id, name, &mut self.budget, dropped) {
            metadata.insert(self.namespace, key, value);
        }
    }

    /// Appends a part to a name; returns whether it has a text.
    fn push(&self, name: &mut String, part: Part, is_outermost: bool, has_tensors: bool) -> Result<bool> {
        let text = match part {
            Part::Index(index) => Some(Cow::Owned(index.to_string())),
            Part::Key(key) => match self.tree.text(key) {
                Some(text) => Some(Cow::Borrowed(text)),
                None => key_text(self.tree, key).map(Cow::Owned),
            },
        };
        let Some(text) = text else {
            if !has_tensors {
                return Ok(false);
            }
            return Err(Error::unsupported("a tensor lies under a key that has no text")
                .field(name.escape_debug().to_string())
                .help("save a dict whose keys are texts or numbers"));
        };
        if !is_outermost {
            name.push('.');
        }
        name.push_str(&text);
        Ok(true)
    }
}

/// The value at a path of keys and indexes that are joined with dots.
pub(crate) fn branch(tree: &Tree, path: &str) -> Result<Id> {
    let mut id = tree.root();
    let mut rest = Some(path);
    while let Some(path) = rest {
        let own = children(tree, id);
        let named = own.into_iter().filter_map(|(part, id)| {
            let text = match part {
                Part::Index(index) => index.to_string(),
                Part::Key(key) => key_text(tree, key)?,
            };
            Some((text, id))
        });
        let all: Vec<(String, Id)> = named.collect();
        // A key may have dots itself: the longest one that fits is meant.
        let fits = all.iter().filter_map(|(text, id)| {
            let after = path.strip_prefix(text.as_str())?;
            if after.is_empty() {
                Some((text, *id, None))
            } else {
                Some((text, *id, Some(after.strip_prefix('.')?)))
            }
        });
        let Some((_, next, after)) = fits.max_by_key(|(text, ..)| text.len()) else {
            let names: Vec<&str> = all.iter().map(|(text, _)| text.as_str()).collect();
            return Err(Error::usage("the checkpoint has no such branch")
                .field("root")
                .found(format!("'{}'", path.escape_debug()))
                .expected(format!("one of {}", ckpt_api::first_few(&names, 8))));
        };
        (id, rest) = (next, after);
    }
    Ok(id)
}

/// The keys that lead to tensors of this name, as `['a']['b']`: of the first ones.
pub(crate) fn keys(tree: &Tree, root: Id, name: &str) -> Vec<String> {
    const MOST: usize = 2;
    let mut work = Work::new(tree);
    let mut found = Vec::new();
    let mut open = vec![(root, name, String::new())];
    while let Some((id, rest, keys)) = open.pop().filter(|_| found.len() < MOST) {
        if work.take(tree, id).is_err() {
            break;
        }
        for (part, id) in children(tree, id) {
            let Some((text, shown)) = (match part {
                Part::Index(index) => Some((index.to_string(), format!("[{index}]"))),
                Part::Key(key) => key_text(tree, key).map(|text| {
                    let quote = if tree.text(key).is_some() { "'" } else { "" };
                    let shown = format!("[{quote}{}{quote}]", text.escape_debug());
                    (text, shown)
                }),
            }) else {
                continue;
            };
            let Some(after) = rest.strip_prefix(text.as_str()) else { continue };
            let is_tensor = tree.object(id).is_some_and(|object| is_tensor(tree, object));
            match after.strip_prefix('.') {
                Some(after) => open.push((id, after, format!("{keys}{shown}"))),
                None if after.is_empty() && is_tensor => found.push(format!("{keys}{shown}")),
                None => {}
            }
        }
    }
    found
}
