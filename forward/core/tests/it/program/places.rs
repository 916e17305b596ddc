//! Lookups and updates of elements by their places on several axes, and other tests of elements.

use super::support::*;
use ckpt_api::{Attribute, Node, Op};
use ckpt_forward::{Array, Program, Random, Value};
use proptest::prelude::*;

/// The index of each place of a shape, in row-major order.
fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for len in shape {
        all = all.into_iter().flat_map(|at| (0..*len).map(move |i| [&at[..], &[i]].concat())).collect();
    }
    all
}

fn flat(shape: &[usize], at: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |flat, (i, len)| flat * len + i)
}

/// An index in its range, or the same one counted from the end.
fn signed(random: &mut Random, len: usize) -> (usize, i32) {
    let index = random.between(0, len - 1);
    (index, if random.chance(2) { index as i32 } else { index as i32 - len as i32 })
}

const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "max", "min"];

fn update(reduction: &str, own: f64, by: f64) -> f64 {
    match reduction {
        "add" => own + by,
        "mul" => own * by,
        "max" => own.max(by),
        "min" => own.min(by),
        _ => by,
    }
}

fn as_integers(value: &Value) -> Value {
    let values = value.array.to_f64().iter().map(|x| (x * 8.0).round() as i32).collect();
    Value::new(&value.shape[..], Array::I32(values)).unwrap()
}

fn text(node: Node, name: &str, value: &str) -> Node {
    node.attribute(name, Attribute::Text(value.to_owned()))
}

/// The magnitude of a node's only output.
fn magnitude(node: Node, inputs: &[Value]) -> Option<Vec<f64>> {
    let shapes: Vec<&[usize]> = inputs.iter().map(|value| &value.shape[..]).collect();
    let graph = graph(node, &shapes, 1);
    let shapes =
        graph.inputs.iter().zip(inputs).map(|(input, value)| (input.name.clone(), value.shape.clone()));
    let tensors = Tensors::default();
    let program = Program::new(&graph, &tensors, &shapes.collect()).unwrap();
    program.magnitudes(0, inputs).unwrap().remove(0).map(|magnitude| magnitude.sums)
}

proptest! {
    #[test]
    fn slices_are_found_and_updated_by_their_places(shape in prop::collection::vec(1usize..4, 1..5), outer in prop::collection::vec(0usize..4, 0..3), depth in 1usize..5, batch in 0usize..3, reduction in 0usize..5, seed: u64) {
        let mut random = Random::new(seed);
        let batch = batch.min(shape.len() - 1);
        let depth = depth.min(shape.len() - batch);
        let (shared, slice) = (&shape[..batch], &shape[batch + depth..]);
        let rows = [shared, &outer[..]].concat();
        let (mut index, mut found) = (Vec::new(), Vec::new());
        for at in places(&rows) {
            let mut place = at[..batch].to_vec();
            for len in &shape[batch..batch + depth] {
                let (own, signed) = signed(&mut random, *len);
                place.push(own);
                index.push(signed);
            }
            found.push(place);
        }
        let index = integer(&[&rows[..], &[depth]].concat(), &index);
        let data = reals(&mut random, &shape);
        let values = data.array.to_f64();
        let of_slices: Vec<usize> = found
            .iter()
            .flat_map(|place| places(slice).into_iter().map(|rest| flat(&shape, &[&place[..], &rest].concat())).collect::<Vec<_>>())
            .collect();
        let made = [&rows[..], slice].concat();
        let node = Node::new("g", Op::GatherND).attribute("batch_dims", Attribute::Int(batch as i64));
        let expected: Vec<f64> = of_slices.iter().map(|place| values[*place]).collect();
        prop_assert_eq!(run(node.clone(), &[data.clone(), index.clone()], &Tensors::default()).unwrap(), real(&made, &expected));
        prop_assert!(magnitude(node, &[data.clone(), index.clone()]).is_none());
        if batch > 0 {
            return Ok(());
        }
        let reduction = REDUCTIONS[reduction];
        let updates = reals(&mut random, &made);
        let mut expected = values;
        for (place, by) in of_slices.into_iter().zip(updates.array.to_f64()) {
            expected[place] = update(reduction, expected[place], by);
        }
        let node = text(Node::new("s", Op::ScatterND), "reduction", reduction);
        let found = run(node.clone(), &[data.clone(), index.clone(), updates.clone()], &Tensors::default()).unwrap();
        assert_close(&found, &shape, &expected);
        let rounds = matches!(reduction, "add" | "mul");
        prop_assert!(rounds || magnitude(node.clone(), &[data.clone(), index.clone(), updates.clone()]).is_none());
        let integers = run(node, &[as_integers(&data), index, as_integers(&updates)], &Tensors::default());
        prop_assert!(integers.is_ok_and(|value| matches!(value.array, Array::I32(_))));
    }

    #[test]
    fn elements_are_found_and_updated_by_their_place_on_an_axis(shape in prop::collection::vec(1usize..4, 1..4), axis in 0usize..3, count in 0usize..5, reduction in 0usize..5, seed: u64) {
        let mut random = Random::new(seed);
        let axis = axis % shape.len();
        let mut lens: Vec<usize> = shape.iter().map(|len| random.between(1, *len)).collect();
        lens[axis] = count;
        let (mut index, mut found) = (Vec::new(), Vec::new());
        for mut at in places(&lens) {
            let (own, signed) = signed(&mut random, shape[axis]);
            at[axis] = own;
            index.push(signed);
            found.push(flat(&shape, &at));
        }
        let (data, index) = (reals(&mut random, &shape), integer(&lens, &index));
        let values = data.array.to_f64();
        let along = Attribute::Int(axis as i64 - shape.len() as i64);
        let node = Node::new("g", Op::GatherElements).attribute("axis", along.clone());
        let expected: Vec<f64> = found.iter().map(|place| values[*place]).collect();
        prop_assert_eq!(run(node, &[data.clone(), index.clone()], &Tensors::default()).unwrap(), real(&lens, &expected));
        let reduction = REDUCTIONS[reduction];
        let updates = reals(&mut random, &lens);
        let mut expected = values;
        for (place, by) in found.into_iter().zip(updates.array.to_f64()) {
            expected[place] = update(reduction, expected[place], by);
        }
        let node = text(Node::new("s", Op::ScatterElements), "reduction", reduction).attribute("axis", along);
        assert_close(&run(node, &[data, index, updates], &Tensors::default()).unwrap(), &shape, &expected);
    }
}

#[test]
fn a_place_outside_its_axis_is_refused_with_the_axis_own_bound() {
    let data = real(&[2, 3], &[0.0; 6]);
    let found = |index: &[i32]| {
        run(Node::new("g", Op::GatherND), &[data.clone(), integer(&[1, 2], index)], &Tensors::default())
    };
    assert!(found(&[1, 2]).is_ok() && found(&[-2, -3]).is_ok());
    for (index, bound) in [([2, 0], "less than 2"), ([0, 3], "less than 3"), ([-3, 0], "at least -2")] {
        let error = found(&index).unwrap_err().to_string();
        assert!(error.contains("out of range") && error.contains(bound), "{error}");
    }
}

#[test]
fn places_that_do_not_fit_the_value_are_refused() {
    let data = real(&[2, 3], &[0.0; 6]);
    let nd = |index: Value| run(Node::new("g", Op::GatherND), &[data.clone(), index], &Tensors::default());
    for index in [integer(&[1, 3], &[0; 3]), integer(&[2, 0], &[]), integer(&[], &[0])] {
        assert!(nd(index).is_err());
    }
    let scatter = |updates: Value| {
        run(
            Node::new("s", Op::ScatterND),
            &[data.clone(), integer(&[1, 1], &[0]), updates],
            &Tensors::default(),
        )
    };
    assert!(scatter(real(&[1, 3], &[0.0; 3])).is_ok() && scatter(real(&[1, 2], &[0.0; 2])).is_err());
    let node = text(Node::new("s", Op::ScatterND), "reduction", "mean");
    let inputs = [data.clone(), integer(&[1, 1], &[0]), real(&[1, 3], &[0.0; 3])];
    assert!(run(node, &inputs, &Tensors::default()).unwrap_err().to_string().contains("'mean'"));
    let elements =
        |index: Value| run(Node::new("g", Op::GatherElements), &[data.clone(), index], &Tensors::default());
    assert!(elements(integer(&[9, 3], &[0; 27])).is_ok());
    assert!(elements(integer(&[1, 4], &[0; 4])).is_err() && elements(integer(&[1], &[0])).is_err());
}

#[test]
fn infinity_counts_with_the_signs_that_are_asked_for() {
    let x = real(&[4], &[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0]);
    for (negative, positive, expected) in
        [(1, 1, [1, 1, 0, 0]), (0, 1, [1, 0, 0, 0]), (1, 0, [0, 1, 0, 0]), (0, 0, [0; 4])]
    {
        let node = Node::new("n", Op::IsInf)
            .attribute("detect_negative", Attribute::Int(negative))
            .attribute("detect_positive", Attribute::Int(positive));
        assert_eq!(
            run(node, std::slice::from_ref(&x), &Tensors::default()).unwrap(),
            integer(&[4], &expected)
        );
    }
}

#[test]
fn the_lengths_of_axes_are_known_when_the_graph_is_lowered() {
    let lens = |start: i64, end: i64| {
        let node = Node::new("n", Op::Shape)
            .attribute("start", Attribute::Int(start))
            .attribute("end", Attribute::Int(end));
        run(node, &[real(&[2, 3, 0], &[])], &Tensors::default()).unwrap()
    };
    assert_eq!(
        run(Node::new("n", Op::Shape), &[real(&[2, 3, 0], &[])], &Tensors::default()).unwrap(),
        integer(&[3], &[2, 3, 0])
    );
    assert_eq!(
        (lens(-2, 9), lens(1, -1), lens(2, 1)),
        (integer(&[2], &[3, 0]), integer(&[1], &[3]), integer(&[0], &[]))
    );
}
