//! Builds arrays and archives byte by byte, independently of the codec.

use ckpt_api::{Checkpoint, Codec, Contents, Error, Input, Options, OutputLayout, Result, Side};
use ckpt_npz::Npz;
use flate2::write::DeflateEncoder;
use std::collections::BTreeMap;
use std::io::Write as _;

/// A header as NumPy 2 writes it, for a dict of its making.
pub fn header(descr: &str, fortran: bool, shape: &str, growth: usize) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let mut text = dict + &" ".repeat(growth);
    text += &" ".repeat(64 - (10 + text.len() + 1) % 64);
    text.push('\n');
    versioned(1, &text)
}

/// A header of any version and text.
pub fn versioned(version: u8, text: &str) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let len = text.len() as u32;
    bytes.extend(&len.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    bytes.extend(text.as_bytes());
    bytes
}

/// `[2, 3]` of f32, row-major.
pub fn matrix() -> Vec<u8> {
    let mut bytes = header("<f4", false, "(2, 3)", 20);
    bytes.extend((0..6).flat_map(|k| (k as f32).to_le_bytes()));
    bytes
}

/// The same numbers, big-endian and column-major.
pub fn turned() -> Vec<u8> {
    let mut bytes = header(">f4", true, "(2, 3)", 20);
    bytes.extend([0, 3, 1, 4, 2, 5].iter().flat_map(|k| (*k as f32).to_be_bytes()));
    bytes
}

/// `[4]` of i8, by Python 2.
pub fn old() -> Vec<u8> {
    let mut bytes = versioned(2, "{'shape': (4L,), 'descr': '|i1', 'fortran_order': False}");
    bytes.extend([1, 255, 3, 128]);
    bytes
}

/// One member, each field of which a test can change.
#[derive(Clone)]
pub struct Member {
    pub name: Vec<u8>,
    pub data: Vec<u8>,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    pub local_name: Vec<u8>,
    pub local_crc: u32,
    pub local_len: u64,
    pub compressed: u64,
    pub len: u64,
    /// Where the directory says that it is.
    pub at: Option<u32>,
    pub disk: u16,
}

impl Member {
    pub fn new(name: &str, data: Vec<u8>) -> Self {
        let (len, crc) = (data.len() as u64, crc32fast::hash(&data));
        let name = name.as_bytes().to_vec();
        Member {
            local_name: name.clone(),
            flags: if name.is_ascii() { 0 } else { 1 << 11 },
            name,
            data,
            method: 0,
            crc,
            local_crc: crc,
            local_len: len,
            compressed: len,
            len,
            at: None,
            disk: 0,
        }
    }

    /// The same array, deflated.
    pub fn deflated(mut self) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&self.data).unwrap();
        self.data = encoder.finish().unwrap();
        (self.compressed, self.method) = (self.data.len() as u64, 8);
        self
    }

    fn local(&self) -> Vec<u8> {
        let mut out = b"PK\x03\x04\x2d\0".to_vec();
        for number in [self.flags, self.method, 0, 33] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.local_crc.to_le_bytes());
        out.extend([0xff; 8]);
        out.extend((self.local_name.len() as u16).to_le_bytes());
        out.extend([20, 0]);
        out.extend(&self.local_name);
        out.extend([1, 0, 16, 0]);
        out.extend(self.local_len.to_le_bytes());
        out.extend(self.compressed.to_le_bytes());
        out
    }

    fn central(&self, at: u32) -> Vec<u8> {
        let mut out = b"PK\x01\x02\x2d\x03\x2d\0".to_vec();
        for number in [self.flags, self.method, 0, 33] {
            out.extend(number.to_le_bytes());
        }
        for number in [self.crc, self.compressed as u32, self.len as u32] {
            out.extend(number.to_le_bytes());
        }
        for number in [self.name.len() as u16, 0, 0, self.disk, 0] {
            out.extend(number.to_le_bytes());
        }
        for number in [0o600 << 16, self.at.unwrap_or(at)] {
            out.extend(number.to_le_bytes());
        }
        out.extend(&self.name);
        out
    }
}

/// The members, the central directory, the end.
pub fn archive(members: &[Member]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        directory.extend(member.central(out.len() as u32));
        out.extend(member.local());
        out.extend(&member.data);
    }
    let (count, start, size) = (members.len() as u16, out.len() as u32, directory.len() as u32);
    out.extend(directory);
    out.extend(end(count, size, start));
    out
}

/// The end of an archive.
pub fn end(count: u16, size: u32, start: u32) -> Vec<u8> {
    let mut out = b"PK\x05\x06\0\0\0\0".to_vec();
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

/// The same archive with 64-bit numbers at its end.
pub fn with_end64(mut archive: Vec<u8>) -> Vec<u8> {
    let end = archive.split_off(archive.len() - 22);
    let number = |at: usize, len: usize| {
        end[at..at + len].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (count, size, start) = (number(10, 2), number(12, 4), number(16, 4));
    let at = archive.len() as u64;
    archive.extend(b"PK\x06\x06");
    archive.extend(44u64.to_le_bytes());
    archive.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [count, count, size, start] {
        archive.extend(number.to_le_bytes());
    }
    archive.extend(b"PK\x06\x07\0\0\0\0");
    archive.extend(at.to_le_bytes());
    archive.extend([1, 0, 0, 0]);
    archive.extend(self::end(u16::MAX, u32::MAX, u32::MAX));
    archive
}

/// Three arrays as no default has them.
pub fn sample() -> [Member; 3] {
    [Member::new("w.npy", matrix()), Member::new("a/t.npy", turned()), Member::new("ä.npy", old())]
}

pub fn input(name: &str, bytes: &[u8]) -> Input {
    Input::memory(name, BTreeMap::from([(name.to_owned(), bytes.to_vec())]))
}

pub fn read(name: &str, bytes: &[u8], lenient: bool) -> Result<(Contents, Vec<Vec<u8>>)> {
    let options: &[_] = if lenient { &[("lenient".to_owned(), "true".to_owned())] } else { &[] };
    ckpt_conformance::read(&Npz, &input(name, bytes), options)
}

pub fn write(checkpoint: &Checkpoint, values: &[Vec<u8>], name: &str) -> Result<Vec<u8>> {
    let mut files = ckpt_conformance::write(&Npz, checkpoint, values, name, &[])?;
    let bytes = files.remove(name).expect("the file has the name that was asked for");
    assert!(files.is_empty(), "only one file is written");
    Ok(bytes)
}

/// Reads and writes again.
pub fn rewrite(name: &str, bytes: &[u8]) -> Vec<u8> {
    let (contents, values) = read(name, bytes, false).unwrap();
    write(&contents.checkpoint, &values, name).unwrap()
}

pub fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let options = Options::parse("npz", Npz.info().options, Side::Write, &[])?;
    let placed = Npz.place(checkpoint, name, &options)?;
    placed.check(checkpoint)?;
    Ok(placed)
}

/// The strict error.
pub fn refused(bytes: &[u8]) -> Error {
    read("m.npz", bytes, false).expect_err("a strict reading refuses it")
}
