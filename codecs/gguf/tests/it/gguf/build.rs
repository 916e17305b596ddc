//! Builds GGUF files byte by byte, without the codec.

use ckpt_api::{Contents, Input, Limits, Options, Result, Side};
use ckpt_gguf::Gguf;
use std::collections::BTreeMap;

/// Numbers of the types.
pub const F32: u32 = 0;
pub const F16: u32 = 1;
pub const Q8_0: u32 = 8;
pub const I8: u32 = 24;

/// A file to build, little-endian.
#[derive(Clone, Default)]
pub struct Build {
    pub version: u32,
    pub keys: Vec<Vec<u8>>,
    pub tensors: Vec<Tensor>,
    /// Multiple at which data begins.
    pub alignment: usize,
    pub is_unpadded: bool,
}

/// A tensor: its dimensions are those of the file, fastest first.
#[derive(Clone)]
pub struct Tensor {
    pub name: Vec<u8>,
    pub dims: Vec<u64>,
    pub kind: u32,
    /// `None` for the one that follows from the tensors before.
    pub offset: Option<u64>,
    pub data: Vec<u8>,
}

pub fn tensor(name: &str, dims: &[u64], kind: u32, data: impl Into<Vec<u8>>) -> Tensor {
    Tensor { name: name.into(), dims: dims.to_vec(), kind, offset: None, data: data.into() }
}

pub fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Two blocks of Q8_0: a scale of 0.5, and integers from -16 on; a scale of 2, and the same.
pub fn q8_0() -> (Vec<u8>, Vec<f32>) {
    let integers = || (-16i8..16).map(|integer| integer as u8);
    let blocks = [0x3800u16, 0x4000]
        .map(|scale| scale.to_le_bytes().into_iter().chain(integers()).collect::<Vec<u8>>());
    let numbers =
        [0.5f32, 2.0].map(|scale| (-16i8..16).map(|integer| scale * f32::from(integer)).collect::<Vec<_>>());
    (blocks.concat(), numbers.concat())
}

pub fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// A key, and a value of this type.
pub fn key(name: &str, kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    [&string(name.as_bytes())[..], &kind.to_le_bytes(), value.as_ref()].concat()
}

/// The value of an array.
pub fn array(element: u32, count: u64, elements: impl AsRef<[u8]>) -> Vec<u8> {
    [&element.to_le_bytes()[..], &count.to_le_bytes(), elements.as_ref()].concat()
}

impl Build {
    pub fn new(keys: Vec<Vec<u8>>, tensors: Vec<Tensor>) -> Self {
        Build { version: 3, keys, tensors, alignment: 32, is_unpadded: false }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.with_counts(self.tensors.len() as u64, self.keys.len() as u64)
    }

    /// The file, which states these numbers of tensors and keys.
    pub fn with_counts(&self, tensors: u64, keys: u64) -> Vec<u8> {
        let mut bytes = self.header(tensors, keys);
        for tensor in &self.tensors {
            bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
            bytes.extend(&tensor.data);
        }
        if !self.is_unpadded {
            bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        }
        bytes
    }

    /// What precedes the data, without padding.
    pub fn header(&self, tensors: u64, keys: u64) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(keys.to_le_bytes());
        self.keys.iter().for_each(|key| bytes.extend(key));
        let mut next = 0;
        for tensor in &self.tensors {
            bytes.extend(string(&tensor.name));
            bytes.extend((tensor.dims.len() as u32).to_le_bytes());
            bytes.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            bytes.extend(tensor.kind.to_le_bytes());
            bytes.extend(tensor.offset.unwrap_or(next).to_le_bytes());
            next += tensor.data.len().next_multiple_of(self.alignment) as u64;
        }
        bytes
    }
}

pub fn read(bytes: Vec<u8>) -> Result<Contents> {
    read_with(bytes, &[])
}

pub fn read_with(bytes: Vec<u8>, options: &[(&str, &str)]) -> Result<Contents> {
    read_all("m.gguf", BTreeMap::from([("m.gguf".to_owned(), bytes)]), options)
}

pub fn read_all(entry: &str, files: BTreeMap<String, Vec<u8>>, options: &[(&str, &str)]) -> Result<Contents> {
    use ckpt_api::Codec;
    let pairs: Vec<(String, String)> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = Options::parse("gguf", Gguf.info().options, Side::Read, &pairs)?;
    let contents = Gguf.read(&Input::memory(entry, files), &options, &Limits::default())?;
    contents.check(&Limits::default())?;
    Ok(contents)
}
