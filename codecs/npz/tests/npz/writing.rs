//! What is written, and what is lost.

use crate::build::{Member, archive, header, matrix, place, read, write};
use ckpt_api::{Checkpoint, Codec, DType, Kind, LossKind, Options, Phases, Shape, Tensor};
use ckpt_npz::Npz;

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
    Tensor::new(name, dtype, Shape::new(shape).unwrap())
}

fn checkpoint(tensors: Vec<Tensor>) -> Checkpoint {
    Checkpoint { tensors, ..Checkpoint::default() }
}

fn losses(checkpoint: &Checkpoint, name: &str) -> Vec<(LossKind, String)> {
    let losses = place(checkpoint, name).unwrap().losses;
    losses.into_iter().map(|loss| (loss.kind, loss.subject)).collect()
}

#[test]
fn an_archive_is_what_numpy_writes() {
    let given = checkpoint(vec![tensor("w", DType::F32, &[2, 3]), tensor("ä/b", DType::I8, &[2])]);
    let values = [(0..6).flat_map(|k| (k as f32).to_le_bytes()).collect(), vec![1, 2]];
    let bytes = write(&given, &values, "m.npz").unwrap();
    let second = [header("|i1", false, "(2,)", 20), vec![1, 2]].concat();
    assert_eq!(bytes, archive(&[Member::new("w.npy", matrix()), Member::new("ä/b.npy", second)]));
}

#[test]
fn a_large_array_begins_where_it_can_share_blocks_with_the_source() {
    let large = Phases::WORTH_A_GAP;
    let block = std::num::NonZeroU64::new(4096).unwrap();
    let names = ["a", "b", "c"];
    let given = checkpoint(names.map(|name| tensor(name, DType::U8, &[large])).into());
    let phases = Phases::new(block, vec![Some(104), None, Some(7)]);
    let options = Options::default().with_phases(Some(phases));
    let placed = Npz.place(&given, "m.npz", &options).unwrap();
    let offsets: Vec<u64> = placed.placements.iter().map(|placement| placement.extents[0].offset).collect();
    assert_eq!((offsets[0] % 4096, offsets[2] % 4096), (104, 7));
    let plain = place(&given, "m.npz").unwrap();
    let plain: Vec<u64> = plain.placements.iter().map(|placement| placement.extents[0].offset).collect();
    assert_eq!(
        offsets[1] - offsets[0],
        plain[1] - plain[0],
        "an array without a place follows the one before it"
    );
}

#[test]
fn an_array_alone_is_what_numpy_writes() {
    let given = checkpoint(vec![tensor("w", DType::F32, &[2, 3])]);
    let values = [(0..6).flat_map(|k| (k as f32).to_le_bytes()).collect()];
    assert_eq!(write(&given, &values, "w.npy").unwrap(), matrix());
    assert_eq!(losses(&given, "w.npy"), []);
    assert_eq!(losses(&given, "other.npy"), [(LossKind::NamesDropped, "w".to_owned())]);
}

#[test]
fn an_array_alone_is_one() {
    for tensors in [vec![], vec![tensor("a", DType::F32, &[1]), tensor("b", DType::F32, &[1])]] {
        let error = place(&checkpoint(tensors), "w.npy").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("exactly one"), "{error}");
    }
}

#[test]
fn a_dtype_that_numpy_lacks_is_stored_as_one_that_holds_its_values() {
    let stored = |dtype| {
        let placed = place(&checkpoint(vec![tensor("w", dtype, &[2])]), "m.npz").unwrap();
        placed.placements[0].encoding.dtype
    };
    assert_eq!(stored(DType::Bf16), DType::F32);
    assert_eq!(stored(DType::F8E4m3), DType::F16);
    assert_eq!(stored(DType::I4), DType::I8);
    assert_eq!(stored(DType::Qu16), DType::U16);
    assert_eq!(stored(DType::C128), DType::C128);
}

#[test]
fn strings_have_no_place() {
    let mut words = tensor("words", DType::String, &[1]);
    words.lengths = Some([3].into());
    let given = checkpoint(vec![words, tensor("w", DType::F32, &[1])]);
    for name in ["m.npz", "w.npy"] {
        let placed = place(&given, name).unwrap();
        let unplaced: Vec<&str> = placed.unplaced(&given).map(|(_, tensor)| tensor.name.as_str()).collect();
        assert_eq!(unplaced, ["words"]);
    }
}

#[test]
fn nothing_is_kept_beside_names_dtypes_shapes_and_values() {
    let info = ckpt_api::Codec::info(&ckpt_npz::Npz);
    assert!(info.keeps.is_empty() && info.ops.is_empty());
    assert_eq!(losses(&read("w.npy", &crate::build::turned(), false).unwrap().0.checkpoint, "w.npy"), []);
}

#[test]
fn a_kept_header_is_used_while_dtype_and_shape_are_the_same() {
    let (contents, _) = read("w.npy", &crate::build::turned(), false).unwrap();
    let order = |change: fn(&mut Tensor)| {
        let mut given = contents.checkpoint.clone();
        change(&mut given.tensors[0]);
        place(&given, "w.npy").unwrap().placements[0].encoding.order.clone()
    };
    assert_eq!(order(|_| ()), [1, 0]);
    assert_eq!(order(|tensor| tensor.dtype = DType::F16), [0, 1]);
    assert_eq!(order(|tensor| tensor.shape = Shape::new(vec![3, 2]).unwrap()), [0, 1]);
    assert_eq!(order(|tensor| tensor.metadata.insert("npz", "header", "{'descr'")), [0, 1]);
    assert_eq!(order(|tensor| tensor.metadata.insert("npz", "version", 7)), [0, 1]);
    assert_eq!(order(|tensor| tensor.metadata.insert("npz", "version", 2)), [1, 0]);
}

#[test]
fn a_name_is_no_path_but_readers_end_it_at_a_nul_and_turn_a_backslash() {
    for name in ["/w", "../w", "a//w"] {
        place(&checkpoint(vec![tensor(name, DType::F32, &[1])]), "m.npz").unwrap();
    }
    for name in ["a\0w", "a\\w"] {
        let error = place(&checkpoint(vec![tensor(name, DType::F32, &[1])]), "m.npz").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
    let long = "w".repeat(70_000);
    let error = place(&checkpoint(vec![tensor(&long, DType::F32, &[1])]), "m.npz").unwrap_err();
    assert!(error.to_string().contains("too long for a zip"), "{error}");
}

#[test]
fn more_axes_than_numpy_has_are_refused() {
    assert!(place(&checkpoint(vec![tensor("w", DType::F32, &[1; 64])]), "m.npz").is_ok());
    let error = place(&checkpoint(vec![tensor("w", DType::F32, &[1; 65])]), "m.npz").unwrap_err();
    assert!(error.to_string().contains("at most 64"), "{error}");
}

#[test]
fn archives_beyond_32_bits_have_64_bit_numbers() {
    let tensors = vec![tensor("a", DType::U8, &[5 << 30]), tensor("b", DType::U8, &[1])];
    let placed = place(&checkpoint(tensors), "m.npz").unwrap();
    let len = placed.files[0].len.unwrap();
    let tail = placed.literals.last().unwrap();
    assert_eq!(tail.offset + tail.bytes.len() as u64, len);
    let locator = &tail.bytes[tail.bytes.len() - 42..];
    assert!(locator.starts_with(b"PK\x06\x07"));
}

#[test]
fn more_members_than_16_bits_count_come_back() {
    let tensors: Vec<Tensor> = (0..70_000).map(|k| tensor(&format!("t{k}"), DType::U8, &[1])).collect();
    let values: Vec<Vec<u8>> = (0..70_000).map(|k| vec![k as u8]).collect();
    let given = checkpoint(tensors);
    let bytes = write(&given, &values, "m.npz").unwrap();
    let (contents, same) = read("m.npz", &bytes, false).unwrap();
    assert_eq!(contents.checkpoint, given);
    assert!(values == same);
}

#[test]
fn tensors_too_large_for_any_file_are_an_error() {
    let huge = tensor("a", DType::C128, &[1 << 59]);
    let tensors = vec![huge.clone(), huge.with_name("b".to_owned())];
    assert!(place(&checkpoint(tensors), "m.npz").is_err());
}
