//! Lays out files as `h5py` writes them: superblock 0, symbol tables, contiguous datasets, texts in the global heap.
//!
//! All structures come first, in the order of the tree, then the elements, one dataset after the other. So the addresses
//! follow from sizes alone, and elements of any size are written as they come.

mod encode;
mod group;
mod node;
mod texts;

use crate::datatype::Datatype;
use crate::tree::{Attribute, AttributeValue};
use ckpt_api::{Error, Limit, Limits, Result, Shape, Writer};
use encode::{Header, UNDEFINED};
use node::{Content, Node};
use std::collections::BTreeMap;
use texts::Texts;

/// Elements begin at multiples of this, in bytes.
const ALIGNMENT: u64 = 8;
const SUPERBLOCK: u64 = 96;

/// A file that is being put together.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Groups and datasets, each after the group that it is in; the first is the root.
    nodes: Vec<Node>,
    datasets: usize,
}

/// Where everything goes in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of the file.
    pub len: u64,
    /// Bytes that hold no elements, by their offset. What is between them and the elements is zero.
    pub blocks: Vec<(u64, Vec<u8>)>,
    /// Offsets of the elements of each dataset, row-major, in the order in which they were added.
    pub datasets: Vec<u64>,
}

impl Default for Draft {
    fn default() -> Self {
        let root = Node { content: Content::Group(BTreeMap::new()), attributes: Vec::new() };
        Draft { nodes: vec![root], datasets: 0 }
    }
}

impl Draft {
    /// Adds a group, and the groups that it is in, if they are missing. The path of the root is empty.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if a dataset is in the way, or for an impossible name.
    pub fn group(&mut self, path: &str) -> Result<()> {
        self.node(path).map(|_| ())
    }

    /// Adds a dataset, and the groups that it is in. [`Plan::datasets`] has its place at the number of datasets before it.
    ///
    /// # Errors
    /// As [`Draft::group`], and if the path is taken or the datatype is none of numbers or opaque elements.
    pub fn dataset(&mut self, path: &str, datatype: Datatype, shape: Shape) -> Result<()> {
        if !encode::is_written(&datatype) {
            return Err(
                Error::unsupported("the file cannot have elements of this datatype").found(datatype.name())
            );
        }
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        check_name(path, name)?;
        if path.starts_with('/') {
            // A reader would give the name without it.
            check_name(path, "")?;
        }
        let group = self.node(group)?;
        let content = Content::Dataset { number: self.datasets, datatype, shape };
        let id = self.nodes.len();
        match self.members(group) {
            Some(members) if !members.contains_key(name) => members.insert(name.to_owned(), id),
            _ => return Err(taken(path)),
        };
        self.nodes.push(Node { content, attributes: Vec::new() });
        self.datasets += 1;
        Ok(())
    }

    /// Adds an attribute to the group or dataset at a path; a group is added if there is none.
    ///
    /// # Errors
    /// As [`Draft::group`], and for a value that is neither a text nor a list of texts.
    pub fn attribute(&mut self, path: &str, name: &str, value: AttributeValue) -> Result<()> {
        if let AttributeValue::Other(datatype) = &value {
            return Err(Error::unsupported("the file cannot have an attribute of this datatype")
                .found(datatype.name()));
        }
        let id = match self.find(path) {
            Some(id) => id,
            None => self.node(path)?,
        };
        if let Some(node) = self.nodes.get_mut(id) {
            node.attributes.push(Attribute { name: name.to_owned(), value });
        }
        Ok(())
    }

    fn find(&self, path: &str) -> Option<usize> {
        let mut id = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match &self.nodes.get(id)?.content {
                Content::Group(members) => id = *members.get(name)?,
                Content::Dataset { .. } => return None,
            }
        }
        Some(id)
    }

    fn members(&mut self, id: usize) -> Option<&mut BTreeMap<String, usize>> {
        match &mut self.nodes.get_mut(id)?.content {
            Content::Group(members) => Some(members),
            Content::Dataset { .. } => None,
        }
    }

    /// Returns the group at a path, which is made if it is missing.
    fn node(&mut self, path: &str) -> Result<usize> {
        let mut id = 0;
        for name in path.split('/').filter(|_| !path.is_empty()) {
            check_name(path, name)?;
            let next = self.nodes.len();
            let members = self.members(id).ok_or_else(|| taken(path))?;
            id = *members.entry(name.to_owned()).or_insert(next);
            if id == next {
                self.nodes.push(Node { content: Content::Group(BTreeMap::new()), attributes: Vec::new() });
            }
        }
        match self.members(id) {
            Some(_) => Ok(id),
            None => Err(taken(path)),
        }
    }

    /// Decides where everything goes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for what the format cannot count, such as an attribute above 64 KiB.
    pub fn place(&self) -> Result<Plan> {
        let placed = Placed::of(self)?;
        let mut bytes = Writer::new();
        self.superblock(&placed, &mut bytes);
        for node in &placed.nodes {
            let own = self.nodes.get(node.id).ok_or_else(|| Error::defect("no such object"))?;
            self.write(&placed, node, own, &mut bytes)?;
        }
        bytes.bytes(&placed.texts.bytes());
        let datasets = placed.elements.iter().map(|(offset, _)| *offset).collect();
        Ok(Plan { len: placed.len, blocks: vec![(0, bytes.into_bytes())], datasets })
    }

    fn superblock(&self, placed: &Placed, bytes: &mut Writer) {
        bytes.bytes(&crate::format::SIGNATURE).bytes(&[0, 0, 0, 0, 0, 8, 8, 0]);
        bytes.numbers(&[group::HALF_SYMBOLS as u16, group::HALF_CHILDREN as u16]).number(0u32);
        bytes.numbers(&[0, UNDEFINED, placed.len, UNDEFINED]);
        let root = placed.nodes.first().map(|root| root.at).unwrap_or_default();
        // The name, and the header; both addresses of the symbol table are here, too.
        let table = group::Places::after(root + placed.header_len(0));
        bytes.numbers(&[0, root]).numbers(&[1u32, 0]).numbers(&[table.tree, table.heap]);
    }

    fn write(&self, placed: &Placed, place: &NodePlace, node: &Node, bytes: &mut Writer) -> Result<()> {
        let mut header = Header::default();
        match &node.content {
            Content::Group(members) => {
                let places = group::Places::after(place.at + placed.header_len(place.id));
                header.symbol_table(places.tree, places.heap);
                self.attributes(placed, place.id, node, &mut header)?;
                bytes.bytes(&header.bytes()?);
                let symbols = members.iter().map(|(name, id)| group::Symbol {
                    name,
                    header: placed.at(*id),
                    table: self
                        .is_group(*id)
                        .then(|| group::Places::after(placed.at(*id) + placed.header_len(*id))),
                });
                bytes.bytes(&group::bytes(&symbols.collect::<Vec<_>>(), &places));
            }
            Content::Dataset { number, datatype, shape } => {
                let (offset, len) = placed.elements.get(*number).copied().unwrap_or_default();
                header.dataset(datatype, shape, if len == 0 { UNDEFINED } else { offset }, len);
                self.attributes(placed, place.id, node, &mut header)?;
                bytes.bytes(&header.bytes()?);
            }
        }
        Ok(())
    }

    fn attributes(&self, placed: &Placed, id: usize, node: &Node, header: &mut Header) -> Result<()> {
        let mut references = placed.texts.of(id);
        for attribute in &node.attributes {
            header.attribute(attribute, &mut references).map_err(|error| error.field(&attribute.name))?;
        }
        Ok(())
    }

    fn is_group(&self, id: usize) -> bool {
        self.nodes.get(id).is_some_and(|node| matches!(node.content, Content::Group(_)))
    }
}

fn check_name(path: &str, name: &str) -> Result<()> {
    let limits = Limits::default();
    let is_possible = !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
    match is_possible && limits.check(Limit::NameBytes, path.len() as u64).is_ok() {
        true => Ok(()),
        false => Err(Error::unsupported("an HDF5 file cannot have an object of this name")
            .found(format!("'{path}'"))
            .help("give the tensor another name with a mapping, or exclude it")),
    }
}

fn taken(path: &str) -> Error {
    Error::unsupported("two objects of the file would have one path")
        .found(format!("'{path}'"))
        .help("a group and a tensor cannot have the same name: give the tensor another one with a mapping")
}

/// Where a node goes.
struct NodePlace {
    id: usize,
    /// Offset of its object header.
    at: u64,
}

/// Where everything goes.
struct Placed {
    /// Each group before its members, in the order of names.
    nodes: Vec<NodePlace>,
    /// By the number of the node.
    offsets: Vec<u64>,
    header_lens: Vec<u64>,
    texts: Texts,
    /// Offset and length of the elements of each dataset.
    elements: Vec<(u64, u64)>,
    len: u64,
}

impl Placed {
    fn of(draft: &Draft) -> Result<Self> {
        let count = draft.nodes.len();
        let mut placed = Placed {
            nodes: Vec::with_capacity(count),
            offsets: vec![0; count],
            header_lens: vec![0; count],
            texts: Texts::default(),
            elements: vec![(0, 0); draft.datasets],
            len: 0,
        };
        let mut at = SUPERBLOCK;
        let mut waiting = vec![0];
        while let Some(id) = waiting.pop() {
            let Some(node) = draft.nodes.get(id) else { continue };
            placed.nodes.push(NodePlace { id, at });
            let len = encode::header_len(&node.content, &node.attributes)?;
            for (place, value) in [(placed.offsets.get_mut(id), at), (placed.header_lens.get_mut(id), len)] {
                if let Some(place) = place {
                    *place = value;
                }
            }
            placed.texts.add(id, &node.attributes)?;
            at = at.checked_add(len).ok_or_else(too_large)?;
            if let Content::Group(members) = &node.content {
                at = at.checked_add(group::len(members.keys().map(String::as_str))).ok_or_else(too_large)?;
                waiting.extend(members.values().rev());
            }
        }
        at = placed.texts.place(at);
        for node in &draft.nodes {
            let Content::Dataset { number, datatype, shape } = &node.content else { continue };
            let len = datatype
                .bytes()
                .and_then(|bytes| shape.elements().checked_mul(bytes))
                .ok_or_else(too_large)?;
            at = at.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
            if let Some(place) = placed.elements.get_mut(*number) {
                *place = (at, len);
            }
            at = at.checked_add(len).ok_or_else(too_large)?;
        }
        placed.len = at;
        Ok(placed)
    }

    fn at(&self, id: usize) -> u64 {
        self.offsets.get(id).copied().unwrap_or_default()
    }

    fn header_len(&self, id: usize) -> u64 {
        self.header_lens.get(id).copied().unwrap_or_default()
    }
}

fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}

#[cfg(test)]
mod tests;
