//! What each opcode means.

use super::{described, tree};
use crate::pickle::{Feed, Value, parse};
use ckpt_api::{File, Kind, Limits};
use std::sync::Arc;

#[test]
fn scalars_of_every_protocol_keep_their_values() {
    for (pickle, value) in [
        (&b"N."[..], "None"),
        (b"\x88.", "Bool(true)"),
        (b"I01\n.", "Bool(true)"),
        (b"I00\n.", "Bool(false)"),
        (b"I-7\n.", "-7"),
        (b"L7L\n.", "7"),
        (b"K\xff.", "255"),
        (b"M\xff\xff.", "65535"),
        (b"J\xff\xff\xff\xff.", "-1"),
        (b"J\xff\xff\xff\x7f.", "2147483647"),
        (b"\x8a\x00.", "0"),
        (b"\x8a\x01\x80.", "-128"),
        (b"\x8b\x05\0\0\0\0\0\0\0\x01.", "4294967296"),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\x01.", "Long([0, 0, 0, 0, 0, 0, 0, 0, 1])"),
        (b"F1.5\n.", "Float(1.5)"),
        (b"G\xbf\xf8\0\0\0\0\0\0.", "Float(-1.5)"),
        (b"X\x02\0\0\0\xc3\xa4.", "'ä'"),
        (b"\x8c\x01a.", "'a'"),
        (b"\x8d\x01\0\0\0\0\0\0\0a.", "'a'"),
        (b"U\x01a.", "'a'"),
        (b"U\x01\xff.", "Bytes([255])"),
        (b"T\x01\0\0\0a.", "'a'"),
        (b"S'a\\x41'\n.", "'aA'"),
        (b"Va\\u20ac\n.", "'a€'"),
        (b"B\x01\0\0\0a.", "Bytes([97])"),
        (b"C\x01a.", "Bytes([97])"),
        (b"\x8e\x01\0\0\0\0\0\0\0a.", "Bytes([97])"),
        (b"\x96\x01\0\0\0\0\0\0\0a.", "Bytes([97])"),
        (b"\x97\x98.", "Buffer"),
        (b"\x80\x04\x95\x02\0\0\0\0\0\0\0N.", "None"),
    ] {
        assert_eq!(described(pickle), value, "{}", pickle.escape_ascii());
    }
}

#[test]
fn containers_of_every_protocol_keep_their_items_in_order() {
    for (pickle, value) in [
        (&b")."[..], "()"),
        (b"K\x01\x85.", "(1)"),
        (b"K\x01K\x02\x86.", "(1, 2)"),
        (b"K\x01K\x02K\x03\x87.", "(1, 2, 3)"),
        (b"(K\x01K\x02t.", "(1, 2)"),
        (b"(K\x01K\x02l.", "[1, 2]"),
        (b"]K\x01a(K\x02K\x03e.", "[1, 2, 3]"),
        (b"(K\x01K\x02d.", "{1: 2}"),
        (b"}K\x01K\x02s(K\x03K\x04u.", "{1: 2, 3: 4}"),
        (b"\x8f(K\x01\x90.", "set(1)"),
        (b"(K\x01\x91.", "set(1)"),
        (b"K\x01(K\x020K\x031.", "1"),
        (b"K\x01(0.", "1"),
        (b"K\x012\x86.", "(1, 1)"),
    ] {
        assert_eq!(described(pickle), value, "{}", pickle.escape_ascii());
    }
}

#[test]
fn a_call_becomes_an_object_with_its_arguments_items_entries_and_state() {
    for (pickle, value) in [
        (&b"cm\nf\n(K\x01tR."[..], "m.f(1)"),
        (b"\x8c\x01m\x8c\x01f\x93)\x81.", "m.f()"),
        (b"cm\nf\n)}\x92.", "m.f() with {}"),
        (b"(K\x01im\nf\n.", "m.f(1)"),
        (b"(cm\nf\nK\x01o.", "m.f(1)"),
        (b"cm\nf\n)RK\x01aK\x02K\x03sK\x04b.", "m.f() [1] {2: 3} state 4"),
        (b"cm\nf\n)R(K\x01\x90.", "m.f() [1]"),
        (b"Pa b\n.", "persistent 'a b'"),
        (b"K\x01Q.", "persistent 1"),
    ] {
        assert_eq!(described(pickle), value, "{}", pickle.escape_ascii());
    }
}

#[test]
fn what_was_memoized_is_the_same_object_again() {
    let tree = tree(b"]q\x05\x940p7\n0h\x05j\x05\0\0\0g7\n\x87.").unwrap_err();
    assert!(tree.to_string().contains("more values"), "{tree}");
    let tree = super::tree(b"]q\x05\x94p7\nr\x08\0\0\0h\x05j\x05\0\0\0g7\n\x87.").unwrap();
    let [first, second, third] = tree.tuple(tree.root()).unwrap();
    assert!(first == second && second == third && matches!(tree.value(first), Value::List(_)));
}

#[test]
fn memoizing_numbers_values_by_their_count() {
    assert_eq!(described(b"\x80\x04]\x94K\x01\x94h\x00h\x01\x86."), "([], 1)");
}

#[test]
fn the_last_value_of_a_key_counts() {
    let tree = tree(b"}X\x01\0\0\0aK\x01sX\x01\0\0\0aK\x02s.").unwrap();
    assert_eq!(tree.entry(tree.root(), "a").and_then(|id| tree.int(id)), Some(2));
}

#[test]
fn a_pickle_ends_at_its_stop() {
    let tree = tree(b"\x80\x02N.rest").unwrap();
    assert_eq!((tree.end(), tree.pickle_bytes()), (4, 4));
}

#[test]
fn large_bytes_are_left_out_and_keep_their_places() {
    let large = |len: usize| [b"B", &(len as u32).to_le_bytes()[..], &vec![7; len]].concat();
    let pickle =
        [b"\x80\x04(", &large(5000)[..], b"K\x01", &large(100_000), b"C\x02ab", &large(4095), b"t."].concat();
    let file = File::new(Arc::new([b"head", &pickle[..]].concat()), "p.pkl").unwrap();
    let limits = Limits::default();
    let tree = parse(Feed::new(&file, 4, u64::MAX, &limits).leaving_out(0)).unwrap();
    assert_eq!((tree.start(), tree.end()), (4, file.len()));
    assert!(tree.pickle_bytes() < 5000, "{}", tree.pickle_bytes());
    let [first, one, second, short, last] = tree.tuple(tree.root()).unwrap();
    assert_eq!((tree.value(first), tree.value(one)), (Value::Apart(8, 5000), Value::Int(1)));
    assert_eq!((tree.value(second), tree.value(short)), (Value::Apart(5015, 100_000), Value::Bytes(b"ab")));
    let expected = [(8, 5000), (5015, 100_000), (105_017, 2), (105_024, 4095)];
    assert_eq!([first, second, short, last].map(|id| tree.place_of(id)), expected.map(Some));
}

#[test]
fn bytes_that_are_left_out_and_cut_short_are_refused() {
    let pickle = [&b"\x80\x04B\x88\x13\0\0"[..], &[7; 4999], b"."].concat();
    let file = File::new(Arc::new(pickle[..5006].to_vec()), "p.pkl").unwrap();
    let error = parse(Feed::new(&file, 0, u64::MAX, &Limits::default()).leaving_out(0)).unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Corrupt, "the pickle ends too early"));
}
