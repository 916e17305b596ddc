//! SavedModels of a few variables: what is beside their tensors, in protocol buffers made field by field.

mod fields;
mod functions;
mod objects;

use crate::table;
use arbitrary::{Result, Unstructured};
use ckpt_api::Input;
use fields::{VARIABLES, message, number};
use std::collections::BTreeMap;

/// What is beside the tensors; of no bytes, a file is not there.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// `_CHECKPOINTABLE_OBJECT_GRAPH`.
    pub objects: Vec<u8>,
    /// `saved_model.pb`.
    pub model: Vec<u8>,
    /// `keras_metadata.pb`.
    pub metadata: Vec<u8>,
}

impl Parts {
    /// Chains of layers with a fault now and then.
    ///
    /// # Errors
    /// Where the input ends.
    pub fn arbitrary(u: &mut Unstructured) -> Result<Self> {
        let model = if u.ratio(2, 3)? { functions::model(u)? } else { Vec::new() };
        let (objects, metadata) = objects::objects(u)?;
        Ok(Parts { objects, model, metadata })
    }

    /// `u32 little-endian length · bytes` of the first two, the rest is the third.
    pub fn split(bytes: &[u8]) -> Self {
        let (objects, rest) = crate::inputs::prefixed(bytes);
        let (model, metadata) = crate::inputs::prefixed(rest);
        Parts { objects: objects.to_vec(), model: model.to_vec(), metadata: metadata.to_vec() }
    }

    /// The SavedModel.
    pub fn input(&self) -> Input {
        let mut data = Vec::new();
        let mut entries = BTreeMap::from([(Vec::new(), table::HEADER.to_vec())]);
        for (key, dims) in VARIABLES {
            let value = vec![0; dims.iter().product::<u64>() as usize * 4];
            let crc = crc32c::crc32c(&value);
            entries.insert(key.into(), entry(1, dims, data.len(), value.len(), crc));
            data.extend(value);
        }
        let (value, crc) = text(&self.objects);
        let key = b"_CHECKPOINTABLE_OBJECT_GRAPH".to_vec();
        entries.insert(key, entry(7, &[], data.len(), value.len(), crc));
        data.extend(value);
        let mut files = BTreeMap::from([
            ("variables/variables.index".to_owned(), table::canonical(&entries)),
            ("variables/variables.data-00000-of-00001".to_owned(), data),
        ]);
        let beside = [("saved_model.pb", &self.model), ("keras_metadata.pb", &self.metadata)];
        let there = beside.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        files.extend(there.map(|(name, bytes)| (name.to_owned(), bytes.clone())));
        Input::memory("", files)
    }
}

/// An entry of the index.
fn entry(dtype: u64, dims: &[u64], offset: usize, size: usize, crc: u32) -> Vec<u8> {
    let dims = dims.iter().map(|dim| message(2, &number(1, *dim))).collect::<Vec<_>>().concat();
    let place = [number(4, offset as u64), number(5, size as u64)].concat();
    let crc = [&[0x35][..], &table::mask(crc).to_le_bytes()].concat();
    [number(1, dtype), message(2, &dims), place, crc].concat()
}

/// The stored bytes of a string tensor of one element, and their checksum.
fn text(element: &[u8]) -> (Vec<u8>, u32) {
    let crc = crc32c::crc32c(&(element.len() as u32).to_le_bytes());
    let body = [&table::mask(crc).to_le_bytes()[..], element].concat();
    ([table::varint(element.len()), body.clone()].concat(), crc32c::crc32c_append(crc, &body))
}
