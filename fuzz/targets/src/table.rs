//! Sorted string tables, read and written the straightforward way: all in memory, rule by rule.

use arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;

const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER: usize = 48;
/// Of a bundle of one shard, as TensorFlow writes it.
pub const HEADER: &[u8] = &[0x08, 1, 0x1a, 2, 0x08, 1];
/// Kind and checksum of a block.
const TRAILER: usize = 5;

/// Keys and values in the order of the table.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// All entries of a table; `None` if it breaks a rule.
pub fn read(file: &[u8]) -> Option<Entries> {
    let (rest, footer) = file.split_at_checked(file.len().checked_sub(FOOTER)?)?;
    let mut numbers = footer;
    if footer.last_chunk::<8>().map(|magic| u64::from_le_bytes(*magic)) != Some(MAGIC) {
        return None;
    }
    let [Some(_), Some(_), Some(offset), Some(size)] = [(); 4].map(|()| number(&mut numbers)) else {
        return None;
    };
    let index = read_block(rest, offset, size)?;
    // Of the block before.
    let (mut last, mut before, mut end): (Option<Vec<u8>>, Option<Vec<u8>>, u64) = (None, None, 0);
    let mut all = Entries::new();
    for (separator, handle) in index {
        let mut handle = &handle[..];
        let (offset, size) = (number(&mut handle)?, number(&mut handle)?);
        let entries = read_block(rest, offset, size)?;
        let first = entries.first().map(|(key, _)| key);
        if offset < end
            || [&last, &before]
                .iter()
                .any(|limit| limit.is_some() && first.is_some() && first <= limit.as_ref())
        {
            return None;
        }
        last = entries.last().map(|(key, _)| key.clone()).or(last);
        if last.as_ref().is_some_and(|last| *last > separator) {
            return None;
        }
        (before, end) = (Some(separator), offset + size);
        all.extend(entries);
    }
    Some(all)
}

fn read_block(file: &[u8], offset: u64, size: u64) -> Option<Entries> {
    let (offset, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
    let stored = file.get(offset..)?.get(..size.checked_add(TRAILER)?)?;
    let (bytes, checksum) = stored.split_last_chunk::<4>()?;
    if masked(bytes) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let contents = match bytes.split_last()? {
        (0, contents) => contents.to_vec(),
        // Three bytes make at most 64.
        (1, contents) if snap::raw::decompress_len(contents).ok()? <= contents.len() * 64 => {
            snap::raw::Decoder::new().decompress_vec(contents).ok()?
        }
        _ => return None,
    };
    let (rest, count) = contents.split_last_chunk::<4>()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok().filter(|count| *count > 0)?;
    let (entries, restarts) = rest.split_at_checked(rest.len().checked_sub(count.checked_mul(4)?)?)?;
    let restarts: Vec<u32> =
        restarts.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    split(entries, &restarts)
}

fn split(bytes: &[u8], restarts: &[u32]) -> Option<Entries> {
    let (mut entries, mut rest, mut reached) = (Entries::new(), bytes, 0);
    while !rest.is_empty() {
        let restarts_here = restarts.get(reached) == Some(&((bytes.len() - rest.len()) as u32));
        reached += usize::from(restarts_here);
        let mut length =
            || number(&mut rest).and_then(|number| u32::try_from(number).ok()).map(|number| number as usize);
        let (shared, unshared, len) = (length()?, length()?, length()?);
        let (suffix, after) = rest.split_at_checked(unshared)?;
        let (value, after) = after.split_at_checked(len)?;
        rest = after;
        let before = entries.last().map(|(key, _)| &key[..]);
        let key = [before.unwrap_or_default().get(..shared)?, suffix].concat();
        if before.is_some_and(|before| key[..] <= *before)
            || (restarts_here && shared > 0)
            || (before.is_none() && !restarts_here)
        {
            return None;
        }
        entries.push((key, value.to_vec()));
    }
    (entries.is_empty() || reached == restarts.len()).then_some(entries)
}

/// A number of seven bits a byte that fits 64 bits.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u128;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u64::try_from(value).ok();
        }
    }
    None
}

/// A table of one block that shares nothing.
pub fn canonical(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut block = Block::default();
    entries.iter().for_each(|(key, value)| block.add(key, value, 0, true));
    let data = sealed(block.contents(), false);
    let mut index = Block::default();
    let last = entries.keys().next_back().cloned().unwrap_or_default();
    index.add(&last, &[varint(0), varint(data.len() - TRAILER)].concat(), 0, true);
    finish(data, index)
}

/// A table with these entries, cut and written in any way; now and then it breaks a rule.
///
/// # Errors
/// Where the input ends.
pub fn arbitrary(u: &mut Unstructured, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Vec<u8>> {
    let (mut file, mut index, mut block) = (Vec::new(), Block::default(), Block::default());
    let mut before: &[u8] = &[];
    for (number, (key, value)) in (1..).zip(entries) {
        let common = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        let restarts = block.entries.is_empty() || u.ratio(1, 3)?;
        let shared = if restarts { 0 } else { common };
        let shared = if u.ratio(1, 40)? { u.int_in_range(0..=3)? } else { shared };
        block.add(key, value, shared.min(key.len()), restarts != u.ratio(1, 40)?);
        before = key;
        if u.ratio(1, 3)? || number == entries.len() {
            if u.ratio(1, 40)? {
                block.restarts.push(u.int_in_range(0..=40)?);
            }
            let offset = file.len();
            let block = sealed(std::mem::take(&mut block).contents(), u.arbitrary()?);
            let mut separator = key.clone();
            match u.int_in_range(0..=9)? {
                0 => separator.push(0),
                1 => separator.push(u8::MAX),
                2 => drop(separator.pop()),
                _ => {}
            }
            let handle = if u.ratio(1, 40)? { u.int_in_range(0..=offset)? } else { offset };
            index.add(&separator, &[varint(handle), varint(block.len() - TRAILER)].concat(), 0, true);
            file.extend(block);
            file.resize(file.len() + u.int_in_range(0..=1)?, 0);
        }
    }
    Ok(finish(file, index))
}

#[derive(Default)]
struct Block {
    entries: Vec<u8>,
    restarts: Vec<u32>,
}

impl Block {
    fn add(&mut self, key: &[u8], value: &[u8], shared: usize, restarts: bool) {
        if restarts {
            self.restarts.push(self.entries.len() as u32);
        }
        let suffix = &key[shared..];
        let lengths = [shared, suffix.len(), value.len()].map(varint).concat();
        self.entries.extend([&lengths[..], suffix, value].concat());
    }

    fn contents(mut self) -> Vec<u8> {
        if self.entries.is_empty() && self.restarts.is_empty() {
            self.restarts.push(0);
        }
        let count = self.restarts.len() as u32;
        let numbers = self.restarts.into_iter().chain([count]);
        self.entries.extend(numbers.flat_map(u32::to_le_bytes));
        self.entries
    }
}

/// Appends the index and the footer.
fn finish(mut file: Vec<u8>, index: Block) -> Vec<u8> {
    let at = file.len();
    let index = sealed(index.contents(), false);
    let mut footer = [varint(at), varint(0), varint(at), varint(index.len() - TRAILER)].concat();
    footer.resize(FOOTER - 8, 0);
    footer.extend(MAGIC.to_le_bytes());
    file.extend([index, footer].concat());
    file
}

fn sealed(contents: Vec<u8>, compress: bool) -> Vec<u8> {
    let mut block = match compress {
        true => snap::raw::Encoder::new().compress_vec(&contents).expect("a short block"),
        false => contents,
    };
    block.push(compress.into());
    block.extend(masked(&block).to_le_bytes());
    block
}

fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

pub(crate) fn mask(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

pub(crate) fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f | 0x80) as u8);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
