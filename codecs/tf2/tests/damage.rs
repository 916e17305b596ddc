//! Damage that checksums do not show: whatever a file says, reading it ends, and never in a panic.

mod common;

use ckpt_api::Input;
use common::{Bundle, block, bundle, read, slice_key, table_of};
use proptest::prelude::*;

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

/// The bundle with bytes of its index block changed, under right checksums.
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
    fn damaged_data_is_never_read_as_other_values(position in any::<prop::sample::Index>(), byte in any::<u8>()) {
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
