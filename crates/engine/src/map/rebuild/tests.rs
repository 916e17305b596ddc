//! Recipes against plain loops over values.

mod assembled;
mod divided;
mod joined;
mod numbers;
mod quantized;
mod scaled;

use super::rebuild;
use crate::execute::{Files, TensorStream};
use crate::layout::{TargetLayout, compile};
use crate::recipe::{AxisStep, FlattenedImage, Join, Recipe, Target};
use crate::resources::Budget;
use ckpt_api::{
    Axis, Checkpoint, Checksum, ChecksumAlgorithm, Contents, DType, Encoding, Extent, FileId, Graph, Input,
    Kind, Limits, LossKind, Node, Op, Placement, Region, Result, Role, Shape, Slot, Tensor, TensorId,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Values with a shape, row-major.
#[derive(Clone, Debug, PartialEq)]
struct Array {
    shape: Vec<u64>,
    values: Vec<u16>,
}

impl Array {
    fn counted(shape: &[u64], from: u16) -> Self {
        let len: u64 = shape.iter().product();
        Array { shape: shape.to_vec(), values: (0..len as u16).map(|k| from + k).collect() }
    }

    /// The array whose element at an index is this array's at `source(index)`.
    fn gather(&self, shape: Vec<u64>, source: impl Fn(&[u64]) -> Vec<u64>) -> Self {
        let flat = |index: &[u64]| index.iter().zip(&self.shape).fold(0, |flat, (i, len)| flat * len + i);
        let values = indices(&shape).map(|index| self.values[flat(&source(&index)) as usize]).collect();
        Array { shape, values }
    }

    fn permuted(&self, order: &[usize]) -> Self {
        let shape = order.iter().map(|axis| self.shape[*axis]).collect();
        self.gather(shape, |index| {
            let mut source = vec![0; index.len()];
            order.iter().zip(index).for_each(|(axis, i)| source[*axis] = *i);
            source
        })
    }

    fn part(&self, axis: usize, start: u64, len: u64) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = len;
        self.gather(shape, |index| {
            let mut source = index.to_vec();
            source[axis] += start;
            source
        })
    }

    fn merged(arrays: &[Array], axis: usize) -> Self {
        let mut shape = arrays[0].shape.clone();
        shape[axis] = arrays.iter().map(|array| array.shape[axis]).sum();
        let mut values = Vec::new();
        for mut index in indices(&shape) {
            let mut holder = 0;
            while index[axis] >= arrays[holder].shape[axis] {
                index[axis] -= arrays[holder].shape[axis];
                holder += 1;
            }
            values.extend(arrays[holder].gather(vec![], |_| index.clone()).values);
        }
        Array { shape, values }
    }
}

fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> + '_ {
    (0..shape.iter().product::<u64>()).map(move |mut rest| {
        let mut index = vec![0; shape.len()];
        for (i, len) in index.iter_mut().zip(shape).rev() {
            *i = rest % len;
            rest /= len;
        }
        index
    })
}

/// A checkpoint in memory: each array stored in an axis order of its own, whole or in two slices.
#[derive(Default)]
struct Memory {
    contents: Contents,
    file: Vec<u8>,
}

impl Memory {
    fn add(mut self, name: &str, array: &Array, order: &[usize], sliced: bool) -> Self {
        let shape = Shape::new(array.shape.clone()).unwrap();
        let tensor = Tensor::new(name, DType::U16, shape);
        let cut = match (sliced, array.shape.first()) {
            (true, Some(len)) => vec![(0, len / 2), (len / 2, len - len / 2)],
            (_, len) => vec![(0, len.copied().unwrap_or(1))],
        };
        let extents = cut.iter().map(|(start, len)| {
            let box_ = if array.shape.is_empty() { array.clone() } else { array.part(0, *start, *len) };
            let mut region =
                Region { start: vec![0; array.shape.len()], shape: Shape::new(box_.shape.clone()).unwrap() };
            if let Some(first) = region.start.first_mut() {
                *first = *start;
            }
            let bytes: Vec<u8> = box_.permuted(order).values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let mut checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
            let mut running = checksum.start();
            running.update(&bytes);
            checksum.value = Some(running.finish());
            let offset = self.file.len() as u64;
            self.file.extend(&bytes);
            let region = (sliced && !array.shape.is_empty()).then_some(region);
            Extent::new(FileId(0), offset, bytes.len() as u64).with_region(region).with_checksum(checksum)
        });
        let extents: Vec<_> = extents.collect();
        let id = TensorId(self.contents.placements.len());
        let encoding = Encoding::row_major(&tensor).with_order(order.to_vec());
        let placement = Placement::new(id, name, extents, encoding);
        self.contents.placements.push(placement);
        self.contents.checkpoint.tensors.push(tensor);
        self.contents.files = vec!["f".into()];
        self
    }

    fn rebuilt(mut self, targets: &[Target]) -> Result<Self> {
        rebuild(&mut self.contents, targets)?;
        self.contents.check(&Limits::default())?;
        Ok(self)
    }

    fn array(&self, name: &str) -> Result<Array> {
        let (id, tensor) = self.contents.checkpoint.tensor(name).expect("the tensor is there");
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), self.file.clone())]));
        let files = Files::new(&input, &self.contents);
        let target = Encoding::row_major(tensor);
        let budget = Budget { chunk: 48, tile: 64 };
        let source = &self.contents.placements[id.0];
        let route = compile(tensor, source, &TargetLayout::read(&target), &[])?;
        let bytes =
            TensorStream::whole(&files, route.into_transfer(tensor, source, &target), budget)?.read_all()?;
        let values = bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        Ok(Array { shape: tensor.shape.to_vec(), values })
    }
}

fn target(name: &str, sources: &[&str], join: Join, steps: &[AxisStep]) -> Target {
    let sources = sources.iter().map(|name| (*name).to_owned()).collect();
    Target { name: name.into(), sources, recipe: Recipe { join, steps: steps.to_vec(), ..Recipe::default() } }
}

fn part(axis: usize, part: usize, parts: usize, sizes: Option<Vec<u64>>) -> Join {
    Join::Part { axis, part, parts, sizes }
}

fn ordered_shape() -> impl Strategy<Value = (Vec<u64>, Vec<usize>, Vec<usize>)> {
    (1usize..5).prop_flat_map(|rank| {
        let axes: Vec<usize> = (0..rank).collect();
        (prop::collection::vec(1u64..6, rank), Just(axes.clone()).prop_shuffle(), Just(axes).prop_shuffle())
    })
}

proptest! {
    #[test]
    fn reordered_axes_equal_those_of_plain_loops(
        (shape, stored, order) in ordered_shape(), sliced in any::<bool>(), at in 0usize..5,
    ) {
        let array = Array::counted(&shape, 7);
        let at = at.min(shape.len());
        let steps = [AxisStep::Permute(order.clone()), AxisStep::Unsqueeze(at)];
        let memory = Memory::default().add("a", &array, &stored, sliced);
        let memory = memory.rebuilt(&[target("b", &["a"], Join::One, &steps)]).unwrap();
        let mut expected = array.permuted(&order);
        expected.shape.insert(at, 1);
        prop_assert_eq!(&memory.array("b").unwrap(), &expected);
        let back: Vec<AxisStep> = steps.iter().rev().map(AxisStep::inverse).collect();
        let memory = memory.rebuilt(&[target("a", &["b"], Join::One, &back)]).unwrap();
        prop_assert_eq!(memory.array("a").unwrap(), array);
    }

    #[test]
    fn flattened_images_are_reordered_as_by_plain_loops(
        image in prop::collection::vec(1u64..5, 2..4), others in prop::collection::vec(1u64..4, 0..3), at in 0usize..3,
        transposed in any::<bool>(),
    ) {
        let at = at.min(others.len());
        let mut whole = others.clone();
        whole.splice(at..at, image.iter().copied());
        let mut shape = others;
        shape.insert(at, image.iter().product());
        let array = Array::counted(&shape, 3);
        let mut order: Vec<usize> = (0..whole.len()).collect();
        let channels = order.remove(at + image.len() - 1);
        order.insert(at, channels);
        let mut expected = Array { shape: whole, values: array.values.clone() }.permuted(&order);
        expected.shape.clone_from(&shape);
        let step = AxisStep::FlattenOrder(FlattenedImage { lens: image, axis: Some(at) });
        let mut stored: Vec<usize> = (0..shape.len()).collect();
        if transposed {
            stored.reverse();
        }
        let memory = Memory::default().add("a", &array, &stored, false);
        let memory = memory.rebuilt(&[target("b", &["a"], Join::One, std::slice::from_ref(&step))]).unwrap();
        prop_assert_eq!(&memory.array("b").unwrap(), &expected);
        let memory = Memory::default().add("b", &expected, &stored, false);
        let memory = memory.rebuilt(&[target("a", &["b"], Join::One, &[step.inverse()])]).unwrap();
        prop_assert_eq!(memory.array("a").unwrap(), array);
    }

    #[test]
    fn parts_and_their_merge_equal_those_of_plain_loops(
        (shape, stored, _) in ordered_shape(), sliced in any::<bool>(), axis in 0usize..4,
        sizes in prop::collection::vec(0u64..4, 1..4), transposed in any::<bool>(),
    ) {
        let axis = axis.min(shape.len() - 1);
        let mut shape = shape;
        shape[axis] = sizes.iter().sum();
        let array = Array::counted(&shape, 1);
        let memory = || Memory::default().add("all", &array, &stored, sliced);
        let reversed = AxisStep::Permute((0..shape.len()).rev().collect());
        let steps: Vec<AxisStep> = transposed.then_some(reversed).into_iter().collect();
        let names: Vec<String> = (0..sizes.len()).map(|k| format!("part{k}")).collect();
        let targets: Vec<Target> = names.iter().enumerate()
            .map(|(k, name)| target(name, &["all"], part(axis, k, sizes.len(), Some(sizes.clone())), &steps)).collect();
        let split = memory().rebuilt(&targets).unwrap();
        let mut start = 0;
        let mut parts = Memory::default();
        let mut arrays = Vec::new();
        for (name, size) in names.iter().zip(&sizes) {
            let mut expected = array.part(axis, start, *size);
            if transposed {
                expected = expected.permuted(&(0..shape.len()).rev().collect::<Vec<_>>());
            }
            prop_assert_eq!(&split.array(name).unwrap(), &expected);
            parts = parts.add(name, &expected, &stored, sliced);
            arrays.push(expected);
            start += size;
        }
        let sources: Vec<&str> = names.iter().map(String::as_str).collect();
        let join = Join::Merged { axis, sizes: Some(sizes.clone()) };
        let merged = parts.rebuilt(&[target("all", &sources, join, &steps)]).unwrap();
        prop_assert_eq!(merged.array("all").unwrap(), array);
    }

    #[test]
    fn merged_tensors_have_the_order_of_the_recipe(
        lens in prop::collection::vec(1u64..4, 1..4), axis in 0usize..2, stored in Just(vec![0usize, 1]).prop_shuffle(),
    ) {
        let arrays: Vec<Array> = lens.iter().zip(0u16..).map(|(len, k)| {
            let shape = if axis == 0 { [*len, 3] } else { [3, *len] };
            Array::counted(&shape, 100 * k)
        }).collect();
        let names: Vec<String> = (0..arrays.len()).map(|k| format!("p{k}")).collect();
        let memory = names.iter().zip(&arrays)
            .fold(Memory::default(), |memory, (name, array)| memory.add(name, array, &stored, false));
        let sources: Vec<&str> = names.iter().map(String::as_str).collect();
        let join = Join::Merged { axis, sizes: Some(lens) };
        let memory = memory.rebuilt(&[target("m", &sources, join, &[])]).unwrap();
        prop_assert_eq!(memory.array("m").unwrap(), Array::merged(&arrays, axis));
    }
}

fn matrix() -> Memory {
    Memory::default().add("a", &Array::counted(&[2, 6], 0), &[0, 1], false)
}

#[test]
fn a_corrupt_byte_of_a_split_tensor_is_found_in_every_part() {
    let targets = [0, 1].map(|k| target(["x", "y"][k], &["a"], part(1, k, 2, None), &[]));
    let mut memory = matrix().rebuilt(&targets).unwrap();
    assert_eq!(memory.array("y").unwrap().values, [3, 4, 5, 9, 10, 11]);
    memory.file[0] ^= 1;
    for name in ["x", "y"] {
        assert_eq!(memory.array(name).unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn one_source_can_have_several_names_and_equal_sources_one() {
    let tied = [target("x", &["a"], Join::One, &[]), target("y", &["a"], Join::One, &[AxisStep::Transpose])];
    let memory = matrix().rebuilt(&tied).unwrap();
    assert_eq!(memory.array("y").unwrap(), memory.array("x").unwrap().permuted(&[1, 0]));
    let memory = memory.rebuilt(&[target("a", &["x", "y"], Join::Tied, &[])]).unwrap();
    assert_eq!(memory.array("a").unwrap(), Array::counted(&[2, 6], 0));
}

#[test]
fn a_recipe_that_does_not_fit_its_tensor_is_an_error_that_names_both() {
    let cases = [
        (Join::One, vec![AxisStep::Squeeze(0)], "an axis of length 1"),
        (Join::One, vec![AxisStep::Squeeze(7)], "an axis of length 1"),
        (Join::One, vec![AxisStep::Permute(vec![2, 1, 0])], "a tensor of 3 axes"),
        (Join::One, vec![AxisStep::Unsqueeze(3)], "at least 3 axes"),
        (Join::One, vec![AxisStep::Unsqueeze(0), AxisStep::Transpose], "a matrix"),
        (part(2, 0, 2, None), vec![], "does not have this axis"),
        (part(1, 0, 4, None), vec![], "a multiple of 4"),
        (part(1, 0, 0, None), vec![], "a multiple of 0"),
        (part(1, 0, 2, Some(vec![4, 3])), vec![], "6 in all"),
        (part(1, 2, 2, Some(vec![3, 3])), vec![], "6 in all"),
        (part(1, 0, 2, Some(vec![u64::MAX, 7])), vec![], "6 in all"),
        (Join::Merged { axis: 2, sizes: None }, vec![], "does not have this axis"),
        (Join::Merged { axis: 1, sizes: Some(vec![5]) }, vec![], "the 'sizes' of the rule"),
    ];
    for (join, steps, says) in cases {
        let error = matrix().rebuilt(&[target("b", &["a"], join.clone(), &steps)]).map(drop).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::Mapping, "{text}");
        assert!(
            text.contains(says) && text.contains("tensor a") && text.contains("'b'"),
            "{join:?} {steps:?}: {text}"
        );
    }
}

#[test]
fn tensors_that_differ_in_more_than_the_axis_are_not_merged() {
    let two = |other: Array, order: &[usize]| {
        let memory = matrix().add("b", &other, order, false);
        memory.rebuilt(&[target("m", &["a", "b"], Join::Merged { axis: 1, sizes: None }, &[])]).map(drop)
    };
    two(Array::counted(&[2, 6], 0), &[0, 1]).unwrap();
    for (shape, kind) in [(&[3, 6][..], Kind::Mapping), (&[2, 5], Kind::Mapping), (&[2, 6, 1], Kind::Mapping)]
    {
        let order: Vec<usize> = (0..shape.len()).collect();
        assert_eq!(two(Array::counted(shape, 0), &order).unwrap_err().kind(), kind, "{shape:?}");
    }
    let error = two(Array::counted(&[2, 6], 0), &[1, 0]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

#[test]
fn names_of_axes_follow_steps_and_the_graph_follows_whole_tensors() {
    let mut memory = matrix();
    let checkpoint = &mut memory.contents.checkpoint;
    checkpoint.tensors[0].axes = Some([Axis::In, Axis::Out].into());
    let node = Node::new("dense", Op::Gemm).parameter("weight", "a");
    checkpoint.graph = Some(Graph::sequential("m", vec![], vec![], vec![node]));
    let mut split = Memory { contents: memory.contents.clone(), file: memory.file.clone() };
    let steps = [AxisStep::Transpose, AxisStep::Unsqueeze(0)];
    let losses = rebuild(&mut memory.contents, &[target("b", &["a"], Join::One, &steps)]).unwrap();
    let Checkpoint { graph, tensors, .. } = memory.contents.checkpoint;
    assert_eq!(tensors[0].axes, Some([Axis::Unit, Axis::Out, Axis::In].into()));
    assert_eq!((graph.unwrap().nodes[0].parameters["weight"].as_str(), losses), ("b", vec![]));
    let halves = [0, 1].map(|k| target(["x", "y"][k], &["a"], part(1, k, 2, None), &[]));
    let losses = rebuild(&mut split.contents, &halves).unwrap();
    assert!(split.contents.checkpoint.graph.is_none());
    assert_eq!(losses[0].kind, LossKind::GraphDropped);
    assert!(
        losses[0].detail.contains("'dense' needs 'a', which is merged or split"),
        "{}",
        losses[0].detail.as_str()
    );
}

#[test]
fn a_graph_is_dropped_when_elements_move_where_the_names_of_axes_do_not_show_it() {
    let parts = AxisStep::Parts { order: vec![1, 0, 2], axis: 1 };
    let reshape = AxisStep::parse("reshape 6 -> 2 3 on 1").unwrap();
    let cases = [
        (true, AxisStep::Transpose, false),
        (true, AxisStep::Permute(vec![1, 0]), false),
        (true, AxisStep::Unsqueeze(0), false),
        (true, parts.clone(), true),
        (true, reshape, true),
        (false, AxisStep::Permute(vec![0, 1]), false),
        (false, AxisStep::Permute(vec![1, 0]), true),
        (false, AxisStep::Transpose, true),
        (false, AxisStep::Unsqueeze(0), true),
        (false, parts, true),
    ];
    for (has_axes, step, is_dropped) in cases {
        let mut memory = matrix();
        let checkpoint = &mut memory.contents.checkpoint;
        checkpoint.tensors[0].axes = has_axes.then(|| [Axis::In, Axis::Out].into());
        let node = Node::new("dense", Op::Gemm).parameter("weight", "a");
        checkpoint.graph = Some(Graph::sequential("m", vec![], vec![], vec![node]));
        let losses =
            rebuild(&mut memory.contents, &[target("b", &["a"], Join::One, std::slice::from_ref(&step))])
                .unwrap();
        assert_eq!(memory.contents.checkpoint.graph.is_none(), is_dropped, "{has_axes} {step}");
        assert_eq!(losses.iter().any(|loss| loss.kind == LossKind::GraphDropped), is_dropped, "{losses:?}");
    }
}

/// Variables `a` and `b` with their slots `a_m` and `b_m`.
fn trained() -> Memory {
    let mut memory =
        ["a", "b", "a_m", "b_m"].iter().zip(0u16..).fold(Memory::default(), |memory, (name, k)| {
            memory.add(name, &Array::counted(&[2, 2], 10 * k), &[0, 1], false)
        });
    for tensor in &mut memory.contents.checkpoint.tensors {
        if let Some(variable) = tensor.name.strip_suffix("_m") {
            tensor.slot = Some(Box::new(Slot { variable: variable.into(), name: "m".into() }));
            tensor.role = Role::Optimizer;
        }
    }
    memory
}

/// The names of the variables to which the tensors belong then, in the order of the tensors.
fn owners(memory: &Memory, targets: &[Target]) -> Vec<Option<String>> {
    let mut contents = memory.contents.clone();
    rebuild(&mut contents, targets).unwrap();
    contents
        .checkpoint
        .tensors
        .into_iter()
        .map(|tensor| tensor.slot.map(|slot| slot.variable.into()))
        .collect()
}

#[test]
fn a_slot_follows_the_variable_that_it_belongs_to() {
    let one = |name: &str, source: &str, steps: &[AxisStep]| target(name, &[source], Join::One, steps);
    let memory = trained();
    let turned = [AxisStep::Transpose];
    let renamed =
        [one("x", "a", &turned), one("y", "b", &[]), one("a_m", "a_m", &turned), one("y/m", "b_m", &[])];
    assert_eq!(owners(&memory, &renamed)[2..], [Some("x".to_owned()), Some("y".to_owned())]);

    let join = || Join::Merged { axis: 0, sizes: None };
    let merged = [target("ab", &["a", "b"], join(), &[]), target("ab_m", &["a_m", "b_m"], join(), &[])];
    assert_eq!(owners(&memory, &merged), [None, Some("ab".to_owned())]);

    let mut split: Vec<Target> =
        [0, 1].map(|k| target(["x", "y"][k], &["a"], part(1, k, 2, None), &[])).into();
    split.extend([0, 1].map(|k| target(["xm", "ym"][k], &["a_m"], part(1, k, 2, None), &[])));
    split.extend([one("b", "b", &[]), one("b_m", "b_m", &[])]);
    let made = owners(&memory, &split);
    assert_eq!(made, [None, None, None, Some("x".into()), Some("y".into()), Some("b".into())]);
}

#[test]
fn a_slot_whose_axes_are_not_its_variables_belongs_to_none() {
    let one = |name: &str, steps: &[AxisStep]| target(name, &[name], Join::One, steps);
    let mut memory = trained();
    let variable_alone = [one("a", &[AxisStep::Transpose]), one("b", &[]), one("a_m", &[]), one("b_m", &[])];
    assert_eq!(owners(&memory, &variable_alone)[2..], [None, Some("b".to_owned())]);
    for tensor in &mut memory.contents.checkpoint.tensors {
        tensor.axes = Some([Axis::In, Axis::Out].into());
    }
    let owned = owners(&memory, &variable_alone);
    assert_eq!(owned[2], Some("a".to_owned()), "named axes can be distinguished");

    let mut targets: Vec<Target> =
        [0, 1].map(|k| target(["x", "y"][k], &["a"], part(1, k, 2, None), &[])).into();
    targets.extend([one("b", &[]), one("a_m", &[]), one("b_m", &[])]);
    assert_eq!(owners(&memory, &targets)[3..], [None, Some("b".to_owned())], "its variable was split");
}

#[test]
fn a_weight_that_is_tied_to_its_duplicate_stays_a_weight() {
    let mut memory = trained();
    memory.contents.checkpoint.tensors[0].role = Role::Duplicate;
    rebuild(&mut memory.contents, &[target("x", &["a", "b"], Join::Tied, &[])]).unwrap();
    assert_eq!(memory.contents.checkpoint.tensors[0].role, Role::Weight);
}

#[test]
fn strings_are_not_reordered() {
    let mut memory = matrix();
    memory.contents.checkpoint.tensors[0].dtype = DType::String;
    let step = |step| target("b", &["a"], Join::One, &[step]);
    let error = memory.contents.clone();
    let error = rebuild(&mut { error }, &[step(AxisStep::Transpose)]).unwrap_err();
    assert!(error.kind() == Kind::Mapping && error.to_string().contains("cannot be reordered"), "{error}");
    rebuild(&mut memory.contents, &[step(AxisStep::Unsqueeze(0))]).unwrap();
}

#[test]
fn an_axis_of_flattened_images_is_reordered_once_by_a_recipe() {
    let steps = |texts: [&str; 2]| {
        let steps = texts.map(|text| AxisStep::parse(text).unwrap());
        Memory::default().add("a", &Array::counted(&[12, 6], 0), &[0, 1], false).rebuilt(&[target(
            "b",
            &["a"],
            Join::One,
            &steps,
        )])
    };
    for again in ["flatten_order 4 3 on 0", "unflatten_order 6 2 on 0"] {
        let error = steps(["flatten_order 6 2", again]).err().unwrap();
        assert_eq!(error.kind(), Kind::Mapping);
        assert!(error.to_string().contains("reordered twice"), "{error}");
    }
    let both = steps(["flatten_order 6 2", "flatten_order 3 2 on 1"]).unwrap().array("b").unwrap();
    assert_eq!(both.values[..7], [0, 2, 4, 1, 3, 5, 12], "another axis");
}

#[test]
fn a_flattened_image_needs_one_whole_axis_of_its_length() {
    let square = || Array::counted(&[12, 12], 0);
    let step = |text: &str| [target("b", &["a"], Join::One, &[AxisStep::parse(text).unwrap()])];
    let memory = || Memory::default().add("a", &square(), &[0, 1], false);
    let error = |memory: Memory, text: &str| memory.rebuilt(&step(text)).err().unwrap().to_string();
    assert!(error(memory(), "flatten_order 2 2 3").contains("flatten_order 2 2 3 on 0"));
    assert!(error(memory(), "flatten_order 2 2 2").contains("2 × 2 × 2 = 8"));
    assert!(error(memory(), "flatten_order 2 2 3 on 2").contains("2 × 2 × 3 = 12"));
    let sliced = Memory::default().add("a", &square(), &[0, 1], true);
    assert!(error(sliced, "flatten_order 2 2 3 on 0").contains("stored in parts"));
    let axes =
        |memory: &mut Memory| memory.contents.checkpoint.tensors[0].axes = Some([Axis::In, Axis::Out].into());
    let mut named = memory();
    axes(&mut named);
    let named = named.rebuilt(&step("flatten_order 2 2 3")).unwrap();
    assert_eq!(named.array("b").unwrap().values[12], square().values[3 * 12], "the input axis");
}
