//! Axes that are divided and joined, and tensors that are stacked, against plain loops over values.

use super::*;
use crate::recipe::{PartOf, Parts};

fn stacked(axis: usize, merged: Option<Parts>) -> Join {
    Join::Stacked { axis, merged }
}

fn element(axis: usize, index: u64, part: Option<(usize, Parts)>) -> Join {
    Join::Element { axis, index, part: part.map(|(part, of)| PartOf { part, of }) }
}

fn two_parts(axis: usize) -> Parts {
    Parts { axis, parts: 2, sizes: None }
}

proptest! {
    #[test]
    fn reshaped_and_permuted_axes_equal_those_of_plain_loops(
        (parts, stored, _) in ordered_shape(), lens in prop::collection::vec(1u64..5, 1..4),
        order in Just(vec![0usize, 1, 2, 3, 4, 5, 6]).prop_shuffle(), at in 0usize..5, sliced in any::<bool>(),
        joined in 0usize..7,
    ) {
        let at = at.min(parts.len() - 1);
        let mut shape = parts.clone();
        shape[at] = lens.iter().product();
        let array = Array::counted(&shape, 7);
        let text = |lens: &[u64]| lens.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        let divide = AxisStep::parse(&format!("reshape _ -> {} on {at}", text(&lens))).unwrap();
        let mut divided = shape.clone();
        divided.splice(at..=at, lens.iter().copied());
        let order: Vec<usize> = order.into_iter().filter(|axis| *axis < divided.len()).collect();
        let permuted = Array { shape: divided, values: array.values.clone() }.permuted(&order);
        // Joins some axes that need not have been neighbors, and divides the others anew.
        let joined = joined.min(permuted.shape.len());
        let rest: u64 = permuted.shape[joined..].iter().product();
        let join = format!("reshape {} -> _ {rest}", text(&permuted.shape));
        let steps = [divide, AxisStep::Permute(order), AxisStep::parse(&join).unwrap()];
        let memory = Memory::default().add("a", &array, &stored, sliced);
        let made = match memory.rebuilt(&[target("b", &["a"], Join::One, &steps)]) {
            Ok(made) => made,
            Err(error) if sliced => {
                prop_assert_eq!(error.kind(), Kind::Unsupported);
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };
        let expected = Array { shape: vec![permuted.shape[..joined].iter().product(), rest], values: permuted.values };
        prop_assert_eq!(made.array("b").unwrap(), expected);
        let back: Vec<AxisStep> = steps.iter().rev().map(AxisStep::inverse).collect();
        let made = match made.rebuilt(&[target("a", &["b"], Join::One, &back)]) {
            Err(error) if sliced && error.kind() == Kind::Unsupported => return Ok(()),
            made => made.unwrap(),
        };
        prop_assert_eq!(made.array("a").unwrap(), array);
        if !sliced {
            prop_assert!(made.contents.placements[0].encoding.tiles().is_empty());
        }
    }

    #[test]
    fn a_stack_equals_that_of_plain_loops_and_has_its_elements(
        (shape, stored, _) in ordered_shape(), elements in 1usize..5, sliced in any::<bool>(), axis in 0usize..5,
        transposed in any::<bool>(),
    ) {
        let axis = axis.min(shape.len());
        let steps = if transposed && shape.len() == 2 { vec![AxisStep::Transpose] } else { Vec::new() };
        let arrays: Vec<Array> = (0..elements).map(|k| Array::counted(&shape, 1000 * k as u16)).collect();
        let names: Vec<String> = (0..elements).map(|k| format!("e{k}")).collect();
        let mut memory = Memory::default();
        for (name, array) in names.iter().zip(&arrays) {
            memory = memory.add(name, array, &stored, sliced);
        }
        let sources: Vec<&str> = names.iter().map(String::as_str).collect();
        let made = memory.rebuilt(&[target("stack", &sources, stacked(axis, None), &steps)]).unwrap();
        let each = arrays.iter().map(|array| {
            let mut array = if steps.is_empty() { array.clone() } else { array.permuted(&[1, 0]) };
            array.shape.insert(axis, 1);
            array
        });
        prop_assert_eq!(made.array("stack").unwrap(), Array::merged(&each.collect::<Vec<_>>(), axis));
    }

    #[test]
    fn elements_of_a_stack_equal_those_of_plain_loops(
        (shape, stored, _) in ordered_shape(), axis in 0usize..5, sliced in any::<bool>(), parts in any::<bool>(),
        permuted in any::<bool>(),
    ) {
        let axis = axis.min(shape.len() - 1);
        let mut shape = shape;
        if let Some(next) = shape.get_mut(usize::from(axis == 0)) {
            *next *= 2;
        }
        let array = Array::counted(&shape, 7);
        let of_parts = parts && shape.len() > 1;
        // The axis that is split is the first of an element.
        let names = |index: u64, part: usize| format!("e{index}.{part}");
        let part = |number: usize| of_parts.then(|| (number, two_parts(0)));
        let rest = shape.len() - 1;
        let steps = if permuted && rest > 1 { vec![AxisStep::Permute((0..rest).rev().collect())] } else { Vec::new() };
        let mut targets = Vec::new();
        for index in 0..shape[axis] {
            for number in 0..if of_parts { 2 } else { 1 } {
                let name = names(index, number);
                targets.push(target(&name, &["a"], element(axis, index, part(number)), &steps));
            }
        }
        let memory = Memory::default().add("a", &array, &stored, sliced);
        let made = match memory.rebuilt(&targets) {
            Ok(made) => made,
            Err(error) => {
                prop_assert_eq!(error.kind(), Kind::Unsupported, "{}", error);
                prop_assert!(sliced || stored.last() == Some(&axis), "{}", error);
                return Ok(());
            }
        };
        for target in &targets {
            let Join::Element { index, part, .. } = &target.recipe.join else { unreachable!() };
            let mut expected = array.part(axis, *index, 1);
            expected.shape.remove(axis);
            if let Some(PartOf { part, .. }) = part {
                let half = expected.shape[0] / 2;
                expected = expected.part(0, *part as u64 * half, half);
            }
            if !steps.is_empty() {
                expected = expected.permuted(&(0..rest).rev().collect::<Vec<_>>());
            }
            prop_assert_eq!(made.array(&target.name).unwrap(), expected);
        }
    }
}

#[test]
fn a_reshape_that_does_not_fit_is_refused() {
    let memory = || Memory::default().add("a", &Array::counted(&[6, 4], 0), &[0, 1], false);
    for text in ["reshape 5 -> 5", "reshape _ -> 4 _", "reshape 6 4 2 -> 48", "reshape 4 -> 2 2 on 2"] {
        let error = memory().rebuilt(&[target("b", &["a"], Join::One, &[AxisStep::parse(text).unwrap()])]);
        let error = error.err().unwrap();
        assert_eq!(error.kind(), Kind::Mapping, "{text}");
        assert!(error.to_string().contains(&format!("'{text}' for a tensor of shape [6, 4]")), "{error}");
    }
}

#[test]
fn a_tensor_without_elements_is_reshaped() {
    let step = AxisStep::parse("reshape 0 -> 2 _ on 1");
    assert!(step.is_err(), "no length is 0");
    let memory = Memory::default().add("a", &Array::counted(&[6, 0], 0), &[1, 0], false);
    let step = AxisStep::parse("reshape 6 _ -> 2 3 _").unwrap();
    let memory = memory.rebuilt(&[target("b", &["a"], Join::One, &[step])]).unwrap();
    assert_eq!(memory.array("b").unwrap(), Array::counted(&[2, 3, 0], 0));
}

#[test]
fn experts_of_two_parts_become_one_tensor_of_bytes_in_order_and_come_back() {
    let array = |from| Array::counted(&[2, 3], from);
    let names = ["0.gate", "0.up", "1.gate", "1.up", "2.gate", "2.up"];
    let mut memory = Memory::default();
    for (name, from) in names.iter().zip([0, 10, 20, 30, 40, 50]) {
        memory = memory.add(name, &array(from), &[0, 1], false);
    }
    let merged = Some(two_parts(0));
    let made = memory.rebuilt(&[target("gate_up", &names, stacked(0, merged), &[])]).unwrap();
    let all = made.array("gate_up").unwrap();
    assert_eq!(all.shape, [3, 4, 3]);
    assert_eq!(all.values[12..18], [20, 21, 22, 23, 24, 25]);
    let placement = &made.contents.placements[0];
    assert!(
        placement.extents.iter().all(|extent| extent.region().is_none()),
        "the bytes follow each other: {placement:?}"
    );
    let targets: Vec<Target> = names
        .iter()
        .enumerate()
        .map(|(k, name)| {
            target(name, &["gate_up"], element(0, k as u64 / 2, Some((k % 2, two_parts(0)))), &[])
        })
        .collect();
    let memory = Memory::default().add("gate_up", &all, &[0, 1, 2], false);
    let back = memory.rebuilt(&targets).unwrap();
    assert_eq!(back.array("2.up").unwrap(), array(50));
    assert_eq!(back.array("0.gate").unwrap(), array(0));
}

#[test]
fn an_element_that_is_stored_alone_is_read_alone() {
    let mut memory = Memory::default().add("a", &Array::counted(&[4, 2, 3], 0), &[0, 1, 2], false);
    memory.contents.placements[0].extents[0].checksum = None;
    let made = memory.rebuilt(&[target("b", &["a"], element(0, 2, None), &[])]).unwrap();
    let placement = &made.contents.placements[0];
    assert_eq!((placement.extents[0].offset, placement.extents[0].len), (24, 12));
    assert_eq!(placement.window(), None);
    assert_eq!(made.array("b").unwrap(), Array::counted(&[2, 3], 12));
}

#[test]
fn tensors_that_make_no_stack_are_refused_by_name() {
    let memory = |shape: &[u64]| {
        Memory::default().add("e0", &Array::counted(&[2, 3], 0), &[0, 1], false).add(
            "e1",
            &Array::counted(shape, 0),
            &[0, 1],
            false,
        )
    };
    let error =
        |memory: Memory, join| memory.rebuilt(&[target("s", &["e0", "e1"], join, &[])]).err().unwrap();
    let shapes = error(memory(&[3, 2]), stacked(0, None)).to_string();
    assert!(
        shapes.contains("different shapes") && shapes.contains("tensor e1") && shapes.contains("[3, 2]"),
        "{shapes}"
    );
    let axis = error(memory(&[2, 3]), stacked(3, None));
    assert_eq!(axis.kind(), Kind::Mapping);
    assert!(axis.to_string().contains("axis 3"), "{axis}");
    let merged = error(memory(&[2, 2]), stacked(0, Some(two_parts(0)))).to_string();
    assert!(merged.contains("cannot be merged") && merged.contains("e1"), "{merged}");
    let beyond = error(memory(&[2, 3]), element(0, 2, None));
    assert!(beyond.to_string().contains("element 2 of axis 0 of [2, 3]"), "{beyond}");
}

#[test]
fn a_cast_changes_the_dtype_and_is_a_loss() {
    let memory = || {
        let mut memory = Memory::default().add("a", &Array::counted(&[2, 3], 1), &[0, 1], false);
        memory.contents.checkpoint.tensors[0].dtype = DType::F16;
        memory.contents.placements[0].encoding.dtype = DType::F16;
        memory
    };
    let step = |text| [target("b", &["a"], Join::One, &[AxisStep::parse(text).unwrap()])];
    let mut wider = memory();
    let losses = rebuild(&mut wider.contents, &step("cast f16 -> f32")).unwrap();
    assert_eq!(
        losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect::<Vec<_>>(),
        [(LossKind::Retyped, "b")]
    );
    let tensor = &wider.contents.checkpoint.tensors[0];
    let placement = &wider.contents.placements[0];
    assert_eq!((tensor.dtype, placement.encoding.dtype), (DType::F32, DType::F16));
    let error = memory().rebuilt(&step("cast f32 -> bf16")).err().unwrap();
    assert_eq!(error.kind(), Kind::Mapping);
    assert!(
        error.to_string().contains("a tensor of f16")
            && error.to_string().contains("expected a tensor of f32"),
        "{error}"
    );
    let losses = rebuild(&mut memory().contents, &step("cast f16 -> bf16"));
    assert!(losses.is_ok_and(|losses| losses[0].kind == LossKind::Narrowed));
}
