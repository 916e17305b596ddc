//! What a file says of the byte order of the machine that wrote it.

use crate::build::{archive, text};
use ckpt_api::{Contents, DType, Input};
use ckpt_conformance::read;
use ckpt_torch::Torch;
use std::collections::BTreeMap;

/// The pickle of a dict with the tensor `w` of two elements in the storage 0: of a class, or of bytes with a type.
fn pickle(class: &str, elements: u8, dtype: Option<&str>) -> Vec<u8> {
    let function = if dtype.is_some() { "_rebuild_tensor_v3" } else { "_rebuild_tensor_v2" };
    let dtype = dtype.map(|dtype| format!("ctorch\n{dtype}\n")).unwrap_or_default();
    let class = format!("c{class}\n");
    let id = [&text("storage")[..], class.as_bytes(), &text("0"), &text("cpu"), &[b'K', elements]].concat();
    let view = [b"((", &id[..], b"tQK\0(K\x02t(K\x01t\x89N", dtype.as_bytes(), b"t"].concat();
    let made = [format!("ctorch._utils\n{function}\n").as_bytes(), &view, b"R"].concat();
    [b"\x80\x02}", &text("w")[..], &made, b"s."].concat()
}

fn open(name: &str, bytes: Vec<u8>) -> (Contents, Vec<Vec<u8>>) {
    read(&Torch, &Input::memory(name, BTreeMap::from([(name.to_owned(), bytes)])), &[]).unwrap()
}

/// A file before the zip archive, whose system information is these opcodes.
fn legacy(system: &[u8], class: &str, data: &[u8]) -> Vec<u8> {
    let head = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02";
    let object = pickle(class, 2, None);
    let keys = [b"\x80\x02]", &text("0")[..], b"a."].concat();
    [&head[..], system, b".", &object, &keys, &2u64.to_le_bytes(), data].concat()
}

#[test]
fn the_old_format_is_little_endian_whatever_it_says_of_the_machine() {
    let flag = |flag: &[u8]| [b"}", &text("little_endian")[..], flag, b"s"].concat();
    for system in [flag(b"\x88"), flag(b"\x89"), b"}".to_vec(), b"N".to_vec()] {
        for (class, dtype, data) in [
            ("torch\nFloatStorage", DType::F32, [1f32, -2.0].map(f32::to_le_bytes).concat()),
            ("torch\nShortStorage", DType::I16, [1i16, -2].map(i16::to_le_bytes).concat()),
            ("torch\nDoubleStorage", DType::F64, [1f64, -2.0].map(f64::to_le_bytes).concat()),
        ] {
            let (contents, values) = open("m.pt", legacy(&system, class, &data));
            assert_eq!(contents.checkpoint.tensors[0].dtype, dtype);
            assert_eq!(values, [data]);
        }
    }
}

#[test]
fn the_numbers_of_a_big_endian_archive_are_turned_and_a_note_says_where_pytorch_does_not() {
    let file = |pickle: &[u8], data: &[u8]| {
        let records: [(&str, &[u8]); 4] =
            [("m/data.pkl", pickle), ("m/byteorder", b"big"), ("m/data/0", data), ("m/version", b"3\n")];
        open("m.pt", archive(&records, 64))
    };
    let noted = |contents: &Contents| {
        contents.notes.iter().any(|note| note.starts_with("1 tensor read as the big-endian machine"))
    };
    let floats = [1f32, -2.0].map(f32::to_be_bytes).concat();
    let (contents, values) = file(&pickle("torch\nFloatStorage", 2, None), &floats);
    assert_eq!(values, [[1f32, -2.0].map(f32::to_le_bytes).concat()]);
    assert!(!noted(&contents), "{:?}", contents.notes);
    let numbers = [1u16, 513].map(u16::to_be_bytes).concat();
    let untyped = pickle("torch.storage\nUntypedStorage", 4, Some("uint16"));
    let (contents, values) = file(&untyped, &numbers);
    assert_eq!(values, [[1u16, 513].map(u16::to_le_bytes).concat()]);
    assert!(noted(&contents), "{:?}", contents.notes);
}
