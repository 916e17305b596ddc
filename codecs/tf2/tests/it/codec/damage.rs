//! Damage behind valid checksums: reading always ends, and never in a panic.

use super::common::{Bundle, block, bundle, entry, mask, message, read, slice_key, table_of, varint};
use ckpt_api::{Input, Kind};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn everything() -> Bundle {
    let (left, right) = ([(0, 2), (0, 1)], [(0, 2), (1, 1)]);
    bundle()
        .floats("dense/kernel", &[2, 2], &[1., 2., 3., 4.])
        .strings("text", &[2], &[b"one", b"two"])
        .variants("variant", &[2], &[b"\x0a\x01t", b"\x12\x02ab"])
        .partitioned("parts", 7, &[2, 2], &[&left, &right])
        .strings(slice_key("parts", &left), &[2, 1], &[b"a", b"cc"])
        .strings(slice_key("parts", &right), &[2, 1], &[b"b", b"d"])
}

/// The bundle with changed bytes in a block of its index, and valid checksums.
fn with_index(changes: &[(prop::sample::Index, u8)], kind: u8) -> Input {
    let bundle = everything();
    let mut entries = vec![(vec![], bundle.header.clone())];
    entries.extend(bundle.entries.clone());
    let mut contents = block(&entries, 4);
    for (index, byte) in changes {
        let position = index.index(contents.len());
        contents[position] = *byte;
    }
    let mut files = bundle.files("m");
    files.insert("m.index".to_owned(), table_of(&[(b"z".to_vec(), contents)], kind));
    Input::memory("m", files)
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4)
}

/// An index of these entries in one block, without the data.
fn index_of(entries: Vec<(Vec<u8>, Vec<u8>)>) -> Input {
    let header = (Vec::new(), vec![0x08, 0x01]);
    let entries: Vec<_> = std::iter::once(header).chain(entries).collect();
    let table = table_of(&[(b"\xff".to_vec(), block(&entries, 16))], 1);
    Input::memory("m.index", BTreeMap::from([("m.index".to_owned(), table)]))
}

#[test]
fn a_block_that_the_index_lists_twice_is_refused() {
    let empty = block(&[], 1);
    let (once, twice) = ((0, 8), [(0, 8), (0, 8)]);
    for (handles, message) in [(&[once][..], "no header"), (&twice[..], "before the previous block ends")] {
        let table = table_with_handles(&empty, handles);
        let input = Input::memory("m.index", BTreeMap::from([("m.index".to_owned(), table)]));
        let error = read(&input, &[]).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// TensorFlow does not check these numbers, so the corpus has none that is far beyond the file.
#[test]
fn a_block_that_reaches_past_the_table_is_refused() {
    for (offset, size) in
        [(0, 109), (0, 1 << 40), (1 << 40, 8), (0, u64::MAX), (u64::MAX, 8), (8, u64::MAX - 8)]
    {
        let table = table_with_handles(&block(&[], 1), &[(offset, size)]);
        let input = Input::memory("m.index", BTreeMap::from([("m.index".to_owned(), table)]));
        let error = read(&input, &[]).unwrap_err();
        assert!(error.to_string().contains("past the end of the table"), "{offset}, {size}: {error}");
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}

/// A table of one block, whose index has these handles: an offset and a size each.
fn table_with_handles(contents: &[u8], handles: &[(u64, u64)]) -> Vec<u8> {
    let mut table = stored(contents);
    let handle = |(offset, size): &(u64, u64)| [varint(*offset), varint(*size)].concat();
    let entries: Vec<_> = handles.iter().zip(b'a'..).map(|(at, key)| (vec![key], handle(at))).collect();
    let index = block(&entries, 1);
    let mut footer = [varint(0), varint(0), varint(table.len() as u64), varint(index.len() as u64)].concat();
    footer.resize(40, 0);
    table.extend([stored(&index), footer, 0xdb47_7524_8b80_fb57_u64.to_le_bytes().to_vec()].concat());
    table
}

fn stored(contents: &[u8]) -> Vec<u8> {
    let typed = [contents, &[0]].concat();
    let crc = mask(crc32c::crc32c(&typed)).to_le_bytes();
    [&typed[..], &crc].concat()
}

#[test]
fn slices_that_take_far_more_memory_than_space_in_the_file_are_refused() {
    let many = message(7, &message(1, &[]).repeat(200)).repeat(5000);
    let whole = [entry(1, &[1], 0, 0, 0, 0), many].concat();
    let entries = (0..30u8).map(|key| (vec![b'k', key], whole.clone())).collect();
    let error = read(&index_of(entries), &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit, "{error}");
}

#[test]
fn a_name_longer_than_the_limit_is_refused() {
    let name = vec![b'n'; (1 << 20) + 1];
    let error = read(&index_of(vec![(name, entry(1, &[], 0, 0, 4, 0))]), &[]).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("name_bytes"), "{error}");
    assert!(error.to_string().len() < 2000);
}

#[test]
fn an_error_in_an_entry_is_located_at_the_entry() {
    let error = read(&index_of(vec![(b"k".to_vec(), entry(1, &[3], 0, 0, 4, 0))]), &[]).unwrap_err();
    let labels: Vec<&str> = error.context().pairs().map(|(label, _)| label).collect();
    assert_eq!(labels, ["file", "offset", "field", "tensor", "found", "expected", "help"], "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_index_never_panics(changes in changes(), kind in 0u8..3, lenient in any::<bool>()) {
        let _ = read(&with_index(&changes, kind), &[("lenient", &lenient.to_string())]);
    }

    #[test]
    fn a_damaged_entry_never_panics(key in 0usize..6, changes in changes()) {
        let mut bundle = everything();
        let entry = bundle.entries.values_mut().nth(key).unwrap();
        for (index, byte) in &changes {
            let position = index.index(entry.len());
            entry[position] = *byte;
        }
        let _ = bundle.read();
    }

    #[test]
    fn damaged_data_is_never_read_as_different_values(position in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (good, mut bundle) = (everything(), everything());
        let position = position.index(bundle.data.len());
        bundle.data[position] = byte;
        match bundle.read() {
            Ok((_, values)) => prop_assert_eq!(values, good.read().unwrap().1),
            Err(_) => prop_assert_ne!(bundle.data, good.data),
        }
    }

    #[test]
    fn a_state_file_of_any_bytes_never_panics(text in prop::collection::vec(any::<u8>(), 0..80), tail in "\\PC{0,20}") {
        let mut files = everything().files("m");
        let text = [b"model_checkpoint_path: \"", tail.as_bytes(), &text, b"\""].concat();
        files.insert("checkpoint".to_owned(), text);
        let _ = read(&Input::memory("", files), &[]);
    }
}
