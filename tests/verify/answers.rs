//! What `diff`, `verify` and `run` answer where names, inputs or dtypes do not fit.

use crate::command::ckpt;
use crate::support::{archive, dense_net, image_net};
use ckpt::Registry;
use ckpt::api::Kind;
use ckpt::verify::verify;
use std::path::Path;

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_saved_model");

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
