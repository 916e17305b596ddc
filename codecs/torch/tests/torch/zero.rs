//! Checkpoints of DeepSpeed's ZeRO, made by the rules of its `zero_to_fp32`.

use crate::build::{Py, dict, saved};
use ckpt_api::{Affine, Error, Input, Role, Slot};
use ckpt_torch::Torch;
use std::collections::BTreeMap;

const RANKS: u32 = 2;

fn numbers(range: std::ops::Range<u8>) -> Vec<f32> {
    range.map(f32::from).collect()
}

/// Names and shapes of two groups: 6 + 3 elements, and 1.
fn shapes() -> Py {
    Py::List(vec![
        dict(vec![("a", Py::Size(vec![2, 3])), ("b", Py::Size(vec![3]))]),
        dict(vec![("s", Py::Size(vec![]))]),
    ])
}

fn model(frozen: Py, storages: &[Vec<f32>]) -> Vec<u8> {
    model_with(Py::Floats(0, vec![2]), frozen, storages)
}

fn model_with(mean: Py, frozen: Py, storages: &[Vec<f32>]) -> Vec<u8> {
    let value = dict(vec![
        ("module", dict(vec![("mean", mean)])),
        ("buffer_names", Py::List(vec![Py::Text("mean")])),
        ("param_shapes", shapes()),
        ("frozen_param_shapes", dict(vec![("f", Py::Size(vec![3]))])),
        ("frozen_param_fragments", dict(vec![("f", frozen)])),
        ("shared_params", dict(vec![("tied", Py::Text("a"))])),
    ]);
    saved(&value, storages)
}

fn part(stage: u32, key: &'static str, groups: [Vec<f32>; 2]) -> Vec<u8> {
    part_with(stage, key, groups, &[])
}

/// The part of a rank with what the optimizer remembers: its names, each with flat tensors for both groups.
fn part_with(
    stage: u32,
    key: &'static str,
    groups: [Vec<f32>; 2],
    slots: &[(&'static str, [Vec<f32>; 2])],
) -> Vec<u8> {
    let mut storages = groups.to_vec();
    let mut states = [Vec::new(), Vec::new()];
    for (name, flats) in slots {
        for (state, flat) in states.iter_mut().zip(flats) {
            state.push((*name, Py::Floats(storages.len(), vec![flat.len() as u32])));
            storages.push(flat.clone());
        }
    }
    let numbered = states.into_iter().enumerate().map(|(group, state)| (Py::Int(group as u32), dict(state)));
    let optimizer = dict(vec![("state", Py::Dict(numbered.collect()))]);
    let flats = groups.iter().enumerate().map(|(number, flat)| Py::Floats(number, vec![flat.len() as u32]));
    let state = vec![
        ("zero_stage", Py::Int(stage)),
        ("partition_count", Py::List(vec![Py::Int(RANKS)])),
        (key, Py::List(flats.collect())),
        (if stage < 3 { "base_optimizer_state" } else { "optimizer_state_dict" }, optimizer),
    ];
    saved(&dict(vec![("optimizer_state_dict", dict(state))]), &storages)
}

fn rank(number: u32, states: &str) -> String {
    format!("step/zero_pp_rank_{number}_mp_rank_00_{states}_states.pt")
}

/// Stage 2: the ranks cut the row of each group, which is padded to a multiple of 4; the last one lacks its padding.
fn cut_rows() -> BTreeMap<String, Vec<u8>> {
    const KEY: &str = "single_partition_of_fp32_groups";
    BTreeMap::from([
        ("latest".to_owned(), b"step\n".to_vec()),
        (
            "step/mp_rank_00_model_states.pt".to_owned(),
            model(Py::Floats(1, vec![3]), &[vec![0.5, 1.5], vec![7.0, 8.0, 9.0]]),
        ),
        (rank(0, "optim"), part(2, KEY, [numbers(0..6), vec![20.0, 0.0]])),
        (rank(1, "optim"), part(2, KEY, [numbers(6..9), vec![0.0, 0.0]])),
    ])
}

/// Stage 3: the ranks cut each parameter into equal shares.
fn cut_parameters() -> BTreeMap<String, Vec<u8>> {
    const KEY: &str = "fp32_flat_groups";
    let fragment = |numbers: Vec<f32>| model(Py::Floats(1, vec![2]), &[vec![0.5, 1.5], numbers]);
    BTreeMap::from([
        ("latest".to_owned(), b"step".to_vec()),
        (rank(0, "model"), fragment(vec![7.0, 8.0])),
        (rank(1, "model"), fragment(vec![9.0, 0.0])),
        (rank(0, "optim"), part(3, KEY, [vec![0.0, 1.0, 2.0, 6.0, 7.0], vec![20.0]])),
        (rank(1, "optim"), part(3, KEY, [vec![3.0, 4.0, 5.0, 8.0, 0.0], vec![0.0]])),
    ])
}

fn error(files: BTreeMap<String, Vec<u8>>) -> Error {
    ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap_err()
}

#[test]
fn parameters_of_every_stage_are_merged_with_buffers_frozen_and_tied_ones() {
    for files in [cut_rows(), cut_parameters()] {
        let (contents, values) = ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap();
        let floats = |bytes: &Vec<u8>| -> Vec<f32> {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        let tensors = &contents.checkpoint.tensors;
        let found: BTreeMap<&str, (Vec<u64>, Vec<f32>)> = tensors
            .iter()
            .zip(&values)
            .map(|(tensor, bytes)| (tensor.name.as_str(), (tensor.shape.to_vec(), floats(bytes))))
            .collect();
        let expected = BTreeMap::from([
            ("a", (vec![2, 3], numbers(0..6))),
            ("b", (vec![3], numbers(6..9))),
            ("f", (vec![3], numbers(7..10))),
            ("mean", (vec![2], vec![0.5, 1.5])),
            ("s", (vec![], vec![20.0])),
            ("tied", (vec![2, 3], numbers(0..6))),
        ]);
        assert_eq!(found, expected);
        assert_eq!(ckpt_api::Ties::of(&contents).iter().count(), 1);
    }
}

#[test]
fn a_rank_whose_file_is_missing_is_noticed() {
    for mut files in [cut_rows(), cut_parameters()] {
        files.remove(&rank(1, "optim"));
        assert!(error(files).to_string().contains("lacks files of some ranks"));
    }
    let mut files = cut_rows();
    files.remove("step/mp_rank_00_model_states.pt");
    assert!(error(files).to_string().contains("*_model_states.pt"));
}

#[test]
fn elements_that_no_parameter_has_and_parameters_without_elements_are_refused() {
    const KEY: &str = "single_partition_of_fp32_groups";
    for (group, text) in [(numbers(6..20), "another number of elements"), (numbers(6..7), "too few elements")]
    {
        let mut files = cut_rows();
        files.insert(rank(1, "optim"), part(2, KEY, [group, vec![0.0, 0.0]]));
        let error = error(files).to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_model_that_is_cut_across_devices_and_a_folder_elsewhere_are_refused() {
    let mut files = cut_rows();
    files.insert("step/mp_rank_01_model_states.pt".to_owned(), Vec::new());
    assert!(error(files).to_string().contains("cut across devices"));
    let mut files = cut_rows();
    files.insert("latest".to_owned(), b"../step".to_vec());
    error(files);
}

#[test]
fn a_changed_number_of_a_part_is_noticed() {
    let mut files = cut_rows();
    let part = files.get_mut(&rank(0, "optim")).unwrap();
    let at = part.windows(8).position(|bytes| bytes == [4f32, 5.0].map(f32::to_le_bytes).concat()).unwrap();
    part[at] ^= 1;
    assert!(error(files).to_string().contains("checksum"));
}

#[test]
fn what_the_optimizer_remembers_is_cut_as_the_parameters_are() {
    const PIECES: &str = "single_partition_of_fp32_groups";
    const SHARES: &str = "fp32_flat_groups";
    let ten = |part: &[f32]| part.iter().map(|number| number + 10.0).collect::<Vec<f32>>();
    let cases = [
        (cut_rows(), 2, PIECES, [[numbers(0..6), vec![20.0, 0.0]], [numbers(6..9), vec![0.0, 0.0]]]),
        (
            cut_parameters(),
            3,
            SHARES,
            [[vec![0.0, 1.0, 2.0, 6.0, 7.0], vec![20.0]], [vec![3.0, 4.0, 5.0, 8.0, 0.0], vec![0.0]]],
        ),
    ];
    for (mut files, stage, key, parts) in cases {
        for (number, groups) in (0u32..).zip(parts) {
            let moment = groups.each_ref().map(|group| ten(group));
            let factors = [vec![1.0; 2], vec![1.0; 2]];
            let slots = [("exp_avg", moment), ("factors", factors), ("step", [vec![4.0], vec![4.0]])];
            files.insert(rank(number, "optim"), part_with(stage, key, groups, &slots));
        }
        let (contents, values) = ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap();
        let value = |name: &str| {
            let id = contents.checkpoint.by_name()[name].0;
            let tensor = &contents.checkpoint.tensors[id];
            let numbers = values[id].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            (tensor.shape.to_vec(), numbers.collect::<Vec<f32>>(), tensor.role, tensor.slot.clone())
        };
        for (name, shape, expected) in [
            ("a", vec![2, 3], ten(&numbers(0..6))),
            ("b", vec![3], ten(&numbers(6..9))),
            ("s", vec![], vec![30.0]),
        ] {
            let slot = Slot { variable: name.into(), name: "m".to_owned() };
            let found = value(&format!("optimizer.state.{name}.exp_avg"));
            assert_eq!(found, (shape, expected, Role::Optimizer, Some(Box::new(slot))), "stage {stage}");
        }
        assert_eq!(value("optimizer.state.step").2, Role::Counter);
        assert!(
            contents.notes.iter().any(|note| note.ends_with("left out: factors")),
            "{:?}",
            contents.notes
        );
        assert_eq!(contents.checkpoint.tensors.len(), 10);
    }
}

#[test]
fn a_quantized_buffer_keeps_its_scale_and_quantized_parameters_are_refused() {
    const MODEL: &str = "step/mp_rank_00_model_states.pt";
    let storages = [vec![0.5, 1.5], vec![7.0, 8.0, 9.0]];
    let mut files = cut_rows();
    let model = model_with(Py::Quantized(0, vec![2], 0.5), Py::Floats(1, vec![3]), &storages);
    files.insert(MODEL.to_owned(), model);
    let (contents, _) = ckpt_conformance::read(&Torch, &Input::memory("", files.clone()), &[]).unwrap();
    let mean = &contents.checkpoint.tensors[contents.checkpoint.by_name()["mean"].0];
    assert_eq!(mean.quantization, Some(Affine::new([0.5], [3.0], None).unwrap().into()));
    let frozen = model_with(Py::Floats(0, vec![2]), Py::Quantized(1, vec![3], 0.5), &storages);
    files.insert(MODEL.to_owned(), frozen);
    let error = error(files);
    assert_eq!(error.kind(), ckpt_api::Kind::Unsupported);
    assert!(error.to_string().contains("quantized"), "{error}");
}

#[test]
fn a_changed_number_is_noticed_in_buffers_that_are_views_and_in_frozen_parameters() {
    const MODEL: &str = "step/mp_rank_00_model_states.pt";
    let storages = [vec![0.5, 1.5, 2.5], vec![7.0, 8.0, 9.0]];
    let bytes = model_with(Py::View(0, 3, vec![2]), Py::Floats(1, vec![3]), &storages);
    let mut files = cut_rows();
    files.insert(MODEL.to_owned(), bytes.clone());
    ckpt_conformance::read(&Torch, &Input::memory("", files.clone()), &[]).unwrap();
    for number in [1.5f32, 2.5, 8.0] {
        let mut changed = bytes.clone();
        let at = changed.windows(4).position(|bytes| bytes == number.to_le_bytes()).unwrap();
        changed[at] ^= 1;
        files.insert(MODEL.to_owned(), changed);
        let error = error(files.clone()).to_string();
        assert!(error.contains("checksum"), "{number}: {error}");
    }
}

#[test]
fn an_optimizer_that_remembers_more_than_any_does_is_refused() {
    const KEY: &str = "single_partition_of_fp32_groups";
    let names: Vec<&'static str> = (0..65).map(|number| &*format!("slot{number}").leak()).collect();
    let slots: Vec<_> = names.iter().map(|name| (*name, [vec![0.0], vec![0.0]])).collect();
    let mut files = cut_rows();
    files.insert(rank(0, "optim"), part_with(2, KEY, [numbers(0..6), vec![20.0, 0.0]], &slots));
    let error = error(files);
    assert_eq!(error.kind(), ckpt_api::Kind::Limit, "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "2,000 references to 1,000 names")]
fn groups_that_share_their_names_too_often_are_refused() {
    let names = (0..1000).map(|name| (&*name.to_string().leak(), Py::Size(vec![1]))).collect();
    let groups = Py::Shared(Box::new(dict(names)), 2000);
    let mut files = cut_rows();
    files.insert(
        "step/mp_rank_00_model_states.pt".to_owned(),
        saved(&dict(vec![("param_shapes", groups)]), &[]),
    );
    let error = error(files);
    assert_eq!(error.kind(), ckpt_api::Kind::Limit, "{error}");
}

#[test]
fn weights_that_stage_1_does_not_list_are_read_as_the_model_has_them() {
    let mut files = cut_rows();
    let name = files.keys().find(|name| name.ends_with("model_states.pt")).unwrap().clone();
    let value = dict(vec![
        ("module", dict(vec![("mean", Py::Floats(0, vec![2])), ("frozen", Py::Floats(1, vec![3]))])),
        ("buffer_names", Py::List(vec![Py::Text("mean")])),
        ("param_shapes", shapes()),
    ]);
    files.insert(name, saved(&value, &[vec![1.0, 2.0], vec![7.0, 8.0, 9.0]]));
    let (contents, values) = ckpt_conformance::read(&Torch, &Input::memory("", files), &[]).unwrap();
    let (id, _) = contents.checkpoint.tensor("frozen").unwrap();
    let expected: Vec<u8> = [7f32, 8.0, 9.0].map(f32::to_le_bytes).concat();
    assert_eq!(values[id.0], expected);
    let note = "1 tensor that the ranks do not train, such as frozen weights, read as the model has them";
    assert!(contents.notes.iter().any(|own| own == note), "{:?}", contents.notes);
}
