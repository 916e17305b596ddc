//! Files that are parts of a set without an index.

use crate::common::{data, entry, file, files, read};
use ckpt_api::{Contents, Kind, LossKind};

fn part(contents: &Contents) -> Vec<(&str, &str)> {
    assert!(contents.losses.iter().all(|loss| loss.kind == LossKind::Partial));
    contents.losses.iter().map(|loss| (loss.subject.as_str(), loss.detail.as_str())).collect()
}

fn shard(name: &str) -> Vec<u8> {
    file(&format!("{{{}}}", entry(name, "U8", "[2]", 0, 2)), &data(2))
}

/// Rows of a tensor of bytes, two to a row, that a rank saved.
fn rank(first: u64, rows: u64) -> Vec<u8> {
    let info = format!(r#"{{\"w\":{{\"saved_offsets\":[{first},0]}}}}"#);
    let metadata = format!(r#""__metadata__":{{"DCP_SHARDING_INFO":"{info}"}}"#);
    let bytes: Vec<u8> = (2 * first..2 * (first + rows)).map(|byte| byte as u8).collect();
    file(&format!("{{{metadata},{}}}", entry("w", "U8", &format!("[{rows},2]"), 0, 2 * rows)), &bytes)
}

const FIRST: &str = "m-00001-of-00002.safetensors";
const SECOND: &str = "m-00002-of-00002.safetensors";
const RANK_1: &str = "shard-00001-model-00001-of-00001.safetensors";
const RANK_2: &str = "shard-00002-model-00001-of-00001.safetensors";
const RANK_3: &str = "shard-00003-model-00001-of-00001.safetensors";

#[test]
fn a_shard_that_is_named_alone_is_a_part_and_a_directory_of_all_is_whole() {
    let both = files([(FIRST, shard("a")), (SECOND, shard("b"))]);
    let (contents, _) = read(SECOND, both.clone()).unwrap();
    assert_eq!(part(&contents)[0].0, SECOND);
    assert!(part(&contents)[0].1.starts_with("part 2 of 2 of a model"));
    let (contents, _) = read("", both).unwrap();
    assert_eq!((contents.checkpoint.tensors.len(), part(&contents)), (2, vec![]));
}

#[test]
fn a_directory_without_an_index_or_a_shard_is_a_part() {
    let names = ["m-00001-of-00004.safetensors", "m-00003-of-00004.safetensors"];
    let (contents, _) = read("", files([(names[0], shard("a")), (names[1], shard("b"))])).unwrap();
    assert!(part(&contents)[0].1.starts_with("2 of 4 parts of a model: parts 2, 4 are not there"));
    let (contents, _) = read("", files([(FIRST, shard("a"))])).unwrap();
    assert!(part(&contents)[0].1.starts_with("part 1 of 2"));
    let beside = [(FIRST, shard("a")), (SECOND, shard("b")), ("other.safetensors", shard("c"))];
    let (contents, _) = read("", files(beside)).unwrap();
    assert_eq!((contents.checkpoint.tensors.len(), part(&contents)), (2, vec![]));
}

#[test]
fn a_part_that_a_browser_renamed_is_a_part_of_its_set() {
    let renamed = "m-00001-of-00002 (1).safetensors";
    let both = files([(renamed, shard("a")), (SECOND, shard("b"))]);
    let (contents, _) = read(renamed, both.clone()).unwrap();
    assert!(part(&contents)[0].1.starts_with("part 1 of 2 of a model"));
    let (contents, _) = read("", both).unwrap();
    assert_eq!((contents.checkpoint.tensors.len(), part(&contents)), (2, vec![]));
}

#[test]
fn an_equal_copy_in_another_part_is_read_once_and_another_tensor_of_the_name_is_refused() {
    let two = format!("{{{},{}}}", entry("a", "U8", "[2]", 0, 2), entry("b", "U8", "[2]", 2, 4));
    let (contents, values) =
        read("", files([(FIRST, shard("a")), (SECOND, file(&two, &[data(2), data(2)].concat()))])).unwrap();
    assert_eq!((contents.checkpoint.tensors.len(), values.len()), (2, 2));
    assert_eq!(contents.notes, ["files hold equal copies of tensors, which are read once: 'a'"]);
    let error = read("", files([(FIRST, shard("a")), (SECOND, file(&two, &[9; 4]))])).unwrap_err();
    let context = error.context();
    assert_eq!((error.kind(), context.tensor), (Kind::Unsupported, Some("a")), "{error}");
    assert!(context.file.unwrap().ends_with(SECOND) && context.found.unwrap().contains(FIRST), "{error}");
    assert!(context.help.is_some());
}

#[test]
fn a_tensor_that_the_index_places_in_the_wrong_shard_is_read_from_the_one_that_holds_it() {
    // The index swaps the shards of 'b' and of the other tensor.
    let with = |other: &str| {
        let index = format!(r#"{{"weight_map":{{"{other}":"{SECOND}","b":"{FIRST}"}}}}"#);
        let index = ("m.safetensors.index.json", index.into_bytes());
        read("", files([(FIRST, shard("c")), (SECOND, shard("b")), index]))
    };
    let error = with("a").unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("no shard holds"), "{error}");
    let (contents, _) = with("c").unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 2);
    let said = "the index places tensors in other files than those that hold them, from which they are read: 'c', 'b'";
    assert!(contents.notes.iter().any(|note| note == said), "{:?}", contents.notes);
}

#[test]
fn files_of_two_checkpoints_are_refused_with_what_would_be_one() {
    let other = "n-00002-of-00002.safetensors";
    let error = read("", files([(FIRST, shard("a")), (other, shard("b"))])).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    for text in ["several safetensors checkpoints", "the parts of one set"] {
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn parts_that_ranks_saved_are_joined_where_each_states_it_begins() {
    let all = files([(RANK_1, rank(0, 2)), (RANK_2, rank(2, 1)), (RANK_3, rank(0, 2))]);
    let (contents, values) = read("", all).unwrap();
    assert_eq!(contents.checkpoint.tensors[0].shape[..], [3, 2]);
    assert_eq!((&values[0][..], part(&contents)), (&[0, 1, 2, 3, 4, 5][..], vec![]));
    assert!(contents.checkpoint.metadata.value("safetensors", "DCP_SHARDING_INFO").is_none());
}

#[test]
fn a_part_that_a_rank_saved_says_which_rows_it_has() {
    let both = files([(RANK_1, rank(0, 2)), (RANK_2, rank(2, 1))]);
    let (contents, _) = read(RANK_2, both).unwrap();
    assert_eq!(part(&contents)[0].0, "w");
    assert!(part(&contents)[0].1.starts_with("the part [2..3, 0..2] that a rank saved of a tensor"));
    let (contents, _) = read("", files([(RANK_1, rank(0, 2))])).unwrap();
    assert!(part(&contents)[0].1.starts_with("the part [0..2, 0..2]"));
}

#[test]
fn a_file_that_says_in_an_unknown_form_which_parts_it_has_is_read_as_a_part() {
    let mut unknown = rank(0, 2);
    let at = unknown.windows(5).position(|bytes| bytes == b"saved").unwrap();
    unknown[at..at + 5].copy_from_slice(b"savet");
    let (contents, values) = read(RANK_1, files([(RANK_1, unknown)])).unwrap();
    assert_eq!(values[0], [0, 1, 2, 3]);
    let [(subject, detail)] = &part(&contents)[..] else { panic!("{:?}", contents.losses) };
    assert_eq!(*subject, RANK_1);
    assert!(detail.contains("not which ones: missing field `saved_offsets`"), "{detail}");
}

#[test]
fn parts_that_do_not_make_a_tensor_whole_are_refused() {
    let refused = |files| {
        let error = read("", files).unwrap_err();
        assert_eq!(error.context().tensor, Some("w"), "{error}");
        error.to_string()
    };
    let gap = refused(files([(RANK_1, rank(0, 1)), (RANK_2, rank(2, 1))]));
    assert!(gap.contains("do not make it whole"), "{gap}");
    let twice = refused(files([(RANK_1, rank(0, 2)), (RANK_2, rank(0, 1))]));
    assert!(twice.contains("different shapes"), "{twice}");
    let overlap = refused(files([(RANK_1, rank(0, 2)), (RANK_2, rank(1, 2))]));
    assert!(overlap.contains("do not make it whole"), "{overlap}");
    let far = refused(files([(RANK_1, rank(0, 1)), (RANK_2, rank(1 << 62, 1))]));
    assert!(far.contains("too many elements"), "{far}");
}
