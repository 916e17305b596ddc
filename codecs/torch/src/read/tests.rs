//! Rules of naming, and of placing views.

use crate::container::Record;
use crate::object::walk::{Found, branch, walk};
use crate::tensor::layout::place;
use crate::tensor::rebuild::made;
use crate::tensor::view::Made;
use ckpt_api::{Endian, File, Kind, Limits, Placement, Result, Tensor, TensorId};
use ckpt_containers::pickle::{Feed, Tree, parse};
use std::sync::Arc;

/// Reads a pickle that is a whole file.
fn tree(bytes: &[u8]) -> Result<Tree> {
    let file = File::new(Arc::new(bytes.to_vec()), "p.pkl")?;
    parse(Feed::new(&file, 0, u64::MAX, &Limits::default()))
}

/// The opcodes of a tensor of 32-bit floats over a storage of 64 elements.
fn tensor(offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let tuple = |numbers: &[u8]| {
        let all = numbers.iter().flat_map(|number| [b'K', *number]).collect::<Vec<u8>>();
        [b"(", &all[..], b"t"].concat()
    };
    [
        &b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x40tQK"[..],
        &[offset],
        &tuple(shape),
        &tuple(strides),
        b"\x89NtR",
    ]
    .concat()
}

fn one(offset: u8, shape: &[u8], strides: &[u8]) -> Tree {
    tree(&[&tensor(offset, shape, strides)[..], b"."].concat()).unwrap()
}

/// The placement of a view.
fn placed(offset: u8, shape: &[u8], strides: &[u8]) -> Result<Placement> {
    let tree = one(offset, shape, strides);
    let Made::Tensor(view) = made(&tree, tree.root())? else { panic!("no tensor") };
    let tensor = Tensor::new("x", ckpt_api::DType::F32, view.shape.clone());
    let record = Record { start: 1000, len: 256, compression: None, crc: Some(1) };
    place((TensorId(0), &tensor), &view, &record, Endian::Little, &Limits::default())
        .map(|(placement, _)| placement)
}

/// Offset and length of each extent.
fn extents(placement: &Placement) -> Vec<(u64, u64)> {
    placement.extents.iter().map(|extent| (extent.offset, extent.len)).collect()
}

#[test]
fn a_dense_view_is_one_extent_in_the_order_of_its_strides() {
    let plain = placed(0, &[8, 8], &[8, 1]).unwrap();
    assert_eq!((extents(&plain), plain.encoding.order), (vec![(1000, 256)], vec![0, 1].into()));
    let turned = placed(0, &[2, 3, 4], &[1, 8, 2]).unwrap();
    assert_eq!((extents(&turned), turned.encoding.order), (vec![(1000, 96)], vec![1, 2, 0].into()));
    let of_one = placed(3, &[1, 2, 1], &[7, 1, 9]).unwrap();
    assert_eq!((extents(&of_one), of_one.encoding.order), (vec![(1012, 8)], vec![0, 1, 2].into()));
}

#[test]
fn only_a_whole_storage_has_its_checksum() {
    let has_checksum = |placement: Placement| placement.extents[0].checksum.is_some();
    assert!(has_checksum(placed(0, &[64], &[1]).unwrap()));
    assert!(!has_checksum(placed(0, &[63], &[1]).unwrap()));
}

#[test]
fn a_box_of_a_dense_whole_is_a_window() {
    let cut = placed(9, &[3, 2], &[8, 1]).unwrap();
    let window = cut.window().unwrap();
    assert_eq!((&window.start[..], &window.whole[..]), (&[0, 1][..], &[3, 8][..]));
    assert_eq!(extents(&cut), [(1032, 96)]);
}

#[test]
fn other_views_are_the_elements_at_their_strides() {
    let strided = |offset, shape: &[u8], strides: &[u8]| {
        let placement = placed(offset, shape, strides).unwrap();
        let window = placement.window().unwrap();
        assert_eq!(
            (&window.start[..], &window.whole[..]),
            (&[0; 8][..shape.len()], &shape.iter().map(|len| u64::from(*len)).collect::<Vec<_>>()[..])
        );
        (extents(&placement), window.strides.clone())
    };
    assert_eq!(strided(0, &[3, 2], &[0, 1]), (vec![(1000, 8)], vec![0, 1]));
    assert_eq!(strided(1, &[2], &[3]), (vec![(1004, 16)], vec![3]));
    assert_eq!(strided(0, &[3, 2], &[1, 1]), (vec![(1000, 16)], vec![1, 1]));
    assert_eq!(strided(2, &[4, 1, 5], &[2, 99, 12]), (vec![(1008, 220)], vec![2, 0, 12]));
}

#[test]
fn a_view_beyond_its_storage_is_refused() {
    for (offset, shape, strides) in [(64, [1], [1]), (0, [65], [1]), (63, [2], [1]), (0, [2], [64])] {
        assert_eq!(placed(offset, &shape, &strides).unwrap_err().kind(), Kind::Corrupt);
    }
    placed(255, &[0], &[1]).unwrap();
}

fn names(pickle: &[u8]) -> Vec<String> {
    let tree = tree(pickle).unwrap();
    let found = walk(&tree, tree.root(), "torch").unwrap();
    found.tensors.into_iter().map(|(name, _)| name).collect()
}

/// A pickle in which `T` stands for a tensor.
fn with_tensors(text: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'T').collect();
    parts.join(&tensor(0, &[1], &[1])[..])
}

#[test]
fn names_are_keys_and_indexes_joined_with_dots() {
    for (pickle, expected) in [
        (&b"}(U\x01aTU\x01b](TTeu."[..], vec!["a", "b.0", "b.1"]),
        (b"}(K\x07TU\x00Tu.", vec!["7", ""]),
        (b"}(\x88TNT(K\x01U\x01atTu.", vec!["True", "None", "(1, 'a')"]),
        (b"ccollections\nOrderedDict\n](](U\x01aTee\x85R.", vec!["a"]),
        (b"ccollections\nOrderedDict\n)RU\x01aTsU\x01aTs.", vec!["a"]),
        (b"T.", vec![""]),
    ] {
        assert_eq!(names(&with_tensors(pickle)), expected, "{}", pickle.escape_ascii());
    }
}

#[test]
fn a_module_has_the_names_of_its_state_dict() {
    let module = b"cm\nM\n)\x81}(U\x0b_parameters}U\x01aTsU\x08_buffers}(U\x01bTU\x01cTuU\x08_modules}U\x01m\
                   cm\nN\n)\x81}(U\x0b_parameters}U\x01wTsU\x08_buffers}U\x08_modules}ubs\
                   U\x1b_non_persistent_buffers_setc__builtin__\nset\n]U\x01ca\x85Rub.";
    assert_eq!(names(&with_tensors(module)), ["a", "b", "m.w"]);
}

#[test]
fn a_shared_container_has_all_its_names_and_a_cyclic_one_is_refused() {
    assert_eq!(names(&with_tensors(b"}(U\x01a}q\x01U\x01tTsU\x01bh\x01u.")), ["a.t", "b.t"]);
    let tree = tree(&with_tensors(b"}q\x00(U\x01aTU\x01bh\x00u.")).unwrap();
    assert_eq!(walk(&tree, tree.root(), "torch").unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(names(&with_tensors(b"}(U\x01aTU\x01b]q\x00h\x00au.")), ["a"]);
}

#[test]
fn a_branch_is_found_by_its_path_also_through_keys_with_dots() {
    let tree = tree(b"}(U\x03a.b]K\x05aU\x01a}U\x01bK\x06su.").unwrap();
    let at = |path: &str| branch(&tree, path).map(|id| tree.int(id));
    assert_eq!(at("a.b.0").unwrap(), Some(5));
    assert_eq!(at("a.c").unwrap_err().kind(), Kind::Usage);
}

/// What reading everything in a pickle gives.
fn read_all(pickle: &[&[u8]]) -> Result<Found> {
    let tree = tree(&pickle.concat())?;
    walk(&tree, tree.root(), "torch")
}

#[test]
#[cfg_attr(miri, ignore = "a large pickle")]
fn a_module_in_the_place_of_a_dict_of_modules_has_no_tensors() {
    let own: &[u8] = b"cm\nC\n)\x81q\x01}U\x08_modulesh\x01sb.";
    assert!(read_all(&[own]).unwrap().tensors.is_empty());
    let levels = 100_000;
    let open = b"cm\nC\n)\x81}U\x08_modules".repeat(levels);
    assert!(read_all(&[&open, b"}", &b"sb".repeat(levels), b"."]).unwrap().tensors.is_empty());
}

/// `count` entries whose keys are integers and whose values are zero.
fn entries(count: u16) -> Vec<u8> {
    (0..count).flat_map(|key| [b"M", &key.to_le_bytes()[..], b"K\0"].concat()).collect()
}

#[test]
#[cfg_attr(miri, ignore = "a large pickle")]
fn values_that_others_share_count_for_each_of_them() {
    let is_limit = |pickle: &[&[u8]]| read_all(pickle).is_err_and(|error| error.kind() == Kind::Limit);
    let state = entries(20_000);
    let objects = b"cm\nC\n)\x81h\x01b".repeat(20_000);
    assert!(is_limit(&[b"(}q\x01(", &state, b"u", &objects, b"l."]));
    let one = tensor(0, &[2], &[1]);
    let refs = b"h\x01".repeat(20_000);
    let others = b"N".repeat(20_000);
    assert!(is_limit(&[b"((", &one, &others, b"lq\x01", &refs, &b"h\x01Q".repeat(20_000), b"l."]));
}

#[test]
#[cfg_attr(miri, ignore = "a large pickle")]
fn long_texts_that_names_share_count_for_each_name() {
    let long = [b"X\x40\x42\x0f\0", &b"x".repeat(1_000_000)[..]].concat();
    let one = tensor(0, &[2], &[1]);
    let found = read_all(&[b"}", &long, b"}(U\x01t", &one, &entries(1000), b"us."]);
    assert_eq!(found.unwrap_err().kind(), Kind::Limit);
    let keys: Vec<u8> =
        (0..1000u16).flat_map(|key| [b"h\x01M", &key.to_le_bytes()[..], b"\x86N"].concat()).collect();
    let found = read_all(&[b"(", &long, b"q\x01}(", &keys, b"ul."]).unwrap();
    assert_eq!(found.dropped.count, 1000);
    let parts = b"h\x01".repeat(20_000);
    let found = read_all(&[b"(", &long, b"q\x01cpathlib\nPosixPath\n(", &parts, b"tRl."]).unwrap();
    assert_eq!(found.metadata.value("torch", "1"), None);
}
