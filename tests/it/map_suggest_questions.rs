//! `ckpt map suggest`: what it asks where it cannot know the steps.

use crate::common::tensors::{Tensors, Values, tensor, values};
use crate::common::workplace::Workplace;

/// The questions about two checkpoints of these tensors, and the mapping that is written in spite of them.
fn open(a: &Tensors, b: &Tensors) -> (String, String) {
    let place = Workplace::new();
    place.checkpoint("a.safetensors", a);
    place.checkpoint("b.safetensors", b);
    let command = ["map", "suggest", "a.safetensors", "b.safetensors"];
    let output = place.ckpt(&command);
    let asked = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{asked}");
    (asked, place.says(&[&command[..], &["--accept-ambiguous"]].concat()))
}

/// The questions about one tensor and another.
fn between(a: Values, b: Values) -> (String, String) {
    open(&vec![tensor("m/x", a)], &vec![tensor("n.x", b)])
}

#[test]
fn suggest_asks_which_steps_parts_need_that_equal_their_transposes() {
    let symmetric = |from: f32| vec![from, from + 1.0, from + 1.0, from + 2.0];
    let whole = || tensor("m/whole", (vec![4, 2], [symmetric(1.0), symmetric(7.0)].concat()));
    let parts =
        || vec![tensor("n.one", (vec![2, 2], symmetric(1.0))), tensor("n.two", (vec![2, 2], symmetric(7.0)))];
    for (a, b, pair) in [
        (vec![whole()], parts(), "'m/whole' -> 'n.one', 'n.two'"),
        (parts(), vec![whole()], "'n.one', 'n.two' -> 'm/whole'"),
    ] {
        let (asked, text) = open(&a, &b);
        let question = format!("question: which steps does {pair} need: no step, or transpose?");
        assert!(asked.contains(&question) && asked.contains("leave 1 question open"), "{asked}");
        assert!(text.contains("Check these steps: others are equally possible"), "{text}");
    }
}

/// The axes in an order that is not tried, of a tensor whose lengths show the order or do not.
#[test]
fn suggest_says_that_it_did_not_try_all_orders_of_many_axes() {
    let moved = |shape: [usize; 5]| {
        let (_, all) = values(1, &shape);
        let [a, b, c, d, e] = shape;
        let turned =
            (0..a).flat_map(move |i| (0..c).flat_map(move |k| (0..b).map(move |j| (i * b + j) * c + k)));
        let turned = turned.flat_map(|block| all[block * d * e..(block + 1) * d * e].to_vec()).collect();
        (vec![a, c, b, d, e], turned)
    };
    let why = "not all steps were tried: only some orders of so many axes are tried";
    let (asked, text) = between(values(1, &[2; 5]), moved([2; 5]));
    assert!(asked.contains(&format!("have the elements of 'm/x'? {why}")), "{asked}");
    assert!(
        text.contains("# 1 pair: the elements are the same, in an order for which not all steps were tried"),
        "{text}"
    );
    assert!(!text.contains("no steps make"), "{text}");
    let (asked, text) = between(values(1, &[2, 3, 4, 5, 6]), moved([2, 3, 4, 5, 6]));
    assert!(
        asked.contains(&format!("what makes 'n.x' of 'm/x'? the elements are the same, and {why}")),
        "{asked}"
    );
    assert!(text.contains("not all steps were tried") && !text.contains("no steps make"), "{text}");
}

#[test]
fn suggest_says_that_it_did_not_compare_the_parts_of_long_axes() {
    let (shape, mut values) = values(0, &[(1 << 22) + 1]);
    let own = (shape.clone(), values.clone());
    values.reverse();
    let (asked, _) = between(own, (shape, values));
    assert!(
        asked.contains("not all steps were tried: the axes are too long to compare their parts"),
        "{asked}"
    );
}

/// Rows that sum to the same show no lengths of images.
#[test]
fn suggest_says_that_it_did_not_compare_all_orders_of_images() {
    let rows = |is_turned: &dyn Fn(usize) -> bool| {
        let row = |k: usize| if is_turned(k) { [2.0, 1.0] } else { [1.0, 2.0] };
        (vec![720, 2], (0..720).flat_map(row).collect::<Vec<f32>>())
    };
    let (a, b) = (rows(&|k| k < 5), rows(&|k| [3, 100, 101, 460, 719].contains(&k)));
    let (asked, _) = between(a, b);
    assert!(
        asked.contains("not all steps were tried: more orders of images are possible than are compared"),
        "{asked}"
    );
}

#[test]
fn suggest_reshapes_tensors_whose_values_are_equal_then() {
    let place = Workplace::new();
    let (q, o) = (values(1, &[8, 2, 3]), values(2, &[2, 3, 8]));
    let turned = |rows: usize, columns: usize, numbers: &[f32]| {
        let at = |column: usize| (0..rows).map(move |row| numbers[row * columns + column]);
        (vec![columns, rows], (0..columns).flat_map(at).collect::<Vec<f32>>())
    };
    let (of_q, of_o) = (turned(8, 6, &q.1), turned(6, 8, &o.1));
    let flat = (vec![48], values(3, &[48]).1);
    let a = [tensor("0/q/kernel", q), tensor("0/o/kernel", o), tensor("bias", values(3, &[4, 12]))];
    place.checkpoint("a.safetensors", &a);
    place.checkpoint("b.safetensors", &[tensor("0.q", of_q), tensor("0.o", of_o), tensor("0.b", flat)]);
    let text = place.says(&["map", "suggest", "a.safetensors", "b.safetensors"]);
    for steps in [
        "steps = [\"reshape 2 3 -> 6 on 1\", \"transpose\"]",
        "steps = [\"reshape 2 3 -> 6\", \"transpose\"]",
        "steps = [\"reshape 4 12 -> 48\"]",
    ] {
        assert!(text.contains(steps), "{steps}: {text}");
    }
    place.write("map.toml", &text);
    place.says(&["convert", "a.safetensors", "out.safetensors", "--map", "map.toml", "-q", "--no-sync"]);
    assert!(place.says(&["diff", "out.safetensors", "b.safetensors"]).contains("equal bit for bit"));
}
