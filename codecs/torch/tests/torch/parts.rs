//! Files that are parts of a model: read as parts, or joined where the others are there.

use crate::build::{Py, dict, saved};
use crate::modules;
use ckpt_api::{Codec, Contents, Error, Input, Kind, LossKind, Match};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

fn file(names: &[&'static str]) -> Vec<u8> {
    let tensors = names.iter().map(|name| (*name, Py::Floats(0, vec![1])));
    saved(&dict(tensors.collect()), &[vec![1.0]])
}

fn read(entry: &str, files: &[(&str, Vec<u8>)]) -> Contents {
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, data)| ((*name).to_owned(), data.clone())).collect();
    ckpt_conformance::read(&Torch, &Input::memory(entry, files), &[]).unwrap().0
}

fn part(contents: &Contents) -> Option<&str> {
    match &contents.losses[..] {
        [] => None,
        [loss] if loss.kind == LossKind::Partial => Some(&loss.detail),
        losses => panic!("{losses:?}"),
    }
}

const FIRST: &str = "pytorch_model-00001-of-00002.bin";
const SECOND: &str = "pytorch_model-00002-of-00002.bin";

#[test]
fn a_shard_that_is_named_alone_is_a_part_of_so_many() {
    let contents = read(FIRST, &[(FIRST, file(&["a"])), (SECOND, file(&["b"]))]);
    assert!(part(&contents).unwrap().starts_with("part 1 of 2 of a model"));
    assert_eq!(part(&read("m-00001-of-00001.bin", &[("m-00001-of-00001.bin", file(&["a"]))])), None);
}

#[test]
fn a_set_without_its_index_is_read_by_its_names() {
    let both = [(FIRST, file(&["a"])), (SECOND, file(&["b"]))];
    let contents = read("", &both);
    assert_eq!((contents.checkpoint.tensors.len(), part(&contents)), (2, None));
    let mut with_others = both.to_vec();
    with_others.push(("training_args.bin", file(&["c"])));
    let contents = read("", &with_others);
    assert_eq!((contents.checkpoint.tensors.len(), part(&contents)), (2, None));
    let contents = read("", &both[1..]);
    assert!(part(&contents).unwrap().starts_with("1 of 2 parts of a model: part 1 is not there"));
}

#[test]
fn an_equal_copy_in_another_file_of_a_set_is_read_once_and_another_tensor_of_the_name_is_refused() {
    let index = format!(r#"{{"weight_map":{{"a":"{SECOND}","b":"{FIRST}"}}}}"#).into_bytes();
    let both = [(FIRST, file(&["a"])), (SECOND, file(&["a", "b"]))];
    let contents = read("", &both);
    assert_eq!(contents.checkpoint.tensors.len(), 2);
    assert_eq!(contents.notes[0], "files hold equal copies of tensors, which are read once: 'a'");
    let mut misplaced = both.to_vec();
    misplaced.push(("pytorch_model.bin.index.json", index));
    let contents = read("", &misplaced);
    assert_eq!(contents.checkpoint.tensors.len(), 2);
    let is_said = |text: &str| contents.notes.iter().any(|note| note.starts_with(text));
    assert!(is_said("the index places tensors in other files"), "{:?}", contents.notes);
    let other = saved(&dict(vec![("a", Py::Floats(0, vec![1]))]), &[vec![2.0]]);
    let files = BTreeMap::from([(FIRST.to_owned(), file(&["a"])), (SECOND.to_owned(), other)]);
    let error = ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.context().file.unwrap().ends_with(SECOND), "{error}");
    assert!(error.context().found.unwrap().contains(FIRST), "{error}");
}

#[test]
fn a_file_of_a_rank_is_a_part_by_its_name_and_by_those_beside_it() {
    let alone = |name: &str| part(&read(name, &[(name, file(&["a"]))])).map(str::to_owned);
    for (name, expected) in [
        ("consolidated.00.pth", None),
        ("consolidated.01.pth", Some("part 2 of at least 2 of a model, which cuts tensors")),
        ("mp_rank_00_model_states.pt", None),
        ("mp_rank_01_model_states.pt", Some("part 2 of at least 2 of a model, which is cut across devices")),
        ("model_world_size_4_rank_2.pt", Some("part 3 of 4 of a model; merge the ranks")),
        ("zero_pp_rank_3_mp_rank_00_optim_states.pt", Some("part of several of a model, that of rank 3")),
    ] {
        match (alone(name), expected) {
            (None, None) => {}
            (Some(found), Some(expected)) => assert!(found.starts_with(expected), "{name}: {found}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
    let names = ["consolidated.00.pth", "consolidated.01.pth"];
    let contents = read(names[0], &names.map(|name| (name, file(&["a"]))));
    assert!(part(&contents).unwrap().starts_with("part 1 of at least 2"));
}

fn refused(files: &[(&str, Vec<u8>)]) -> Error {
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, data)| ((*name).to_owned(), data.clone())).collect();
    let input = Input::memory("", files);
    assert!(matches!(Torch.probe(&input).unwrap(), Match::Possible(_)));
    ckpt_conformance::read(&Torch, &input, &[]).unwrap_err()
}

#[test]
fn a_directory_of_the_ranks_of_a_model_parallel_model_says_that_they_are_to_be_merged_first() {
    // The files that name the last step change nothing of the others.
    let step = ("latest", b"step".to_vec());
    let iteration = ("latest_checkpointed_iteration.txt", b"7\n".to_vec());
    for names in [
        ["step/mp_rank_00_model_states.pt", "step/mp_rank_01_model_states.pt"],
        ["iter_0000007/mp_rank_00/model_optim_rng.pt", "iter_0000007/mp_rank_01/model_optim_rng.pt"],
        ["consolidated.00.pth", "consolidated.01.pth"],
        ["mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"],
        ["mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt"],
    ] {
        let mut files = names.map(|name| (name, file(&["a"]))).to_vec();
        files.extend([step.clone(), iteration.clone()]);
        let error = refused(&files);
        let context = error.context();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.message().contains("ranks of one model-parallel model"), "{error}");
        assert!(names.iter().all(|name| context.found.unwrap().contains(name)), "{error}");
        for words in ["the model's layout", "merge them first", "to convert what one rank has, name its file"]
        {
            assert!(context.help.unwrap().contains(words), "{words}: {error}");
        }
    }
}

#[test]
fn the_file_of_a_rank_under_another_name_is_to_be_renamed_back() {
    let ranks = || [rank_file(&distributed(2, 3, "Shard")), rank_file(&distributed(2, 1, "Shard"))];
    let named = |names: [&str; 2]| refused(&names.into_iter().zip(ranks()).collect::<Vec<_>>());
    let error = named(["model_world_size_2_rank_0.pt", "second.pt"]);
    let context = error.context();
    assert_eq!(context.expected, Some("model_world_size_2_rank_1.pt"), "{error}");
    assert!(context.found.unwrap().contains("1 of 2 ranks, and second.pt"), "{error}");
    assert!(context.help.unwrap().contains("rename it back"), "{error}");
    let error = named(["first.pt", "second.pt"]);
    let context = error.context();
    assert_eq!(context.found, Some("first.pt, second.pt"), "{error}");
    assert!(context.expected.unwrap().starts_with("model_world_size_2_rank_0.pt"), "{error}");
    let others = [("a.pt", file(&["a"])), ("b.pt", file(&["b"]))].map(|(name, data)| (name.to_owned(), data));
    assert_eq!(Torch.probe(&Input::memory("", others.into())).unwrap(), Match::No);
}

#[test]
fn one_of_metas_files_is_a_part_if_the_rows_of_its_queries_are_cut() {
    let llama = dict(vec![
        ("norm.weight", Py::Floats(0, vec![8])),
        ("layers.0.attention.wq.weight", Py::Floats(1, vec![2, 8])),
    ]);
    let name = "consolidated.00.pth";
    let contents = read(name, &[(name, saved(&llama, &[vec![0.0; 8], vec![0.0; 16]]))]);
    assert!(part(&contents).unwrap().starts_with("part 1 of 4 of a model"));
}

/// A distributed tensor, of which a rank has the number of this storage.
fn distributed(whole: u8, key: u8, placement: &str) -> String {
    let placed = format!("torch.distributed.tensor.placement_types\n{placement}");
    let placed = modules::object(&placed, &modules::dict(&[("dim", "K\0".to_owned())]));
    let spec = modules::dict(&[("placements", format!("({placed}t"))]);
    let spec = modules::object("torch.distributed.tensor._dtensor_spec\nDTensorSpec", &spec);
    let fields = modules::dict(&[("_local_tensor", modules::tensor(key)), ("_spec", spec)]);
    let (class, whole) = ("ctorch.distributed.tensor\nDTensor\n", char::from(whole));
    let arguments = format!("({class}ctorch\nfloat32\n(K{whole}t(K\x01tK\0NNI00\nt");
    let function = "ctorch._utils\n_rebuild_wrapper_subclass\n";
    format!("ctorch._tensor\n_rebuild_from_type_v2\n({function}{class}{arguments}(N{fields}ttR")
}

fn rank_file(tensor: &str) -> Vec<u8> {
    modules::saved(&modules::dict(&[("w", tensor.to_owned()), ("b", modules::tensor(0))]), &[])
}

#[test]
fn what_a_rank_has_of_a_distributed_tensor_is_a_part_and_all_ranks_are_joined() {
    let names = ["model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"];
    let ranks = [rank_file(&distributed(2, 3, "Shard")), rank_file(&distributed(2, 1, "Shard"))];
    let files: BTreeMap<String, Vec<u8>> = names.map(str::to_owned).into_iter().zip(ranks).collect();
    let alone = ckpt_conformance::read(&Torch, &Input::memory(names[1], files.clone()), &[]).unwrap().0;
    let details: Vec<&str> = alone.losses.iter().map(|loss| loss.detail.as_str()).collect();
    assert!(details[0].starts_with("the part [1] of a DTensor of shape [2], Shard(0)"), "{details:?}");
    assert!(details[1].starts_with("part 2 of 2 of a model; merge the ranks"), "{details:?}");
    let (whole, values) = ckpt_conformance::read(&Torch, &Input::memory("", files.clone()), &[]).unwrap();
    assert!(whole.losses.is_empty());
    let [w, b] = &whole.checkpoint.tensors[..] else { panic!("{:?}", whole.checkpoint.tensors) };
    assert_eq!((&w.shape[..], &b.shape[..]), (&[2][..], &[1][..]));
    assert_eq!(values[0], [3f32.to_le_bytes(), 1f32.to_le_bytes()].concat());
    let mut gap = files;
    gap.insert(names[1].to_owned(), rank_file(&distributed(3, 1, "Shard")));
    let error = ckpt_conformance::read(&Torch, &Input::memory("", gap), &[]).unwrap_err();
    assert_eq!(error.context().tensor, Some("w"), "{error}");
}

#[test]
fn a_distributed_tensor_that_the_rank_has_whole_is_a_tensor_and_one_of_sums_is_refused() {
    let read = |placement| {
        let files = BTreeMap::from([("m.pt".to_owned(), rank_file(&distributed(1, 2, placement)))]);
        ckpt_conformance::read(&Torch, &Input::memory("m.pt", files), &[])
    };
    let (contents, values) = read("Replicate").unwrap();
    assert_eq!((contents.losses.len(), &values[0][..]), (0, &2f32.to_le_bytes()[..]));
    let error = read("Partial").unwrap_err();
    assert!(
        error.to_string().contains("a distributed tensor whose values are not those of a rank"),
        "{error}"
    );
}
