use super::*;
use crate::{Checkpoint, Contents, Kind, Limit, Limits};
use proptest::prelude::*;

fn values() -> impl Strategy<Value = MetadataValue> {
    let leaf = prop_oneof![
        Just(MetadataValue::Null),
        any::<bool>().prop_map(MetadataValue::from),
        any::<u8>().prop_map(MetadataValue::from),
        any::<u16>().prop_map(MetadataValue::from),
        any::<u32>().prop_map(MetadataValue::from),
        any::<u64>().prop_map(MetadataValue::from),
        any::<i8>().prop_map(MetadataValue::from),
        any::<i16>().prop_map(MetadataValue::from),
        any::<i32>().prop_map(MetadataValue::from),
        any::<i64>().prop_map(MetadataValue::from),
        any::<u32>().prop_map(|bits| f32::from_bits(bits).into()),
        any::<u64>().prop_map(|bits| f64::from_bits(bits).into()),
        prop::sample::select(vec![f64::NAN, f64::INFINITY, -0.0]).prop_map(MetadataValue::from),
        "[A-Za-z0-9+/=$]{0,8}".prop_map(MetadataValue::from),
        "7fc0000[0-9]|7ff800000000000[0-9]".prop_map(MetadataValue::from),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(MetadataValue::Bytes),
    ];
    let key = prop_oneof![
        prop::sample::select(vec!["$map", "$u8", "$u32", "$u64", "$i8", "$f32", "$f64", "$bytes", "$", "a"])
            .prop_map(str::to_owned),
        "[a-z$]{0,3}",
    ];
    leaf.prop_recursive(6, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(MetadataValue::from),
            prop::collection::vec((key.clone(), inner), 0..3)
                .prop_map(|entries| MetadataMap::from_iter(entries).into()),
        ]
    })
}

/// The same with the order of maps: maps are equal in any order.
fn shown(value: &MetadataValue) -> String {
    serde_json::to_string(value).unwrap()
}

proptest! {
    #[test]
    fn json_is_read_as_the_value_that_it_was_written_from(value in values()) {
        let text = shown(&value);
        let read: MetadataValue = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &value, "{}", text);
        prop_assert_eq!(shown(&read), text);
    }

    #[test]
    fn any_json_is_written_as_it_was_read(value in values()) {
        // As plain JSON, whose maps may look like tags.
        let plain = serde_json::to_value(&value).unwrap();
        let read: MetadataValue = serde_json::from_value(plain.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), plain);
    }
}

#[test]
fn values_that_json_lacks_have_a_tag() {
    let map = |key: &str, value: MetadataValue| MetadataValue::from(MetadataMap::from_iter([(key, value)]));
    let cases: Vec<(MetadataValue, &str)> = vec![
        (5i64.into(), "5"),
        (u64::MAX.into(), "18446744073709551615"),
        (5u64.into(), r#"{"$u64":5}"#),
        (5u32.into(), r#"{"$u32":5}"#),
        (1.0f64.into(), "1.0"),
        (0.1f32.into(), r#"{"$f32":0.10000000149011612}"#),
        (f32::NAN.into(), r#"{"$f32":"7fc00000"}"#),
        (f64::NAN.into(), r#"{"$f64":"7ff8000000000000"}"#),
        (MetadataValue::Bytes(vec![0, 1, 2]), r#"{"$bytes":"AAEC"}"#),
        (map("$u32", 5i64.into()), r#"{"$map":{"$u32":5}}"#),
        (map("$map", map("$u32", 5i64.into())), r#"{"$map":{"$map":{"$map":{"$u32":5}}}}"#),
        (map("$map", 5u32.into()), r#"{"$map":{"$map":{"$u32":5}}}"#),
        // These are no tag's.
        (map("$u32", (-5i64).into()), r#"{"$u32":-5}"#),
        (map("$f32", 0.1f64.into()), r#"{"$f32":0.1}"#),
        (map("$bytes", "AAE".into()), r#"{"$bytes":"AAE"}"#),
        (map("$id", 5i64.into()), r#"{"$id":5}"#),
        (map("$map", map("a", 5i64.into())), r#"{"$map":{"a":5}}"#),
    ];
    for (value, json) in cases {
        assert_eq!(shown(&value), json);
        assert_eq!(serde_json::from_str::<MetadataValue>(json).unwrap(), value, "{json}");
    }
}

#[test]
fn floats_are_equal_by_their_bits() {
    assert_eq!(MetadataValue::F64(f64::NAN), MetadataValue::F64(f64::NAN));
    assert_ne!(MetadataValue::F64(0.0), MetadataValue::F64(-0.0));
    assert_ne!(MetadataValue::F32(f32::NAN), MetadataValue::F32(-f32::NAN));
    assert_ne!(MetadataValue::from(1u32), MetadataValue::from(1u64));
}

#[test]
fn a_map_keeps_its_order_and_finds_each_of_many_keys() {
    let mut map: MetadataMap = (0..100).rev().map(|key| (key.to_string(), key)).collect();
    assert_eq!(map.insert("50", 7i32), Some(MetadataValue::I32(50)));
    assert_eq!(map.remove("98"), Some(MetadataValue::I32(98)));
    assert_eq!((map.get("50"), map.get("98")), (Some(&MetadataValue::I32(7)), None));
    let keys: Vec<&str> = map.iter().map(|(key, _)| key).take(3).collect();
    assert_eq!(keys, ["99", "97", "96"]);
    let removed = (0..90).step_by(if cfg!(miri) { 30 } else { 1 });
    let left = map.len() - removed.len();
    for key in removed.map(|key| key.to_string()) {
        assert!(map.remove(&key).is_some(), "{key}");
    }
    assert_eq!((map.len(), map.get("97")), (left, Some(&MetadataValue::I32(97))));
}

#[test]
fn namespaces_are_sorted_and_hold_their_own_keys() {
    let mut metadata = Metadata::default();
    for (namespace, key) in [("m", "k"), ("z", "k"), ("a", "k"), ("m", "l"), ("m", "k")] {
        metadata.insert(namespace, key, format!("{namespace}{key}"));
    }
    let all: Vec<(&str, usize)> = metadata.iter().map(|(namespace, map)| (namespace, map.len())).collect();
    assert_eq!(all, [("a", 1), ("m", 2), ("z", 1)]);
    assert_eq!(
        (metadata.text("m", "l"), metadata.text("a", "l"), metadata.text("b", "k")),
        (Some("ml"), None, None)
    );
    let json = serde_json::to_string(&metadata).unwrap();
    assert_eq!(json, r#"{"a":{"k":"ak"},"m":{"k":"mk","l":"ml"},"z":{"k":"zk"}}"#);
    assert_eq!(serde_json::from_str::<Metadata>(&json).unwrap(), metadata);
    assert_eq!(metadata.remove("m").map(|map| map.len()), Some(2));
    assert!(metadata.remove("m").is_none());
    assert!(metadata.remove("a").is_some() && metadata.remove("z").is_some() && metadata.is_empty());
}

#[test]
fn maps_are_equal_in_any_order() {
    let map = |keys: &[&str]| -> MetadataMap { keys.iter().map(|key| (*key, true)).collect() };
    assert_eq!(map(&["a", "b"]), map(&["b", "a"]));
    assert_ne!(map(&["a", "b"]), map(&["a", "c"]));
    assert_ne!(map(&["a"]), map(&["a", "b"]));
}

fn nested(levels: usize) -> MetadataValue {
    (0..levels).fold(MetadataValue::Null, |value, _| vec![value].into())
}

#[test]
fn a_value_that_is_nested_too_deeply_is_refused() {
    assert!(nested(MetadataValue::MAX_NESTING).checked().is_ok());
    assert_eq!(nested(MetadataValue::MAX_NESTING + 1).checked().unwrap_err().kind(), Kind::Limit);
    let mut contents = Contents::default();
    contents.checkpoint.metadata.insert("toy", "deep", nested(MetadataValue::MAX_NESTING + 1));
    let error = contents.check(&Limits::default()).unwrap_err().to_string();
    assert!(error.contains("nested too deeply") && error.contains("toy.deep"), "{error}");
    let mut levels = serde_json::Value::Null;
    for _ in 0..2 * MetadataValue::MAX_NESTING + 2 {
        levels = serde_json::Value::Array(vec![levels]);
    }
    assert!(serde_json::from_value::<MetadataValue>(levels).is_err());
}

#[test]
fn entries_and_bytes_of_all_metadata_are_limited() {
    let mut checkpoint = Checkpoint::default();
    checkpoint.metadata.insert("toy", "list", ["ab", "cd"]);
    let contents = Contents { checkpoint, ..Contents::default() };
    for (limit, found) in [(Limit::MetadataEntries, 3), (Limit::MetadataBytes, 8)] {
        contents.check(&Limits::default().with(limit, found)).unwrap();
        let error = contents.check(&Limits::default().with(limit, found - 1)).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
        assert!(error.to_string().contains(limit.name()), "{error}");
    }
}
