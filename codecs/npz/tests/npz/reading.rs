//! What is in a file that is read.

use crate::build::{
    Member, archive, header, input, matrix, old, read, refused, rewrite, sample, turned, with_end64,
};
use ckpt_api::{Codec, DType, Endian, Match};
use ckpt_npz::Npz;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn names_are_those_of_the_members_without_their_ending() {
    let (contents, _) = read("m.npz", &archive(&sample()), false).unwrap();
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["w", "a/t", "ä"]);
}

#[test]
fn a_single_array_is_called_as_its_file() {
    for (file, name) in [("w.npy", "w"), ("w.b.npy", "w.b"), ("w", "w")] {
        let (contents, _) = read(file, &matrix(), false).unwrap();
        assert_eq!(contents.checkpoint.tensors[0].name, name);
    }
}

#[test]
fn byte_order_and_axis_order_are_encodings_of_the_same_values() {
    let (_, plain) = read("w.npy", &matrix(), false).unwrap();
    let (contents, values) = read("w.npy", &turned(), false).unwrap();
    assert_eq!(floats(&values[0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(values, plain);
    let encoding = &contents.placements[0].encoding;
    assert_eq!((encoding.endian, &encoding.order[..]), (Endian::Big, &[1, 0][..]));
    assert_eq!(contents.checkpoint.tensors[0].shape.to_vec(), [2, 3]);
}

#[test]
fn every_dtype_of_numpy_is_read() {
    let known = Npz.info().dtypes;
    for (code, dtype) in [
        ("f8", DType::F64),
        ("f4", DType::F32),
        ("f2", DType::F16),
        ("i8", DType::I64),
        ("i4", DType::I32),
        ("i2", DType::I16),
        ("i1", DType::I8),
        ("u8", DType::U64),
        ("u4", DType::U32),
        ("u2", DType::U16),
        ("u1", DType::U8),
        ("b1", DType::Bool),
        ("c8", DType::C64),
        ("c16", DType::C128),
    ] {
        assert!(known.contains(&dtype));
        let size = dtype.bytes().unwrap() as usize;
        for order in if dtype.component_bytes() == 1 { &['|'][..] } else { &['<', '>'] } {
            let mut bytes = header(&format!("{order}{code}"), false, "(2,)", 20);
            bytes.extend(vec![0; 2 * size]);
            let (contents, values) = read("w.npy", &bytes, false).unwrap();
            assert_eq!((contents.checkpoint.tensors[0].dtype, values[0].len()), (dtype, 2 * size));
            assert_eq!(rewrite("w.npy", &bytes), bytes, "{order}{code}");
        }
    }
    assert_eq!(known.len(), 14);
}

#[test]
fn an_unmodified_file_comes_back_byte_for_byte() {
    for (name, bytes) in
        [("w.npy", matrix()), ("w.npy", turned()), ("w.npy", old()), ("m.npz", archive(&sample()))]
    {
        assert_eq!(rewrite(name, &bytes), bytes, "{name}");
    }
}

#[test]
fn only_what_numpy_would_write_otherwise_is_remembered() {
    let kept = |bytes: &[u8]| {
        let (contents, _) = read("w.npy", bytes, false).unwrap();
        contents.checkpoint.tensors[0].metadata.namespace("npz").map_or(0, |map| map.len())
    };
    assert_eq!((kept(&matrix()), kept(&turned()), kept(&old())), (0, 1, 2));
}

#[test]
fn sizes_that_come_after_the_data_may_be_missing_before_them() {
    let mut member = Member::new("w.npy", matrix());
    (member.flags, member.local_crc, member.local_len) = (1 << 3, 0, 0);
    let (_, values) = read("m.npz", &archive(&[member]), false).unwrap();
    assert_eq!(floats(&values[0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn sixty_four_bit_numbers_say_the_same() {
    let plain = archive(&sample());
    let (contents, values) = read("m.npz", &plain, false).unwrap();
    let (large, same) = read("m.npz", &with_end64(plain), false).unwrap();
    assert_eq!((contents.checkpoint, values), (large.checkpoint, same));
}

#[test]
fn a_comment_is_no_part_of_the_arrays() {
    let mut bytes = archive(&sample());
    let at = bytes.len() - 2;
    bytes[at] = 26;
    // What looks like an end within the comment is none.
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0; 22]);
    assert_eq!(read("m.npz", &bytes, false).unwrap().0.checkpoint.tensors.len(), 3);
}

#[test]
fn what_is_no_array_of_numbers_is_left_out_when_lenient_and_reported() {
    let mut text = header("<U2", false, "(1,)", 20);
    text.extend([0; 8]);
    let mut object = header("|O", false, "(1,)", 20);
    object.extend(b"\x80\x04N.");
    let members = [
        Member::new("text.npy", text),
        Member::new("object.npy", object),
        Member::new("readme.txt", b"hello".to_vec()),
        Member::new("not.npy", b"hello world".to_vec()),
        Member::new("w.npy", matrix()),
    ];
    let (contents, _) = read("m.npz", &archive(&members), true).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].name, "w");
    let left_out: Vec<&str> = contents.repairs.iter().map(|repair| repair.subject.as_str()).collect();
    assert_eq!(left_out, ["text.npy", "object.npy", "readme.txt", "not.npy"]);
    for member in &members[..4] {
        let error = refused(&archive(std::slice::from_ref(member)));
        assert_eq!(error.kind(), ckpt_api::Kind::Unsupported, "{error}");
    }
}

#[test]
fn an_archive_is_certain_only_where_all_its_members_are_arrays() {
    let probe = |members: &[Member]| Npz.probe(&input("m.zip", &archive(members))).unwrap();
    let (array, other) = (Member::new("w.npy", matrix()), Member::new("data.pkl", vec![1]));
    assert!(matches!(probe(std::slice::from_ref(&array)), Match::Certain(_)));
    assert!(matches!(probe(&[array, other.clone()]), Match::Possible(_)));
    assert!(matches!(probe(&[]), Match::Possible(_)));
    assert_eq!(probe(&[other]), Match::No);
}
