//! Pickles that no pickler writes.

use super::{described, tree};
use crate::pickle::Names;
use crate::pickle::names::Use;
use ckpt_api::Kind;

fn refused(bytes: &[u8]) -> String {
    let error = tree(bytes).unwrap_err();
    assert!(matches!(error.kind(), Kind::Corrupt | Kind::Unsupported | Kind::Limit), "{error}");
    error.to_string()
}

#[test]
fn a_length_beyond_the_pickle_is_refused_with_what_is_left() {
    for pickle in [&b"X\xff\xff\xff\xffab"[..], b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffab"] {
        let error = tree(pickle).unwrap_err();
        assert_eq!(error.message(), "the pickle ends too early");
        assert_eq!((error.context().file, error.context().found), (Some("p.pkl"), Some("2 bytes")));
    }
}

#[test]
fn operations_without_meaning_are_refused_where_they_stand() {
    for (pickle, why) in [
        (&b""[..], "ends too early"),
        (b"N", "ends too early"),
        (b"cmodule", "ends too early"),
        (b".", "more values"),
        (b"0.", "more values"),
        (b"(.", "more values"),
        (b"(K\x01(\x86.", "more values"),
        (b"t.", "mark"),
        (b"\xff.", "unknown opcode"),
        (b"\x80\x06N.", "protocol"),
        (b"h\x01.", "not memoized"),
        (b"gx\n.", "index of its memo"),
        (b"X\x01\0\0\0a)R.", "calls something"),
        (b"cm\nf\nK\x01R.", "calls something"),
        (b"cm\nf\n)K\x01\x92.", "calls something"),
        (b"(o.", "more values"),
        (b"K\x01K\x02a.", "no list"),
        (b"}K\x01a.", "no list"),
        (b"](K\x01\x90.", "no list"),
        (b"]K\x01K\x02s.", "no dict"),
        (b"}K\x01b.", "sets the state"),
        (b"cm\nf\n)RK\x01bK\x01b.", "sets it twice"),
        (b"}]K\x01s.", "cannot hash"),
        (b"}(K\x01u.", "without a value"),
        (b"(K\x01d.", "without a value"),
        (b"\x82\x07.", "extension code"),
        (b"\x84\x07\0\0\0.", "extension code"),
        (b"K\x01\x8c\x01a\x93.", "something else than texts"),
        (b"X\x01\0\0\0\xff.", "not UTF-8"),
        (b"T\xff\xff\xff\xff.", "negative length"),
        (b"Ix\n.", "integer"),
        (b"Fx\n.", "float"),
        (b"S'\n.", "string"),
    ] {
        let text = refused(pickle);
        assert!(text.contains(why), "{}: {text}", pickle.escape_ascii());
        assert!(text.contains("offset"), "{text}");
    }
}

#[test]
fn lengths_that_the_file_does_not_have_allocate_nothing() {
    let longest = [0xff; 8];
    for pickle in [
        [&b"\x8e"[..], &longest].concat(),
        [&b"\x8d"[..], &longest].concat(),
        [&b"\x96"[..], &longest].concat(),
        [&b"\x95"[..], &longest].concat(),
        b"X\xff\xff\xff\xffa.".to_vec(),
        b"B\xff\xff\xff\xffa.".to_vec(),
        b"\x8b\xff\xff\xff\x7fa.".to_vec(),
    ] {
        refused(&pickle);
    }
}

#[test]
fn a_memo_of_any_index_takes_no_table_of_that_size() {
    assert_eq!(described(b"Nr\xff\xff\xff\x7f0j\xff\xff\xff\x7f."), "None");
}

#[test]
fn nesting_of_any_depth_costs_no_stack() {
    let depth = 1 << if cfg!(miri) { 8 } else { 18 };
    let lists = [b"]".repeat(depth), b"a".repeat(depth - 1), b".".to_vec()].concat();
    assert_eq!(tree(&lists).unwrap().value_count(), depth);
    let tuples = [b"N".to_vec(), b"\x85".repeat(depth), b".".to_vec()].concat();
    assert_eq!(tree(&tuples).unwrap().value_count(), depth);
}

#[test]
fn a_list_may_hold_itself() {
    let tree = tree(b"]q\x00h\x00a.").unwrap();
    let [own] = tree.tuple(tree.root()).unwrap();
    assert_eq!(own, tree.root());
}

#[test]
#[cfg_attr(miri, ignore = "a large pickle")]
fn values_take_at_most_8_times_the_bytes_of_the_pickle() {
    let text = refused(&[b"}".repeat(4 << 20), b".".to_vec()].concat());
    assert!(text.contains("too much memory"), "{text}");
    // As Python's pickler writes lists of numbers, in batches of 1000.
    let batch = [b"(".to_vec(), b"K\x01".repeat(1000), b"e".to_vec()].concat();
    tree(&[b"]q\0".to_vec(), batch.repeat(4000), b".".to_vec()].concat()).unwrap();
    let lists = b"]r\0\0\0\0(K\x01K\x02K\x03e".repeat(300_000);
    let lists = [b"](".to_vec(), lists, b"e.".to_vec()].concat();
    tree(&lists).unwrap();
}

#[test]
fn the_names_say_what_is_called_and_what_is_only_named() {
    let tree = tree(b"(ca\nA\ncb\nB\n)R\x8c\x01c\x8c\x01C\x93)\x81t.").unwrap();
    let names: Vec<_> = Names::of(&tree).iter().collect();
    let expected = [("a.A", Use::Named), ("b.B", Use::Called), ("c.C", Use::Called)];
    assert_eq!(names, expected.map(|(name, use_)| (name.to_owned(), use_)));
}

#[test]
fn dangerous_calls_are_found_however_they_are_made() {
    for pickle in [
        &b"cos\nsystem\n(X\x01\0\0\0atR."[..],
        b"(X\x01\0\0\0aios\nsystem\n.",
        b"(cos\nsystem\nX\x01\0\0\0ao.",
        b"\x8c\x05posix\x8c\x06system\x93)R.",
        b"csubprocess\nPopen\n)\x81.",
        b"csubprocess\nPopen\n)}\x92.",
        b"cfunctools\npartial\n(cos\nsystem\ntR.",
        b"ca\nA\n)}X\x01\0\0\0fcos\nsystem\ns\x92.",
        b"ca\nA\n)\x81}X\x0c\0\0\0__setstate__cos\nsystem\nsb.",
    ] {
        let names = Names::of(&tree(pickle).unwrap());
        assert!(names.danger().is_some(), "{}", pickle.escape_ascii());
    }
    assert!(Names::of(&tree(b"cos\nsystem\n.").unwrap()).danger().is_none());
}

#[test]
#[cfg_attr(miri, ignore = "a large pickle")]
fn a_state_that_many_calls_share_is_looked_at_once() {
    let entries: Vec<u8> =
        (0..50_000u16).flat_map(|key| [b"M", &key.to_le_bytes()[..], b"K\0"].concat()).collect();
    let calls = b"h\x02)\x81h\x01b".repeat(50_000);
    let pickle = [&b"(}q\x01("[..], &entries, b"ucm\nC\nq\x02", &calls, b"l."].concat();
    let tree = tree(&pickle).unwrap();
    // Looked at by every call, 2.5 billion entries would take minutes.
    assert!(Names::of(&tree).danger().is_none());
}
