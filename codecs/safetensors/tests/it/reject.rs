//! Every rule that a hostile file could break, and what the error says.

use crate::common::{data, entry, file, files, read, read_one, set};
use ckpt_api::{Codec, Error, Input, Kind, Limits, Match, Options};
use ckpt_safetensors::Safetensors;

fn w(dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!("{{{}}}", entry("w", dtype, shape, start, end))
}

fn two(a: (u64, u64), b: (u64, u64)) -> String {
    let sized = |name: &str, (start, end): (u64, u64)| {
        entry(name, "U8", &format!("[{}]", end.saturating_sub(start)), start, end)
    };
    format!("{{{},{}}}", sized("a", a), sized("b", b))
}

#[test]
fn every_broken_header_is_refused_with_its_reason() {
    let u64_max = u64::MAX;
    let table: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "cut short"),
        (vec![1, 0, 0], "cut short"),
        (u64_max.to_le_bytes().to_vec(), "longer than the file"),
        (file("", &[]), "does not begin with '{'"),
        (file(" {}", &[]), "does not begin with '{'"),
        (file("[]", &[]), "does not begin with '{'"),
        (file("{", &[]), "EOF while parsing"),
        (file("{}x", &[]), "trailing characters"),
        (file("{}\0\0", &[]), "trailing characters"),
        (file(&w("F32", "[2]", 0, 8), &data(7)), "ends before its last tensor"),
        (file(&w("F32", "[2]", 0, 8), &data(9)), "bytes follow the last tensor"),
        (file("{}", &data(1)), "bytes follow the last tensor"),
        (file(&w("F32", "[2]", 0, 4), &data(4)), "does not fit the shape"),
        (file(&w("F32", "[2]", 8, 0), &data(8)), "bytes of no tensor"),
        (file(&w("U8", "[1]", 1, 2), &data(2)), "bytes of no tensor"),
        (file(&w("U8", "[0]", u64_max, u64_max), &[]), "bytes of no tensor"),
        (file(&w("U8", "[18446744073709551615]", 0, u64_max), &[]), "too many elements"),
        (file(&w("U8", "[4294967296,4294967296]", 0, 0), &[]), "too many elements"),
        (file(&w("F64", "[144115188075855872]", 0, 1 << 60), &[]), "ends before its last tensor"),
        (file(&w("F4", "[3]", 0, 2), &data(2)), "do not fill whole bytes"),
        (file(&w("F32", "[-1]", 0, 4), &data(4)), "invalid value"),
        (file(&w("F32", "[1.0]", 0, 4), &data(4)), "invalid type"),
        (file(&w("F32", "[1e30]", 0, 4), &data(4)), "invalid type"),
        (file(&w("F32", "\"1\"", 0, 4), &data(4)), "invalid type"),
        (file(&w("F33", "[1]", 0, 4), &data(4)), "unknown variant"),
        (file(&w("f32", "[1]", 0, 4), &data(4)), "unknown variant"),
        (file(&two((0, 4), (2, 6)), &data(6)), "overlaps another"),
        (file(&two((0, 4), (0, 4)), &data(4)), "overlaps another"),
        (file(&two((0, 2), (4, 6)), &data(6)), "bytes of no tensor"),
        (file(&format!("{{{0},{0}}}", entry("w", "U8", "[1]", 0, 1)), &data(1)), "names a tensor twice"),
        (file(r#"{"w":{"dtype":"U8","shape":[1]}}"#, &data(1)), "missing field"),
        (file(r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0]}}"#, &data(1)), "invalid length"),
        (
            file(r#"{"w":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}"#, &data(1)),
            "duplicate field",
        ),
        (file(r#"{"w":null}"#, &[]), "invalid type"),
        (file(r#"{"__metadata__":{"a":1}}"#, &[]), "invalid type"),
        (file(r#"{"__metadata__":{"a":"1","a":"2"}}"#, &[]), "given twice"),
        (file(r#"{"__metadata__":{},"__metadata__":{}}"#, &[]), "given twice"),
        (file(r#"{"__metadata__":[]}"#, &[]), "invalid type"),
    ];
    for (bytes, reason) in &table {
        let error = read_one(bytes).map(|_| ()).expect_err(reason);
        let text = error.to_string();
        assert!(error.kind() == Kind::Corrupt && text.contains(reason), "'{reason}' expected, got: {text}");
        assert!(text.contains("m.safetensors"), "the file is not named: {text}");
    }
    assert_eq!(table.len(), 38);
}

#[test]
fn a_header_that_is_not_utf8_is_refused_at_its_byte() {
    let mut bytes = file("{\"a?\":1}", &[]);
    bytes[11] = 0xff;
    assert!(read_one(&bytes).unwrap_err().to_string().contains("offset 11"));
}

#[test]
fn an_error_in_an_entry_names_the_tensor() {
    let error = read_one(&file(&two((0, 4), (2, 6)), &data(6))).unwrap_err();
    assert!(error.context().tensor == Some("b"), "{error}");
    let error = read_one(&file(&w("F33", "[1]", 0, 4), &data(4))).unwrap_err();
    assert!(error.context().field == Some("w"), "{error}");
}

#[test]
fn a_header_over_the_limit_is_refused_before_it_is_read() {
    let bytes = file(&w("U8", "[1]", 0, 1), &data(1));
    let input = Input::memory("m.safetensors", files([("m.safetensors", bytes)]));
    let mut limits = Limits::default();
    limits.set_by_name("header_bytes", "16").unwrap();
    let error = Safetensors.read(&input, &Options::default(), &limits).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    for open in ["[", "{\"a\":"] {
        let header = format!("{{\"w\":{}", open.repeat(200_000));
        assert!(read_one(&file(&header, &[])).is_err());
        let header = format!("{{\"w\":{{\"x\":{}", open.repeat(200_000));
        assert!(read_one(&file(&header, &[])).is_err());
    }
}

fn read_set(change: impl FnOnce(&str) -> String) -> Error {
    let mut files = set("{}");
    let index = String::from_utf8(files["m.safetensors.index.json"].clone()).unwrap();
    let changed = change(&index);
    assert_ne!(index, changed);
    files.insert("m.safetensors.index.json".into(), changed.into_bytes());
    read("m.safetensors.index.json", files).map(|_| ()).expect_err("accepted")
}

#[test]
fn a_shard_name_that_leaves_the_directory_is_refused() {
    let two = "m-00002-of-00002.safetensors";
    for hostile in
        ["../x.safetensors", "/etc/passwd", "a/../../b", "", ".", "a\\\\b", "./m.safetensors", "a\\u0000"]
    {
        let error = read_set(|index| index.replace(two, hostile));
        assert!(error.to_string().contains("leads outside the input's directory"), "{hostile}: {error}");
    }
}

#[test]
fn an_index_that_contradicts_its_shards_is_refused() {
    let one = "m-00001-of-00002.safetensors";
    let two = "m-00002-of-00002.safetensors";
    let missing = read_set(|index| index.replace("\"b\":", &format!("\"x\":\"{one}\",\"b\":")));
    assert!(missing.to_string().contains("no shard holds (file m.safetensors.index.json"), "{missing}");
    let twice = read_set(|index| index.replace("\"c\":", &format!("\"a\":\"{two}\",\"c\":")));
    assert!(twice.to_string().contains("given twice"), "{twice}");
    let absent = read_set(|index| index.replace(two, "n.safetensors"));
    assert!(absent.kind() == Kind::Io && absent.to_string().contains("beside the index"), "{absent}");
}

#[test]
fn an_index_of_another_form_is_refused() {
    for text in [
        "",
        "{}",
        "[]",
        r#"{"weight_map":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
        r#"{"metadata":1,"weight_map":{"a":"b"}}"#,
    ] {
        let error = read_set(|_| text.to_owned());
        assert_eq!(error.kind(), Kind::Corrupt, "{text}: {error}");
    }
}

#[test]
fn a_directory_with_several_checkpoints_is_refused_with_their_names() {
    let file = || file(&w("U8", "[1]", 0, 1), &data(1));
    let several = files([("a.safetensors", file()), ("b.safetensors", file())]);
    let error = read("", several.clone()).unwrap_err();
    assert!(
        error.kind() == Kind::Usage && error.to_string().contains("a.safetensors, b.safetensors"),
        "{error}"
    );
    assert!(matches!(Safetensors.probe(&Input::memory("", several)).unwrap(), Match::Possible(_)));

    let mut indexes = set("{}");
    indexes.insert("n.safetensors.index.json".into(), b"{}".to_vec());
    assert_eq!(read("", indexes).unwrap_err().kind(), Kind::Usage);
    assert_eq!(read("", files([("x.bin", vec![])])).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn probing_is_certain_only_of_what_can_be_read() {
    let valid = file(&w("U8", "[1]", 0, 1), &data(1));
    let damaged = file(&w("U8", "[2]", 0, 1), &data(1));
    let probe = |name: &str, bytes: &[u8]| {
        Safetensors.probe(&Input::memory(name, files([(name, bytes.to_vec())]))).unwrap()
    };
    assert!(matches!(probe("no_extension", &valid), Match::Certain(_)));
    assert_eq!(probe("no_extension", &damaged), Match::No);
    assert!(matches!(probe("m.safetensors", &damaged), Match::Possible(why) if why.contains("does not fit")));
    assert_eq!(
        probe("pytorch_model.bin.index.json", br#"{"weight_map":{"a":"pytorch_model.bin"}}"#),
        Match::No
    );
    assert!(matches!(probe("m.safetensors.index.json", b"{"), Match::Possible(_)));
    assert_eq!(probe("config.json", b"{}"), Match::No);
    assert_eq!(Safetensors.probe(&Input::memory("", files([("x", vec![])]))).unwrap(), Match::No);
}

#[test]
fn a_carried_graph_that_cannot_run_is_left_out_with_a_note() {
    let graphs = [
        (r#"{"inputs":[],"outputs":[{"name":"y","shape":[]}],"nodes":[]}"#, "no layer produces"),
        (
            r#"{"inputs":[],"outputs":[],"nodes":[{"name":"a","op":"Relu","inputs":["x"],"outputs":["y"]}]}"#,
            "no earlier layer produces",
        ),
        (
            r#"{"inputs":[],"outputs":[],"nodes":[{"name":"a","op":"Gemm","inputs":[],"outputs":[],"parameters":{"weight":"gone"}}]}"#,
            "uses the tensor 'gone'",
        ),
        ("7", "not understood"),
    ];
    for (graph, why) in graphs {
        let carried = serde_json::json!(format!(r#"{{"version":1,"graph":{graph}}}"#));
        let header = format!(r#"{{"__metadata__":{{"ckpt":{carried}}},{}}}"#, entry("w", "U8", "[1]", 0, 1));
        let (contents, _) = read_one(&file(&header, &data(1))).unwrap();
        assert!(contents.checkpoint.graph.is_none(), "{graph}");
        assert!(contents.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", contents.notes);
    }
}
