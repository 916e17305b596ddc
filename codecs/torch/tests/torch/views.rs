//! Views: with other signs than their storage, and more of them than a file can have.

use crate::build::{Py, archive, dict, saved, text};
use ckpt_api::{Checkpoint, Codec, DType, Input, Kind, Limit, Limits, Options, Ties};
use ckpt_conformance::read;
use ckpt_torch::Torch;
use std::collections::BTreeMap;

fn input(bytes: Vec<u8>) -> Input {
    Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), bytes)]))
}

/// The opcodes of small integers in a tuple.
fn tuple(numbers: &[u8]) -> Vec<u8> {
    let all: Vec<u8> = numbers.iter().flat_map(|number| [b'K', *number]).collect();
    [b"(", &all[..], b"t"].concat()
}

/// A file with one view of a storage of `elements`, with these flags.
fn view(
    class: &str,
    (offset, shape, strides): (u8, &[u8], &[u8]),
    flags: &[&str],
    storage: &[u8],
    elements: u8,
    order: &str,
) -> Vec<u8> {
    let class = format!("ctorch\n{class}Storage\n");
    let id = [&text("storage")[..], class.as_bytes(), &text("0"), &text("cpu"), &[b'K', elements]].concat();
    let flags: Vec<u8> = flags.iter().flat_map(|flag| [&text(flag)[..], b"\x88"].concat()).collect();
    let view = [b"((", &id[..], b"tQK", &[offset], &tuple(shape), &tuple(strides), b"\x89N}(", &flags, b"ut"];
    let made = [b"ctorch._utils\n_rebuild_tensor_v2\n", &view.concat()[..], b"R"].concat();
    let pickle = [b"\x80\x02}", &text("w")[..], &made, b"s."].concat();
    let records: [(&str, &[u8]); 4] = [
        ("m/data.pkl", &pickle),
        ("m/byteorder", order.as_bytes()),
        ("m/data/0", storage),
        ("m/version", b"3\n"),
    ];
    archive(&records, 64)
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// What `torch.load` of 2.15 and `resolve_conj().resolve_neg()` give for the same views.
#[test]
fn conjugated_and_negated_views_have_the_signs_that_pytorch_gives_them() {
    let complex = [1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 0.0];
    let stored = floats(&complex);
    let dense: (u8, &[u8], &[u8]) = (0, &[2, 2], &[2, 1]);
    for (flags, place, expected) in [
        (&["conj"][..], dense, [1.0, -2.0, 3.0, 4.0, 5.0, -6.0, 7.0, -0.0].as_slice()),
        (&["neg"], dense, &[-1.0, -2.0, -3.0, 4.0, -5.0, -6.0, -7.0, -0.0]),
        (&["conj", "neg"], dense, &[-1.0, 2.0, -3.0, -4.0, -5.0, 6.0, -7.0, 0.0]),
        // The transpose, a column, and one element that is repeated.
        (&["conj"], (0, &[2, 2], &[1, 2]), &[1.0, -2.0, 5.0, -6.0, 3.0, 4.0, 7.0, -0.0]),
        (&["conj"], (1, &[2], &[2]), &[3.0, 4.0, 7.0, -0.0]),
        (&["conj"], (2, &[2], &[0]), &[5.0, -6.0, 5.0, -6.0]),
    ] {
        let file = view("ComplexFloat", place, flags, &stored, 4, "little");
        let (contents, values) = read(&Torch, &input(file), &[]).unwrap();
        assert_eq!(contents.checkpoint.tensors[0].dtype, DType::C64);
        assert_eq!(values, [floats(expected)], "{flags:?} {place:?}");
    }
    let swapped: Vec<u8> = complex.iter().flat_map(|number| number.to_be_bytes()).collect();
    let file = view("ComplexFloat", dense, &["conj"], &swapped, 4, "big");
    let (_, values) = read(&Torch, &input(file), &[]).unwrap();
    assert_eq!(values, [floats(&[1.0, -2.0, 3.0, 4.0, 5.0, -6.0, 7.0, -0.0])]);
    // The imaginary parts of a conjugated view: every other float, negated.
    let file = view("Float", (1, &[4], &[2]), &["neg"], &stored, 8, "little");
    let (_, values) = read(&Torch, &input(file), &[]).unwrap();
    assert_eq!(values, [floats(&[-2.0, 4.0, -6.0, -0.0])]);
    for (class, stored, expected) in [
        ("BFloat16", vec![0x80, 0x3f, 0, 0], vec![0x80, 0xbf, 0, 0x80]),
        ("Double", [1f64, -0.0].map(f64::to_le_bytes).concat(), [-1f64, 0.0].map(f64::to_le_bytes).concat()),
    ] {
        let file = view(class, (0, &[2], &[1]), &["neg"], &stored, 2, "little");
        assert_eq!(read(&Torch, &input(file), &[]).unwrap().1, [expected]);
    }
}

#[test]
fn a_conjugated_view_is_written_with_its_own_signs() {
    let stored = floats(&[1.0, 2.0, 3.0, -4.0]);
    let file = view("ComplexFloat", (0, &[2], &[1]), &["conj"], &stored, 2, "little");
    let (contents, values) = read(&Torch, &input(file), &[]).unwrap();
    let checkpoint = Checkpoint { ties: Ties::of(&contents), ..contents.checkpoint };
    let files = ckpt_conformance::write(&Torch, &checkpoint, &values, "m.pt", &[]).unwrap();
    let (again, values) = read(&Torch, &input(files["m.pt"].clone()), &[]).unwrap();
    assert_eq!(values, [floats(&[1.0, -2.0, 3.0, 4.0])]);
    assert!(again.placements[0].extents[0].compression().is_none());
}

#[test]
fn the_elements_of_all_views_count_whatever_their_strides() {
    const ELEMENTS: u32 = 1 << 18;
    let open = |count: usize, lenient: bool| {
        let names = (0..count).map(|number| Py::Text(number.to_string().leak()));
        let views = names.map(|name| (name, Py::View(0, ELEMENTS, vec![ELEMENTS - 1]))).collect();
        let file = saved(&Py::Dict(views), &[vec![0.0; ELEMENTS as usize]]);
        let options = [("lenient".to_owned(), lenient.to_string())];
        let info = Torch.info();
        let options = Options::parse(info.id, info.options, ckpt_api::Side::Read, &options).unwrap();
        Torch.read(&input(file), &options, &Limits::default())
    };
    // 1 GiB beside the storage's own 1 MiB.
    assert_eq!(open(1025, false).unwrap().checkpoint.tensors.len(), 1025);
    let error = open(1100, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("repeat the elements of their storages too often"), "{error}");
    assert_eq!(open(1100, true).unwrap().checkpoint.tensors.len(), 1025);
}

#[test]
fn a_pickle_that_is_too_long_is_refused_before_it_is_read() {
    let value = dict(vec![("w", Py::Floats(0, vec![2])), ("x", Py::Text("x".repeat(10_000).leak()))]);
    let mut file = saved(&value, &[vec![1.0, 2.0]]);
    let limits = Limits::default().with(Limit::HeaderBytes, 1000);
    // Its checksum, which would be compared first, is wrong.
    let at = file.windows(3).position(|bytes| bytes == b"xxx").unwrap();
    file[at] = b'y';
    let read = |limits: &Limits| Torch.read(&input(file.clone()), &Options::default(), limits);
    assert_eq!(read(&Limits::default()).unwrap_err().kind(), Kind::Corrupt);
    let error = read(&limits).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
    assert!(error.to_string().contains("data.pkl"), "{error}");
}
