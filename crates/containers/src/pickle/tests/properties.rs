//! What holds for pickles of any bytes.

use super::{described, tree};
use crate::pickle::{Names, Tree, Value};
use proptest::prelude::*;

/// Looks at every value; returns how many links there are.
fn visit(tree: &Tree) -> usize {
    let links = tree.ids().map(|id| match tree.value(id) {
        Value::Tuple(list) | Value::List(list) | Value::Set(list) => tree.items(list).count(),
        Value::Dict(list) => 2 * tree.entries(list).count(),
        Value::Object(object) => tree.items(object.items).count() + 2 * tree.entries(object.entries).count(),
        _ => 0,
    });
    links.sum()
}

/// Opcodes, mostly with arguments that fit.
fn opcodes() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop::sample::select(vec![
        &b"("[..],
        b"N",
        b"K\x01",
        b"]",
        b"}",
        b")",
        b"\x8f",
        b"X\x01\0\0\0a",
        b"cm\nf\n",
        b"q\x00",
        b"h\x00",
        b"\x94",
        b"a",
        b"e",
        b"s",
        b"u",
        b"t",
        b"\x85",
        b"\x86",
        b"R",
        b"\x81",
        b"b",
        b"Q",
        b"0",
        b"1",
        b"2",
        b"\x90",
        b"\x91",
        b"d",
        b"l",
        b"o",
    ]);
    prop::collection::vec(opcode, 0..60).prop_map(|all| [all.concat(), b".".to_vec()].concat())
}

/// A value, as Python writes it in protocol 2, and as [`described`] shows it.
fn value() -> impl Strategy<Value = (Vec<u8>, String)> {
    let leaf = prop_oneof![
        Just((b"N".to_vec(), "None".to_owned())),
        any::<i32>()
            .prop_map(|number| ([b"J".to_vec(), number.to_le_bytes().to_vec()].concat(), number.to_string())),
        "[a-z]{0,5}".prop_map(|text| {
            let len = (text.len() as u32).to_le_bytes();
            ([b"X", &len[..], text.as_bytes()].concat(), format!("'{text}'"))
        }),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..5).prop_map(|items| {
            let (bytes, texts): (Vec<_>, Vec<_>) = items.into_iter().unzip();
            ([b"](".to_vec(), bytes.concat(), b"e".to_vec()].concat(), format!("[{}]", texts.join(", ")))
        });
        let dict = prop::collection::vec(inner, 0..4).prop_map(|values| {
            let entries = values.into_iter().enumerate();
            let (bytes, texts): (Vec<_>, Vec<_>) = entries
                .map(|(key, (bytes, text))| {
                    ([vec![b'K', key as u8], bytes].concat(), format!("{key}: {text}"))
                })
                .unzip();
            ([b"}(".to_vec(), bytes.concat(), b"u".to_vec()].concat(), format!("{{{}}}", texts.join(", ")))
        });
        prop_oneof![list, dict]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_tree_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(tree) = tree(&bytes) {
            visit(&tree);
            Names::of(&tree);
        }
    }

    #[test]
    fn any_opcodes_are_a_tree_no_larger_than_they_are(bytes in opcodes()) {
        if let Ok(tree) = tree(&bytes) {
            prop_assert!(visit(&tree) <= bytes.len() && tree.value_count() <= 3 * bytes.len());
            Names::of(&tree);
        }
    }

    #[test]
    fn values_come_back_as_they_were_written((bytes, text) in value()) {
        prop_assert_eq!(described(&[&bytes[..], b"."].concat()), text);
    }

    #[test]
    fn a_pickle_that_is_cut_is_an_error((bytes, _) in value(), cut in any::<prop::sample::Index>()) {
        prop_assert!(tree(&bytes[..cut.index(bytes.len())]).is_err());
    }
}
