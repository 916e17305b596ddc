//! Walks through the values of a pickle, and names what it finds.

use super::children::{Part, Sort, Work, children, hidden, is_scale, is_script, sort};
use super::counts::{Counts, can_hold};
use super::dropped::Dropped;
use super::values::{Budget, convert, key_text};
use crate::container::Classes;
use crate::tensor::call::is_tensor;
use crate::tensor::describe::described;
use ckpt_api::{Error, Metadata, Result};
use ckpt_containers::pickle::{Id, Object, Tree, Value};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

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
    /// Attributes of modules that hold tensors and are neither parameters nor buffers, by name.
    pub(crate) attributes: Vec<String>,
    /// What tensors are in, by name.
    pub(crate) containers: Vec<(String, Container)>,
}

/// How the names of what is in something come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// By keys.
    Dict,
    /// By indexes.
    List,
}

struct Frame {
    children: std::vec::IntoIter<(Part, Id)>,
    /// Length of the name of what the children are in.
    name_len: usize,
    /// The module that the children are in: of that, values beside the tensors are left out.
    module: Option<Id>,
}

/// Finds all below `root`.
///
/// # Errors
/// Those of [`Counts::new`], and [`ckpt_api::Kind::Unsupported`] for a tensor whose key has no text.
pub(crate) fn walk(tree: &Tree, root: Id, namespace: &str) -> Result<Found> {
    walk_script(tree, root, namespace, &Classes::default())
}

/// The same of a TorchScript archive, whose code states which fields of its classes are parameters and buffers.
pub(crate) fn walk_script(tree: &Tree, root: Id, namespace: &str, classes: &Classes) -> Result<Found> {
    let counts = Counts::new(tree, root)?;
    let mut walk = Walk {
        tree,
        counts,
        namespace,
        budget: Budget::default(),
        found: Found::default(),
        name_bytes: 0,
        work: Work::new(tree),
        classes,
        hidden: Vec::new(),
        seen: vec![false; tree.value_count()],
    };
    let mut name = String::new();
    let mut frames: Vec<Frame> = Vec::new();
    frames.extend(match sort(tree, root) {
        // Values have names of their own, also if there are no tensors.
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
        let module = frame.module.and_then(|module| tree.object(module));
        let is_outermost = frames.len() == 1;
        if !has_tensors && module.is_some_and(|module| !is_scale(tree, module, (part, id))) {
            if sort(tree, id) == Sort::Module
                && walk.is_new(id)
                && walk.push(&mut name, part, is_outermost, false)?
            {
                walk.hide_below(id, &name)?;
            }
            continue;
        }
        if has_tensors && module.is_some_and(|module| walk.is_attribute(module, part, id)) {
            if walk.push(&mut name, part, is_outermost, true)? {
                walk.add_attribute(id, &name)?;
            }
            continue;
        }
        if !walk.push(&mut name, part, is_outermost, has_tensors)? {
            walk.found.dropped.add(&format!("{name}.?"), || "an entry whose key has no text".to_owned());
            continue;
        }
        frames.extend(walk.enter(id, &name)?);
    }
    walk.find_hidden()?;
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
    classes: &'a Classes,
    /// What modules have beside the state dict, by name.
    hidden: Vec<(String, Id)>,
    /// Which values have been entered.
    seen: Vec<bool>,
}

impl Walk<'_> {
    /// Adds a value, and returns what is within it where that has tensors.
    fn enter(&mut self, id: Id, name: &str) -> Result<Option<Frame>> {
        self.count_name(name)?;
        let is_new = self.is_new(id);
        if self.tree.object(id).is_some_and(|object| is_tensor(self.tree, object)) {
            self.found.tensors.push((name.to_owned(), id));
            return Ok(None);
        }
        if self.counts.of(self.tree, id) == 0 {
            self.add_value(id, name);
            if is_new && sort(self.tree, id) == Sort::Module {
                self.hide_below(id, name)?;
            }
            return Ok(None);
        }
        self.descend(id, name).map(Some)
    }

    fn count_name(&mut self, name: &str) -> Result<()> {
        self.name_bytes = self.name_bytes.saturating_add(name.len() as u64);
        if self.name_bytes > BYTES_PER_BYTE * self.tree.pickle_bytes() + FREE_BYTES {
            return Err(Error::limit("the names of the tensors and values take too much memory")
                .expected(format!("at most {BYTES_PER_BYTE} times the pickle's own size")));
        }
        Ok(())
    }

    /// Whether a value is entered for the first time.
    fn is_new(&mut self, id: Id) -> bool {
        let seen = self.tree.index(id).and_then(|index| self.seen.get_mut(index));
        seen.is_some_and(|seen| !std::mem::replace(seen, true))
    }

    /// Whether a field of a TorchScript object is neither a parameter nor a buffer, nor a module, nor what is packed.
    fn is_attribute(&self, module: Object, part: Part, id: Id) -> bool {
        let Part::Key(key) = part else { return false };
        let stated = self.tree.callable(module).and_then(|class| self.classes.fields(class));
        let is_field = |fields: &HashSet<String>| self.tree.text(key).is_some_and(|key| fields.contains(key));
        is_script(self.tree, module)
            && stated.is_some_and(|fields| !is_field(fields))
            && !matches!(sort(self.tree, id), Sort::Module | Sort::Packed)
    }

    fn add_attribute(&mut self, id: Id, name: &str) -> Result<()> {
        self.count_name(name)?;
        self.is_new(id);
        self.found.attributes.push(name.to_owned());
        Ok(())
    }

    /// Finds the attributes of modules that hold tensors which the state dict lacks. Each value is looked at once.
    fn find_hidden(&mut self) -> Result<()> {
        for (name, root) in std::mem::take(&mut self.hidden) {
            let mut open = vec![root];
            let mut holds_tensors = false;
            while let Some(id) = open.pop() {
                if !self.is_new(id) {
                    continue;
                }
                holds_tensors |= self.tree.object(id).is_some_and(|object| is_tensor(self.tree, object));
                self.work.take(self.tree, id)?;
                let within = children(self.tree, id).into_iter().chain(hidden(self.tree, id));
                open.extend(within.map(|(_, id)| id).filter(|id| self.tree.index(*id).is_some()));
            }
            if holds_tensors {
                self.found.attributes.push(name);
            }
        }
        Ok(())
    }

    /// Remembers what the modules within a module have beside their state dicts, of which there is nothing.
    fn hide_below(&mut self, id: Id, name: &str) -> Result<()> {
        let mut open = vec![(id, name.to_owned())];
        while let Some((id, name)) = open.pop() {
            self.work.take(self.tree, id)?;
            self.hide(id, &name)?;
            for (part, child) in children(self.tree, id) {
                let mut full = name.clone();
                if sort(self.tree, child) == Sort::Module
                    && self.is_new(child)
                    && self.push(&mut full, part, name.is_empty(), false)?
                {
                    self.count_name(&full)?;
                    open.push((child, full));
                }
            }
        }
        Ok(())
    }

    fn hide(&mut self, id: Id, name: &str) -> Result<()> {
        for (part, attribute) in hidden(self.tree, id) {
            let is_plain = !can_hold(self.tree, attribute);
            let mut full = name.to_owned();
            if !is_plain && self.push(&mut full, part, name.is_empty(), false)? {
                self.count_name(&full)?;
                self.hidden.push((full, attribute));
            }
        }
        Ok(())
    }

    fn descend(&mut self, id: Id, name: &str) -> Result<Frame> {
        self.work.take(self.tree, id)?;
        let sort = sort(self.tree, id);
        match sort {
            Sort::Module => {
                self.found.modules += 1;
                self.hide(id, name)?;
            }
            Sort::Foreign => {
                self.found.foreign.insert(described(self.tree, id));
            }
            Sort::Container | Sort::Packed | Sort::Leaf => {}
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
        Ok(Frame { children, name_len: name.len(), module: Some(id).filter(|_| sort == Sort::Module) })
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
            Part::Name(name) => Some(Cow::Borrowed(name)),
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
                Part::Name(name) => name.to_owned(),
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
                Part::Name(name) => Some((name.to_owned(), format!(".{name}"))),
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
