//! A group or dataset that is to be written.

use crate::datatype::Datatype;
use crate::tree::Attribute;
use ckpt_api::Shape;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Members by name.
    Group(BTreeMap<String, usize>),
    Dataset {
        number: usize,
        datatype: Datatype,
        shape: Shape,
    },
}
