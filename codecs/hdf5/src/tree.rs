//! What a file holds: groups, datasets and attributes.

use crate::datatype::Datatype;
use ckpt_api::{Decoder, Error, Extent, Shape, Window};

/// What a file holds.
#[derive(Debug, Default)]
pub struct Tree {
    /// All groups, each before its members; the first is the root, whose path is empty.
    pub groups: Vec<Group>,
    /// All datasets, in the order of their paths' names, group by group.
    pub datasets: Vec<Dataset>,
    /// Objects that are left out.
    pub left: Vec<Left>,
    /// Bytes before the superblock.
    pub user_block: u64,
    /// Offset of the end, as the superblock states it: what follows does not belong to the file.
    pub end: u64,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Names from the root, joined with `/`.
    pub path: String,
    /// Its attributes, by name.
    pub attributes: Vec<Attribute>,
}

/// A dataset.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Names from the root, joined with `/`.
    pub path: String,
    /// How elements are stored.
    pub datatype: Datatype,
    /// Lengths of its axes; the last is the fastest.
    pub shape: Shape,
    /// Where the elements are; nowhere for a datatype without a size.
    pub stored: Stored,
    /// Its attributes, by name.
    pub attributes: Vec<Attribute>,
}

/// Where the elements of a dataset are.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Pieces in the file, whose number is 0: one, or a box for each chunk.
    pub extents: Vec<Extent>,
    /// If chunks are larger than the dataset, which box of them it is.
    pub window: Option<Window>,
}

impl Stored {
    pub(crate) fn new(extents: Vec<Extent>) -> Self {
        Stored { extents, window: None }
    }
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of an attribute. Texts are bytes: `h5py` stores UTF-8, and other programs what they like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// One text.
    Text(Vec<u8>),
    /// A list of texts; an empty list of anything is one, too.
    Texts(Vec<Vec<u8>>),
    /// Something else, which is not read.
    Other(Datatype),
}

impl AttributeValue {
    /// Returns the text, if it is one and UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            AttributeValue::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The texts.
    pub(crate) fn texts(&self) -> &[Vec<u8>] {
        match self {
            AttributeValue::Text(text) => std::slice::from_ref(text),
            AttributeValue::Texts(texts) => texts,
            AttributeValue::Other(_) => &[],
        }
    }
}

/// An object that is left out.
#[derive(Debug)]
pub struct Left {
    /// Names from the root, joined with `/`.
    pub path: String,
    /// Why.
    pub error: Error,
    /// Whether something is missing without it; a second name of an object and a soft link miss nothing.
    pub has_content: bool,
}

/// Looks up an attribute by its name.
pub fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a AttributeValue> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
}

/// Whether an extent has the same bytes again and again, which are elsewhere.
pub(crate) fn is_repeated(extent: &Extent) -> bool {
    extent.compression().is_some_and(|compression| compression.decoder() == Decoder::REPEATED.name())
}
