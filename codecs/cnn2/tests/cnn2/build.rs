//! Builds CNN2 files byte by byte, independently of the codec.

use ckpt_api::{Checkpoint, Codec, Contents, Error, Input, Options, OutputLayout, Result, Side};
use ckpt_cnn2::Cnn2;
use std::collections::BTreeMap;

/// `[kernel, in, out]` of the format's own example.
pub const EXAMPLE: [[u32; 3]; 3] = [[3, 15, 8], [3, 8, 4], [3, 4, 3]];
/// Kernels 1×1, 3×3 and 5×5, static features in the second layer, and an odd number of weights.
pub const MIXED: [[u32; 3]; 3] = [[1, 8, 1], [3, 9, 1], [5, 1, 8]];

/// The fields of a file, which a test can change.
#[derive(Clone)]
pub struct Parts {
    pub magic: [u8; 4],
    pub version: u32,
    pub layers: u32,
    pub total: u32,
    /// Written if it is given, whatever the version.
    pub mip: Option<u32>,
    /// kernel_size, in_channels, out_channels, weight_offset, weight_count.
    pub table: Vec<[u32; 5]>,
    pub weights: Vec<u16>,
    /// The bytes after the weights.
    pub rest: Vec<u8>,
}

impl Parts {
    /// A padded file of version 1 whose weights all differ.
    pub fn of(layers: &[[u32; 3]]) -> Self {
        let mut total = 0;
        let mut table = Vec::new();
        for [kernel, inputs, outputs] in layers.iter().copied() {
            let count = kernel * kernel * inputs * outputs;
            table.push([kernel, inputs, outputs, total, count]);
            total += count;
        }
        Parts {
            magic: *b"CNN2",
            version: 1,
            layers: layers.len() as u32,
            total,
            mip: None,
            table,
            weights: (0..total).map(|k| 0x3c00 + k as u16).collect(),
            rest: vec![0; (total % 2) as usize * 2],
        }
    }

    pub fn version_2(mut self, mip: u32) -> Self {
        self.version = 2;
        self.mip = Some(mip);
        self
    }

    pub fn unpadded(mut self) -> Self {
        self.rest.clear();
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        let numbers = [self.version, self.layers, self.total].into_iter().chain(self.mip);
        for number in numbers.chain(self.table.iter().flatten().copied()) {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.weights.iter().flat_map(|weight| weight.to_le_bytes()));
        bytes.extend(&self.rest);
        bytes
    }
}

pub fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn input(bytes: &[u8]) -> Input {
    Input::memory("cnn.bin", BTreeMap::from([("cnn.bin".to_owned(), bytes.to_vec())]))
}

pub fn read(bytes: &[u8], options: &[(&str, &str)]) -> Result<(Contents, Vec<Vec<u8>>)> {
    ckpt_conformance::read(&Cnn2, &input(bytes), &pairs(options))
}

pub fn write(checkpoint: &Checkpoint, values: &[Vec<u8>], options: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut files = ckpt_conformance::write(&Cnn2, checkpoint, values, "cnn.bin", &pairs(options))?;
    let bytes = files.remove("cnn.bin").expect("the file has the name that was asked for");
    assert!(files.is_empty(), "only one file is written");
    Ok(bytes)
}

/// Reads and writes again.
pub fn rewrite(bytes: &[u8], reading: &[(&str, &str)], writing: &[(&str, &str)]) -> Result<Vec<u8>> {
    let (contents, values) = read(bytes, reading)?;
    write(&contents.checkpoint, &values, writing)
}

pub fn place(checkpoint: &Checkpoint, options: &[(&str, &str)]) -> Result<OutputLayout> {
    let options = Options::parse("cnn2", Cnn2.info().options, Side::Write, &pairs(options))?;
    let placed = Cnn2.place(checkpoint, "cnn.bin", &options)?;
    placed.check(checkpoint)?;
    Ok(placed)
}

/// The error of strict reading, and the repairs of lenient reading, or `None` if that fails as well.
pub fn refused(parts: &Parts) -> (Error, Option<Vec<String>>) {
    let bytes = parts.bytes();
    let error = read(&bytes, &[]).expect_err("a strict reading refuses it");
    let mended = read(&bytes, &[("lenient", "true")]).ok();
    let repairs = mended.map(|(contents, _)| contents.repairs);
    (error, repairs.map(|repairs| repairs.into_iter().map(|repair| repair.detail).collect()))
}
