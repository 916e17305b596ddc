//! `ckpt map suggest`: what it asks where it cannot know the steps.

#[path = "common/tensors.rs"]
mod tensors;
#[path = "common/workplace.rs"]
mod workplace;

use tensors::{Tensors, tensor};
use workplace::Workplace;

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
