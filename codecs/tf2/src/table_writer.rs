//! Writes sorted string tables, byte for byte as TensorFlow writes them.

use crate::format::{FOOTER_LEN, Header, MAGIC, crc32c, mask};
use ckpt_api::Endian;
use prost::encoding::encode_varint;

/// A block ends when it reaches this size, in bytes.
const BLOCK_SIZE: usize = 262_144;
/// A block ends early before an entry of this size, in bytes.
const LARGE_ENTRY: usize = 2 * BLOCK_SIZE;
/// Number of entries between restart points, whose keys are stored whole.
const RESTART_INTERVAL: usize = 16;
/// The same, in the index block.
const INDEX_RESTART_INTERVAL: usize = 1;

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Uncompressed.
    None,
    /// Raw snappy, for blocks where it saves more than an eighth.
    Snappy,
}

/// A writer of a table, which takes the entries in the order of their keys.
pub(crate) struct TableWriter {
    /// The finished bytes of the file that were not discarded.
    file: Vec<u8>,
    /// Number of bytes that were discarded.
    discarded: u64,
    compression: Compression,
    block: BlockWriter,
    index: BlockWriter,
    /// The last finished block. Its entry in the index depends on the next key.
    pending: Option<Handle>,
}

/// The encoded offset and length of a block.
type Handle = Vec<u8>;

impl TableWriter {
    /// Starts an empty table.
    pub(crate) fn new(compression: Compression) -> Self {
        TableWriter {
            file: Vec::new(),
            discarded: 0,
            compression,
            block: BlockWriter::new(RESTART_INTERVAL),
            index: BlockWriter::new(INDEX_RESTART_INTERVAL),
            pending: None,
        }
    }

    /// Starts the table of an index, which begins with the header.
    pub(crate) fn of_index(shards: u32, endian: Endian, compression: Compression) -> Self {
        let mut table = TableWriter::new(compression);
        table.add(&[], &Header::encode(shards, endian));
        table
    }

    /// Adds an entry. Its key must be greater than all previous ones.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        if key.len() + value.len() >= LARGE_ENTRY {
            self.flush();
        }
        if let Some(handle) = self.pending.take() {
            self.index.add(&separator(&self.block.last_key, key), &handle);
        }
        self.block.add(key, value);
        if self.block.size() >= BLOCK_SIZE {
            self.flush();
        }
    }

    /// Returns the finished blocks since the last [`TableWriter::discard_finished`].
    pub(crate) fn finished(&self) -> &[u8] {
        &self.file
    }

    /// Discards the finished blocks, so that the next ones reuse their memory.
    pub(crate) fn discard_finished(&mut self) {
        self.discarded += self.file.len() as u64;
        self.file.clear();
    }

    /// Finishes the table, and returns the bytes that were not discarded.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.flush();
        let metaindex = self.write(&BlockWriter::new(RESTART_INTERVAL).finish());
        if let Some(handle) = self.pending.take() {
            self.index.add(&successor(&self.block.last_key), &handle);
        }
        let contents = self.index.finish();
        let index = self.write(&contents);
        let mut footer = [metaindex, index].concat();
        footer.resize(FOOTER_LEN as usize - size_of_val(&MAGIC), 0);
        self.file.extend(footer);
        self.file.extend(MAGIC.to_le_bytes());
        self.file
    }

    fn flush(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let contents = self.block.finish();
        self.pending = Some(self.write(&contents));
        self.block.begin(contents);
    }

    fn write(&mut self, contents: &[u8]) -> Handle {
        let start = self.file.len();
        let compressed = self.compress(contents);
        let kind = u8::from(compressed.is_some());
        self.file.extend(compressed.as_deref().unwrap_or(contents));
        let mut handle = Vec::new();
        encode_varint(self.discarded + start as u64, &mut handle);
        encode_varint((self.file.len() - start) as u64, &mut handle);
        self.file.push(kind);
        let crc = crc32c(0, self.file.get(start..).unwrap_or_default());
        self.file.extend(mask(crc).to_le_bytes());
        handle
    }

    fn compress(&self, contents: &[u8]) -> Option<Vec<u8>> {
        let encoded = match self.compression {
            Compression::None => None,
            Compression::Snappy => snap::raw::Encoder::new().compress_vec(contents).ok(),
        };
        encoded.filter(|encoded| encoded.len() < contents.len() - contents.len() / 8)
    }
}

/// A writer of one block. Each entry omits the bytes that its key shares with the previous key.
struct BlockWriter {
    interval: usize,
    entries: Vec<u8>,
    restarts: Vec<u32>,
    /// Number of entries since the last restart point.
    since_restart: usize,
    /// The last key; that of the previous block if this one is empty.
    last_key: Vec<u8>,
}

impl BlockWriter {
    fn new(interval: usize) -> Self {
        BlockWriter {
            interval,
            entries: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Starts the next block in the memory of the last one.
    fn begin(&mut self, mut last: Vec<u8>) {
        last.clear();
        self.entries = last;
        self.restarts.truncate(1);
        self.since_restart = 0;
    }

    /// Returns the size of the contents, in bytes.
    fn size(&self) -> usize {
        self.entries.len() + (self.restarts.len() + 1) * size_of::<u32>()
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        if self.since_restart == self.interval {
            self.restarts.push(offset(self.entries.len()));
            self.since_restart = 0;
        }
        let shared = match self.since_restart {
            0 => 0,
            _ => common_prefix(&self.last_key, key),
        };
        let suffix = key.get(shared..).unwrap_or_default();
        for number in [shared, suffix.len(), value.len()] {
            encode_varint(number as u64, &mut self.entries);
        }
        self.entries.extend(suffix);
        self.entries.extend(value);
        self.last_key.truncate(shared);
        self.last_key.extend(suffix);
        self.since_restart += 1;
    }

    /// Takes the contents, and leaves the block empty.
    fn finish(&mut self) -> Vec<u8> {
        let mut contents = std::mem::take(&mut self.entries);
        for restart in &self.restarts {
            contents.extend(restart.to_le_bytes());
        }
        contents.extend(offset(self.restarts.len()).to_le_bytes());
        contents
    }
}

/// Only the last entry of a block can exceed the block size, and no entry is as large as 4 GiB.
fn offset(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns a short key that is at least `last` and less than `next`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = common_prefix(last, next);
    match (last.get(..shared), last.get(shared), next.get(shared)) {
        (Some(prefix), Some(byte), Some(limit)) if byte.checked_add(1).is_some_and(|byte| byte < *limit) => {
            [prefix, &[byte + 1]].concat()
        }
        _ => last.to_vec(),
    }
}

/// Returns a short key that is at least `last`.
fn successor(last: &[u8]) -> Vec<u8> {
    let at = last.iter().position(|byte| *byte != u8::MAX);
    match at.and_then(|at| Some((last.get(..at)?, last.get(at)?))) {
        Some((prefix, byte)) => [prefix, &[byte + 1]].concat(),
        None => last.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use ckpt_api::{Input, Limits};
    use prost::encoding::decode_varint;
    use std::collections::BTreeMap;

    fn write(entries: &[(Vec<u8>, Vec<u8>)], compression: Compression) -> Vec<u8> {
        let mut writer = TableWriter::new(compression);
        entries.iter().for_each(|(key, value)| writer.add(key, value));
        writer.finish()
    }

    /// Reads the entries of a table.
    fn read(table: Vec<u8>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let input = Input::memory("t", BTreeMap::from([("t".to_owned(), table)]));
        let mut found = Vec::new();
        table::scan(&input.file("t").unwrap(), &Limits::default(), false, |key, value, _| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
        .unwrap();
        found
    }

    /// Returns the separators of the blocks that the index lists.
    fn separators(table: &[u8]) -> Vec<Vec<u8>> {
        let footer = &table[table.len() - 48..];
        let mut numbers = Vec::new();
        let mut rest = footer;
        for _ in 0..4 {
            numbers.push(usize::try_from(decode_varint(&mut rest).unwrap()).unwrap());
        }
        let mut block = &table[numbers[2]..][..numbers[3]];
        let count = u32::from_le_bytes(block[block.len() - 4..].try_into().unwrap());
        block = &block[..block.len() - 4 - 4 * count as usize];
        let mut keys = Vec::new();
        while !block.is_empty() {
            let len = usize::from(block[1]);
            keys.push(block[3..][..len].to_vec());
            block = &block[3 + len + usize::from(block[2])..];
        }
        keys
    }

    fn entry(key: &str, len: usize) -> (Vec<u8>, Vec<u8>) {
        (key.as_bytes().to_vec(), vec![7; len])
    }

    #[test]
    fn a_separator_ends_with_the_first_byte_that_can_be_incremented() {
        assert_eq!(separator(b"abcx", b"abfz"), b"abd");
        assert_eq!(separator(b"abcx", b"abdz"), b"abcx");
        assert_eq!(separator(b"ab", b"abc"), b"ab");
        assert_eq!(separator(b"a\xff", b"b"), b"a\xff");
        assert_eq!(separator(b"a\xffb", b"a\xffd"), b"a\xffc");
        assert_eq!(separator(b"", b"a"), b"");
    }

    #[test]
    fn a_successor_ends_with_the_first_byte_that_can_be_incremented() {
        assert_eq!(successor(b"abc"), b"b");
        assert_eq!(successor(b"\xff\xffab"), b"\xff\xffb");
        assert_eq!(successor(b"\xff\xff"), b"\xff\xff");
        assert_eq!(successor(b""), b"");
    }

    #[test]
    fn a_table_of_the_header_alone_has_the_bytes_that_tensorflow_writes() {
        let table = write(&[(vec![], vec![0x08, 0x01, 0x1a, 0x02, 0x08, 0x01])], Compression::None);
        assert_eq!(table.len(), 101);
        assert_eq!(table[..17], [0, 0, 6, 0x08, 0x01, 0x1a, 0x02, 0x08, 0x01, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(separators(&table), [b""]);
    }

    #[test]
    fn a_block_ends_with_the_entry_that_fills_it() {
        // Lengths take five bytes (that of the value three), the key one, the restart point and the count eight.
        let filling = BLOCK_SIZE - 5 - 1 - 8;
        for (len, blocks) in [(filling, 2), (filling - 1, 1)] {
            let entries = [entry("a", len), entry("c", 1)];
            let table = write(&entries, Compression::None);
            assert_eq!(separators(&table).len(), blocks, "{len}");
            assert_eq!(read(table), entries);
        }
    }

    #[test]
    fn an_entry_of_two_block_sizes_has_its_own_block() {
        for (len, expected) in [(LARGE_ENTRY - 1, 2), (LARGE_ENTRY - 2, 1)] {
            let entries = [entry("a", 1), entry("b", len)];
            let table = write(&entries, Compression::None);
            assert_eq!(separators(&table).len(), expected, "{len}");
            assert_eq!(read(table), entries);
        }
    }

    #[test]
    fn every_sixteenth_key_is_stored_whole() {
        let entries: Vec<_> = (0..33).map(|i| entry(&format!("key{i:02}"), 0)).collect();
        let table = write(&entries, Compression::None);
        let whole = table.windows(5).filter(|window| window.starts_with(b"key")).count();
        assert_eq!(whole, 3);
        assert_eq!(read(table), entries);
    }

    #[test]
    fn a_block_is_compressed_only_if_that_saves_more_than_an_eighth() {
        let writer = TableWriter::new(Compression::Snappy);
        let noise = |len: usize| -> Vec<u8> {
            let mut state = 1u32;
            let step = |state: &mut u32| {
                *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            };
            (0..len).map(|_| step(&mut state)).collect()
        };
        let (mut kept, mut left) = (0, 0);
        for zeros in 0..400 {
            let contents = [noise(1000), vec![0; zeros]].concat();
            let encoded = snap::raw::Encoder::new().compress_vec(&contents).unwrap();
            let saves = 8 * (contents.len() - encoded.len().min(contents.len())) > contents.len();
            assert_eq!(writer.compress(&contents).is_some(), saves, "{zeros}");
            *(if saves { &mut kept } else { &mut left }) += 1;
        }
        assert!(kept > 100 && left > 100, "{kept} {left}");
    }
}
