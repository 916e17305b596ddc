//! A small writer of tables and bundles for tests, independent of the codec's.

use ckpt_api::{Contents, Input, MetadataValue, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub type Files = BTreeMap<String, Vec<u8>>;
pub type Values = BTreeMap<String, Vec<u8>>;

/// Properties of a table.
#[derive(Clone, Copy)]
pub struct Layout {
    pub restart_interval: usize,
    pub entries_per_block: usize,
    pub snappy: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { restart_interval: 16, entries_per_block: usize::MAX, snappy: false }
    }
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

pub fn number(field: u64, value: u64) -> Vec<u8> {
    if value == 0 { Vec::new() } else { [varint(field << 3), varint(value)].concat() }
}

pub fn message(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// The contents of a block: entries and restart points.
pub fn block(entries: &[(Vec<u8>, Vec<u8>)], restart_interval: usize) -> Vec<u8> {
    let (mut bytes, mut restarts, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (position, (key, value)) in entries.iter().enumerate() {
        let mut shared = key.iter().zip(&last).take_while(|(a, b)| a == b).count();
        if position % restart_interval == 0 {
            restarts.push(u32::try_from(bytes.len()).unwrap());
            shared = 0;
        }
        for value in [shared, key.len() - shared, value.len()] {
            bytes.extend(varint(value as u64));
        }
        bytes.extend(&key[shared..]);
        bytes.extend(value);
        last.clone_from(key);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    with_restarts(bytes, &restarts)
}

pub fn with_restarts(mut entries: Vec<u8>, restarts: &[u32]) -> Vec<u8> {
    for restart in restarts {
        entries.extend(restart.to_le_bytes());
    }
    entries.extend(u32::try_from(restarts.len()).unwrap().to_le_bytes());
    entries
}

/// A table of blocks, which are given by their separators and contents.
pub fn table_of(blocks: &[(Vec<u8>, Vec<u8>)], kind: u8) -> Vec<u8> {
    let mut file = Vec::new();
    let mut index = Vec::new();
    let put = |file: &mut Vec<u8>, contents: &[u8], kind: u8| {
        let offset = file.len() as u64;
        let stored = match kind {
            1 => snap::raw::Encoder::new().compress_vec(contents).unwrap(),
            _ => contents.to_vec(),
        };
        file.extend(&stored);
        file.push(kind);
        let crc = mask(crc32c::crc32c(&file[usize::try_from(offset).unwrap()..]));
        file.extend(crc.to_le_bytes());
        [varint(offset), varint(stored.len() as u64)].concat()
    };
    for (separator, contents) in blocks {
        let handle = put(&mut file, contents, kind);
        index.push((separator.clone(), handle));
    }
    let meta = put(&mut file, &block(&[], 1), 0);
    let handle = put(&mut file, &block(&index, 1), kind.min(1));
    let mut footer = [meta, handle].concat();
    footer.resize(40, 0);
    file.extend(footer);
    file.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    file
}

pub fn table(entries: &[(Vec<u8>, Vec<u8>)], layout: Layout) -> Vec<u8> {
    let chunks = entries.chunks(layout.entries_per_block.min(entries.len().max(1)));
    let mut blocks: Vec<_> = chunks
        .map(|chunk| (chunk.last().unwrap().0.clone(), block(chunk, layout.restart_interval)))
        .collect();
    // Shortened as TensorFlow does: the keys here begin with a byte that can be incremented.
    if let Some((last, _)) = blocks.last_mut() {
        *last = last.first().map(|first| first + 1).into_iter().collect();
    }
    table_of(&blocks, u8::from(layout.snappy))
}

/// A bundle of one shard.
#[derive(Clone)]
pub struct Bundle {
    pub header: Vec<u8>,
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub data: Vec<u8>,
    pub layout: Layout,
    pub big_endian: bool,
}

pub fn bundle() -> Bundle {
    Bundle {
        header: vec![0x08, 0x01, 0x1a, 0x02, 0x08, 0x01],
        entries: BTreeMap::new(),
        data: Vec::new(),
        layout: Layout::default(),
        big_endian: false,
    }
}

pub fn shape(dims: &[u64]) -> Vec<u8> {
    dims.iter().flat_map(|dim| message(2, &number(1, *dim))).collect()
}

pub fn entry(dtype: u64, dims: &[u64], shard: u64, offset: u64, size: u64, crc: u32) -> Vec<u8> {
    let mut bytes = [number(1, dtype), message(2, &shape(dims)), number(3, shard)].concat();
    bytes.extend([number(4, offset), number(5, size)].concat());
    bytes.push(6 << 3 | 5);
    bytes.extend(crc.to_le_bytes());
    bytes
}

impl Bundle {
    /// Declares the bundle big-endian.
    pub fn big_endian(mut self) -> Self {
        self.header = vec![0x08, 0x01, 0x10, 0x01, 0x1a, 0x02, 0x08, 0x01];
        self.big_endian = true;
        self
    }

    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    pub fn raw(mut self, key: impl Into<Vec<u8>>, entry: Vec<u8>) -> Self {
        self.entries.insert(key.into(), entry);
        self
    }

    /// A tensor of elements of fixed size.
    pub fn tensor(mut self, key: impl Into<Vec<u8>>, dtype: u64, dims: &[u64], bytes: &[u8]) -> Self {
        let offset = self.data.len() as u64;
        self.data.extend(bytes);
        let crc = mask(crc32c::crc32c(bytes));
        self.raw(key, entry(dtype, dims, 0, offset, bytes.len() as u64, crc))
    }

    pub fn floats(self, key: &str, dims: &[u64], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(key, 1, dims, &bytes)
    }

    pub fn strings(self, key: impl Into<Vec<u8>>, dims: &[u64], strings: &[&[u8]]) -> Self {
        let (mut bytes, mut crc) = (Vec::new(), 0);
        for string in strings {
            bytes.extend(varint(string.len() as u64));
            let len = u32::try_from(string.len()).unwrap();
            let len = if self.big_endian { len.to_be_bytes() } else { len.to_le_bytes() };
            crc = crc32c::crc32c_append(crc, &len);
        }
        let stored = if self.big_endian { mask(crc).to_be_bytes() } else { mask(crc).to_le_bytes() };
        let body = strings.concat();
        bytes.extend(stored);
        bytes.extend(&body);
        crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &stored), &body);
        self.with_crc(key, 7, dims, &bytes, crc)
    }

    pub fn variants(self, key: &str, dims: &[u64], elements: &[&[u8]]) -> Self {
        let (mut bytes, mut crc) = (Vec::new(), 0);
        for element in elements {
            bytes.extend(varint(element.len() as u64));
            crc = crc32c::crc32c_append(crc, &(element.len() as u64).to_le_bytes());
            bytes.extend(*element);
            crc = crc32c::crc32c_append(crc, element);
            let stored = mask(crc).to_le_bytes();
            bytes.extend(stored);
            crc = crc32c::crc32c_append(crc, &stored);
        }
        self.with_crc(key, 21, dims, &bytes, crc)
    }

    fn with_crc(mut self, key: impl Into<Vec<u8>>, dtype: u64, dims: &[u64], bytes: &[u8], crc: u32) -> Self {
        let offset = self.data.len() as u64;
        self.data.extend(bytes);
        self.raw(key, entry(dtype, dims, 0, offset, bytes.len() as u64, mask(crc)))
    }

    /// The entry of a partitioned tensor. Slices are given as (start, length) for each axis, all below 64.
    pub fn partitioned(self, key: &str, dtype: u64, dims: &[u64], slices: &[&[(u8, u8)]]) -> Self {
        let mut bytes = [number(1, dtype), message(2, &shape(dims))].concat();
        for slice in slices {
            let extents = slice.iter().flat_map(|(start, len)| {
                // A length of zero is written, since its absence means the whole axis.
                let length = [vec![2 << 3], varint(u64::from(*len))].concat();
                message(1, &[number(1, u64::from(*start)), length].concat())
            });
            bytes.extend(message(7, &extents.collect::<Vec<u8>>()));
        }
        self.raw(key, bytes)
    }

    pub fn index(&self) -> Vec<u8> {
        let mut entries = vec![(Vec::new(), self.header.clone())];
        entries.extend(self.entries.clone());
        table(&entries, self.layout)
    }

    pub fn files(&self, prefix: &str) -> Files {
        BTreeMap::from([
            (format!("{prefix}.index"), self.index()),
            (format!("{prefix}.data-00000-of-00001"), self.data.clone()),
        ])
    }

    pub fn input(&self) -> Input {
        Input::memory("m", self.files("m"))
    }

    pub fn read(&self) -> Result<(Contents, Values)> {
        read(&self.input(), &[])
    }
}

/// The key of a slice, given as (start, length) for each axis, all below 64.
pub fn slice_key(name: &str, slice: &[(u8, u8)]) -> Vec<u8> {
    let mut key = vec![0];
    key.extend(name.as_bytes());
    key.extend([0, 1, 1, u8::try_from(slice.len()).unwrap()]);
    key.extend(slice.iter().flat_map(|(start, len)| [0x80 | start, 0x80 | len]));
    key
}

pub fn read(input: &Input, options: &[(&str, &str)]) -> Result<(Contents, Values)> {
    let options: Vec<_> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (contents, values) = ckpt_conformance::read(&ckpt_tf2::Tf2, input, &options)?;
    let names = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string());
    let values = names.zip(values).collect();
    Ok((contents, values))
}

/// A value of metadata that is given as JSON.
pub fn recorded(json: &Value) -> MetadataValue {
    serde_json::from_value(json.clone()).unwrap()
}

/// All cases: name, directory, expected values; `None` if `CKPT_CASES` is not set.
pub fn cases() -> Option<Vec<(String, PathBuf, Value)>> {
    let Some(root) = std::env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES is not set");
        return None;
    };
    let root = PathBuf::from(root).join("tf2");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut cases: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .map(|path| {
            let text = std::fs::read_to_string(path.join("expected.json")).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, path, serde_json::from_str(&text).unwrap())
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!cases.is_empty(), "CKPT_CASES holds no tf2 cases");
    Some(cases)
}
