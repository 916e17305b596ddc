//! What is not written byte for byte as it was read is named.

use crate::build::{Py, archive, dict, pickle};
use crate::cases::{case_input, name};
use ckpt_api::{
    Checkpoint, Codec, Contents, DType, Input, Kind, Limits, LossKind, Options, Shape, Tensor, Ties,
};
use ckpt_conformance::{read, write};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

/// What is named when the file is written again, and whether it has the same bytes.
fn rewritten(input: &Input) -> (Vec<String>, bool) {
    let (contents, values) = read(&Torch, input, &[]).unwrap();
    let ties = Ties::of(&contents);
    let checkpoint = Checkpoint { ties, ..contents.checkpoint };
    let placed = Torch.place(&checkpoint, "out.pt", &Options::default()).unwrap();
    let named = placed.losses.iter().filter(|loss| loss.subject == "torch.zip.differences");
    let named = named.map(|loss| {
        assert_eq!(loss.kind, LossKind::BookkeepingDropped);
        let own = loss.detail.strip_prefix("the file that was read is not written byte for byte: ");
        own.unwrap().to_owned()
    });
    let named = named.collect();
    let files = write(&Torch, &checkpoint, &values, "out.pt", &[]).unwrap();
    let file = input.main().unwrap();
    (named, files["out.pt"] == file.bytes(0, file.len()).unwrap())
}

/// The cases of one small file that can be read.
fn files() -> Option<Vec<(String, Input)>> {
    let is_read = |input: &Input| {
        let contents = Torch.read(input, &Options::default(), &Limits::default());
        // Some hostile ones state a gigabyte.
        let bytes =
            |contents: Contents| -> u64 { contents.checkpoint.tensors.iter().map(Tensor::value_bytes).sum() };
        contents.is_ok_and(|contents| bytes(contents) < 1 << 20)
    };
    let readable =
        ckpt_conformance::cases("torch")?.into_iter().filter(|(_, expected)| expected["expect"] != "refuse");
    let all = readable.filter_map(|(path, expected)| Some((name(&path), case_input(&path, &expected)?)));
    Some(all.filter(|(_, input)| is_read(input)).collect())
}

#[test]
fn a_file_is_written_byte_for_byte_or_its_differences_are_named() {
    let Some(files) = files() else { return };
    let (mut same, mut other, mut wrong) = (0, 0, Vec::new());
    for (name, input) in &files {
        let (named, is_same) = rewritten(input);
        *(if is_same { &mut same } else { &mut other }) += 1;
        if named.is_empty() != is_same {
            wrong.push(format!("{name}: {named:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((same, other), (10, 27));
}

#[test]
fn every_difference_has_words_of_its_own() {
    let Some(files) = files() else { return };
    let files: BTreeMap<String, Input> = files.into_iter().collect();
    let cases = [
        (
            "legacy_tied",
            "it has the format before PyTorch 1.6, and is written as the zip archive of PyTorch 2.8",
        ),
        (
            "numpy_inside",
            "its pickle names what a new one does not: numpy._core.multiarray.scalar, numpy.dtype",
        ),
        ("pickle_protocol_4", "its pickle has the protocol 4, and is written with protocol 2"),
        ("scalars_empty", "'empty_slice' is a view of a part of its storage, and gets a storage of its own"),
        ("torchscript", "it is a TorchScript archive, and is written as a state dict"),
        ("train_checkpoint_args", "its pickle names what a new one does not: argparse.Namespace"),
        ("views", "'t' is another view of a storage than a tensor before, and gets one of its own"),
        (
            "zip_as_torch_1_6",
            "it has the records of PyTorch 1.6 to 2.0, and is written as PyTorch 2.8 writes it",
        ),
        ("zip_big_endian", "its numbers are big-endian, and are written little-endian"),
        ("zip_deflated", "its records are compressed, and are written uncompressed"),
        ("zip_without_crc32", "it has no checksums, and they are written"),
    ];
    for (name, expected) in cases {
        assert_eq!(rewritten(&files[name]).0, [expected], "{name}");
    }
}

const RECORDS: [&str; 6] =
    ["data.pkl", ".format_version", ".storage_alignment", "byteorder", "version", ".data/serialization_id"];

/// The bytes of a record of an archive with two storages of two floats each.
fn content(name: &str) -> Vec<u8> {
    let value = dict(vec![("a", Py::Floats(0, vec![2])), ("b", Py::Floats(1, vec![2]))]);
    match name.rsplit('/').next().unwrap() {
        "data.pkl" => pickle(&value),
        ".format_version" => b"1".to_vec(),
        ".storage_alignment" => b"64".to_vec(),
        "byteorder" => b"little".to_vec(),
        "version" => b"3\n".to_vec(),
        "serialization_id" => vec![b'1'; 40],
        _ => vec![7; 8],
    }
}

/// The one difference of an archive with these records, aligned like this.
fn difference(records: &[&str], alignment: usize) -> String {
    let contents: Vec<(String, Vec<u8>)> =
        records.iter().map(|name| (format!("m/{name}"), content(name))).collect();
    let borrowed: Vec<(&str, &[u8])> =
        contents.iter().map(|(name, data)| (name.as_str(), &data[..])).collect();
    of_file(archive(&borrowed, alignment))
}

fn of_file(bytes: Vec<u8>) -> String {
    let (named, is_same) = rewritten(&Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), bytes)])));
    assert!(!is_same);
    // The pickle, which is not the one of a plain state dict, is kept.
    let [named] = &named[..] else { panic!("{named:?}") };
    named.clone()
}

#[test]
fn records_tell_the_version_of_pytorch() {
    let [pickle, format, alignment, order, version, id] = RECORDS;
    let data = ["data/0", "data/1"];
    for (records, expected) in [
        (vec![version, pickle, "tensors/0", "tensors/1"], "PyTorch 1.4,"),
        (vec![version, pickle, data[0], data[1]], "PyTorch 1.5,"),
        (vec![pickle, data[0], data[1], version], "PyTorch 1.6 to 2.0,"),
        (vec![pickle, order, data[0], data[1], version, id], "PyTorch 2.1 to 2.6,"),
        (
            vec![pickle, format, order, data[0], data[1], version, id],
            "it has other records than PyTorch writes",
        ),
        (vec![pickle, format, alignment, order, data[1], data[0], version, id], "in another order"),
        (
            vec![pickle, format, alignment, order, data[0], data[1], version, "notes", id],
            "are left out: notes",
        ),
        (
            vec![pickle, format, alignment, order, data[0], data[1], version, id],
            "another program than PyTorch",
        ),
    ] {
        let found = difference(&records, 64);
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let all = [pickle, format, alignment, order, data[0], data[1], version, id];
    let found = difference(&all, 4096);
    assert!(found.contains("do not begin where PyTorch 2.8 aligns them"), "{found}");
}

#[test]
fn bytes_after_the_end_are_left_out_and_named() {
    let checkpoint = Checkpoint {
        tensors: vec![Tensor::new("w", DType::F32, Shape::new([2]).unwrap())],
        ..Checkpoint::default()
    };
    let files = write(&Torch, &checkpoint, &[vec![1; 8]], "m.pt", &[]).unwrap();
    let of = |bytes: &[u8]| Input::memory("m.pt", BTreeMap::from([("m.pt".to_owned(), bytes.to_vec())]));
    assert_eq!(rewritten(&of(&files["m.pt"])), (Vec::new(), true));
    for after in [&b"x"[..], &[0; 4096], b"PK\x05\x06"] {
        let input = of(&[&files["m.pt"], after].concat());
        let (contents, values) = read(&Torch, &input, &[]).unwrap();
        assert_eq!(values, [vec![1; 8]]);
        let expected = format!("{} after the archive's end left out", ckpt_api::count(after.len(), "byte"));
        assert!(contents.notes.iter().any(|note| note.starts_with(&expected)), "{:?}", contents.notes);
        let expected = format!("{} after its end are left out", ckpt_api::count(after.len(), "byte"));
        assert_eq!(rewritten(&input), (vec![expected], false));
    }
    // An end of its own, of an archive that begins elsewhere; bytes before the archive; a cut.
    let end = [&b"PK\x05\x06"[..], &[0; 18]].concat();
    for bytes in [
        [&files["m.pt"], &end[..]].concat(),
        [b"x", &files["m.pt"][..]].concat(),
        [&files["m.pt"], &[0; 80_000][..]].concat(),
        files["m.pt"][..files["m.pt"].len() - 1].to_vec(),
    ] {
        assert_eq!(read(&Torch, &of(&bytes), &[]).unwrap_err().kind(), Kind::Corrupt);
    }
}
