//! Parts that are not side by side, against plain loops over values.

use super::*;
use crate::recipe::Division;

fn with(division: Division, mut made: Target) -> Target {
    made.recipe.division = division;
    made
}

proptest! {
    #[test]
    fn parts_that_take_turns_equal_those_of_plain_loops_and_become_the_whole_again(
        (mut shape, stored, order) in ordered_shape(), at in 0usize..5, count in 2usize..4, other in 0usize..3,
    ) {
        let at = at.min(shape.len() - 1);
        let len = shape[at];
        shape[at] *= count as u64;
        let array = Array::counted(&shape, 3);
        let memory = Memory::default().add("a", &array, &stored, false);
        let turns = || Division { is_interleaved: true, ..Division::default() };
        let names: Vec<String> = (0..count).map(|k| format!("p{k}")).collect();
        let steps = [AxisStep::Permute(order.clone())];
        let targets: Vec<Target> = names.iter().enumerate().map(|(k, name)| {
            with(turns(), target(name, &["a"], part(at, k, count, None), &steps))
        }).collect();
        let made = memory.rebuilt(&targets).unwrap();
        let mut own = shape.clone();
        own[at] = len;
        for (k, name) in names.iter().enumerate() {
            let expected = array.gather(own.clone(), |index| {
                let mut source = index.to_vec();
                source[at] = source[at] * count as u64 + k as u64;
                source
            });
            prop_assert_eq!(made.array(name).unwrap(), expected.permuted(&order));
        }
        // Stored anew, each in one run.
        let stored_again = if other == 0 { (0..shape.len()).collect() } else { stored };
        let again = names.iter().enumerate().fold(Memory::default(), |again, (k, name)| {
            let array = array.gather(own.clone(), |index| {
                let mut source = index.to_vec();
                source[at] = source[at] * count as u64 + k as u64;
                source
            });
            again.add(name, &array, &stored_again, false)
        });
        let sources: Vec<&str> = names.iter().map(String::as_str).collect();
        let merged = with(turns(), target("a", &sources, Join::Merged { axis: at, sizes: None }, &[]));
        prop_assert_eq!(again.rebuilt(&[merged]).unwrap().array("a").unwrap(), array);
    }
}

#[test]
fn parts_in_different_orders_of_axes_become_one_whole() {
    let (heads, key, value, rank) = (3, 2, 4, 5);
    let k = Array::counted(&[heads, rank, key], 0);
    let v = Array::counted(&[heads, value, rank], 500);
    let whole = Array::merged(&[k.permuted(&[0, 2, 1]), v.clone()], 1);
    let division = || Division {
        whole: vec![AxisStep::parse("reshape 3 _ -> _").unwrap()],
        each: vec![vec![AxisStep::Permute(vec![0, 2, 1])], Vec::new()],
        ..Division::default()
    };
    let memory = Memory::default().add("k", &k, &[0, 1, 2], false).add("v", &v, &[0, 1, 2], false);
    let join = Join::Merged { axis: 1, sizes: Some(vec![key, value]) };
    let made = memory.rebuilt(&[with(division(), target("kv", &["k", "v"], join, &[]))]).unwrap();
    let expected = Array { shape: vec![heads * (key + value), rank], values: whole.values };
    assert_eq!(made.array("kv").unwrap(), expected);

    let memory = Memory::default().add("kv", &expected, &[0, 1], false);
    let before = |steps: &[AxisStep], number| {
        let whole = vec![AxisStep::parse("reshape _ -> 3 _").unwrap()];
        let division = Division { whole, ..Division::default() };
        with(division, target(["k", "v"][number], &["kv"], part(1, number, 2, Some(vec![key, value])), steps))
    };
    let made = memory.rebuilt(&[before(&[AxisStep::Permute(vec![0, 2, 1])], 0), before(&[], 1)]).unwrap();
    assert_eq!((made.array("k").unwrap(), made.array("v").unwrap()), (k, v));
}

#[test]
fn parts_of_tensors_in_pieces_are_refused() {
    let array = Array::counted(&[4, 2], 0);
    let turns = || Division { is_interleaved: true, ..Division::default() };
    let memory = Memory::default().add("a", &array, &[0, 1], true);
    let error = memory.rebuilt(&[with(turns(), target("p", &["a"], part(1, 0, 2, None), &[]))]);
    assert_eq!(error.err().map(|error| error.kind()), Some(Kind::Unsupported));
    let memory = Memory::default().add("a", &array, &[0, 1], true);
    let made = memory.rebuilt(&[with(turns(), target("p", &["a"], part(0, 1, 2, None), &[]))]).unwrap();
    assert_eq!(made.array("p").unwrap().values, [2, 3, 6, 7]);
    let memory = Memory::default().add("a", &array, &[0, 1], false);
    let error = memory.rebuilt(&[with(turns(), target("p", &["a"], part(1, 0, 3, None), &[]))]);
    assert_eq!(error.err().map(|error| error.kind()), Some(Kind::Mapping));
    let merged = || with(turns(), target("m", &["a", "b"], Join::Merged { axis: 1, sizes: None }, &[]));
    let memory = Memory::default().add("a", &array, &[0, 1], true).add("b", &array, &[0, 1], false);
    let made = memory.rebuilt(&[merged()]).unwrap();
    assert_eq!(made.array("m").unwrap().values, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
    let memory = Memory::default().add("a", &array, &[0, 1], false).add("b", &array, &[1, 0], false);
    let error = memory.rebuilt(&[merged()]);
    assert_eq!(error.err().map(|error| error.kind()), Some(Kind::Unsupported));
}
