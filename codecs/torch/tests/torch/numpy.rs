//! Arrays and numbers of NumPy within the pickle.

use crate::build::saved_pickle;
use ckpt_api::{Contents, DType, Input, Kind, MetadataValue, Result};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

const NEW: &str = "numpy._core.multiarray";

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

fn lens(lens: &[u8]) -> Vec<u8> {
    tuple(&lens.iter().map(|len| vec![b'K', *len]).collect::<Vec<_>>())
}

fn dtype(code: &str, order: &str) -> Vec<u8> {
    let state = [&b"(K\x03"[..], &text(order), b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0t"].concat();
    [&b"cnumpy\ndtype\n"[..], &tuple(&[text(code), vec![0x89], vec![0x88]]), b"R", &state, b"b"].concat()
}

/// Bytes as protocol 2 has them.
fn encoded(bytes: &[u8]) -> Vec<u8> {
    let all: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    [&b"c_codecs\nencode\n"[..], &tuple(&[text(&all), text("latin1")]), b"R"].concat()
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    [b"B", &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

fn array(module: &str, shape: &[u8], dtype: &[u8], is_fortran: bool, data: &[u8]) -> Vec<u8> {
    let made = tuple(&[b"cnumpy\nndarray\n".to_vec(), lens(&[0]), encoded(b"b")]);
    let flag = vec![if is_fortran { 0x88 } else { 0x89 }];
    let state = tuple(&[b"K\x01".to_vec(), lens(shape), dtype.to_vec(), flag, data.to_vec()]);
    [format!("c{module}\n_reconstruct\n").as_bytes(), &made, b"R", &state, b"b"].concat()
}

/// What a file holds whose one value, `a`, these opcodes make.
fn read(protocol: u8, value: &[u8]) -> Result<(Contents, Vec<Vec<u8>>)> {
    let pickle = [&[0x80, protocol][..], b"}", &text("a"), value, b"s."].concat();
    let input = Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), saved_pickle(&pickle, &[]))]));
    ckpt_conformance::read(&Torch, &input, &[])
}

/// The one tensor that these opcodes make: dtype, shape and values.
fn one(protocol: u8, value: &[u8]) -> (DType, Vec<u64>, Vec<u8>) {
    let (contents, mut values) = read(protocol, value).unwrap();
    let [tensor] = &contents.checkpoint.tensors[..] else { panic!("{:?}", contents.notes) };
    assert_eq!(tensor.name, "a");
    (tensor.dtype, tensor.shape.to_vec(), values.remove(0))
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Their bytes are partly above 0x7f, so that a text of them is longer.
const NUMBERS: [f32; 6] = [0.0, -1.5, 2.0, 3.25, -4.0, 1e30];

#[test]
fn arrays_of_every_protocol_have_their_values() {
    let expected = (DType::F32, vec![2, 3], floats(&NUMBERS));
    let bytes = floats(&NUMBERS);
    let f4 = dtype("f4", "<");
    for module in [NEW, "numpy.core.multiarray"] {
        assert_eq!(one(2, &array(module, &[2, 3], &f4, false, &encoded(&bytes))), expected);
    }
    for protocol in [3, 4, 5] {
        assert_eq!(one(protocol, &array(NEW, &[2, 3], &f4, false, &binary(&bytes))), expected);
    }
    let bytearray = [&[0x96][..], &(bytes.len() as u64).to_le_bytes(), &bytes].concat();
    let buffer = |order: &str| {
        let given = tuple(&[bytearray.clone(), f4.clone(), lens(&[2, 3]), text(order)]);
        [&b"cnumpy._core.numeric\n_frombuffer\n"[..], &given, b"R"].concat()
    };
    assert_eq!(one(5, &buffer("C")), expected);
    let turned = [0, 2, 4, 1, 3, 5].map(|at: usize| NUMBERS[at]);
    assert_eq!(one(5, &buffer("F")).2, floats(&turned));
}

#[test]
fn the_strings_of_python_2_are_bytes() {
    // Two bytes that are one character of UTF-8, which `U` does not mean.
    let string = b"U\x02\xc3\xbf";
    assert_eq!(one(2, &array(NEW, &[2], &dtype("u1", "|"), false, string)).2, [0xc3, 0xbf]);
    assert_eq!(one(2, &array(NEW, &[1], &dtype("u1", "|"), false, &encoded(&[0xff]))).2, [0xff]);
}

#[test]
fn arrays_of_every_dtype_and_byte_order_have_their_values() {
    let all = [
        ("f8", DType::F64, 8),
        ("f4", DType::F32, 4),
        ("f2", DType::F16, 2),
        ("i8", DType::I64, 8),
        ("i4", DType::I32, 4),
        ("i2", DType::I16, 2),
        ("i1", DType::I8, 1),
        ("u8", DType::U64, 8),
        ("u4", DType::U32, 4),
        ("u2", DType::U16, 2),
        ("u1", DType::U8, 1),
        ("b1", DType::Bool, 1),
        ("c8", DType::C64, 4),
        ("c16", DType::C128, 8),
    ];
    for (code, expected, component) in all {
        let len = expected.bytes().unwrap() as usize * 2;
        let bytes: Vec<u8> =
            (0..len as u8).map(|byte| if code == "b1" { byte & 1 } else { byte.wrapping_mul(37) }).collect();
        let order = if component == 1 { "|" } else { "<" };
        let little = array(NEW, &[2], &dtype(code, order), false, &encoded(&bytes));
        assert_eq!(one(2, &little), (expected, vec![2], bytes.clone()), "{code}");
        if component > 1 {
            let swapped: Vec<u8> =
                bytes.chunks(component).flat_map(|chunk| chunk.iter().rev().copied()).collect();
            let big = array(NEW, &[2], &dtype(code, ">"), false, &encoded(&swapped));
            assert_eq!(one(2, &big), (expected, vec![2], bytes), "{code}");
        }
    }
}

#[test]
fn arrays_without_axes_and_without_elements_are_read() {
    let f4 = dtype("f4", "<");
    assert_eq!(one(2, &array(NEW, &[], &f4, false, &encoded(&floats(&[-2.5])))).2, floats(&[-2.5]));
    let nothing = b"c__builtin__\nbytes\n)R";
    assert_eq!(one(2, &array(NEW, &[0, 3], &f4, false, nothing)), (DType::F32, vec![0, 3], Vec::new()));
}

#[test]
fn arrays_of_something_else_than_numbers_are_reported_by_what_they_hold() {
    let structure = b"cnumpy\ndtype\n(X\x02\0\0\0V8\x89\x88tR(K\x03X\x01\0\0\0|N(X\x01\0\0\0ft}J\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb";
    for (dtype, expected) in [
        (dtype("O8", "|"), "'a' (a NumPy array of Python objects)"),
        (dtype("U3", "<"), "'a' (a NumPy array of texts)"),
        (dtype("S3", "|"), "'a' (a NumPy array of texts)"),
        (dtype("M8", "<"), "'a' (a NumPy array of times)"),
        (dtype("f16", "<"), "'a' (a NumPy array of the type f16)"),
        (structure.to_vec(), "'a' (a NumPy array of records)"),
    ] {
        let (contents, _) = read(2, &array(NEW, &[1], &dtype, false, b"](K\x01e")).unwrap();
        assert!(contents.checkpoint.tensors.is_empty());
        let notes = contents.notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n");
        assert!(notes.contains(expected), "{notes}");
    }
    let array = array(NEW, &[1], &dtype("u1", "|"), false, &encoded(&[1]));
    let at = array.windows(7).position(|bytes| bytes == b"ndarray").unwrap();
    let masked = [&array[..at], b"chararray", &array[at + 7..]].concat();
    let notes =
        read(2, &masked).unwrap().0.notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n");
    assert!(notes.contains("'a' (a NumPy array of an unknown class)"), "{notes}");
}

#[test]
fn arrays_whose_bytes_are_too_few_too_many_or_none_are_refused() {
    let f4 = dtype("f4", "<");
    let u1 = dtype("u1", "|");
    for (value, expected) in [
        (array(NEW, &[2, 3], &f4, false, &encoded(&floats(&NUMBERS[..5]))), "do not fill its shape"),
        (array(NEW, &[2], &f4, false, &encoded(&floats(&NUMBERS))), "do not fill its shape"),
        // Long enough as a text, too short as bytes.
        (array(NEW, &[3], &u1, false, &encoded(&[0xff, 0xff])), "found 2 bytes, expected 3"),
        (array(NEW, &[2], &u1, false, &text("€")), "a character that is no byte"),
        (array(NEW, &[2], &u1, false, b"K\x01"), "something else than bytes"),
    ] {
        let error = read(2, &value).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let escaped = array(NEW, &[1], &u1, false, b"c_codecs\nencode\n(V\\u00ff\nX\x06\0\0\0latin1tR");
    let error = read(2, &escaped).unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("escaped text"), "{error}");
}

#[test]
fn texts_that_many_arrays_share_are_not_read_without_end() {
    let bytes = [0xffu8; 30_000];
    let data = [&encoded(&bytes)[..], b"q\x09"].concat();
    let wide = |data: &[u8]| {
        let shape = [&b"("[..], b"M\x30\x75", b"t"].concat();
        let made = tuple(&[b"cnumpy\nndarray\n".to_vec(), lens(&[0]), encoded(b"b")]);
        let state = tuple(&[b"K\x01".to_vec(), shape, dtype("u1", "|"), vec![0x89], data.to_vec()]);
        [format!("c{NEW}\n_reconstruct\n").as_bytes(), &made, b"R", &state, b"b"].concat()
    };
    let list = |count: usize| {
        let first = wide(&data);
        let rest: Vec<u8> = (1..count).flat_map(|_| wide(b"h\x09")).collect();
        [&b"]("[..], &first, &rest, b"e"].concat()
    };
    assert_eq!(read(2, &list(3)).unwrap().0.checkpoint.tensors.len(), 3);
    let error = read(2, &list(50)).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("shared so often"), "{error}");
}

#[test]
fn numbers_of_numpy_are_metadata() {
    let scalar = |code: &str, order: &str, bytes: &[u8]| {
        let given = tuple(&[dtype(code, order), encoded(bytes)]);
        let call = [format!("c{NEW}\nscalar\n").as_bytes(), &given, b"R"].concat();
        let (contents, _) = read(2, &call).unwrap();
        contents.checkpoint.metadata.value("torch", "a").cloned()
    };
    assert_eq!(scalar("f8", "<", &1.5f64.to_le_bytes()), Some(MetadataValue::F64(1.5)));
    assert_eq!(scalar("i4", ">", &7i32.to_be_bytes()), Some(MetadataValue::I32(7)));
    assert_eq!(scalar("b1", "|", &[1]), Some(MetadataValue::Bool(true)));
    assert_eq!(scalar("f8", "<", &[0; 4]), None);
    let complex = scalar("c16", "<", &[1f64, 2.0].map(f64::to_le_bytes).concat()).unwrap();
    assert_eq!(complex.as_map().and_then(|map| map.get("imag")), Some(&MetadataValue::F64(2.0)));
}
