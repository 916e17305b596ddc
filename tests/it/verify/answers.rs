//! What `diff`, `verify` and `run` answer where names, inputs or dtypes do not fit.

use super::command::ckpt;
use super::support::{archive, dense_net, image_net};
use ckpt::Registry;
use ckpt::api::Kind;
use ckpt::verify::verify;
use std::path::Path;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");
const BARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");

/// Returns the exit code, and what is on both streams.
fn answer(place: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = ckpt(place, arguments);
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), texts.concat())
}

fn converts(place: &Path, arguments: &[&str]) {
    let (code, text) = answer(place, &[&["convert", "-q", "--allow", "all"][..], arguments].concat());
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn two_arrays_are_compared_whatever_their_files_are_called() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    for (name, last) in [("x", 4.0), ("w", 4.5)] {
        archive(&place.join(format!("{name}.safetensors")), "t", &[2, 2], &[1.0, 2.0, 3.0, last]);
    }
    for (from, to) in [("x", "x.npy"), ("x", "again.npy"), ("w", "w.npy"), ("x", "t.npz")] {
        converts(place, &[&format!("{from}.safetensors"), to]);
    }
    for command in ["diff", "verify"] {
        let (code, text) = answer(place, &[command, "x.npy", "again.npy"]);
        assert!(code == Some(0) && text.contains("'x' is compared with 'again'"), "{text}");
        let (code, text) = answer(place, &[command, "x.npy", "w.npy"]);
        assert!(code == Some(4) && text.contains("largest difference 0.5, first at [1, 1]"), "{text}");
        assert!(!text.contains("only in") && !text.contains("same name"), "{text}");
        assert_eq!(answer(place, &[command, "t.npz", "x.npy"]).0, Some(0));
    }
}

#[test]
fn a_name_that_a_format_stores_counts_also_where_there_is_one_tensor_only() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // Also if the file has the name of its tensor.
    for (name, tensor) in [("one", "x"), ("x", "x"), ("two", "y")] {
        archive(&place.join(format!("{name}.safetensors")), tensor, &[2], &[1.0, 2.0]);
    }
    converts(place, &["x.safetensors", "x.npz"]);
    for first in ["one.safetensors", "x.safetensors", "x.npz"] {
        let (code, text) = answer(place, &["diff", first, "two.safetensors"]);
        assert!(code == Some(4) && text.contains("only in the first: x"), "{first}: {text}");
    }
}

#[test]
fn diff_names_the_command_that_compares_under_a_mapping() {
    let place = tempfile::tempdir().unwrap();
    converts(place.path(), &[DIGITS, "part.npz", "--include", "**/kernel"]);
    converts(place.path(), &[DIGITS, "other.npz", "--include", "digits/hidden/*"]);
    archive(&place.path().join("x.safetensors"), "x", &[2], &[1.0, 2.0]);
    for (a, b) in [(DIGITS, "x.safetensors"), ("part.npz", "other.npz")] {
        let (code, text) = answer(place.path(), &["diff", a, b]);
        assert!(code == Some(4) && text.contains("ckpt verify A B --map FILE"), "{text}");
    }
    let (_, text) = answer(place.path(), &["diff", DIGITS, "part.npz"]);
    assert!(!text.contains("--map"), "{text}");
}

#[test]
fn a_verdict_on_tensors_alone_says_that_nothing_was_run() {
    let place = tempfile::tempdir().unwrap();
    let (code, text) = answer(place.path(), &["verify", DIGITS, BARE]);
    assert!(code == Some(0) && text.contains("\npass (tensors only; nothing was run)\n"), "{text}");
    assert!(text.contains("tensors of the same name were compared"), "{text}");
    let (code, text) = answer(place.path(), &["verify", DIGITS, DIGITS]);
    assert!(code == Some(0) && text.contains("\npass\n"), "{text}");
}

#[test]
fn tensors_that_a_mapping_relates_are_not_said_to_have_the_same_name() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("map.toml"), "[[rule]]\nfrom = '{x:path}'\nto = 'm/{x}'\n").unwrap();
    converts(place.path(), &[BARE, "m.npz", "--map", "map.toml"]);
    let (code, text) = answer(place.path(), &["verify", BARE, "m.npz", "--map", "map.toml"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("tensors that the mapping map.toml relates were compared"), "{text}");
    assert!(!text.contains("of the same name"), "{text}");
}

/// A model whose graph is not known may compute the same: nothing was found to differ.
#[test]
fn a_checkpoint_without_a_graph_and_without_common_names_is_not_said_to_differ() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("map.toml"), "[[rule]]\nfrom = '{x:path}'\nto = 'm/{x}'\n").unwrap();
    converts(place.path(), &[BARE, "m.npz", "--map", "map.toml"]);
    for arguments in [["verify", DIGITS, "m.npz"], ["verify", "m.npz", DIGITS]] {
        let (code, text) = answer(place.path(), &arguments);
        assert_eq!(code, Some(1), "{text}");
        for words in ["no graph to run", "m.npz", "no tensor names in common", "--map"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn rounded_tensors_without_a_graph_are_judged_by_the_graph_of_the_other() {
    let place = tempfile::tempdir().unwrap();
    converts(place.path(), &[DIGITS, "half.npz", "--dtype", "f16"]);
    let (code, text) = answer(place.path(), &["verify", DIGITS, "half.npz"]);
    assert!(
        code == Some(0) && text.contains("\npass\n") && text.contains("bound: f32 stored as f16"),
        "{text}"
    );
    assert!(text.contains("half.npz has no graph: it was run with the graph of "), "{text}");
}

/// Whether the others compute the same, nothing shows.
#[test]
fn a_checkpoint_without_a_graph_and_with_some_of_the_tensors_is_not_judged_unless_they_differ() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    converts(place, &[DIGITS, "part.npz", "--include", "**/kernel"]);
    for arguments in [["verify", DIGITS, "part.npz"], ["verify", "part.npz", DIGITS]] {
        let (code, text) = answer(place, &arguments);
        assert_eq!(code, Some(1), "{text}");
        for words in ["cannot be judged", "part.npz", "2 of 2 tensors of the same name agree", "--map"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.contains("it lacks digits/digit/bias, digits/hidden/bias"), "{text}");
    }
    archive(&place.join("other.safetensors"), "digits/hidden/bias", &[32], &[7.0; 32]);
    let (code, text) = answer(place, &["verify", DIGITS, "other.safetensors"]);
    assert!(code == Some(4) && text.contains("\nfail (tensors only; nothing was run)\n"), "{text}");
}

#[test]
fn checkpoints_without_names_in_common_are_told_of_mappings_beside_activations() {
    let place = tempfile::tempdir().unwrap();
    converts(place.path(), &[DIGITS, "m.nn"]);
    for (a, b) in [(BARE, "m.nn"), ("m.nn", BARE)] {
        let (code, text) = answer(place.path(), &["verify", a, b]);
        assert_eq!(code, Some(2), "{text}");
        for words in ["no tensor names in common", "--map", "set activations="] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn models_that_take_different_inputs_are_said_to() {
    let error =
        verify(&Registry::builtin(), &dense_net().source(), &image_net().source(), &Default::default());
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Mismatch, "the models take different inputs"));
    let context = error.context();
    assert_eq!(context.found, Some("[?, 2, 5, 4] in the second"));
    assert_eq!(context.expected, Some("[?, 6], as in the first"));
}

#[test]
fn a_file_of_more_arrays_than_inputs_is_told_how_one_is_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    converts(place, &[DIGITS, "many.npz"]);
    for input in ["many.npz", "input=many.npz"] {
        let (code, text) = answer(place, &["run", DIGITS, "--input", input]);
        assert_eq!(code, Some(2), "{text}");
        for words in ["4 arrays: digits/hidden/kernel", "--input ", &format!("{input}:digits/hidden/kernel")]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn no_input_is_given_twice() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    for name in ["x", "input"] {
        archive(&place.join(format!("{name}.safetensors")), name, &[64], &[1.0; 64]);
    }
    let twice =
        |first: &str, second: &str| answer(place, &["run", DIGITS, "--input", first, "--input", second]);
    let (code, text) = twice("x.safetensors", "x.safetensors");
    assert!(code == Some(2) && text.contains("every input has an array already"), "{text}");
    for second in ["input.safetensors", "input=x.safetensors"] {
        let (code, text) = twice("x.safetensors", second);
        assert!(code == Some(2) && text.contains("the input is given twice"), "{text}");
    }
}

#[test]
fn elements_are_counted_outside_a_tolerance_only_where_there_is_one() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    archive(&place.join("a.safetensors"), "x", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    archive(&place.join("b.safetensors"), "x", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.5, 7.0]);
    for command in ["diff", "verify"] {
        let answer = |options: &[&str]| {
            let (code, text) =
                answer(place, &[&[command, "a.safetensors", "b.safetensors"], options].concat());
            assert!(code == Some(4) && text.contains("first at [1, 1]"), "{text}");
            text
        };
        assert!(!answer(&[]).contains("outside"));
        assert!(
            answer(&["--atol", "0.75"]).contains("2 ") && answer(&["--atol", "0.75"]).contains("(1 outside")
        );
    }
}

#[test]
fn a_tolerance_of_0_demands_equal_values_of_different_dtypes() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    converts(place, &[DIGITS, "single.npz"]);
    converts(place, &["single.npz", "half.npz", "--dtype", "f16"]);
    converts(place, &["half.npz", "wide.npz", "--dtype", "f32"]);
    for command in ["diff", "verify"] {
        assert_eq!(answer(place, &[command, "half.npz", "wide.npz"]).0, Some(4));
        let (code, text) = answer(place, &[command, "half.npz", "wide.npz", "--atol", "0"]);
        assert!(code == Some(0) && text.contains("f16 in "), "{text}");
        assert!(text.contains("the values are equal"), "{text}");
        assert_eq!(answer(place, &[command, "single.npz", "half.npz", "--rtol", "0"]).0, Some(4));
    }
}
